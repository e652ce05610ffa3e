// From the settings that a body gave to those that hold for the model (spec: recipe.md §7.1, §7.2, §8.3).
#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "recipe/compact_json.h"
#include "recipe/json_schema.h"
#include "recipe/regex_syntax.h"
#include "recipe/request_context.h"
#include "recipe/request_tools.h"
#include "recipe/request_validators.h"
#include "recipe/tool_schema.h"

namespace deepinfer::recipe {
namespace {

Effort EffortOf(std::string_view name) {
  if (name == "minimal" || name == "low") return {Effort::Name::kLow, 50};
  if (name == "xhigh") return {Effort::Name::kXhigh, 75};
  if (name == "max" || name == "ultra") return {Effort::Name::kMax, 100};
  return {Effort::Name::kHigh, 75};
}

void ResolveThinking(RequestContext& context) {
  Conversation& conversation = context.conversation();
  const bool effort_given = context.effort.has_value() || context.effort_number.has_value();
  const bool effort_none = context.effort == "none";
  conversation.thinking =
      context.thinking.value_or(effort_given ? !effort_none : context.options.default_thinking);
  if (!conversation.thinking) return;
  if (context.effort_number.has_value()) {
    conversation.effort = Effort{Effort::Name::kNumber, *context.effort_number};
  } else if (context.effort.has_value()) {
    conversation.effort = EffortOf(*context.effort);  // "none" with thinking on is high, too
  } else {
    conversation.effort = context.options.default_effort;
  }
}

void ResolveSampling(RequestContext& context) {
  InferenceOptions& inference = context.request.inference;
  inference.max_tokens = context.max_tokens;
  if (context.protocol() == Protocol::kCompletions) {
    inference.temperature = context.temperature.value_or(1.0F);
    inference.top_p = context.top_p.value_or(1.0F);
    return;
  }
  const bool version_4 = context.request.model_version == ModelVersion::kV4Pro;
  if (!context.conversation().thinking) {
    inference.temperature = context.temperature.value_or(1.0F);
    inference.top_p = version_4 ? context.top_p.value_or(1.0F) : 1.0F;
    return;
  }
  constexpr float kLeastTopP = 0.95F;
  inference.temperature = 1.0F;
  inference.top_p = version_4 ? 1.0F : std::max(context.top_p.value_or(1.0F), kLeastTopP);
}

// Text of a message's content, whatever its role.
std::string_view ContentText(const Message& message) {
  struct Visitor {
    std::string_view operator()(const SystemMessage& m) const { return m.content.text; }
    std::string_view operator()(const UserMessage& m) const { return m.content.text; }
    std::string_view operator()(const LatestReminder& m) const { return m.content; }
    std::string_view operator()(const AssistantMessage& m) const { return m.content; }
    std::string_view operator()(const ToolMessage& m) const { return m.content.text; }
  };
  return std::visit(Visitor{}, message);
}

bool HoldsJsonWord(std::string_view text) {
  constexpr std::string_view kWord = "json";
  return std::search(text.begin(), text.end(), kWord.begin(), kWord.end(), [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + ('a' - 'A')) : a) == b;
         }) != text.end();
}

bool CheckJsonWord(RequestContext& context) {
  const Conversation& conversation = context.conversation();
  if (conversation.response_format.kind != ResponseFormat::Kind::kJsonObject) return true;
  const bool found = std::any_of(conversation.messages.begin(), conversation.messages.end(),
                                 [](const Message& message) { return HoldsJsonWord(ContentText(message)); });
  if (found) return true;
  return context.Reject(
      RejectKind::kJsonWord,
      context.protocol() == Protocol::kResponses
          ? "Response input messages must contain the word 'json' in some form to use 'text.format' of type "
            "'json_object'."
          : "Prompt must contain the word 'json' in some form to use 'response_format' of type "
            "'json_object'.");
}

// The strict form of an answer's schema. Unlike a tool's parameters it needs properties.
bool StrictResponseSchema(const json::Value& schema, RequestContext& context, std::string* text) {
  const auto normalised = NormalizeStrictSchema(schema);
  if (!normalised.ok()) {
    std::string message = normalised.status().message();
    constexpr std::string_view kToolWords = "Invalid tool parameters schema :";
    if (message.starts_with(kToolWords)) message.replace(0, kToolWords.size(), "Invalid json schema:");
    return context.Reject(RejectKind::kSchema, std::move(message));
  }
  const json::Value* type = schema.Find("type");
  if (type == nullptr || !type->is_string() || type->AsString() != "object") {
    return context.Reject(RejectKind::kSchema, "The top level of the json schema must be an object.");
  }
  const json::Value* properties = normalised->Find("properties");
  if (properties == nullptr || properties->AsObject().empty()) {
    return context.Reject(RejectKind::kSchema, "An object with no properties is not allowed.");
  }
  if (const auto fault = CheckJsonSchema(*normalised)) {
    return context.Reject(RejectKind::kSchema, "Invalid json schema: " + Shortened(*fault));
  }
  AppendCompactJson(*normalised, text);
  return true;
}

