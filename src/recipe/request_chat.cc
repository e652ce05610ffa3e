// OpenAI Chat Completions bodies with DeepSeek's extensions (spec: recipe.md §7.3).
#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "recipe/request_content.h"
#include "recipe/request_protocols.h"
#include "recipe/request_tools.h"
#include "recipe/request_validators.h"

namespace deepinfer::recipe {
namespace {

using Presence = FieldPresence;
using Type = FieldType;

bool ReadReasoningEffort(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadResponseFormat(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadTools(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadToolChoice(JsonView value, const FieldPath& path, RequestContext& context);
bool ReadMessages(JsonView value, const FieldPath& path, RequestContext& context);

constexpr Field kBodyFields[] = {
    {"model", Type::kString, Presence::kRequired, "a name of the model table or an alias", ReadModel},
    {"messages", Type::kArray, Presence::kRequired, "at least one message", ReadMessages},
    {"thinking", Type::kObject, Presence::kNullable, "goes before `reasoning_effort`", ReadThinking},
    {"reasoning_effort", Type::kAny, Presence::kNullable,
     "`none` (thinking off), `minimal`, `low`, `medium`, `high`, `xhigh`, `max`, `ultra`, or an integer from "
     "1 to 100",
     ReadReasoningEffort},
    {"max_tokens", Type::kUint32, Presence::kNullable, "1 to 393216", ReadMaxTokens},
    {"temperature", Type::kNumber, Presence::kNullable, "0 to 2; 1 with thinking on, whatever was asked for",
     ReadTemperature},
    {"top_p", Type::kNumber, Presence::kNullable,
     "above 0, up to 1; with thinking on at least 0.95, with thinking off always 1", ReadTopP},
    {"frequency_penalty", Type::kNumber, Presence::kNullable, "-2 to 2; without effect",
     ReadFrequencyPenalty},
    {"presence_penalty", Type::kNumber, Presence::kNullable, "-2 to 2; without effect", ReadPresencePenalty},
    {"logprobs", Type::kBool, Presence::kNullable, "log-probabilities of the answer's tokens", ReadLogprobs},
    {"top_logprobs", Type::kUint8, Presence::kNullable, "0 to 20; needs `logprobs: true`", ReadTopLogprobs},
    {"n", Type::kUint8, Presence::kNullable, "only 1", ReadChoiceCount},
    {"seed", Type::kUint64, Presence::kNullable, "0 to 2^63 - 1", ReadSeed},
    {"stop", Type::kStringOrArray, Presence::kNullable, "a string or up to 16 strings, none empty", ReadStop},
    {"stream", Type::kBool, Presence::kNullable, "the answer as a stream of events", ReadStream},
    {"stream_options", Type::kObject, Presence::kNullable, "only with `stream: true`", ReadStreamOptions},
    {"response_format", Type::kObject, Presence::kNullable, "see below", ReadResponseFormat},
    {"tools", Type::kArray, Presence::kNullable, "functions that the model may call", ReadTools},
    {"tool_choice", Type::kStringOrObject, Presence::kNullable,
     "`auto`, `none`, `required`, or `{\"type\": \"function\", \"function\": {\"name\": …}}`; a forced call "
     "needs thinking off; "
     "without tools nothing is forced",
     ReadToolChoice},
    {"parallel_tool_calls", Type::kBool, Presence::kNullable, "ignored"},
    {"user_id", Type::kAny, Presence::kNullable, "separates users in the cache", ReadUserId},
};

constexpr Field kMessageFields[] = {
    {"role", Type::kString, Presence::kRequired, "`system`, `user`, `assistant`, `tool`, `latest_reminder`"},
    {"content", Type::kAny, Presence::kOptional,
     "a string, or parts that are joined with an empty line; may be null or absent for `assistant` only; a "
     "string for "
     "`latest_reminder`. An empty system message vanishes"},
    {"name", Type::kAny, Presence::kNullable, "a string, ignored (any value for `tool`)"},
    {"reasoning_content", Type::kAny, Presence::kNullable,
     "`assistant`: a string, the reasoning of that turn"},
    {"tool_calls", Type::kAny, Presence::kNullable, "`assistant`: at least one call"},
    {"tool_call_id", Type::kAny, Presence::kNullable,
     "`tool`: required, the call that this is the result of"},
    {"prefix", Type::kAny, Presence::kNullable,
     "`assistant`, last message: `true` lets the answer continue it"},
};

constexpr Field kPartFields[] = {
    {"type", Type::kString, Presence::kRequired, "`text`, `image_url`, `file`"},
    {"text", Type::kAny, Presence::kOptional, "`text`: required, a string"},
    {"image_url", Type::kAny, Presence::kOptional, "`image_url`: required, see below"},
    {"file_data", Type::kAny, Presence::kNullable, "`file`: an image as a base64 `data:` URL"},
    {"file_id", Type::kAny, Presence::kNullable, "`file`: refused"},
};

constexpr Field kImageUrlFields[] = {
    {"url", Type::kString, Presence::kRequired,
     "an http(s) URL of at most 8192 bytes, or a base64 `data:` URL"},
    {"detail", Type::kString, Presence::kNullable, "`low`, `high` (default), `original`, `auto`"},
};

constexpr Field kCallFields[] = {
    {"id", Type::kString, Presence::kRequired, "any text, once in a message"},
    {"type", Type::kString, Presence::kRequired, "`function`"},
    {"function", Type::kObject, Presence::kRequired, "the call"},
};

constexpr Field kCallFunctionFields[] = {
    {"name", Type::kString, Presence::kRequired, "any text"},
    {"arguments", Type::kString, Presence::kRequired,
     "the text of a JSON object; other text becomes one parameter"},
};

constexpr Field kToolFields[] = {
    {"type", Type::kString, Presence::kRequired, "`function`"},
    {"function", Type::kAny, Presence::kOptional, "required, see below"},
};

constexpr Field kFunctionFields[] = {
    {"name", Type::kString, Presence::kRequired, "1 to 128 letters, digits, `_`, `-`; unique"},
    {"description", Type::kString, Presence::kNullable, "shown to the model"},
    {"parameters", Type::kAny, Presence::kNullable,
     "a JSON Schema with `\"type\": \"object\"`, no references to other documents"},
    {"strict", Type::kBool, Presence::kNullable,
     "the schema is brought into the strict form; all tools that may be called or none"},
};

constexpr Field kFormatFields[] = {
    {"type", Type::kString, Presence::kRequired,
     "`text`, `json_object` (some message must hold the word json), `json_schema`, `regex`"},
    {"json_schema", Type::kAny, Presence::kOptional, "`json_schema`: required, see below"},
    {"regex", Type::kAny, Presence::kOptional, "`regex`: required, a regular expression that compiles"},
};

constexpr Field kSchemaFields[] = {
    {"name", Type::kString, Presence::kNullable, "ignored"},
    {"schema", Type::kAny, Presence::kRequired, "a JSON Schema, no references to other documents"},
    {"strict", Type::kBool, Presence::kNullable, "the grammar uses the strict form of the schema"},
};

constexpr Field kChoiceFields[] = {
    {"type", Type::kString, Presence::kRequired, "`function`"},
    {"function", Type::kAny, Presence::kNullable, "required, names the tool that must be called"},
};

constexpr Field kChoiceFunctionFields[] = {
    {"name", Type::kString, Presence::kRequired, "a declared tool"},
};

constexpr FieldTable kTables[] = {
    {"body", kBodyFields},
    {"messages[]", kMessageFields},
    {"messages[].content[]", kPartFields},
    {"messages[].content[].image_url", kImageUrlFields},
    {"messages[].tool_calls[]", kCallFields},
    {"messages[].tool_calls[].function", kCallFunctionFields},
    {"tools[]", kToolFields},
    {"tools[].function", kFunctionFields},
    {"tool_choice", kChoiceFields},
    {"tool_choice.function", kChoiceFunctionFields},
    {"response_format", kFormatFields},
    {"response_format.json_schema", kSchemaFields},
    {"thinking", kThinkingFields},
    {"stream_options", kStreamOptionsFields},
};

constexpr std::array<std::string_view, 1> kFunctionType = {"function"};

bool ReadReasoningEffort(JsonView value, const FieldPath& path, RequestContext& context) {
  if (value.is_string()) return ReadEffort(value, path, context);
  int64_t number = 0;
  if (!value.GetInt64(&number) || number < 1 || number > 100) {
    return context.RejectBody(RejectKind::kWrongType, path,
                              "expected the name of an effort or an integer from 1 to 100");
  }
  context.effort_number = static_cast<int>(number);
  return true;
}

bool ReadJsonSchemaFormat(JsonView value, const FieldPath& path, RequestContext& context) {
  FieldValues values;
  if (!FieldValues::Read(value, path, kSchemaFields, context, &values)) return false;
  return UseResponseSchema(*values["schema"], values.Flag("strict"), context);
}

bool ReadResponseFormat(JsonView value, const FieldPath& path, RequestContext& context) {
  static constexpr std::array<std::string_view, 4> kTypes = {"json_object", "json_schema", "regex", "text"};
  FieldValues values;
  if (!FieldValues::Read(value, path, kFormatFields, context, &values)) return false;
  const auto type = ReadVariant(*values["type"], path.Member("type"), kTypes, context);
  if (!type.has_value()) return false;
  ResponseFormat& format = context.conversation().response_format;
  context.has_response_format = true;
  if (kTypes[*type] == "json_object") format.kind = ResponseFormat::Kind::kJsonObject;
  if (kTypes[*type] == "json_schema") {
    const auto schema = values.Required("json_schema", Type::kObject, path, context);
    return schema.has_value() && ReadJsonSchemaFormat(*schema, path.Member("json_schema"), context);
  }
  if (kTypes[*type] == "regex") {
    const auto regex = values.Required("regex", Type::kString, path, context);
    if (!regex.has_value()) return false;
    format.kind = ResponseFormat::Kind::kRegex;
    format.regex = regex->AsString();
  }
  return true;
}

bool ReadTool(JsonView value, size_t index, const FieldPath& path, RequestContext& context) {
  FieldValues tool_values;
  if (!FieldValues::Read(value, path, kToolFields, context, &tool_values)) return false;
  if (!ReadVariant(*tool_values["type"], path.Member("type"), kFunctionType, context)) return false;
  const auto function = tool_values.Required("function", Type::kObject, path, context);
  FieldValues values;
  if (!function.has_value() ||
      !FieldValues::Read(*function, path.Member("function"), kFunctionFields, context, &values)) {
    return false;
  }
  if (!CheckToolName(values.Text("name"), fmt::format("tools[{}].function.name", index), context))
    return false;
  context.conversation().tools.push_back(MakeTool(values, "parameters"));
  return true;
}

bool ReadTools(JsonView value, const FieldPath& path, RequestContext& context) {
  size_t index = 0;
  for (const JsonView tool : value.elements()) {
    if (!ReadTool(tool, index, path.Element(index), context)) return false;
    ++index;
  }
  return true;
}

bool ReadToolChoice(JsonView value, const FieldPath& path, RequestContext& context) {
  if (value.is_string()) return ReadToolChoiceName(value, path, context);
  FieldValues choice;
  if (!FieldValues::Read(value, path, kChoiceFields, context, &choice)) return false;
  if (!ReadVariant(*choice["type"], path.Member("type"), kFunctionType, context)) return false;
  const auto named = choice["function"];
  const FieldPath named_path = path.Member("function");
  if (!named.has_value()) return context.RejectBody(RejectKind::kWrongType, named_path, "expected an object");
  FieldValues function;
  if (!FieldValues::Read(*named, named_path, kChoiceFunctionFields, context, &function)) return false;
  context.tool_choice = {RequestedToolChoice::Kind::kNamed, std::string(function.Text("name"))};
  return true;
}

/// Reads the messages one after the other.
class MessageReader {
 public:
  explicit MessageReader(RequestContext& context) : context_(context) {}

  bool Read(JsonView messages, const FieldPath& path) {
    if (messages.size() == 0) return context_.Reject(RejectKind::kEmptyArray, "Empty input messages");
    context_.conversation().messages.reserve(messages.size());
    for (const JsonView message : messages.elements()) {
      if (!ReadMessage(message, path.Element(index_))) return false;
      ++index_;
    }
    if (open_results_ > 0) return RejectMissingResults();
    return true;
  }

 private:
  enum Role : uint8_t { kSystem, kUser, kAssistant, kTool, kLatestReminder, kDeveloper };

  bool ReadMessage(JsonView message, const FieldPath& path) {
    FieldValues values;
    if (!FieldValues::Read(message, path, kMessageFields, context_, &values)) return false;
    const auto role = ReadRole(*values["role"], path.Member("role"));
    if (!role.has_value()) return false;
    if (*role != kTool && !values.Check("name", Type::kString, path, context_)) return false;
    if (*role != kTool && open_results_ > 0) return RejectMissingResults();
    switch (*role) {
      case kSystem: return ReadSystem(values, path);
      case kUser: return ReadUser(values, path);
      case kAssistant: return ReadAssistant(values, path);
      case kTool: return ReadResult(values, path);
      case kLatestReminder: return ReadReminder(values, path);
      case kDeveloper:
        return context_.options.chat_developer == RequestOptions::DeveloperRole::kUser
                   ? ReadUser(values, path)
                   : ReadSystem(values, path);
    }
    return false;
  }

  std::optional<Role> ReadRole(JsonView value, const FieldPath& path) {
    static constexpr std::array<std::string_view, 6> kRoles = {
        "system", "user", "assistant", "tool", "latest_reminder", "developer"};
    const bool developer = context_.options.chat_developer != RequestOptions::DeveloperRole::kReject;
    const auto role = ReadVariant(value, path, std::span(kRoles).first(developer ? 6 : 5), context_);
    if (!role.has_value()) return std::nullopt;
    return static_cast<Role>(*role);
  }

  bool ReadSystem(const FieldValues& values, const FieldPath& path) {
    SystemMessage message;
    if (!ReadContent(values, path, &message.content)) return false;
    if (message.content.text.empty() && message.content.images.empty()) return true;
    context_.conversation().messages.emplace_back(std::move(message));
    return true;
  }

  bool ReadUser(const FieldValues& values, const FieldPath& path) {
    UserMessage message;
    if (!ReadContent(values, path, &message.content)) return false;
    context_.conversation().messages.emplace_back(std::move(message));
    return true;
  }

  bool ReadReminder(const FieldValues& values, const FieldPath& path) {
    const auto content = values.Required("content", Type::kString, path, context_);
    if (!content.has_value()) return false;
    context_.conversation().messages.emplace_back(LatestReminder{std::string(content->AsString())});
    return true;
  }

  bool ReadResult(const FieldValues& values, const FieldPath& path) {
    const auto id = values.Required("tool_call_id", Type::kString, path, context_);
    if (!id.has_value()) return false;
    ToolMessage message;
    message.tool_call_id = id->AsString();
    if (!ReadContent(values, path, &message.content)) return false;
    if (open_results_ == 0) {
      return context_.Reject(
          RejectKind::kToolHistory,
          "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'");
    }
    const auto call = calls_.find(id->AsString());
    if (call == calls_.end()) {
      return context_.Reject(
          RejectKind::kToolHistory,
          fmt::format(
              "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
              "'tool_call_id', The following tool_call_ids did not have response messages: {}",
              Shortened(id->AsString())));
    }
    if (!answered_.insert(id->AsString()).second) return RejectDuplicateCall(id->AsString());
    --open_results_;
    context_.conversation().messages.emplace_back(std::move(message));
    return true;
  }

  bool ReadAssistant(const FieldValues& values, const FieldPath& path) {
    AssistantMessage message;
    if (!values.Check("tool_calls", Type::kArray, path, context_) ||
        !values.Check("reasoning_content", Type::kString, path, context_) ||
        !values.Check("prefix", Type::kBool, path, context_)) {
      return false;
    }
    const auto calls = values["tool_calls"];
    const auto reasoning = values["reasoning_content"];
    const auto content = values["content"];
    const bool has_content = content.has_value() && !content->is_null();
    if (!has_content && !calls.has_value()) {
      return context_.Reject(RejectKind::kAssistantEmpty,
                             "Invalid assistant message: content or tool_calls must be set");
    }
    if (has_content && !ReadAssistantContent(values, path, &message)) return false;
    if (calls.has_value() && !ReadCalls(*calls, path.Member("tool_calls"), &message)) return false;
    if (reasoning.has_value()) message.reasoning = reasoning->AsString();
    message.prefix = values.Flag("prefix");
    context_.conversation().messages.emplace_back(std::move(message));
    return true;
  }

  bool ReadAssistantContent(const FieldValues& values, const FieldPath& path, AssistantMessage* message) {
    Content content;
    if (!ReadContent(values, path, &content)) return false;
    if (!content.images.empty()) {
      return context_.Reject(RejectKind::kImage, "Image in assistant message is not supported");
    }
    message->content = std::move(content.text);
    return true;
  }

  bool ReadCalls(JsonView calls, const FieldPath& path, AssistantMessage* message) {
    if (calls.size() == 0) {
      return context_.Reject(
          RejectKind::kEmptyArray,
          fmt::format("Invalid 'messages[{}].tool_calls': empty array. Expected an array with minimum "
                      "length 1, but got an empty array instead.",
                      index_));
    }
    calls_.clear();
    answered_.clear();
    size_t at = 0;
    for (const JsonView value : calls.elements()) {
      const FieldPath call_path = path.Element(at++);
      FieldValues call;
      FieldValues function;
      if (!FieldValues::Read(value, call_path, kCallFields, context_, &call) ||
          !ReadVariant(*call["type"], call_path.Member("type"), kFunctionType, context_) ||
          !FieldValues::Read(*call["function"], call_path.Member("function"), kCallFunctionFields, context_,
                             &function)) {
        return false;
      }
      if (!calls_.insert(call.Text("id")).second) return RejectDuplicateCall(call.Text("id"));
      message->tool_calls.push_back({std::string(call.Text("id")), std::string(function.Text("name")),
                                     std::string(function.Text("arguments"))});
    }
    open_results_ = calls.size();
    return true;
  }

  bool ReadContent(const FieldValues& values, const FieldPath& path, Content* content) {
    const FieldPath content_path = path.Member("content");
    const auto value = values["content"];
    if (!value.has_value())
      return context_.RejectBody(RejectKind::kMissingField, path, "missing field `content`");
    if (value->is_string()) {
      content->text = value->AsString();
      return true;
    }
    if (!value->is_array()) {
      return context_.RejectBody(RejectKind::kWrongType, content_path,
                                 "expected a string or a list of parts");
    }
    ContentBuilder builder;
    size_t at = 0;
    for (const JsonView part : value->elements()) {
      if (!ReadPart(part, content_path.Element(at++), &builder)) return false;
    }
    *content = builder.Take();
    return true;
  }

  bool ReadPart(JsonView part, const FieldPath& path, ContentBuilder* builder) {
    static constexpr std::array<std::string_view, 3> kTypes = {"text", "image_url", "file"};
    FieldValues values;
    if (!FieldValues::Read(part, path, kPartFields, context_, &values)) return false;
    const auto type = ReadVariant(*values["type"], path.Member("type"), kTypes, context_);
    if (!type.has_value()) return false;
    if (kTypes[*type] == "text") {
      const auto text = values.Required("text", Type::kString, path, context_);
      if (!text.has_value()) return false;
      builder->AddText(text->AsString());
      return true;
    }
    auto image = kTypes[*type] == "file" ? ReadFile(values, path) : ReadImage(values, path);
    if (!image.has_value()) return false;
    builder->AddImage(*std::move(image));
    return true;
  }

  std::optional<ImageSource> ReadImage(const FieldValues& values, const FieldPath& path) {
    const auto object = values.Required("image_url", Type::kObject, path, context_);
    if (!object.has_value()) return std::nullopt;
    const FieldPath url_path = path.Member("image_url");
    FieldValues image;
    if (!FieldValues::Read(*object, url_path, kImageUrlFields, context_, &image)) return std::nullopt;
    const auto detail = ReadImageDetail(image, url_path, context_);
    if (!detail.has_value()) return std::nullopt;
    const std::string place = MessagePlace();
    return ReadImageUrl(image.Text("url"), *detail, {place, place + ".image_url.url[0]", "image_url.url "},
                        context_);
  }

  std::optional<ImageSource> ReadFile(const FieldValues& values, const FieldPath& path) {
    if (!values.Check("file_data", Type::kString, path, context_) ||
        !values.Check("file_id", Type::kString, path, context_)) {
      return std::nullopt;
    }
    const auto data = values["file_data"];
    const auto id = values["file_id"];
    const std::string place = MessagePlace();
    std::string_view fault;
    if (id.has_value() && data.has_value()) {
      fault = "file cannot have both file_id and file_data";
    } else if (id.has_value()) {
      fault = "file_id is not supported. Pass the image as a base64 data url instead.";
    } else if (!data.has_value()) {
      fault = "file must have a file_id or file_data";
    }
    if (!fault.empty()) {
      context_.Reject(RejectKind::kImage, fmt::format("{}: {}", place, fault));
      return std::nullopt;
    }
    return ReadImageUrl(data->AsString(), ImageSource::Detail::kHigh, {place, place, {}, true}, context_);
  }

  // As the library writes it, with its leading full stop.
  std::string MessagePlace() const { return fmt::format(".messages[{}]", index_); }

  bool RejectMissingResults() {
    return context_.Reject(
        RejectKind::kToolHistory,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        "'tool_call_id'. (insufficient tool messages following tool_calls message)");
  }

  bool RejectDuplicateCall(std::string_view id) {
    return context_.Reject(
        RejectKind::kToolHistory,
        fmt::format("Duplicate value for 'tool_call_id' of {} in message[{}]", Shortened(id), index_));
  }

  RequestContext& context_;
  size_t index_ = 0;
  // The calls of the last assistant message and those that have a result.
  std::unordered_set<std::string_view> calls_;
  std::unordered_set<std::string_view> answered_;
  size_t open_results_ = 0;
};

bool ReadMessages(JsonView value, const FieldPath& path, RequestContext& context) {
  return MessageReader(context).Read(value, path);
}

// Declared tools count, also when none may be called, and so do calls of earlier turns.
bool HasToolsOrCalls(const Conversation& conversation) {
  return !conversation.tools.empty() ||
         std::any_of(conversation.messages.begin(), conversation.messages.end(), [](const Message& message) {
           const auto* turn = std::get_if<AssistantMessage>(&message);
           return turn != nullptr && !turn->tool_calls.empty();
         });
}

// Rules of prefix completion (spec: recipe.md §3.10).
bool CheckPrefix(RequestContext& context) {
  const Conversation& conversation = context.conversation();
  const auto is_prefix = [](const Message& message) {
    const auto* turn = std::get_if<AssistantMessage>(&message);
    return turn != nullptr && turn->prefix;
  };
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    if (!is_prefix(conversation.messages[i])) continue;
    if (i + 1 < conversation.messages.size()) {
      return context.Reject(
          RejectKind::kPrefix,
          "Invalid completion message: prefix set true with message which is not final message or message "
          "role is not assistant");
    }
    if (conversation.response_format.kind == ResponseFormat::Kind::kJsonObject) {
      return context.Reject(RejectKind::kPrefix,
                            "response_format json_object should not be used with prefix");
    }
    if (HasToolsOrCalls(conversation)) {
      return context.Reject(RejectKind::kPrefix, "Function call should not be used with prefix");
    }
  }
  return true;
}

bool CheckOptionPairs(RequestContext& context) {
  const InferenceOptions& inference = context.request.inference;
  if (inference.top_logprobs.has_value() && !inference.logprobs) {
    return context.Reject(
        RejectKind::kOptionPair,
        "Invalid top_logprobs and logprobs value, logprobs must be set to true if top_logprobs is used.");
  }
  return CheckStreamOptions(context);
}

}  // namespace

std::span<const FieldTable> ChatTables() { return kTables; }

bool ReadChatBody(JsonView body, RequestContext& context) {
  const FieldPath path;
  FieldValues values;
  return FieldValues::Read(body, path, kBodyFields, context, &values) && values.Validate(path, context) &&
         CheckOptionPairs(context) && CheckPrefix(context) && ResolveSettings(context);
}

}  // namespace deepinfer::recipe
