// Look-up tables for pieces of text whose tokens are known without merging. One cache line or two a look-up.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/bpe.h"

namespace deepinfer {

/// Byte strings of at most kMaxBytes bytes to ids; the bytes stand in the table itself.
class ShortTokenIndex {
 public:
  static constexpr size_t kMaxBytes = 19;

  /// Empties the index and makes room for `count` strings; more must not be inserted.
  void Reserve(size_t count);
  /// Enters a string of 1 … kMaxBytes bytes that is not in the index.
  void Insert(std::string_view bytes, int32_t id);
  /// `hash` is HashBytes(bytes).
  std::optional<int32_t> Find(std::string_view bytes, uint64_t hash) const {
    for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.size == 0) return std::nullopt;
      if (slot.size == bytes.size() && std::memcmp(slot.bytes.data(), bytes.data(), slot.size) == 0)
        return slot.id;
    }
  }

 private:
  struct Slot {
    int32_t id;
    uint8_t size;  // 0 = free
    std::array<char, kMaxBytes> bytes;
  };
  std::vector<Slot> slots_;  // the size is a power of two and at least twice the number of strings
};

/// The ids of pieces seen lately, one piece for each value of some bits of the hash. Small enough for a core's second-level cache.
class RecentPieces {
 public:
  static constexpr size_t kMaxBytes = 34, kMaxIds = 5;

  /// Must be called once, before anything else.
  void Allocate() { entries_.resize(kNumEntries); }
  bool allocated() const { return !entries_.empty(); }

  /// Appends the ids of the piece and returns true when it is here.
  bool Append(std::string_view piece, uint64_t hash, std::vector<int32_t>* ids) const {
    const Entry& entry = entries_[hash % kNumEntries];
    if (entry.hash != hash || entry.size != piece.size() ||
        std::memcmp(entry.bytes.data(), piece.data(), piece.size()) != 0) {
      return false;
    }
    ids->insert(ids->end(), entry.ids.begin(), entry.ids.begin() + entry.num_ids);
    return true;
  }
  /// Remembers a piece if it fits.
  void Store(std::string_view piece, uint64_t hash, std::span<const int32_t> ids) {
    if (piece.size() > kMaxBytes || ids.size() > kMaxIds) return;
    Entry& entry = entries_[hash % kNumEntries];
    entry.hash = hash;
    entry.size = static_cast<uint8_t>(piece.size());
    entry.num_ids = static_cast<uint8_t>(ids.size());
    std::memcpy(entry.bytes.data(), piece.data(), piece.size());
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
  }

 private:
  static constexpr size_t kNumEntries = 4096;
  struct alignas(64) Entry {
    uint64_t hash = 0;
    std::array<int32_t, kMaxIds> ids{};
    uint8_t size = 0;  // of the piece; 0 = free, and no piece is empty
    uint8_t num_ids = 0;
    std::array<char, kMaxBytes> bytes{};
  };
  static_assert(sizeof(Entry) == 64);
  std::vector<Entry> entries_;
};

}  // namespace deepinfer
