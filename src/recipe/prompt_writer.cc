#include "recipe/prompt_writer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "recipe/json_document.h"
#include "recipe/python_json.h"
#include "recipe/tool_schema.h"

namespace deepinfer::recipe::internal {
namespace {

// Fixed wording that the model was trained on (spec: recipe.md §3.5).
constexpr std::string_view kToolsBegin = R"(## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "<｜DSML｜ calls>" block like the following:

<｜DSML｜ calls>
<｜DSML｜ invoke name="$TOOL_NAME">
<｜DSML｜ parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜ parameter>
...
</｜DSML｜ invoke>
<｜DSML｜ invoke name="$TOOL_NAME2">
...
</｜DSML｜ invoke>
</｜DSML｜ calls>

String parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside <think>...</think> BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

)";
constexpr std::string_view kToolsEnd = R"(

You MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.
)";
constexpr std::string_view kLoadedTools = "\n\n### Updated Tool Schemas\n\n";
constexpr std::string_view kFormat =
    "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

// V4 has texts instead of numbers (observed in the library, profile v4).
constexpr std::string_view kV4JsonFormat =
    "\n\nYou are a helpful assistant designed to output JSON.\n## Response Format:\n\nReply with JSON object "
    "ONLY.";
constexpr std::string_view kV4EffortHigh =
    R"(Reasoning Effort: Absolute maximum with no shortcuts permitted.
You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the root cause, rigorously stress-testing your logic against all potential paths, edge cases, and adversarial scenarios.
Explicitly write out your entire deliberation process, documenting every intermediate step, considered alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.

)";
constexpr std::string_view kV4EffortMax =
    R"(Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.
You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively decompose the problem into its most fundamental components, trace every causal chain to its root, and resolve the underlying cause rather than any surface symptom.
Do not stop reasoning until you have independently verified the solution from multiple angles and are certain that no assumption remains unchecked and no error remains undiscovered.

)";

/// Tag names of V4.1 and of V4.
constexpr std::pair<std::string_view, std::string_view> kTagNames[] = {
    {" calls", "tool_calls"}, {" invoke", "invoke"}, {" parameter", "parameter"}};

constexpr std::array kTemplateTokens = {TokenRole::kThinkBegin, TokenRole::kThinkEnd, TokenRole::kDsml};

bool IsToolOrUser(const Message& message) {
  return std::holds_alternative<UserMessage>(message) || std::holds_alternative<ToolMessage>(message);
}

/// The object that a call's arguments are, or nothing. With `twice`, as the checkpoint encoder does, a string is decoded once more;
/// `inner` keeps its text.
std::optional<JsonDocument> ParseArguments(std::string_view text, bool twice, std::string* inner) {
  Result<JsonDocument> document = JsonDocument::Parse(text);
  if (document.ok() && twice && document->root().is_string()) {
    *inner = document->root().AsString();
    document = JsonDocument::Parse(*inner);
  }
  if (!document.ok() || !document->root().is_object()) return std::nullopt;
  return std::move(*document);
}

}  // namespace

void PromptWriter::Special(TokenRole role, std::string_view text) {
  const size_t begin = prompt_.text.size();
  prompt_.text += text;
  prompt_.special.push_back({begin, prompt_.text.size(), role});
}

void PromptWriter::Template(std::string_view text) {
  while (true) {
    size_t at = std::string_view::npos;
    TokenRole role{};
    for (const TokenRole candidate : kTemplateTokens) {
      const size_t found = text.find(TokenRoleText(candidate));
      if (found < at) {
        at = found;
        role = candidate;
      }
    }
    Text(text.substr(0, at));
    if (at == std::string_view::npos) return;
    Token(role);
    text.remove_prefix(at + TokenRoleText(role).size());
    if (role != TokenRole::kDsml || profile_ != PromptProfile::kV4) continue;
    for (const auto& [name, v4_name] : kTagNames) {
      if (!text.starts_with(name)) continue;
      Text(v4_name);
      text.remove_prefix(name.size());
      break;
    }
  }
}

void PromptWriter::Write(const Content& content) {
  const std::string_view text = content.text;
  size_t done = 0;
  for (const Content::Image& image : content.images) {
    const size_t offset = std::clamp(image.offset, done, text.size());
    Text(text.substr(done, offset - done));
    done = offset;
    Special(TokenRole::kImage, kImageText);
    prompt_.images.push_back(&image.source);
  }
  Text(text.substr(done));
}

void PromptWriter::ToolResult(const Content& content) {
  Text("<tool_result>");
  Write(content);
  Text("</tool_result>");
}

void PromptWriter::Calls(const std::vector<ToolCall>& calls) {
  Template("<｜DSML｜ calls>\n");
  for (size_t i = 0; i < calls.size(); ++i) {
    if (i > 0) Text("\n");
    Call(calls[i]);
  }
  Template("\n</｜DSML｜ calls>");
}

