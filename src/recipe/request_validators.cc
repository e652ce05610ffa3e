#include "recipe/request_validators.h"

#include <cfloat>
#include <cmath>

#include <fmt/format.h>

#include "recipe/json_schema.h"

namespace deepinfer::recipe {
namespace {

// Values are single precision, as in the library: 2.00000001 is 2 (spec: recipe.md §7.2). Beyond its range: infinity.
float SinglePrecision(JsonView value) {
  const double number = value.AsDouble();
  if (std::abs(number) > double{FLT_MAX}) return number < 0 ? -INFINITY : INFINITY;
  return static_cast<float>(number);
}

bool RejectRange(std::string_view field, std::string_view range, RequestContext& context) {
  return context.Reject(RejectKind::kRange,
                        fmt::format("Invalid {0} value, the valid range of {0} is {1}", field, range));
}

bool CheckPenalty(std::string_view field, JsonView value, RequestContext& context) {
  const float penalty = SinglePrecision(value);
  return (penalty >= -2 && penalty <= 2) || RejectRange(field, "[-2, 2]", context);
}

bool RejectEmptyString(const std::string& field, RequestContext& context) {
  return context.Reject(
      RejectKind::kEmptyString,
      fmt::format("Invalid '{}': empty string. Expected a string with minimum length 1, but got an empty "
                  "string instead.",
                  field));
}

uint64_t Unsigned(JsonView value) {
  uint64_t number = 0;
  value.GetUint64(&number);
  return number;
}

}  // namespace

bool ReadModel(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  const std::string_view name = value.AsString();
  const auto version = FindModel(name, context.options);
  if (!version.has_value()) {
    return context.Reject(
        RejectKind::kModel,
        fmt::format("The supported API model names are DeepSeek-V4-Pro, DeepSeek-V4.1-Flash, but you "
                    "passed {}.",
                    Shortened(name)));
  }
  context.request.model = name;
  context.request.model_version = *version;
  return true;
}

bool ReadStream(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  context.request.stream = value.AsBool();
  return true;
}

bool ReadStreamOptions(JsonView value, const FieldPath& path, RequestContext& context) {
  FieldValues values;
  if (!FieldValues::Read(value, path, kStreamOptionsFields, context, &values)) return false;
  context.request.include_usage = values.Flag("include_usage");
  context.has_stream_options = true;
  return true;
}

bool ReadMaxTokens(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  const int64_t bound = context.options.max_tokens_bound;
  int64_t number = static_cast<int64_t>(Unsigned(value));  // 32 bits by its type
  if (context.lower_max_tokens && number > bound) number = bound;
  if (number < 1 || number > bound) return RejectRange("max_tokens", fmt::format("[1, {}]", bound), context);
  context.max_tokens = number;
  return true;
}

bool ReadTemperature(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  context.temperature = SinglePrecision(value);
  return (*context.temperature >= 0 && *context.temperature <= 2) ||
         RejectRange("temperature", "[0, 2]", context);
}

bool ReadTopP(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  context.top_p = SinglePrecision(value);
  return (*context.top_p > 0 && *context.top_p <= 1) || RejectRange("top_p", "(0, 1.0]", context);
}

bool ReadFrequencyPenalty(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  return CheckPenalty("frequency_penalty", value, context);
}

bool ReadPresencePenalty(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  return CheckPenalty("presence_penalty", value, context);
}

bool ReadChoiceCount(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  return Unsigned(value) == 1 ||
         context.Reject(RejectKind::kRange, "Invalid n value (currently only n = 1 is supported)");
}

bool ReadSeed(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  int64_t seed = 0;
  if (!value.GetInt64(&seed)) return RejectRange("seed", "[0, 2^63)", context);
  context.request.inference.seed = seed;
  return true;
}

bool ReadStop(JsonView value, const FieldPath& path, RequestContext& context) {
  std::vector<std::string>& stops = context.request.parsing.stops;
  if (value.is_string()) {
    if (value.AsString().empty()) return RejectEmptyString("stop", context);
    stops.emplace_back(value.AsString());
    return true;
  }
  constexpr size_t kMostStops = 16;
  if (value.size() > kMostStops) {
    return context.Reject(RejectKind::kTooLong, fmt::format("Stop string array too long: {}", value.size()));
  }
  size_t index = 0;
  for (const JsonView stop : value.elements()) {
    if (!stop.is_string())
      return context.RejectBody(RejectKind::kWrongType, path.Element(index), "expected a string");
    if (stop.AsString().empty()) return RejectEmptyString(fmt::format("stop[{}]", index), context);
    stops.emplace_back(stop.AsString());
    ++index;
  }
  return true;
}

bool ReadLogprobs(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  context.request.inference.logprobs = value.AsBool();
  return true;
}

bool ReadTopLogprobs(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  constexpr uint64_t kMost = 20;
  const uint64_t number = Unsigned(value);
  if (number > kMost) return RejectRange("top_logprobs", "[0, 20].", context);
  context.request.inference.top_logprobs = static_cast<int>(number);
  return true;
}

bool ReadUserId(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  if (value.is_string()) context.request.user_id = value.AsString();
  return true;
}

bool ReadThinking(JsonView value, const FieldPath& path, RequestContext& context) {
  static constexpr std::array<std::string_view, 3> kTypes = {"adaptive", "enabled", "disabled"};
  FieldValues values;
  if (!FieldValues::Read(value, path, kThinkingFields, context, &values)) return false;
  const auto type = ReadVariant(*values["type"], path.Member("type"), kTypes, context);
  if (!type.has_value()) return false;
  context.thinking = kTypes[*type] != "disabled";
  return true;
}

bool ReadEffort(JsonView value, const FieldPath& path, RequestContext& context) {
  const auto name = ReadVariant(value, path, kEffortNames, context);
  if (!name.has_value()) return false;
  context.effort = kEffortNames[*name];
  return true;
}

bool ReadToolChoiceName(JsonView value, const FieldPath& path, RequestContext& context) {
  const std::string_view name = value.AsString();
  if (name == "auto") {
    context.tool_choice.kind = RequestedToolChoice::Kind::kAuto;
  } else if (name == "none") {
    context.tool_choice.kind = RequestedToolChoice::Kind::kNone;
  } else if (name == "required") {
    context.tool_choice.kind = RequestedToolChoice::Kind::kRequired;
  } else {
    return context.RejectBody(RejectKind::kWrongType, path,
                              "expected one of `none`, `auto`, `required` or a tool");
  }
  return true;
}

bool CheckStreamOptions(RequestContext& context) {
  if (!context.has_stream_options || context.request.stream) return true;
  return context.Reject(RejectKind::kOptionPair, "stream_options should be set along with stream = true");
}

bool UseResponseSchema(JsonView schema, bool strict, RequestContext& context) {
  ResponseFormat& format = context.conversation().response_format;
  format.kind = ResponseFormat::Kind::kJsonSchema;
  format.schema = schema.ToValue();
  context.strict_format = strict;
  if (strict) return true;  // checked when it has its strict form
  if (auto fault = CheckJsonSchema(format.schema)) {
    return context.Reject(RejectKind::kSchema, "Invalid json schema: " + Shortened(*fault));
  }
  return true;
}

}  // namespace deepinfer::recipe
