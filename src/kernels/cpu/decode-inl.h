// Packed rows (FP8, FP4, bf16, float) -> float tiles in pair order. Every value is exact: code * scale has few significant bits.
#if defined(DEEPINFER_KERNELS_CPU_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DEEPINFER_KERNELS_CPU_DECODE_INL_H_
#undef DEEPINFER_KERNELS_CPU_DECODE_INL_H_
#else
#define DEEPINFER_KERNELS_CPU_DECODE_INL_H_
#endif

#include <bit>

#include "kernels/cpu/simd-inl.h"
#include "tensor/quantize.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::kernels::HWY_NAMESPACE {

HWY_INLINE void StoreTilePair(Pair v, float* out) {
  StoreFloats(v.even, out);
  StoreFloats(v.odd, out + kLanes);
}

/// 2^(byte - 127) of every E8M0 byte; 255 is NaN.
struct E8m0Values {
  float v[256];
};
constexpr E8m0Values MakeE8m0Values() {
  E8m0Values values = {};
  for (uint32_t i = 0; i < 256; ++i) {
    values.v[i] = std::bit_cast<float>(i == 0 ? 0x00400000u : i == 255 ? 0x7FC00000u : i << 23);
  }
  return values;
}
inline constexpr E8m0Values kE8m0Values = MakeE8m0Values();

constexpr int kGroupPairs = static_cast<int>(kQuantGroup / kPair);  // pairs of one group of 32

// ------------------------------------------------------------------------------------------------- E4M3

#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
/// E4M3 codes other than NaN in the high bytes of 16-bit lanes -> code / 2^8, by way of binary16, whose subnormals and exponents
/// contain those of E4M3.
template <class V16>
HWY_INLINE VF E4m3HighBytes(V16 high) {
  const hn::Rebind<int16_t, DF> d16;
  // The arithmetic shift doubles the sign bit; clearing the copy leaves sign, 5-bit exponent, mantissa.
  const auto half = hn::And(hn::ShiftRight<1>(high), hn::Set(d16, static_cast<int16_t>(0xBFFF)));
  const hn::Rebind<hwy::float16_t, DF> dh;
  return hn::PromoteTo(DF(), hn::BitCast(dh, half));
}

HWY_INLINE bool AnyE4m3NaN(const uint8_t* codes) {
  const hn::FixedTag<uint8_t, 32> d8;
  const auto nan = hn::Set(d8, uint8_t{0x7F});
  return !hn::AllFalse(d8, hn::Eq(hn::And(hn::LoadU(d8, codes), nan), nan));
}

/// One group of 32 codes times 2^(scale - 127).
HWY_INLINE void Fp8Group(const uint8_t* codes, uint8_t scale, Pair (&out)[kGroupPairs]) {
  constexpr uint8_t kLargestScale = 246;  // the binary16 detour needs 2^8 times the scale as a float
  if (HWY_UNLIKELY(scale > kLargestScale || AnyE4m3NaN(codes))) {
    alignas(64) float even[kQuantGroup / 2], odd[kQuantGroup / 2];
    for (int i = 0; i < kQuantGroup / 2; ++i) {
      even[i] = kE4m3Table[codes[2 * i]] * kE8m0Values.v[scale];
      odd[i] = kE4m3Table[codes[2 * i + 1]] * kE8m0Values.v[scale];
    }
    for (int i = 0; i < kGroupPairs; ++i)
      out[i] = {LoadFloats(even + i * kLanes), LoadFloats(odd + i * kLanes)};
    return;
  }
  const hn::Rebind<int16_t, DF> d16;
  const VF factor = Set(kE8m0Values.v[scale] * 256.0f);
#pragma GCC unroll 16
  for (int i = 0; i < kGroupPairs; ++i) {
    const auto words = hn::LoadU(d16, reinterpret_cast<const int16_t*>(codes + i * kPair));
    out[i].even = hn::Mul(E4m3HighBytes(hn::ShiftLeft<8>(words)), factor);
    out[i].odd = hn::Mul(E4m3HighBytes(hn::And(words, hn::Set(d16, static_cast<int16_t>(0xFF00)))), factor);
  }
}
#else
HWY_INLINE VF E4m3Words(VU32 codes) {
  const DU32 du;
  const VU32 magnitude = hn::And(codes, hn::Set(du, 0x7Fu));
  // Normal codes get their exponent by an addition of bits. A subnormal m/8 * 2^-6 comes out as (1 + m/8) * 2^-7: twice that less
  // 2^-6 is right, which min() adds for values below 2^-6 only.
  const VF f = Floats(hn::Add(hn::ShiftLeft<20>(magnitude), hn::Set(du, 120u << 23)));
  VF value = hn::Add(f, hn::Min(hn::Sub(f, Set(0x1p-6f)), Zero()));
  const auto is_nan = hn::RebindMask(DF(), hn::Eq(magnitude, hn::Set(du, 0x7Fu)));
  value = hn::IfThenElse(is_nan, Floats(hn::Set(du, 0x7FC00000u)), value);
  return Floats(hn::Or(Bits(value), hn::ShiftLeft<24>(hn::And(codes, hn::Set(du, 0x80u)))));
}

