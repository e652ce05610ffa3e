#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/checked.h"
#include "checkpoint/folder.h"
#include "checkpoint/shard_index.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxConfigBytes = size_t{1} << 20;
constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kTokenMapName = "engram_token_map.i32";

std::string Join(const std::string& dir, std::string_view name) { return (fs::path(dir) / name).string(); }

/// The one safetensors file of a folder without an index.
Result<std::string> FindSingleFile(const std::string& dir) {
  std::error_code error;
  if (fs::exists(Join(dir, kSingleName), error)) return std::string(kSingleName);
  std::string found;
  fs::directory_iterator it(dir, error);
  if (error) return FolderProblem(error, dir);
  for (; it != fs::directory_iterator(); it.increment(error)) {
    if (error) return FolderProblem(error, dir);
    if (it->path().extension() != ".safetensors") continue;
    if (!found.empty()) return DataLoss("several safetensors files but no " + std::string(kIndexName), dir);
    found = it->path().filename().string();
  }
  if (error) return FolderProblem(error, dir);
  if (found.empty()) return NotFound("the folder has no safetensors file", dir);
  return found;
}

}  // namespace

/// Collects the parts of a checkpoint and checks them against each other.
class CheckpointOpener {
 public:
  CheckpointOpener(const std::string& dir, const OpenOptions& options)
      : options_(options), result_(std::shared_ptr<Checkpoint>(new Checkpoint())) {
    result_->dir_ = dir;
    result_->allowed_root_ = options.allowed_root;
  }

  Result<std::shared_ptr<Checkpoint>> Run() {
    DEEPINFER_RETURN_IF_ERROR(ReadConfig());
    std::error_code error;
    if (fs::exists(fs::symlink_status(Join(result_->dir_, kIndexName), error))) {
      DEEPINFER_RETURN_IF_ERROR(ReadIndex());
    } else {
      DEEPINFER_ASSIGN_OR_RETURN(std::string name, FindSingleFile(result_->dir_));
      names_.push_back(std::move(name));
    }
    for (const std::string& name : names_) DEEPINFER_RETURN_IF_ERROR(OpenOne(name));
    DEEPINFER_RETURN_IF_ERROR(OrderTensors());
    if (index_.has_value()) DEEPINFER_RETURN_IF_ERROR(CompareWithIndex());
    return std::move(result_);
  }

