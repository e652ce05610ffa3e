// Operations on single rows: embedding, RMS norm, activation quantisers, rotary embedding (spec: model.md §4.3, §4.4, §5, §6).
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/dot.h"
#include "kernels/reference/functions.h"
#include "tensor/quantize.h"

namespace deepinfer::kernels::reference {

// spec: model.md §6
void Embed(const OpContext& ctx, const EmbedParams& p) {
  ForEachRow(ctx, p.rows, [&p](int64_t t) {
    const bool is_given = p.given_row != nullptr && p.given_row[t] >= 0;
    const Bf16* source = is_given ? p.given + p.given_row[t] * p.hidden : p.table + p.ids[t] * p.hidden;
    for (int64_t stream = 0; stream < p.hc_mult; ++stream) {
      std::copy(source, source + p.hidden, p.streams + (t * p.hc_mult + stream) * p.hidden);
    }
  });
}

// spec: model.md §5.1
void RmsNorm(const OpContext& ctx, const RmsNormParams& p) {
  ForEachRow(ctx, p.rows, [&p](int64_t t) {
    const Bf16* x = p.x + t * p.dim;
    Bf16* y = p.y + t * p.dim;
    double squares = 0;
    for (int64_t i = 0; i < p.dim; ++i) squares += ToDouble(x[i]) * ToDouble(x[i]);
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(p.dim) + p.eps);
    for (int64_t i = 0; i < p.dim; ++i) y[i] = ToBf16(ToDouble(p.weight[i]) * (ToDouble(x[i]) * inverse));
  });
}

// spec: model.md §4.3, §4.4
void FakeQuantize(const OpContext& ctx, const FakeQuantizeParams& p) {
  ForEachRow(ctx, p.rows, [&p](int64_t t) {
    std::vector<uint8_t> codes(static_cast<size_t>(p.dim));
    std::vector<uint8_t> scales(static_cast<size_t>(p.dim / kQuantGroup));
    const Bf16* x = p.x + t * p.dim;
    Bf16* y = p.y + t * p.dim;
    switch (p.scheme) {
      case QuantScheme::kFp8Act:
        QuantizeFp8(x, p.dim, codes.data(), scales.data());
        DequantizeFp8(codes.data(), scales.data(), p.dim, y);
        break;
      case QuantScheme::kFp4Index:
        QuantizeFp4Index(x, p.dim, codes.data(), scales.data());
        DequantizeFp4Index(codes.data(), scales.data(), p.dim, y);
        break;
    }
  });
}

// spec: model.md §5.2: the angle is one fp32 product, cos and sin are evaluated with full range reduction
void RopeTables(const OpContext& ctx, const RopeTablesParams& p) {
  ForEachRow(ctx, p.rows, [&p](int64_t t) {
    for (int64_t i = 0; i < p.num_freqs; ++i) {
      const float angle = static_cast<float>(p.positions[t]) * p.freqs[i];
      p.cos[t * p.num_freqs + i] = static_cast<float>(std::cos(static_cast<double>(angle)));
      p.sin[t * p.num_freqs + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  });
}

// spec: model.md §5.3
void Rope(const OpContext& ctx, const RopeParams& p) {
  ForEachRow(ctx, p.rows, [&p](int64_t t) {
    for (int64_t head = 0; head < p.heads; ++head) {
      Bf16* tail = p.x + (t * p.heads + head + 1) * p.dim - 2 * p.num_freqs;
      for (int64_t i = 0; i < p.num_freqs; ++i) {
        const double cos = p.cos[t * p.num_freqs + i];
        const double sin = (p.inverse ? -1.0 : 1.0) * p.sin[t * p.num_freqs + i];
        const double a = ToDouble(tail[2 * i]), b = ToDouble(tail[2 * i + 1]);
        tail[2 * i] = ToBf16(a * cos - b * sin);
        tail[2 * i + 1] = ToBf16(a * sin + b * cos);
      }
    }
  });
}

// spec: model.md §8.6 [corrected]
void Scale(const OpContext& ctx, const ScaleParams& p) {
  ForEachRow(ctx, p.count, [&p](int64_t i) { p.x[i] = ToBf16(ToDouble(p.x[i]) * p.factor); });
}

}  // namespace deepinfer::kernels::reference
