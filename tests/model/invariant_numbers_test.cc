// Invariants 1, 2, 5, 8 and 24 of spec: model.md §14: number formats, frequencies and hashes, without kernels.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "checkpoint/engram_constants.h"
#include "checkpoint/memory_plan.h"
#include "model/engram_hash.h"
#include "model/rope.h"
#include "model/state_layout.h"
#include "model/target_ops.h"
#include "tensor/quantize.h"

namespace deepinfer::testing {
namespace {

// The formats from their definition (spec: model.md §4.1), not from the tables of the code.
double E4m3Value(int code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

constexpr std::array<double, 8> kE2m1 = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

/// The nearest of the codes 0 .. count - 1, ties to the even code.
template <typename Value>
int NearestCode(double magnitude, int count, Value value) {
  int best = 0;
  for (int code = 1; code < count; ++code) {
    const double distance = std::fabs(value(code) - magnitude), other = std::fabs(value(best) - magnitude);
    if (distance < other || (distance == other && code % 2 == 0)) best = code;
  }
  return best;
}

TEST(NumberInvariants, Invariant01_E4m3CodesAreNearest) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(E4m3ToFloat(static_cast<uint8_t>(code))));
    } else {
      EXPECT_EQ(E4m3ToFloat(static_cast<uint8_t>(code)), E4m3Value(code)) << code;
    }
  }
  // Every bf16 of magnitude below 2^10, and the midpoints between neighbouring codes, which are the ties.
  const auto expect_nearest = [](float x) {
    const double clamped = std::min(std::fabs(static_cast<double>(x)), 448.0);
    const int code = NearestCode(clamped, 0x7F, E4m3Value) | (std::signbit(x) ? 0x80 : 0);
    ASSERT_EQ(FloatToE4m3(x), code) << x;
  };
  for (uint32_t bits = 0; bits < 0x4480; bits += 3) {
    expect_nearest(ToFloat(Bf16{static_cast<uint16_t>(bits)}));
    expect_nearest(ToFloat(Bf16{static_cast<uint16_t>(bits | 0x8000)}));
  }
  for (int code = 0; code < 0x7E; ++code)
    expect_nearest(static_cast<float>((E4m3Value(code) + E4m3Value(code + 1)) / 2));
}

TEST(NumberInvariants, Invariant01_GoldenScales) {
  const auto fp8 = [](float amax) { return Pow2Scale(amax, 1.0f / 448.0f); };
  EXPECT_EQ(fp8(1e-4f), 0x1p-22f);
  EXPECT_EQ(fp8(1.0f), 0x1p-8f);
  EXPECT_EQ(fp8(3.5f), 0x1p-7f);
  EXPECT_EQ(fp8(7.0f), 0x1p-6f);
  EXPECT_EQ(fp8(448.0f), 1.0f);
  EXPECT_EQ(fp8(449.0f), 2.0f);
  const auto fp4 = [](float amax) { return Pow2Scale(amax, 1.0f / 6.0f); };
  EXPECT_EQ(fp4(0.75f), 0x1p-3f);
  EXPECT_EQ(fp4(1.0f), 0x1p-2f);
  EXPECT_EQ(fp4(1.5f), 0x1p-2f);
  EXPECT_EQ(fp4(3.0f), 0x1p-1f);
  EXPECT_EQ(fp4(6.0f), 1.0f);
  EXPECT_EQ(fp4(6.1f), 2.0f);

  // Whole groups: a zero group takes the floor of its form, the others the figures above.
  const auto group_scale = [](auto quantize, int width, float amax) {
    std::vector<Bf16> x(static_cast<size_t>(width));
    x[3] = ToBf16(-amax);
    std::vector<uint8_t> codes(32), scales(2);
    quantize(x.data(), width, codes.data(), scales.data());
    return scales[0];
  };
  EXPECT_EQ(E8m0ToFloat(group_scale(QuantizeFp8, 32, 0)), 0x1p-22f);
  EXPECT_EQ(E8m0ToFloat(group_scale(QuantizeFp8, 32, 7)), 0x1p-6f);
  EXPECT_EQ(E8m0ToFloat(group_scale(QuantizeFp4Index, 32, 0)), 0x1p-126f);
  EXPECT_EQ(E8m0ToFloat(group_scale(QuantizeFp4Index, 32, 6.1f)), 2.0f);
  for (const auto& [amax, scale] :
       {std::pair(0.0f, 0x1p-9f), {1.0f, 0.171875f}, {6.0f, 1.0f}, {10.0f, 1.625f}, {22.6f, 3.75f}}) {
    EXPECT_EQ(E4m3ToFloat(group_scale(QuantizeFp4Main, 16, amax)), scale) << amax;
  }
}

