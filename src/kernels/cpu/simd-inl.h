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

/// Lanes whose rounding to bf16 an error of `tolerance` could change: those that near the middle of two bf16 values.
HWY_INLINE auto NearTie(VF v, VF tolerance) {
  const DU32 du;
  const VU32 middle = hn::Or(hn::And(Bits(v), hn::Set(du, 0xFFFF0000u)), hn::Set(du, 0x8000u));
  return hn::Le(hn::Abs(hn::Sub(v, Floats(middle))), tolerance);
}

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

// ------------------------------------------------------------------------------------------------- doubles

using DD = hn::ScalableTag<double>;
using VD = hn::Vec<DD>;
constexpr int64_t kDoubles = static_cast<int64_t>(HWY_LANES(double));

/// N doubles, the counterpart of one VF: what lies between two rounding points.
struct Wide {
#if HWY_TARGET == HWY_SCALAR
  static constexpr int kParts = 1;
#else
  static constexpr int kParts = 2;
#endif
  VD part[kParts];
};

template <class F>
HWY_INLINE Wide MapWide(const F& f) {
  Wide w;
#pragma GCC unroll 2
  for (int i = 0; i < Wide::kParts; ++i) w.part[i] = f(i);
  return w;
}

HWY_INLINE Wide SetWide(double value) {
  return MapWide([&](int) HWY_ATTR { return hn::Set(DD(), value); });
}
HWY_INLINE Wide Add(Wide a, Wide b) {
  return MapWide([&](int i) HWY_ATTR { return hn::Add(a.part[i], b.part[i]); });
}
HWY_INLINE Wide Sub(Wide a, Wide b) {
  return MapWide([&](int i) HWY_ATTR { return hn::Sub(a.part[i], b.part[i]); });
}
HWY_INLINE Wide Mul(Wide a, Wide b) {
  return MapWide([&](int i) HWY_ATTR { return hn::Mul(a.part[i], b.part[i]); });
}
HWY_INLINE Wide MulAdd(Wide a, Wide b, Wide c) {
  return MapWide([&](int i) HWY_ATTR { return hn::MulAdd(a.part[i], b.part[i], c.part[i]); });
}
HWY_INLINE Wide Div(Wide a, Wide b) {
  return MapWide([&](int i) HWY_ATTR { return hn::Div(a.part[i], b.part[i]); });
}
HWY_INLINE Wide Min(Wide a, Wide b) {
  return MapWide([&](int i) HWY_ATTR { return hn::Min(a.part[i], b.part[i]); });
}
HWY_INLINE Wide Max(Wide a, Wide b) {
  return MapWide([&](int i) HWY_ATTR { return hn::Max(a.part[i], b.part[i]); });
}
HWY_INLINE Wide Neg(Wide a) {
  return MapWide([&](int i) HWY_ATTR { return hn::Neg(a.part[i]); });
}

/// Values in the order of v's lanes.
HWY_INLINE Wide Widen(VF v) {
#if HWY_TARGET == HWY_SCALAR
  return SetWide(static_cast<double>(hn::GetLane(v)));
#else
  const hn::Half<DF> dh;
  return {{hn::PromoteTo(DD(), hn::LowerHalf(dh, v)), hn::PromoteTo(DD(), hn::UpperHalf(dh, v))}};
#endif
}

/// Rounded to float, nearest even.
HWY_INLINE VF Narrow(Wide w) {
#if HWY_TARGET == HWY_SCALAR
  return Set(static_cast<float>(hn::GetLane(w.part[0])));
#else
  const hn::Half<DF> dh;
  return hn::Combine(DF(), hn::DemoteTo(dh, w.part[1]), hn::DemoteTo(dh, w.part[0]));
#endif
}

HWY_INLINE Wide LoadWide(const double* p) {
  return MapWide([&](int i) HWY_ATTR { return hn::LoadU(DD(), p + i * kDoubles); });
}
HWY_INLINE void StoreWide(Wide w, double* p) {
#pragma GCC unroll 2
  for (int i = 0; i < Wide::kParts; ++i) hn::StoreU(w.part[i], DD(), p + i * kDoubles);
}
HWY_INLINE Wide LoadWideN(const double* p, int64_t count) {
  if (HWY_LIKELY(count == kLanes)) return LoadWide(p);
  double buffer[kLanes] = {};
  std::memcpy(buffer, p, static_cast<size_t>(count) * sizeof(double));
  return LoadWide(buffer);
}

/// Part 0 + part 1, then its lanes as Highway adds them.
HWY_INLINE double SumWide(Wide w) {
#if HWY_TARGET == HWY_SCALAR
  return hn::GetLane(w.part[0]);
#else
  return hn::GetLane(hn::SumOfLanes(DD(), hn::Add(w.part[0], w.part[1])));
#endif
}

