// Conformance of the matrix products: linears of every format, hyper-connections, mixture of experts.
#include <cmath>

#include "kernels/op_case.h"
#include "tensor/quantize.h"

namespace deepinfer::kernels::testing {
namespace {

std::string FormatName(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16: return "bf16";
    case WeightFormat::kFp32: return "fp32";
    case WeightFormat::kFp8Tile32: return "fp8";
    case WeightFormat::kFp4Row32: return "fp4";
  }
  return "?";
}

/// Rows as FakeQuantize leaves them: the input of FP8 and FP4 products.
std::vector<Bf16> OnFp8Grid(const std::vector<Bf16>& x) {
  std::vector<uint8_t> codes(x.size()), scales(x.size() / kQuantGroup);
  std::vector<Bf16> y(x.size());
  QuantizeFp8(x.data(), static_cast<int64_t>(x.size()), codes.data(), scales.data());
  DequantizeFp8(codes.data(), scales.data(), static_cast<int64_t>(x.size()), y.data());
  return y;
}

template <WeightFormat kFormat>
struct LinearCase {
  static constexpr bool kIsQuantized =
      kFormat == WeightFormat::kFp8Tile32 || kFormat == WeightFormat::kFp4Row32;

  LinearCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        groups(rng.Chance(0.7) ? 1 : rng.Int(2, 3)),
        in_features(kIsQuantized ? 32 * rng.Pick<int64_t>({1, 2, 3, 5, 9})
                                 : rng.Pick<int64_t>({1, 7, 32, 33, 64, 100, 288})),
        out_features(groups * rng.Pick<int64_t>({1, 2, 5, 16, 31, 33, 64, 65, 100})),
        is_f32(rng.Chance(0.4)),
        correctly_rounded(is_f32 && rng.Chance(0.5)),
        x(Activations(rng, rows, groups * in_features, Range::kSquarable)),
        weight(rng, kFormat, out_features, in_features) {
    if (kIsQuantized) x = OnFp8Grid(x);
  }
  std::string Describe() const {
    return FormatName(kFormat) + " [" + std::to_string(out_features) + ", " + std::to_string(in_features) +
           "], " + std::to_string(groups) + " groups, to " +
           (correctly_rounded ? "rounded fp32"
            : is_f32          ? "fp32"
                              : "bf16");
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<Bf16> out(is_f32 ? 0 : static_cast<size_t>(rows * out_features));
    std::vector<float> out_f32(is_f32 ? static_cast<size_t>(rows * out_features) : 0);
    for (const auto& batch : batches) {
      const Operand<Bf16> input(TakeRows(x, groups * in_features, batch));
      Operand<Bf16> y(is_f32 ? 0 : batch.size() * static_cast<size_t>(out_features), kUnwrittenBf16);
      Operand<float> y_f32(is_f32 ? batch.size() * static_cast<size_t>(out_features) : 0, kUnwrittenFloat);
      LinearParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.groups = groups;
      p.x = input.data();
      p.weight = weight.view();
      p.y_f32 = is_f32 ? y_f32.data() : nullptr;
      p.y = is_f32 ? nullptr : y.data();
      p.correctly_rounded = correctly_rounded;
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.max_in_features = groups * in_features;
      limits.max_out_features = out_features;
      runner.ops().Linear(runner.Context(limits), p);
      if (is_f32) PutRows(y_f32, out_features, batch, &out_f32);
      if (!is_f32) PutRows(y, out_features, batch, &out);
    }
    if (is_f32) return {{"y_f32", correctly_rounded ? Match::kExact : Match::kFp32, out_features, out_f32}};
    return {{"y", Match::kExact, out_features, out}};
  }

