// The validators that several protocols share: one per field, whatever the protocol calls it (spec: recipe.md §7).
#pragma once

#include <array>
#include <string_view>

#include "recipe/request_context.h"
#include "recipe/request_fields.h"

namespace deepinfer::recipe {

bool ReadModel(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadStream(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadStreamOptions(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadMaxTokens(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadTemperature(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadTopP(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadFrequencyPenalty(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadPresencePenalty(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadChoiceCount(JsonView value, const FieldPath& path, RequestContext& context);  // `n`
bool ReadSeed(JsonView value, const FieldPath& path, RequestContext& context);
/// A string or a list of strings, or nothing but a list; at most 16, none empty.
bool ReadStop(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadLogprobs(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadTopLogprobs(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadUserId(JsonView value, const FieldPath& path, RequestContext& context);
/// {"type": "adaptive" | "enabled" | "disabled", "budget_tokens"}.
bool ReadThinking(JsonView value, const FieldPath& path, RequestContext& context);
/// A name of recipe.md §7.1.
bool ReadEffort(JsonView value, const FieldPath& path, RequestContext& context);

/// `auto`, `none` or `required`.
bool ReadToolChoiceName(JsonView value, const FieldPath& path, RequestContext& context);

/// `stream_options` needs `stream: true`.
bool CheckStreamOptions(RequestContext& context);

/// A schema that an answer has to follow: checked, kept in the conversation. False after a Reject.
bool UseResponseSchema(JsonView schema, bool strict, RequestContext& context);

inline constexpr std::array<std::string_view, 8> kEffortNames = {"none", "minimal", "low",   "medium",
                                                                 "high", "xhigh",   "ultra", "max"};
inline constexpr Field kStreamOptionsFields[] = {
    {"include_usage", FieldType::kBool, FieldPresence::kNullable,
     "every chunk carries `usage` (null until the last one)"},
};

inline constexpr Field kThinkingFields[] = {
    {"type", FieldType::kString, FieldPresence::kRequired, "`enabled` and `adaptive`: on; `disabled`: off"},
    {"budget_tokens", FieldType::kUint64, FieldPresence::kNullable, "ignored"},
};

}  // namespace deepinfer::recipe
