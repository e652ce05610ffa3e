// Group quantisers in vectors, bit-equal to tensor/quantize.h. Included once a target.
#if defined(DEEPINFER_KERNELS_CPU_QUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DEEPINFER_KERNELS_CPU_QUANTIZE_INL_H_
#undef DEEPINFER_KERNELS_CPU_QUANTIZE_INL_H_
#else
#define DEEPINFER_KERNELS_CPU_QUANTIZE_INL_H_
#endif

#include "kernels/cpu/simd-inl.h"
#include "kernels/ops.h"
#include "tensor/quantize.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::kernels::HWY_NAMESPACE {

/// |v| rounded to a grid of steps 2^(e - kMantissa), e the exponent of |v| but at least that of `smallest` (a power of two); ties
/// to the even multiple, as the codes have it. The sign of v is kept, zero included.
template <int kMantissa>
HWY_INLINE VF RoundToGrid(VF v, float smallest) {
  const VF magnitude = hn::Abs(v);
  // Adding 1.5 * 2^23 steps leaves no bits below a step.
  const VU32 exponent = hn::And(Bits(magnitude), hn::Set(DU32(), 0x7F800000u));
  const VF magic = hn::Mul(hn::Max(Floats(exponent), Set(smallest)), Set(1.5f * (1 << (23 - kMantissa))));
  return hn::CopySignToAbs(hn::Sub(hn::Add(magnitude, magic), magic), v);
}

/// Values (code * scale) of one group of 32 bf16 values.
HWY_INLINE void FakeQuantizeGroup(const Bf16* x, QuantScheme scheme, Bf16* y) {
  const bool fp8 = scheme == QuantScheme::kFp8Act;
  // 1. The scale. Max returns its right operand when one is NaN: a NaN is ignored here, as in the scalar code, and kept below.
  VF amax = Zero();
  for (int64_t i = 0; i < kQuantGroup; i += kPair) {
    const Pair v = LoadPair(x + i);
    amax = hn::Max(hn::Abs(v.even), amax);
    amax = hn::Max(hn::Abs(v.odd), amax);
  }
  const float floor_value = fp8 ? 1e-4f : kE2m1Max * 0x1p-126f;
  const float group_max = MaxLanes(hn::Max(amax, Set(floor_value)));
  const float scale = Pow2Scale(group_max, fp8 ? 1.0f / kE4m3Max : 1.0f / kE2m1Max);
  const VF vscale = Set(scale), limit = Set(fp8 ? kE4m3Max : kE2m1Max);
  const VF negative = hn::Neg(limit);
  // 2. Divide (the reciprocal of a power of two is exact), clamp, round to the grid of the codes, multiply back.
  const VF inverse = Set(1.0f / scale);
  for (int64_t i = 0; i < kQuantGroup; i += kPair) {
    const Pair v = LoadPair(x + i);
    VF even = hn::Max(negative, hn::Min(limit, hn::Mul(v.even, inverse)));
    VF odd = hn::Max(negative, hn::Min(limit, hn::Mul(v.odd, inverse)));
    even = fp8 ? RoundToGrid<3>(even, 0x1p-6f) : RoundToGrid<1>(even, 1.0f);
    odd = fp8 ? RoundToGrid<3>(odd, 0x1p-6f) : RoundToGrid<1>(odd, 1.0f);
    StoreWords(PackPair(hn::Mul(even, vscale), hn::Mul(odd, vscale)), y + i);
  }
}

}  // namespace deepinfer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
