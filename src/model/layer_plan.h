// What the layer schedule says, computed once from the config: the rest of the code asks the plan, never the layer number
// (spec: model.md §2, §12.2; design.md §4).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/config.h"

namespace deepinfer::model {

/// How a layer gets its compressed entries and its list of them (spec: model.md §2).
enum class AttentionMode : uint8_t { kWindowOnly, kFull, kReindex, kReuse };

struct LayerPlan {
  AttentionMode mode = AttentionMode::kWindowOnly;
  int ratio = 0;
  int source = -1;  // index into ModelPlan::sources of the entries this layer reads; -1 = window only
  bool candidate_source = false;
  bool uses_candidates = false;
  int engram = -1;  // index into ModelPlan::engram_layers when the module is applied at this layer's entry
  int tap = -1;     // index into dspark_target_layer_ids when this layer's input is a DSpark tap
};

/// A layer that owns compressed KV and index keys.
struct SourcePlan {
  int layer = 0;
  int ratio = 1;
};

/// Prefill modes (spec: model.md §12.2).
enum class PrefillMode : uint8_t { kFull, kExactHalo, kBoundedReplay };
std::string_view PrefillModeName(PrefillMode mode);
Result<PrefillMode> ParsePrefillMode(std::string_view name);

/// Rows a sequence may drop at any time (spec: design.md §4; dspark.md §2).
inline constexpr int kMaxRollback = 12;

/// Per layer, the first position of a prompt whose window KV is computed and the first that is a query.
struct PrefillRanges {
  std::vector<int32_t> window_from;
  std::vector<int32_t> query_from;
};

class ModelPlan {
 public:
  /// The config must be valid (checkpoint::Validate).
  static ModelPlan Make(const ModelConfig& config);

  const std::vector<LayerPlan>& layers() const { return layers_; }
  const std::vector<SourcePlan>& sources() const { return sources_; }
  /// First layer of the decoder half: the last KV source (spec: model.md §12.1). Truncated prefills cut before its attention.
  int decoder_start() const { return decoder_start_; }

  /// Row ranges for a prompt of `prompt_length` rows. `keep_tokens` (bounded replay) 0 = window + kMaxRollback. `cut_layer` < 0 = decoder_start().
  PrefillRanges Ranges(PrefillMode mode, int64_t prompt_length, int64_t keep_tokens = 0,
                       int cut_layer = -1) const;

 private:
  std::vector<LayerPlan> layers_;
  std::vector<SourcePlan> sources_;
  int decoder_start_ = 0;
  int64_t window_ = 0;
};

}  // namespace deepinfer::model
