#include "tensor/quantize.h"

#include <algorithm>
#include <cmath>

namespace deepinfer {
namespace {

float GroupMax(const Bf16* x, int n, float floor_value) {
  float amax = floor_value;
  for (int i = 0; i < n; ++i) amax = std::max(amax, std::fabs(ToFloat(x[i])));
  return amax;
}

/// One group of E2M1 codes for x/s, packed two to a byte.
void PackE2m1(const Bf16* x, int n, float scale, uint8_t* codes) {
  for (int i = 0; i < n; i += 2) {
    const uint8_t low = FloatToE2m1(std::clamp(ToFloat(x[i]) / scale, -kE2m1Max, kE2m1Max));
    const uint8_t high = FloatToE2m1(std::clamp(ToFloat(x[i + 1]) / scale, -kE2m1Max, kE2m1Max));
    codes[i / 2] = static_cast<uint8_t>(low | (high << 4));
  }
}

void UnpackE2m1(const uint8_t* codes, int n, float scale, Bf16* out) {
  for (int i = 0; i < n; i += 2) {
    out[i] = ToBf16(E2m1ToFloat(codes[i / 2] & 15) * scale);
    out[i + 1] = ToBf16(E2m1ToFloat(codes[i / 2] >> 4) * scale);
  }
}

}  // namespace

void QuantizeFp8(const Bf16* x, int64_t d, uint8_t* codes, uint8_t* scales) {
  for (int64_t g = 0; g < d / kQuantGroup; ++g, x += kQuantGroup, codes += kQuantGroup) {
    const float scale = Pow2Scale(GroupMax(x, kQuantGroup, 1e-4f), 1.0f / kE4m3Max);
    for (int i = 0; i < kQuantGroup; ++i) codes[i] = FloatToE4m3(ToFloat(x[i]) / scale);
    scales[g] = Pow2ToE8m0(scale);
  }
}

void QuantizeFp4Index(const Bf16* x, int64_t d, uint8_t* codes, uint8_t* scales) {
  constexpr float kFloor = kE2m1Max * 0x1p-126f;
  for (int64_t g = 0; g < d / kQuantGroup; ++g, x += kQuantGroup, codes += kQuantGroup / 2) {
    const float scale = Pow2Scale(GroupMax(x, kQuantGroup, kFloor), 1.0f / kE2m1Max);
    PackE2m1(x, kQuantGroup, scale, codes);
    scales[g] = Pow2ToE8m0(scale);
  }
}

void QuantizeFp4Main(const Bf16* x, int64_t d, uint8_t* codes, uint8_t* scales) {
  constexpr float kFloor = kE2m1Max * 0x1p-9f;
  for (int64_t g = 0; g < d / kMainKvGroup; ++g, x += kMainKvGroup, codes += kMainKvGroup / 2) {
    // A true division by 6 and a rounding to E4M3, which may round down: the clamp to ±6 is then active.
    scales[g] = FloatToE4m3(GroupMax(x, kMainKvGroup, kFloor) / kE2m1Max);
    PackE2m1(x, kMainKvGroup, E4m3ToFloat(scales[g]), codes);
  }
}

void DequantizeFp8(const uint8_t* codes, const uint8_t* scales, int64_t d, Bf16* out) {
  for (int64_t i = 0; i < d; ++i)
    out[i] = ToBf16(E4m3ToFloat(codes[i]) * E8m0ToFloat(scales[i / kQuantGroup]));
}

void DequantizeFp4Index(const uint8_t* codes, const uint8_t* scales, int64_t d, Bf16* out) {
  for (int64_t g = 0; g < d / kQuantGroup; ++g) {
    UnpackE2m1(codes + g * kQuantGroup / 2, kQuantGroup, E8m0ToFloat(scales[g]), out + g * kQuantGroup);
  }
}

void DequantizeFp4Main(const uint8_t* codes, const uint8_t* scales, int64_t d, Bf16* out) {
  for (int64_t g = 0; g < d / kMainKvGroup; ++g) {
    UnpackE2m1(codes + g * kMainKvGroup / 2, kMainKvGroup, E4m3ToFloat(scales[g]), out + g * kMainKvGroup);
  }
}

}  // namespace deepinfer