/// An even and an odd vector of doubles.
struct WidePair {
  Wide even, odd;
};
HWY_INLINE WidePair LoadWidePairN(const Bf16* p, int64_t count) {
  const Pair v = LoadPairN(p, count);
  return {Widen(v.even), Widen(v.odd)};
}
HWY_INLINE WidePair ZeroWidePair() { return {SetWide(0.0), SetWide(0.0)}; }
HWY_INLINE void StoreWidePairN(const WidePair& v, Bf16* p, int64_t count) {
  StorePairN(Narrow(v.even), Narrow(v.odd), p, count);
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
HWY_INLINE void AddSums4(VF a, VF b, VF c, VF d, double* out) {
  const V4 sums = Sum4(a, b, c, d);
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  const hn::FixedTag<double, 4> d4;
  hn::StoreU(hn::Add(hn::LoadU(d4, out), hn::PromoteTo(d4, sums)), d4, out);
#else
  const hn::FixedTag<double, 2> d2;
  const hn::FixedTag<float, 2> half;
  hn::StoreU(hn::Add(hn::LoadU(d2, out), hn::PromoteTo(d2, hn::LowerHalf(half, sums))), d2, out);
  hn::StoreU(hn::Add(hn::LoadU(d2, out + 2), hn::PromoteTo(d2, hn::UpperHalf(half, sums))), d2, out + 2);
#endif
}
#else
HWY_INLINE void AddSums4(VF a, VF b, VF c, VF d, double* out) {
  out[0] += static_cast<double>(hn::GetLane(a));
  out[1] += static_cast<double>(hn::GetLane(b));
  out[2] += static_cast<double>(hn::GetLane(c));
  out[3] += static_cast<double>(hn::GetLane(d));
}
#endif

HWY_INLINE float MaxLanes(VF v) { return hn::GetLane(hn::MaxOfLanes(DF(), v)); }

// ------------------------------------------------------------------------------------------------- functions

/// e^x to about 1e-16 of it: exp(-700) and below is that tiny number, 700 and above exp(700); NaN for NaN.
HWY_INLINE VD Exp(VD x) {
  const DD d;
  const hn::RebindToUnsigned<DD> du;
  // 1. x = n ln2 + r, ln2 in two parts so that n * high is exact. Adding 1.5 * 2^52 leaves n in the low bits.
  const VD clamped = hn::Min(hn::Max(x, hn::Set(d, -700.0)), hn::Set(d, 700.0));
  const VD magic = hn::Set(d, 6755399441055744.0);
  const VD shifted = hn::MulAdd(clamped, hn::Set(d, 1.4426950408889634), magic);
  const VD n = hn::Sub(shifted, magic);
  const VD r = hn::NegMulAdd(n, hn::Set(d, 1.9082149292705877e-10),
                             hn::NegMulAdd(n, hn::Set(d, 6.93147180369123816490e-01), clamped));
  // 2. The Taylor polynomial of degree 13 on |r| <= ln2 / 2; what is left out is below 5e-18.
  constexpr double kInverseFactorials[] = {
      1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
      1.0 / 720,       1.0 / 120,      1.0 / 24,      1.0 / 6,      0.5};
  VD y = hn::Set(d, 1.0 / 6227020800.0);
  for (double coefficient : kInverseFactorials) y = hn::MulAdd(y, r, hn::Set(d, coefficient));
  y = hn::Add(hn::MulAdd(y, hn::Mul(r, r), r), hn::Set(d, 1.0));
  // 3. Times 2^n through the exponent field.
  const auto exponent = hn::ShiftLeft<52>(hn::BitCast(du, shifted));
  const VD scaled = hn::BitCast(d, hn::Add(hn::BitCast(du, y), exponent));
  return hn::IfThenElse(hn::IsNaN(x), x, scaled);
}
HWY_INLINE Wide Exp(Wide x) {
  return MapWide([&](int i) HWY_ATTR { return Exp(x.part[i]); });
}

/// 1 / (1 + e^-x)
HWY_INLINE Wide Sigmoid(Wide x) {
  const Wide one = SetWide(1.0);
  return Div(one, Add(one, Exp(Neg(x))));
}

/// log(1 + u) for u in [0, 1]: 2 atanh(u / (2 + u)), whose argument is at most 1/3.
HWY_INLINE VD Log1pUnit(VD u) {
  const DD d;
  const VD s = hn::Div(u, hn::Add(u, hn::Set(d, 2.0)));
  const VD z = hn::Mul(s, s);
  VD sum = hn::Set(d, 1.0 / 35);
  for (int k = 33; k >= 1; k -= 2) sum = hn::MulAdd(sum, z, hn::Set(d, 1.0 / k));
  return hn::Mul(hn::Add(s, s), sum);
}

}  // namespace deepinfer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
