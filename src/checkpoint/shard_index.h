// `model.safetensors.index.json` (spec: checkpoint.md §7, "Index file").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace deepinfer {

/// Which shard holds which tensor.
class ShardIndex {
 public:
  static constexpr size_t kMaxBytes = size_t{64} << 20;
  static constexpr size_t kMaxShards = 512;

  /// Errors (kDataLoss): not the expected JSON, a shard name that is no plain file name, a tensor named twice, too many entries.
  static Result<ShardIndex> Parse(std::string_view text);

  /// File names in ascending order.
  const std::vector<std::string>& shards() const { return shards_; }
  std::optional<uint64_t> total_size() const { return total_size_; }

  size_t size() const { return records_.size(); }
  /// Tensors in the order of their names.
  std::string_view name(size_t index) const {
    return std::string_view(names_).substr(records_[index].name_offset, records_[index].name_length);
  }
  int shard(size_t index) const { return records_[index].shard; }

 private:
  struct Record {
    uint32_t name_offset;
    uint16_t name_length;
    uint16_t shard;
  };
  Status ParseWeightMap(class JsonScanner& scanner);
  Status ParseMetadata(class JsonScanner& scanner);
  Status Finish();

  std::string names_;
  std::vector<Record> records_;
  std::vector<std::string> shards_;
  std::optional<uint64_t> total_size_;
};

/// Whether `name` is a file name without any path in it.
bool IsPlainFileName(std::string_view name);

}  // namespace deepinfer
