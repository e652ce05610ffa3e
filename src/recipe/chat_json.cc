#include "recipe/chat_json.h"

#include <utility>

namespace deepinfer::recipe {
namespace {

constexpr std::string_view kJoint = "\n\n";  // between the parts of a content

json::Object TextPart(std::string_view text) { return {{"type", "text"}, {"text", text}}; }

std::string_view DetailName(ImageSource::Detail detail) {
  switch (detail) {
    case ImageSource::Detail::kLow: return "low";
    case ImageSource::Detail::kHigh: return "high";
    case ImageSource::Detail::kOriginal: return "original";
    case ImageSource::Detail::kAuto: return "auto";
  }
  return "";
}

json::Object ImagePart(const ImageSource& source) {
  return {{"type", "image_url"},
          {"image_url", json::Object{{"url", source.location}, {"detail", DetailName(source.detail)}}}};
}

// A string, or parts where there are images: what stands between two of them was joined with empty lines.
json::Value ContentValue(const Content& content) {
  if (content.images.empty()) return content.text;
  json::Array parts;
  std::string_view rest = content.text;
  size_t at = 0;
  for (const Content::Image& image : content.images) {
    std::string_view text = rest.substr(0, image.offset - at);
    rest.remove_prefix(image.offset - at);
    const bool is_first = at == 0 && parts.empty();
    at = image.offset;
    if (text.ends_with(kJoint)) {
      text.remove_suffix(kJoint.size());
      const bool has_part = is_first || text.starts_with(kJoint);
      if (!is_first && has_part) text.remove_prefix(kJoint.size());
      if (has_part) parts.emplace_back(TextPart(text));
    }
    parts.emplace_back(ImagePart(image.source));
  }
  if (rest.starts_with(kJoint)) parts.emplace_back(TextPart(rest.substr(kJoint.size())));
  return parts;
}

json::Object MessageObject(std::string_view role, json::Value content) {
  json::Object object;
  object.emplace_back("role", role);
  object.emplace_back("content", std::move(content));
  return object;
}

struct MessageWriter {
  json::Object operator()(const SystemMessage& message) const {
    return MessageObject("system", ContentValue(message.content));
  }
  json::Object operator()(const UserMessage& message) const {
    return MessageObject("user", ContentValue(message.content));
  }
  json::Object operator()(const LatestReminder& message) const {
    return MessageObject("latest_reminder", message.content);
  }
  json::Object operator()(const AssistantMessage& message) const {
    json::Object object = MessageObject("assistant", message.content);
    if (message.reasoning) object.emplace_back("reasoning_content", *message.reasoning);
    if (!message.tool_calls.empty()) object.emplace_back("tool_calls", ChatToolCalls(message.tool_calls));
    if (message.prefix) object.emplace_back("prefix", true);
    return object;
  }
  json::Object operator()(const ToolMessage& message) const {
    json::Object object = MessageObject("tool", ContentValue(message.content));
    object.emplace_back("tool_call_id", message.tool_call_id);
    return object;
  }
};

json::Array Tools(const std::vector<Tool>& tools) {
  json::Array out;
  for (const Tool& tool : tools) {
    json::Object function{{"name", tool.name}};
    if (tool.description) function.emplace_back("description", *tool.description);
    if (tool.parameters) function.emplace_back("parameters", *tool.parameters);
    if (tool.strict) function.emplace_back("strict", *tool.strict);
    out.emplace_back(json::Object{{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

json::Object Format(const ResponseFormat& format) {
  switch (format.kind) {
    case ResponseFormat::Kind::kText: break;
    case ResponseFormat::Kind::kJsonObject: return {{"type", "json_object"}};
    case ResponseFormat::Kind::kJsonSchema:
      return {{"type", "json_schema"}, {"json_schema", json::Object{{"schema", format.schema}}}};
    case ResponseFormat::Kind::kRegex: return {{"type", "regex"}, {"regex", format.regex}};
  }
  return {{"type", "text"}};
}

}  // namespace

json::Value EffortValue(const Effort& effort) {
  switch (effort.name) {
    case Effort::Name::kLow: return "low";
    case Effort::Name::kHigh: return "high";
    case Effort::Name::kXhigh: return "xhigh";
    case Effort::Name::kMax: return "max";
    case Effort::Name::kNumber: break;
  }
  return effort.number;
}

json::Array ChatToolCalls(const std::vector<ToolCall>& calls) {
  json::Array out;
  for (const ToolCall& call : calls) {
    out.emplace_back(
        json::Object{{"id", call.id},
                     {"type", "function"},
                     {"function", json::Object{{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return out;
}

json::Value ChatBody(const Conversation& conversation) {
  json::Array messages;
  messages.reserve(conversation.messages.size());
  for (const Message& message : conversation.messages) {
    messages.emplace_back(std::visit(MessageWriter{}, message));
  }
  json::Object body;
  body.emplace_back("messages", std::move(messages));
  if (!conversation.tools.empty()) body.emplace_back("tools", Tools(conversation.tools));
  if (conversation.tool_choice != ToolChoice::kAuto) {
    body.emplace_back("tool_choice", conversation.tool_choice == ToolChoice::kNone ? "none" : "required");
  }
  if (conversation.response_format.kind != ResponseFormat::Kind::kText) {
    body.emplace_back("response_format", Format(conversation.response_format));
  }
  body.emplace_back("thinking", json::Object{{"type", conversation.thinking ? "enabled" : "disabled"}});
  if (conversation.thinking && conversation.effort) {
    body.emplace_back("reasoning_effort", EffortValue(*conversation.effort));
  }
  return body;
}

}  // namespace deepinfer::recipe
