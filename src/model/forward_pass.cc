#include "model/forward_pass.h"

#include <algorithm>
#include <cstring>

#include "model/engram_hash.h"

namespace deepinfer::model {

ForwardPass::ForwardPass(BackboneParts* parts, std::span<const Chunk> chunks, std::span<ChunkOutput> outputs,
                         bool taps, Observer* observer)
    : parts_(*parts),
      config_(parts->config),
      b_(parts->buffers),
      ctx_{parts->pool, parts->buffers.workspace.bytes()},
      ops_(*parts->ops),
      chunks_(chunks),
      outputs_(outputs),
      taps_(taps),
      observer_(observer),
      active_(chunks.size()),
      query_from_(chunks.size()),
      window_from_(chunks.size()),
      window_begin_(chunks.size()),
      staged_(chunks.size()),
      windows_(chunks.size()),
      tails_(chunks.size()),
      blocks_(chunks.size()),
      attention_(chunks.size()) {}

void ForwardPass::Run() {
  PrepareRows();
  EmbedRows();
  const int num_layers = config_.num_hidden_layers;
  bool complete = rows_ > 0;
  for (int layer = 0; layer < num_layers && complete; ++layer) complete = RunLayer(layer);
  if (complete) ComputeLogits();
}

// -----------------------------------------------------------------------------------------------------------------------
// Rows
// -----------------------------------------------------------------------------------------------------------------------

void ForwardPass::PrepareRows() {
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const Chunk& chunk = chunks_[c];
    Sequence& sequence = *chunk.sequence;
    const int32_t first = static_cast<int32_t>(sequence.length());
    const int32_t end = first + static_cast<int32_t>(chunk.ids.size());
    active_[c] = {rows_, first, end};
    ranges_.push_back(parts_.plan.Ranges(chunk.mode, chunk.prompt_length > 0 ? chunk.prompt_length : end,
                                         chunk.keep_tokens));
    blocks_[c] = sequence.Blocks();
    for (size_t i = 0; i < chunk.ids.size(); ++i) {
      const int64_t row = rows_ + static_cast<int64_t>(i);
      const bool image = !chunk.is_image.empty() && chunk.is_image[i] != 0;
      b_.ids[row] = chunk.ids[i];
      b_.positions[row] = first + static_cast<int32_t>(i);
      b_.seq[row] = static_cast<int32_t>(c);
      b_.is_image[row] = image;
      const bool mapped = config_.has_engram() && !image;
      sequence.compressed_ids_.push_back(mapped ? parts_.token_map[static_cast<size_t>(chunk.ids[i])]
                                                : kDeadToken);
    }
    rows_ += static_cast<int64_t>(chunk.ids.size());
  }
  for (int kind = 0; kind < 2; ++kind) {
    ops_.RopeTables(ctx_, {.rows = rows_,
                           .num_freqs = config_.qk_rope_head_dim / 2,
                           .positions = b_.positions.data(),
                           .freqs = parts_.freqs[kind].data(),
                           .cos = b_.cos[kind].data(),
                           .sin = b_.sin[kind].data()});
  }
}

void ForwardPass::EmbedRows() {
  // Given embeddings of several chunks lie in different places: one call a chunk.
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const ActiveChunk& a = active_[c];
    const bool images = !chunks_[c].is_image.empty();
    for (int64_t i = 0; images && i < a.rows(); ++i) {
      b_.given_row[a.begin + i] = b_.is_image[a.begin + i] != 0 ? static_cast<int32_t>(i) : -1;
    }
    ops_.Embed(ctx_, {.rows = a.rows(),
                      .hidden = config_.hidden_size,
                      .hc_mult = config_.hc_mult,
                      .ids = b_.ids.data() + a.begin,
                      .table = parts_.weights->embed,
                      .given_row = images ? b_.given_row.data() + a.begin : nullptr,
                      .given = chunks_[c].embeds.data(),
                      .streams = b_.streams.data() + a.begin * config_.hc_mult * config_.hidden_size});
  }
  // The first layer takes stream 0 alone (spec: model.md §6).
  for (int64_t t = 0; t < rows_; ++t) {
    for (int k = 0; k < config_.hc_mult; ++k) b_.pre_in[t * config_.hc_mult + k] = k == 0 ? 1.0f : 0.0f;
  }
}