void PromptWriter::Call(const ToolCall& call) {
  Template("<｜DSML｜ invoke name=\"");
  Text(call.name);
  Text("\">\n");
  std::string inner;
  const auto arguments = ParseArguments(call.arguments, profile_ == PromptProfile::kCheckpoint, &inner);
  const NumberStyle style =
      profile_ == PromptProfile::kCheckpoint ? NumberStyle::kPython : NumberStyle::kRecipe;
  bool empty = false;
  if (!arguments) {
    Parameter("arguments", true, call.arguments);
  } else {
    const auto members = arguments->root().UniqueMembers();
    empty = members.empty();
    std::string value;
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0) Text("\n");
      const JsonView member = members[i].second;
      if (member.is_string()) {
        Parameter(members[i].first, true, member.AsString());
        continue;
      }
      value.clear();
      AppendPythonJson(member, style, &value);
      Parameter(members[i].first, false, value);
    }
  }
  // V4.1 leaves an empty line where there are no parameters, V4 does not.
  if (!empty || profile_ != PromptProfile::kV4) Text("\n");
  Template("</｜DSML｜ invoke>");
}

void PromptWriter::Parameter(std::string_view key, bool is_string, std::string_view value) {
  Template("<｜DSML｜ parameter name=\"");
  Text(key);
  Text(is_string ? "\" string=\"true\">" : "\" string=\"false\">");
  Text(value);
  Template("</｜DSML｜ parameter>");
}

Status PromptWriter::ToolLine(const Tool& tool) {
  if (profile_ == PromptProfile::kCheckpoint) {
    AppendToolAsGiven(tool, &prompt_.text);
    return OkStatus();
  }
  return AppendToolSchema(tool, &prompt_.text);
}

Status PromptWriter::Tools(const std::vector<Tool>& tools) {
  if (tools.empty()) return OkStatus();
  Text("\n\n");
  Template(kToolsBegin);
  bool first = true;
  for (const Tool& tool : tools) {
    if (tool.defer_loading) continue;
    if (!first) Text("\n");
    first = false;
    DEEPINFER_RETURN_IF_ERROR(ToolLine(tool));
  }
  Text(kToolsEnd);  // also when all tools are deferred: the list is empty then
  return OkStatus();
}

void PromptWriter::Format(const ResponseFormat& format) {
  const bool is_object = format.kind == ResponseFormat::Kind::kJsonObject;
  if (!is_object && format.kind != ResponseFormat::Kind::kJsonSchema) return;
  if (is_object && profile_ == PromptProfile::kV4) return Text(kV4JsonFormat);
  Text(kFormat);
  if (is_object) return Text(R"({"type": "json_object"})");
  AppendPythonJson(format.schema, &prompt_.text);
}

Status PromptWriter::LoadedTools(const std::vector<std::string>& names, const std::vector<Tool>& declared) {
  if (names.empty()) return OkStatus();
  std::vector<std::pair<std::string_view, const Tool*>> by_name;
  by_name.reserve(declared.size());
  for (const Tool& tool : declared) by_name.emplace_back(tool.name, &tool);
  std::stable_sort(by_name.begin(), by_name.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < names.size(); ++i) {
    Text(i == 0 ? kLoadedTools : "\n");
    const auto found =
        std::lower_bound(by_name.begin(), by_name.end(), std::string_view(names[i]),
                         [](const auto& entry, std::string_view name) { return entry.first < name; });
    if (found == by_name.end() || found->first != names[i]) {
      return InvalidArgument(fmt::format("the loaded tool '{}' is not declared", names[i]), "loaded_tools");
    }
    DEEPINFER_RETURN_IF_ERROR(ToolLine(*found->second));
  }
  return OkStatus();
}

void PromptWriter::EffortText(const Conversation& conversation) {
  const Effort effort = conversation.effort.value_or(Effort());
  if (profile_ != PromptProfile::kV4) {
    return Text(fmt::format(
        "Reasoning Effort: {} (range 1-100, the higher the value, the more thorough the reasoning)\n\n",
        effort.number));
  }
  const int low = 50, max = 100;
  if (effort.number > low) Text(effort.number < max ? kV4EffortHigh : kV4EffortMax);
}

void PromptWriter::PrefixBody(const AssistantMessage& message, bool thinking) {
  if (thinking) {
    if (message.reasoning) Text(*message.reasoning);
    // Without a text the reasoning itself is continued.
    if (message.content.empty()) return;
    Token(TokenRole::kThinkEnd);
  }
  Text(message.content);
}

