#include "model/operation_count.h"

#include <algorithm>

#include "base/checked.h"

namespace deepinfer::model {
namespace {

/// Entries of the candidate pool that a row with `visible` entries can reach: whole blocks, but for the newest one.
int64_t PoolEntries(const ModelConfig& config, int64_t visible) {
  const int64_t block = config.candidate_block_size;
  const int64_t blocks = CeilDiv(visible, block);
  if (blocks <= config.candidate_topk_blocks) return visible;
  return (config.candidate_topk_blocks - 1) * block + (visible - (blocks - 1) * block);
}

void CountLayer(const ModelConfig& config, const LayerPlan& layer, int64_t window_from, int64_t query_from,
                int64_t length, OperationCounts* counts) {
  counts->window_rows += length - window_from;
  for (int64_t p = query_from; p < length; ++p) {
    counts->attention_slots += std::min(p - window_from + 1, config.sliding_window);
    if (layer.ratio == 0) continue;
    const int64_t visible = (p + 1) / layer.ratio;
    counts->attention_slots += std::min(visible, config.index_topk);
    if (layer.mode == AttentionMode::kFull || layer.mode == AttentionMode::kReindex) {
      counts->score_columns += ScoreColumns(config, layer.uses_candidates, visible);
    }
  }
}

}  // namespace

int64_t ScoreColumns(const ModelConfig& config, bool uses_candidates, int64_t visible) {
  if (visible <= config.index_topk) return 0;
  return uses_candidates ? PoolEntries(config, visible) : visible;
}

OperationCounts CountPrefill(const ModelConfig& config, PrefillMode mode, int64_t prompt_length,
                             int64_t keep_tokens) {
  const ModelPlan plan = ModelPlan::Make(config);
  const PrefillRanges ranges = plan.Ranges(mode, prompt_length, keep_tokens);
  OperationCounts counts;
  int64_t rows_in = prompt_length;  // rows that reach the layer
  for (size_t l = 0; l < plan.layers().size(); ++l) {
    const LayerPlan& layer = plan.layers()[l];
    const int64_t queries = prompt_length - ranges.query_from[l];
    (static_cast<int>(l) < plan.decoder_start() ? counts.encoder_rows : counts.decoder_rows) += queries;
    if (layer.engram >= 0) counts.engram_rows += rows_in;
    if (layer.mode == AttentionMode::kFull) {
      counts.source_rows += rows_in;
      if (layer.ratio > 1) counts.gated_rows += rows_in;
      counts.entries += prompt_length / layer.ratio;
    }
    if (layer.mode == AttentionMode::kFull || layer.mode == AttentionMode::kReindex)
      counts.indexer_rows += queries;
    CountLayer(config, layer, ranges.window_from[l], ranges.query_from[l], prompt_length, &counts);
    rows_in = queries;
  }
  counts.logits_rows = 1;
  return counts;
}

double MultiplyAdds(const ModelConfig& c, const OperationCounts& counts) {
  const auto f = [](auto v) { return static_cast<double>(v); };
  const double hidden = f(c.hidden_size), heads = f(c.num_attention_heads), head_dim = f(c.head_dim);
  const double experts = f(c.num_experts_per_tok + c.n_shared_experts);
  const double hc_rows = f(c.hc_mult) * f(c.hc_mult + 2);
  const double per_row = hidden * f(c.q_lora_rank) + f(c.q_lora_rank) * heads * head_dim +  // wq_a, wq_b
                         heads * head_dim * f(c.o_lora_rank) +        // wo_a, block-diagonal
                         f(c.o_groups) * f(c.o_lora_rank) * hidden +  // wo_b
                         experts * 3 * hidden * f(c.moe_intermediate_size) + hidden * f(c.n_routed_experts) +
                         2 * hc_rows * f(c.hc_mult) * hidden;  // both mHC sites
  const double per_indexer_row =
      f(c.q_lora_rank) * f(c.index_n_heads) * f(c.index_head_dim) + hidden * f(c.index_n_heads);
  const double engram = f(c.engram_columns()) * f(c.engram_head_dim) * hidden * f(c.hc_mult + 1);
  return f(counts.encoder_rows + counts.decoder_rows) * per_row + f(counts.window_rows) * hidden * head_dim +
         f(counts.source_rows + counts.gated_rows) * hidden * head_dim +
         f(counts.entries) * head_dim * f(c.index_head_dim) + f(counts.indexer_rows) * per_indexer_row +
         f(counts.score_columns) * f(c.index_n_heads) * f(c.index_head_dim) +
         f(counts.attention_slots) * heads * head_dim * 2 + f(counts.engram_rows) * engram +
         f(counts.logits_rows) * hidden * f(c.vocab_size);
}

}  // namespace deepinfer::model
