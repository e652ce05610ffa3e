// Byte-pair encoding of one piece (spec: checkpoint.md §8.2, step 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer {

/// Strings of bytes back to back, numbered from 0.
class ByteStrings {
 public:
  void Append(std::string_view bytes) {
    blob_ += bytes;
    ends_.push_back(blob_.size());
  }
  int32_t size() const { return static_cast<int32_t>(ends_.size()); }
  std::string_view operator[](int32_t index) const {
    const size_t begin = index == 0 ? 0 : ends_[static_cast<size_t>(index) - 1];
    return std::string_view(blob_).substr(begin, ends_[static_cast<size_t>(index)] - begin);
  }

 private:
  std::string blob_;
  std::vector<size_t> ends_;
};

/// A 64-bit hash for tables in memory; no protection against chosen keys.
uint64_t HashBytes(std::string_view bytes);

/// Hash index from byte strings to ids; the strings stay with the caller.
class StringIndex {
 public:
  /// Empties the index and makes room for `count` strings; more must not be inserted.
  void Reserve(size_t count);
  /// Enters `strings[id]`; false when an equal string is already there. All calls take the same `strings`.
  bool Insert(const ByteStrings& strings, int32_t id);
  std::optional<int32_t> Find(const ByteStrings& strings, std::string_view key) const {
    return Find(strings, key, HashBytes(key));
  }
  /// The same with the key's hash at hand.
  std::optional<int32_t> Find(const ByteStrings& strings, std::string_view key, uint64_t hash) const;

 private:
  struct Slot {
    uint32_t tag;  // other bits of the hash than the place: strings are compared only when they are equal
    int32_t id;    // negative = free
  };
  std::vector<Slot> slots_;  // the size is a power of two and at least twice the number of strings
};

/// One merge rule; its rank is its place in the list.
struct Merge {
  int32_t left, right, result;
};

/// Largest id of a token and largest number of merge rules that Bpe takes.
inline constexpr int32_t kMaxBpeId = (1 << 20) - 2;
inline constexpr int32_t kMaxMerges = (1 << 24) - 1;

/// Merge rules, and the encoder that applies them. Immutable after construction, so safe from several threads.
class Bpe {
 public:
  /// Memory that one thread reuses between pieces.
  struct Scratch {
    std::vector<int32_t> symbol, next, previous, rank;
    std::vector<uint64_t> heap;
  };

  /// `byte_ids[b]` is the token of byte b. Pairs in `merges` must be distinct; ids and number of rules within the limits above.
  Bpe(const std::vector<int32_t>& byte_ids, const std::vector<Merge>& merges);

  /// Appends the ids of `piece`: lowest rank first, leftmost on ties, until no rule applies. O(n log n) time and O(n)
  /// memory for n bytes; n < 2^31.
  void Encode(std::string_view piece, Scratch* scratch, std::vector<int32_t>* ids) const;

 private:
  size_t FilterWord(uint64_t hash) const;
  static uint64_t FilterBit(uint64_t hash);
  int32_t RankOf(int32_t left, int32_t right) const;
  void EncodeShort(std::string_view piece, std::vector<int32_t>* ids) const;
  void EncodeLong(std::string_view piece, Scratch* scratch, std::vector<int32_t>* ids) const;

  std::vector<int32_t> byte_ids_;
  std::vector<uint64_t> slots_;  // pair << 24 | rank; open addressing by hash of the pair
  std::vector<uint64_t>
      filter_;  // bit set: some pair has this hash. Most look-ups end here, in a fast cache.
  std::vector<int32_t> result_of_;   // rank -> merged token
  std::vector<int32_t> byte_ranks_;  // rank of the pair of two bytes, [left * 256 + right]
};

}  // namespace deepinfer