bool ResolveConstraint(RequestContext& context) {
  const Conversation& conversation = context.conversation();
  const ResponseFormat& format = conversation.response_format;
  std::optional<Constraint> constraint = ToolConstraint(conversation);
  std::string schema;
  if (format.kind == ResponseFormat::Kind::kJsonSchema) {
    if (!context.strict_format) {
      AppendCompactJson(format.schema, &schema);
    } else if (!StrictResponseSchema(format.schema, context, &schema)) {
      return false;
    }
  }
  if (format.kind == ResponseFormat::Kind::kRegex) {
    if (const auto fault = CheckRegex(format.regex)) {
      return context.Reject(RejectKind::kRegex, "Invalid regex: " + *fault);
    }
    if (!constraint) constraint = Constraint{Constraint::Kind::kRegex, format.regex};
  } else if (format.kind != ResponseFormat::Kind::kText && !constraint) {
    constraint = Constraint{Constraint::Kind::kJson, std::move(schema)};
  }
  context.request.inference.constraint = std::move(constraint);
  return true;
}

const AssistantMessage* PrefixTurn(const Conversation& conversation) {
  if (conversation.messages.empty()) return nullptr;
  const auto* last = std::get_if<AssistantMessage>(&conversation.messages.back());
  return last != nullptr && last->prefix ? last : nullptr;
}

// Where the answer begins (spec: recipe.md §3.10, §6.1, §17 D4).
ParserStage FirstStage(const Conversation& conversation) {
  if (conversation.tool_choice == ToolChoice::kRequired) return ParserStage::kToolCalls;
  const AssistantMessage* prefix = PrefixTurn(conversation);
  if (prefix != nullptr && !prefix->content.empty()) return ParserStage::kContent;
  if (!conversation.thinking) return ParserStage::kNone;
  const bool inside = prefix != nullptr && prefix->reasoning.has_value() && !prefix->reasoning->empty();
  return inside ? ParserStage::kReasoning : ParserStage::kStart;
}

// `call_NN_ET_…`: an id of ours that says that the model did not think (spec: recipe.md §6.4).
bool MarksEmptyThinking(std::string_view id) {
  constexpr std::string_view kBegin = "call_";
  constexpr std::string_view kMark = "_ET_";
  if (!id.starts_with(kBegin)) return false;
  id.remove_prefix(kBegin.size());
  const size_t digits = std::min(id.find_first_not_of("0123456789"), id.size());
  return digits >= 2 && digits <= 3 && id.substr(digits).starts_with(kMark);
}

bool LacksReasoning(const AssistantMessage& turn, bool tools_declared) {
  if (turn.reasoning.has_value() || turn.prefix) return false;
  if (!tools_declared && turn.tool_calls.empty()) return false;
  return std::none_of(turn.tool_calls.begin(), turn.tool_calls.end(),
                      [](const ToolCall& call) { return MarksEmptyThinking(call.id); });
}

bool CheckReasoningHistory(bool tools_declared, RequestContext& context) {
  const Conversation& conversation = context.conversation();
  if (!context.options.require_reasoning_history || !conversation.thinking) return true;
  for (auto message = conversation.messages.rbegin(); message != conversation.messages.rend(); ++message) {
    if (std::holds_alternative<UserMessage>(*message)) return true;
    const auto* turn = std::get_if<AssistantMessage>(&*message);
    if (turn == nullptr || !LacksReasoning(*turn, tools_declared)) continue;
    constexpr std::array<std::string_view, 4> kFields = {"reasoning_content", "reasoning_text",
                                                         "content[].thinking", ""};
    return context.Reject(RejectKind::kReasoningRequired,
                          fmt::format("The `{}` in the thinking mode must be passed back to the API.",
                                      kFields[static_cast<size_t>(context.protocol())]));
  }
  return true;
}

}  // namespace

std::optional<Effort> FindEffort(std::string_view text) {
  const bool is_name = std::find(kEffortNames.begin(), kEffortNames.end(), text) != kEffortNames.end();
  if (is_name && text != "none") return EffortOf(text);
  int number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size() || number < 1 || number > 100)
    return std::nullopt;
  return Effort{Effort::Name::kNumber, number};
}

bool ResolveSettings(RequestContext& context) {
  Conversation& conversation = context.conversation();
  const bool tools_declared = !conversation.tools.empty();
  ResolveThinking(context);
  if (!ResolveTools(context) || !CheckReasoningHistory(tools_declared, context) || !CheckJsonWord(context) ||
      !ResolveConstraint(context)) {
    return false;
  }
  ResolveSampling(context);
  ParsingOptions& parsing = context.request.parsing;
  parsing.tools = conversation.tools_active();
  parsing.json = conversation.response_format.kind == ResponseFormat::Kind::kJsonObject;
  parsing.stage = FirstStage(conversation);
  return true;
}

}  // namespace deepinfer::recipe
