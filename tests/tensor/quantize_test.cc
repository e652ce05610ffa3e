// Row quantisers against the goldens, samples of the published checkpoint and their definition (spec: model.md §4.3, §4.4, §14.1, §16).
#include "tensor/quantize.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/golden_file.h"

namespace deepinfer {
namespace {

using testing::GoldenFile;

/// One quantiser with its inverse.
struct Quantizer {
  const char* name;
  void (*quantize)(const Bf16*, int64_t, uint8_t*, uint8_t*);
  void (*dequantize)(const uint8_t*, const uint8_t*, int64_t, Bf16*);
  int64_t codes_per_byte;
  int64_t group;
};

const Quantizer kQuantizers[] = {
    {"fp8_act", QuantizeFp8, DequantizeFp8, 1, kQuantGroup},
    {"fp4_index", QuantizeFp4Index, DequantizeFp4Index, 2, kQuantGroup},
    {"fp4_main", QuantizeFp4Main, DequantizeFp4Main, 2, kMainKvGroup},
};

struct Packed {
  std::vector<uint8_t> codes, scales;
  std::vector<Bf16> values;
};

Packed Apply(const Quantizer& quantizer, const std::vector<Bf16>& x) {
  const auto d = static_cast<int64_t>(x.size());
  Packed packed;
  packed.codes.assign(static_cast<size_t>(d / quantizer.codes_per_byte), 0xEE);
  packed.scales.assign(static_cast<size_t>(d / quantizer.group), 0xEE);
  packed.values.resize(x.size());
  quantizer.quantize(x.data(), d, packed.codes.data(), packed.scales.data());
  quantizer.dequantize(packed.codes.data(), packed.scales.data(), d, packed.values.data());
  return packed;
}

std::vector<Bf16> RandomRow(std::mt19937* engine, int64_t d, float limit) {
  std::vector<Bf16> x;
  const int exponent = static_cast<int>((*engine)() % 30) - 20;
  for (int64_t i = 0; i < d; ++i) {
    const float value = std::ldexp(std::normal_distribution<float>()(*engine), exponent);
    x.push_back(ToBf16(std::clamp(value, -limit, limit)));
  }
  return x;
}

class QuantizerTest : public ::testing::TestWithParam<Quantizer> {};

TEST_P(QuantizerTest, GoldenBytes) {
  const GoldenFile& goldens = GoldenFile::Shared("tiny_goldens");
  const std::string prefix = std::string("quant.") + GetParam().name;
  const std::string input = goldens.Has(prefix + ".input") ? prefix + ".input" : "quant.input";
  const std::span<const Bf16> all = goldens.Bf16s(input);
  const int64_t d = goldens.Get(input).row_size();
  for (int64_t row = 0; row < goldens.Get(input).shape.at(0); ++row) {
    const Packed packed = Apply(GetParam(), {all.begin() + row * d, all.begin() + (row + 1) * d});
    const auto expect_row = [row](const auto& got, const auto& want, const char* what) {
      const auto n = static_cast<int64_t>(got.size());
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(got[static_cast<size_t>(i)], want[static_cast<size_t>(row * n + i)])
            << what << ", row " << row << ", " << i;
      }
    };
    expect_row(packed.codes, goldens.Bytes(prefix + ".codes"), "codes");
    expect_row(packed.scales, goldens.Bytes(prefix + ".scales"), "scales");
    expect_row(packed.values, goldens.Bf16s(prefix + ".values"), "values");
  }
}

/// No value of the group's grid lies nearer to x than the chosen one.
TEST_P(QuantizerTest, ChoosesTheNearestGridValue) {
  std::mt19937 engine(4);
  const Quantizer& quantizer = GetParam();
  for (int i = 0; i < 100; ++i) {
    const std::vector<Bf16> x = RandomRow(&engine, 64, 2688.0f);
    const Packed packed = Apply(quantizer, x);
    for (size_t c = 0; c < x.size(); ++c) {
      const uint8_t scale_code = packed.scales[c / static_cast<size_t>(quantizer.group)];
      const double scale =
          quantizer.group == kMainKvGroup ? E4m3ToFloat(scale_code) : E8m0ToFloat(scale_code);
      const double chosen = std::fabs(static_cast<double>(ToFloat(packed.values[c])) - ToFloat(x[c]));
      for (int code = 0; code < (quantizer.codes_per_byte == 1 ? 256 : 16); ++code) {
        const auto byte = static_cast<uint8_t>(code);
        const double grid = scale * (quantizer.codes_per_byte == 1 ? E4m3ToFloat(byte) : E2m1ToFloat(byte));
        ASSERT_FALSE(std::fabs(grid - ToFloat(x[c])) < chosen)
            << "row " << i << ", channel " << c << ": " << grid;
      }
    }
  }
}

/// A scale group never looks at its neighbours.
TEST_P(QuantizerTest, GroupsAreIndependent) {
  std::mt19937 engine(5);
  std::vector<Bf16> x = RandomRow(&engine, 64, 2688.0f);
  const Packed before = Apply(GetParam(), x);
  for (size_t c = 32; c < 64; ++c) x[c] = ToBf16(2000.0f);
  const Packed after = Apply(GetParam(), x);
  EXPECT_TRUE(std::equal(before.values.begin(), before.values.begin() + 32, after.values.begin()));
  EXPECT_NE(before.scales.back(), after.scales.back());
}

/// code * scale fits bf16: converting the product in double gives the same number.
TEST_P(QuantizerTest, DequantizedValuesAreExact) {
  const Quantizer& quantizer = GetParam();
  const bool is_main = quantizer.group == kMainKvGroup;
  for (int scale_code = is_main ? 1 : 40; scale_code < (is_main ? 127 : 240); ++scale_code) {
    const double scale =
        is_main ? E4m3ToFloat(static_cast<uint8_t>(scale_code)) : std::ldexp(1.0, scale_code - 127);
    for (int code = 0; code < 256; ++code) {
      if (quantizer.codes_per_byte == 1 && (code & 0x7F) == 0x7F) continue;
      const std::vector<uint8_t> codes(32, static_cast<uint8_t>(code)),
          scales(2, static_cast<uint8_t>(scale_code));
      std::vector<Bf16> out(32);
      quantizer.dequantize(codes.data(), scales.data(), 32, out.data());
      const auto byte = static_cast<uint8_t>(code);
      const double even =
          scale * (quantizer.codes_per_byte == 1 ? E4m3ToFloat(byte) : E2m1ToFloat(byte & 15));
      const double odd = scale * (quantizer.codes_per_byte == 1 ? E4m3ToFloat(byte) : E2m1ToFloat(byte >> 4));
      ASSERT_EQ(ToFloat(out[0]), even) << "scale " << scale_code << ", code " << code;
      ASSERT_EQ(ToFloat(out[31]), odd) << "scale " << scale_code << ", code " << code;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizerTest, ::testing::ValuesIn(kQuantizers),
                         [](const auto& param) { return std::string(param.param.name); });

/// Values once on the grid stay there. Codes and scales may change together, values may not (spec: model.md §14.1). The main form
/// is no such projection: its E4M3 scale may round down again.
TEST(PowerOfTwoScales, ValuesAreAFixedPoint) {
  std::mt19937 engine(3);
  for (const Quantizer& quantizer : {kQuantizers[0], kQuantizers[1]}) {
    for (int i = 0; i < 500; ++i) {
      const Packed once = Apply(quantizer, RandomRow(&engine, 96, 1e30f));
      EXPECT_EQ(Apply(quantizer, once.values).values, once.values) << quantizer.name << ", row " << i;
    }
  }
}

TEST(Fp4Main, SpecifiedScales) {
  const std::pair<float, float> scales[] = {
      {0, 0x1p-9f}, {1, 0.171875f}, {6, 1}, {10, 1.625f}, {22.6f, 3.75f}};
  for (const auto& [amax, scale] : scales) {
    std::vector<Bf16> x(16);
    x[5] = ToBf16(-amax);
    EXPECT_EQ(E4m3ToFloat(Apply(kQuantizers[2], x).scales[0]), scale) << amax;
  }
}

TEST(Fp4Main, ClampIsActiveWhenTheScaleRoundsDown) {
  std::vector<Bf16> x(16);
  x[0] = ToBf16(10.0f);  // 10/6 -> scale 1.625: 10/1.625 = 6.15 is clamped to 6
  x[1] = ToBf16(-10.0f);
  const Packed packed = Apply(kQuantizers[2], x);
  EXPECT_EQ(ToFloat(packed.values[0]), 9.75f);
  EXPECT_EQ(ToFloat(packed.values[1]), -9.75f);
}

TEST(Fp8, ZeroRowsGetTheFloorScale) {
  const Packed packed = Apply(kQuantizers[0], std::vector<Bf16>(32));
  EXPECT_EQ(packed.scales[0], 127 - 22);
  EXPECT_EQ(packed.codes, std::vector<uint8_t>(32, 0));
  const Packed index = Apply(kQuantizers[1], std::vector<Bf16>(32));
  EXPECT_EQ(index.scales[0], 1);  // 2^-126
}

TEST(Fp4, EvenElementIsTheLowNibble) {
  std::vector<uint8_t> codes(16, 0xA0);
  const uint8_t scale = 127;
  std::vector<Bf16> out(32);
  DequantizeFp4Index(codes.data(), &scale, 32, out.data());
  EXPECT_EQ(ToFloat(out[0]), 0.0f);
  EXPECT_FALSE(std::signbit(ToFloat(out[0])));
  EXPECT_EQ(ToFloat(out[1]), -1.0f);
  std::vector<Bf16> x(32);
  x[0] = ToBf16(6.0f);  // scale 1
  x[1] = ToBf16(-1.0f);
  EXPECT_EQ(Apply(kQuantizers[1], x).codes[0], 0xA7);
}

/// Bytes of the published checkpoint (spec: model.md §16).
TEST(Checkpoint, Fp8Sample) {
  std::vector<uint8_t> codes = {0xd8, 0x71, 0xf2, 0x79, 0x70, 0x69, 0xf0, 0xe5};
  codes.resize(32);
  const uint8_t scale = 0x73;
  std::vector<Bf16> out(32);
  DequantizeFp8(codes.data(), &scale, 32, out.data());
  const float want[] = {-0.00390625f, 0.03515625f,  -0.0390625f, 0.0703125f,
                        0.03125f,     0.017578125f, -0.03125f,   -0.0126953125f};
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(ToFloat(out[i]), want[i]) << i;
}

TEST(Checkpoint, Fp4Sample) {
  std::vector<uint8_t> codes = {0xa0, 0xa8, 0xec, 0x4a, 0xad, 0xaf, 0x42, 0xaa};
  codes.resize(16);
  const uint8_t scale = 0x78;
  std::vector<Bf16> out(32);
  DequantizeFp4Index(codes.data(), &scale, 32, out.data());
  const float want[] = {0,           -0.0078125f, -0.0f,       -0.0078125f, -0.015625f, -0.03125f,
                        -0.0078125f, 0.015625f,   -0.0234375f, -0.0078125f, -0.046875f, -0.0078125f,
                        0.0078125f,  0.015625f,   -0.0078125f, -0.0078125f};
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(ToFloat(out[i]), want[i]) << i;
    EXPECT_EQ(std::signbit(ToFloat(out[i])), std::signbit(want[i])) << i;
  }
}

}  // namespace
}  // namespace deepinfer
