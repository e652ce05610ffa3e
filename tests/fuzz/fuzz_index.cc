// What the index parser accepts has unique, sorted tensor names and plain shard names.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "checkpoint/shard_index.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace deepinfer;
  const auto index = ShardIndex::Parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!index.ok()) return 0;
  Require(index->size() > 0);
  for (size_t i = 0; i < index->size(); ++i) {
    Require(i == 0 || index->name(i - 1) < index->name(i));
    Require(index->shard(i) >= 0 && static_cast<size_t>(index->shard(i)) < index->shards().size());
  }
  for (size_t s = 0; s < index->shards().size(); ++s) {
    Require(IsPlainFileName(index->shards()[s]));
    Require(s == 0 || index->shards()[s - 1] < index->shards()[s]);
  }
  return 0;
}
