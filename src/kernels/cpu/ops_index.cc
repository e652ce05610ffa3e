// Index scores: keys are decoded 32 at a time and serve all heads of neighbouring rows of their sequence.
#include <cmath>
#include <cstring>

#include "kernels/cpu/back_end.h"
#include "tensor/quantize.h"

namespace deepinfer::kernels {
namespace {

constexpr int64_t kColumnsPerUnit = 512;

int64_t RowsPerUnit(int64_t heads) { return std::max<int64_t>(kRowTile / heads, 1); }

/// The entry that a score column stands for, -1 for none.
int64_t EntryOfColumn(const IndexerScoresParams& p, int64_t row, int64_t column) {
  if (p.candidates == nullptr) return column;
  const int64_t block = p.candidates[row * p.max_candidates + column / p.candidate_block];
  return block < 0 ? -1 : block * p.candidate_block + column % p.candidate_block;
}

KeySlot IndexKey(const IndexerScoresParams& p, int64_t seq, int64_t entry) {
  const auto* block = reinterpret_cast<const uint8_t*>(
      p.sequences[static_cast<size_t>(seq)].blocks[entry / p.layout.entries_per_block]);
  const int64_t row = entry % p.layout.entries_per_block;
  return {block + p.layout.codes_offset + row * (p.dim / 2),
          block + p.layout.scales_offset + row * (p.dim / kQuantGroup), KeySlot::kFp4Index};
}

struct IndexScratch {
  float* tile;   // [kEntryTile, stride]
  double* dots;  // [rows * heads, kEntryTile]
  IndexScratch(Scratch scratch, int64_t heads, int64_t stride)
      : tile(scratch.Take<float>(kEntryTile * stride)),
        dots(scratch.Take<double>(std::max(kRowTile, heads) * kEntryTile)) {}
};

/// Rows [begin, end) of one sequence (one row with candidates) against columns [column, column + count).
void ScoreTile(const KernelTable& kernels, const IndexerScoresParams& p, const IndexScratch& scratch,
               int64_t begin, int64_t end, int64_t column, int64_t count) {
  const int64_t stride = RoundUp(p.dim, kTileAlign);
  const int64_t max_visible = *std::max_element(p.visible + begin, p.visible + end);
  // 1. The keys of the tile.
  KeySlot slots[kEntryTile];
  int64_t entries[kEntryTile];
  bool any = false;
  for (int64_t c = 0; c < count; ++c) {
    entries[c] = EntryOfColumn(p, begin, column + c);
    if (entries[c] < 0 || entries[c] >= max_visible) continue;
    slots[c] = IndexKey(p, p.seq[begin], entries[c]);
    any = true;
  }
  const int64_t heads_in_tile = (end - begin) * p.heads;
  if (any) {
    kernels.decode_keys(slots, kEntryTile, p.dim, scratch.tile, stride);
    // 2. Dots of every head of every row.
    std::memset(scratch.dots, 0, static_cast<size_t>(heads_in_tile * kEntryTile) * sizeof(double));
    kernels.tile_dot({.x = {p.q + begin * p.heads * p.dim, p.dim, nullptr},
                      .rows = heads_in_tile,
                      .tile = scratch.tile,
                      .tile_stride = stride,
                      .columns = kEntryTile,
                      .k = p.dim,
                      .sums = scratch.dots,
                      .sums_stride = kEntryTile});
  }
  // 3. Weighted sums over the heads; what is not visible is -inf.
  for (int64_t t = begin; t < end; ++t) {
    float scores[kEntryTile];
    if (any) {
      kernels.score_tile({.dots = scratch.dots + (t - begin) * p.heads * kEntryTile,
                          .w = p.w + t * p.heads,
                          .heads = p.heads,
                          .rounding = p.rounding,
                          .scores = scores});
    }
    for (int64_t c = 0; c < count; ++c) {
      const bool visible = entries[c] >= 0 && entries[c] < p.visible[t];
      p.scores[t * p.row_stride + column + c] = visible ? scores[c] : -HUGE_VALF;
    }
  }
}

}  // namespace

size_t IndexThreadBytes(int64_t heads, int64_t dim) {
  return PieceBytes<float>(kEntryTile * RoundUp(dim, kTileAlign)) +
         PieceBytes<double>(std::max(kRowTile, heads) * kEntryTile);
}

void CpuOps::IndexerScores(const OpContext& ctx, const IndexerScoresParams& p) const {
  const int64_t unit_rows = RowsPerUnit(p.heads);
  const int64_t row_units = CeilDiv(p.rows, unit_rows), column_units = CeilDiv(p.columns, kColumnsPerUnit);
  ForUnits(ctx, row_units * column_units, p.rows * p.columns * p.heads * p.dim, ctx.workspace,
           IndexThreadBytes(p.heads, p.dim), [&](int64_t unit, Scratch memory) {
             const IndexScratch scratch(memory, p.heads, RoundUp(p.dim, kTileAlign));
             const int64_t first_column = unit / row_units * kColumnsPerUnit;
             const int64_t end_column = std::min(p.columns, first_column + kColumnsPerUnit);
             const int64_t end_row = std::min(p.rows, (unit % row_units + 1) * unit_rows);
             for (int64_t begin = unit % row_units * unit_rows; begin < end_row;) {
               // Rows that share their keys: a run of one sequence, or a single row when each has its own candidates.
               int64_t end = begin + 1;
               while (p.candidates == nullptr && end < end_row && p.seq[end] == p.seq[begin]) ++end;
               for (int64_t c = first_column; c < end_column; c += kEntryTile) {
                 ScoreTile(kernels_, p, scratch, begin, end, c, std::min(kEntryTile, end_column - c));
               }
               begin = end;
             }
           });
}

}  // namespace deepinfer::kernels