  /// Against sums over values that are read another way.
  void CheckFormula(const Outputs& outputs) const {
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t o = 0; o < out_features; ++o) {
        const int64_t group = o / (out_features / groups);
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < in_features; ++k) {
          const double term =
              weight.Value(o, k) * ToFloat(x[static_cast<size_t>((t * groups + group) * in_features + k)]);
          sum += term;
          magnitude += std::fabs(term);
        }
        const auto at = static_cast<size_t>(t * out_features + o);
        const double got = is_f32 ? std::get<std::vector<float>>(outputs[0].values)[at]
                                  : ToFloat(std::get<std::vector<Bf16>>(outputs[0].values)[at]);
        ASSERT_NEAR(got, sum, (is_f32 ? 1e-7 : 0.004) * std::fabs(sum) + 2e-6 * magnitude + 1e-40)
            << "row " << t << ", output " << o;
      }
    }
  }

  int64_t rows, groups, in_features, out_features;
  bool is_f32, correctly_rounded;
  std::vector<Bf16> x;
  RandomWeight weight;
};

struct HcMixesCase {
  HcMixesCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        n(rng.Pick<int64_t>({1, 2, 3, 4})),
        hidden(rng.Pick<int64_t>({1, 8, 33, 64, 256})),
        iterations(static_cast<int>(rng.Pick<int64_t>({1, 2, 20}))),
        streams(Activations(rng, rows, n * hidden, Range::kSquarable)),
        fn(NormalFloats(rng, n * (n + 2) * n * hidden, 1 / std::sqrt(static_cast<double>(n * hidden)))),
        scale(NormalFloats(rng, 3)),
        base(NormalFloats(rng, n * (n + 2), rng.Pick({0.1, 3.0, 30.0}))) {}
  std::string Describe() const {
    return std::to_string(n) + " streams of " + std::to_string(hidden) + ", " + std::to_string(iterations) +
           " iterations";
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<float> pre(static_cast<size_t>(rows * n)), post(pre.size()),
        comb(static_cast<size_t>(rows * n * n));
    const Operand<float> fn_copy(fn), scale_copy(scale), base_copy(base);
    for (const auto& batch : batches) {
      const Operand<Bf16> input(TakeRows(streams, n * hidden, batch));
      const size_t count = batch.size() * static_cast<size_t>(n);
      Operand<float> batch_pre(count, kUnwrittenFloat), batch_post = batch_pre;
      Operand<float> batch_comb(count * static_cast<size_t>(n), kUnwrittenFloat);
      HcMixesParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.hc_mult = n;
      p.hidden = hidden;
      p.sinkhorn_iters = iterations;
      p.hc_eps = 1e-6f;
      p.norm_eps = 1e-20f;
      p.streams = input.data();
      p.fn = fn_copy.data();
      p.scale = scale_copy.data();
      p.base = base_copy.data();
      p.pre = batch_pre.data();
      p.post = batch_post.data();
      p.comb = batch_comb.data();
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.hidden_size = hidden;
      limits.hc_mult = n;
      runner.ops().HcMixes(runner.Context(limits), p);
      PutRows(batch_pre, n, batch, &pre);
      PutRows(batch_post, n, batch, &post);
      PutRows(batch_comb, n * n, batch, &comb);
    }
    return {{"pre", Match::kExact, n, pre},
            {"post", Match::kExact, n, post},
            {"comb", Match::kExact, n * n, comb}};
  }

  /// spec: model.md §14.6
  void CheckFormula(const Outputs& outputs) const {
    for (float v : std::get<std::vector<float>>(outputs[0].values))
      ASSERT_TRUE(v >= 1e-6f && v <= 1.0f + 2e-6f) << v;
    for (float v : std::get<std::vector<float>>(outputs[1].values)) ASSERT_TRUE(v >= 0 && v <= 2) << v;
    const auto& comb = std::get<std::vector<float>>(outputs[2].values);
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t k = 0; k < n; ++k) {
        double column = 0;
        for (int64_t j = 0; j < n; ++j) {
          const float v = comb[static_cast<size_t>((t * n + j) * n + k)];
          ASSERT_GT(v, 0);
          column += v;
        }
        ASSERT_LT(column, 1 + 1e-6) << "column " << k;
        ASSERT_GT(column, 0.4) << "column " << k;  // S/(S + 1e-6), where S may itself be as small as 1e-6
      }
    }
  }

  int64_t rows, n, hidden;
  int iterations;
  std::vector<Bf16> streams;
  std::vector<float> fn, scale, base;
};

