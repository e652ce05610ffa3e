// The attention part of a pass: compressed entries, window KV, sparse attention (spec: model.md §8).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/forward_pass.h"
#include "tensor/quantize.h"

namespace deepinfer::model {

// -----------------------------------------------------------------------------------------------------------------------
// Compressed entries of a Full layer (spec: model.md §8.3, §8.4)
// -----------------------------------------------------------------------------------------------------------------------

int64_t ForwardPass::ListGroups(int64_t ratio) {
  int64_t count = 0;
  for (size_t c = 0; c < chunks_.size(); ++c) {
    // Groups of an adopted prefix are never written again (spec: model.md §12.4).
    const int64_t begin = std::max(chunks_[c].sequence->write_floor_, int64_t{active_[c].first}) / ratio;
    for (int64_t group = begin; group < active_[c].end / ratio; ++group, ++count) {
      b_.entry_seq[count] = static_cast<int32_t>(c);
      b_.entry_index[count] = static_cast<int32_t>(group);
      b_.entry_position[count] = static_cast<int32_t>(group * ratio);
    }
  }
  return count;
}

void ForwardPass::ProduceEntries(int layer) {
  const LayerPlan& plan = parts_.plan.layers()[layer];
  const StateLayout::Source& source = parts_.layout->sources[static_cast<size_t>(plan.source)];
  const IndexerWeights& indexer = parts_.weights->layers[layer].attn.indexer;
  const int64_t groups = ListGroups(plan.ratio);
  parts_.counts.source_rows += rows_;
  if (plan.ratio > 1) parts_.counts.gated_rows += rows_;
  parts_.counts.entries += groups;
  if (plan.ratio == 1) {
    MakeLatents(layer, groups);
  } else {
    PoolLatents(layer, groups);
  }
  if (groups == 0) return;
  Observe(layer, "attn.compressor.latent", b_.latent.data(), {groups, config_.head_dim});
  ops_.RopeTables(ctx_, {.rows = groups,
                         .num_freqs = config_.qk_rope_head_dim / 2,
                         .positions = b_.entry_position.data(),
                         .freqs = parts_.freqs[1].data(),
                         .cos = b_.entry_cos.data(),
                         .sin = b_.entry_sin.data()});

  // Index keys come from the latent before it is rotated.
  Linear(b_.latent.data(), indexer.wk, b_.index_keys.data(), groups);
  RmsNorm(b_.index_keys.data(), indexer.k_norm, config_.index_head_dim, b_.index_keys.data(), groups);
  Rope(b_.index_keys.data(), 1, config_.index_head_dim, b_.entry_cos.data(), b_.entry_sin.data(), groups,
       false);
  ops_.WriteEntries(ctx_, {.rows = groups,
                           .x = b_.index_keys.data(),
                           .seq = b_.entry_seq.data(),
                           .entries = b_.entry_index.data(),
                           .layout = source.index,
                           .sequences = blocks_});

  std::memcpy(b_.entry_rows.data(), b_.latent.data(),
              static_cast<size_t>(groups * config_.head_dim) * sizeof(Bf16));
  Rope(b_.entry_rows.data(), 1, config_.head_dim, b_.entry_cos.data(), b_.entry_sin.data(), groups, false);
  ops_.WriteEntries(ctx_, {.rows = groups,
                           .x = b_.entry_rows.data(),
                           .seq = b_.entry_seq.data(),
                           .entries = b_.entry_index.data(),
                           .layout = source.main,
                           .sequences = blocks_});
  if (observer_ != nullptr) ObserveEntries(layer, groups);
}

/// Ratio 1: one latent for each row that makes an entry.
void ForwardPass::MakeLatents(int layer, int64_t groups) {
  const CompressorWeights& weights = parts_.weights->layers[layer].attn.compressor;
  int64_t to = 0;
  while (to < groups) {
    // A run of entries whose rows stand together.
    const auto row_of = [&](int64_t i) {
      const ActiveChunk& a = active_[static_cast<size_t>(b_.entry_seq[i])];
      return a.begin + (b_.entry_index[i] - a.first);
    };
    const int64_t from = row_of(to);
    int64_t count = 1;
    while (to + count < groups && row_of(to + count) == from + count) ++count;
    Linear(b_.x.data() + from * config_.hidden_size, weights.wkv, b_.latent.data() + to * config_.head_dim,
           count);
    to += count;
  }
  RmsNorm(b_.latent.data(), weights.norm, config_.head_dim, b_.latent.data(), groups);
}

/// Ratio r > 1: gated pooling of r tokens, which may lie in earlier chunks.
void ForwardPass::PoolLatents(int layer, int64_t groups) {
  const int source = parts_.plan.layers()[layer].source;
  const CompressorWeights& weights = parts_.weights->layers[layer].attn.compressor;
  const int64_t d = config_.head_dim;
  LinearF32(b_.x.data(), weights.wkv, b_.content.data(), rows_);
  LinearF32(b_.x.data(), weights.wgate, b_.gate.data(), rows_);
  for (size_t c = 0; c < chunks_.size(); ++c) {
    tails_[c] = chunks_[c].sequence->TailRing(source);
    tails_[c].chunk_begin = active_[c].first;
    tails_[c].chunk_content = b_.content.data() + active_[c].begin * d;
    tails_[c].chunk_gate = b_.gate.data() + active_[c].begin * d;
  }
  ops_.CompressorPool(ctx_, {.groups = groups,
                             .dim = d,
                             .ratio = parts_.plan.layers()[layer].ratio,
                             .seq = b_.entry_seq.data(),
                             .entries = b_.entry_index.data(),
                             .sequences = tails_,
                             .latent = b_.latent.data()});
  RmsNorm(b_.latent.data(), weights.norm, d, b_.latent.data(), groups);
  CommitTails();
}

void ForwardPass::CommitTails() {
  int64_t count = 0;
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const ActiveChunk& a = active_[c];
    const int32_t begin = std::max(a.first, a.end - static_cast<int32_t>(tails_[c].capacity));
    for (int32_t p = begin; p < a.end; ++p, ++count) {
      b_.tail_seq[count] = static_cast<int32_t>(c);
      b_.tail_position[count] = p;
    }
  }
  ops_.CommitTail(ctx_, {.rows = count,
                         .dim = config_.head_dim,
                         .seq = b_.tail_seq.data(),
                         .positions = b_.tail_position.data(),
                         .sequences = tails_});
}

