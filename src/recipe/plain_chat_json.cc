// Messages and chat request bodies as JSON.
#include <fmt/format.h>

#include "recipe/plain_chat.h"

namespace deepinfer::recipe::plain {
namespace {

Status NotSupported(std::string_view what, std::string where) {
  return InvalidArgument(fmt::format("{} are not supported yet", what), std::move(where));
}

/// A string, or an array of text parts.
Result<std::string> ParseContent(const json::Value& value, const std::string& where) {
  if (value.is_string()) return value.AsString();
  if (!value.is_array()) return InvalidArgument("content must be a string or an array of text parts", where);
  std::string text;
  for (size_t i = 0; i < value.AsArray().size(); ++i) {
    const json::Value& part = value.AsArray()[i];
    const std::string part_where = fmt::format("{}[{}]", where, i);
    const json::Value* type = part.Find("type");
    if (type == nullptr || !type->is_string()) {
      return InvalidArgument("a content part needs a type", part_where);
    }
    if (type->AsString() == "image_url" || type->AsString() == "image" || type->AsString() == "file") {
      return NotSupported("images", part_where);
    }
    const json::Value* part_text = part.Find("text");
    if (type->AsString() != "text" || part_text == nullptr || !part_text->is_string()) {
      return InvalidArgument(R"(a content part must be {"type": "text", "text": "…"})", part_where);
    }
    if (i > 0) text += "\n\n";
    text += part_text->AsString();
  }
  return text;
}

Result<Role> ParseRole(const json::Value& message, const std::string& where) {
  const json::Value* role = message.Find("role");
  if (role == nullptr || !role->is_string()) {
    return InvalidArgument("a message needs a role", where + ".role");
  }
  for (const Role known : {Role::kSystem, Role::kUser, Role::kAssistant}) {
    if (role->AsString() == RoleName(known)) return known;
  }
  if (role->AsString() == "tool") return NotSupported("tool results", where + ".role");
  return InvalidArgument(fmt::format("role must be system, user or assistant, not '{}'", role->AsString()),
                         where + ".role");
}

Result<Message> ParseMessage(const json::Value& value, const std::string& where) {
  if (!value.is_object()) return InvalidArgument("a message must be an object", where);
  Message message;
  DEEPINFER_ASSIGN_OR_RETURN(message.role, ParseRole(value, where));
  bool has_content = false;
  for (const auto& [key, member] : value.AsObject()) {
    const std::string member_where = where + "." + key;
    if (key == "role") continue;
    if (key == "content") {
      DEEPINFER_ASSIGN_OR_RETURN(message.content, ParseContent(member, member_where));
      has_content = true;
    } else if (key == "reasoning_content" && message.role == Role::kAssistant) {
      if (!member.is_string() && !member.is_null()) {
        return InvalidArgument("reasoning_content must be a string", member_where);
      }
      if (member.is_string()) message.reasoning = member.AsString();
    } else if (key == "tool_calls" || key == "tool_call_id") {
      return NotSupported("tool calls", member_where);
    } else if (key == "prefix") {
      return NotSupported("prefix messages", member_where);
    } else {
      return InvalidArgument(fmt::format("a {} message has no field '{}'", RoleName(message.role), key),
                             member_where);
    }
  }
  if (!has_content) return InvalidArgument("a message needs content", where + ".content");
  return message;
}

Status ParseThinking(const json::Value& value, Conversation* out) {
  const json::Value* type = value.Find("type");
  const std::string name = type != nullptr && type->is_string() ? type->AsString() : "";
  if (name != "enabled" && name != "adaptive" && name != "disabled") {
    return InvalidArgument("thinking.type must be enabled, adaptive or disabled", "thinking.type");
  }
  out->thinking = name != "disabled";
  return OkStatus();
}

Status ParseReasoningEffort(const json::Value& value, Conversation* out) {
  int64_t number = 0;
  const bool is_number = value.GetInt64(&number);
  if (!is_number && !value.is_string()) {
    return InvalidArgument("reasoning_effort must be a name or an integer", "reasoning_effort");
  }
  const std::string text = is_number ? std::to_string(number) : value.AsString();
  if (text == "none") {
    if (!out->thinking) out->thinking = false;
    return OkStatus();
  }
  Result<int> effort = ParseEffort(text);
  if (!effort.ok()) return InvalidArgument(effort.status().message(), "reasoning_effort");
  out->effort = *effort;
  if (!out->thinking) out->thinking = true;
  return OkStatus();
}

/// `tool_choice` says nothing without tools.
Status RefuseUnsupported(const std::string& key, const json::Value& value) {
  const bool is_empty = value.is_null() || (value.is_array() && value.AsArray().empty());
  if (key == "tools" && !is_empty) return NotSupported("tools", key);
  if (key == "response_format" && !is_empty) {
    const json::Value* type = value.Find("type");
    if (type == nullptr || !type->is_string() || type->AsString() != "text") {
      return NotSupported("response formats", key);
    }
  }
  return OkStatus();
}

}  // namespace

Result<std::vector<Message>> ParseMessages(const json::Value& value) {
  if (!value.is_array()) return InvalidArgument("messages must be an array", "messages");
  std::vector<Message> messages;
  for (size_t i = 0; i < value.AsArray().size(); ++i) {
    DEEPINFER_ASSIGN_OR_RETURN(Message message,
                               ParseMessage(value.AsArray()[i], fmt::format("messages[{}]", i)));
    if (message.role == Role::kSystem && message.content.empty()) continue;
    messages.push_back(std::move(message));
  }
  if (messages.empty()) return InvalidArgument("a conversation needs at least one message", "messages");
  return messages;
}

Result<Conversation> ParseConversation(const json::Value& value) {
  Conversation out;
  if (value.is_array()) {
    DEEPINFER_ASSIGN_OR_RETURN(out.messages, ParseMessages(value));
    return out;
  }
  if (!value.is_object()) {
    return InvalidArgument("a conversation must be an array of messages or an object with `messages`");
  }
  const json::Value* messages = value.Find("messages");
  if (messages == nullptr) return InvalidArgument("the field `messages` is missing", "messages");
  DEEPINFER_ASSIGN_OR_RETURN(out.messages, ParseMessages(*messages));
  // `thinking` decides over `reasoning_effort`, whatever their order in the text.
  if (const json::Value* thinking = value.Find("thinking"); thinking != nullptr && !thinking->is_null()) {
    DEEPINFER_RETURN_IF_ERROR(ParseThinking(*thinking, &out));
  }
  if (const json::Value* effort = value.Find("reasoning_effort"); effort != nullptr && !effort->is_null()) {
    DEEPINFER_RETURN_IF_ERROR(ParseReasoningEffort(*effort, &out));
  }
  for (const auto& [key, member] : value.AsObject()) {
    if (key == "messages" || key == "thinking" || key == "reasoning_effort") continue;
    DEEPINFER_RETURN_IF_ERROR(RefuseUnsupported(key, member));
    if (key != "tools" && key != "tool_choice" && key != "response_format") out.other_fields.push_back(key);
  }
  return out;
}

json::Value MessagesToJson(std::span<const Message> messages) {
  json::Value out{json::Array{}};
  for (const Message& message : messages) {
    json::Value object;
    object.Set("role", RoleName(message.role));
    object.Set("content", message.content);
    if (!message.reasoning.empty()) object.Set("reasoning_content", message.reasoning);
    out.Append(std::move(object));
  }
  return out;
}

}  // namespace deepinfer::recipe::plain
