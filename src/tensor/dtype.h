// Number formats of the model and their scalar codecs (spec: model.md §4.1). Everything here is exact: fp32 arithmetic and bit
// patterns only, so every back end may rely on it for the same bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace deepinfer {

/// A bfloat16 value as its bits.
struct Bf16 {
  uint16_t bits = 0;
  friend bool operator==(Bf16 a, Bf16 b) = default;
};

inline float ToFloat(Bf16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

/// Round to nearest, ties to even; NaN stays NaN.
inline Bf16 ToBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

/// double -> float -> bf16, the two roundings of the reference (spec: model.md §3; goldens).
inline Bf16 ToBf16(double value) { return ToBf16(static_cast<float>(value)); }

inline constexpr float kE4m3Max = 448.0f;
inline constexpr float kE2m1Max = 6.0f;

/// Value of every E4M3 code; 0x7F and 0xFF are NaN.
extern const float kE4m3Table[256];
/// Value of every E2M1 code 0..15; bit 3 is the sign.
inline constexpr float kE2m1Table[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                         -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

inline float E4m3ToFloat(uint8_t code) { return kE4m3Table[code]; }
/// Clamps to ±448, then rounds to nearest, ties to even. NaN gives 0x7F.
uint8_t FloatToE4m3(float value);

/// 2^(code-127); 0 gives the subnormal 2^-127, 255 gives NaN.
inline float E8m0ToFloat(uint8_t code) {
  if (code == 255) return std::bit_cast<float>(0x7FC00000u);
  return std::bit_cast<float>(code == 0 ? 0x00400000u : static_cast<uint32_t>(code) << 23);
}
/// Code of a normal power of two.
inline uint8_t Pow2ToE8m0(float scale) { return static_cast<uint8_t>(std::bit_cast<uint32_t>(scale) >> 23); }

inline float E2m1ToFloat(uint8_t code) { return kE2m1Table[code & 15]; }
/// Nearest of the 16 values, ties to the even code; the argument lies in [-6, 6]. The sign of zero is kept.
uint8_t FloatToE2m1(float value);

/// 2^ceil(log2(amax * fp32(1/max))) from the bits of the fp32 product (spec: model.md §4.2).
inline float Pow2Scale(float amax, float inverse_max) {
  const uint32_t bits = std::bit_cast<uint32_t>(amax * inverse_max);
  const uint32_t exponent = ((bits >> 23) & 0xFFu) + ((bits & 0x7FFFFFu) != 0 ? 1u : 0u);
  return std::bit_cast<float>(exponent << 23);
}

}  // namespace deepinfer