namespace {

/// Moves rows [from, from + count) of width `width` to row `to` <= from.
template <typename T>
void MoveRows(T* data, int64_t width, int64_t from, int64_t to, int64_t count) {
  if (from != to)
    std::memmove(data + to * width, data + from * width, static_cast<size_t>(count * width) * sizeof(T));
}

}  // namespace

void ForwardPass::KeepRowsFrom(const std::vector<int32_t>& first) {
  const int64_t hidden = config_.hidden_size, n = config_.hc_mult, freqs = config_.qk_rope_head_dim / 2;
  int64_t to = 0;
  for (size_t c = 0; c < active_.size(); ++c) {
    ActiveChunk& a = active_[c];
    const int32_t keep_from = std::clamp(first[c], a.first, a.end);
    const int64_t from = a.begin + (keep_from - a.first), count = a.end - keep_from;
    MoveRows(b_.ids.data(), 1, from, to, count);
    MoveRows(b_.positions.data(), 1, from, to, count);
    MoveRows(b_.seq.data(), 1, from, to, count);
    MoveRows(b_.is_image.data(), 1, from, to, count);
    for (int kind = 0; kind < 2; ++kind) {
      MoveRows(b_.cos[kind].data(), freqs, from, to, count);
      MoveRows(b_.sin[kind].data(), freqs, from, to, count);
    }
    MoveRows(b_.streams.data(), n * hidden, from, to, count);
    MoveRows(b_.x.data(), hidden, from, to, count);
    MoveRows(b_.x_grid.data(), hidden, from, to, count);
    MoveRows(b_.topk.data(), config_.index_topk, from, to, count);
    MoveRows(b_.candidates.data(), std::max<int64_t>(config_.candidate_topk_blocks, 1), from, to, count);
    a = {to, keep_from, a.end};
    to += count;
  }
  rows_ = to;
}

// -----------------------------------------------------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------------------------------------------------

void ForwardPass::ApplyEngram(int layer) {
  const EngramLayerConstants& constants =
      parts_.engram.layers[static_cast<size_t>(parts_.plan.layers()[layer].engram)];
  const EngramWeights& weights = parts_.weights->layers[layer].engram;
  const int64_t columns = config_.engram_columns(), width = config_.engram_head_dim;
  const int64_t n = config_.hc_mult, hidden = config_.hidden_size;
  const int32_t pad = parts_.token_map[static_cast<size_t>(config_.engram_pad_token_id)];
  for (int64_t t = 0; t < rows_; ++t) {
    EngramRows(constants, config_.engram_n_heads, config_.engram_max_ngram_size,
               chunks_[b_.seq[t]].sequence->compressed_ids(), b_.positions[t], pad,
               b_.engram_row_ids.data() + t * columns);
  }
  Observe(layer, "engram.rows", b_.engram_row_ids.data(), {rows_, columns});
  ops_.EngramGather(ctx_, {.rows = rows_,
                           .columns = columns,
                           .width = width,
                           .table_rows = weights.table_rows,
                           .row_ids = b_.engram_row_ids.data(),
                           .codes = weights.codes,
                           .scales = weights.scales,
                           .out = b_.engram_rows.data()});
  FakeQuantize(b_.engram_rows.data(), columns * width, kernels::QuantScheme::kFp8Act, b_.engram_rows.data(),
               rows_);
  Linear(b_.engram_rows.data(), weights.wkv, b_.engram_kv.data(), rows_);
  Observe(layer, "engram.kv", b_.engram_kv.data(), {rows_, (n + 1) * hidden});
  ops_.EngramGate(ctx_, {.rows = rows_,
                         .hc_mult = n,
                         .hidden = hidden,
                         .norm_eps = static_cast<float>(config_.rms_norm_eps),
                         .kv = b_.engram_kv.data(),
                         .q_weight = weights.q_weight,
                         .k_weight = weights.k_weight,
                         .is_image = b_.is_image.data(),
                         .streams = b_.streams.data(),
                         .gate = b_.engram_gate.data()});
  Observe(layer, "engram.gate", b_.engram_gate.data(), {rows_, n});
  Observe(layer, "engram.output", b_.streams.data(), {rows_, n, hidden});
  parts_.counts.engram_rows += rows_;
}