 private:
  Status ReadConfig() {
    DEEPINFER_ASSIGN_OR_RETURN(const std::string path, result_->ResolveFile(kConfigName));
    DEEPINFER_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxConfigBytes));
    auto config = ParseConfig(text);
    if (!config.ok()) return std::move(config).status().Within(Join(result_->dir_, kConfigName));
    result_->config_ = std::move(config).value();
    result_->config_sha256_ = Sha256Of(text);
    return OkStatus();
  }

  Status ReadIndex() {
    DEEPINFER_ASSIGN_OR_RETURN(const std::string path, result_->ResolveFile(kIndexName));
    DEEPINFER_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, ShardIndex::kMaxBytes));
    auto index = ShardIndex::Parse(text);
    if (!index.ok()) return std::move(index).status().Within(Join(result_->dir_, kIndexName));
    index_ = std::move(index).value();
    names_ = index_->shards();
    result_->index_sha256_ = Sha256Of(text);
    return OkStatus();
  }

  Status OpenOne(const std::string& name) {
    DEEPINFER_ASSIGN_OR_RETURN(const std::string path, result_->ResolveFile(name));
    DEEPINFER_ASSIGN_OR_RETURN(RandomAccessFile file, RandomAccessFile::Open(path));
    DEEPINFER_ASSIGN_OR_RETURN(SafetensorsFileHeader header, ReadSafetensorsHeader(file, options_.limits));
    Checkpoint::Shard shard;
    shard.name = name;
    shard.file_bytes = file.size();
    shard.payload_bytes = file.size() - header.data_start;
    shard.header_sha256 = header.sha256;
    result_->total_bytes_ += shard.payload_bytes;
    result_->shards_.push_back(std::move(shard));
    result_->open_.push_back(std::make_unique<Checkpoint::OpenShard>(std::move(file), std::move(header)));
    return OkStatus();
  }

  Status OrderTensors() {
    auto& order = result_->order_;
    for (size_t s = 0; s < result_->open_.size(); ++s) {
      const size_t count = result_->open_[s]->header.header.size();
      if (order.size() + count > static_cast<size_t>(kMaxTensors))
        return DataLoss("too many tensors", result_->dir_);
      for (size_t e = 0; e < count; ++e)
        order.push_back({static_cast<uint32_t>(s), static_cast<uint32_t>(e)});
    }
    const auto name = [this](Checkpoint::Location l) { return result_->NameOf(l); };
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return name(a) < name(b); });
    for (size_t i = 1; i < order.size(); ++i) {
      if (name(order[i]) != name(order[i - 1])) continue;
      return DataLoss("the tensor is in two shards: " + result_->shards_[order[i - 1].shard].name + " and " +
                          result_->shards_[order[i].shard].name,
                      std::string(name(order[i])));
    }
    return OkStatus();
  }

  Status CompareWithIndex() {
    const ShardIndex& index = *index_;
    const auto& order = result_->order_;
    size_t i = 0;
    size_t t = 0;
    while (i < index.size() || t < order.size()) {
      const std::string_view present = t < order.size() ? result_->NameOf(order[t]) : std::string_view();
      if (t == order.size() || (i < index.size() && index.name(i) < present)) {
        return DataLoss("the index places the tensor in " + names_[static_cast<size_t>(index.shard(i))] +
                            ", which does not have it",
                        std::string(index.name(i)));
      }
      const std::string& shard = names_[order[t].shard];
      if (i == index.size() || present < index.name(i)) {
        return DataLoss(shard + " has a tensor that the index does not name", std::string(present));
      }
      if (static_cast<uint32_t>(index.shard(i)) != order[t].shard) {
        return DataLoss("the index places the tensor in " + names_[static_cast<size_t>(index.shard(i))] +
                            ", it is in " + shard,
                        std::string(present));
      }
      ++i;
      ++t;
    }
    if (index.total_size().has_value() && *index.total_size() != result_->total_bytes_) {
      return DataLoss("total_size is " + std::to_string(*index.total_size()) + ", the payloads have " +
                          std::to_string(result_->total_bytes_) + " bytes",
                      Join(result_->dir_, kIndexName));
    }
    return OkStatus();
  }

  const OpenOptions& options_;
  std::shared_ptr<Checkpoint> result_;
  std::optional<ShardIndex> index_;
  std::vector<std::string> names_;  // of the shards, ascending
};

Result<std::shared_ptr<Checkpoint>> Checkpoint::Open(const std::string& dir, const OpenOptions& options) {
  return CheckpointOpener(dir, options).Run();
}

Result<std::string> Checkpoint::ResolveFile(std::string_view name) const {
  if (!IsPlainFileName(name)) return DataLoss("not a plain file name", std::string(name.substr(0, 80)));
  return ResolveInFolder(dir_, allowed_root_, name);
}

std::string_view Checkpoint::NameOf(Location location) const {
  return open_[location.shard]->header.header.entry(location.entry).name;
}

TensorInfo Checkpoint::tensor(size_t index) const {
  const Location location = order_[index];
  const SafetensorsFileHeader& file = open_[location.shard]->header;
  const SafetensorsHeader::Entry entry = file.header.entry(location.entry);
  TensorInfo info;
  info.name = entry.name;
  info.dtype = entry.dtype;
  info.shape = entry.shape;
  info.shard = static_cast<int>(location.shard);
  info.file_offset = file.data_start + entry.begin;
  info.num_bytes = entry.end - entry.begin;
  return info;
}