/// One group against the definition: the scale from its rule, each code the nearest of x / s.
void ExpectMainGroup(std::span<const Bf16> x, std::span<const uint8_t> codes, uint8_t scale_code) {
  double amax = 6 * 0x1p-9;
  for (Bf16 v : x) amax = std::max(amax, std::fabs(static_cast<double>(ToFloat(v))));
  const double ratio = static_cast<float>(amax) / 6.0f;
  ASSERT_EQ(scale_code, NearestCode(std::min(ratio, 448.0), 0x7F, E4m3Value));
  const double scale = E4m3Value(scale_code);
  for (size_t i = 0; i < x.size(); ++i) {
    const float quotient = ToFloat(x[i]) / static_cast<float>(scale);
    const int magnitude = NearestCode(std::min(std::fabs(static_cast<double>(quotient)), 6.0), 8,
                                      [](int c) { return kE2m1[c]; });
    const int code = i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4;
    ASSERT_EQ(code, magnitude | (std::signbit(quotient) ? 8 : 0)) << i;
  }
}

TEST(NumberInvariants, Invariant01_MainKvGroupsAgainstTheDefinition) {
  Random random(101);
  for (int round = 0; round < 300; ++round) {
    const std::vector<Bf16> x = random.Bf16s(64, std::ldexp(1.0f, static_cast<int>(random.Below(12)) - 6));
    std::vector<uint8_t> codes(32), scales(4);
    QuantizeFp4Main(x.data(), 64, codes.data(), scales.data());
    for (size_t g = 0; g < 4; ++g) {
      ExpectMainGroup(std::span(x).subspan(g * 16, 16), std::span(codes).subspan(g * 8, 8), scales[g]);
    }
  }
}

TEST(NumberInvariants, Invariant01_CheckpointSamples) {
  // Bytes of the released checkpoint with their values (spec: model.md §16).
  const std::array<uint8_t, 8> e4m3 = {0xd8, 0x71, 0xf2, 0x79, 0x70, 0x69, 0xf0, 0xe5};
  const std::array<float, 8> values = {-0.00390625f, 0.03515625f,  -0.0390625f, 0.0703125f,
                                       0.03125f,     0.017578125f, -0.03125f,   -0.0126953125f};
  for (size_t i = 0; i < e4m3.size(); ++i)
    EXPECT_EQ(E4m3ToFloat(e4m3[i]) * E8m0ToFloat(0x73), values[i]) << i;

  std::array<uint8_t, 16> packed = {0xa0, 0xa8, 0xec, 0x4a, 0xad, 0xaf, 0x42, 0xaa};
  const uint8_t scale = 0x78;
  std::array<Bf16, 32> out;
  DequantizeFp4Index(packed.data(), &scale, 32, out.data());
  const std::array<float, 16> expected = {
      0,           -0.0078125f, -0.0f,      -0.0078125f, -0.015625f, -0.03125f, -0.0078125f, 0.015625f,
      -0.0234375f, -0.0078125f, -0.046875f, -0.0078125f, 0.0078125f, 0.015625f, -0.0078125f, -0.0078125f};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(ToFloat(out[i]), expected[i]) << i;
    EXPECT_EQ(std::signbit(ToFloat(out[i])), std::signbit(expected[i])) << i;
  }
}

