// Invariants 7 and 17 of spec: model.md §14: router, experts and attention sink, under every kernel target.
#include <algorithm>
#include <cmath>
#include <limits>
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

// ---------------------------------------------------------------------------------------------------------------------
// Router
// ---------------------------------------------------------------------------------------------------------------------

class RouterInvariants : public TargetOpsTest {
 protected:
  static constexpr int64_t kRows = 20, kHidden = 64, kExperts = 384, kChosen = 6;

  struct Routing {
    std::vector<float> scores, weights;
    std::vector<int32_t> ids;
  };
  Routing Route(const std::vector<float>& bias, const std::vector<float>& bias_vl,
                const std::vector<uint8_t>& is_image) {
    Routing r{std::vector<float>(kRows * kExperts), std::vector<float>(kRows * kChosen),
              std::vector<int32_t>(kRows * kChosen)};
    ops_->MoeRoute(ops_.context, {.rows = kRows,
                                  .hidden = kHidden,
                                  .num_experts = kExperts,
                                  .k = kChosen,
                                  .gate_temp = 1,
                                  .route_scale = 1.5f,
                                  .x = x_.data(),
                                  .gate = {WeightFormat::kBf16, gate_.data(), nullptr, kExperts, kHidden},
                                  .bias = bias.data(),
                                  .bias_vl = bias_vl.data(),
                                  .is_image = is_image.data(),
                                  .scores = r.scores.data(),
                                  .topk_ids = r.ids.data(),
                                  .topk_weights = r.weights.data()});
    return r;
  }

  std::vector<Bf16> x_ = Random(7).Bf16s(kRows * kHidden), gate_ = Random(77).Bf16s(kExperts * kHidden, 0.2f);
  std::vector<float> bias_ = Random(777).Floats(kExperts, 0.1f);
  const std::vector<float> none_ = std::vector<float>(kExperts);
  const std::vector<uint8_t> text_ = std::vector<uint8_t>(kRows);
};

TEST_P(RouterInvariants, Invariant07_WeightsComeFromTheScoresAndSumToTheScale) {
  const Routing r = Route(bias_, none_, text_);
  for (size_t t = 0; t < kRows; ++t) {
    double sum = 0, chosen = 0;
    for (size_t i = 0; i < kChosen; ++i) {
      sum += r.weights[t * kChosen + i];
      chosen += r.scores[t * kExperts + static_cast<size_t>(r.ids[t * kChosen + i])];
    }
    ASSERT_NEAR(sum, 1.5, 1e-5) << t;
    for (size_t i = 0; i < kChosen; ++i) {
      const double score = r.scores[t * kExperts + static_cast<size_t>(r.ids[t * kChosen + i])];
      ASSERT_NEAR(r.weights[t * kChosen + i], score / chosen * 1.5, 1e-5) << t;
    }
  }
}

TEST_P(RouterInvariants, Invariant07_BiasSteersTheSelectionOnly) {
  const Routing plain = Route(bias_, none_, text_);
  // Multiples of 2^-10 stay exact when 1 is added, but the sums with the scores round: equal choices, not equal bits.
  std::vector<float> grid = bias_;
  for (float& b : grid) b = std::round(b * 1024) / 1024;
  const Routing before = Route(grid, none_, text_);
  for (float& b : grid) b += 1;
  const Routing after = Route(grid, none_, text_);
  EXPECT_EQ(before.ids, after.ids);
  EXPECT_EQ(before.weights, after.weights);

  std::vector<float> steered = bias_;
  steered[123] += 1000;
  const Routing r = Route(steered, none_, text_);
  EXPECT_EQ(r.scores, plain.scores);
  for (size_t t = 0; t < kRows; ++t) {
    ASSERT_EQ(r.ids[t * kChosen], 123) << t;
    double chosen = 0;
    for (size_t i = 0; i < kChosen; ++i)
      chosen += r.scores[t * kExperts + static_cast<size_t>(r.ids[t * kChosen + i])];
    ASSERT_NEAR(r.weights[t * kChosen], r.scores[t * kExperts + 123] / chosen * 1.5, 1e-5) << t;
  }
}

TEST_P(RouterInvariants, Invariant07_ImageRowsTakeTheirOwnBias) {
  std::vector<float> for_images(kExperts);
  for_images[200] = 1000;
  std::vector<uint8_t> is_image(kRows);
  is_image[3] = is_image[11] = 1;
  const Routing r = Route(bias_, for_images, is_image), plain = Route(bias_, none_, text_);
  for (size_t t = 0; t < kRows; ++t) {
    if (is_image[t] != 0) {
      EXPECT_EQ(r.ids[t * kChosen], 200) << t;
    } else {
      EXPECT_TRUE(std::equal(r.ids.begin() + static_cast<ptrdiff_t>(t * kChosen),
                             r.ids.begin() + static_cast<ptrdiff_t>((t + 1) * kChosen),
                             plain.ids.begin() + static_cast<ptrdiff_t>(t * kChosen)))
          << t;
    }
  }
}