struct HcCollapseCase {
  HcCollapseCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        n(rng.Int(1, 4)),
        hidden(rng.Pick<int64_t>({1, 8, 33, 64, 257})),
        streams(Activations(rng, rows, n * hidden, Range::kSquarable)),
        pre(NormalFloats(rng, rows * n)) {}
  std::string Describe() const { return std::to_string(n) + " streams of " + std::to_string(hidden); }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<Bf16> collapsed(static_cast<size_t>(rows * hidden)), mean = collapsed;
    for (const auto& batch : batches) {
      const Operand<Bf16> input(TakeRows(streams, n * hidden, batch));
      const Operand<float> weights(TakeRows(pre, n, batch));
      Operand<Bf16> y(batch.size() * static_cast<size_t>(hidden), kUnwrittenBf16), tap = y;
      WorkspaceLimits limits;
      limits.max_rows = static_cast<int64_t>(batch.size());
      limits.hidden_size = hidden;
      limits.hc_mult = n;
      runner.ops().HcCollapse(runner.Context(limits),
                              {limits.max_rows, n, hidden, input.data(), weights.data(), y.data()});
      runner.ops().StreamMean(runner.Context(limits), {limits.max_rows, n, hidden, input.data(), tap.data()});
      PutRows(y, hidden, batch, &collapsed);
      PutRows(tap, hidden, batch, &mean);
    }
    return {{"collapsed", Match::kExact, hidden, collapsed}, {"mean", Match::kExact, hidden, mean}};
  }

  int64_t rows, n, hidden;
  std::vector<Bf16> streams;
  std::vector<float> pre;
};

struct HcExpandCase {
  HcExpandCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        n(rng.Int(1, 4)),
        hidden(rng.Pick<int64_t>({1, 8, 33, 64, 257})),
        in_place(rng.Chance(0.5)),
        y(Activations(rng, rows, hidden, Range::kSquarable)),
        streams(Activations(rng, rows, n * hidden, Range::kSquarable)),
        post(NormalFloats(rng, rows * n)),
        comb(NormalFloats(rng, rows * n * n)) {}
  std::string Describe() const {
    return std::to_string(n) + " streams of " + std::to_string(hidden) + (in_place ? ", in place" : "");
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<Bf16> out(streams.size());
    for (const auto& batch : batches) {
      const Operand<Bf16> batch_y(TakeRows(y, hidden, batch));
      Operand<Bf16> input(TakeRows(streams, n * hidden, batch));
      const Operand<float> batch_post(TakeRows(post, n, batch)), batch_comb(TakeRows(comb, n * n, batch));
      Operand<Bf16> result(batch.size() * static_cast<size_t>(n * hidden), kUnwrittenBf16);
      HcExpandParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.hc_mult = n;
      p.hidden = hidden;
      p.y = batch_y.data();
      p.streams = input.data();
      p.post = batch_post.data();
      p.comb = batch_comb.data();
      p.out = in_place ? input.data() : result.data();
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.hidden_size = hidden;
      limits.hc_mult = n;
      runner.ops().HcExpand(runner.Context(limits), p);
      PutRows(in_place ? input : result, n * hidden, batch, &out);
    }
    return {{"out", Match::kExact, hidden, out}};
  }

  int64_t rows, n, hidden;
  bool in_place;
  std::vector<Bf16> y, streams;
  std::vector<float> post, comb;
};