/// One group of 32 codes times 2^(scale - 127).
HWY_INLINE void Fp8Group(const uint8_t* codes, uint8_t scale, Pair (&out)[kGroupPairs]) {
  const VF factor = Set(kE8m0Values.v[scale]);
  const hn::Rebind<uint16_t, DF> d16;
  for (int i = 0; i < kGroupPairs; ++i) {
    alignas(64) uint16_t buffer[kLanes];
    std::memcpy(buffer, codes + i * kPair, sizeof(buffer));
    const VU32 words = hn::PromoteTo(DU32(), hn::Load(d16, buffer));
    out[i].even = hn::Mul(E4m3Words(hn::And(words, hn::Set(DU32(), 0xFFu))), factor);
    out[i].odd = hn::Mul(E4m3Words(hn::ShiftRight<8>(words)), factor);
  }
}
#endif

// ------------------------------------------------------------------------------------------------- E2M1

/// What turns E2M1 codes into code * scale: a table of products where lanes can be looked up, else the scale itself.
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
HWY_INLINE VF E2m1Table(float scale) { return hn::Mul(LoadFloats(kE2m1Table), Set(scale)); }
#else
HWY_INLINE VF E2m1Table(float scale) { return Set(scale); }
#endif

/// Values of the codes in the low four bits of each lane; other bits are ignored.
HWY_INLINE VF E2m1Words(VF table, VU32 codes) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  return VF{_mm512_permutexvar_ps(codes.raw, table.raw)};
#else
  const VU32 sign = hn::And(hn::ShiftLeft<28>(codes), hn::Set(DU32(), 0x80000000u));
#if HWY_TARGET == HWY_AVX2 && HWY_ARCH_X86
  // The instruction itself looks at the low three bits only; Highway's checked form would need a mask first.
  return Floats(hn::Xor(Bits(VF{_mm256_permutevar8x32_ps(table.raw, codes.raw)}), sign));
#else
  // As for E4M3: 0 and 0.5 come out as 0.5 and 0.75, and min() puts them right.
  const VU32 magnitude = hn::And(codes, hn::Set(DU32(), 7u));
  const VF f = Floats(hn::Add(hn::ShiftLeft<22>(magnitude), hn::Set(DU32(), 126u << 23)));
  const VF value = hn::Mul(hn::Add(f, hn::Min(hn::Sub(f, Set(1.0f)), Zero())), table);
  return Floats(hn::Xor(Bits(value), sign));
#endif
#endif
}

/// kPair codes from kLanes bytes.
HWY_INLINE Pair E2m1Pair(VF table, const uint8_t* codes) {
  const hn::Rebind<uint8_t, DF> d8;
  const VU32 words = hn::PromoteTo(DU32(), hn::LoadU(d8, codes));
  return {E2m1Words(table, words), E2m1Words(table, hn::ShiftRight<4>(words))};
}

