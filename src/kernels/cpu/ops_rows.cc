// Operations on single rows: embedding, norms, quantisers, rotation, streams, Engram.
#include <cmath>
#include <cstring>

#include "kernels/cpu/back_end.h"
#include "tensor/quantize.h"

namespace deepinfer::kernels {

void CpuOps::Embed(const OpContext& ctx, const EmbedParams& p) const {
  const size_t bytes = static_cast<size_t>(p.hidden) * sizeof(Bf16);
  ForRows(ctx, p.rows, p.hidden * p.hc_mult / 8, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const bool given = p.given_row != nullptr && p.given_row[t] >= 0;
      const Bf16* row = given ? p.given + p.given_row[t] * p.hidden : p.table + p.ids[t] * p.hidden;
      for (int64_t k = 0; k < p.hc_mult; ++k)
        std::memcpy(p.streams + (t * p.hc_mult + k) * p.hidden, row, bytes);
    }
  });
}

void CpuOps::RmsNorm(const OpContext& ctx, const RmsNormParams& p) const {
  ForRows(ctx, p.rows, p.dim, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      kernels_.rms_norm(p.x + t * p.dim, p.weight, p.dim, p.eps, p.y + t * p.dim);
  });
}

void CpuOps::FakeQuantize(const OpContext& ctx, const FakeQuantizeParams& p) const {
  ForRows(ctx, p.rows, p.dim * 2, [&](int64_t begin, int64_t end) {
    // Groups do not know their row: a range of rows is one long row.
    kernels_.fake_quantize(p.x + begin * p.dim, (end - begin) * p.dim, p.scheme, p.y + begin * p.dim);
  });
}

void CpuOps::RopeTables(const OpContext& ctx, const RopeTablesParams& p) const {
  ForRows(ctx, p.rows, p.num_freqs * 200, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i = 0; i < p.num_freqs; ++i) {
        const double angle = static_cast<double>(static_cast<float>(p.positions[t]) * p.freqs[i]);
        p.cos[t * p.num_freqs + i] = static_cast<float>(std::cos(angle));
        p.sin[t * p.num_freqs + i] = static_cast<float>(std::sin(angle));
      }
    }
  });
}

void CpuOps::Rope(const OpContext& ctx, const RopeParams& p) const {
  const int64_t rotated = 2 * p.num_freqs;
  ForRows(ctx, p.rows, p.heads * rotated, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t h = 0; h < p.heads; ++h) {
        kernels_.rope(p.x + (t * p.heads + h + 1) * p.dim - rotated, p.cos + t * p.num_freqs,
                      p.sin + t * p.num_freqs, p.num_freqs, p.inverse);
      }
    }
  });
}

void CpuOps::HcCollapse(const OpContext& ctx, const HcCollapseParams& p) const {
  ForRows(ctx, p.rows, p.hidden * p.hc_mult, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      kernels_.hc_collapse(p.streams + t * p.hc_mult * p.hidden, p.pre + t * p.hc_mult, p.hc_mult, p.hidden,
                           p.y + t * p.hidden);
    }
  });
}

void CpuOps::HcExpand(const OpContext& ctx, const HcExpandParams& p) const {
  const int64_t n = p.hc_mult;
  ForRows(ctx, p.rows, p.hidden * n * (n + 1), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      kernels_.hc_expand(p.y + t * p.hidden, p.streams + t * n * p.hidden, p.post + t * n, p.comb + t * n * n,
                         n, p.hidden, p.out + t * n * p.hidden);
    }
  });
}

void CpuOps::StreamMean(const OpContext& ctx, const StreamMeanParams& p) const {
  ForRows(ctx, p.rows, p.hidden * p.hc_mult, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      kernels_.stream_mean(p.streams + t * p.hc_mult * p.hidden, p.hc_mult, p.hidden, p.y + t * p.hidden);
    }
  });
}

void CpuOps::Scale(const OpContext&, const ScaleParams& p) const {
  for (int64_t i = 0; i < p.count; ++i) p.x[i] = ToBf16(static_cast<double>(ToFloat(p.x[i])) * p.factor);
}

void CpuOps::EngramGather(const OpContext& ctx, const EngramGatherParams& p) const {
  const int64_t scale_columns = p.width / kQuantGroup;
  ForRows(ctx, p.rows, p.columns * p.width, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * p.columns; i < end * p.columns; ++i) {
      const int64_t row = p.row_ids[i];
      DequantizeFp8(p.codes + row * p.width, p.scales + row * scale_columns, p.width, p.out + i * p.width);
    }
  });
}

void CpuOps::EngramGate(const OpContext& ctx, const EngramGateParams& p) const {
  const int64_t n = p.hc_mult;
  ForRows(ctx, p.rows, p.hidden * n * 4, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const bool image = p.is_image != nullptr && p.is_image[t] != 0;
      const Bf16* keys = p.kv + t * (n + 1) * p.hidden;
      for (int64_t k = 0; k < n; ++k) {
        const float gate = image
                               ? 0.0f
                               : kernels_.engram_gate(p.streams + (t * n + k) * p.hidden, keys + k * p.hidden,
                                                      keys + n * p.hidden, p.q_weight + k * p.hidden,
                                                      p.k_weight + k * p.hidden, p.hidden, p.norm_eps);
        if (p.gate != nullptr) p.gate[t * n + k] = gate;
      }
    }
  });
}

}  // namespace deepinfer::kernels
