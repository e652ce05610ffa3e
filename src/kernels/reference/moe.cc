// Router and experts (spec: model.md §9).
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/reference/dot.h"
#include "kernels/reference/functions.h"
#include "tensor/quantize.h"

namespace deepinfer::kernels::reference {
namespace {

constexpr double kSoftplusThreshold = 20;  // identity above it
constexpr double kRouterEps = 1e-20;

double Softplus(double z) { return z > kSoftplusThreshold ? z : std::log1p(std::exp(z)); }

/// Chooses and weights the experts of one row whose scores are known.
void ChooseExperts(const MoeRouteParams& p, int64_t t) {
  const float* scores = p.scores + t * p.num_experts;
  const float* bias = p.is_image != nullptr && p.is_image[t] != 0 ? p.bias_vl : p.bias;
  std::vector<int32_t> order(static_cast<size_t>(p.num_experts));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return scores[a] + bias[a] > scores[b] + bias[b]; });
  double sum = 0;
  for (int64_t i = 0; i < p.k; ++i) sum += scores[order[static_cast<size_t>(i)]];
  for (int64_t i = 0; i < p.k; ++i) {
    const int32_t expert = order[static_cast<size_t>(i)];
    double weight = scores[expert];
    if (p.normalize) weight /= sum + kRouterEps;
    p.topk_ids[t * p.k + i] = expert;
    p.topk_weights[t * p.k + i] = static_cast<float>(weight * p.route_scale);
  }
}

/// y = x . W^T rounded to bf16, x on the FP8 grid.
std::vector<Bf16> Project(const OpContext& ctx, const std::vector<Bf16>& x, int64_t rows,
                          const WeightView& weight) {
  std::vector<Bf16> y(static_cast<size_t>(rows * weight.out_features));
  LinearParams linear;
  linear.rows = rows;
  linear.x = x.data();
  linear.weight = weight;
  linear.y = y.data();
  Linear(ctx, linear);
  return y;
}

/// One expert over its rows: w2(fp8_act(bf16(weight * silu(g) * u))). `weights` is null for the shared expert.
std::vector<Bf16> RunExpert(const OpContext& ctx, const MoeExpertsParams& p, const ExpertWeights& expert,
                            const std::vector<Bf16>& x, int64_t rows, const float* weights) {
  const std::vector<Bf16> gate = Project(ctx, x, rows, expert.w1);
  const std::vector<Bf16> up = Project(ctx, x, rows, expert.w3);
  std::vector<Bf16> inner(gate.size());
  ForEachRow(ctx, rows, [&](int64_t row) {
    for (int64_t i = row * p.intermediate; i < (row + 1) * p.intermediate; ++i) {
      double g = ToDouble(gate[static_cast<size_t>(i)]), u = ToDouble(up[static_cast<size_t>(i)]);
      if (p.swiglu_limit > 0) {
        const double limit = p.swiglu_limit;
        g = std::min(g, limit);  // clamped from above only
        u = std::clamp(u, -limit, limit);
      }
      const double hidden = g * Sigmoid(g) * u;
      inner[static_cast<size_t>(i)] = ToBf16(weights == nullptr ? hidden : hidden * weights[row]);
    }
  });
  FakeQuantizeParams quantize;
  quantize.rows = rows;
  quantize.dim = p.intermediate;
  quantize.x = quantize.y = inner.data();
  FakeQuantize(ctx, quantize);
  return Project(ctx, inner, rows, expert.w2);
}

/// Rows that chose `expert`, with their inputs and weights.
struct ExpertBatch {
  std::vector<int64_t> rows;
  std::vector<Bf16> x;
  std::vector<float> weights;
};

ExpertBatch GatherRows(const MoeExpertsParams& p, int64_t expert) {
  ExpertBatch batch;
  for (int64_t t = 0; t < p.rows; ++t) {
    for (int64_t i = t * p.k; i < (t + 1) * p.k; ++i) {
      if (p.topk_ids[i] != expert) continue;
      batch.rows.push_back(t);
      batch.x.insert(batch.x.end(), p.x + t * p.hidden, p.x + (t + 1) * p.hidden);
      batch.weights.push_back(p.topk_weights[i]);
    }
  }
  return batch;
}

}  // namespace

void MoeRoute(const OpContext& ctx, const MoeRouteParams& p) {
  WeightDots(ctx, {p.x, p.rows, p.hidden}, p.gate, 0, p.num_experts,
             [&p](int64_t row, int64_t first, std::span<const double> logits) {
               for (size_t i = 0; i < logits.size(); ++i) {
                 p.scores[static_cast<size_t>(row * p.num_experts + first) + i] =
                     static_cast<float>(std::sqrt(Softplus(logits[i] / p.gate_temp)));
               }
             });
  ForEachRow(ctx, p.rows, [&p](int64_t t) { ChooseExperts(p, t); });
}

void MoeExperts(const OpContext& ctx, const MoeExpertsParams& p) {
  std::vector<double> total(static_cast<size_t>(p.rows * p.hidden));
  for (size_t e = 0; e < p.experts.size(); ++e) {
    const ExpertBatch batch = GatherRows(p, static_cast<int64_t>(e));
    if (batch.rows.empty()) continue;
    const auto count = static_cast<int64_t>(batch.rows.size());
    const std::vector<Bf16> y = RunExpert(ctx, p, p.experts[e], batch.x, count, batch.weights.data());
    ForEachRow(ctx, count, [&](int64_t row) {
      double* sum = total.data() + batch.rows[static_cast<size_t>(row)] * p.hidden;
      for (int64_t i = 0; i < p.hidden; ++i) sum[i] += ToDouble(y[static_cast<size_t>(row * p.hidden + i)]);
    });
  }
  const std::vector<Bf16> x(p.x, p.x + p.rows * p.hidden);
  const std::vector<Bf16> shared = RunExpert(ctx, p, p.shared, x, p.rows, nullptr);
  ForEachRow(ctx, p.rows, [&](int64_t t) {
    for (int64_t i = t * p.hidden; i < (t + 1) * p.hidden; ++i) {
      const auto at = static_cast<size_t>(i);
      p.y[at] = ToBf16(total[at] + ToDouble(shared[at]));
      if (p.shared_out != nullptr) p.shared_out[at] = shared[at];
    }
  });
}

}  // namespace deepinfer::kernels::reference
