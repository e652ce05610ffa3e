// Anthropic Messages bodies (spec: recipe.md §7.5).
#include <algorithm>

#include <fmt/format.h>

#include "recipe/messages_blocks.h"
#include "recipe/request_content.h"
#include "recipe/request_protocols.h"
#include "recipe/request_tools.h"
#include "recipe/request_validators.h"

namespace deepinfer::recipe {
namespace {

using Presence = FieldPresence;
using Type = FieldType;

bool ReadSystem(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadTools(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadToolChoice(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadOutputConfig(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadMetadata(JsonView value, const FieldPath& path, RequestContext& context);

constexpr Field kBodyFields[] = {
    {"model", Type::kString, Presence::kRequired, "a name of the model table or an alias", ReadModel},
    {"messages", Type::kArray, Presence::kRequired, "at least one message"},
    {"system", Type::kStringOrArray, Presence::kNullable,
     "a string or text blocks that are joined with an empty line; an empty one still opens a system turn",
     ReadSystem},
    {"max_tokens", Type::kUint32, Presence::kNullable, "at least 1; a value above 393216 is lowered to it",
     ReadMaxTokens},
    {"temperature", Type::kNumber, Presence::kNullable, "0 to 2; 1 with thinking on, whatever was asked for",
     ReadTemperature},
    {"top_p", Type::kNumber, Presence::kNullable,
     "above 0, up to 1; with thinking on at least 0.95, with thinking off always 1", ReadTopP},
    {"stop_sequences", Type::kArray, Presence::kNullable, "up to 16 strings, none empty", ReadStop},
    {"stream", Type::kBool, Presence::kNullable, "the answer as a stream of events", ReadStream},
    {"thinking", Type::kObject, Presence::kNullable, "goes before `output_config.effort`", ReadThinking},
    {"output_config", Type::kObject, Presence::kNullable, "see below", ReadOutputConfig},
    {"tools", Type::kArray, Presence::kNullable, "functions that the model may call", ReadTools},
    {"tool_choice", Type::kObject, Presence::kNullable, "see below", ReadToolChoice},
    {"metadata", Type::kObject, Presence::kNullable, "see below", ReadMetadata},
};

constexpr Field kSystemBlockFields[] = {
    {"type", Type::kString, Presence::kRequired, "`text`"},
    {"text", Type::kString, Presence::kRequired, "the text"},
};

constexpr Field kToolFields[] = {
    {"name", Type::kAny, Presence::kOptional, "required: 1 to 128 letters, digits, `_`, `-`; unique"},
    {"description", Type::kString, Presence::kNullable, "shown to the model"},
    {"input_schema", Type::kAny, Presence::kOptional,
     "required: a JSON Schema with `\"type\": \"object\"`, no references to other documents"},
    {"defer_loading", Type::kBool, Presence::kNullable,
     "hidden until a `tool_addition` or a `tool_reference` loads it; not for all tools"},
    {"type", Type::kString, Presence::kOptional,
     "makes it a tool of the server: refused; `web_search*` is ignored where the server says so"},
};

constexpr Field kToolChoiceFields[] = {
    {"type", Type::kString, Presence::kRequired,
     "`auto`, `any` (like `auto`), `none`, `tool` (a forced call; needs thinking off)"},
    {"name", Type::kAny, Presence::kOptional, "`tool`: required, a declared tool"},
    {"disable_parallel_tool_use", Type::kBool, Presence::kNullable, "ignored"},
};

constexpr Field kOutputConfigFields[] = {
    {"effort", Type::kAny, Presence::kNullable,
     "`none` (thinking off), `minimal`, `low`, `medium`, `high`, `xhigh`, `max`, `ultra`"},
    {"format", Type::kObject, Presence::kNullable, "an answer that follows a schema"},
};

constexpr Field kOutputFormatFields[] = {
    {"type", Type::kString, Presence::kRequired, "`json_schema`"},
    {"schema", Type::kAny, Presence::kRequired, "a JSON Schema, no references to other documents"},
};

constexpr Field kMetadataFields[] = {
    {"user_id", Type::kString, Presence::kNullable, "separates users in the cache"},
};

constexpr FieldTable kTables[] = {
    {"body", kBodyFields},
    {"system[]", kSystemBlockFields},
    {"messages[]", kMessagesMessageFields},
    {"messages[].content[]", kMessagesBlockFields},
    {"messages[].content[].source", kMessagesSourceFields},
    {"messages[].content[].tool", kMessagesReferenceFields},
    {"tools[]", kToolFields},
    {"tool_choice", kToolChoiceFields},
    {"thinking", kThinkingFields},
    {"output_config", kOutputConfigFields},
    {"output_config.format", kOutputFormatFields},
    {"metadata", kMetadataFields},
};

bool ReadSystem(JsonView value, const FieldPath& path, RequestContext& context) {
  static constexpr std::array<std::string_view, 1> kTypes = {"text"};
  SystemMessage message;
  if (value.is_string()) {
    message.content.text = value.AsString();
  } else {
    ContentBuilder builder;
    size_t index = 0;
    for (const JsonView block : value.elements()) {
      const FieldPath block_path = path.Element(index++);
      FieldValues values;
      // The type decides first what the block needs.
      if (!block.is_object())
        return context.RejectBody(RejectKind::kWrongType, block_path, "expected an object");
      if (const auto type = block.Find("type");
          type && !ReadVariant(*type, block_path.Member("type"), kTypes, context)) {
        return false;
      }
      if (!FieldValues::Read(block, block_path, kSystemBlockFields, context, &values)) return false;
      builder.AddText(values.Text("text"));
    }
    message.content = builder.Take();
  }
  context.conversation().messages.emplace_back(std::move(message));
  return true;
}

bool ReadTool(JsonView value, size_t index, const FieldPath& path, RequestContext& context) {
  FieldValues values;
  if (!FieldValues::Read(value, path, kToolFields, context, &values)) return false;
  if (values["type"].has_value()) {
    const bool search = values.Text("type").starts_with("web_search");
    if (search && context.options.messages_web_search == RequestOptions::WebSearch::kDrop) return true;
    return context.Reject(RejectKind::kServerTool,
                          fmt::format("tools[{}]: server tools are not supported", index));
  }
  if (!values.Required("name", Type::kString, path, context)) return false;
  if (!CheckToolName(values.Text("name"), fmt::format("tools[{}].name", index), context)) return false;
  Tool tool = MakeTool(values, "input_schema");
  if (!tool.parameters.has_value()) tool.parameters.emplace();  // null, which is no schema
  tool.defer_loading = values.Flag("defer_loading");
  context.conversation().tools.push_back(std::move(tool));
  return true;
}

bool ReadTools(JsonView value, const FieldPath& path, RequestContext& context) {
  size_t index = 0;
  for (const JsonView tool : value.elements()) {
    if (!ReadTool(tool, index, path.Element(index), context)) return false;
    ++index;
  }
  const std::vector<Tool>& tools = context.conversation().tools;
  if (!tools.empty() &&
      std::all_of(tools.begin(), tools.end(), [](const Tool& tool) { return tool.defer_loading; })) {
    return context.Reject(
        RejectKind::kToolSearch,
        "tools: at least one tool must have defer_loading=false. All tools cannot be deferred.");
  }
  return true;
}

bool ReadToolChoice(JsonView value, const FieldPath& path, RequestContext& context) {
  static constexpr std::array<std::string_view, 4> kTypes = {"auto", "any", "tool", "none"};
  FieldValues values;
  if (!FieldValues::Read(value, path, kToolChoiceFields, context, &values)) return false;
  const auto type = ReadVariant(*values["type"], path.Member("type"), kTypes, context);
  if (!type.has_value()) return false;
  if (kTypes[*type] == "none") context.tool_choice.kind = RequestedToolChoice::Kind::kNone;
  if (kTypes[*type] == "tool") {
    const auto name = values.Required("name", Type::kString, path, context);
    if (!name.has_value()) return false;
    context.tool_choice = {RequestedToolChoice::Kind::kNamed, std::string(name->AsString())};
  }
  return true;
}

bool ReadOutputConfig(JsonView value, const FieldPath& path, RequestContext& context) {
  static constexpr std::array<std::string_view, 1> kTypes = {"json_schema"};
  FieldValues values;
  if (!FieldValues::Read(value, path, kOutputConfigFields, context, &values)) return false;
  const auto effort = values["effort"];
  if (effort.has_value() && !ReadEffort(*effort, path.Member("effort"), context)) return false;
  const auto format = values["format"];
  if (!format.has_value()) return true;
  const FieldPath format_path = path.Member("format");
  FieldValues format_values;
  if (!FieldValues::Read(*format, format_path, kOutputFormatFields, context, &format_values)) return false;
  return ReadVariant(*format_values["type"], format_path.Member("type"), kTypes, context) &&
         UseResponseSchema(*format_values["schema"], false, context);
}

bool ReadMetadata(JsonView value, const FieldPath& path, RequestContext& context) {
  FieldValues values;
  if (!FieldValues::Read(value, path, kMetadataFields, context, &values)) return false;
  context.request.user_id = values.Text("user_id");
  return true;
}

}  // namespace

std::span<const FieldTable> MessagesTables() { return kTables; }

bool ReadMessagesBody(JsonView body, RequestContext& context) {
  const FieldPath path;
  context.lower_max_tokens = true;
  FieldValues values;
  return FieldValues::Read(body, path, kBodyFields, context, &values) && values.Validate(path, context) &&
         ReadMessagesTurns(*values["messages"], path.Member("messages"), context) && ResolveSettings(context);
}

}  // namespace deepinfer::recipe