TEST(NumberInvariants, Invariant02_TiesGoToTheEvenCode) {
  for (const auto& [x, value] : {std::pair(0.25f, 0.0f),
                                 {0.75f, 1.0f},
                                 {1.25f, 1.0f},
                                 {1.75f, 2.0f},
                                 {2.5f, 2.0f},
                                 {3.5f, 4.0f},
                                 {5.0f, 4.0f}}) {
    EXPECT_EQ(E2m1ToFloat(FloatToE2m1(x)), value) << x;
    EXPECT_EQ(E2m1ToFloat(FloatToE2m1(-x)), -value) << -x;
  }
  EXPECT_EQ(FloatToE2m1(0.0f), 0);
  EXPECT_EQ(FloatToE2m1(-0.0f), 8) << "the sign of zero is kept";
  for (int code = 0; code < 16; ++code) {
    const double value = (code & 8) != 0 ? -kE2m1[code & 7] : kE2m1[code & 7];
    EXPECT_EQ(E2m1ToFloat(static_cast<uint8_t>(code)), value) << code;
  }
}

TEST(NumberInvariants, Invariant02_EvenElementInTheLowNibble) {
  std::array<uint8_t, 16> packed = {0xA0};
  const uint8_t scale = 127;
  std::array<Bf16, 32> out;
  DequantizeFp4Index(packed.data(), &scale, 32, out.data());
  EXPECT_EQ(out[0].bits, 0x0000);  // +0
  EXPECT_EQ(ToFloat(out[1]), -1.0f);

  std::array<Bf16, 32> x = {};
  x[1] = ToBf16(-1.0f);
  x[2] = ToBf16(6.0f);
  uint8_t written_scale = 0;
  QuantizeFp4Index(x.data(), 32, packed.data(), &written_scale);
  EXPECT_EQ(packed[0], 0xA0);
  EXPECT_EQ(packed[1], 0x07);
}