struct MoeRouteCase {
  MoeRouteCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        hidden(rng.Pick<int64_t>({32, 33, 64, 160})),
        experts(rng.Pick<int64_t>({1, 2, 8, 33, 64, 128})),
        k(rng.Int(1, std::min<int64_t>(8, experts))),
        normalize(rng.Chance(0.8)),
        has_images(rng.Chance(0.5)),
        gate_temp(rng.Pick({1.0f, 0.5f})),
        route_scale(rng.Pick({1.5f, 1.0f})),
        x(Activations(rng, rows, hidden, Range::kSquarable)),
        gate(rng, WeightFormat::kBf16, experts, hidden),
        bias(NormalFloats(rng, experts, 0.3)),
        bias_vl(NormalFloats(rng, experts, 0.3)) {
    if (rng.Chance(0.5)) {  // ties: equal experts with equal biases
      for (int64_t e = 1; e < experts; e += 2) {
        gate.CopyRow(e - 1, e);
        bias[static_cast<size_t>(e)] = bias[static_cast<size_t>(e - 1)];
      }
    }
    if (rng.Chance(0.3)) bias[static_cast<size_t>(experts - 1)] = 100;
    for (int64_t t = 0; t < rows; ++t) is_image.push_back(rng.Chance(0.4) ? 1 : 0);
  }
  std::string Describe() const {
    return std::to_string(k) + " of " + std::to_string(experts) + " experts, hidden " +
           std::to_string(hidden);
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<float> scores(static_cast<size_t>(rows * experts)), weights(static_cast<size_t>(rows * k));
    std::vector<int32_t> ids(weights.size());
    const Operand<float> bias_copy(bias), bias_vl_copy(bias_vl);
    for (const auto& batch : batches) {
      const Operand<Bf16> input(TakeRows(x, hidden, batch));
      const Operand<uint8_t> images(TakeRows(is_image, 1, batch));
      Operand<float> batch_scores(batch.size() * static_cast<size_t>(experts), kUnwrittenFloat);
      Operand<float> batch_weights(batch.size() * static_cast<size_t>(k), kUnwrittenFloat);
      Operand<int32_t> batch_ids(batch.size() * static_cast<size_t>(k), kUnwrittenInt);
      MoeRouteParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.hidden = hidden;
      p.num_experts = experts;
      p.k = k;
      p.gate_temp = gate_temp;
      p.route_scale = route_scale;
      p.normalize = normalize;
      p.x = input.data();
      p.gate = gate.view();
      p.bias = bias_copy.data();
      p.bias_vl = bias_vl_copy.data();
      p.is_image = has_images ? images.data() : nullptr;
      p.scores = batch_scores.data();
      p.topk_ids = batch_ids.data();
      p.topk_weights = batch_weights.data();
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.hidden_size = hidden;
      limits.num_experts = experts;
      limits.experts_per_token = k;
      runner.ops().MoeRoute(runner.Context(limits), p);
      PutRows(batch_scores, experts, batch, &scores);
      PutRows(batch_ids, k, batch, &ids);
      PutRows(batch_weights, k, batch, &weights);
    }
    return {{"scores", Match::kExact, experts, scores},
            {"ids", Match::kExact, k, ids},
            {"weights", Match::kExact, k, weights}};
  }

