#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

namespace deepinfer {
namespace {

constexpr int32_t kFree = -1;
constexpr int32_t kNoRank = INT32_MAX;
constexpr size_t kFilterBitsPerSlot =
    4;  // one look-up in nine passes the filter in vain when half of the slots are used
constexpr uint64_t kNoPair = UINT64_MAX;  // ids are not negative, so no pair has this key
// Up to this length a scan for the best pair is faster than the heap (measured on mixed text).
constexpr size_t kShortPiece = 48;

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

uint64_t Scramble(uint64_t x) {
  x *= 0x9E3779B97F4A7C15u;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93u;
  return x ^ x >> 32;
}

}  // namespace

uint64_t HashBytes(std::string_view bytes) {
  uint64_t hash = bytes.size();
  while (bytes.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    hash = Scramble(hash ^ word);
    bytes.remove_prefix(8);
  }
  uint64_t word = 0;
  if (!bytes.empty()) std::memcpy(&word, bytes.data(), bytes.size());
  return Scramble(hash ^ word);
}

void StringIndex::Reserve(size_t count) {
  slots_.assign(std::bit_ceil(std::max<size_t>(count, 8) * 2), Slot{0, kFree});
}

bool StringIndex::Insert(const ByteStrings& strings, int32_t id) {
  const uint64_t hash = HashBytes(strings[id]);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  for (; slots_[at].id != kFree; at = (at + 1) & mask) {
    if (slots_[at].tag == tag && strings[slots_[at].id] == strings[id]) return false;
  }
  slots_[at] = {tag, id};
  return true;
}

std::optional<int32_t> StringIndex::Find(const ByteStrings& strings, std::string_view key,
                                         uint64_t hash) const {
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask; slots_[at].id != kFree; at = (at + 1) & mask) {
    if (slots_[at].tag == tag && strings[slots_[at].id] == key) return slots_[at].id;
  }
  return std::nullopt;
}

inline size_t Bpe::FilterWord(uint64_t hash) const { return (hash >> 32) & (filter_.size() - 1); }

inline uint64_t Bpe::FilterBit(uint64_t hash) { return uint64_t{1} << (hash >> 58); }

inline int32_t Bpe::RankOf(int32_t left, int32_t right) const {
  const uint64_t pair = PairKey(left, right);
  const uint64_t hash = Scramble(pair);
  if ((filter_[FilterWord(hash)] & FilterBit(hash)) == 0) return kNoRank;
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].pair != pair && slots_[at].pair != kNoPair) at = (at + 1) & mask;
  return slots_[at].rank;
}

Bpe::Bpe(const std::vector<int32_t>& byte_ids, const std::vector<Merge>& merges) : byte_ids_(byte_ids) {
  slots_.assign(std::bit_ceil(std::max<size_t>(merges.size(), 8) * 2), Slot{kNoPair, kNoRank});
  filter_.resize(slots_.size() * kFilterBitsPerSlot / 64);
  const size_t mask = slots_.size() - 1;
  result_of_.reserve(merges.size());
  for (const Merge& merge : merges) {
    const uint64_t pair = PairKey(merge.left, merge.right);
    const uint64_t hash = Scramble(pair);
    filter_[FilterWord(hash)] |= FilterBit(hash);
    size_t at = hash & mask;
    while (slots_[at].pair != kNoPair) at = (at + 1) & mask;
    slots_[at] = {pair, static_cast<int32_t>(result_of_.size())};
    result_of_.push_back(merge.result);
  }
  byte_ranks_.resize(256 * 256);
  for (size_t left = 0; left < 256; ++left) {
    for (size_t right = 0; right < 256; ++right) {
      byte_ranks_[left * 256 + right] = RankOf(byte_ids_[left], byte_ids_[right]);
    }
  }
}

void Bpe::Encode(std::string_view piece, Scratch* scratch, std::vector<int32_t>* ids) const {
  const size_t size = piece.size();
  auto& symbol = scratch->symbol;
  auto& rank = scratch->rank;
  symbol.resize(size);
  rank.resize(size);
  for (size_t i = 0; i < size; ++i) {
    const auto byte = static_cast<uint8_t>(piece[i]);
    symbol[i] = byte_ids_[byte];
    rank[i] = i + 1 < size ? byte_ranks_[byte * size_t{256} + static_cast<uint8_t>(piece[i + 1])] : kNoRank;
  }
  if (size <= kShortPiece) {
    EncodeShort(scratch);
  } else {
    EncodeLong(scratch);
  }
  ids->insert(ids->end(), symbol.begin(), symbol.end());
}

// rank[i] is the rank of the pair that begins at symbol i.
void Bpe::EncodeShort(Scratch* scratch) const {
  auto& symbol = scratch->symbol;
  auto& rank = scratch->rank;
  while (symbol.size() > 1) {
    const auto best = std::min_element(rank.begin(), rank.end());  // the leftmost of equals
    if (*best == kNoRank) return;
    const auto i = static_cast<size_t>(best - rank.begin());
    symbol[i] = result_of_[static_cast<size_t>(*best)];
    symbol.erase(symbol.begin() + static_cast<ptrdiff_t>(i) + 1);
    rank.erase(best + 1);
    if (i > 0) rank[i - 1] = RankOf(symbol[i - 1], symbol[i]);
    rank[i] = i + 1 < symbol.size() ? RankOf(symbol[i], symbol[i + 1]) : kNoRank;
  }
}

// The same with a linked list and a heap of (rank, position). A heap entry is stale, and skipped, when the pair that now
// begins at its position has another rank; equal ranks mean the same pair of tokens.
void Bpe::EncodeLong(Scratch* scratch) const {
  auto& [symbol, next, previous, rank, heap] = *scratch;
  const auto size = static_cast<int32_t>(symbol.size());
  next.resize(symbol.size());
  previous.resize(symbol.size());
  heap.clear();
  const auto entry = [&](int32_t i) {
    return static_cast<uint64_t>(rank[i]) << 32 | static_cast<uint32_t>(i);
  };
  for (int32_t i = 0; i < size; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;
    if (rank[i] != kNoRank) heap.push_back(entry(i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto refresh = [&](int32_t i) {
    rank[i] = next[i] < size ? RankOf(symbol[i], symbol[next[i]]) : kNoRank;
    if (rank[i] == kNoRank) return;
    heap.push_back(entry(i));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto i = static_cast<int32_t>(heap.back() & UINT32_MAX);
    const auto popped_rank = static_cast<int32_t>(heap.back() >> 32);
    heap.pop_back();
    if (rank[i] != popped_rank) continue;
    const int32_t gone = next[i];
    symbol[i] = result_of_[popped_rank];
    next[i] = next[gone];
    if (next[i] < size) previous[next[i]] = i;
    rank[gone] = kNoRank;
    refresh(i);
    if (previous[i] >= 0) refresh(previous[i]);
  }
  size_t kept = 0;
  for (int32_t i = 0; i < size; i = next[i]) symbol[kept++] = symbol[i];
  symbol.resize(kept);
}

}  // namespace deepinfer
