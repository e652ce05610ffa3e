// A checkpoint folder: configuration, shards and access to tensors (spec: checkpoint.md §2, §7, §11).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/sha256.h"
#include "base/status.h"
#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"

namespace deepinfer {

struct OpenOptions {
  SafetensorsLimits limits;
  /// Files may be symbolic links to places below the folder or below this one (a hub cache); empty = below the folder only.
  std::string allowed_root;
};

/// Where one tensor lies. Views live as long as the Checkpoint.
struct TensorInfo {
  std::string_view name;
  StorageDtype dtype = StorageDtype::kU8;
  std::span<const uint64_t> shape;
  int shard = 0;             // index into shards()
  uint64_t file_offset = 0;  // of the first payload byte; aligned to nothing
  uint64_t num_bytes = 0;
};

/// A tensor with its mapped payload. `bytes` is not aligned: copy or use unaligned loads. When the file is cut while it is in use the
/// lost pages read as zeros and CheckMaps reports it.
struct TensorRef : TensorInfo {
  std::span<const std::byte> bytes;
};

/// An open checkpoint. Opening reads the configuration, the index and all headers, never a payload. Thread-safe.
class Checkpoint {
 public:
  struct Shard {
    std::string name;  // file name inside the folder
    uint64_t file_bytes = 0;
    uint64_t payload_bytes = 0;
    Sha256Digest header_sha256 = {};
  };

  /// Opens a folder with `config.json` and either `model.safetensors.index.json` or one safetensors file. Whether the tensors are
  /// those the configuration asks for is another question (inventory.h). Errors: kNotFound, kIo, kDataLoss (a file is unsound, the
  /// index disagrees with the shards, a link leaves the folder).
  static Result<std::shared_ptr<Checkpoint>> Open(const std::string& dir, const OpenOptions& options = {});

  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;
  ~Checkpoint() = default;

  const std::string& dir() const { return dir_; }
  const std::string& allowed_root() const { return allowed_root_; }
  const ModelConfig& config() const { return config_; }
  const std::vector<Shard>& shards() const { return shards_; }
  bool has_index() const { return index_sha256_.has_value(); }

  size_t num_tensors() const { return order_.size(); }
  /// Sum of all payloads in bytes.
  uint64_t total_bytes() const { return total_bytes_; }
  /// Tensor by position in the order of the names (byte-wise).
  TensorInfo tensor(size_t index) const;

  /// Position of a tensor in the order of the names; nothing when the checkpoint has no such tensor.
  std::optional<size_t> FindIndex(std::string_view name) const;
  /// Nothing when the checkpoint has no such tensor.
  std::optional<TensorInfo> FindInfo(std::string_view name) const;
  bool Contains(std::string_view name) const { return FindInfo(name).has_value(); }
  /// Finds a tensor and maps its shard on first use. Errors: kNotFound (no such tensor), kIo, kResourceExhausted (mapping).
  Result<TensorRef> Find(std::string_view name) const;
  Result<TensorRef> Map(const TensorInfo& info) const;

  /// Copies payload bytes [offset, offset + out.size()) of a tensor by positional reads. Errors: kInvalidArgument (outside the
  /// tensor), kIo, kDataLoss (the file was cut).
  Status Read(const TensorInfo& info, uint64_t offset, std::span<std::byte> out) const;

  /// kDataLoss naming the file when any shard was cut since it was mapped. Call it after reading mapped bytes.
  Status CheckMaps() const;

  /// SHA-256 over configuration, index and all headers (names, sizes and contents), in the order of the file names.
  Sha256Digest digest() const;

  /// Path of a regular file of this folder; links are held to the same rule as shards. Errors: kNotFound (no such entry), kDataLoss
  /// (a link to nothing or out of the folder, a folder, FIFO or device), kIo.
  Result<std::string> ResolveFile(std::string_view name) const;
  /// Content of a file of this folder. Errors: as ResolveFile, kDataLoss for more than `max_bytes`.
  Result<std::string> ReadFile(std::string_view name, size_t max_bytes) const;

 private:
  struct OpenShard {
    RandomAccessFile file;
    SafetensorsFileHeader header;
    std::mutex mutex;  // guards `map`
    std::shared_ptr<MappedFile> map;
    OpenShard(RandomAccessFile f, SafetensorsFileHeader h) : file(std::move(f)), header(std::move(h)) {}
  };
  struct Location {
    uint32_t shard;
    uint32_t entry;
  };
  friend class CheckpointOpener;

  Checkpoint() = default;
  std::string_view NameOf(Location location) const;

  std::string dir_;           // as given
  std::string allowed_root_;  // as given; may be empty
  ModelConfig config_;
  Sha256Digest config_sha256_ = {};
  std::optional<Sha256Digest> index_sha256_;
  std::vector<Shard> shards_;
  std::vector<std::unique_ptr<OpenShard>> open_;
  std::vector<Location> order_;  // by name
  uint64_t total_bytes_ = 0;
};

/// The configuration of a folder alone. Errors: as Checkpoint::Open.
Result<ModelConfig> ReadModelConfig(const std::string& dir, const OpenOptions& options = {});

}  // namespace deepinfer
