// Generated state of several sequences: window rings with staged rows, blocks of compressed entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/ops.h"
#include "kernels/random_data.h"

namespace deepinfer::kernels::testing {

/// Window KV of some sequences. Copies own their bytes; Views() are made for one copy.
class RandomWindows {
 public:
  /// Each sequence has a chunk of staged rows behind `chunk_begin` (sometimes none) and ring rows before it.
  RandomWindows(Rng& rng, int64_t sequences, int64_t dim, int64_t window);

  std::vector<WindowView> Views();
  int64_t count() const { return static_cast<int64_t>(rings_.size()); }
  int64_t capacity() const { return capacity_; }
  int32_t first(int64_t s) const { return rings_[static_cast<size_t>(s)].first; }
  int32_t chunk_begin(int64_t s) const { return rings_[static_cast<size_t>(s)].chunk_begin; }
  int64_t chunk_rows(int64_t s) const { return rings_[static_cast<size_t>(s)].chunk_rows; }
  /// Bytes of all rings, codes then scales.
  std::vector<uint8_t> RingBytes() const;

 private:
  struct Ring {
    int32_t first = 0, chunk_begin = 0;
    int64_t chunk_rows = 0;
    std::vector<uint8_t> codes, scales, chunk_codes, chunk_scales;
  };
  int64_t capacity_;
  std::vector<Ring> rings_;
};

/// Blocks of compressed entries of some sequences, at odd places inside their blocks.
class RandomEntries {
 public:
  RandomEntries(Rng& rng, EntryFormat format, int64_t dim, int64_t sequences, int64_t entries);

  const EntryLayout& layout() const { return layout_; }
  std::vector<BlockTable> Tables();
  std::vector<uint8_t> AllBytes() const;

 private:
  EntryLayout layout_;
  std::vector<std::vector<std::vector<std::byte>>> blocks_;  // [sequence][block]
  std::vector<std::vector<std::byte*>> pointers_;
};

/// An E4M3 code that is no NaN.
uint8_t RandomE4m3(Rng& rng);

}  // namespace deepinfer::kernels::testing
