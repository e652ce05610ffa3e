#include "tensor/dtype.h"

#include <algorithm>

namespace deepinfer {
namespace {

struct E4m3Values {
  float v[256];
};

constexpr float PowerOfTwo(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

constexpr float DecodeE4m3(int code) {
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::bit_cast<float>(0x7FC00000u);
  const float magnitude = exponent == 0 ? static_cast<float>(mantissa) * PowerOfTwo(-9)
                                        : static_cast<float>(8 + mantissa) * PowerOfTwo(exponent - 10);
  return (code & 128) != 0 ? -magnitude : magnitude;
}

}  // namespace

#define DEEPINFER_E4M3_ROW(b)                                                                \
  DecodeE4m3(b), DecodeE4m3(b + 1), DecodeE4m3(b + 2), DecodeE4m3(b + 3), DecodeE4m3(b + 4), \
      DecodeE4m3(b + 5), DecodeE4m3(b + 6), DecodeE4m3(b + 7)
#define DEEPINFER_E4M3_BLOCK(b) \
  DEEPINFER_E4M3_ROW(b), DEEPINFER_E4M3_ROW(b + 8), DEEPINFER_E4M3_ROW(b + 16), DEEPINFER_E4M3_ROW(b + 24)

constinit const float kE4m3Table[256] = {DEEPINFER_E4M3_BLOCK(0),   DEEPINFER_E4M3_BLOCK(32),
                                         DEEPINFER_E4M3_BLOCK(64),  DEEPINFER_E4M3_BLOCK(96),
                                         DEEPINFER_E4M3_BLOCK(128), DEEPINFER_E4M3_BLOCK(160),
                                         DEEPINFER_E4M3_BLOCK(192), DEEPINFER_E4M3_BLOCK(224)};

uint8_t FloatToE4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const float magnitude = std::bit_cast<float>(bits & 0x7FFFFFFFu);
  if (!(magnitude <= kE4m3Max)) return static_cast<uint8_t>(std::isnan(magnitude) ? 0x7Fu : sign | 0x7Eu);
  const int exponent = std::max(static_cast<int>((bits >> 23) & 0xFFu) - 127, -6);
  // Steps of 2^(exponent-3): 0..7 at the lowest exponent are subnormals, 16 carries into the next binade. Both follow from
  // adding the step count to (biased exponent) * 8, because the implicit bit is worth 8 steps.
  const float scaled = magnitude * PowerOfTwo(3 - exponent);
  const int steps = static_cast<int>(std::nearbyintf(scaled));
  return static_cast<uint8_t>(sign | static_cast<uint32_t>((exponent + 6) * 8 + steps));
}

uint8_t FloatToE2m1(float value) {
  const float m = std::fabs(value);
  // Ties go to the even code: up at the midpoints 0.75, 1.75 and 3.5, down at the others.
  const int code =
      (m > 0.25f) + (m >= 0.75f) + (m > 1.25f) + (m >= 1.75f) + (m > 2.5f) + (m >= 3.5f) + (m > 5.0f);
  return static_cast<uint8_t>(code | (std::signbit(value) ? 8 : 0));
}

}  // namespace deepinfer
