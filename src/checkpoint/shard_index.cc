#include "checkpoint/shard_index.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/utf8.h"
#include "checkpoint/config.h"
#include "checkpoint/json_scanner.h"

namespace deepinfer {
namespace {

constexpr size_t kMaxNameBytes = 512;
constexpr int kMaxDepth = 8;

bool IsPrintableAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
}

}  // namespace

bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." && IsPrintableAscii(name) &&
         name.find_first_of("/\\") == std::string_view::npos;
}

Status ShardIndex::ParseMetadata(JsonScanner& scanner) {
  DEEPINFER_RETURN_IF_ERROR(scanner.Expect('{'));
  if (scanner.Consume('}')) return OkStatus();
  std::string key;
  do {
    key.clear();
    DEEPINFER_RETURN_IF_ERROR(scanner.ReadString(kMaxNameBytes, &key));
    DEEPINFER_RETURN_IF_ERROR(scanner.Expect(':'));
    if (key != "total_size") {
      DEEPINFER_RETURN_IF_ERROR(scanner.SkipValue(kMaxDepth));
      continue;
    }
    if (total_size_.has_value()) return scanner.Error("total_size occurs twice");
    uint64_t size = 0;
    DEEPINFER_RETURN_IF_ERROR(scanner.ReadUnsigned(&size));
    total_size_ = size;
  } while (scanner.Consume(','));
  return scanner.Expect('}');
}

Status ShardIndex::ParseWeightMap(JsonScanner& scanner) {
  DEEPINFER_RETURN_IF_ERROR(scanner.Expect('{'));
  if (scanner.Consume('}')) return OkStatus();
  std::map<std::string, uint16_t, std::less<>> numbers;
  std::string file;
  do {
    const size_t start = names_.size();
    DEEPINFER_RETURN_IF_ERROR(scanner.ReadString(kMaxNameBytes, &names_));
    const std::string_view name = std::string_view(names_).substr(start);
    if (name.empty() || !IsPrintableAscii(name))
      return scanner.Error("a tensor name is empty or not printable ASCII");
    if (records_.size() >= static_cast<size_t>(kMaxTensors)) return scanner.Error("too many tensors");
    DEEPINFER_RETURN_IF_ERROR(scanner.Expect(':'));
    file.clear();
    DEEPINFER_RETURN_IF_ERROR(scanner.ReadString(kMaxNameBytes, &file));
    auto it = numbers.find(file);
    if (it == numbers.end()) {
      if (!IsPlainFileName(file)) return scanner.Error("a shard is not named by a plain file name");
      if (shards_.size() >= kMaxShards) return scanner.Error("too many shards");
      it = numbers.emplace(file, static_cast<uint16_t>(shards_.size())).first;
      shards_.push_back(file);
    }
    records_.push_back({static_cast<uint32_t>(start), static_cast<uint16_t>(name.size()), it->second});
  } while (scanner.Consume(','));
  return scanner.Expect('}');
}

/// Sorts shards and tensors by name and finds duplicates.
Status ShardIndex::Finish() {
  std::vector<uint16_t> order(shards_.size());
  std::iota(order.begin(), order.end(), uint16_t{0});
  std::sort(order.begin(), order.end(), [this](uint16_t a, uint16_t b) { return shards_[a] < shards_[b]; });
  std::vector<uint16_t> rank(order.size());
  for (size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<uint16_t>(i);
  std::sort(shards_.begin(), shards_.end());
  for (Record& record : records_) record.shard = rank[record.shard];

  const auto name_of = [this](const Record& r) {
    return std::string_view(names_).substr(r.name_offset, r.name_length);
  };
  std::sort(records_.begin(), records_.end(),
            [&](const Record& a, const Record& b) { return name_of(a) < name_of(b); });
  for (size_t i = 1; i < records_.size(); ++i) {
    if (name(i) == name(i - 1)) return DataLoss("the index names a tensor twice", std::string(name(i)));
  }
  return OkStatus();
}

Result<ShardIndex> ShardIndex::Parse(std::string_view text) {
  if (text.size() > kMaxBytes) return DataLoss("the index is longer than 64 MiB");
  if (unicode::FindInvalidUtf8(text) != std::string_view::npos) return DataLoss("the index is not UTF-8");
  ShardIndex index;
  JsonScanner scanner(text);
  bool has_map = false;
  bool has_metadata = false;
  std::string key;
  DEEPINFER_RETURN_IF_ERROR(scanner.Expect('{'));
  do {
    key.clear();
    DEEPINFER_RETURN_IF_ERROR(scanner.ReadString(kMaxNameBytes, &key));
    DEEPINFER_RETURN_IF_ERROR(scanner.Expect(':'));
    if (key == "weight_map") {
      if (std::exchange(has_map, true)) return scanner.Error("weight_map occurs twice");
      DEEPINFER_RETURN_IF_ERROR(index.ParseWeightMap(scanner));
    } else if (key == "metadata") {
      if (std::exchange(has_metadata, true)) return scanner.Error("metadata occurs twice");
      DEEPINFER_RETURN_IF_ERROR(index.ParseMetadata(scanner));
    } else {
      DEEPINFER_RETURN_IF_ERROR(scanner.SkipValue(kMaxDepth));
    }
  } while (scanner.Consume(','));
  DEEPINFER_RETURN_IF_ERROR(scanner.Expect('}'));
  if (scanner.rest().find_first_not_of(" \t\r\n") != std::string_view::npos)
    return scanner.Error("text behind the index");
  if (!has_map || index.records_.empty()) return DataLoss("the index has no weight_map");
  DEEPINFER_RETURN_IF_ERROR(index.Finish());
  return index;
}

}  // namespace deepinfer
