// Engram lookup and gate (spec: model.md §10.4).
#include <algorithm>
#include <cmath>

#include "kernels/reference/dot.h"
#include "kernels/reference/functions.h"
#include "tensor/quantize.h"

namespace deepinfer::kernels::reference {

void EngramGather(const OpContext& ctx, const EngramGatherParams& p) {
  ForEachRow(ctx, p.rows, [&p](int64_t t) {
    for (int64_t c = t * p.columns; c < (t + 1) * p.columns; ++c) {
      const int64_t row = p.row_ids[c];
      DequantizeFp8(p.codes + row * p.width, p.scales + row * (p.width / kQuantGroup), p.width,
                    p.out + c * p.width);
    }
  });
}

void EngramGate(const OpContext& ctx, const EngramGateParams& p) {
  constexpr double kMinDot = 1e-6;
  const int64_t n = p.hc_mult, hidden = p.hidden;
  const auto dim = static_cast<double>(hidden);
  ForEachRow(ctx, p.rows, [&](int64_t t) {
    const bool is_image = p.is_image != nullptr && p.is_image[t] != 0;
    const Bf16* value = p.kv + (t * (n + 1) + n) * hidden;
    for (int64_t k = 0; k < n; ++k) {
      Bf16* stream = p.streams + (t * n + k) * hidden;
      const Bf16* key = p.kv + (t * (n + 1) + k) * hidden;
      double stream_squares = 0, key_squares = 0, sum = 0;
      for (int64_t c = 0; c < hidden; ++c) {
        const double h = ToDouble(stream[c]), kc = ToDouble(key[c]);
        stream_squares += h * h;
        key_squares += kc * kc;
        sum += h * (ToDouble(p.q_weight[k * hidden + c]) * ToDouble(p.k_weight[k * hidden + c])) * kc;
      }
      const double inverse = 1.0 / std::sqrt(stream_squares / dim + p.norm_eps) *
                             (1.0 / std::sqrt(key_squares / dim + p.norm_eps));
      const double dot = sum * inverse * std::pow(dim, -0.5);
      const double gate =
          is_image ? 0.0 : Sigmoid(std::copysign(std::sqrt(std::max(std::fabs(dot), kMinDot)), dot));
      if (p.gate != nullptr) p.gate[t * n + k] = static_cast<float>(gate);
      if (is_image) continue;
      for (int64_t c = 0; c < hidden; ++c)
        stream[c] = ToBf16(ToDouble(stream[c]) + gate * ToDouble(value[c]));
    }
  });
}

}  // namespace deepinfer::kernels::reference
