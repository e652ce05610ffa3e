// Sparse attention: packed keys -> a tile of 64 keys, scores, online softmax, weighted sum (spec: model.md §8.8).
#include "kernels/cpu/kernel_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/decode-inl.h"
#include "kernels/cpu/dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::kernels::HWY_NAMESPACE {
namespace {

void DecodeKeys(const KeySlot* slots, int64_t count, int64_t dim, float* tile, int64_t tile_stride) {
  for (int64_t s = 0; s < count; ++s) {
    const auto* codes = static_cast<const uint8_t*>(slots[s].data);
    float* out = tile + s * tile_stride;
    if (slots[s].kind == KeySlot::kNone || dim < tile_stride) {
      std::memset(out, 0, static_cast<size_t>(tile_stride) * sizeof(float));
    }
    switch (slots[s].kind) {
      case KeySlot::kNone: break;
      case KeySlot::kFp8: DecodeFp8Row(codes, slots[s].scales, dim, out); break;
      case KeySlot::kFp4Main: DecodeFp4MainRow(codes, slots[s].scales, dim, out); break;
      case KeySlot::kFp4Index: DecodeFp4Row(codes, slots[s].scales, dim, out); break;
      case KeySlot::kBf16: DecodeBf16Row(static_cast<const Bf16*>(slots[s].data), dim, out); break;
    }
  }
}

/// acc[h] = acc[h] * alpha[h] + sum over the slots, ascending, of p[h][s] * key s; kHeads heads, kVectors vectors of channels.
template <int kHeads, int kVectors>
HWY_INLINE void WeightedSum(const float* p, const float* alpha, const float* HWY_RESTRICT tile,
                            int64_t stride, int64_t count, float* HWY_RESTRICT acc) {
  VF sum[kHeads][kVectors];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      sum[h][v] = hn::Mul(LoadFloats(acc + h * stride + v * kLanes), Set(alpha[h]));
  }
  for (int64_t s = 0; s < count; ++s) {
    VF key[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) key[v] = LoadFloats(tile + s * stride + v * kLanes);
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      const VF weight = Set(p[h * kSlotBlock + s]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[h][v] = hn::MulAdd(weight, key[v], sum[h][v]);
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) StoreFloats(sum[h][v], acc + h * stride + v * kLanes);
  }
}

template <int kHeads>
HWY_INLINE void WeightedSums(const AttendState& s, int64_t head, const float* alpha, int64_t count) {
  constexpr int kVectors = 2;
  float* acc = s.acc + head * s.tile_stride;
  for (int64_t c = 0; c < s.tile_stride; c += kVectors * kLanes) {
    WeightedSum<kHeads, kVectors>(s.p + head * kSlotBlock, alpha + head, s.tile + c, s.tile_stride, count,
                                  acc + c);
  }
}

/// Scores -> p of one head against its new running maximum; returns the factor of what was summed before.
HWY_INLINE float SoftmaxBlock(const AttendState& s, int64_t head, const KeySlot* slots, int64_t count) {
  float* p = s.p + head * kSlotBlock;
  const float minus_infinity = -HUGE_VALF;
  // 1. Scaled scores; slots without a key are -inf.
  for (int64_t i = 0; i < kSlotBlock; i += kLanes)
    StoreFloats(hn::Mul(LoadFloats(p + i), Set(s.scale)), p + i);
  for (int64_t i = 0; i < kSlotBlock; ++i) {
    if (i >= count || slots[i].kind == KeySlot::kNone) p[i] = minus_infinity;
  }
  // 2. The maximum so far.
  VF block_max = Set(s.max[head]);
  for (int64_t i = 0; i < kSlotBlock; i += kLanes) block_max = hn::Max(block_max, LoadFloats(p + i));
  const float max = MaxLanes(block_max);
  const float alpha = hn::GetLane(Exp(Set(s.max[head] - max)));
  // 3. exp, its sum in float, its bf16 rounding for the products with the keys.
  VF sum = Zero();
  for (int64_t i = 0; i < kSlotBlock; i += kLanes) {
    const VF e = Exp(hn::Sub(LoadFloats(p + i), Set(max)));
    sum = hn::Add(sum, e);
    StoreFloats(RoundBf16(e), p + i);
  }
  s.max[head] = max;
  s.sum[head] = s.sum[head] * alpha + SumLanes(sum);
  return alpha;
}

/// Adds one decoded block of keys to the heads of a row.
void AttendBlock(const AttendState& s, const KeySlot* slots, int64_t count) {
  // 1. Scores.
  std::memset(s.p, 0, static_cast<size_t>(s.heads * kSlotBlock) * sizeof(float));
  const RowSource q{s.q, s.dim, nullptr};
  for (int64_t k0 = 0; k0 < s.dim; k0 += kKBlock) {
    const int64_t k = HWY_MIN(s.dim - k0, kKBlock);
    for (int64_t first = 0; first < count; first += kPanel) {
      DotRows(q, s.heads, k0, k, s.tile + first * s.tile_stride + k0, s.tile_stride, s.p + first, kSlotBlock);
    }
  }
  // 2. Softmax against the running maximum.
  float alpha[kHeadTile];
  for (int64_t h = 0; h < s.heads; ++h) alpha[h] = SoftmaxBlock(s, h, slots, count);
  // 3. Weighted sum of the keys.
  int64_t h = 0;
  for (; h + 4 <= s.heads; h += 4) WeightedSums<4>(s, h, alpha, count);
  for (; h < s.heads; ++h) WeightedSums<1>(s, h, alpha, count);
}

/// The sink joins the denominator; pair order back to natural order.
void AttendFinish(const AttendState& s, const float* sink, Bf16* out) {
  for (int64_t h = 0; h < s.heads; ++h) {
    const VF denominator = hn::Add(Set(s.sum[h]), Exp(hn::Sub(Set(sink[h]), Set(s.max[h]))));
    const float* acc = s.acc + h * s.tile_stride;
    ForSteps(s.dim, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
      StorePairN(hn::Div(LoadFloats(acc + i), denominator),
                 hn::Div(LoadFloats(acc + i + kLanes), denominator), out + h * s.dim + i, count);
    });
  }
}

void Fill(KernelTable& table) {
  table.decode_keys = DecodeKeys;
  table.attend_block = AttendBlock;
  table.attend_finish = AttendFinish;
}

}  // namespace
}  // namespace deepinfer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/targets.h"

namespace deepinfer::kernels {
bool FillAttentionKernels(int64_t target, KernelTable& table) { DEEPINFER_FILL_TARGETS(target, table); }
}  // namespace deepinfer::kernels
#endif
