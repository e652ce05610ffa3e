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

std::string Join(const std::string& dir, std::string_view name) { return (fs::path(dir) / name).string(); }

Result<ModelConfig> ParseConfigOf(const std::string& dir, std::string_view text) {
  auto config = ParseConfig(text);
  if (!config.ok()) return std::move(config).status().Within(Join(dir, kConfigName));
  return config;
}

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
    DEEPINFER_ASSIGN_OR_RETURN(const std::string text, result_->ReadFile(kConfigName, kMaxConfigBytes));
    DEEPINFER_ASSIGN_OR_RETURN(result_->config_, ParseConfigOf(result_->dir_, text));
    result_->config_sha256_ = Sha256Of(text);
    return OkStatus();
  }

  Status ReadIndex() {
    DEEPINFER_ASSIGN_OR_RETURN(const std::string text, result_->ReadFile(kIndexName, ShardIndex::kMaxBytes));
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

Result<std::string> Checkpoint::ReadFile(std::string_view name, size_t max_bytes) const {
  DEEPINFER_ASSIGN_OR_RETURN(const std::string path, ResolveFile(name));
  return deepinfer::ReadFile(path, max_bytes, StatusCode::kDataLoss);
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

Result<ModelConfig> ReadModelConfig(const std::string& dir, const OpenOptions& options) {
  DEEPINFER_ASSIGN_OR_RETURN(const std::string text,
                             ReadInFolder(dir, options.allowed_root, kConfigName, kMaxConfigBytes));
  return ParseConfigOf(dir, text);
}

}  // namespace deepinfer
