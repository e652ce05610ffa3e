// Invariants 1, 3, 4, 6, 16 and 18 of spec: model.md §14 that a single operation shows, under every kernel target.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/ops.h"
#include "model/state_image.h"
#include "model/target_ops.h"
#include "tensor/quantize.h"

namespace deepinfer::testing {
namespace {

using kernels::QuantScheme;
using kernels::WeightFormat;

class OperationInvariants : public TargetOpsTest {};

// ---------------------------------------------------------------------------------------------------------------------
// Quantisers and linears
// ---------------------------------------------------------------------------------------------------------------------

TEST_P(OperationInvariants, Invariant01_QuantisersAreIdempotentInTheirValues) {
  Random random(1);
  for (int exponent : {-20, -3, 0, 5}) {
    const std::vector<Bf16> x = random.Bf16s(7 * 128, std::ldexp(1.0f, exponent));
    for (QuantScheme scheme : {QuantScheme::kFp8Act, QuantScheme::kFp4Index}) {
      const std::vector<Bf16> once = FakeQuantize(x, 7, scheme);
      EXPECT_FALSE(SameBits(once, x));
      EXPECT_TRUE(SameBits(FakeQuantize(once, 7, scheme), once)) << "2^" << exponent;
      // And they are the values of the stored form.
      std::vector<uint8_t> codes(7 * 128), scales(7 * 4);
      std::vector<Bf16> stored(x.size());
      if (scheme == QuantScheme::kFp8Act) {
        QuantizeFp8(x.data(), 7 * 128, codes.data(), scales.data());
        DequantizeFp8(codes.data(), scales.data(), 7 * 128, stored.data());
      } else {
        QuantizeFp4Index(x.data(), 7 * 128, codes.data(), scales.data());
        DequantizeFp4Index(codes.data(), scales.data(), 7 * 128, stored.data());
      }
      EXPECT_TRUE(SameBits(once, stored)) << "2^" << exponent;
    }
  }
}

/// An FP8 weight with its input, both random.
struct Fp8Problem {
  static constexpr int64_t kRows = 5, kOut = 70, kIn = 160;  // 70: the last scale row covers 6 outputs
  std::vector<uint8_t> codes, scales;
  std::vector<Bf16> x;
  kernels::WeightView View() const {
    return {WeightFormat::kFp8Tile32, codes.data(), scales.data(), kOut, kIn};
  }
};

TEST_P(OperationInvariants, Invariant03_Fp8LinearIsTheBlockwiseProduct) {
  Random random(3);
  Fp8Problem p;
  for (int64_t i = 0; i < p.kOut * p.kIn; ++i) p.codes.push_back(FloatToE4m3(random.Normal(20)));
  for (int64_t i = 0; i < 3 * p.kIn / 32; ++i)
    p.scales.push_back(static_cast<uint8_t>(118 + random.Below(8)));
  const std::vector<Bf16> raw = random.Bf16s(p.kRows * p.kIn, 3);
  p.x = FakeQuantize(raw, p.kRows, QuantScheme::kFp8Act);
  std::vector<Bf16> y(p.kRows * p.kOut);
  ops_->Linear(ops_.context, {.rows = p.kRows, .x = p.x.data(), .weight = p.View(), .y = y.data()});

  for (int64_t t = 0; t < p.kRows; ++t) {
    std::vector<uint8_t> codes(p.kIn), scales(p.kIn / 32);
    QuantizeFp8(raw.data() + t * p.kIn, p.kIn, codes.data(), scales.data());
    for (int64_t o = 0; o < p.kOut; ++o) {
      // spec: model.md §4.5, with the codes of both operands.
      float sum = 0;
      for (int64_t b = 0; b < p.kIn / 32; ++b) {
        float block = 0;
        for (int64_t k = b * 32; k < b * 32 + 32; ++k) {
          block += E4m3ToFloat(codes[static_cast<size_t>(k)]) *
                   E4m3ToFloat(p.codes[static_cast<size_t>(o * p.kIn + k)]);
        }
        sum += block * E8m0ToFloat(scales[static_cast<size_t>(b)]) *
               E8m0ToFloat(p.scales[static_cast<size_t>(o / 32 * (p.kIn / 32) + b)]);
      }
      const float got = ToFloat(y[static_cast<size_t>(t * p.kOut + o)]);
      ASSERT_NEAR(got, sum, std::fabs(sum) / 128 + 1e-6f) << "row " << t << " output " << o;  // one ulp
    }
  }
}

TEST_P(OperationInvariants, Invariant03_SmallIntegersAreExact) {
  Random random(33);
  Fp8Problem p;
  std::vector<int> weights, inputs;
  for (int64_t i = 0; i < p.kOut * p.kIn; ++i) weights.push_back(static_cast<int>(random.Below(17)) - 8);
  for (int64_t i = 0; i < p.kRows * p.kIn; ++i) inputs.push_back(static_cast<int>(random.Below(7)) - 3);
  for (int w : weights) p.codes.push_back(FloatToE4m3(static_cast<float>(w)));
  // Tiles of different scale: 1 and 2 by output, so that a scale of the neighbouring tile shows.
  for (int64_t tile = 0; tile < 3 * p.kIn / 32; ++tile)
    p.scales.push_back(static_cast<uint8_t>(127 + (tile / (p.kIn / 32) + tile) % 2));
  for (int v : inputs) p.x.push_back(ToBf16(static_cast<float>(v)));
  ASSERT_TRUE(SameBits(FakeQuantize(p.x, p.kRows, QuantScheme::kFp8Act), p.x))
      << "the integers lie on the grid";
  std::vector<float> y(p.kRows * p.kOut);
  ops_->Linear(ops_.context, {.rows = p.kRows, .x = p.x.data(), .weight = p.View(), .y_f32 = y.data()});
  for (int64_t t = 0; t < p.kRows; ++t) {
    for (int64_t o = 0; o < p.kOut; ++o) {
      int sum = 0;
      for (int64_t k = 0; k < p.kIn; ++k) {
        const int scale = p.scales[static_cast<size_t>(o / 32 * (p.kIn / 32) + k / 32)] == 127 ? 1 : 2;
        sum +=
            inputs[static_cast<size_t>(t * p.kIn + k)] * weights[static_cast<size_t>(o * p.kIn + k)] * scale;
      }
      ASSERT_EQ(y[static_cast<size_t>(t * p.kOut + o)], static_cast<float>(sum))
          << "row " << t << " output " << o;
    }
  }
}

TEST_P(OperationInvariants, Invariant03_Fp4SmallIntegersAreExact) {
  constexpr int64_t kRows = 3, kOut = 20, kIn = 64;
  constexpr int kValues[] = {0, 1, 2, 3, 4, 6, 8, 12};  // twice the E2M1 values: scale byte 128
  Random random(34);
  std::vector<uint8_t> packed(kOut * kIn / 2), scales(kOut * kIn / 32);
  std::vector<int> codes, inputs;
  for (int64_t i = 0; i < kOut * kIn; ++i) codes.push_back(static_cast<int>(random.Below(16)));
  for (size_t i = 0; i < packed.size(); ++i)
    packed[i] = static_cast<uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
  for (uint8_t& scale : scales)
    scale = static_cast<uint8_t>(128 + random.Below(2));  // one a row and 32 inputs
  std::vector<Bf16> x;
  for (int64_t i = 0; i < kRows * kIn; ++i) inputs.push_back(static_cast<int>(random.Below(7)) - 3);
  for (int v : inputs) x.push_back(ToBf16(static_cast<float>(v)));
  std::vector<float> y(kRows * kOut);
  ops_->Linear(ops_.context, {.rows = kRows,
                              .x = x.data(),
                              .weight = {WeightFormat::kFp4Row32, packed.data(), scales.data(), kOut, kIn},
                              .y_f32 = y.data()});
  for (int64_t t = 0; t < kRows; ++t) {
    for (int64_t o = 0; o < kOut; ++o) {
      int sum = 0;
      for (int64_t k = 0; k < kIn; ++k) {
        const int code = codes[static_cast<size_t>(o * kIn + k)],
                  scale = scales[static_cast<size_t>(o * 2 + k / 32)] == 128 ? 1 : 2;
        sum +=
            inputs[static_cast<size_t>(t * kIn + k)] * kValues[code & 7] * ((code & 8) != 0 ? -scale : scale);
      }
      ASSERT_EQ(y[static_cast<size_t>(t * kOut + o)], static_cast<float>(sum))
          << "row " << t << " output " << o;
    }
  }
}

TEST_P(OperationInvariants, Invariant03_GroupsReadTheirOwnInputs) {
  // The block-diagonal product of the attention output: each group as a linear of its own.
  constexpr int64_t kRows = 3, kGroups = 4, kOut = 12, kIn = 64;
  Random random(35);
  const std::vector<Bf16> x = random.Bf16s(kRows * kGroups * kIn),
                          weight = random.Bf16s(kGroups * kOut * kIn);
  std::vector<Bf16> y(kRows * kGroups * kOut), y_of_group(kRows * kOut), x_of_group(kRows * kIn);
  ops_->Linear(ops_.context, {.rows = kRows,
                              .groups = kGroups,
                              .x = x.data(),
                              .weight = {WeightFormat::kBf16, weight.data(), nullptr, kGroups * kOut, kIn},
                              .y = y.data()});
  for (int64_t g = 0; g < kGroups; ++g) {
    for (int64_t t = 0; t < kRows; ++t)
      std::copy_n(x.data() + (t * kGroups + g) * kIn, kIn, x_of_group.data() + t * kIn);
    ops_->Linear(ops_.context,
                 {.rows = kRows,
                  .x = x_of_group.data(),
                  .weight = {WeightFormat::kBf16, weight.data() + g * kOut * kIn, nullptr, kOut, kIn},
                  .y = y_of_group.data()});
    for (int64_t t = 0; t < kRows; ++t) {
      EXPECT_TRUE(SameBits(std::span(y).subspan(static_cast<size_t>((t * kGroups + g) * kOut), kOut),
                           std::span(y_of_group).subspan(static_cast<size_t>(t * kOut), kOut)))
          << "row " << t << " group " << g;
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Rotation
// ---------------------------------------------------------------------------------------------------------------------

TEST_P(OperationInvariants, Invariant04_RotationIsUndoneByItsInverse) {
  constexpr int64_t kRows = 6, kHeads = 3, kDim = 64, kFreqs = 8;
  const std::vector<int32_t> positions = {0, 1, 2, 77, 1000, 1048575};
  const std::vector<float> freqs = {1.0f,  0.31622776f,   0.1f,   0.031622775f,
                                    0.01f, 0.0031622776f, 0.001f, 0.00031622776f};
  std::vector<float> cos(kRows * kFreqs), sin(kRows * kFreqs);
  ops_->RopeTables(ops_.context, {.rows = kRows,
                                  .num_freqs = kFreqs,
                                  .positions = positions.data(),
                                  .freqs = freqs.data(),
                                  .cos = cos.data(),
                                  .sin = sin.data()});
  for (size_t i = 0; i < cos.size(); ++i) {
    const double angle = static_cast<float>(positions[i / kFreqs]) * freqs[i % kFreqs];
    ASSERT_NEAR(cos[i], std::cos(angle), 1e-7) << i;
    ASSERT_NEAR(sin[i], std::sin(angle), 1e-7) << i;
  }
  const std::vector<Bf16> x = Random(4).Bf16s(kRows * kHeads * kDim);
  std::vector<Bf16> rotated = x;
  const auto rotate = [&](std::vector<Bf16>* data, bool inverse) {
    ops_->Rope(ops_.context, {.rows = kRows,
                              .heads = kHeads,
                              .dim = kDim,
                              .num_freqs = kFreqs,
                              .cos = cos.data(),
                              .sin = sin.data(),
                              .inverse = inverse,
                              .x = data->data()});
  };
  rotate(&rotated, false);
  std::vector<Bf16> restored = rotated;
  rotate(&restored, true);
  const size_t row = kHeads * kDim;
  EXPECT_TRUE(SameBits(std::span(rotated).first(row), std::span(x).first(row)))
      << "position 0 is the identity";
  EXPECT_FALSE(SameBits(std::span(rotated).subspan(row, row), std::span(x).subspan(row, row)));
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t channel = i % kDim;
    if (channel < kDim - 2 * kFreqs) {
      ASSERT_EQ(rotated[i].bits, x[i].bits) << "channels before the tail are not rotated";
    } else if (channel % 2 == 0) {
      const auto norm = [i](const std::vector<Bf16>& v) {
        return std::hypot(ToFloat(v[i]), ToFloat(v[i + 1]));
      };
      ASSERT_NEAR(norm(rotated) / norm(x), 1, 1.0 / 128) << i;
      ASSERT_NEAR(ToFloat(restored[i]), ToFloat(x[i]), norm(x) / 100) << i;
      ASSERT_NEAR(ToFloat(restored[i + 1]), ToFloat(x[i + 1]), norm(x) / 100) << i;
      // a' = a cos - b sin, b' = a sin + b cos: the direction, which a round trip does not show.
      const size_t at = i / row * kFreqs + (channel - (kDim - 2 * kFreqs)) / 2;
      ASSERT_NEAR(ToFloat(rotated[i + 1]), ToFloat(x[i]) * sin[at] + ToFloat(x[i + 1]) * cos[at],
                  norm(x) / 100)
          << i;
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Hyper-connections
// ---------------------------------------------------------------------------------------------------------------------

struct Mixes {
  std::vector<float> pre, post, comb;
};

Mixes RandomMixes(const TargetOps& ops, int64_t rows, int iterations) {
  constexpr int64_t kHidden = 64;
  Random random(6);
  const std::vector<Bf16> streams = random.Bf16s(rows * 4 * kHidden, 3);
  const std::vector<float> fn = random.Floats(24 * 4 * kHidden, 0.1f), base = random.Floats(24, 2),
                           scale = {1, 1, 2};
  Mixes m{std::vector<float>(rows * 4), std::vector<float>(rows * 4), std::vector<float>(rows * 16)};
  ops->HcMixes(ops.context, {.rows = rows,
                             .hc_mult = 4,
                             .hidden = kHidden,
                             .sinkhorn_iters = iterations,
                             .hc_eps = 1e-6f,
                             .norm_eps = 1e-20f,
                             .streams = streams.data(),
                             .fn = fn.data(),
                             .scale = scale.data(),
                             .base = base.data(),
                             .pre = m.pre.data(),
                             .post = m.post.data(),
                             .comb = m.comb.data()});
  return m;
}

TEST_P(OperationInvariants, Invariant06_ColumnsOfTheMixingMatrixSumToOne) {
  constexpr int64_t kRows = 40;
  // Few iterations leave the rows unequal: that the last step is one over columns can be seen.
  double worst_row = 0;
  for (int iterations : {2, 20}) {
    const Mixes m = RandomMixes(ops_, kRows, iterations);
    for (int64_t t = 0; t < kRows; ++t) {
      for (int64_t k = 0; k < 4; ++k) {
        double column = 0, row = 0;
        for (int64_t j = 0; j < 4; ++j) {
          column += m.comb[static_cast<size_t>(t * 16 + j * 4 + k)];
          row += m.comb[static_cast<size_t>(t * 16 + k * 4 + j)];
          ASSERT_GT(m.comb[static_cast<size_t>(t * 16 + j * 4 + k)], 0);
        }
        // S / (S + 1e-6) for the sum S before the last step, which is near 1 only when the iteration has converged.
        ASSERT_NEAR(column, 1, iterations == 20 ? 2e-6 : 1e-5) << "row " << t << " column " << k;
        if (iterations == 20) {
          ASSERT_NEAR(row, 1, 0.1) << "row " << t;
        }
        worst_row = std::max(worst_row, std::fabs(row - 1));
        ASSERT_GT(m.pre[static_cast<size_t>(t * 4 + k)], 1e-6f);
        ASSERT_LE(m.pre[static_cast<size_t>(t * 4 + k)], 1 + 1e-6f);
        ASSERT_GT(m.post[static_cast<size_t>(t * 4 + k)], 0);
        ASSERT_LT(m.post[static_cast<size_t>(t * 4 + k)], 2);
      }
    }
  }
  EXPECT_GT(worst_row, 1e-3) << "rows are normalised as well as columns: the test cannot tell them apart";
}

TEST_P(OperationInvariants, Invariant18_FirstIndexOfCombIsTheSource) {
  constexpr int64_t kHidden = 64;
  const std::vector<Bf16> streams = Random(18).Bf16s(4 * kHidden), y(kHidden);
  const std::vector<float> post(4);
  for (size_t source = 0; source < 4; ++source) {
    for (size_t destination = 0; destination < 4; ++destination) {
      std::vector<float> comb(16);
      comb[source * 4 + destination] = 1;
      std::vector<Bf16> out(4 * kHidden);
      ops_->HcExpand(ops_.context, {.rows = 1,
                                    .hc_mult = 4,
                                    .hidden = kHidden,
                                    .y = y.data(),
                                    .streams = streams.data(),
                                    .post = post.data(),
                                    .comb = comb.data(),
                                    .out = out.data()});
      for (size_t k = 0; k < 4; ++k) {
        for (size_t i = 0; i < kHidden; ++i) {
          const float expected = k == destination ? ToFloat(streams[source * kHidden + i]) : 0;
          ASSERT_EQ(ToFloat(out[k * kHidden + i]), expected)
              << source << " to " << destination << ", stream " << k;
        }
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Selection
// ---------------------------------------------------------------------------------------------------------------------

TEST_P(OperationInvariants, Invariant16_TiesGoToTheLowerEntryAndBlock) {
  // Seven visible of eight entries in blocks of two. Scores tie across the border of the list, +0 and -0 are equal.
  const std::vector<float> scores = {1, 0.0f, -0.0f, 1, -0.0f, 0.0f, -5, 9};
  const int32_t visible = 7;
  std::vector<int32_t> topk(4), candidates(3);
  ops_->SelectTopK(ops_.context, {.rows = 1,
                                  .columns = 8,
                                  .row_stride = 8,
                                  .k = 4,
                                  .scores = scores.data(),
                                  .visible = &visible,
                                  .topk = topk.data()});
  EXPECT_EQ(topk, (std::vector<int32_t>{0, 1, 2, 3}));
  ops_->SelectTopK(ops_.context, {.rows = 1,
                                  .columns = 8,
                                  .row_stride = 8,
                                  .k = 3,
                                  .scores = scores.data(),
                                  .visible = &visible,
                                  .topk = topk.data()});
  EXPECT_EQ(topk, (std::vector<int32_t>{0, 1, 3, 3})) << "the fourth place is not part of a list of three";
  // Blocks 0 and 1 have the score 1, block 2 has 0, block 3 is the newest and stays though it is the worst.
  ops_->SelectCandidates(ops_.context, {.rows = 1,
                                        .columns = 7,
                                        .row_stride = 8,
                                        .max_candidates = 2,
                                        .candidate_block = 2,
                                        .scores = scores.data(),
                                        .visible = &visible,
                                        .candidates = candidates.data()});
  EXPECT_EQ(std::vector<int32_t>(candidates.begin(), candidates.begin() + 2), (std::vector<int32_t>{0, 3}));
}

INSTANTIATE_TEST_SUITE_P(All, OperationInvariants, ::testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace deepinfer::testing
