// OpenAI Responses bodies (spec: recipe.md §7.6).
#include <fmt/format.h>

#include "recipe/request_protocols.h"
#include "recipe/request_tools.h"
#include "recipe/request_validators.h"
#include "recipe/responses_items.h"
#include "recipe/responses_tools.h"

namespace deepinfer::recipe {
namespace {

using Presence = FieldPresence;
using Type = FieldType;

bool ReadInstructions(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadReasoning(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadText(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadToolChoice(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadUser(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadTopCandidates(JsonView value, const FieldPath& path, RequestContext& context);

constexpr Field kBodyFields[] = {
    {"model", Type::kString, Presence::kRequired, "a name of the model table or an alias", ReadModel},
    {"input", Type::kStringOrArray, Presence::kNullable,
     "a user text, or at least one item; needed without `instructions`"},
    {"instructions", Type::kString, Presence::kNullable, "the first system turn, unless empty",
     ReadInstructions},
    {"max_output_tokens", Type::kUint32, Presence::kNullable, "1 to 393216", ReadMaxTokens},
    {"temperature", Type::kNumber, Presence::kNullable, "0 to 2; 1 with thinking on, whatever was asked for",
     ReadTemperature},
    {"top_p", Type::kNumber, Presence::kNullable,
     "above 0, up to 1; with thinking on at least 0.95, with thinking off always 1", ReadTopP},
    {"top_logprobs", Type::kUint8, Presence::kNullable, "0 to 20", ReadTopCandidates},
    {"stream", Type::kBool, Presence::kNullable, "the answer as a stream of events", ReadStream},
    {"reasoning", Type::kObject, Presence::kNullable, "see below", ReadReasoning},
    {"text", Type::kObject, Presence::kNullable, "see below", ReadText},
    {"tools", Type::kArray, Presence::kNullable, "see below"},
    {"tool_choice", Type::kStringOrObject, Presence::kNullable,
     "`auto`, `none`, `required` or an object; a forced call needs thinking off; without tools nothing is "
     "forced",
     ReadToolChoice},
    {"user", Type::kString, Presence::kNullable, "repeated in the answer", ReadUser},
    {"user_id", Type::kAny, Presence::kNullable, "separates users in the cache", ReadUserId},
};

constexpr Field kReasoningFields[] = {
    {"effort", Type::kAny, Presence::kNullable,
     "`none` (thinking off), `minimal`, `low`, `medium`, `high`, `xhigh`, `max`, `ultra`"},
    {"summary", Type::kAny, Presence::kNullable,
     "`auto`, `concise`, `detailed`; repeated in the answer, no summary is made"},
    {"generate_summary", Type::kAny, Presence::kNullable, "the older name of `summary`"},
};

constexpr Field kTextFields[] = {
    {"format", Type::kObject, Presence::kOptional, "the form of the answer"},
    {"verbosity", Type::kAny, Presence::kNullable,
     "`low`, `medium`, `high`; repeated in the answer, without effect"},
};

constexpr Field kFormatFields[] = {
    {"type", Type::kString, Presence::kRequired,
     "`text`, `json_object` (some message must hold the word json), `json_schema`"},
    {"name", Type::kAny, Presence::kOptional, "`json_schema`: required"},
    {"schema", Type::kAny, Presence::kOptional,
     "`json_schema`: required, a JSON Schema, no references to other documents"},
    {"description", Type::kAny, Presence::kNullable, "`json_schema`: repeated in the answer"},
    {"strict", Type::kAny, Presence::kNullable,
     "`json_schema`: the grammar uses the strict form of the schema"},
};

constexpr Field kChoiceFields[] = {
    {"type", Type::kString, Presence::kRequired,
     "`function`, `custom`: the tool must be called; `web_search`, `web_search_2025_08_26`: like `auto`"},
    {"name", Type::kAny, Presence::kOptional, "a declared tool; `namespace::name` for one of a namespace"},
};

constexpr FieldTable kTables[] = {
    {"body", kBodyFields},
    {"input[]", kResponsesItemFields},
    {"input[].content[], input[].output[]", kResponsesBlockFields},
    {"tools[], tools[].tools[], input[].tools[]", kResponsesToolFields},
    {"tool_choice", kChoiceFields},
    {"reasoning", kReasoningFields},
    {"text", kTextFields},
    {"text.format", kFormatFields},
};

bool ReadInstructions(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  context.request.echo->instructions = value.AsString();
  if (value.AsString().empty()) return true;
  SystemMessage message;
  message.content.text = value.AsString();
  context.conversation().messages.emplace_back(std::move(message));
  return true;
}

bool ReadUser(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  context.request.echo->user = value.AsString();
  return true;
}

bool ReadTopCandidates(JsonView value, const FieldPath& path, RequestContext& context) {
  context.request.inference.logprobs = true;
  if (!ReadTopLogprobs(value, path, context)) return false;
  context.request.echo->top_logprobs = int64_t{*context.request.inference.top_logprobs};
  return true;
}

bool ReadReasoning(JsonView value, const FieldPath& path, RequestContext& context) {
  static constexpr std::array<std::string_view, 3> kSummaries = {"auto", "concise", "detailed"};
  FieldValues values;
  if (!FieldValues::Read(value, path, kReasoningFields, context, &values)) return false;
  ResponsesEcho& echo = *context.request.echo;
  if (const auto effort = values["effort"]) {
    if (!ReadEffort(*effort, path.Member("effort"), context)) return false;
    echo.reasoning_effort = effort->AsString();
  }
  for (const std::string_view name : {"generate_summary", "summary"}) {
    const auto summary = values[name];
    if (!summary.has_value()) continue;
    if (!ReadVariant(*summary, path.Member(name), kSummaries, context)) return false;
    echo.reasoning_summary = summary->AsString();
  }
  return true;
}

bool ReadSchemaFormat(const FieldValues& values, const FieldPath& path, RequestContext& context) {
  const auto name = values.Required("name", Type::kString, path, context);
  if (!name.has_value()) return false;
  const auto schema = values.Required("schema", Type::kAny, path, context);
  if (!schema.has_value() || !values.Check("description", Type::kString, path, context) ||
      !values.Check("strict", Type::kBool, path, context)) {
    return false;
  }
  const auto description = values["description"];
  const auto strict = values["strict"];
  json::Object echo;
  echo.emplace_back("type", "json_schema");
  echo.emplace_back("name", name->AsString());
  echo.emplace_back("schema", schema->ToValue());
  echo.emplace_back("description", description.has_value() ? description->ToValue() : json::Value());
  echo.emplace_back("strict", strict.has_value() ? strict->ToValue() : json::Value());
  context.request.echo->text_format = std::move(echo);
  return UseResponseSchema(*schema, values.Flag("strict"), context);
}

bool ReadFormat(JsonView value, const FieldPath& path, RequestContext& context) {
  static constexpr std::array<std::string_view, 3> kTypes = {"text", "json_schema", "json_object"};
  FieldValues values;
  if (!FieldValues::Read(value, path, kFormatFields, context, &values)) return false;
  const auto type = ReadVariant(*values["type"], path.Member("type"), kTypes, context);
  if (!type.has_value()) return false;
  context.has_response_format = kTypes[*type] != "text";
  if (kTypes[*type] == "json_schema") return ReadSchemaFormat(values, path, context);
  if (kTypes[*type] == "json_object") {
    context.conversation().response_format.kind = ResponseFormat::Kind::kJsonObject;
    context.request.echo->text_format = json::Object{{"type", "json_object"}};
  }
  return true;
}

bool ReadText(JsonView value, const FieldPath& path, RequestContext& context) {
  static constexpr std::array<std::string_view, 3> kVerbosities = {"low", "medium", "high"};
  FieldValues values;
  if (!FieldValues::Read(value, path, kTextFields, context, &values)) return false;
  if (const auto verbosity = values["verbosity"]) {
    if (!ReadVariant(*verbosity, path.Member("verbosity"), kVerbosities, context)) return false;
    context.request.echo->text_verbosity = verbosity->AsString();
  }
  const auto format = values["format"];
  return !format.has_value() || ReadFormat(*format, path.Member("format"), context);
}

bool ReadToolChoice(JsonView value, const FieldPath& path, RequestContext& context) {
  static constexpr std::array<std::string_view, 4> kTypes = {"function", "web_search",
                                                             "web_search_2025_08_26", "custom"};
  ResponsesEcho& echo = *context.request.echo;
  if (value.is_string()) {
    echo.tool_choice = value.AsString();
    return ReadToolChoiceName(value, path, context);
  }
  FieldValues values;
  if (!FieldValues::Read(value, path, kChoiceFields, context, &values)) return false;
  const auto type = ReadVariant(*values["type"], path.Member("type"), kTypes, context);
  if (!type.has_value()) return false;
  json::Object choice;
  choice.emplace_back("type", kTypes[*type]);
  if (!kTypes[*type].starts_with("web_search")) {
    const auto name = values.Required("name", Type::kString, path, context);
    if (!name.has_value()) return false;
    context.tool_choice = {RequestedToolChoice::Kind::kNamed, std::string(name->AsString())};
    choice.emplace_back("name", name->AsString());
  }
  echo.tool_choice = std::move(choice);
  return true;
}

bool ReadInput(std::optional<JsonView> input, const FieldPath& path, ResponsesToolReader* tools,
               RequestContext& context) {
  if (!input.has_value()) {
    return !context.conversation().messages.empty() ||
           context.Reject(RejectKind::kOptionPair, "Either input or instructions must be provided");
  }
  if (input->is_string()) {
    UserMessage message;
    message.content.text = input->AsString();
    context.conversation().messages.emplace_back(std::move(message));
    return true;
  }
  if (input->size() == 0)
    return context.Reject(RejectKind::kEmptyArray, "Input items array must not be empty");
  return ReadResponsesItems(*input, path, tools, context);
}

// Settings are repeated as they were asked for, not as they were resolved.
void EchoSampling(RequestContext& context) {
  ResponsesEcho& echo = *context.request.echo;
  if (context.max_tokens.has_value()) echo.max_output_tokens = *context.max_tokens;
  if (context.temperature.has_value()) echo.temperature = *context.temperature;
  if (context.top_p.has_value()) echo.top_p = *context.top_p;
}

}  // namespace

std::span<const FieldTable> ResponsesTables() { return kTables; }

bool ReadResponsesBody(JsonView body, RequestContext& context) {
  const FieldPath path;
  ResponsesEcho& echo = context.request.echo.emplace();
  echo.text_format = json::Object{{"type", "text"}};
  FieldValues values;
  if (!FieldValues::Read(body, path, kBodyFields, context, &values) || !values.Validate(path, context))
    return false;
  EchoSampling(context);
  ResponsesToolReader tools(context);
  if (const auto declared = values["tools"]) {
    ResponsesToolReader::Listing listing;
    if (!tools.Read(*declared, path.Member("tools"), "tools", false, &listing)) return false;
    echo.tools = std::move(listing.echo);
  }
  return ReadInput(values["input"], path.Member("input"), &tools, context) && ResolveSettings(context);
}

}  // namespace deepinfer::recipe