  /// The choice and the weights follow from the scores: repeatedly take the best expert that is left.
  void CheckFormula(const Outputs& outputs) const {
    const auto& scores = std::get<std::vector<float>>(outputs[0].values);
    const auto& ids = std::get<std::vector<int32_t>>(outputs[1].values);
    const auto& weights = std::get<std::vector<float>>(outputs[2].values);
    for (int64_t t = 0; t < rows; ++t) {
      const std::vector<float>& b = has_images && is_image[static_cast<size_t>(t)] != 0 ? bias_vl : bias;
      std::vector<bool> taken(static_cast<size_t>(experts));
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        int64_t best = -1;
        float best_value = 0;
        for (int64_t e = 0; e < experts; ++e) {
          const float value = scores[static_cast<size_t>(t * experts + e)] + b[static_cast<size_t>(e)];
          if (!taken[static_cast<size_t>(e)] && (best < 0 || value > best_value))
            best = e, best_value = value;
        }
        taken[static_cast<size_t>(best)] = true;
        ASSERT_EQ(ids[static_cast<size_t>(t * k + i)], best) << "row " << t << ", choice " << i;
        sum += scores[static_cast<size_t>(t * experts + best)];
      }
      for (int64_t i = 0; i < k; ++i) {
        const auto at = static_cast<size_t>(t * k + i);
        double want = scores[static_cast<size_t>(t * experts + ids[at])] * static_cast<double>(route_scale);
        if (normalize) want /= sum + 1e-20;
        ASSERT_NEAR(weights[at], want, 1e-6 * want + 1e-38) << "row " << t << ", weight " << i;
      }
    }
  }

  int64_t rows, hidden, experts, k;
  bool normalize, has_images;
  float gate_temp, route_scale;
  std::vector<Bf16> x;
  RandomWeight gate;
  std::vector<float> bias, bias_vl;
  std::vector<uint8_t> is_image;
};

struct MoeExpertsCase {
  MoeExpertsCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        hidden(32 * rng.Pick<int64_t>({1, 2, 3, 8})),
        intermediate(32 * rng.Pick<int64_t>({1, 2, 3})),
        experts(rng.Pick<int64_t>({1, 3, 8, 16})),
        k(rng.Int(1, std::min<int64_t>(6, experts))),
        limit(rng.Pick({0.0f, 10.0f, 0.5f})),
        wants_shared(rng.Chance(0.7)),
        x(OnFp8Grid(NormalBf16(rng, rows * hidden, rng.Pick({0.1, 1.0, 8.0})))) {
    for (int64_t e = 0; e < experts; ++e) {
      for (int matrix = 0; matrix < 3; ++matrix)
        routed.push_back(MakeMatrix(rng, WeightFormat::kFp4Row32, matrix));
    }
    for (int matrix = 0; matrix < 3; ++matrix)
      shared.push_back(MakeMatrix(rng, WeightFormat::kFp8Tile32, matrix));
    const bool all_alike = rng.Chance(0.25);  // some experts get every row, the others none
    const std::vector<int32_t> common = rng.DistinctShuffled(k, experts);
    for (int64_t t = 0; t < rows; ++t) {
      const std::vector<int32_t> own = rng.DistinctShuffled(k, experts);
      ids.insert(ids.end(), (all_alike ? common : own).begin(), (all_alike ? common : own).end());
      for (int64_t i = 0; i < k; ++i)
        weights.push_back(rng.Chance(0.05) ? 0.0f : static_cast<float>(rng.Uniform(0.01, 1.5)));
    }
  }
  RandomWeight MakeMatrix(Rng& rng, WeightFormat format, int matrix) const {
    return matrix < 2 ? RandomWeight(rng, format, intermediate, hidden)
                      : RandomWeight(rng, format, hidden, intermediate);
  }
  std::string Describe() const {
    return std::to_string(k) + " of " + std::to_string(experts) + " experts, " + std::to_string(hidden) +
           " x " + std::to_string(intermediate) + ", limit " + std::to_string(limit);
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<Bf16> out(x.size()), shared_out(wants_shared ? x.size() : 0);
    std::vector<ExpertWeights> views;
    for (size_t e = 0; e < routed.size(); e += 3)
      views.push_back({routed[e].view(), routed[e + 1].view(), routed[e + 2].view()});
    for (const auto& batch : batches) {
      const Operand<Bf16> input(TakeRows(x, hidden, batch));
      const Operand<int32_t> batch_ids(TakeRows(ids, k, batch));
      const Operand<float> batch_weights(TakeRows(weights, k, batch));
      Operand<Bf16> y(batch.size() * static_cast<size_t>(hidden), kUnwrittenBf16), y_shared = y;
      MoeExpertsParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.hidden = hidden;
      p.intermediate = intermediate;
      p.k = k;
      p.swiglu_limit = limit;
      p.x = input.data();
      p.topk_ids = batch_ids.data();
      p.topk_weights = batch_weights.data();
      p.experts = views;
      p.shared = {shared[0].view(), shared[1].view(), shared[2].view()};
      p.shared_out = wants_shared ? y_shared.data() : nullptr;
      p.y = y.data();
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.hidden_size = hidden;
      limits.moe_intermediate_size = intermediate;
      limits.num_experts = experts;
      limits.experts_per_token = k;
      runner.ops().MoeExperts(runner.Context(limits), p);
      PutRows(y, hidden, batch, &out);
      if (wants_shared) PutRows(y_shared, hidden, batch, &shared_out);
    }
    Outputs outputs = {{"y", Match::kExact, hidden, out}};
    if (wants_shared) outputs.push_back({"shared", Match::kExact, hidden, shared_out});
    return outputs;
  }

