// Single-pass hyper-connections (spec: model.md §7) and the mean of the streams (§6).
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/dot.h"
#include "kernels/reference/functions.h"

namespace deepinfer::kernels::reference {
namespace {

/// comb [n, n] of logits c, in place: softmax of each row, then normalisations in turn, columns last.  spec: model.md §7.1
void Sinkhorn(int64_t n, int iterations, double eps, double* c) {
  for (int64_t j = 0; j < n; ++j) {
    const double max = *std::max_element(c + j * n, c + (j + 1) * n);
    double sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += c[j * n + k] = std::exp(c[j * n + k] - max);
    for (int64_t k = 0; k < n; ++k) c[j * n + k] = c[j * n + k] / sum + eps;
  }
  const auto divide_by_sum = [n, eps, c](int64_t begin, int64_t step) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += c[begin + i * step];
    for (int64_t i = 0; i < n; ++i) c[begin + i * step] /= sum + eps;
  };
  for (int64_t k = 0; k < n; ++k) divide_by_sum(k, n);
  for (int iteration = 1; iteration < iterations; ++iteration) {
    for (int64_t j = 0; j < n; ++j) divide_by_sum(j * n, 1);
    for (int64_t k = 0; k < n; ++k) divide_by_sum(k, n);
  }
}

}  // namespace

// spec: model.md §7.1
void HcMixes(const OpContext& ctx, const HcMixesParams& p) {
  const int64_t n = p.hc_mult, width = n * p.hidden, outputs = n * (n + 2);
  const WeightView fn{WeightFormat::kFp32, p.fn, nullptr, outputs, width};
  std::vector<double> products(static_cast<size_t>(p.rows * outputs));  // fn . v
  WeightDots(ctx, {p.streams, p.rows, width}, fn, 0, outputs,
             [&](int64_t row, int64_t first, std::span<const double> values) {
               std::copy(values.begin(), values.end(), products.begin() + row * outputs + first);
             });
  ForEachRow(ctx, p.rows, [&](int64_t t) {
    const Bf16* v = p.streams + t * width;
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += ToDouble(v[i]) * ToDouble(v[i]);
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(width) + p.norm_eps);
    double* m = products.data() + t * outputs;
    for (int64_t i = 0; i < outputs; ++i) {
      const int64_t part = i < n ? 0 : i < 2 * n ? 1 : 2;  // pre, post, comb
      m[i] = m[i] * inverse * p.scale[part] + p.base[i];
    }
    Sinkhorn(n, p.sinkhorn_iters, p.hc_eps, m + 2 * n);
    for (int64_t k = 0; k < n; ++k) {
      p.pre[t * n + k] = static_cast<float>(Sigmoid(m[k]) + p.hc_eps);
      p.post[t * n + k] = static_cast<float>(2 * Sigmoid(m[n + k]));
    }
    for (int64_t i = 0; i < n * n; ++i) p.comb[t * n * n + i] = static_cast<float>(m[2 * n + i]);
  });
}

// spec: model.md §7.2, u = bf16(sum_k pre[k] X[k])
void HcCollapse(const OpContext& ctx, const HcCollapseParams& p) {
  ForEachRow(ctx, p.rows, [&p](int64_t t) {
    const Bf16* x = p.streams + t * p.hc_mult * p.hidden;
    for (int64_t i = 0; i < p.hidden; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < p.hc_mult; ++k) sum += p.pre[t * p.hc_mult + k] * ToDouble(x[k * p.hidden + i]);
      p.y[t * p.hidden + i] = ToBf16(sum);
    }
  });
}

// spec: model.md §7.2, X'[k] = bf16(post[k] y + sum_j comb[j][k] X[j])
void HcExpand(const OpContext& ctx, const HcExpandParams& p) {
  const int64_t n = p.hc_mult;
  ForEachRow(ctx, p.rows, [&p, n](int64_t t) {
    const Bf16* x = p.streams + t * n * p.hidden;
    const float* comb = p.comb + t * n * n;
    std::vector<double> old(
        static_cast<size_t>(n));  // `out` may be `streams`: read all streams of a channel first
    for (int64_t i = 0; i < p.hidden; ++i) {
      for (int64_t j = 0; j < n; ++j) old[static_cast<size_t>(j)] = ToDouble(x[j * p.hidden + i]);
      for (int64_t k = 0; k < n; ++k) {
        double mixed = 0;
        for (int64_t j = 0; j < n; ++j) mixed += comb[j * n + k] * old[static_cast<size_t>(j)];
        p.out[(t * n + k) * p.hidden + i] =
            ToBf16(p.post[t * n + k] * ToDouble(p.y[t * p.hidden + i]) + mixed);
      }
    }
  });
}

// spec: model.md §6, tap_l
void StreamMean(const OpContext& ctx, const StreamMeanParams& p) {
  ForEachRow(ctx, p.rows, [&p](int64_t t) {
    const Bf16* x = p.streams + t * p.hc_mult * p.hidden;
    for (int64_t i = 0; i < p.hidden; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < p.hc_mult; ++k) sum += ToDouble(x[k * p.hidden + i]);
      p.y[t * p.hidden + i] = ToBf16(sum / static_cast<double>(p.hc_mult));
    }
  });
}

}  // namespace deepinfer::kernels::reference