void ForwardPass::ObserveEntries(int layer, int64_t groups) {
  const int64_t d = config_.head_dim, di = config_.index_head_dim;
  std::vector<Bf16> values(static_cast<size_t>(groups * std::max(d, di)));
  std::vector<uint8_t> codes(static_cast<size_t>(d)), scales(static_cast<size_t>(d));
  FakeQuantize(b_.index_keys.data(), di, kernels::QuantScheme::kFp4Index, values.data(), groups);
  Observe(layer, "attn.index_keys", values.data(), {groups, di});
  for (int64_t i = 0; i < groups; ++i) {
    QuantizeFp4Main(b_.entry_rows.data() + i * d, d, codes.data(), scales.data());
    DequantizeFp4Main(codes.data(), scales.data(), d, values.data() + i * d);
  }
  Observe(layer, "attn.main_kv", values.data(), {groups, d});
}

// -----------------------------------------------------------------------------------------------------------------------
// Window KV (spec: model.md §8.2)
// -----------------------------------------------------------------------------------------------------------------------

void ForwardPass::ProduceWindow(int layer) {
  const int64_t d = config_.head_dim;
  bool all = true;
  int64_t staged = 0;
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const ActiveChunk& a = active_[c];
    window_begin_[c] = std::clamp(window_from_[c], a.first, a.end);
    staged_[c] = staged;
    staged += a.end - window_begin_[c];
    all = all && window_begin_[c] == a.first;
  }
  if (all) {
    WindowRows(layer, 0, 0, rows_);
  } else {
    for (size_t c = 0; c < chunks_.size(); ++c) {
      const ActiveChunk& a = active_[c];
      WindowRows(layer, a.begin + (window_begin_[c] - a.first), staged_[c], a.end - window_begin_[c]);
    }
  }
  parts_.counts.window_rows += staged;
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const Sequence& sequence = *chunks_[c].sequence;
    kernels::WindowView& view = windows_[c];
    view = sequence.Window(layer);
    // A gap between the ring and the first new row: what came before does not exist for this layer.
    if (window_begin_[c] > sequence.window_end_[static_cast<size_t>(layer)]) view.first = window_begin_[c];
    view.chunk_begin = window_begin_[c];
    view.chunk_codes = b_.window_codes.data() + staged_[c] * d;
    view.chunk_scales = b_.window_scales.data() + staged_[c] * d / kQuantGroup;
  }
  if (observer_ != nullptr && staged > 0) {
    for (int64_t t = 0; t < staged; ++t) {
      DequantizeFp8(b_.window_codes.data() + t * d, b_.window_scales.data() + t * d / kQuantGroup, d,
                    b_.kv.data() + t * d);
    }
    Observe(layer, "attn.window_kv", b_.kv.data(), {staged, d});
  }
}

void ForwardPass::WindowRows(int layer, int64_t from, int64_t to, int64_t count) {
  const AttentionWeights& w = parts_.weights->layers[layer].attn;
  const int64_t d = config_.head_dim, freqs = config_.qk_rope_head_dim / 2;
  const int kind = parts_.plan.layers()[layer].ratio > 0 ? 1 : 0;
  Bf16* kv = b_.kv.data() + to * d;
  Linear(b_.x_grid.data() + from * config_.hidden_size, w.wkv, kv, count);
  RmsNorm(kv, w.kv_norm, d, kv, count);
  Rope(kv, 1, d, b_.cos[kind].data() + from * freqs, b_.sin[kind].data() + from * freqs, count, false);
  ops_.QuantizeWindow(ctx_, {.rows = count,
                             .dim = d,
                             .x = kv,
                             .codes = b_.window_codes.data() + to * d,
                             .scales = b_.window_scales.data() + to * d / kQuantGroup});
}

