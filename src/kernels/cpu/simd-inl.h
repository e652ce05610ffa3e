// Vector types, pair loads and stores of bf16 rows, reductions and elementary functions. Included once a target.
#if defined(DEEPINFER_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DEEPINFER_KERNELS_CPU_SIMD_INL_H_
#undef DEEPINFER_KERNELS_CPU_SIMD_INL_H_
#else
#define DEEPINFER_KERNELS_CPU_SIMD_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

#include "tensor/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DU32 = hn::RebindToUnsigned<DF>;
using DI32 = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
using VU32 = hn::Vec<DU32>;

constexpr int64_t kLanes = static_cast<int64_t>(HWY_LANES(float));
constexpr int64_t kPair = 2 * kLanes;  // values of one even and one odd vector

HWY_INLINE VF Set(float value) { return hn::Set(DF(), value); }
HWY_INLINE VF Zero() { return hn::Zero(DF()); }
HWY_INLINE VF LoadFloats(const float* p) { return hn::LoadU(DF(), p); }
HWY_INLINE void StoreFloats(VF v, float* p) { hn::StoreU(v, DF(), p); }
HWY_INLINE VU32 Bits(VF v) { return hn::BitCast(DU32(), v); }
HWY_INLINE VF Floats(VU32 v) { return hn::BitCast(DF(), v); }

HWY_INLINE VU32 LoadWords(const void* p) {
#if HWY_TARGET == HWY_SCALAR
  uint32_t word;
  std::memcpy(&word, p, sizeof(word));
  return hn::Set(DU32(), word);
#else
  return hn::LoadU(DU32(), reinterpret_cast<const uint32_t*>(p));
#endif
}

HWY_INLINE void StoreWords(VU32 v, void* p) {
#if HWY_TARGET == HWY_SCALAR
  const uint32_t word = hn::GetLane(v);
  std::memcpy(p, &word, sizeof(word));
#else
  hn::StoreU(v, DU32(), reinterpret_cast<uint32_t*>(p));
#endif
}

// ------------------------------------------------------------------------------------------------- bf16 pairs

struct Pair {
  VF even, odd;
};

HWY_INLINE VF EvenOf(VU32 words) { return Floats(hn::ShiftLeft<16>(words)); }
HWY_INLINE VF OddOf(VU32 words) { return Floats(hn::And(words, hn::Set(DU32(), 0xFFFF0000u))); }

/// 2N bf16 values.
HWY_INLINE Pair LoadPair(const Bf16* p) {
  const VU32 words = LoadWords(p);
  return {EvenOf(words), OddOf(words)};
}

/// `count` < 2N values, the rest zero.
HWY_INLINE VU32 LoadWordsTail(const Bf16* p, int64_t count) {
  alignas(64) uint16_t buffer[kPair] = {};
  std::memcpy(buffer, p, static_cast<size_t>(count) * sizeof(Bf16));
  return LoadWords(buffer);
}

HWY_INLINE Pair LoadPairN(const Bf16* p, int64_t count) {
  if (HWY_LIKELY(count == kPair)) return LoadPair(p);
  const VU32 words = LoadWordsTail(p, count);
  return {EvenOf(words), OddOf(words)};
}

/// Bits of v rounded to bf16 (nearest, ties to even), low half zero; NaN stays NaN.
HWY_INLINE VU32 RoundedBits(VF v) {
  const DU32 du;
  const VU32 bits = Bits(v);
  const VU32 odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const VU32 rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu)));
  const VU32 nan = hn::Or(bits, hn::Set(du, 0x400000u));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(v));
  return hn::And(hn::IfThenElse(is_nan, nan, rounded), hn::Set(du, 0xFFFF0000u));
}
HWY_INLINE VF RoundBf16(VF v) { return Floats(RoundedBits(v)); }

HWY_INLINE VU32 PackPair(VF even, VF odd) {
  return hn::Or(hn::ShiftRight<16>(RoundedBits(even)), RoundedBits(odd));
}

