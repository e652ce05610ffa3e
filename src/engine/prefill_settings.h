// The prefill mode of an engine, from its options or from the variables of DeepInfer. Internal to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "model/layer_plan.h"

namespace deepinfer {

/// DeepInfer's variables as they stand in the environment; unset and empty are the same (spec: deepinfer.md §12.2).
struct YocoVariables {
  std::optional<std::string> truncation_mode;  // DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE: off, mask, compact
  std::optional<std::string> keep_tokens;      // DEEPINFER_YOCO_PREFILL_KEEP_TOKENS: 0 = default
};
YocoVariables ReadYocoVariables();

struct PrefillSettings {
  model::PrefillMode mode = model::PrefillMode::kExactHalo;
  int64_t keep_tokens = 0;
  /// What the variables changed, for the user; empty when they have no effect.
  std::string note;
  bool note_is_warning = false;
};

/// Options decide over variables. `keep_tokens` 0 = not given. Errors: kInvalidArgument naming the option or variable.
Result<PrefillSettings> ResolvePrefill(std::optional<model::PrefillMode> mode, int64_t keep_tokens,
                                       const YocoVariables& variables, int64_t window, int64_t context);

/// 0 or [window, context]. Errors: kInvalidArgument.
Status CheckKeepTokens(int64_t keep_tokens, int64_t window, int64_t context);

}  // namespace deepinfer