void ForwardPass::CommitWindow(int layer) {
  int64_t count = 0;
  for (size_t c = 0; c < chunks_.size(); ++c) {
    Sequence& sequence = *chunks_[c].sequence;
    const int32_t end = active_[c].end, capacity = static_cast<int32_t>(windows_[c].capacity);
    if (window_begin_[c] == end) continue;
    for (int32_t p = std::max(window_begin_[c], end - capacity); p < end; ++p, ++count) {
      b_.entry_seq[count] = static_cast<int32_t>(c);
      b_.entry_position[count] = p;
    }
    sequence.window_first_[static_cast<size_t>(layer)] = std::max(windows_[c].first, end - capacity);
    sequence.window_end_[static_cast<size_t>(layer)] = end;
  }
  ops_.CommitWindow(ctx_, {.rows = count,
                           .dim = config_.head_dim,
                           .seq = b_.entry_seq.data(),
                           .positions = b_.entry_position.data(),
                           .sequences = windows_});
}

// -----------------------------------------------------------------------------------------------------------------------
// Queries, attention, output (spec: model.md §8.1, §8.8, §8.9)
// -----------------------------------------------------------------------------------------------------------------------

void ForwardPass::Attend(int layer) {
  const LayerPlan& plan = parts_.plan.layers()[layer];
  const AttentionWeights& w = parts_.weights->layers[layer].attn;
  const int64_t heads = config_.num_attention_heads, d = config_.head_dim, q_lora = config_.q_lora_rank;
  const int64_t low_rank = config_.o_groups * config_.o_lora_rank;
  const int kind = plan.ratio > 0 ? 1 : 0;
  const float *cos = b_.cos[kind].data(), *sin = b_.sin[kind].data();

  Linear(b_.x_grid.data(), w.wq_a, b_.qr.data(), rows_);
  RmsNorm(b_.qr.data(), w.q_norm, q_lora, b_.qr.data(), rows_);
  Observe(layer, "attn.qr", b_.qr.data(), {rows_, q_lora});
  FakeQuantize(b_.qr.data(), q_lora, kernels::QuantScheme::kFp8Act, b_.q_latent_grid.data(), rows_);
  Linear(b_.q_latent_grid.data(), w.wq_b, b_.q.data(), rows_);
  Rope(b_.q.data(), heads, d, cos, sin, rows_, false);
  Observe(layer, "attn.q", b_.q.data(), {rows_, heads, d});

  if (plan.mode == AttentionMode::kFull || plan.mode == AttentionMode::kReindex) SelectEntries(layer);
  for (size_t c = 0; c < chunks_.size(); ++c) attention_[c] = {windows_[c], blocks_[c]};
  Bf16* out = b_.heads.data();
  const kernels::EntryLayout layout = plan.source >= 0
                                          ? parts_.layout->sources[static_cast<size_t>(plan.source)].main
                                          : kernels::EntryLayout{};
  ops_.SparseAttention(ctx_, {.rows = rows_,
                              .heads = heads,
                              .dim = d,
                              .window = config_.sliding_window,
                              .k = plan.ratio > 0 ? config_.index_topk : 0,
                              .q = b_.q.data(),
                              .positions = b_.positions.data(),
                              .seq = b_.seq.data(),
                              .topk = b_.topk.data(),
                              .layout = layout,
                              .sequences = attention_,
                              .sink = w.sink,
                              .scale = static_cast<float>(std::pow(static_cast<double>(d), -0.5)),
                              .out = out});
  Observe(layer, "attn.heads", out, {rows_, heads, d});
  for (int64_t t = 0; t < rows_; ++t) {
    const int32_t position = b_.positions[t], first = attention_[static_cast<size_t>(b_.seq[t])].window.first;
    parts_.counts.attention_slots += std::min<int64_t>(position - first + 1, config_.sliding_window);
    if (plan.ratio > 0)
      parts_.counts.attention_slots += std::min<int64_t>((position + 1) / plan.ratio, config_.index_topk);
  }

  Rope(out, heads, d, cos, sin, rows_, true);
  Linear(out, w.wo_a, b_.low_rank.data(), rows_, config_.o_groups);
  FakeQuantize(b_.low_rank.data(), low_rank, kernels::QuantScheme::kFp8Act, b_.low_rank.data(), rows_);
  Linear(b_.low_rank.data(), w.wo_b, b_.y.data(), rows_);
  Observe(layer, "attn.output", b_.y.data(), {rows_, config_.hidden_size});
}

}  // namespace deepinfer::model