TEST_P(RouterInvariants, Invariant07_TiesGoToTheLowerExpert) {
  // All experts alike: the first six, in order.
  std::fill(gate_.begin(), gate_.end(), ToBf16(0.01f));
  const Routing r = Route(none_, none_, text_);
  for (size_t i = 0; i < r.ids.size(); ++i) ASSERT_EQ(r.ids[i], static_cast<int32_t>(i % kChosen)) << i;
}

// ---------------------------------------------------------------------------------------------------------------------
// Experts
// ---------------------------------------------------------------------------------------------------------------------

/// A matrix of values that both storage formats hold exactly, with its two packed forms.
struct ExactMatrix {
  int64_t out, in;
  std::vector<double> values;
  std::vector<uint8_t> fp4, fp8, fp4_scales, fp8_scales;

  ExactMatrix(int64_t out_features, int64_t in_features, uint32_t seed) : out(out_features), in(in_features) {
    Random random(seed);
    fp4.resize(static_cast<size_t>(out * in / 2));
    for (int64_t i = 0; i < out * in; ++i) {
      const auto code = static_cast<uint8_t>(random.Below(16));
      fp4[static_cast<size_t>(i / 2)] |= static_cast<uint8_t>(i % 2 == 0 ? code : code << 4);
      fp8.push_back(FloatToE4m3(E2m1ToFloat(code)));
      values.push_back(E2m1ToFloat(code));
    }
    fp4_scales.assign(static_cast<size_t>(out * in / 32), 127);
    fp8_scales.assign(static_cast<size_t>((out + 31) / 32 * in / 32), 127);
  }
  kernels::WeightView Fp4() const {
    return {WeightFormat::kFp4Row32, fp4.data(), fp4_scales.data(), out, in};
  }
  kernels::WeightView Fp8() const {
    return {WeightFormat::kFp8Tile32, fp8.data(), fp8_scales.data(), out, in};
  }
  std::vector<double> Times(const std::vector<double>& x) const {
    std::vector<double> y(static_cast<size_t>(out));
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t k = 0; k < in; ++k)
        y[static_cast<size_t>(o)] += values[static_cast<size_t>(o * in + k)] * x[static_cast<size_t>(k)];
    }
    return y;
  }
};

double Bf16Value(double x) { return ToFloat(ToBf16(static_cast<float>(x))); }

struct ExactExpert {
  ExactMatrix w1, w3, w2;
  explicit ExactExpert(uint32_t seed) : w1(32, 64, seed), w3(32, 64, seed + 1), w2(64, 32, seed + 2) {}
  kernels::ExpertWeights Routed() const { return {w1.Fp4(), w3.Fp4(), w2.Fp4()}; }
  kernels::ExpertWeights Shared() const { return {w1.Fp8(), w3.Fp8(), w2.Fp8()}; }

  /// spec: model.md §9, step by step; `weight` is 1 for the shared expert.
  std::vector<double> Run(const std::vector<double>& x, double weight) const {
    std::vector<double> gate = w1.Times(x), up = w3.Times(x);
    std::vector<Bf16> inner;
    for (size_t i = 0; i < gate.size(); ++i) {
      const double g = std::min(Bf16Value(gate[i]), 10.0), u = std::clamp(Bf16Value(up[i]), -10.0, 10.0);
      inner.push_back(ToBf16(static_cast<float>(weight * (g / (1 + std::exp(-g)) * u))));
    }
    std::vector<uint8_t> codes(32), scales(1);
    QuantizeFp8(inner.data(), 32, codes.data(), scales.data());
    DequantizeFp8(codes.data(), scales.data(), 32, inner.data());
    std::vector<double> hidden;
    for (Bf16 v : inner) hidden.push_back(ToFloat(v));
    std::vector<double> y = w2.Times(hidden);
    for (double& v : y) v = Bf16Value(v);
    return y;
  }
};

class ExpertInvariants : public TargetOpsTest {};

