// Scalar codecs against tables of the specification and a slow rounding by search (spec: model.md §4.1, §4.2, §14.1, §16).
#include "tensor/dtype.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "support/golden_file.h"

namespace deepinfer {
namespace {

using testing::GoldenFile;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Value of an E4M3 code by the definition of the format, in double.
double DefinedE4m3(int code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(1 + mantissa / 8.0, exponent - 7);
  return code >= 128 ? -magnitude : magnitude;
}

bool IsE4m3Nan(int code) { return (code & 0x7F) == 0x7F; }

/// The code of the nearest value, ties to the even code, by trying all codes of the argument's sign.
template <typename Value>
int NearestCode(float x, int num_codes, const Value& value_of) {
  const int sign = std::signbit(x) ? num_codes / 2 : 0;
  int best = sign;
  for (int code = sign; code < sign + num_codes / 2; ++code) {
    const double error = std::fabs(value_of(code) - static_cast<double>(x));
    const double best_error = std::fabs(value_of(best) - static_cast<double>(x));
    if (error < best_error || (error == best_error && code % 2 == 0)) best = code;
  }
  return best;
}

int SlowE4m3(float x) {
  const float clamped = std::fmin(std::fmax(x, -448.0f), 448.0f);
  return NearestCode(clamped, 256, [](int code) { return IsE4m3Nan(code) ? 1e300 : DefinedE4m3(code); });
}

int SlowE2m1(float x) {
  return NearestCode(x, 16, [](int code) { return static_cast<double>(kE2m1Table[code]); });
}

TEST(E4m3, AllCodesHaveTheDefinedValue) {
  const std::span<const float> golden = GoldenFile::Shared("tiny_goldens").Floats("quant.e4m3_table");
  for (int code = 0; code < 256; ++code) {
    const float value = E4m3ToFloat(static_cast<uint8_t>(code));
    if (IsE4m3Nan(code)) {
      EXPECT_TRUE(std::isnan(value)) << code;
      EXPECT_TRUE(std::isnan(golden[static_cast<size_t>(code)])) << code;
      continue;
    }
    EXPECT_EQ(value, DefinedE4m3(code)) << code;
    EXPECT_EQ(std::signbit(value), code >= 128) << code;
    EXPECT_EQ(value, golden[static_cast<size_t>(code)]) << code;
  }
  EXPECT_EQ(E4m3ToFloat(0x7E), 448.0f);
  EXPECT_EQ(E4m3ToFloat(0x08), 0x1p-6f);
  EXPECT_EQ(E4m3ToFloat(0x01), 0x1p-9f);
}

TEST(E4m3, EveryValueEncodesToItsCode) {
  for (int code = 0; code < 256; ++code) {
    if (IsE4m3Nan(code)) continue;
    EXPECT_EQ(FloatToE4m3(E4m3ToFloat(static_cast<uint8_t>(code))), code);
  }
}

TEST(E4m3, RoundsToNearestEven) {
  for (int code = 0; code < 126; ++code) {
    const double low = DefinedE4m3(code), high = DefinedE4m3(code + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    for (const float x : {middle, std::nextafter(middle, kInfinity), std::nextafter(middle, -kInfinity),
                          static_cast<float>(low)}) {
      EXPECT_EQ(FloatToE4m3(x), SlowE4m3(x)) << x;
      EXPECT_EQ(FloatToE4m3(-x), SlowE4m3(-x)) << -x;
    }
  }
  std::mt19937 engine(1);
  for (int i = 0; i < 20000; ++i) {
    const float x = std::ldexp(std::uniform_real_distribution<float>(-1, 1)(engine),
                               static_cast<int>(engine() % 24) - 13);
    ASSERT_EQ(FloatToE4m3(x), SlowE4m3(x)) << x;
  }
}

TEST(E4m3, ClampsAndKeepsTheSignOfZero) {
  EXPECT_EQ(FloatToE4m3(449.0f), 0x7E);
  EXPECT_EQ(FloatToE4m3(1e30f), 0x7E);
  EXPECT_EQ(FloatToE4m3(-1e30f), 0xFE);
  EXPECT_EQ(FloatToE4m3(kInfinity), 0x7E);
  EXPECT_EQ(FloatToE4m3(-kInfinity), 0xFE);
  EXPECT_EQ(FloatToE4m3(std::numeric_limits<float>::quiet_NaN()), 0x7F);
  EXPECT_EQ(FloatToE4m3(0.0f), 0x00);
  EXPECT_EQ(FloatToE4m3(-0.0f), 0x80);
  EXPECT_EQ(FloatToE4m3(0x1p-10f), 0x00);  // half the smallest subnormal: tie to zero
  EXPECT_EQ(FloatToE4m3(0x1.8p-10f), 0x01);
  EXPECT_EQ(FloatToE4m3(-0x1p-140f), 0x80);  // a subnormal float
}

TEST(E4m3, GoldenProbe) {
  const GoldenFile& goldens = GoldenFile::Shared("tiny_goldens");
  const std::span<const float> input = goldens.Floats("quant.e4m3_probe.input");
  const std::span<const uint8_t> codes = goldens.Bytes("quant.e4m3_probe.codes");
  ASSERT_EQ(input.size(), codes.size());
  for (size_t i = 0; i < input.size(); ++i) EXPECT_EQ(FloatToE4m3(input[i]), codes[i]) << input[i];
}

TEST(E2m1, AllCodes) {
  const float magnitudes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int code = 0; code < 16; ++code) {
    const float value = E2m1ToFloat(static_cast<uint8_t>(code));
    EXPECT_EQ(std::fabs(value), magnitudes[code % 8]) << code;
    EXPECT_EQ(std::signbit(value), code >= 8) << code;
    EXPECT_EQ(FloatToE2m1(value), code);
    EXPECT_EQ(E2m1ToFloat(static_cast<uint8_t>(code | 0xF0)), value) << "only the low nibble counts";
  }
}

TEST(E2m1, TieTable) {
  const std::pair<float, float> ties[] = {{0.25f, 0}, {0.75f, 1}, {1.25f, 1}, {1.75f, 2},
                                          {2.5f, 2},  {3.5f, 4},  {5, 4}};
  for (const auto& [x, result] : ties) {
    EXPECT_EQ(E2m1ToFloat(FloatToE2m1(x)), result) << x;
    EXPECT_EQ(E2m1ToFloat(FloatToE2m1(-x)), -result) << -x;
  }
  EXPECT_EQ(FloatToE2m1(-0.0f), 8);
  EXPECT_EQ(FloatToE2m1(-0.1f), 8) << "the sign of zero is kept";
}

TEST(E2m1, RoundsToNearestEven) {
  std::vector<float> probes;
  for (int i = -6 * 64; i <= 6 * 64; ++i) {
    const float x = static_cast<float>(i) / 64;
    probes.insert(probes.end(), {x, std::nextafter(x, 0.0f)});
    if (std::fabs(x) < 6) probes.push_back(std::nextafter(x, x < 0 ? -kInfinity : kInfinity));
  }
  for (float x : probes) ASSERT_EQ(FloatToE2m1(x), SlowE2m1(x)) << x;
}

TEST(E8m0, PowersOfTwo) {
  for (int code = 0; code < 255; ++code) {
    const float value = E8m0ToFloat(static_cast<uint8_t>(code));
    EXPECT_EQ(value, std::ldexp(1.0, code - 127)) << code;
    if (code == 0) continue;  // 2^-127 is no normal number
    EXPECT_EQ(Pow2ToE8m0(value), code);
  }
  EXPECT_TRUE(std::isnan(E8m0ToFloat(255)));
}

/// 2^ceil(log2(t)) without logarithms: the smallest power of two that is not below t.
double SlowPow2Ceil(double t) {
  int exponent = 0;
  const double mantissa = std::frexp(t, &exponent);  // t = mantissa * 2^exponent, mantissa in [0.5, 1)
  return std::ldexp(1.0, mantissa == 0.5 ? exponent - 1 : exponent);
}

TEST(Pow2Scale, SpecifiedNumbers) {
  const auto fp8 = [](float amax) { return Pow2Scale(std::max(amax, 1e-4f), 1.0f / kE4m3Max); };
  const auto fp4 = [](float amax) { return Pow2Scale(amax, 1.0f / kE2m1Max); };
  EXPECT_EQ(fp8(0), 0x1p-22f);
  EXPECT_EQ(fp8(1e-4f), 0x1p-22f);
  EXPECT_EQ(fp8(1), 0x1p-8f);
  EXPECT_EQ(fp8(3.5f), 0x1p-7f);
  EXPECT_EQ(fp8(7), 0x1p-6f);
  EXPECT_EQ(fp8(448), 1);
  EXPECT_EQ(fp8(449), 2);
  EXPECT_EQ(fp4(0.75f), 0x1p-3f);
  EXPECT_EQ(fp4(1), 0x1p-2f);
  EXPECT_EQ(fp4(1.5f), 0x1p-2f);
  EXPECT_EQ(fp4(3), 0x1p-1f);
  EXPECT_EQ(fp4(6), 1);
  EXPECT_EQ(fp4(6.1f), 2);
}

TEST(Pow2Scale, IsThePowerAboveTheFp32Product) {
  std::mt19937 engine(2);
  for (int i = 0; i < 20000; ++i) {
    const float amax = std::ldexp(std::uniform_real_distribution<float>(1, 2)(engine),
                                  static_cast<int>(engine() % 200) - 100);
    for (const float inverse : {1.0f / 448, 1.0f / 6}) {
      ASSERT_EQ(Pow2Scale(amax, inverse), SlowPow2Ceil(static_cast<double>(amax * inverse))) << amax;
    }
  }
}

TEST(Pow2Scale, GoldenProbe) {
  const GoldenFile& goldens = GoldenFile::Shared("tiny_goldens");
  const std::span<const float> amax = goldens.Floats("quant.scale_probe.amax");
  for (size_t i = 0; i < amax.size(); ++i) {
    EXPECT_EQ(Pow2Scale(std::max(amax[i], 1e-4f), 1.0f / 448), goldens.Floats("quant.scale_probe.fp8")[i])
        << amax[i];
    EXPECT_EQ(Pow2Scale(std::max(amax[i], 6 * 0x1p-126f), 1.0f / 6),
              goldens.Floats("quant.scale_probe.fp4")[i])
        << amax[i];
  }
}

TEST(Bf16, AllValuesSurvive) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Bf16 value{static_cast<uint16_t>(bits)};
    if (std::isnan(ToFloat(value))) {
      ASSERT_TRUE(std::isnan(ToFloat(ToBf16(ToFloat(value))))) << bits;
    } else {
      ASSERT_EQ(ToBf16(ToFloat(value)), value) << bits;
    }
  }
}

