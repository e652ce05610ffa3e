#include "model/layer_plan.h"

#include <algorithm>
#include <string>

namespace deepinfer::model {

std::string_view PrefillModeName(PrefillMode mode) {
  switch (mode) {
    case PrefillMode::kFull: return "full";
    case PrefillMode::kExactHalo: return "exact_halo";
    case PrefillMode::kBoundedReplay: return "bounded_replay";
  }
  return "?";
}

Result<PrefillMode> ParsePrefillMode(std::string_view name) {
  for (PrefillMode mode : {PrefillMode::kFull, PrefillMode::kExactHalo, PrefillMode::kBoundedReplay}) {
    if (name == PrefillModeName(mode)) return mode;
  }
  return InvalidArgument(
      "unknown prefill mode '" + std::string(name) + "'; one of full, exact_halo, bounded_replay", "prefill");
}

namespace {

AttentionMode ModeOf(const ModelConfig& config, int layer) {
  if (config.compress_ratio(layer) == 0) return AttentionMode::kWindowOnly;
  if (config.is_kv_source(layer)) return AttentionMode::kFull;
  return config.is_index_source(layer) ? AttentionMode::kReindex : AttentionMode::kReuse;
}

int IndexOf(const std::vector<int>& list, int value) {
  const auto it = std::find(list.begin(), list.end(), value);
  return it == list.end() ? -1 : static_cast<int>(it - list.begin());
}

}  // namespace

ModelPlan ModelPlan::Make(const ModelConfig& config) {
  ModelPlan plan;
  plan.window_ = config.sliding_window;
  plan.decoder_start_ =
      config.kv_source_layer_ids.empty() ? config.num_hidden_layers : config.kv_source_layer_ids.back();
  const int candidates = config.candidate_source_layer_id;
  for (int layer = 0; layer < config.num_hidden_layers; ++layer) {
    LayerPlan entry;
    entry.mode = ModeOf(config, layer);
    entry.ratio = config.compress_ratio(layer);
    if (entry.mode == AttentionMode::kFull) plan.sources_.push_back({layer, entry.ratio});
    if (entry.ratio > 0) entry.source = static_cast<int>(plan.sources_.size()) - 1;
    entry.candidate_source = layer == candidates;
    entry.uses_candidates = config.is_index_source(layer) && candidates >= 0 && layer > candidates;
    entry.engram = config.engram_index(layer);
    entry.tap = IndexOf(config.dspark_target_layer_ids, layer);
    plan.layers_.push_back(entry);
  }
  return plan;
}

PrefillRanges ModelPlan::Ranges(PrefillMode mode, int64_t prompt_length, int64_t keep_tokens,
                                int cut_layer) const {
  const int num_layers = static_cast<int>(layers_.size());
  const int cut = cut_layer < 0 ? decoder_start_ : cut_layer;
  PrefillRanges ranges;
  ranges.window_from.assign(layers_.size(), 0);
  ranges.query_from.assign(layers_.size(), 0);
  const auto from = [prompt_length](int64_t rows) {
    return static_cast<int32_t>(std::max<int64_t>(0, prompt_length - rows));
  };
  if (mode == PrefillMode::kBoundedReplay) {
    const int64_t keep = keep_tokens > 0 ? keep_tokens : window_ + kMaxRollback;
    for (int layer = cut; layer < num_layers; ++layer) {
      ranges.window_from[layer] = ranges.query_from[layer] = from(keep);
    }
  } else if (mode == PrefillMode::kExactHalo) {
    // Each layer's window must be complete for the queries of the next one: one more reach of W - 1 rows a layer, counted from the
    // last, which needs a full ring (spec: model.md §12.2).
    for (int layer = cut; layer < num_layers; ++layer) {
      ranges.window_from[layer] = from(window_ + (num_layers - 1 - layer) * (window_ - 1));
      if (layer > cut) ranges.query_from[layer - 1] = ranges.window_from[layer];
    }
    if (cut < num_layers) ranges.query_from[num_layers - 1] = from(1);
  }
  return ranges;
}

}  // namespace deepinfer::model