/// One group of 32 packed codes times 2^(scale - 127).
HWY_INLINE void Fp4Group(const uint8_t* codes, uint8_t scale, Pair (&out)[kGroupPairs]) {
  const VF table = E2m1Table(kE8m0Values.v[scale]);
#pragma GCC unroll 16
  for (int i = 0; i < kGroupPairs; ++i) out[i] = E2m1Pair(table, codes + i * kLanes);
}

// ------------------------------------------------------------------------------------------------- rows

HWY_INLINE void StoreGroup(const Pair (&group)[kGroupPairs], float* out) {
#pragma GCC unroll 16
  for (int i = 0; i < kGroupPairs; ++i) StoreTilePair(group[i], out + i * kPair);
}

/// E4M3 [k] with one E8M0 scale for 32 values; the tile row is padded with zeros to a multiple of 32.
HWY_INLINE void DecodeFp8Row(const uint8_t* codes, const uint8_t* scales, int64_t k, float* out) {
  ForSteps(k, kQuantGroup, [&](int64_t i, int64_t count) HWY_ATTR {
    alignas(64) uint8_t buffer[kQuantGroup] = {};
    const uint8_t* group = codes + i;
    if (HWY_UNLIKELY(count < kQuantGroup)) {
      std::memcpy(buffer, group, static_cast<size_t>(count));
      group = buffer;
    }
    Pair values[kGroupPairs];
    Fp8Group(group, scales[i / kQuantGroup], values);
    StoreGroup(values, out + i);
  });
}

/// Packed E2M1 [k/2] with one E8M0 scale for 32 values; k is a multiple of 32.
HWY_INLINE void DecodeFp4Row(const uint8_t* codes, const uint8_t* scales, int64_t k, float* out) {
  for (int64_t i = 0; i < k; i += kQuantGroup) {
    Pair values[kGroupPairs];
    Fp4Group(codes + i / 2, scales[i / kQuantGroup], values);
    StoreGroup(values, out + i);
  }
}

/// Packed E2M1 [k/2] with one E4M3 scale for 16 values; k is a multiple of 32.
HWY_INLINE void DecodeFp4MainRow(const uint8_t* codes, const uint8_t* scales, int64_t k, float* out) {
  for (int64_t i = 0; i < k; i += kPair) {
    const float scale = kE4m3Table[scales[i / kMainKvGroup]];
    if constexpr (kPair <= kMainKvGroup) {
      StoreTilePair(E2m1Pair(E2m1Table(scale), codes + i / 2), out + i);
    } else {  // one vector spans two groups: byte b holds values 2b and 2b + 1
      const VF second = Set(kE4m3Table[scales[i / kMainKvGroup + 1]]);
      const VF factor = hn::IfThenElse(hn::FirstN(DF(), kMainKvGroup / 2), Set(scale), second);
      const Pair v = E2m1Pair(E2m1Table(1.0f), codes + i / 2);
      StoreTilePair({hn::Mul(v.even, factor), hn::Mul(v.odd, factor)}, out + i);
    }
  }
}

HWY_INLINE void DecodeBf16Row(const Bf16* values, int64_t k, float* out) {
  ForSteps(k, kPair,
           [&](int64_t i, int64_t count) HWY_ATTR { StoreTilePair(LoadPairN(values + i, count), out + i); });
}

HWY_INLINE void DecodeFp32Row(const float* values, int64_t k, float* out) {
  ForSteps(k, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    alignas(64) float buffer[kPair] = {};
    const float* group = values + i;
    if (count < kPair) {
      std::memcpy(buffer, group, static_cast<size_t>(count) * sizeof(float));
      group = buffer;
    }
    const VF low = LoadFloats(group);
    const VF high = LoadFloats(group + kLanes);
#if HWY_TARGET == HWY_SCALAR
    StoreTilePair({low, high}, out + i);
#else
    StoreTilePair({hn::ConcatEven(DF(), high, low), hn::ConcatOdd(DF(), high, low)}, out + i);
#endif
  });
}

}  // namespace deepinfer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