void ForwardPass::TakeTap(int layer) {
  const int64_t hidden = config_.hidden_size;
  ops_.StreamMean(ctx_, {.rows = rows_,
                         .hc_mult = config_.hc_mult,
                         .hidden = hidden,
                         .streams = b_.streams.data(),
                         .y = b_.tap.data()});
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const Bf16* from = b_.tap.data() + active_[c].begin * hidden;
    outputs_[c].taps[static_cast<size_t>(parts_.plan.layers()[layer].tap)].assign(
        from, from + active_[c].rows() * hidden);
  }
}

bool ForwardPass::RunLayer(int layer) {
  const LayerPlan& plan = parts_.plan.layers()[layer];
  const LayerWeights& weights = parts_.weights->layers[layer];
  const int64_t hidden = config_.hidden_size, n = config_.hc_mult;
  if (plan.engram >= 0) ApplyEngram(layer);
  if (taps_ && plan.tap >= 0) TakeTap(layer);
  for (size_t c = 0; c < chunks_.size(); ++c) {
    query_from_[c] = ranges_[c].query_from[static_cast<size_t>(layer)];
    window_from_[c] = ranges_[c].window_from[static_cast<size_t>(layer)];
  }
  Observe(layer, "streams_in", b_.streams.data(), {rows_, n, hidden});
  Observe(layer, "hc.pre_in", b_.pre_in.data(), {rows_, n});

  Collapse(b_.pre_in.data(), b_.collapsed.data(), rows_);
  Observe(layer, "attn_collapsed", b_.collapsed.data(), {rows_, hidden});
  RmsNorm(b_.collapsed.data(), weights.attn_norm, hidden, b_.x.data(), rows_);
  Observe(layer, "attn.input", b_.x.data(), {rows_, hidden});
  FakeQuantize(b_.x.data(), hidden, kernels::QuantScheme::kFp8Act, b_.x_grid.data(), rows_);

  if (plan.mode == AttentionMode::kFull) ProduceEntries(layer);
  ProduceWindow(layer);
  KeepRowsFrom(query_from_);
  if (rows_ > 0) Attend(layer);
  CommitWindow(layer);
  if (rows_ == 0) return false;

  HcMixes(weights.hc_attn);
  Observe(layer, "hc.attn_pre", b_.pre.data(), {rows_, n});
  Observe(layer, "hc.attn_post", b_.post.data(), {rows_, n});
  Observe(layer, "hc.attn_comb", b_.comb.data(), {rows_, n, n});
  HcExpand();
  Observe(layer, "streams_mid", b_.streams.data(), {rows_, n, hidden});
  // The FFN's input is collapsed with the weights of the attention site (spec: model.md §7.2).
  Collapse(b_.pre.data(), b_.collapsed.data(), rows_);
  HcMixes(weights.hc_ffn);
  Observe(layer, "hc.ffn_pre", b_.pre.data(), {rows_, n});
  Observe(layer, "hc.ffn_post", b_.post.data(), {rows_, n});
  Observe(layer, "hc.ffn_comb", b_.comb.data(), {rows_, n, n});
  RunFfn(layer);
  HcExpand();
  Observe(layer, "streams_out", b_.streams.data(), {rows_, n, hidden});
  std::memcpy(b_.pre_in.data(), b_.pre.data(), static_cast<size_t>(rows_ * n) * sizeof(float));
  if (observer_ != nullptr) {
    Collapse(b_.pre_in.data(), b_.collapsed.data(), rows_);
    Observe(layer, "collapsed_out", b_.collapsed.data(), {rows_, hidden});
  }
  (layer < parts_.plan.decoder_start() ? parts_.counts.encoder_rows : parts_.counts.decoder_rows) += rows_;
  return true;
}

