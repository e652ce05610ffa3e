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

/// acc[h] += sum over the slots [begin, end), ascending, of p[h][s] * key s, at most kSlotRun of them; kHeads heads, kVectors
/// vectors of channels.
template <int kHeads, int kVectors>
HWY_INLINE void WeightedRun(const float* p, const float* HWY_RESTRICT tile, int64_t stride, int64_t begin,
                            int64_t end, double* HWY_RESTRICT acc) {
  VF sum[kHeads][kVectors];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[h][v] = Zero();
  }
  for (int64_t s = begin; s < end; ++s) {
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
    for (int v = 0; v < kVectors; ++v) {
      double* at = acc + h * stride + v * kLanes;
      StoreWide(Add(LoadWide(at), Widen(sum[h][v])), at);
    }
  }
}

template <int kHeads>
HWY_INLINE void WeightedSums(const AttendState& s, int64_t head, int64_t count) {
  constexpr int kVectors = 2;
  double* acc = s.acc + head * s.tile_stride;
  for (int64_t c = 0; c < s.tile_stride; c += kVectors * kLanes) {
    for (int64_t begin = 0; begin < count; begin += kSlotRun) {
      WeightedRun<kHeads, kVectors>(s.p + head * kSlotBlock, s.tile + c, s.tile_stride, begin,
                                    HWY_MIN(count, begin + kSlotRun), acc + c);
    }
  }
}

/// What an error of a score may change its p by, relative: several times what is seen.
constexpr float kScoreError = 0x1p-19f;

/// The scaled score of one slot, in double.
HWY_INLINE double ExactScore(const AttendState& s, int64_t head, int64_t slot) {
  double sum = 0;
  for (int64_t k0 = 0; k0 < s.dim; k0 += kKBlock) {
    sum += DotWide(s.q + head * s.dim + k0, s.tile + slot * s.tile_stride + k0, HWY_MIN(s.dim - k0, kKBlock));
  }
  return sum * double{s.scale};
}

/// p[i] of N slots from their scores. A p that an error of its score could round the other way gets its score in double first.
HWY_INLINE Wide SoftmaxSlots(const AttendState& s, int64_t head, int64_t first, double max, double* scores,
                             float* p) {
  Wide e = Exp(Sub(LoadWide(scores), SetWide(max)));
  const VF rounded = Narrow(e);
  const auto near = hn::And(NearTie(rounded, hn::Mul(rounded, Set(kScoreError))), hn::Gt(rounded, Zero()));
  if (HWY_UNLIKELY(!hn::AllFalse(DF(), near))) {
    alignas(64) float flags[kLanes];
    hn::Store(hn::IfThenElseZero(near, Set(1.0f)), DF(), flags);
    for (int64_t l = 0; l < kLanes; ++l) {
      if (flags[l] != 0) scores[l] = ExactScore(s, head, first + l);
    }
    e = Exp(Sub(LoadWide(scores), SetWide(max)));
  }
  StoreFloats(RoundBf16(Narrow(e)), p);
  return e;
}

/// Scores -> p of one head against its new running maximum; what was summed before is put on that maximum.
HWY_INLINE void SoftmaxBlock(const AttendState& s, int64_t head, const KeySlot* slots, int64_t count) {
  const DD d;
  double* scores = s.scores + head * kSlotBlock;
  float* p = s.p + head * kSlotBlock;
  // 1. Scaled scores and the maximum so far, which all p depend on and which is therefore computed again in double; slots
  // without a key are -inf.
  double max = s.max[head];
  int64_t best = -1;
  for (int64_t i = 0; i < kSlotBlock; ++i) {
    const bool present = i < count && slots[i].kind != KeySlot::kNone;
    scores[i] = present ? scores[i] * double{s.scale} : -HUGE_VAL;
    if (scores[i] > max) {
      max = scores[i];
      best = i;
    }
  }
  if (best >= 0) {
    scores[best] = ExactScore(s, head, best);
    max = HWY_MAX(s.max[head], scores[best]);
  }
  const double alpha = hn::GetLane(Exp(hn::Set(d, s.max[head] - max)));
  s.alpha[head] = alpha;
  // 2. exp, its sum, its bf16 rounding for the products with the keys. What is absent gives no p at all.
  Wide sum = SetWide(0.0);
  for (int64_t i = 0; i < kSlotBlock; i += kLanes) {
    sum = Add(sum, SoftmaxSlots(s, head, i, max, scores + i, p + i));
  }
  s.max[head] = max;
  s.sum[head] = s.sum[head] * alpha + SumWide(sum);
  // 3. The weighted sums of the blocks before.
  if (alpha == 1.0) return;
  double* acc = s.acc + head * s.tile_stride;
  for (int64_t c = 0; c < s.tile_stride; c += kLanes)
    StoreWide(Mul(LoadWide(acc + c), SetWide(alpha)), acc + c);
}