TEST(Bf16, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7F7F; ++bits) {  // up to the last pair of finite neighbours
    const Bf16 low{static_cast<uint16_t>(bits)}, high{static_cast<uint16_t>(bits + 1)};
    const float middle = std::bit_cast<float>((bits << 16) | 0x8000u);
    ASSERT_EQ(ToBf16(middle), bits % 2 == 0 ? low : high) << middle;
    ASSERT_EQ(ToBf16(std::nextafter(middle, kInfinity)), high) << middle;
    ASSERT_EQ(ToBf16(std::nextafter(middle, 0.0f)), low) << middle;
    ASSERT_EQ(ToBf16(-middle).bits, (bits % 2 == 0 ? low : high).bits | 0x8000) << middle;
  }
  EXPECT_EQ(ToFloat(ToBf16(std::numeric_limits<float>::max())), kInfinity);
  EXPECT_EQ(ToFloat(ToBf16(-kInfinity)), -kInfinity);
}

TEST(Bf16, NanStaysNan) {
  for (uint32_t bits : {0x7F800001u, 0x7F80FFFFu, 0x7FFFFFFFu, 0xFF800001u, 0xFFFFFFFFu}) {
    EXPECT_TRUE(std::isnan(ToFloat(ToBf16(std::bit_cast<float>(bits))))) << std::hex << bits;
  }
}

TEST(Bf16, FromDoubleRoundsTwice) {
  // 1 + 2^-8 + 2^-30 rounds to 1 + 2^-8 as float, which then is a tie and goes to 1; one rounding would give 1 + 2^-7.
  EXPECT_EQ(ToFloat(ToBf16(1.0 + 0x1p-8 + 0x1p-30)), 1.0f);
  EXPECT_EQ(ToFloat(ToBf16(1.0 + 0x1p-8 + 0x1p-20)), 1.0f + 0x1p-7f);
}

}  // namespace
}  // namespace deepinfer
