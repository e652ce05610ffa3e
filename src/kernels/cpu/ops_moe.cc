// Mixture of experts: rows grouped by expert, so that each expanded weight panel serves all rows of its expert.
#include "kernels/cpu/back_end.h"

namespace deepinfer::kernels {
namespace {

/// Up to kRowTile (row, expert) pairs of one expert; expert E is the shared one.
struct ExpertTile {
  int32_t expert = 0;
  int32_t begin = 0;
  int32_t count = 0;
};

/// Pairs sorted by expert, rows ascending within one; the pairs of the shared expert (every row once) come last.
struct Grouping {
  int32_t* begin = nullptr;      // [E + 1] first pair of each expert
  int32_t* pair_row = nullptr;   // [pairs]
  float* weights = nullptr;      // [pairs] routing weights, 1 for the shared expert
  int32_t* row_pairs = nullptr;  // [T, k] pairs of a row, experts ascending
  int32_t* row_fill = nullptr;   // [T]
  ExpertTile* tiles = nullptr;
  int64_t num_tiles = 0;
};

int64_t MaxTiles(int64_t rows, int64_t num_experts, int64_t k) {
  return rows * (k + 1) / kRowTile + num_experts + 1;
}

size_t GroupingBytes(int64_t rows, int64_t num_experts, int64_t k) {
  const int64_t pairs = rows * (k + 1);
  return PieceBytes<int32_t>(num_experts + 1) + PieceBytes<int32_t>(pairs) + PieceBytes<float>(pairs) +
         PieceBytes<int32_t>(rows * k) + PieceBytes<int32_t>(rows) +
         PieceBytes<ExpertTile>(MaxTiles(rows, num_experts, k));
}

void AddTiles(Grouping& g, int64_t expert, int64_t begin, int64_t end) {
  for (; begin < end; begin += kRowTile) {
    g.tiles[g.num_tiles++] = {static_cast<int32_t>(expert), static_cast<int32_t>(begin),
                              static_cast<int32_t>(std::min(end - begin, kRowTile))};
  }
}

Grouping GroupByExpert(const MoeExpertsParams& p, Scratch& memory) {
  const auto num_experts = static_cast<int64_t>(p.experts.size());
  const int64_t routed = p.rows * p.k, pairs = routed + p.rows;
  Grouping g;
  g.begin = memory.Take<int32_t>(num_experts + 1);
  g.pair_row = memory.Take<int32_t>(pairs);
  g.weights = memory.Take<float>(pairs);
  g.row_pairs = memory.Take<int32_t>(routed);
  g.row_fill = memory.Take<int32_t>(p.rows);
  g.tiles = memory.Take<ExpertTile>(MaxTiles(p.rows, num_experts, p.k));
  // 1. Counting sort by expert: begin[e] counts, then holds the first pair of e, then (while filling) the next free one.
  std::fill_n(g.begin, num_experts + 1, 0);
  for (int64_t i = 0; i < routed; ++i) ++g.begin[p.topk_ids[i]];
  for (int64_t e = 0, sum = 0; e <= num_experts; ++e) {
    const int64_t count = g.begin[e];
    AddTiles(g, e, sum, sum + count);
    g.begin[e] = static_cast<int32_t>(sum);
    sum += count;
  }
  for (int64_t i = 0; i < routed; ++i) {
    const int64_t pair = g.begin[p.topk_ids[i]]++;
    g.pair_row[pair] = static_cast<int32_t>(i / p.k);
    g.weights[pair] = p.topk_weights[i];
  }
  // 2. Pairs in order list the experts of each row in ascending order.
  std::fill_n(g.row_fill, p.rows, 0);
  for (int64_t pair = 0; pair < routed; ++pair) {
    const int64_t row = g.pair_row[pair];
    g.row_pairs[row * p.k + g.row_fill[row]++] = static_cast<int32_t>(pair);
  }
  // 3. The shared expert takes every row.
  for (int64_t t = 0; t < p.rows; ++t) {
    g.pair_row[routed + t] = static_cast<int32_t>(t);
    g.weights[routed + t] = 1.0f;
  }
  AddTiles(g, num_experts, routed, pairs);
  return g;
}

struct MoeScratch {
  float* panel;
  double* gate;
  double* up;
  explicit MoeScratch(Scratch scratch)
      : panel(scratch.Take<float>(kPanel * kKBlock)),
        gate(scratch.Take<double>(kRowTile * kFeatureTile)),
        up(scratch.Take<double>(kRowTile * kFeatureTile)) {}
};

const ExpertWeights& WeightsOf(const MoeExpertsParams& p, int64_t expert) {
  return expert == static_cast<int64_t>(p.experts.size()) ? p.shared : p.experts[static_cast<size_t>(expert)];
}

}  // namespace

size_t MoeThreadBytes() {
  return PieceBytes<float>(kPanel * kKBlock) + 2 * PieceBytes<double>(kRowTile * kFeatureTile);
}

size_t MoeSharedBytes(int64_t rows, int64_t hidden, int64_t intermediate, int64_t num_experts, int64_t k) {
  const int64_t pairs = rows * (k + 1);
  return GroupingBytes(rows, num_experts, k) + PieceBytes<Bf16>(pairs * intermediate) +
         PieceBytes<Bf16>(pairs * hidden);
}

void CpuOps::MoeExperts(const OpContext& ctx, const MoeExpertsParams& p) const {
  const int64_t routed = p.rows * p.k, pairs = routed + p.rows;
  const int64_t inner_tiles = CeilDiv(p.intermediate, kFeatureTile),
                outer_tiles = CeilDiv(p.hidden, kFeatureTile);
  const int64_t pair_work = p.hidden * p.intermediate;
  Scratch shared(ctx.workspace);
  // 1. Rows by expert.
  const Grouping g = GroupByExpert(p, shared);
  Bf16* inner = shared.Take<Bf16>(pairs * p.intermediate);
  Bf16* outputs = shared.Take<Bf16>(pairs * p.hidden);
  // 2. w1 and w3 of 32 features, SwiGLU, quantisation.
  ForUnits(ctx, g.num_tiles * inner_tiles, pairs * pair_work * 2, shared.rest(), MoeThreadBytes(),
           [&](int64_t unit, Scratch memory) {
             const MoeScratch scratch(memory);
             const ExpertTile& tile = g.tiles[unit / inner_tiles];
             const ExpertWeights& weights = WeightsOf(p, tile.expert);
             const int64_t feature = unit % inner_tiles * kFeatureTile;
             ProductArgs product{.to_bf16 = true,
                                 .x = {p.x, p.hidden, g.pair_row + tile.begin},
                                 .rows = tile.count,
                                 .weight = weights.w1,
                                 .out_begin = feature,
                                 .out_count = kFeatureTile,
                                 .panel = scratch.panel,
                                 .sums = scratch.gate};
             kernels_.product(product);
             product.weight = weights.w3;
             product.sums = scratch.up;
             kernels_.product(product);
             kernels_.swiglu_tile({.gate = scratch.gate,
                                   .up = scratch.up,
                                   .rows = tile.count,
                                   .limit = p.swiglu_limit,
                                   .weights = g.weights + tile.begin,
                                   .out = inner + tile.begin * p.intermediate + feature,
                                   .out_stride = p.intermediate});
           });
  // 3. w2.
  ForUnits(ctx, g.num_tiles * outer_tiles, pairs * pair_work, shared.rest(), MoeThreadBytes(),
           [&](int64_t unit, Scratch memory) {
             const MoeScratch scratch(memory);
             const ExpertTile& tile = g.tiles[unit / outer_tiles];
             const int64_t feature = unit % outer_tiles * kFeatureTile;
             const int64_t count = std::min(kFeatureTile, p.hidden - feature);
             kernels_.product({.to_bf16 = true,
                               .x = {inner + tile.begin * p.intermediate, p.intermediate, nullptr},
                               .rows = tile.count,
                               .weight = WeightsOf(p, tile.expert).w2,
                               .out_begin = feature,
                               .out_count = count,
                               .panel = scratch.panel,
                               .sums = scratch.gate});
             kernels_.store_tile(scratch.gate, tile.count, count, outputs + tile.begin * p.hidden + feature,
                                 nullptr, p.hidden);
           });
  // 4. Sums in ascending expert order, one rounding.
  ForRows(ctx, p.rows, p.hidden * (p.k + 1), [&](int64_t begin, int64_t end) {
    constexpr int64_t kMaxParts = 64;
    const Bf16* parts[kMaxParts];
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t j = 0; j < p.k; ++j) parts[j] = outputs + g.row_pairs[t * p.k + j] * p.hidden;
      const Bf16* last = outputs + (routed + t) * p.hidden;
      kernels_.sum_rows(parts, p.k, last, p.hidden, p.y + t * p.hidden);
      if (p.shared_out != nullptr) std::copy_n(last, p.hidden, p.shared_out + t * p.hidden);
    }
  });
}

}  // namespace deepinfer::kernels