/// Adds one decoded block of keys to the heads of a row.
void AttendBlock(const AttendState& s, const KeySlot* slots, int64_t count) {
  // 1. Scores.
  std::memset(s.scores, 0, static_cast<size_t>(s.heads * kSlotBlock) * sizeof(double));
  const RowSource q{s.q, s.dim, nullptr};
  for (int64_t k0 = 0; k0 < s.dim; k0 += kKBlock) {
    const int64_t k = HWY_MIN(s.dim - k0, kKBlock);
    for (int64_t first = 0; first < count; first += kPanel) {
      DotRows(q, s.heads, k0, k, s.tile + first * s.tile_stride + k0, s.tile_stride, s.scores + first,
              kSlotBlock);
    }
  }
  // 2. Softmax against the running maximum.
  for (int64_t h = 0; h < s.heads; ++h) SoftmaxBlock(s, h, slots, count);
  // 3. Weighted sum of the keys.
  int64_t h = 0;
  for (; h + 4 <= s.heads; h += 4) WeightedSums<4>(s, h, count);
  for (; h < s.heads; ++h) WeightedSums<1>(s, h, count);
}

/// What float runs may be wrong by, relative to the largest output of a head: several times what is seen.
constexpr float kWeightedSumError = 0x1p-21f;

/// Channels [begin, begin + count) of a head whose outputs lie near a tie, appended to the list.
HWY_INLINE int64_t ListTies(VF even, VF odd, VF tolerance, int64_t first, int64_t count, int32_t* list) {
  if (HWY_LIKELY(hn::AllFalse(DF(), hn::Or(NearTie(even, tolerance), NearTie(odd, tolerance))))) return 0;
  alignas(64) float flags[kPair];
  hn::Store(hn::IfThenElseZero(NearTie(even, tolerance), Set(1.0f)), DF(), flags);
  hn::Store(hn::IfThenElseZero(NearTie(odd, tolerance), Set(1.0f)), DF(), flags + kLanes);
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (flags[i % 2 * kLanes + i / 2] != 0) list[found++] = static_cast<int32_t>(first + i);
  }
  return found;
}

/// The sink joins the denominator; pair order back to natural order; ties are listed.
int64_t AttendFinish(const AttendState& s, const float* sink, Bf16* out) {
  int64_t found = 0;
  for (int64_t h = 0; h < s.heads; ++h) {
    s.sum[h] += hn::GetLane(Exp(hn::Set(DD(), double{sink[h]} - s.max[h])));
    const Wide denominator = SetWide(s.sum[h]);
    const double* acc = s.acc + h * s.tile_stride;
    VF largest = Zero();
    for (int64_t i = 0; i < s.tile_stride; i += kLanes) {
      largest = hn::Max(largest, hn::Abs(Narrow(Div(LoadWide(acc + i), denominator))));
    }
    const VF tolerance = Set(MaxLanes(largest) * kWeightedSumError);
    ForSteps(s.dim, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
      const VF even = Narrow(Div(LoadWide(acc + i), denominator));
      const VF odd = Narrow(Div(LoadWide(acc + i + kLanes), denominator));
      StorePairN(even, odd, out + h * s.dim + i, count);
      found += ListTies(even, odd, tolerance, h * s.dim + i, count, s.ties + found);
    });
  }
  return found;
}

/// The share of one decoded block in the denominator of a head, in double: sum of exp(score - max).
double ExactWeights(const AttendState& s, int64_t head, const KeySlot* slots, int64_t count) {
  double scores[kSlotBlock];
  for (int64_t i = 0; i < kSlotBlock; ++i) {
    const bool present = i < count && slots[i].kind != KeySlot::kNone;
    scores[i] = present ? ExactScore(s, head, i) - s.max[head] : -HUGE_VAL;
  }
  Wide sum = SetWide(0.0);
  for (int64_t i = 0; i < kSlotBlock; i += kLanes) sum = Add(sum, Exp(LoadWide(scores + i)));
  return SumWide(sum);
}

void Fill(KernelTable& table) {
  table.decode_keys = DecodeKeys;
  table.attend_block = AttendBlock;
  table.attend_finish = AttendFinish;
  table.exact_weights = ExactWeights;
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