std::optional<size_t> Checkpoint::FindIndex(std::string_view name) const {
  const auto it =
      std::lower_bound(order_.begin(), order_.end(), name,
                       [this](Location location, std::string_view key) { return NameOf(location) < key; });
  if (it == order_.end() || NameOf(*it) != name) return std::nullopt;
  return static_cast<size_t>(it - order_.begin());
}

std::optional<TensorInfo> Checkpoint::FindInfo(std::string_view name) const {
  const auto index = FindIndex(name);
  return index.has_value() ? std::optional(tensor(*index)) : std::nullopt;
}

Result<TensorRef> Checkpoint::Find(std::string_view name) const {
  const auto info = FindInfo(name);
  if (!info.has_value()) return NotFound("the checkpoint has no such tensor", std::string(name));
  return Map(*info);
}

Result<TensorRef> Checkpoint::Map(const TensorInfo& info) const {
  OpenShard& shard = *open_[static_cast<size_t>(info.shard)];
  std::span<const std::byte> bytes;
  {
    const std::lock_guard lock(shard.mutex);
    if (shard.map == nullptr) {
      DEEPINFER_ASSIGN_OR_RETURN(shard.map, MappedFile::Map(shard.file.path()));
    }
    bytes = shard.map->bytes();
  }
  // The file may have changed between reading its header and mapping it.
  if (bytes.size() < info.file_offset || bytes.size() - info.file_offset < info.num_bytes) {
    return DataLoss("the file was cut", shard.file.path());
  }
  TensorRef ref;
  static_cast<TensorInfo&>(ref) = info;
  ref.bytes = bytes.subspan(info.file_offset, info.num_bytes);
  return ref;
}

Status Checkpoint::Read(const TensorInfo& info, uint64_t offset, std::span<std::byte> out) const {
  if (offset > info.num_bytes || out.size() > info.num_bytes - offset) {
    return InvalidArgument("the range lies outside the tensor", std::string(info.name));
  }
  return open_[static_cast<size_t>(info.shard)]->file.ReadAt(info.file_offset + offset, out);
}

Status Checkpoint::CheckMaps() const {
  for (const auto& shard : open_) {
    const std::lock_guard lock(shard->mutex);
    if (shard->map != nullptr) DEEPINFER_RETURN_IF_ERROR(shard->map->Check());
  }
  return OkStatus();
}

Sha256Digest Checkpoint::digest() const {
  Sha256 hash;
  const auto add = [&hash](std::string_view name, const Sha256Digest& digest) {
    hash.Update(name);
    hash.Update("\n" + ToHex(digest) + "\n");
  };
  add(kConfigName, config_sha256_);
  if (index_sha256_.has_value()) add(kIndexName, *index_sha256_);
  for (const Shard& shard : shards_) {
    add(shard.name, shard.header_sha256);
    hash.Update(std::to_string(shard.file_bytes) + "\n");
  }
  return hash.Finish();
}

Result<EngramRowReader> EngramRowReader::Open(std::shared_ptr<const Checkpoint> checkpoint, int layer) {
  const ModelConfig& config = checkpoint->config();
  const int index = config.engram_index(layer);
  if (index < 0) return NotFound("the layer has no Engram table", "layer " + std::to_string(layer));
  const std::string prefix = "layers." + std::to_string(layer) + ".engram.embed.";
  const auto codes = checkpoint->FindInfo(prefix + "weight");
  const auto scales = checkpoint->FindInfo(prefix + "scale");
  if (!codes.has_value() || !scales.has_value())
    return NotFound("the checkpoint has no such tensor", prefix + "weight / scale");

  const uint64_t rows = static_cast<uint64_t>(config.engram_num_embeddings[static_cast<size_t>(index)]);
  const uint64_t width = static_cast<uint64_t>(config.engram_head_dim);
  const auto has_shape = [rows](const TensorInfo& t, uint64_t columns) {
    return t.shape.size() == 2 && t.shape[0] == rows && t.shape[1] == columns;
  };
  if (codes->dtype != StorageDtype::kF8E4M3 || !has_shape(*codes, width) ||
      scales->dtype != StorageDtype::kF8E8M0 || !has_shape(*scales, width / 32)) {
    return DataLoss("the Engram table has an unexpected dtype or shape", prefix + "weight / scale");
  }
  EngramRowReader reader;
  reader.codes_ = *codes;
  reader.scales_ = *scales;
  reader.num_rows_ = static_cast<int64_t>(rows);
  reader.code_bytes_ = static_cast<int64_t>(width);
  reader.scale_bytes_ = static_cast<int64_t>(width / 32);
  reader.checkpoint_ = std::move(checkpoint);
  return reader;
}

