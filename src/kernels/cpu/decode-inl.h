// Packed rows (FP8, FP4, bf16, float) -> float tiles in pair order. Every value is exact: code * scale has few significant bits.
#if defined(DEEPINFER_KERNELS_CPU_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DEEPINFER_KERNELS_CPU_DECODE_INL_H_
#undef DEEPINFER_KERNELS_CPU_DECODE_INL_H_
#else
#define DEEPINFER_KERNELS_CPU_DECODE_INL_H_
#endif

#include "kernels/cpu/simd-inl.h"
#include "tensor/quantize.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::kernels::HWY_NAMESPACE {

HWY_INLINE void StoreTilePair(Pair v, float* out) {
  StoreFloats(v.even, out);
  StoreFloats(v.odd, out + kLanes);
}

// ------------------------------------------------------------------------------------------------- E4M3

#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
/// E4M3 codes in the high bytes of 16-bit lanes -> code / 2^8 as binary16 (which has the subnormals of E4M3 as subnormals).
template <class V16>
HWY_INLINE VF E4m3HighBytes(V16 high) {
  const hn::Rebind<int16_t, DF> d16;
  // The arithmetic shift doubles the sign bit; clearing the copy leaves sign, 5-bit exponent, mantissa.
  auto half = hn::And(hn::ShiftRight<1>(high), hn::Set(d16, static_cast<int16_t>(0xBFFF)));
  const auto magnitude = hn::And(half, hn::Set(d16, static_cast<int16_t>(0x7FFF)));
  const auto nan = hn::VecFromMask(d16, hn::Eq(magnitude, hn::Set(d16, static_cast<int16_t>(0x3F80))));
  half = hn::Or(half, hn::And(nan, hn::Set(d16, static_cast<int16_t>(0x4000))));
  const hn::Rebind<hwy::float16_t, DF> dh;
  return hn::Mul(hn::PromoteTo(DF(), hn::BitCast(dh, half)), Set(256.0f));
}

HWY_INLINE Pair DecodeE4m3(const uint8_t* codes) {
  const hn::Rebind<int16_t, DF> d16;
  const auto words = hn::LoadU(d16, reinterpret_cast<const int16_t*>(codes));
  return {E4m3HighBytes(hn::ShiftLeft<8>(words)),
          E4m3HighBytes(hn::And(words, hn::Set(d16, static_cast<int16_t>(0xFF00))))};
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

HWY_INLINE Pair DecodeE4m3(const uint8_t* codes) {
  alignas(64) uint16_t buffer[kLanes];
  std::memcpy(buffer, codes, sizeof(buffer));
  const hn::Rebind<uint16_t, DF> d16;
  const VU32 words = hn::PromoteTo(DU32(), hn::Load(d16, buffer));
  return {E4m3Words(hn::And(words, hn::Set(DU32(), 0xFFu))), E4m3Words(hn::ShiftRight<8>(words))};
}
#endif

// ------------------------------------------------------------------------------------------------- E2M1

/// Values of the codes in the low four bits of each lane, other bits of the argument are ignored.
HWY_INLINE VF E2m1Words(VU32 codes) {
  const DU32 du;
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  const VF table = LoadFloats(kE2m1Table);
  const auto index = hn::BitCast(DI32(), hn::And(codes, hn::Set(du, 15u)));
  return hn::TableLookupLanes(table, hn::IndicesFromVec(DF(), index));
#else
#if HWY_TARGET == HWY_AVX2 && HWY_ARCH_X86
  const VF table = LoadFloats(kE2m1Table);
  const auto index = hn::BitCast(DI32(), hn::And(codes, hn::Set(du, 7u)));
  const VF value = hn::TableLookupLanes(table, hn::IndicesFromVec(DF(), index));
#else
  // As for E4M3: 0 and 0.5 come out as 0.5 and 0.75, and min() puts them right.
  const VU32 magnitude = hn::And(codes, hn::Set(du, 7u));
  const VF f = Floats(hn::Add(hn::ShiftLeft<22>(magnitude), hn::Set(du, 126u << 23)));
  const VF value = hn::Add(f, hn::Min(hn::Sub(f, Set(1.0f)), Zero()));
#endif
  return Floats(hn::Or(Bits(value), hn::And(hn::ShiftLeft<28>(codes), hn::Set(du, 0x80000000u))));
#endif
}

HWY_INLINE Pair DecodeE2m1(const uint8_t* codes) {
  alignas(64) uint8_t buffer[kLanes];
  std::memcpy(buffer, codes, sizeof(buffer));
  const hn::Rebind<uint8_t, DF> d8;
  const VU32 words = hn::PromoteTo(DU32(), hn::Load(d8, buffer));
  return {E2m1Words(words), E2m1Words(hn::ShiftRight<4>(words))};
}

// ------------------------------------------------------------------------------------------------- rows

/// E4M3 [k] with one E8M0 scale for 32 values; the tile row is padded with zeros to a multiple of 32.
HWY_INLINE void DecodeFp8Row(const uint8_t* codes, const uint8_t* scales, int64_t k, float* out) {
  ForSteps(k, kQuantGroup, [&](int64_t i, int64_t count) HWY_ATTR {
    alignas(64) uint8_t buffer[kQuantGroup] = {};
    const uint8_t* group = codes + i;
    if (count < kQuantGroup) {
      std::memcpy(buffer, group, static_cast<size_t>(count));
      group = buffer;
    }
    const VF scale = Set(E8m0ToFloat(scales[i / kQuantGroup]));
    for (int64_t j = 0; j < kQuantGroup; j += kPair) {
      const Pair v = DecodeE4m3(group + j);
      StoreTilePair({hn::Mul(v.even, scale), hn::Mul(v.odd, scale)}, out + i + j);
    }
  });
}

/// Packed E2M1 [k/2] with one E8M0 scale for 32 values; k is a multiple of 32.
HWY_INLINE void DecodeFp4Row(const uint8_t* codes, const uint8_t* scales, int64_t k, float* out) {
  for (int64_t i = 0; i < k; i += kQuantGroup) {
    const VF scale = Set(E8m0ToFloat(scales[i / kQuantGroup]));
    for (int64_t j = i; j < i + kQuantGroup; j += kPair) {
      const Pair v = DecodeE2m1(codes + j / 2);
      StoreTilePair({hn::Mul(v.even, scale), hn::Mul(v.odd, scale)}, out + j);
    }
  }
}

/// Packed E2M1 [k/2] with one E4M3 scale for 16 values; k is a multiple of 32.
HWY_INLINE void DecodeFp4MainRow(const uint8_t* codes, const uint8_t* scales, int64_t k, float* out) {
  const DF d;
  for (int64_t i = 0; i < k; i += kPair) {
    const VF first = Set(E4m3ToFloat(scales[i / kMainKvGroup]));
    VF scale = first;
    if constexpr (kPair > kMainKvGroup) {  // one vector spans two groups: byte b holds values 2b and 2b + 1
      const VF second = Set(E4m3ToFloat(scales[i / kMainKvGroup + 1]));
      scale = hn::IfThenElse(hn::FirstN(d, kMainKvGroup / 2), first, second);
    }
    const Pair v = DecodeE2m1(codes + i / 2);
    StoreTilePair({hn::Mul(v.even, scale), hn::Mul(v.odd, scale)}, out + i);
  }
}

HWY_INLINE void DecodeBf16Row(const Bf16* values, int64_t k, float* out) {
  ForSteps(k, kPair, [&](int64_t i, int64_t count) HWY_ATTR { StoreTilePair(LoadPairN(values + i, count), out + i); });
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