TEST_P(ExpertInvariants, Invariant07_ExpertsFollowTheFormula) {
  constexpr int64_t kRows = 12;
  // Inputs from tiny to large, so that both clamps are at work in some rows and not in others.
  Random random(9);
  std::vector<Bf16> x;
  for (int64_t t = 0; t < kRows; ++t) {
    for (Bf16 v : random.Bf16s(64, std::ldexp(1.0f, static_cast<int>(t % 6) - 4))) x.push_back(v);
  }
  x = FakeQuantize(x, kRows, QuantScheme::kFp8Act);
  const ExactExpert experts[] = {ExactExpert(100), ExactExpert(200), ExactExpert(300)}, shared(400);
  const std::vector<kernels::ExpertWeights> routed = {experts[0].Routed(), experts[1].Routed(),
                                                      experts[2].Routed()};
  std::vector<int32_t> ids;
  std::vector<float> weights;
  for (int64_t t = 0; t < kRows; ++t) {
    ids.insert(ids.end(), {static_cast<int32_t>((t + 2) % 3), static_cast<int32_t>(t % 3)});
    weights.insert(weights.end(), {1.1f, 0.4f});
  }
  std::vector<Bf16> y(x.size());
  ops_->MoeExperts(ops_.context, {.rows = kRows,
                                  .hidden = 64,
                                  .intermediate = 32,
                                  .k = 2,
                                  .swiglu_limit = 10,
                                  .x = x.data(),
                                  .topk_ids = ids.data(),
                                  .topk_weights = weights.data(),
                                  .experts = routed,
                                  .shared = shared.Shared(),
                                  .y = y.data()});
  int64_t differing = 0;
  for (size_t t = 0; t < kRows; ++t) {
    std::vector<double> input;
    for (size_t i = 0; i < 64; ++i) input.push_back(ToFloat(x[t * 64 + i]));
    const std::vector<double> first = experts[static_cast<size_t>(ids[2 * t])].Run(input, 1.1f);
    const std::vector<double> second = experts[static_cast<size_t>(ids[2 * t + 1])].Run(input, 0.4f);
    const std::vector<double> third = shared.Run(input, 1);
    for (size_t i = 0; i < 64; ++i)
      differing += ToFloat(y[t * 64 + i]) != Bf16Value(first[i] + second[i] + third[i]);
  }
  // Kernels that add in float may put a value of the inner grid one step aside, which changes a row; the formula's faults change all.
  EXPECT_LE(differing, GetParam() == "reference" ? 0 : kRows * 64 / 8);
}

// ---------------------------------------------------------------------------------------------------------------------
// Attention sink
// ---------------------------------------------------------------------------------------------------------------------

/// One query of two heads over the `count` newest positions of a window.
class SinkInvariants : public TargetOpsTest {
 protected:
  static constexpr int64_t kHeads = 2, kDim = 64, kPositions = 12;

  SinkInvariants() {
    codes_.resize(kPositions * kDim);
    scales_.resize(kPositions * kDim / 32);
    keys_.resize(kPositions * kDim);
    ring_codes_.resize(kPositions * kDim);
    ring_scales_.resize(kPositions * kDim / 32);
    const std::vector<Bf16> raw = Random(17).Bf16s(kPositions * kDim);
    ops_->QuantizeWindow(
        ops_.context,
        {.rows = kPositions, .dim = kDim, .x = raw.data(), .codes = codes_.data(), .scales = scales_.data()});
    DequantizeFp8(codes_.data(), scales_.data(), kPositions * kDim, keys_.data());
  }

  std::vector<Bf16> Attend(float sink, int32_t first) {
    const std::vector<float> sinks(kHeads, sink);
    kernels::AttentionSequence sequence;
    sequence.window = {.codes = ring_codes_.data(),
                       .scales = ring_scales_.data(),
                       .capacity = kPositions,
                       .first = first,
                       .chunk_begin = 0,
                       .chunk_codes = codes_.data(),
                       .chunk_scales = scales_.data()};
    const int32_t position = kPositions - 1, seq = 0;
    std::vector<Bf16> out(kHeads * kDim);
    ops_->SparseAttention(ops_.context, {.rows = 1,
                                         .heads = kHeads,
                                         .dim = kDim,
                                         .window = kPositions,
                                         .k = 0,
                                         .q = q_.data(),
                                         .positions = &position,
                                         .seq = &seq,
                                         .topk = nullptr,
                                         .layout = {},
                                         .sequences = {&sequence, 1},
                                         .sink = sinks.data(),
                                         .scale = 0.125f,
                                         .out = out.data()});
    return out;
  }

