// Selection of the best entries and blocks: radix selection on order-preserving keys, nothing is sorted.
#include <bit>
#include <cmath>

#include "kernels/cpu/back_end.h"

namespace deepinfer::kernels {
namespace {

/// Unsigned keys in the order of the floats; 0 for -inf and NaN, which are never selected. Both zeros get the same key.
uint32_t OrderKey(float score) {
  if (!(score > -HUGE_VALF)) return 0;
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// The k best of n keys are those above `key` and the first `ties` equal to it.
struct Threshold {
  uint32_t key = 0;
  int64_t ties = 0;
};

/// Narrows the k-th best key digit by digit (11, 11 and 10 bits) with one histogram a pass.
template <class KeyAt>
Threshold FindThreshold(int64_t n, int64_t k, const KeyAt& key_at) {
  constexpr int kDigits = 3;
  constexpr int kShifts[kDigits] = {21, 10, 0};
  constexpr int kBits[kDigits] = {11, 11, 10};
  uint32_t prefix = 0;
  int64_t left = k;
  for (int digit = 0; digit < kDigits; ++digit) {
    const int shift = kShifts[digit], bits = kBits[digit];
    // 1. Count the digit among the keys that share the prefix. Key 0 is no key.
    uint32_t counts[2048] = {};
    const uint32_t mask = (1u << bits) - 1;
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t key = key_at(i);
      if (key == 0 || (digit > 0 && (key >> (shift + bits)) != prefix)) continue;
      ++counts[(key >> shift) & mask];
    }
    // 2. The digit that holds the k-th best; fewer keys than k: everything is selected.
    int64_t at = mask;
    for (; at >= 0 && static_cast<int64_t>(counts[at]) < left; --at) left -= counts[at];
    if (at < 0) return {0, 0};
    prefix = (prefix << bits) | static_cast<uint32_t>(at);
  }
  return {prefix, left};
}

/// Calls emit(i) for the selected keys in ascending order of i.
template <class KeyAt, class Emit>
void SelectBest(int64_t n, int64_t k, const KeyAt& key_at, const Emit& emit) {
  Threshold threshold;
  if (n > k) threshold = FindThreshold(n, k, key_at);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t key = key_at(i);
    if (key > threshold.key) {
      emit(i);
    } else if (key == threshold.key && threshold.ties > 0) {
      --threshold.ties;
      emit(i);
    }
  }
}

}  // namespace

void CpuOps::SelectTopK(const OpContext& ctx, const SelectTopKParams& p) const {
  ForRows(ctx, p.rows, p.columns * 8, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* scores = p.scores + t * p.row_stride;
      const int32_t* candidates = p.candidates == nullptr ? nullptr : p.candidates + t * p.max_candidates;
      const int64_t visible = p.visible[t];
      int32_t* out = p.topk + t * p.k;
      int64_t found = 0;
      if (candidates == nullptr) {
        SelectBest(std::min(p.columns, visible), p.k, [&](int64_t i) { return OrderKey(scores[i]); },
                   [&](int64_t i) { out[found++] = static_cast<int32_t>(i); });
      } else {
        // Candidate blocks ascend, so columns ascend with their entries.
        const auto entry_of = [&](int64_t i) {
          return candidates[i / p.candidate_block] * p.candidate_block + i % p.candidate_block;
        };
        int64_t blocks = 0;
        while (blocks < p.max_candidates && candidates[blocks] >= 0) ++blocks;
        SelectBest(std::min(p.columns, blocks * p.candidate_block), p.k,
                   [&](int64_t i) { return entry_of(i) < visible ? OrderKey(scores[i]) : 0; },
                   [&](int64_t i) { out[found++] = static_cast<int32_t>(entry_of(i)); });
      }
      std::fill(out + found, out + p.k, -1);
    }
  });
}

void CpuOps::SelectCandidates(const OpContext& ctx, const SelectCandidatesParams& p) const {
  ForRows(ctx, p.rows, p.columns * 8, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* scores = p.scores + t * p.row_stride;
      const int64_t visible = std::min<int64_t>(p.columns, p.visible[t]);
      const int64_t blocks = CeilDiv(visible, p.candidate_block);
      int32_t* out = p.candidates + t * p.max_candidates;
      int64_t found = 0;
      const auto key_at = [&](int64_t block) {
        if (block == blocks - 1) return 0xFFFFFFFFu;  // the newest block is always kept
        uint32_t best = 0;
        for (int64_t i = block * p.candidate_block; i < (block + 1) * p.candidate_block; ++i) {
          best = std::max(best, OrderKey(scores[i]));
        }
        return best;
      };
      SelectBest(blocks, p.max_candidates, key_at, [&](int64_t block) { out[found++] = static_cast<int32_t>(block); });
      std::fill(out + found, out + p.max_candidates, -1);
    }
  });
}

}  // namespace deepinfer::kernels