void ForwardPass::RunFfn(int layer) {
  const LayerWeights& w = parts_.weights->layers[layer];
  const int64_t hidden = config_.hidden_size, experts = config_.n_routed_experts,
                k = config_.num_experts_per_tok;
  RmsNorm(b_.collapsed.data(), w.ffn_norm, hidden, b_.x.data(), rows_);
  Observe(layer, "ffn.input", b_.x.data(), {rows_, hidden});
  ops_.MoeRoute(ctx_, {.rows = rows_,
                       .hidden = hidden,
                       .num_experts = experts,
                       .k = k,
                       .gate_temp = static_cast<float>(config_.gate_temp),
                       .route_scale = static_cast<float>(config_.routed_scaling_factor),
                       .normalize = config_.norm_topk_prob && k > 1,
                       .x = b_.x.data(),
                       .gate = w.gate,
                       .bias = w.gate_bias,
                       .bias_vl = w.gate_bias_vl,
                       .is_image = b_.is_image.data(),
                       .scores = b_.route_scores.data(),
                       .topk_ids = b_.topk_ids.data(),
                       .topk_weights = b_.topk_weights.data()});
  Observe(layer, "ffn.gate.scores", b_.route_scores.data(), {rows_, experts});
  Observe(layer, "ffn.gate.selected", b_.topk_ids.data(), {rows_, k});
  Observe(layer, "ffn.gate.weights", b_.topk_weights.data(), {rows_, k});
  FakeQuantize(b_.x.data(), hidden, kernels::QuantScheme::kFp8Act, b_.x_grid.data(), rows_);
  ops_.MoeExperts(ctx_, {.rows = rows_,
                         .hidden = hidden,
                         .intermediate = config_.moe_intermediate_size,
                         .k = k,
                         .swiglu_limit = static_cast<float>(config_.swiglu_limit),
                         .x = b_.x_grid.data(),
                         .topk_ids = b_.topk_ids.data(),
                         .topk_weights = b_.topk_weights.data(),
                         .experts = w.experts,
                         .shared = w.shared,
                         .shared_out = observer_ != nullptr ? b_.shared.data() : nullptr,
                         .y = b_.y.data()});
  Observe(layer, "ffn.shared", b_.shared.data(), {rows_, hidden});
  Observe(layer, "ffn.output", b_.y.data(), {rows_, hidden});
}

void ForwardPass::ComputeLogits() {
  const int64_t hidden = config_.hidden_size, vocab = config_.vocab_size;
  Collapse(b_.pre_in.data(), b_.collapsed.data(), rows_);
  if (observer_ != nullptr) {
    const int64_t shape[] = {rows_, hidden};
    observer_->OnBf16("final_hidden", {b_.collapsed.data(), static_cast<size_t>(rows_ * hidden)}, shape);
  }
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const ActiveChunk& a = active_[c];
    if (chunks_[c].logits == LogitsWanted::kNone || a.rows() == 0) continue;
    const int64_t count = chunks_[c].logits == LogitsWanted::kAll ? a.rows() : 1;
    const Bf16* hidden_rows = b_.collapsed.data() + (a.begin + a.rows() - count) * hidden;
    RmsNorm(hidden_rows, parts_.weights->norm, hidden, b_.x.data(), count);
    outputs_[c].rows = count;
    outputs_[c].logits.resize(static_cast<size_t>(count * vocab));
    ops_.Linear(ctx_, {.rows = count,
                       .x = b_.x.data(),
                       .weight = parts_.weights->head,
                       .y_f32 = outputs_[c].logits.data()});
    parts_.counts.logits_rows += count;
  }
}

// -----------------------------------------------------------------------------------------------------------------------
// Wrappers
// -----------------------------------------------------------------------------------------------------------------------

void ForwardPass::HcMixes(const HcWeights& weights) {
  ops_.HcMixes(ctx_, {.rows = rows_,
                      .hc_mult = config_.hc_mult,
                      .hidden = config_.hidden_size,
                      .sinkhorn_iters = config_.hc_sinkhorn_iters,
                      .hc_eps = static_cast<float>(config_.hc_eps),
                      .norm_eps = static_cast<float>(config_.rms_norm_eps),
                      .streams = b_.streams.data(),
                      .fn = weights.fn,
                      .scale = weights.scale,
                      .base = weights.base,
                      .pre = b_.pre.data(),
                      .post = b_.post.data(),
                      .comb = b_.comb.data()});
}