HWY_INLINE void StorePairN(VF even, VF odd, Bf16* p, int64_t count) {
  if (HWY_LIKELY(count == kPair)) {
    StoreWords(PackPair(even, odd), p);
    return;
  }
  alignas(64) uint16_t buffer[kPair];
  StoreWords(PackPair(even, odd), buffer);
  std::memcpy(p, buffer, static_cast<size_t>(count) * sizeof(Bf16));
}

/// N floats in natural order -> bf16.
HWY_INLINE void StoreNatural(VF v, Bf16* p) {
  const hn::Rebind<uint16_t, DF> du16;
  const auto words = hn::BitCast(DI32(), hn::ShiftRight<16>(RoundedBits(v)));
  alignas(64) uint16_t buffer[kLanes];
  hn::Store(hn::DemoteTo(du16, words), du16, buffer);
  std::memcpy(p, buffer, sizeof(buffer));
}

HWY_INLINE VF LoadFloatsN(const float* p, int64_t count) {
  if (HWY_LIKELY(count == kLanes)) return LoadFloats(p);
  alignas(64) float buffer[kLanes] = {};
  std::memcpy(buffer, p, static_cast<size_t>(count) * sizeof(float));
  return hn::Load(DF(), buffer);
}

HWY_INLINE void StoreNaturalN(VF v, Bf16* p, int64_t count) {
  if (HWY_LIKELY(count == kLanes)) return StoreNatural(v, p);
  Bf16 buffer[kLanes];
  StoreNatural(v, buffer);
  std::memcpy(p, buffer, static_cast<size_t>(count) * sizeof(Bf16));
}

/// Calls f(begin, count) over [0, size) in steps of `step`; only the last count may be smaller.
template <class F>
HWY_INLINE void ForSteps(int64_t size, int64_t step, const F& f) {
  int64_t i = 0;
  for (; i + step <= size; i += step) f(i, step);
  if (i < size) f(i, size - i);
}

// ------------------------------------------------------------------------------------------------- reductions

#if HWY_TARGET != HWY_SCALAR
using D4 = hn::FixedTag<float, 4>;
using V4 = hn::Vec<D4>;

/// Halves v until four lanes are left: lane l collects lanes l, l + 4, ... as ((l + (l + N/2)) + ...).
HWY_INLINE V4 FoldTo4(VF v) {
#if HWY_TARGET <= HWY_AVX3
  const hn::Half<DF> dh;
  const auto half = hn::Add(hn::LowerHalf(dh, v), hn::UpperHalf(dh, v));
  return hn::Add(hn::LowerHalf(D4(), half), hn::UpperHalf(D4(), half));
#elif HWY_TARGET == HWY_AVX2
  return hn::Add(hn::LowerHalf(D4(), v), hn::UpperHalf(D4(), v));
#else
  return v;
#endif
}

/// Lane sums of four vectors, each added as (l0 + l2) + (l1 + l3) after FoldTo4.
HWY_INLINE V4 Sum4(VF a, VF b, VF c, VF d) {
  const D4 d4;
  const V4 fa = FoldTo4(a), fb = FoldTo4(b), fc = FoldTo4(c), fd = FoldTo4(d);
  const V4 ab = hn::Add(hn::InterleaveLower(d4, fa, fb), hn::InterleaveUpper(d4, fa, fb));
  const V4 cd = hn::Add(hn::InterleaveLower(d4, fc, fd), hn::InterleaveUpper(d4, fc, fd));
  return hn::Add(hn::ConcatLowerLower(d4, cd, ab), hn::ConcatUpperUpper(d4, cd, ab));
}

/// out[i] += lane sum of v_i.
HWY_INLINE void AddSums4(VF a, VF b, VF c, VF d, float* out) {
  const D4 d4;
  hn::StoreU(hn::Add(hn::LoadU(d4, out), Sum4(a, b, c, d)), d4, out);
}

HWY_INLINE float SumLanes(VF v) { return hn::GetLane(Sum4(v, v, v, v)); }
#else
HWY_INLINE void AddSums4(VF a, VF b, VF c, VF d, float* out) {
  out[0] += hn::GetLane(a);
  out[1] += hn::GetLane(b);
  out[2] += hn::GetLane(c);
  out[3] += hn::GetLane(d);
}