Status EngramRowReader::Read(int64_t row, std::span<std::byte> codes, std::span<std::byte> scales) const {
  if (row < 0 || row >= num_rows_)
    return InvalidArgument("the Engram row does not exist", "row " + std::to_string(row));
  if (codes.size() != static_cast<size_t>(code_bytes_) ||
      scales.size() != static_cast<size_t>(scale_bytes_)) {
    return InvalidArgument("the buffers do not have the size of a row");
  }
  DEEPINFER_RETURN_IF_ERROR(checkpoint_->Read(codes_, static_cast<uint64_t>(row * code_bytes_), codes));
  return checkpoint_->Read(scales_, static_cast<uint64_t>(row * scale_bytes_), scales);
}

Result<EngramRowReader::Row> EngramRowReader::MapRow(int64_t row) const {
  if (row < 0 || row >= num_rows_)
    return InvalidArgument("the Engram row does not exist", "row " + std::to_string(row));
  DEEPINFER_ASSIGN_OR_RETURN(const TensorRef codes, checkpoint_->Map(codes_));
  DEEPINFER_ASSIGN_OR_RETURN(const TensorRef scales, checkpoint_->Map(scales_));
  return Row{
      codes.bytes.subspan(static_cast<size_t>(row * code_bytes_), static_cast<size_t>(code_bytes_)),
      scales.bytes.subspan(static_cast<size_t>(row * scale_bytes_), static_cast<size_t>(scale_bytes_))};
}

Result<std::optional<std::vector<int32_t>>> ReadEngramTokenMap(const Checkpoint& checkpoint) {
  auto path = checkpoint.ResolveFile(kTokenMapName);
  if (!path.ok() && path.status().code() == StatusCode::kNotFound)
    return std::optional<std::vector<int32_t>>();
  if (!path.ok()) return std::move(path).status();
  const auto entries = static_cast<size_t>(checkpoint.config().vocab_size);
  const int64_t classes = checkpoint.config().engram_compressed_vocab_size;
  auto read = ReadFile(*path, entries * 4);
  if (!read.ok() && read.status().code() != StatusCode::kResourceExhausted) return std::move(read).status();
  const std::string bytes = read.ok() ? std::move(read).value() : std::string();
  if (bytes.size() != entries * 4) return DataLoss("the token map does not have one int32 per token", *path);
  std::vector<int32_t> map(entries);
  int64_t largest = -1;
  for (size_t i = 0; i < entries; ++i) {
    uint32_t value = 0;
    for (size_t k = 0; k < 4; ++k) value |= uint32_t{static_cast<uint8_t>(bytes[4 * i + k])} << (8 * k);
    map[i] = static_cast<int32_t>(value);
    if (map[i] < 0 || map[i] >= classes) return DataLoss("the token map has a class out of range", *path);
    largest = std::max<int64_t>(largest, map[i]);
  }
  if (largest + 1 != classes) {
    return DataLoss("the token map has " + std::to_string(largest + 1) + " classes, the configuration says " +
                        std::to_string(classes),
                    *path);
  }
  return std::optional(std::move(map));
}

}  // namespace deepinfer