  /// Softmax over all positions with `extra` in the denominator, in units of exp(0).
  std::vector<double> Plain(double sink) const {
    std::vector<double> out(kHeads * kDim);
    for (size_t h = 0; h < kHeads; ++h) {
      double denominator = std::exp(sink);
      for (size_t s = 0; s < kPositions; ++s) {
        double score = 0;
        for (size_t i = 0; i < kDim; ++i)
          score += static_cast<double>(ToFloat(q_[h * kDim + i])) * ToFloat(keys_[s * kDim + i]);
        const double p = std::exp(score * 0.125);
        denominator += p;
        for (size_t i = 0; i < kDim; ++i) out[h * kDim + i] += p * ToFloat(keys_[s * kDim + i]);
      }
      for (size_t i = 0; i < kDim; ++i) out[h * kDim + i] /= denominator;
    }
    return out;
  }

  void ExpectNear(const std::vector<Bf16>& got, const std::vector<double>& want) {
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(ToFloat(got[i]), want[i], 0.01 * std::fabs(want[i]) + 0.004) << i;
  }

  std::vector<Bf16> q_ = Random(170).Bf16s(kHeads * kDim), keys_;
  std::vector<uint8_t> codes_, scales_, ring_codes_, ring_scales_;
};

TEST_P(SinkInvariants, Invariant17_WithoutSinkItIsPlainSoftmax) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ExpectNear(Attend(-kInfinity, 0), Plain(-INFINITY));
  EXPECT_TRUE(SameBits(Attend(-1e30f, 0), Attend(-kInfinity, 0)));
}

TEST_P(SinkInvariants, Invariant17_TheSinkIsALogitOfItsOwnAndNotScaled) {
  for (float sink : {-1.0f, 1.5f, 3.0f}) ExpectNear(Attend(sink, 0), Plain(sink));
}

TEST_P(SinkInvariants, Invariant17_AnInfiniteSinkOrNoKeysGiveZero) {
  for (Bf16 v : Attend(std::numeric_limits<float>::infinity(), 0)) ASSERT_EQ(ToFloat(v), 0);
  for (Bf16 v : Attend(0.5f, kPositions)) ASSERT_EQ(ToFloat(v), 0);
}

TEST_P(SinkInvariants, Invariant17_ProbabilitiesAreRoundedForTheProductOnly) {
  // One key scores 0, eleven score -1: p = bf16(exp(-1)) in the sum over values, exp(-1) itself in the denominator. The channel holds
  // 0 for the first key and 1 for the others.
  std::vector<Bf16> raw(kPositions * kDim);
  for (size_t s = 0; s < kPositions; ++s) {
    raw[s * kDim] = ToBf16(s == 0 ? 0.0f : -8.0f);  // times q = 1 and the scale 0.125
    raw[s * kDim + 40] = ToBf16(s == 0 ? 0.0f : 1.0f);
  }
  ops_->QuantizeWindow(
      ops_.context,
      {.rows = kPositions, .dim = kDim, .x = raw.data(), .codes = codes_.data(), .scales = scales_.data()});
  q_.assign(kHeads * kDim, Bf16{});
  q_[0] = q_[kDim] = ToBf16(1.0f);
  const double p = std::exp(-1.0), rounded = ToFloat(ToBf16(static_cast<float>(p)));
  for (float sink : {-5.0f, -2.0f, -1.0f, 0.0f, 0.3f, 0.7f, 1.0f, 1.4f, 2.0f, 2.4f}) {
    const double denominator = 1 + 11 * p + std::exp(static_cast<double>(sink));
    const std::vector<Bf16> out = Attend(sink, 0);
    EXPECT_EQ(ToFloat(out[40]), ToFloat(ToBf16(11 * rounded / denominator))) << sink;
  }
  // The sinks are chosen so that neither choice of rounding gives the same values throughout.
  const auto differs = [&](double numerator, double denominator_p) {
    int count = 0;
    for (float sink : {-5.0f, -2.0f, -1.0f, 0.0f, 0.3f, 0.7f, 1.0f, 1.4f, 2.0f, 2.4f}) {
      const double extra = std::exp(static_cast<double>(sink));
      count += ToBf16(11 * rounded / (1 + 11 * p + extra)) !=
               ToBf16(11 * numerator / (1 + 11 * denominator_p + extra));
    }
    return count;
  };
  EXPECT_GT(differs(p, p), 0);
  EXPECT_GT(differs(rounded, rounded), 0);
}

INSTANTIATE_TEST_SUITE_P(All, RouterInvariants, ::testing::ValuesIn(KernelTargets()), TargetName);
INSTANTIATE_TEST_SUITE_P(All, ExpertInvariants, ::testing::ValuesIn(KernelTargets()), TargetName);
INSTANTIATE_TEST_SUITE_P(All, SinkInvariants, ::testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace deepinfer::testing