HWY_INLINE float SumLanes(VF v) { return hn::GetLane(v); }
#endif

HWY_INLINE float MaxLanes(VF v) { return hn::GetLane(hn::MaxOfLanes(DF(), v)); }

// ------------------------------------------------------------------------------------------------- functions

/// e^x to about one unit in the last place; 0 for -inf, +inf above the float range, NaN for NaN.
HWY_INLINE VF Exp(VF x) {
  const DF d;
  const DI32 di;
  // 1. x = n ln2 + r, ln2 in two parts so that n * high is exact.
  const VF clamped = hn::Min(hn::Max(x, Set(-105.0f)), Set(89.5f));
  const auto n = hn::NearestInt(hn::Mul(clamped, Set(1.44269504088896341f)));
  const VF nf = hn::ConvertTo(d, n);
  const VF r = hn::NegMulAdd(nf, Set(-2.12194440e-4f), hn::NegMulAdd(nf, Set(0.693359375f), clamped));
  // 2. Polynomial of e^r on |r| <= ln2 / 2.
  VF y = Set(1.9875691500e-4f);
  y = hn::MulAdd(y, r, Set(1.3981999507e-3f));
  y = hn::MulAdd(y, r, Set(8.3334519073e-3f));
  y = hn::MulAdd(y, r, Set(4.1665795894e-2f));
  y = hn::MulAdd(y, r, Set(1.6666665459e-1f));
  y = hn::MulAdd(y, r, Set(5.0000001201e-1f));
  y = hn::Add(hn::MulAdd(y, hn::Mul(r, r), r), Set(1.0f));
  // 3. Times 2^n in two steps, since n reaches beyond the exponents of normal floats at both ends.
  const auto half = hn::ShiftRight<1>(n);
  const auto bias = hn::Set(di, 127);
  const VF low = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const VF high = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(n, half), bias)));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Mul(hn::Mul(y, low), high));
}

HWY_INLINE VF Sigmoid(VF x) { return hn::Div(Set(1.0f), hn::Add(Set(1.0f), Exp(hn::Neg(x)))); }

/// log(1 + u) for u in [0, 1].
HWY_INLINE VF Log1pUnit(VF u) {
  // 1. y = 1 + u rounded; the rounding error comes back as a first-order correction.
  const VF one = Set(1.0f);
  const VF y = hn::Add(one, u);
  const VF correction = hn::Div(hn::Sub(u, hn::Sub(y, one)), y);
  // 2. Into [sqrt(1/2), sqrt(2)].
  const auto big = hn::Gt(y, Set(1.41421356f));
  const VF f = hn::Sub(hn::IfThenElse(big, hn::Mul(y, Set(0.5f)), y), one);
  const VF e = hn::IfThenElse(big, one, Zero());
  // 3. Polynomial of log(1 + f).
  const VF z = hn::Mul(f, f);
  VF p = Set(7.0376836292e-2f);
  p = hn::MulAdd(p, f, Set(-1.1514610310e-1f));
  p = hn::MulAdd(p, f, Set(1.1676998740e-1f));
  p = hn::MulAdd(p, f, Set(-1.2420140846e-1f));
  p = hn::MulAdd(p, f, Set(1.4249322787e-1f));
  p = hn::MulAdd(p, f, Set(-1.6668057665e-1f));
  p = hn::MulAdd(p, f, Set(2.0000714765e-1f));
  p = hn::MulAdd(p, f, Set(-2.4999993993e-1f));
  p = hn::MulAdd(p, f, Set(3.3333331174e-1f));
  p = hn::Mul(hn::Mul(p, f), z);
  p = hn::MulAdd(e, Set(-2.12194440e-4f), p);
  p = hn::MulAdd(z, Set(-0.5f), p);
  return hn::Add(hn::MulAdd(e, Set(0.693359375f), hn::Add(f, p)), correction);
}

}  // namespace deepinfer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