  int64_t rows, hidden, intermediate, experts, k;
  float limit;
  bool wants_shared;
  std::vector<Bf16> x;
  std::vector<RandomWeight> routed, shared;  // w1, w3, w2 of each expert
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

TEST_P(Conformance, LinearBf16) { CheckConformance<LinearCase<WeightFormat::kBf16>>(GetParam(), 4); }
TEST_P(Conformance, LinearFp32) { CheckConformance<LinearCase<WeightFormat::kFp32>>(GetParam(), 4); }
TEST_P(Conformance, LinearFp8) { CheckConformance<LinearCase<WeightFormat::kFp8Tile32>>(GetParam(), 6); }
TEST_P(Conformance, LinearFp4) { CheckConformance<LinearCase<WeightFormat::kFp4Row32>>(GetParam(), 6); }
TEST_P(Conformance, LinearBf16Rows) { CheckRowInvariance<LinearCase<WeightFormat::kBf16>>(GetParam()); }
TEST_P(Conformance, LinearFp32Rows) { CheckRowInvariance<LinearCase<WeightFormat::kFp32>>(GetParam()); }
TEST_P(Conformance, LinearFp8Rows) {
  CheckRowInvariance<LinearCase<WeightFormat::kFp8Tile32>>(GetParam(), 4);
}
TEST_P(Conformance, LinearFp4Rows) { CheckRowInvariance<LinearCase<WeightFormat::kFp4Row32>>(GetParam(), 4); }
TEST_P(Conformance, HcMixes) { CheckConformance<HcMixesCase>(GetParam(), 4); }
TEST_P(Conformance, HcMixesRows) { CheckRowInvariance<HcMixesCase>(GetParam()); }
TEST_P(Conformance, HcCollapseAndMean) { CheckConformance<HcCollapseCase>(GetParam(), 4); }
TEST_P(Conformance, HcCollapseAndMeanRows) { CheckRowInvariance<HcCollapseCase>(GetParam()); }
TEST_P(Conformance, HcExpand) { CheckConformance<HcExpandCase>(GetParam(), 4); }
TEST_P(Conformance, HcExpandRows) { CheckRowInvariance<HcExpandCase>(GetParam()); }
TEST_P(Conformance, MoeRoute) { CheckConformance<MoeRouteCase>(GetParam(), 4); }
TEST_P(Conformance, MoeRouteRows) { CheckRowInvariance<MoeRouteCase>(GetParam()); }
TEST_P(Conformance, MoeExperts) { CheckConformance<MoeExpertsCase>(GetParam(), 4); }
TEST_P(Conformance, MoeExpertsRows) { CheckRowInvariance<MoeExpertsCase>(GetParam()); }

}  // namespace
}  // namespace deepinfer::kernels::testing
