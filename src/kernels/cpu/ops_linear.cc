// Linears, the router and the mixing weights of hyper-connections: products split over row tiles and feature tiles.
#include <cmath>

#include "kernels/cpu/back_end.h"

namespace deepinfer::kernels {
namespace {

struct ProductScratch {
  float* panel;
  double* sums;
  explicit ProductScratch(Scratch scratch)
      : panel(scratch.Take<float>(kPanel * kKBlock)), sums(scratch.Take<double>(kRowTile * kFeatureTile)) {}
};

/// Rows of a unit: all of a row tile, less when whole tiles would leave threads idle.
int64_t RowsPerUnit(const OpContext& ctx, int64_t rows, int64_t feature_units) {
  const int64_t threads = ctx.pool == nullptr ? 1 : ctx.pool->num_threads();
  const int64_t wanted = CeilDiv(2 * threads, feature_units);  // row tiles that give every thread two units
  const int64_t even = RoundUp(CeilDiv(rows, wanted), int64_t{12});
  return std::clamp(even, int64_t{1}, kRowTile);
}

/// Whether a product needs doubles throughout: bf16 and float weights use up what a float has, and where a rounding to bf16
/// follows, a last bit can decide it. Weights on the FP8 and FP4 grids leave room, so that sums in float lanes are exact.
bool NeedsWide(WeightFormat format) { return format == WeightFormat::kBf16 || format == WeightFormat::kFp32; }

/// All products of a linear, tile by tile: store(sums, row, rows, first output feature, features).
template <class Store>
void ForProductTiles(const OpContext& ctx, const KernelTable& kernels, const LinearParams& p, bool wide,
                     const Store& store) {
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
             kernels.product({.wide = wide,
                              .to_bf16 = p.y != nullptr,
                              .x = {p.x + row * stride + group * in, stride, nullptr},
                              .rows = rows,
                              .weight = p.weight,
                              .out_begin = begin,
                              .out_count = count,
                              .panel = scratch.panel,
                              .sums = scratch.sums});
             store(scratch.sums, row, rows, begin, count);
           });
}

/// x . W^T in double: out [rows, out_features].
void WideProducts(const OpContext& ctx, const KernelTable& kernels, const LinearParams& p, double* out) {
  const int64_t stride = p.weight.out_features;
  ForProductTiles(ctx, kernels, p, true,
                  [&](const double* sums, int64_t row, int64_t rows, int64_t begin, int64_t count) {
                    for (int64_t r = 0; r < rows; ++r) {
                      std::copy_n(sums + r * kFeatureTile, count, out + (row + r) * stride + begin);
                    }
                  });
}

}  // namespace

size_t ProductThreadBytes() {
  return PieceBytes<float>(kPanel * kKBlock) + PieceBytes<double>(kRowTile * kFeatureTile);
}

void CpuOps::Linear(const OpContext& ctx, const LinearParams& p) const {
  const int64_t out = p.weight.out_features;
  ForProductTiles(ctx, kernels_, p, p.y != nullptr ? NeedsWide(p.weight.format) : p.correctly_rounded,
                  [&](const double* sums, int64_t row, int64_t rows, int64_t begin, int64_t count) {
                    kernels_.store_tile(sums, rows, count, p.y == nullptr ? nullptr : p.y + row * out + begin,
                                        p.y_f32 == nullptr ? nullptr : p.y_f32 + row * out + begin, out);
                  });
}

// ---------------------------------------------------------------------------------------------------------------------

size_t HcSharedBytes(int64_t rows, int64_t hc_mult) {
  return PieceBytes<double>(rows * hc_mult * (hc_mult + 2)) + PieceBytes<double>(rows);
}

void CpuOps::HcMixes(const OpContext& ctx, const HcMixesParams& p) const {
  const int64_t n = p.hc_mult, width = n * (n + 2), in = n * p.hidden;
  Scratch shared(ctx.workspace);
  double* mixes = shared.Take<double>(p.rows * width);
  double* rms = shared.Take<double>(p.rows);
  // 1. fn . v: a product with float weights.
  const WeightView fn{WeightFormat::kFp32, p.fn, nullptr, width, in};
  WideProducts({ctx.pool, shared.rest()}, kernels_, {.rows = p.rows, .x = p.streams, .weight = fn}, mixes);
  // 2. One scalar a row, then sigmoids and Sinkhorn over groups of rows.
  constexpr int64_t kGroup = 16;  // a multiple of the lanes of every target
  ForRows(ctx, CeilDiv(p.rows, kGroup), kGroup * (in + 2000), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kGroup, count = std::min(end * kGroup, p.rows) - first;
    for (int64_t t = first; t < first + count; ++t) {
      const double mean = kernels_.sum_squares(p.streams + t * in, in) / static_cast<double>(in);
      rms[t] = 1.0 / std::sqrt(mean + double{p.norm_eps});
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
  double sum = 0;
  for (int64_t j = 0; j < p.k; ++j) sum += double{scores[ids[j]]};
  for (int64_t j = 0; j < p.k; ++j) {
    const double score = double{scores[ids[j]]};
    weights[j] = static_cast<float>((p.normalize ? score / (sum + 1e-20) : score) * double{p.route_scale});
  }
}

}  // namespace

size_t RouteSharedBytes(int64_t rows, int64_t num_experts) { return PieceBytes<double>(rows * num_experts); }

void CpuOps::MoeRoute(const OpContext& ctx, const MoeRouteParams& p) const {
  Scratch shared(ctx.workspace);
  double* logits = shared.Take<double>(p.rows * p.num_experts);
  WideProducts({ctx.pool, shared.rest()}, kernels_, {.rows = p.rows, .x = p.x, .weight = p.gate}, logits);
  ForRows(ctx, p.rows, p.num_experts * 20, [&](int64_t begin, int64_t end) {
    kernels_.sqrt_softplus(logits + begin * p.num_experts, (end - begin) * p.num_experts, p.gate_temp,
                           p.scores + begin * p.num_experts);
    for (int64_t t = begin; t < end; ++t) {
      const float* bias = p.is_image != nullptr && p.is_image[t] != 0 ? p.bias_vl : p.bias;
      RouteRow(p, p.scores + t * p.num_experts, bias, p.topk_ids + t * p.k, p.topk_weights + t * p.k);
    }
  });
}

}  // namespace deepinfer::kernels
