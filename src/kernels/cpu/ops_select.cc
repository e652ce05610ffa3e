// Selection of the best entries and blocks: radix selection on order-preserving keys, nothing is sorted.
#include <bit>
#include <cmath>

#include "kernels/cpu/back_end.h"

namespace deepinfer::kernels {
namespace {

/// Unsigned keys in the order of the floats; 0 for -inf and NaN, which are never selected. Both zeros get the same key.
uint32_t OrderKey(float score) {
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);
  const uint32_t negative = static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31);
  return score > -HUGE_VALF ? bits ^ (negative | 0x80000000u) : 0u;
}

/// Keys of one row and as much room again to narrow them down.
struct SelectScratch {
  uint32_t* keys;
  uint32_t* narrowed;
  SelectScratch(Scratch scratch, int64_t columns)
      : keys(scratch.Take<uint32_t>(columns)), narrowed(scratch.Take<uint32_t>(columns)) {}
};

/// The k best of n keys are those above `key` and the first `ties` equal to it.
struct Threshold {
  uint32_t key = 0;
  int64_t ties = 0;
};

/// Narrows the k-th best key digit by digit (11, 11 and 10 bits) with one histogram a pass, over the keys that share the digits
/// found so far.
Threshold FindThreshold(const SelectScratch& s, int64_t n, int64_t k) {
  constexpr int kDigits = 3;
  constexpr int kShifts[kDigits] = {21, 10, 0};
  constexpr uint32_t kMasks[kDigits] = {2047, 2047, 1023};
  const uint32_t* keys = s.keys;
  uint32_t prefix = 0;
  int64_t left = k;
  for (int digit = 0; digit < kDigits; ++digit) {
    const int shift = kShifts[digit];
    const uint32_t mask = kMasks[digit];
    // 1. Count the digit; two histograms, so that equal neighbours do not wait for each other.
    uint32_t counts[2][2048] = {};
    int64_t i = 0;
    for (; i + 1 < n; i += 2) {
      ++counts[0][(keys[i] >> shift) & mask];
      ++counts[1][(keys[i + 1] >> shift) & mask];
    }
    if (i < n) ++counts[0][(keys[i] >> shift) & mask];
    // 2. The digit that holds the k-th best.
    uint32_t at = mask;
    for (; at > 0; --at) {
      const int64_t count = int64_t{counts[0][at]} + counts[1][at];
      if (count >= left) break;
      left -= count;
    }
    prefix |= at << shift;
    // 3. Keep the keys with this digit.
    if (digit + 1 == kDigits) break;
    int64_t kept = 0;
    for (int64_t j = 0; j < n; ++j) {
      const uint32_t key = keys[j];
      s.narrowed[kept] = key;
      kept += ((key >> shift) & mask) == at ? 1 : 0;
    }
    keys = s.narrowed;
    n = kept;
  }
  // Key 0 is no key: then there are fewer keys than k, and all of them are selected.
  return prefix == 0 ? Threshold{} : Threshold{prefix, left};
}

/// Calls emit(i) for the k best of n keys in ascending order of i.
template <class Emit>
void SelectBest(const SelectScratch& s, int64_t n, int64_t k, const Emit& emit) {
  Threshold threshold;
  if (n > k) threshold = FindThreshold(s, n, k);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t key = s.keys[i];
    if (key > threshold.key) {
      emit(i);
    } else if (key == threshold.key && threshold.ties > 0) {
      --threshold.ties;
      emit(i);
    }
  }
}

void SelectRow(const SelectTopKParams& p, int64_t t, const SelectScratch& scratch) {
  const float* scores = p.scores + t * p.row_stride;
  int32_t* out = p.topk + t * p.k;
  int64_t found = 0;
  if (p.candidates == nullptr) {
    const int64_t n = std::min<int64_t>(p.columns, p.visible[t]);
    for (int64_t i = 0; i < n; ++i) scratch.keys[i] = OrderKey(scores[i]);
    SelectBest(scratch, n, p.k, [&](int64_t i) { out[found++] = static_cast<int32_t>(i); });
  } else {
    // Candidate blocks ascend, so columns ascend with their entries.
    const int32_t* candidates = p.candidates + t * p.max_candidates;
    const int64_t size = p.candidate_block;
    int64_t n = 0;
    for (int64_t b = 0; b < p.max_candidates && candidates[b] >= 0 && n < p.columns; ++b) {
      const int64_t end = std::min(p.columns, n + size), first = candidates[b] * size - n;
      for (; n < end; ++n) scratch.keys[n] = first + n < p.visible[t] ? OrderKey(scores[n]) : 0;
    }
    SelectBest(scratch, n, p.k, [&](int64_t i) {
      out[found++] = static_cast<int32_t>(candidates[i / size] * size + i % size);
    });
  }
  std::fill(out + found, out + p.k, -1);
}

void SelectBlocks(const SelectCandidatesParams& p, int64_t t, const SelectScratch& scratch) {
  const float* scores = p.scores + t * p.row_stride;
  const int64_t visible = std::min<int64_t>(p.columns, p.visible[t]);
  const int64_t blocks = CeilDiv(visible, p.candidate_block);
  for (int64_t block = 0; block < blocks; ++block) {
    uint32_t best = 0;
    const int64_t end = std::min(visible, (block + 1) * p.candidate_block);
    for (int64_t i = block * p.candidate_block; i < end; ++i) best = std::max(best, OrderKey(scores[i]));
    scratch.keys[block] = best;
  }
  if (blocks > 0) scratch.keys[blocks - 1] = 0xFFFFFFFFu;  // the newest block is always kept
  int32_t* out = p.candidates + t * p.max_candidates;
  int64_t found = 0;
  SelectBest(scratch, blocks, p.max_candidates,
             [&](int64_t block) { out[found++] = static_cast<int32_t>(block); });
  std::fill(out + found, out + p.max_candidates, -1);
}

}  // namespace

size_t SelectThreadBytes(int64_t columns) { return 2 * PieceBytes<uint32_t>(columns); }

void CpuOps::SelectTopK(const OpContext& ctx, const SelectTopKParams& p) const {
  ForUnits(ctx, p.rows, p.rows * p.columns * 4, ctx.workspace, SelectThreadBytes(p.columns),
           [&](int64_t t, Scratch memory) { SelectRow(p, t, SelectScratch(memory, p.columns)); });
}

void CpuOps::SelectCandidates(const OpContext& ctx, const SelectCandidatesParams& p) const {
  ForUnits(ctx, p.rows, p.rows * p.columns * 4, ctx.workspace, SelectThreadBytes(p.columns),
           [&](int64_t t, Scratch memory) { SelectBlocks(p, t, SelectScratch(memory, p.columns)); });
}

}  // namespace deepinfer::kernels
