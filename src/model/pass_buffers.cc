#include "model/pass_buffers.h"

#include <algorithm>

#include "tensor/quantize.h"

namespace deepinfer::model {
namespace {

kernels::WorkspaceLimits Limits(const ModelConfig& c, int64_t max_rows, int64_t max_entries) {
  kernels::WorkspaceLimits limits;
  limits.max_rows = max_rows;
  limits.hidden_size = c.hidden_size;
  limits.hc_mult = c.hc_mult;
  const int64_t attention_width = c.num_attention_heads * c.head_dim;
  const int64_t low_rank = c.o_groups * c.o_lora_rank;
  limits.max_in_features = std::max({c.hidden_size * c.hc_mult, attention_width, low_rank, c.q_lora_rank,
                                     c.moe_intermediate_size, c.engram_columns() * c.engram_head_dim});
  limits.max_out_features =
      std::max({c.vocab_size, attention_width, low_rank, c.hidden_size * (c.hc_mult + 1),
                c.moe_intermediate_size, int64_t{c.index_n_heads} * c.index_head_dim});
  limits.moe_intermediate_size = c.moe_intermediate_size;
  limits.num_experts = c.n_routed_experts;
  limits.experts_per_token = c.num_experts_per_tok;
  limits.num_heads = c.num_attention_heads;
  limits.head_dim = c.head_dim;
  limits.max_list = c.sliding_window + c.index_topk;
  limits.index_heads = c.index_n_heads;
  limits.index_head_dim = c.index_head_dim;
  limits.max_entries = max_entries;
  return limits;
}

}  // namespace

Status PassBuffers::Allocate(const ModelConfig& c, int64_t max_rows, const kernels::Ops& ops) {
  const int64_t t = max_rows, d = c.head_dim, hidden = c.hidden_size, n = c.hc_mult,
                freqs = c.qk_rope_head_dim / 2;
  // A decoder row can see as many entries as there are positions.
  score_floats = std::max(kScoreTileFloats, c.max_position_embeddings);
  Status status;
  const auto take = [&status](auto& array, int64_t count) {
    if (status.ok()) status = array.Allocate(count);
  };
  for (Array<int32_t>* array : {&ids, &positions, &seq, &given_row, &entry_seq, &entry_index, &entry_position,
                                &visible, &tail_seq, &tail_position}) {
    take(*array, t);
  }
  take(is_image, t);
  for (int kind = 0; kind < 2; ++kind) {
    take(cos[kind], t * freqs);
    take(sin[kind], t * freqs);
  }
  take(streams, t * n * hidden);
  for (Array<float>* array : {&pre_in, &pre, &post, &engram_gate}) take(*array, t * n);
  take(comb, t * n * n);
  for (Array<Bf16>* array : {&collapsed, &x, &x_grid, &y, &tap, &shared}) take(*array, t * hidden);
  take(qr, t * c.q_lora_rank);
  take(q_latent_grid, t * c.q_lora_rank);
  take(q, t * c.num_attention_heads * d);
  take(heads, t * c.num_attention_heads * d);
  take(low_rank, t * c.o_groups * c.o_lora_rank);
  for (Array<Bf16>* array : {&kv, &latent, &entry_rows}) take(*array, t * d);
  take(window_codes, t * d);
  take(window_scales, t * d / kQuantGroup);
  take(content, t * d);
  take(gate, t * d);
  take(index_keys, t * c.index_head_dim);
  take(entry_cos, t * freqs);
  take(entry_sin, t * freqs);
  take(index_q, t * c.index_n_heads * c.index_head_dim);
  take(head_weights, t * c.index_n_heads);
  take(scores, score_floats);
  take(topk, t * c.index_topk);
  take(candidates, t * std::max<int64_t>(c.candidate_topk_blocks, 1));
  take(route_scores, t * c.n_routed_experts);
  take(topk_weights, t * c.num_experts_per_tok);
  take(topk_ids, t * c.num_experts_per_tok);
  if (c.has_engram()) {
    take(engram_row_ids, t * c.engram_columns());
    take(engram_rows, t * c.engram_columns() * c.engram_head_dim);
    take(engram_kv, t * (n + 1) * hidden);
  }
  DEEPINFER_RETURN_IF_ERROR(std::move(status));
  DEEPINFER_ASSIGN_OR_RETURN(
      workspace, AlignedBuffer::Allocate(ops.WorkspaceBytes(Limits(c, max_rows, c.max_position_embeddings))));
  return OkStatus();
}

}  // namespace deepinfer::model
