#include "cli/chat_request.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "recipe/chat_json.h"

namespace deepinfer::cli {
namespace {

constexpr std::array<std::string_view, 7> kChatFields = {
    "messages", "tools", "tool_choice", "response_format", "thinking", "reasoning_effort", "effort"};

// Any name of the released model: the one that is loaded answers.
constexpr std::string_view kModelName = "DeepSeek-V4.1-Flash";

json::Value ThinkingObject(bool on) { return json::Object{{"type", on ? "enabled" : "disabled"}}; }

Result<json::Value> ThinkingValue(json::Value value) {
  if (value.is_bool()) return ThinkingObject(value.AsBool());
  if (value.is_string() && (value.AsString() == "on" || value.AsString() == "off"))
    return ThinkingObject(value.AsString() == "on");
  if (!value.is_object()) {
    return InvalidArgument(R"(thinking must be true, false, "on", "off" or {"type": "enabled"|"disabled"})",
                           "thinking");
  }
  return value;
}

Result<json::Value> CheckedEffort(const json::Value& value) {
  if (!value.is_integer() && !value.is_string())
    return InvalidArgument(fmt::format("effort must be {}", kEffortValues), "effort");
  const auto effort = ParseEffort(value.is_string() ? value.AsString() : json::Serialize(value));
  if (!effort.ok()) return InvalidArgument(effort.status().message(), "effort");
  return recipe::EffortValue(*effort);
}

Result<json::Value> ChatField(const std::string& key, json::Value value) {
  if (key == "thinking") return ThinkingValue(std::move(value));
  if (key == "effort") return CheckedEffort(value);
  return value;
}

bool HasImages(const recipe::Message& message) {
  const auto has = [](const recipe::Content& content) { return !content.images.empty(); };
  if (const auto* system = std::get_if<recipe::SystemMessage>(&message)) return has(system->content);
  if (const auto* user = std::get_if<recipe::UserMessage>(&message)) return has(user->content);
  if (const auto* tool = std::get_if<recipe::ToolMessage>(&message)) return has(tool->content);
  return false;
}

std::string_view FormatField(recipe::Protocol protocol) {
  switch (protocol) {
    case recipe::Protocol::kResponses: return "text.format";
    case recipe::Protocol::kMessages: return "output_config.format";
    case recipe::Protocol::kChat:
    case recipe::Protocol::kCompletions: break;
  }
  return "response_format";
}

}  // namespace

std::span<const std::string_view> ChatFields() { return kChatFields; }

Result<json::Value> TakeChatFields(json::Value* fields) {
  json::Object rest;
  json::Value body{json::Object{}};
  for (auto& [key, value] : fields->AsObject()) {
    if (std::find(kChatFields.begin(), kChatFields.end(), key) == kChatFields.end()) {
      rest.emplace_back(key, std::move(value));
      continue;
    }
    if (value.is_null()) continue;
    const std::string name = key == "effort" ? "reasoning_effort" : key;
    if (body.Find(name) != nullptr)
      return InvalidArgument("effort and reasoning_effort are the same field", "effort");
    DEEPINFER_ASSIGN_OR_RETURN(json::Value converted, ChatField(key, std::move(value)));
    body.Set(name, std::move(converted));
  }
  *fields = std::move(rest);
  return body;
}

void ApplyPromptSettings(const PromptSettings& settings, Precedence precedence, json::Value* body) {
  const bool options_win = precedence == Precedence::kOptions;
  const bool body_has_effort = body->Find("reasoning_effort") != nullptr;
  // An effort turns thinking on, or off when it is "none".
  const bool body_decides = body_has_effort || body->Find("thinking") != nullptr;
  if (settings.thinking && (options_win || !body_decides))
    body->Set("thinking", ThinkingObject(*settings.thinking));
  if (settings.effort && (options_win || !body_has_effort))
    body->Set("reasoning_effort", recipe::EffortValue(*settings.effort));
  const json::Value* messages = body->Find("messages");
  if (settings.system.empty() || messages == nullptr || !messages->is_array()) return;
  json::Array all = {json::Object{{"role", "system"}, {"content", settings.system}}};
  for (const json::Value& message : messages->AsArray()) all.push_back(message);
  body->Set("messages", std::move(all));
}

json::Value TextBody(std::string_view text) {
  return json::Object{
      {"messages", json::Array{json::Object{{"role", "user"}, {"content", text}}}},
  };
}

Result<recipe::Request> ParseChat(json::Value body) {
  body.Set("model", kModelName);
  recipe::RequestOptions options;
  options.max_body_bytes = SIZE_MAX;  // whoever read the text had a limit
  recipe::RequestResult request =
      recipe::ParseRequest(recipe::Protocol::kChat, json::Serialize(body), options);
  if (!request.ok()) return InvalidArgument(request.error().message);
  DEEPINFER_RETURN_IF_ERROR(CheckSupported(*request));
  return *std::move(request);
}

Status CheckSupported(const recipe::Request& request) {
  using Kind = recipe::ResponseFormat::Kind;
  const Kind format = request.conversation.response_format.kind;
  if (format == Kind::kJsonSchema || format == Kind::kRegex) {
    const std::string field(FormatField(request.protocol));
    return Unavailable(fmt::format("{} of type {} needs constrained decoding, which is not built in", field,
                                   format == Kind::kRegex ? "regex" : "json_schema"),
                       field);
  }
  const auto& messages = request.conversation.messages;
  if (std::any_of(messages.begin(), messages.end(), HasImages))
    return Unavailable("images need an image encoder, which is not built in", "messages");
  if (request.model_version == recipe::ModelVersion::kV4Pro) {
    return Unavailable(
        fmt::format("{} has other prompts than the model that is loaded, a {}", request.model, kModelName),
        "model");
  }
  return OkStatus();
}

}  // namespace deepinfer::cli