Status WriteHead(const Conversation& conversation, PromptWriter& writer, bool* done) {
  const auto& messages = conversation.messages;
  const auto* system = messages.empty() ? nullptr : std::get_if<SystemMessage>(&messages.front());
  *done = system != nullptr;
  const ResponseFormat::Kind format = conversation.response_format.kind;
  const bool has_blocks = conversation.tools_active() || format == ResponseFormat::Kind::kJsonObject ||
                          format == ResponseFormat::Kind::kJsonSchema;
  writer.Token(TokenRole::kBos);
  if (system == nullptr && !has_blocks && !(conversation.thinking && !messages.empty())) return OkStatus();
  writer.Token(TokenRole::kSystem);
  if (conversation.thinking) writer.EffortText(conversation);
  if (system != nullptr) {
    writer.Write(system->content);
    DEEPINFER_RETURN_IF_ERROR(writer.Tools(system->tools));
  }
  if (conversation.tools_active()) DEEPINFER_RETURN_IF_ERROR(writer.Tools(conversation.tools));
  writer.Format(conversation.response_format);
  if (system == nullptr || !conversation.tools_active()) return OkStatus();
  return writer.LoadedTools(system->loaded_tools, conversation.tools);
}

Status WriteSystem(const SystemMessage& message, const Conversation& conversation, PromptWriter& writer) {
  writer.Write(message.content);
  DEEPINFER_RETURN_IF_ERROR(writer.Tools(message.tools));
  if (!conversation.tools_active()) return OkStatus();
  return writer.LoadedTools(message.loaded_tools, conversation.tools);
}

size_t EstimateSize(const Conversation& conversation) {
  constexpr size_t kPerPart = 64, kPerCall = 256, kPerTool = 512, kFixed = 2048;
  size_t size = kFixed + conversation.tools.size() * kPerTool;
  const auto add_content = [&size](const Content& content) {
    size += content.text.size() + content.images.size() * kImageText.size();
  };
  for (const Message& message : conversation.messages) {
    size += kPerPart;
    if (const auto* assistant = std::get_if<AssistantMessage>(&message)) {
      size += assistant->content.size() + (assistant->reasoning ? assistant->reasoning->size() : 0);
      for (const ToolCall& call : assistant->tool_calls) size += kPerCall + call.arguments.size();
    } else if (const auto* reminder = std::get_if<LatestReminder>(&message)) {
      size += reminder->content.size();
    } else if (const auto* user = std::get_if<UserMessage>(&message)) {
      add_content(user->content);
    } else if (const auto* tool = std::get_if<ToolMessage>(&message)) {
      add_content(tool->content);
    } else {
      add_content(std::get<SystemMessage>(message).content);
    }
  }
  return size;
}

namespace {

/// Place of each call of a turn, by id.
std::vector<std::pair<std::string_view, size_t>> CallRanks(const std::vector<ToolCall>& calls) {
  std::vector<std::pair<std::string_view, size_t>> ranks;
  ranks.reserve(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) ranks.emplace_back(calls[i].id, i);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

/// The last call with this id; an unknown id counts as the first call.
size_t RankOf(const std::vector<std::pair<std::string_view, size_t>>& ranks, std::string_view id) {
  const auto after = std::upper_bound(ranks.begin(), ranks.end(), std::pair(id, SIZE_MAX));
  return after != ranks.begin() && std::prev(after)->first == id ? std::prev(after)->second : 0;
}

}  // namespace

std::vector<size_t> RenderOrder(const std::vector<Message>& messages) {
  std::vector<size_t> order(messages.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::vector<std::pair<std::string_view, size_t>> ranks;
  std::vector<size_t> places, results;
  for (size_t i = 0; i < messages.size();) {
    if (const auto* assistant = std::get_if<AssistantMessage>(&messages[i])) {
      if (!assistant->tool_calls.empty()) ranks = CallRanks(assistant->tool_calls);
    }
    places.clear();
    size_t end = i;
    for (; end < messages.size() && IsToolOrUser(messages[end]); ++end) {
      if (std::holds_alternative<ToolMessage>(messages[end])) places.push_back(end);
    }
    if (places.size() > 1 && !ranks.empty()) {
      std::vector<std::pair<size_t, size_t>> ranked;
      for (const size_t place : places) {
        ranked.emplace_back(RankOf(ranks, std::get<ToolMessage>(messages[place]).tool_call_id), place);
      }
      std::sort(ranked.begin(), ranked.end());
      for (size_t k = 0; k < places.size(); ++k) order[places[k]] = ranked[k].second;
    }
    i = std::max(end, i + 1);
  }
  return order;
}

const AssistantMessage* PrefixMessage(const Conversation& conversation) {
  if (conversation.messages.empty()) return nullptr;
  const auto* last = std::get_if<AssistantMessage>(&conversation.messages.back());
  return last != nullptr && last->prefix ? last : nullptr;
}

}  // namespace deepinfer::recipe::internal
