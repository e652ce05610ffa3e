// The one dot product of the back end: a few bf16 rows times a few tile rows. Included once a target.
//
// Canonical order of one output: vector lanes over the inputs in pair order, one accumulator, ascending, fused multiply-add where
// the target has it; lanes added as Sum4 says; one such float for each kSumBlock inputs, added ascending to a sum in double.
// DotRowsWide: the same lanes in double throughout.
#if defined(DEEPINFER_KERNELS_CPU_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DEEPINFER_KERNELS_CPU_DOT_INL_H_
#undef DEEPINFER_KERNELS_CPU_DOT_INL_H_
#else
#define DEEPINFER_KERNELS_CPU_DOT_INL_H_
#endif

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::kernels::HWY_NAMESPACE {

// Rows of a register tile: kMaxRows * 4 accumulators, one weight vector and kMaxRows inputs must fit the vector registers.
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
constexpr int kMaxRows = 6;
#else
constexpr int kMaxRows = 3;
#endif

template <int kRows, int kColumns>
HWY_INLINE void DotStep(const VU32* words, const float* tile, int64_t stride, VF (&acc)[kRows][kColumns]) {
  VF x[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) x[r] = EvenOf(words[r]);
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) {
    const VF w = LoadFloats(tile + c * stride);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) acc[r][c] = hn::MulAdd(w, x[r], acc[r][c]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) x[r] = OddOf(words[r]);
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) {
    const VF w = LoadFloats(tile + c * stride + kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) acc[r][c] = hn::MulAdd(w, x[r], acc[r][c]);
  }
}

/// sums[r][c] += x[r] . tile row c over inputs [begin, end), at most kSumBlock of them.
template <int kRows, int kColumns>
HWY_INLINE void DotBlock(const Bf16* const* x, const float* HWY_RESTRICT tile, int64_t stride, int64_t begin,
                         int64_t end, double* const* sums) {
  VF acc[kRows][kColumns];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) acc[r][c] = Zero();
  }
  // 1. Whole pairs.
  int64_t i = begin;
  for (; i + kPair <= end; i += kPair) {
    VU32 words[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) words[r] = LoadWords(x[r] + i);
    DotStep<kRows, kColumns>(words, tile + i, stride, acc);
  }
  // 2. The last inputs, filled up with zeros.
  if (i < end) {
    VU32 words[kRows];
    for (int r = 0; r < kRows; ++r) words[r] = LoadWordsTail(x[r] + i, end - i);
    DotStep<kRows, kColumns>(words, tile + i, stride, acc);
  }
  // 3. Lanes.
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kColumns; c += 4) {
      AddSums4(acc[r][c], acc[r][c + 1], acc[r][c + 2], acc[r][c + 3], sums[r] + c);
    }
  }
}

/// `kRows` rows against 8 tile rows. A single row takes all eight at once to have enough independent chains.
template <int kRows>
HWY_INLINE void DotPanel(const Bf16* const* x, const float* tile, int64_t stride, int64_t k,
                         double* const* sums) {
  double* second[kRows];
  for (int r = 0; r < kRows; ++r) second[r] = sums[r] + 4;
  for (int64_t begin = 0; begin < k; begin += kSumBlock) {
    const int64_t end = HWY_MIN(k, begin + kSumBlock);
    if constexpr (kRows == 1) {
      DotBlock<1, 8>(x, tile, stride, begin, end, sums);
    } else {
      DotBlock<kRows, 4>(x, tile, stride, begin, end, sums);
      DotBlock<kRows, 4>(x, tile + 4 * stride, stride, begin, end, second);
    }
  }
}

/// Rows [0, rows) of x, from input k0 on, against 8 tile rows; sums[r * sums_stride + 0..7] +=.
HWY_INLINE void DotRows(const RowSource& source, int64_t rows, int64_t k0, int64_t k, const float* tile,
                        int64_t stride, double* sums, int64_t sums_stride) {
  for (int64_t row = 0; row < rows; row += kMaxRows) {
    const int64_t count = HWY_MIN(rows - row, int64_t{kMaxRows});
    const Bf16* x[kMaxRows] = {};
    double* out[kMaxRows] = {};
    for (int64_t r = 0; r < count; ++r) {
      x[r] = source.Row(row + r) + k0;
      out[r] = sums + (row + r) * sums_stride;
    }
    switch (count) {
      case 1: DotPanel<1>(x, tile, stride, k, out); break;
      case 2: DotPanel<2>(x, tile, stride, k, out); break;
      case 3: DotPanel<3>(x, tile, stride, k, out); break;
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
      case 4: DotPanel<4>(x, tile, stride, k, out); break;
      case 5: DotPanel<5>(x, tile, stride, k, out); break;
      default: DotPanel<6>(x, tile, stride, k, out); break;
#endif
    }
  }
}

/// One input row (k values) . one tile row, in double throughout.
HWY_INLINE double DotWide(const Bf16* x, const float* tile, int64_t k) {
  WidePair sum = ZeroWidePair();
  ForSteps(k, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    const WidePair v = LoadWidePairN(x + i, count);
    sum.even = MulAdd(Widen(LoadFloats(tile + i)), v.even, sum.even);
    sum.odd = MulAdd(Widen(LoadFloats(tile + i + kLanes)), v.odd, sum.odd);
  });
  return SumWide(Add(sum.even, sum.odd));
}

/// DotRows in double throughout, for operands whose products leave a float no room: bf16 with bf16 or float weights.
HWY_INLINE void DotRowsWide(const RowSource& source, int64_t rows, int64_t k0, int64_t k, const float* tile,
                            int64_t stride, double* sums, int64_t sums_stride) {
  constexpr int kColumns = 4;
  for (int64_t row = 0; row < rows; ++row) {
    const Bf16* x = source.Row(row) + k0;
    for (int64_t first = 0; first < kPanel; first += kColumns) {
      Wide acc[kColumns];
      for (int c = 0; c < kColumns; ++c) acc[c] = SetWide(0.0);
      ForSteps(k, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
        const WidePair v = LoadWidePairN(x + i, count);
#pragma GCC unroll 4
        for (int c = 0; c < kColumns; ++c) {
          const float* w = tile + (first + c) * stride + i;
          acc[c] = MulAdd(Widen(LoadFloats(w)), v.even, acc[c]);
          acc[c] = MulAdd(Widen(LoadFloats(w + kLanes)), v.odd, acc[c]);
        }
      });
      for (int c = 0; c < kColumns; ++c) sums[row * sums_stride + first + c] += SumWide(acc[c]);
    }
  }
}

}  // namespace deepinfer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
