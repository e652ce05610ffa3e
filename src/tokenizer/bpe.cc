#include "tokenizer/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>

#include "base/checked.h"

namespace deepinfer {
namespace {

constexpr int32_t kFree = -1;
constexpr int32_t kNoRank = INT32_MAX;
constexpr size_t kFilterBitsPerSlot =
    4;  // one look-up in nine passes the filter in vain when half of the slots are used
constexpr int kIdBits = 20, kRankBits = 24;
constexpr uint64_t kFreeSlot = UINT64_MAX;  // no id has all bits set
// Up to this length a scan for the best pair is faster than the heap (measured on mixed text). Positions have six bits.
constexpr size_t kShortPiece = 64;
constexpr int kPositionBits = 6;

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << kIdBits | static_cast<uint64_t>(right);
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
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const uint64_t slot = slots_[at];
    if (slot == kFreeSlot) return kNoRank;
    if (slot >> kRankBits == pair) return static_cast<int32_t>(slot & ((uint64_t{1} << kRankBits) - 1));
  }
}

Bpe::Bpe(const std::vector<int32_t>& byte_ids, const std::vector<Merge>& merges) : byte_ids_(byte_ids) {
  slots_.assign(std::bit_ceil(std::max<size_t>(merges.size(), 8) * 2), kFreeSlot);
  filter_.resize(slots_.size() * kFilterBitsPerSlot / 64);
  const size_t mask = slots_.size() - 1;
  result_of_.reserve(merges.size());
  for (const Merge& merge : merges) {
    const uint64_t pair = PairKey(merge.left, merge.right);
    const uint64_t hash = Scramble(pair);
    filter_[FilterWord(hash)] |= FilterBit(hash);
    size_t at = hash & mask;
    while (slots_[at] != kFreeSlot) at = (at + 1) & mask;
    slots_[at] = pair << kRankBits | result_of_.size();
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
  if (piece.size() <= kShortPiece) {
    EncodeShort(piece, ids);
  } else {
    EncodeLong(piece, scratch, ids);
  }
}

// A linked list of symbols. key[i] orders the pair that begins at symbol i: by rank, then by position; the smallest of all keys is
// found by a loop that the compiler turns into vector code.
void Bpe::EncodeShort(std::string_view piece, std::vector<int32_t>* ids) const {
  constexpr int32_t kNoKey = INT32_MAX;
  constexpr size_t kLanes = 8;
  std::array<int32_t, kShortPiece> key, symbol;
  std::array<uint8_t, kShortPiece> next, previous;
  const size_t size = piece.size(), padded = RoundUp(size, kLanes);
  const auto key_of = [](int32_t rank, size_t i) {
    return rank == kNoRank ? kNoKey : rank << kPositionBits | static_cast<int32_t>(i);
  };
  for (size_t i = 0; i < size; ++i) {
    const auto byte = static_cast<uint8_t>(piece[i]);
    symbol[i] = byte_ids_[byte];
    next[i] = static_cast<uint8_t>(i + 1);
    previous[i] = static_cast<uint8_t>(i - 1);
    key[i] = i + 1 < size ? key_of(byte_ranks_[byte * size_t{256} + static_cast<uint8_t>(piece[i + 1])], i)
                          : kNoKey;
  }
  std::fill(key.begin() + size, key.begin() + padded, kNoKey);
  while (true) {
    int32_t best = kNoKey;
    for (size_t i = 0; i < padded; ++i) best = std::min(best, key[i]);
    if (best == kNoKey) break;
    const auto i = static_cast<size_t>(best) & (kShortPiece - 1);
    const size_t gone = next[i], after = next[gone];
    symbol[i] = result_of_[static_cast<size_t>(best >> kPositionBits)];
    next[i] = static_cast<uint8_t>(after);
    key[gone] = kNoKey;
    if (after < size) {
      previous[after] = static_cast<uint8_t>(i);
      key[i] = key_of(RankOf(symbol[i], symbol[after]), i);
    } else {
      key[i] = kNoKey;
    }
    if (i > 0) {
      const size_t before = previous[i];
      key[before] = key_of(RankOf(symbol[before], symbol[i]), before);
    }
  }
  for (size_t i = 0; i < size; i = next[i]) ids->push_back(symbol[i]);
}

// The same with a heap of (rank, position). A heap entry is stale, and skipped, when the pair that now
// begins at its position has another rank; equal ranks mean the same pair of tokens.
void Bpe::EncodeLong(std::string_view piece, Scratch* scratch, std::vector<int32_t>* ids) const {
  auto& [symbol, next, previous, rank, heap] = *scratch;
  const auto size = static_cast<int32_t>(piece.size());
  for (auto* list : {&symbol, &next, &previous, &rank}) list->resize(piece.size());
  heap.clear();
  const auto entry = [&](int32_t i) {
    return static_cast<uint64_t>(rank[i]) << 32 | static_cast<uint32_t>(i);
  };
  for (int32_t i = 0; i < size; ++i) {
    const auto at = static_cast<size_t>(i);
    const auto byte = static_cast<uint8_t>(piece[at]);
    symbol[at] = byte_ids_[byte];
    next[i] = i + 1;
    previous[i] = i - 1;
    rank[at] = i + 1 < size ? byte_ranks_[byte * size_t{256} + static_cast<uint8_t>(piece[at + 1])] : kNoRank;
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
  for (int32_t i = 0; i < size; i = next[i]) ids->push_back(symbol[i]);
}

}  // namespace deepinfer
