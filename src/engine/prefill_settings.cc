#include "engine/prefill_settings.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

namespace deepinfer {
namespace {

using model::PrefillMode;

constexpr char kModeVariable[] = "DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE";
constexpr char kKeepVariable[] = "DEEPINFER_YOCO_PREFILL_KEEP_TOKENS";
/// DeepInfer keeps the window and draft + 1 rows at least (spec: open-questions.md 23).
constexpr int64_t kDeepInferMargin = 6;

std::optional<std::string> Variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

Status ApplyMode(const std::string& value, PrefillSettings* out) {
  if (value == "off") return OkStatus();
  if (value != "compact" && value != "mask") {
    return InvalidArgument(fmt::format("must be off, mask or compact, not '{}'", value), kModeVariable);
  }
  out->mode = PrefillMode::kBoundedReplay;
  out->note = fmt::format("{}={} sets the prefill mode bounded_replay", kModeVariable, value);
  if (value == "mask") {
    out->note += "; here it computes the kept rows only, mask computes all";
    out->note_is_warning = true;
  }
  return OkStatus();
}

Status ApplyKeep(const std::string& value, int64_t window, int64_t context, PrefillSettings* out) {
  int64_t keep = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), keep);
  const int64_t least = window + kDeepInferMargin;
  const bool in_range = keep == 0 || (keep >= least && keep <= context);
  if (error != std::errc() || end != value.data() + value.size() || !in_range) {
    return InvalidArgument(
        fmt::format("must be 0 or an integer in [{}, {}], not '{}'", least, context, value), kKeepVariable);
  }
  if (keep == 0) return OkStatus();
  out->keep_tokens = keep;
  if (!out->note.empty()) out->note += "; ";
  out->note += fmt::format("{}={} sets the tokens that bounded_replay keeps", kKeepVariable, keep);
  return OkStatus();
}

}  // namespace

YocoVariables ReadYocoVariables() { return {Variable(kModeVariable), Variable(kKeepVariable)}; }

Status CheckKeepTokens(int64_t keep_tokens, int64_t window, int64_t context) {
  if (keep_tokens == 0 || (keep_tokens >= window && keep_tokens <= context)) return OkStatus();
  return InvalidArgument(
      fmt::format("keep_tokens must be 0 or an integer in [{}, {}], not {}", window, context, keep_tokens),
      "keep_tokens");
}

Result<PrefillSettings> ResolvePrefill(std::optional<PrefillMode> mode, int64_t keep_tokens,
                                       const YocoVariables& variables, int64_t window, int64_t context) {
  DEEPINFER_RETURN_IF_ERROR(CheckKeepTokens(keep_tokens, window, context));
  PrefillSettings settings;
  if (mode) {
    settings.mode = *mode;
  } else if (variables.truncation_mode) {
    DEEPINFER_RETURN_IF_ERROR(ApplyMode(*variables.truncation_mode, &settings));
  }
  if (keep_tokens != 0) {
    settings.keep_tokens = keep_tokens;
  } else if (variables.keep_tokens) {
    DEEPINFER_RETURN_IF_ERROR(ApplyKeep(*variables.keep_tokens, window, context, &settings));
  }
  return settings;
}

}  // namespace deepinfer
