// What every protocol is converted into and every prompt is rendered from (spec: recipe.md §2).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"

namespace deepinfer::recipe {

/// Where the bytes of an image come from. Nothing here fetches or decodes them.
struct ImageSource {
  enum class Kind : uint8_t { kUrl, kDataUrl };
  enum class Detail : uint8_t { kLow, kHigh, kOriginal, kAuto };
  Kind kind = Kind::kUrl;
  std::string location;  // the URL, or the whole `data:` URL
  Detail detail = Detail::kHigh;
  std::string path;  // place in the request, for errors, e.g. "messages[0].content[1]"

  friend bool operator==(const ImageSource&, const ImageSource&) = default;
};

/// A text with images at positions. An image is a part of its own: parts are joined with an empty line. Text that merely spells
/// an image token stays text (spec: recipe.md §3.8).
struct Content {
  struct Image {
    size_t offset = 0;  // bytes of `text` in front of it; the separators around it are part of `text`
    ImageSource source;

    friend bool operator==(const Image&, const Image&) = default;
  };
  std::string text;
  std::vector<Image> images;  // ascending offsets

  friend bool operator==(const Content&, const Content&) = default;
};

struct ToolCall {
  std::string id;
  std::string name;       // `namespace::name` for a tool of a namespace
  std::string arguments;  // as the client wrote it; not necessarily a JSON object

  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

struct Tool {
  std::string name;
  std::optional<std::string> description;
  std::optional<json::Value> parameters;  // nothing and null are the same: not given
  std::optional<bool> strict;
  bool defer_loading = false;  // left out of the prompt until a system turn loads it (spec: recipe.md §3.5)
};

/// Quick-instruction tokens of the checkpoint profile (spec: recipe.md §3.12).
enum class Task : uint8_t { kNone, kAction, kQuery, kAuthority, kDomain, kTitle, kReadUrl };

struct SystemMessage {
  Content content;
  std::vector<std::string> loaded_tools;  // names of deferred tools whose schemas end this turn
  std::vector<Tool> tools;                // checkpoint profile: tools as attributes of the message
};
struct UserMessage {
  Content content;
  Task task = Task::kNone;
  std::string url{};  // Task::kReadUrl: the page to read
};
struct LatestReminder {
  std::string content;
};
struct AssistantMessage {
  std::string content;
  std::optional<std::string>
      reasoning;  // nothing and "" differ where reasoning is demanded (spec: recipe.md §8.3)
  std::vector<ToolCall> tool_calls;
  bool prefix = false;  // the answer continues this text (spec: recipe.md §3.10)
  Task task = Task::kNone;
};
struct ToolMessage {
  Content content;
  std::string tool_call_id;
};
using Message = std::variant<SystemMessage, UserMessage, LatestReminder, AssistantMessage, ToolMessage>;

enum class ToolChoice : uint8_t { kAuto, kNone, kRequired };

/// Effort as a client names it; the number is what the prompt says (spec: recipe.md §3.7).
struct Effort {
  enum class Name : uint8_t { kLow, kHigh, kXhigh, kMax, kNumber };
  Name name = Name::kHigh;
  int number = 75;  // 1..100

  friend bool operator==(const Effort&, const Effort&) = default;
};

struct ResponseFormat {
  enum class Kind : uint8_t { kText, kJsonObject, kJsonSchema, kRegex };
  Kind kind = Kind::kText;
  json::Value schema;  // kJsonSchema
  std::string regex;   // kRegex
};

/// A conversation ready to be rendered.
struct Conversation {
  std::vector<Message> messages;
  bool thinking = true;
  std::vector<Tool> tools;
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::optional<Effort> effort;  // nothing: kHigh
  ResponseFormat response_format;

  /// Tools are declared and the model may call them; this decides about old reasoning, too (spec: recipe.md §3.2).
  bool tools_active() const { return !tools.empty() && tool_choice != ToolChoice::kNone; }
};

/// How the output parser begins (spec: recipe.md §6.1).
enum class ParserStage : uint8_t {
  kNone,       // an answer; leading newlines go
  kStart,      // reasoning; leading newlines go
  kReasoning,  // goes on with reasoning, newlines kept
  kContent,    // goes on with an answer, newlines kept
  kToolCalls,  // inside the calls block that the prompt opened
};

struct ParsingOptions {
  bool tools = false;  // recognise tool markup
  bool json = false;   // JSON mode: keep only the JSON
  ParserStage stage = ParserStage::kNone;
  std::vector<std::string> stops;

  friend bool operator==(const ParsingOptions&, const ParsingOptions&) = default;
};

/// What the grammar of the engine has to enforce (spec: recipe.md §7).
struct Constraint {
  enum class Kind : uint8_t { kJson, kRegex, kToolCall, kToolCallRequired };
  Kind kind = Kind::kJson;
  std::string text;  // a schema (empty: any JSON), a regular expression, or a compact array of the tools

  friend bool operator==(const Constraint&, const Constraint&) = default;
};

/// Sampling as resolved for the model (spec: recipe.md §7.2).
struct InferenceOptions {
  std::optional<int64_t> max_tokens;  // nothing: resolved once the prompt's length is known
  float temperature = 1.0F;
  float top_p = 1.0F;
  bool logprobs = false;
  std::optional<int> top_logprobs;
  std::optional<int64_t> seed;
  std::optional<Constraint> constraint;
};

enum class Protocol : uint8_t { kChat, kResponses, kMessages, kCompletions };

}  // namespace deepinfer::recipe