TEST(NumberInvariants, Invariant05_YarnRampAndFrequencies) {
  const ModelConfig c = ReleasedConfig();
  const model::YarnRamp ramp =
      model::YarnRampRange(c.qk_rope_head_dim, c.compress_rope_theta, c.original_max_position_embeddings,
                           c.beta_fast, c.beta_slow);
  EXPECT_EQ(ramp.low, 15);
  EXPECT_EQ(ramp.high, 25);
  const std::array<double, 32> expected = {1,
                                           0.687656022,
                                           0.472870805,
                                           0.325172456,
                                           0.223606798,
                                           0.153764561,
                                           0.105737126,
                                           0.0727107717,
                                           0.05,
                                           0.0343828011,
                                           0.0236435402,
                                           0.0162586228,
                                           0.0111803399,
                                           0.00768822805,
                                           0.00528685632,
                                           0.00363553858,
                                           0.002265625,
                                           0.00139680129,
                                           0.000849689727,
                                           0.000508081963,
                                           0.000296977778,
                                           0.000168179989,
                                           9.0867843e-05,
                                           4.54442323e-05,
                                           1.953125e-05,
                                           5.37231267e-06,
                                           3.69430316e-06,
                                           2.54040981e-06,
                                           1.74692811e-06,
                                           1.20128563e-06,
                                           8.260713e-07,
                                           5.68052904e-07};
  const std::vector<float> freqs = model::LayerFrequencies(c, true);
  ASSERT_EQ(freqs.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(freqs[i] / expected[i], 1, 5e-7) << i;
  // Layers without compressed entries: base 10000, no YaRN.
  const std::vector<float> plain = model::LayerFrequencies(c, false);
  for (size_t i = 0; i < plain.size(); ++i)
    EXPECT_NEAR(plain[i] * std::pow(10000.0, static_cast<double>(i) / 32), 1, 5e-7) << i;
}

// ---------------------------------------------------------------------------------------------------------------------
// Engram rows
// ---------------------------------------------------------------------------------------------------------------------

class EngramInvariants : public ::testing::Test {
 protected:
  using Rows = std::array<int64_t, 24>;

  EngramInvariants() : constants_(Check(ComputeEngramConstants(ReleasedConfig()))) {}

  Rows At(int layer, std::span<const int32_t> compressed, int64_t position) const {
    Rows rows;
    model::EngramRows(constants_.layers[static_cast<size_t>(layer)], 8, 4, compressed, position, 2,
                      rows.data());
    return rows;
  }

  EngramConstants constants_;
  const std::vector<int32_t> ids_ = {0, 100, 2000, 99091, 5};
};

TEST_F(EngramInvariants, Invariant08_PublishedRows) {
  EXPECT_EQ(At(0, ids_, 0),
            (Rows{5702652,   24393184,  39183301,  61503783,  78984481,  90144770,  103724983, 121476532,
                  131476717, 152385926, 164143652, 191599181, 198145581, 217419202, 238329687, 247482304,
                  257520185, 283540304, 288689443, 315264704, 322314652, 348890037, 367865216, 380066193}));
  EXPECT_EQ(At(1, ids_, 0),
            (Rows{14361964,  29977809,  32716444,  61209771,  67456205,  84275051,  108494439, 120604547,
                  132225184, 150270452, 174805952, 178895254, 193207923, 211610196, 226280582, 252505246,
                  261362261, 279862797, 301364059, 312864848, 328367036, 349372619, 363873742, 372375971}));
  EXPECT_EQ(At(0, ids_, 4),
            (Rows{12391924,  30601786,  32347082,  62848667,  70397898,  94727027,  98981383,  125214817,
                  128327496, 150659456, 170001756, 184545312, 193400293, 222600063, 235363976, 244314088,
                  259562810, 287499928, 294338449, 305948280, 324425612, 336246975, 355394721, 368348437}));
  EXPECT_EQ(At(1, ids_, 4),
            (Rows{743092,    18408009,  41668928,  49698968,  70671423,  85309510,  103753309, 124352426,
                  129540663, 158927254, 171856044, 186886451, 204460209, 217840554, 236534221, 245319217,
                  256352515, 272326159, 298918852, 310396446, 327293981, 345210498, 359260855, 383876543}));
}

TEST_F(EngramInvariants, Invariant08_ImagesBlockLongerLooks) {
  std::vector<int32_t> ids = ids_;
  ids[2] = model::kDeadToken;
  EXPECT_EQ(At(0, ids, 4),
            (Rows{12391924,  30601786,  32347082,  62848667,  70397898,  94727027,  98981383,  125214817,
                  133173899, 156013378, 175475984, 191447939, 201254580, 214966827, 228546041, 254168901,
                  264924096, 282329451, 293086763, 314667952, 323796813, 345602608, 364165550, 371914340}));
  // What lies behind the image is not seen at all.
  std::vector<int32_t> other = ids;
  other[1] = 7;
  EXPECT_EQ(At(0, other, 4), At(0, ids, 4));
}

TEST_F(EngramInvariants, Invariant08_ColumnsHaveDisjointRangesAndFourTokensOfMemory) {
  Random random(108);
  for (int layer = 0; layer < 2; ++layer) {
    const EngramLayerConstants& constants = constants_.layers[static_cast<size_t>(layer)];
    for (int round = 0; round < 200; ++round) {
      std::vector<int32_t> ids(6);
      for (int32_t& id : ids) id = static_cast<int32_t>(random.Below(99092));
      const Rows rows = At(layer, ids, 5);
      for (size_t c = 0; c < rows.size(); ++c) {
        ASSERT_GE(rows[c], constants.offsets[c]);
        ASSERT_LT(rows[c], c + 1 < rows.size() ? constants.offsets[c + 1] : constants.num_rows);
      }
      std::vector<int32_t> changed = ids;
      changed[1] = (changed[1] + 1) % 99092;  // four tokens back
      ASSERT_EQ(At(layer, changed, 5), rows);
      changed = ids;
      changed[2] = (changed[2] + 1) % 99092;  // three tokens back: order 4 alone
      const Rows fourth = At(layer, changed, 5);
      ASSERT_TRUE(std::equal(rows.begin(), rows.begin() + 16, fourth.begin()));
      ASSERT_FALSE(std::equal(rows.begin() + 16, rows.end(), fourth.begin() + 16));
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Packed rows
// ---------------------------------------------------------------------------------------------------------------------

TEST(NumberInvariants, Invariant24_RowsOfTheReleasedModel) {
  const ModelConfig c = ReleasedConfig();
  const model::StateLayout layout = model::StateLayout::Make(c, model::ModelPlan::Make(c));
  EXPECT_EQ(KvBytesPerToken(c), 890);
  EXPECT_EQ(layout.block_bytes, 113920);
  EXPECT_EQ(layout.head_dim + layout.head_dim / kQuantGroup, 528);
  // Parts of a block: scales follow codes; the distance between parts over the entries gives the bytes of a row.
  for (const model::StateLayout::Source& source : layout.sources) {
    const int64_t entries = source.main.entries_per_block;
    EXPECT_EQ(entries, model::kBlockTokens / source.ratio);
    EXPECT_EQ((source.index.codes_offset - source.main.codes_offset) / entries, 288);
    EXPECT_EQ((source.index.scales_offset - source.index.codes_offset) / entries, 64);
  }
}

TEST(NumberInvariants, Invariant24_PackedRowsGiveTheValuesOfTheFirstQuantisation) {
  // code * scale is exact in bf16 for every pair that occurs, so that packed storage loses nothing.
  for (int code = 0; code < 0x7F; ++code) {
    for (int nibble = 0; nibble < 8; ++nibble) {
      const float product =
          E4m3ToFloat(static_cast<uint8_t>(code)) * E2m1ToFloat(static_cast<uint8_t>(nibble));
      ASSERT_EQ(ToFloat(ToBf16(product)), product);
    }
    for (int scale = 105; scale < 130;
         ++scale) {  // 2^-22 is the smallest that the activation quantiser makes
      const float product =
          E4m3ToFloat(static_cast<uint8_t>(code)) * E8m0ToFloat(static_cast<uint8_t>(scale));
      ASSERT_EQ(ToFloat(ToBf16(product)), product);
    }
  }
  Random random(124);
  for (int round = 0; round < 50; ++round) {
    const std::vector<Bf16> x = random.Bf16s(512, 0.7f);
    const auto round_trip = [&x](auto quantize, auto dequantize, int64_t d, int64_t code_bytes,
                                 int64_t scale_bytes) {
      std::vector<uint8_t> row(static_cast<size_t>(code_bytes + scale_bytes));
      quantize(x.data(), d, row.data(), row.data() + code_bytes);
      std::vector<Bf16> values(static_cast<size_t>(d));
      dequantize(row.data(), row.data() + code_bytes, d, values.data());
      return values;
    };
    const std::vector<Bf16> window = round_trip(QuantizeFp8, DequantizeFp8, 512, 512, 16);  // 528 bytes
    const std::vector<Bf16> index = round_trip(QuantizeFp4Index, DequantizeFp4Index, 128, 64, 4);  // 68 bytes
    const std::vector<Bf16> main = round_trip(QuantizeFp4Main, DequantizeFp4Main, 512, 256, 32);  // 288 bytes
    for (size_t g = 0; g < 32; ++g) {
      // Every main value is one of the 15 multiples of its group's scale.
      std::vector<uint8_t> codes(256), scales(32);
      QuantizeFp4Main(x.data(), 512, codes.data(), scales.data());
      for (size_t i = g * 16; i < g * 16 + 16; ++i) {
        const double ratio = std::fabs(static_cast<double>(ToFloat(main[i]))) / E4m3Value(scales[g]);
        ASSERT_NE(std::find(kE2m1.begin(), kE2m1.end(), ratio), kE2m1.end()) << i;
      }
    }
    for (size_t i = 0; i < 512; ++i)
      ASSERT_NEAR(ToFloat(window[i]), ToFloat(x[i]), 0.07f * std::fabs(ToFloat(x[i])) + 1e-3f) << i;
    for (size_t i = 0; i < 128; ++i) ASSERT_NEAR(ToFloat(index[i]), ToFloat(x[i]), 1.01f) << i;
  }
}

}  // namespace
}  // namespace deepinfer::testing
