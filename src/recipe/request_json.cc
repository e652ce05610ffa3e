#include "recipe/request_json.h"

#include <array>
#include <optional>

#include <fmt/format.h>

namespace deepinfer::recipe {
namespace {

constexpr std::array<std::string_view, 5> kStages = {"none", "start", "reasoning", "content", "tool_calls"};
constexpr std::array<std::string_view, 4> kConstraints = {"json", "regex", "tool_call", "tool_call_required"};
constexpr std::array<std::string_view, 4> kDetails = {"low", "high", "original", "auto"};
constexpr std::array<std::string_view, 4> kEfforts = {"low", "high", "xhigh", "max"};

Status WrongValue(std::string_view name, std::string_view expected) {
  return InvalidArgument(fmt::format("option {} takes {}", name, expected), std::string(name));
}

Status ApplyBool(std::string_view name, const json::Value& value, bool* out) {
  if (!value.is_bool()) return WrongValue(name, "true or false");
  *out = value.AsBool();
  return OkStatus();
}

// One of several names; `choice` is its place.
Status ApplyName(std::string_view name, const json::Value& value,
                 std::initializer_list<std::string_view> names, size_t* choice) {
  std::string expected;
  size_t index = 0;
  for (const std::string_view candidate : names) {
    if (value.is_string() && value.AsString() == candidate) {
      *choice = index;
      return OkStatus();
    }
    expected += fmt::format("{}\"{}\"", index == 0 ? "" : " or ", candidate);
    ++index;
  }
  return WrongValue(name, expected);
}

Status ApplyWebSearch(std::string_view name, const json::Value& value, RequestOptions::WebSearch* out) {
  size_t choice = 0;
  DEEPINFER_RETURN_IF_ERROR(ApplyName(name, value, {"drop", "reject"}, &choice));
  *out = static_cast<RequestOptions::WebSearch>(choice);
  return OkStatus();
}

Status ApplyAliases(std::string_view name, const json::Value& value, RequestOptions* options) {
  if (!value.is_object()) return WrongValue(name, "an object of model names");
  for (const auto& [alias, version] : value.AsObject()) {
    size_t choice = 0;
    DEEPINFER_RETURN_IF_ERROR(ApplyName(name, version, {"v41", "v4"}, &choice));
    options->aliases.emplace_back(alias, static_cast<ModelVersion>(choice));
  }
  return OkStatus();
}

Status ApplyBound(std::string_view name, const json::Value& value, RequestOptions* options) {
  if (!value.GetInt64(&options->max_tokens_bound) || options->max_tokens_bound < 1) {
    return WrongValue(name, "a number of tokens");
  }
  return OkStatus();
}

json::Value EffortJson(const std::optional<Effort>& effort) {
  if (!effort.has_value()) return {};
  if (effort->name == Effort::Name::kNumber) return int64_t{effort->number};
  return kEfforts[static_cast<size_t>(effort->name)];
}

json::Value ParsingJson(const ParsingOptions& parsing) {
  json::Array stops;
  for (const std::string& stop : parsing.stops) stops.emplace_back(stop);
  json::Object out;
  out.emplace_back("tools", parsing.tools);
  out.emplace_back("stage", kStages[static_cast<size_t>(parsing.stage)]);
  out.emplace_back("json", parsing.json);
  out.emplace_back("stops", std::move(stops));
  return out;
}

json::Value InferenceJson(const InferenceOptions& inference) {
  json::Object out;
  out.emplace_back("max_tokens",
                   inference.max_tokens.has_value() ? json::Value(*inference.max_tokens) : json::Value());
  out.emplace_back("temperature", inference.temperature);
  out.emplace_back("top_p", inference.top_p);
  if (inference.logprobs) out.emplace_back("logprobs", true);
  if (inference.top_logprobs.has_value()) out.emplace_back("top_logprobs", *inference.top_logprobs);
  if (inference.seed.has_value()) out.emplace_back("seed", *inference.seed);
  if (const auto& constraint = inference.constraint) {
    json::Array pair;
    pair.emplace_back(kConstraints[static_cast<size_t>(constraint->kind)]);
    pair.emplace_back(constraint->text);
    out.emplace_back("constraint", std::move(pair));
  }
  return out;
}

}  // namespace

Status ApplyRequestOption(std::string_view name, const json::Value& value, RequestOptions* options) {
  if (name == "default_thinking") return ApplyBool(name, value, &options->default_thinking);
  if (name == "fill_in_the_middle") return ApplyBool(name, value, &options->fill_in_the_middle);
  if (name == "messages_web_search") return ApplyWebSearch(name, value, &options->messages_web_search);
  if (name == "responses_web_search") return ApplyWebSearch(name, value, &options->responses_web_search);
  if (name == "max_tokens_bound") return ApplyBound(name, value, options);
  if (name == "alias") return ApplyAliases(name, value, options);
  size_t choice = 0;
  if (name == "missing_reasoning") {
    DEEPINFER_RETURN_IF_ERROR(ApplyName(name, value, {"fill", "reject"}, &choice));
    options->require_reasoning_history = choice == 1;
    return OkStatus();
  }
  if (name == "developer_role") {
    DEEPINFER_RETURN_IF_ERROR(ApplyName(name, value, {"reject", "system", "user"}, &choice));
    options->chat_developer = static_cast<RequestOptions::DeveloperRole>(choice);
    return OkStatus();
  }
  return InvalidArgument(fmt::format("there is no option {}", name), "options");
}

void AppendSettings(const Request& request, json::Object* out) {
  out->emplace_back("thinking", request.conversation.thinking);
  out->emplace_back("effort", EffortJson(request.conversation.effort));
  out->emplace_back("parsing", ParsingJson(request.parsing));
  out->emplace_back("inference", InferenceJson(request.inference));
  out->emplace_back("stream", request.stream);
}

json::Value ImageJson(const ImageSource& image) {
  json::Object out;
  out.emplace_back("kind", image.kind == ImageSource::Kind::kUrl ? "url" : "data_url");
  out.emplace_back("detail", kDetails[static_cast<size_t>(image.detail)]);
  out.emplace_back("path", image.path);
  return out;
}

}  // namespace deepinfer::recipe
