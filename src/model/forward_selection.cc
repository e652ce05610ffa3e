// The indexer of a pass: scores, candidate pool, top-k lists (spec: model.md §8.6, §8.7).
#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "model/forward_pass.h"

namespace deepinfer::model {

void ForwardPass::SelectEntries(int layer) {
  const LayerPlan& plan = parts_.plan.layers()[layer];
  const IndexerWeights& w = parts_.weights->layers[layer].attn.indexer;
  const int64_t heads = config_.index_n_heads, di = config_.index_head_dim;
  parts_.counts.indexer_rows += rows_;
  for (int64_t t = 0; t < rows_; ++t) b_.visible[t] = (b_.positions[t] + 1) / plan.ratio;

  Linear(b_.q_latent_grid.data(), w.wq_b, b_.index_q.data(), rows_);
  Rope(b_.index_q.data(), heads, di, b_.cos[1].data(), b_.sin[1].data(), rows_, false);
  FakeQuantize(b_.index_q.data(), heads * di, kernels::QuantScheme::kFp4Index, b_.index_q.data(), rows_);
  Linear(b_.x.data(), w.weights_proj, b_.head_weights.data(), rows_);
  const double factor = std::pow(static_cast<double>(di), -0.5) * std::pow(static_cast<double>(heads), -0.5);
  ops_.Scale(ctx_, {.count = rows_ * heads, .factor = factor, .x = b_.head_weights.data()});
  Observe(layer, "attn.indexer.queries", b_.index_q.data(), {rows_, heads, di});
  Observe(layer, "attn.indexer.head_weights", b_.head_weights.data(), {rows_, heads});

  for (size_t c = 0; c < chunks_.size(); ++c) SelectChunk(layer, c);
  if (plan.candidate_source) {
    Observe(layer, "attn.indexer.candidates", b_.candidates.data(), {rows_, config_.candidate_topk_blocks});
  }
  Observe(layer, "attn.indexer.topk", b_.topk.data(), {rows_, config_.index_topk});
}

void ForwardPass::SelectChunk(int layer, size_t chunk) {
  const LayerPlan& plan = parts_.plan.layers()[layer];
  const ActiveChunk& a = active_[chunk];
  int64_t row = a.begin;
  const int64_t end = a.begin + a.rows();
  // Rows that see no more than index_topk entries take them all, whatever the scores (spec: model.md §14.14). An observer wants the
  // scores of every row.
  if (observer_ == nullptr) {
    int64_t scored = row;
    while (scored < end && ScoreColumns(config_, plan.uses_candidates, b_.visible[scored]) == 0) ++scored;
    ListAllVisible(row, scored - row, plan.candidate_source);
    row = scored;
  }
  while (row < end) {
    // The chunk's last row has the most columns: no tile of this many rows can overflow the score buffer. An observer is shown the
    // scores of all entries.
    const int64_t shown = observer_ != nullptr ? chunks_[chunk].sequence->EntryCount(plan.source) : 0;
    const int64_t widest = std::max<int64_t>({ScoreTileColumns(layer, end - 1), shown, 1});
    const int64_t rows = std::min(end - row, std::max<int64_t>(b_.score_floats / widest, 1));
    ScoreAndSelect(layer, row, rows);
    row += rows;
  }
}

int64_t ForwardPass::ScoreTileColumns(int layer, int64_t last_row) const {
  const int64_t visible = b_.visible[last_row];
  if (!parts_.plan.layers()[layer].uses_candidates) return visible;
  const int64_t block = config_.candidate_block_size;
  return std::min(CeilDiv(visible, block), config_.candidate_topk_blocks) * block;
}

void ForwardPass::ListAllVisible(int64_t row, int64_t rows, bool candidates) {
  for (int64_t t = row; t < row + rows; ++t) {
    const int64_t k = config_.index_topk, visible = b_.visible[t];
    for (int64_t i = 0; i < k; ++i) b_.topk[t * k + i] = i < visible ? static_cast<int32_t>(i) : -1;
    if (!candidates) continue;
    const int64_t max = config_.candidate_topk_blocks,
                  blocks = CeilDiv(visible, config_.candidate_block_size);
    for (int64_t i = 0; i < max; ++i) b_.candidates[t * max + i] = i < blocks ? static_cast<int32_t>(i) : -1;
  }
}

void ForwardPass::ScoreAndSelect(int layer, int64_t row, int64_t rows) {
  const LayerPlan& plan = parts_.plan.layers()[layer];
  const int64_t heads = config_.index_n_heads, di = config_.index_head_dim,
                max = config_.candidate_topk_blocks;
  const int32_t* candidates = plan.uses_candidates ? b_.candidates.data() + row * max : nullptr;
  kernels::IndexerScoresParams scores{
      .rows = rows,
      .heads = heads,
      .dim = di,
      .q = b_.index_q.data() + row * heads * di,
      .w = b_.head_weights.data() + row * heads,
      .seq = b_.seq.data() + row,
      .visible = b_.visible.data() + row,
      .layout = parts_.layout->sources[static_cast<size_t>(plan.source)].index,
      .sequences = blocks_,
      .max_candidates = max,
      .candidate_block = config_.candidate_block_size,
      .rounding = parts_.score_rounding,
      .scores = b_.scores.data()};
  if (observer_ != nullptr) {
    // Scores of all entries, before the candidate pool.
    scores.columns = scores.row_stride =
        chunks_[static_cast<size_t>(b_.seq[row])].sequence->EntryCount(plan.source);
    ops_.IndexerScores(ctx_, scores);
    if (scores.columns > 0) Observe(layer, "attn.indexer.scores", b_.scores.data(), {rows, scores.columns});
  }
  if (observer_ == nullptr || plan.uses_candidates) {
    scores.candidates = candidates;
    scores.columns = scores.row_stride = ScoreTileColumns(layer, row + rows - 1);
    ops_.IndexerScores(ctx_, scores);
  }
  if (plan.candidate_source) {
    ops_.SelectCandidates(ctx_, {.rows = rows,
                                 .columns = scores.columns,
                                 .row_stride = scores.row_stride,
                                 .max_candidates = max,
                                 .candidate_block = config_.candidate_block_size,
                                 .scores = b_.scores.data(),
                                 .visible = b_.visible.data() + row,
                                 .candidates = b_.candidates.data() + row * max});
  }
  ops_.SelectTopK(ctx_, {.rows = rows,
                         .columns = scores.columns,
                         .row_stride = scores.row_stride,
                         .k = config_.index_topk,
                         .scores = b_.scores.data(),
                         .visible = b_.visible.data() + row,
                         .candidates = candidates,
                         .max_candidates = max,
                         .candidate_block = config_.candidate_block_size,
                         .topk = b_.topk.data() + row * config_.index_topk});
  for (int64_t t = row; t < row + rows; ++t) {
    parts_.counts.score_columns += ScoreColumns(config_, plan.uses_candidates, b_.visible[t]);
  }
}

}  // namespace deepinfer::model
