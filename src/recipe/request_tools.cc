#include "recipe/request_tools.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "recipe/compact_json.h"
#include "recipe/json_schema.h"
#include "recipe/tool_schema.h"

namespace deepinfer::recipe {
namespace {

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

size_t CodePoints(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string CompactJson(const json::Value& value) {
  std::string text;
  AppendCompactJson(value, &text);
  return text;
}

// What is wrong with a tool's parameters, or nothing.
std::optional<std::string> ParametersFault(const json::Value& parameters) {
  if (auto fault = CheckJsonSchema(parameters)) return fault;
  const json::Value* type = parameters.Find("type");
  if (type != nullptr && type->is_string() && type->AsString() == "object") return std::nullopt;
  return fmt::format("schema must be a JSON Schema of 'type: \"object\"', got 'type: {}'.",
                     type == nullptr ? "null" : CompactJson(*type));
}

bool CheckUnique(RequestContext& context) {
  if (context.tool_choice.kind == RequestedToolChoice::Kind::kNone) return true;
  std::unordered_set<std::string_view> names;
  for (const Tool& tool : context.conversation().tools) {
    if (!names.insert(tool.name).second) {
      return context.Reject(RejectKind::kToolNamesUnique, "Tool names must be unique.");
    }
  }
  return true;
}

bool IsStrict(const Tool& tool) { return tool.strict.value_or(false); }

// Strict tools were normalised before, whose messages say more.
bool CheckParameters(const Tool& tool, RequestContext& context) {
  if (!tool.parameters.has_value()) return true;
  const auto fault = ParametersFault(*tool.parameters);
  if (!fault.has_value()) return true;
  return context.Reject(RejectKind::kSchema,
                        fmt::format("Invalid schema for function '{}': {}", tool.name, Shortened(*fault)));
}

// Applies `tool_choice` to the declared tools.
bool ResolveChoice(RequestContext& context) {
  using Kind = RequestedToolChoice::Kind;
  Conversation& conversation = context.conversation();
  const RequestedToolChoice& choice = context.tool_choice;
  if (choice.kind == Kind::kNone) {
    conversation.tools.clear();
    conversation.tool_choice = ToolChoice::kNone;
    return true;
  }
  if (choice.kind == Kind::kAuto || conversation.tools.empty()) return true;
  auto named = conversation.tools.end();
  if (choice.kind == Kind::kNamed) {
    named = std::find_if(conversation.tools.begin(), conversation.tools.end(),
                         [&](const Tool& tool) { return tool.name == choice.name; });
    if (named == conversation.tools.end()) {
      return context.Reject(
          RejectKind::kToolChoiceUnknown,
          fmt::format("Invalid value for 'tool_call': no function named '{}' was specified in the 'tools' "
                      "parameter.",
                      Shortened(choice.name)));
    }
  }
  if (conversation.thinking) {
    return context.Reject(RejectKind::kThinkingToolChoice, "Thinking mode does not support this tool_choice");
  }
  conversation.tool_choice = ToolChoice::kRequired;
  if (named != conversation.tools.end()) {
    Tool only = std::move(*named);
    conversation.tools.clear();
    conversation.tools.push_back(std::move(only));
  }
  return true;
}

// System turns load only tools that are still there; a turn that did nothing else goes.
void DropLoadsOfAbsentTools(Conversation* conversation) {
  std::unordered_set<std::string_view> names;
  for (const Tool& tool : conversation->tools) names.insert(tool.name);
  std::erase_if(conversation->messages, [&](Message& message) {
    auto* system = std::get_if<SystemMessage>(&message);
    if (system == nullptr || system->loaded_tools.empty()) return false;
    std::erase_if(system->loaded_tools, [&](const std::string& name) { return !names.contains(name); });
    return system->loaded_tools.empty() && system->content.text.empty() && system->content.images.empty();
  });
}

// Checks the schemas of all tools, also of those that a named choice leaves out; strict ones get their strict form first.
bool CheckSchemas(RequestContext& context) {
  if (context.tool_choice.kind == RequestedToolChoice::Kind::kNone) return true;
  for (Tool& tool : context.conversation().tools) {
    if (!IsStrict(tool)) {
      if (!CheckParameters(tool, context)) return false;
      continue;
    }
    auto normalised = NormalizeStrictSchema(tool.parameters.value_or(nullptr));
    if (!normalised.ok()) return context.Reject(RejectKind::kSchema, normalised.status().message());
    tool.parameters = *std::move(normalised);
    if (!CheckParameters(tool, context)) return false;
  }
  return true;
}

// Rules of the strict tools that may be called.
bool CheckStrictTools(RequestContext& context) {
  const std::vector<Tool>& tools = context.conversation().tools;
  if (std::none_of(tools.begin(), tools.end(), IsStrict)) return true;
  if (!std::all_of(tools.begin(), tools.end(), IsStrict)) {
    return context.Reject(RejectKind::kSchema,
                          "Cannot use strict tool with non-strict tool in the same request");
  }
  if (context.has_response_format) {
    return context.Reject(RejectKind::kOptionPair, "response_format should not be used with tools");
  }
  return true;
}

}  // namespace

bool CheckToolName(std::string_view name, std::string_view place, RequestContext& context) {
  constexpr size_t kLongest = 128;
  if (name.empty()) {
    return context.Reject(
        RejectKind::kEmptyString,
        fmt::format("Invalid '{}': empty string. Expected a string with minimum length 1, but got an empty "
                    "string instead.",
                    place));
  }
  if (const size_t length = CodePoints(name); length > kLongest) {
    return context.Reject(
        RejectKind::kToolName,
        fmt::format("Invalid '{}': string too long. Expected a string with maximum length {}, but got a "
                    "string with length {} instead.",
                    place, kLongest, length));
  }
  if (std::all_of(name.begin(), name.end(), IsNameCharacter)) return true;
  return context.Reject(
      RejectKind::kToolName,
      fmt::format("Invalid '{}': string does not match pattern. Expected a string that matches the pattern "
                  "'^[a-zA-Z0-9_-]+$'.",
                  place));
}

Tool MakeTool(const FieldValues& values, std::string_view parameters) {
  Tool tool;
  tool.name = values.Text("name");
  if (const auto description = values["description"]) tool.description = description->AsString();
  if (const auto schema = values[parameters]) tool.parameters = schema->ToValue();
  if (const auto strict = values["strict"]) tool.strict = strict->AsBool();
  return tool;
}

bool ResolveTools(RequestContext& context) {
  if (!CheckSchemas(context) || !CheckUnique(context) || !ResolveChoice(context)) return false;
  DropLoadsOfAbsentTools(&context.conversation());
  return CheckStrictTools(context);
}

std::optional<Constraint> ToolConstraint(const Conversation& conversation) {
  if (!conversation.tools_active()) return std::nullopt;
  std::string text = "[";
  for (const Tool& tool : conversation.tools) {
    json::Object function;
    function.emplace_back("name", tool.name);
    function.emplace_back("description",
                          tool.description.has_value() ? json::Value(*tool.description) : json::Value());
    function.emplace_back("parameters", tool.parameters.value_or(json::Object()));
    function.emplace_back("strict", tool.strict.has_value() ? json::Value(*tool.strict) : json::Value());
    json::Object entry;
    entry.emplace_back("type", "function");
    entry.emplace_back("function", std::move(function));
    if (tool.defer_loading) entry.emplace_back("defer_loading", true);
    if (text.size() > 1) text += ',';
    AppendCompactJson(entry, &text);
  }
  const bool required = conversation.tool_choice == ToolChoice::kRequired;
  return Constraint{required ? Constraint::Kind::kToolCallRequired : Constraint::Kind::kToolCall, text + "]"};
}

}  // namespace deepinfer::recipe
