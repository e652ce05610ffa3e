// Linears, the router and the mixing weights of hyper-connections: products split over row tiles and feature tiles.
#include <cmath>

#include "kernels/cpu/back_end.h"

namespace deepinfer::kernels {
namespace {

struct ProductScratch {
  float* panel;
  float* sums;
  explicit ProductScratch(Scratch scratch)
      : panel(scratch.Take<float>(kPanel * kKBlock)), sums(scratch.Take<float>(kRowTile * kFeatureTile)) {}
};

/// Rows of a unit: all of a row tile, less when whole tiles would leave threads idle.
int64_t RowsPerUnit(const OpContext& ctx, int64_t rows, int64_t feature_units) {
  const int64_t threads = ctx.pool == nullptr ? 1 : ctx.pool->num_threads();
  const int64_t wanted = CeilDiv(2 * threads, feature_units);  // row tiles that give every thread two units
  const int64_t even = RoundUp(CeilDiv(rows, wanted), int64_t{12});
  return std::clamp(even, int64_t{1}, kRowTile);
}

}  // namespace

size_t ProductThreadBytes() {
  return PieceBytes<float>(kPanel * kKBlock) + PieceBytes<float>(kRowTile * kFeatureTile);
}

void CpuOps::Linear(const OpContext& ctx, const LinearParams& p) const {
  const int64_t out = p.weight.out_features, in = p.weight.in_features;
  const int64_t group_out = out / p.groups;
  const int64_t tiles = CeilDiv(group_out, kFeatureTile);
  const int64_t tile_rows = RowsPerUnit(ctx, p.rows, tiles * p.groups);
  const int64_t row_tiles = CeilDiv(p.rows, tile_rows);
  ForUnits(ctx, row_tiles * tiles * p.groups, p.rows * out * in, ctx.workspace, ProductThreadBytes(),
           [&](int64_t unit, Scratch memory) {
             const ProductScratch scratch(memory);
             const int64_t row = unit % row_tiles * tile_rows;
             const int64_t group = unit / row_tiles / tiles, tile = unit / row_tiles % tiles;
             const int64_t begin = group * group_out + tile * kFeatureTile;
             const int64_t count = std::min(kFeatureTile, group_out - tile * kFeatureTile);
             const int64_t rows = std::min(tile_rows, p.rows - row);
             const int64_t stride = in * p.groups;
             kernels_.product({.x = {p.x + row * stride + group * in, stride, nullptr},
                               .rows = rows,
                               .weight = p.weight,
                               .out_begin = begin,
                               .out_count = count,
                               .panel = scratch.panel,
                               .sums = scratch.sums});
             kernels_.store_tile(scratch.sums, rows, count,
                                 p.y == nullptr ? nullptr : p.y + row * out + begin,
                                 p.y_f32 == nullptr ? nullptr : p.y_f32 + row * out + begin, out);
           });
}

// ---------------------------------------------------------------------------------------------------------------------

size_t HcSharedBytes(int64_t rows, int64_t hc_mult) {
  return PieceBytes<float>(rows * hc_mult * (hc_mult + 2)) + PieceBytes<float>(rows);
}

void CpuOps::HcMixes(const OpContext& ctx, const HcMixesParams& p) const {
  const int64_t n = p.hc_mult, width = n * (n + 2), in = n * p.hidden;
  Scratch shared(ctx.workspace);
  float* mixes = shared.Take<float>(p.rows * width);
  float* rms = shared.Take<float>(p.rows);
  // 1. fn . v: a product with float weights.
  const WeightView fn{WeightFormat::kFp32, p.fn, nullptr, width, in};
  Linear({ctx.pool, shared.rest()}, {.rows = p.rows, .x = p.streams, .weight = fn, .y_f32 = mixes});
  // 2. One scalar a row, then sigmoids and Sinkhorn over groups of rows.
  constexpr int64_t kGroup = 16;  // a multiple of the lanes of every target
  ForRows(ctx, CeilDiv(p.rows, kGroup), kGroup * (in + 2000), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kGroup, count = std::min(end * kGroup, p.rows) - first;
    for (int64_t t = first; t < first + count; ++t) {
      const float mean = kernels_.sum_squares(p.streams + t * in, in) / static_cast<float>(in);
      rms[t] = 1.0f / std::sqrt(mean + p.norm_eps);
    }
    kernels_.hc_epilogue({.rows = count,
                          .hc_mult = n,
                          .sinkhorn_iters = p.sinkhorn_iters,
                          .hc_eps = p.hc_eps,
                          .mixes = mixes + first * width,
                          .rms = rms + first,
                          .scale = p.scale,
                          .base = p.base,
                          .pre = p.pre + first * n,
                          .post = p.post + first * n,
                          .comb = p.comb + first * n * n});
  });
}

// ---------------------------------------------------------------------------------------------------------------------

namespace {

/// The k best of score + bias, best first, ties to the lower expert; then the weights of the row.
void RouteRow(const MoeRouteParams& p, const float* scores, const float* bias, int32_t* ids, float* weights) {
  int64_t found = 0;
  for (int64_t e = 0; e < p.num_experts; ++e) {
    const float value = scores[e] + bias[e];
    // `weights` holds the biased scores of the best until the list is complete.
    if (found == p.k && !(value > weights[p.k - 1])) continue;
    int64_t at = found < p.k ? found++ : p.k - 1;
    for (; at > 0 && value > weights[at - 1]; --at) {
      weights[at] = weights[at - 1];
      ids[at] = ids[at - 1];
    }
    weights[at] = value;
    ids[at] = static_cast<int32_t>(e);
  }
  float sum = 0;
  for (int64_t j = 0; j < p.k; ++j) sum += scores[ids[j]];
  for (int64_t j = 0; j < p.k; ++j) {
    const float score = scores[ids[j]];
    weights[j] = (p.normalize ? score / (sum + 1e-20f) : score) * p.route_scale;
  }
}

}  // namespace

void CpuOps::MoeRoute(const OpContext& ctx, const MoeRouteParams& p) const {
  Linear(ctx, {.rows = p.rows, .x = p.x, .weight = p.gate, .y_f32 = p.scores});
  ForRows(ctx, p.rows, p.num_experts * 20, [&](int64_t begin, int64_t end) {
    kernels_.sqrt_softplus(p.scores + begin * p.num_experts, (end - begin) * p.num_experts, p.gate_temp);
    for (int64_t t = begin; t < end; ++t) {
      const float* bias = p.is_image != nullptr && p.is_image[t] != 0 ? p.bias_vl : p.bias;
      RouteRow(p, p.scores + t * p.num_experts, bias, p.topk_ids + t * p.k, p.topk_weights + t * p.k);
    }
  });
}

}  // namespace deepinfer::kernels