void ForwardPass::HcExpand() {
  ops_.HcExpand(ctx_, {.rows = rows_,
                       .hc_mult = config_.hc_mult,
                       .hidden = config_.hidden_size,
                       .y = b_.y.data(),
                       .streams = b_.streams.data(),
                       .post = b_.post.data(),
                       .comb = b_.comb.data(),
                       .out = b_.streams.data()});
}

void ForwardPass::Collapse(const float* pre, Bf16* out, int64_t rows) {
  ops_.HcCollapse(ctx_, {.rows = rows,
                         .hc_mult = config_.hc_mult,
                         .hidden = config_.hidden_size,
                         .streams = b_.streams.data(),
                         .pre = pre,
                         .y = out});
}

void ForwardPass::Linear(const Bf16* x, const kernels::WeightView& weight, Bf16* y, int64_t rows,
                         int64_t groups) {
  ops_.Linear(ctx_, {.rows = rows, .groups = groups, .x = x, .weight = weight, .y = y});
}

void ForwardPass::LinearF32(const Bf16* x, const kernels::WeightView& weight, float* y, int64_t rows) {
  ops_.Linear(ctx_, {.rows = rows, .x = x, .weight = weight, .y_f32 = y, .correctly_rounded = true});
}

void ForwardPass::RmsNorm(const Bf16* x, const Bf16* weight, int64_t dim, Bf16* y, int64_t rows) {
  ops_.RmsNorm(ctx_, {.rows = rows,
                      .dim = dim,
                      .x = x,
                      .weight = weight,
                      .eps = static_cast<float>(config_.rms_norm_eps),
                      .y = y});
}

void ForwardPass::FakeQuantize(const Bf16* x, int64_t dim, kernels::QuantScheme scheme, Bf16* y,
                               int64_t rows) {
  ops_.FakeQuantize(ctx_, {.rows = rows, .dim = dim, .scheme = scheme, .x = x, .y = y});
}

void ForwardPass::Rope(Bf16* x, int64_t heads, int64_t dim, const float* cos, const float* sin, int64_t rows,
                       bool inverse) {
  ops_.Rope(ctx_, {.rows = rows,
                   .heads = heads,
                   .dim = dim,
                   .num_freqs = config_.qk_rope_head_dim / 2,
                   .cos = cos,
                   .sin = sin,
                   .inverse = inverse,
                   .x = x});
}

namespace {

std::string LayerName(int layer, const char* name) { return "layers." + std::to_string(layer) + "." + name; }

size_t Elements(std::initializer_list<int64_t> shape) {
  int64_t count = 1;
  for (int64_t dim : shape) count *= dim;
  return static_cast<size_t>(count);
}

}  // namespace

void ForwardPass::Observe(int layer, const char* name, Bf16* data, std::initializer_list<int64_t> shape) {
  if (observer_ != nullptr)
    observer_->OnBf16(LayerName(layer, name), {data, Elements(shape)}, {shape.begin(), shape.size()});
}
void ForwardPass::Observe(int layer, const char* name, float* data, std::initializer_list<int64_t> shape) {
  if (observer_ != nullptr)
    observer_->OnFloat(LayerName(layer, name), {data, Elements(shape)}, {shape.begin(), shape.size()});
}
void ForwardPass::Observe(int layer, const char* name, int32_t* data, std::initializer_list<int64_t> shape) {
  if (observer_ != nullptr)
    observer_->OnInt32(LayerName(layer, name), {data, Elements(shape)}, {shape.begin(), shape.size()});
}
void ForwardPass::Observe(int layer, const char* name, int64_t* data, std::initializer_list<int64_t> shape) {
  if (observer_ != nullptr)
    observer_->OnInt64(LayerName(layer, name), {data, Elements(shape)}, {shape.begin(), shape.size()});
}

}  // namespace deepinfer::model
