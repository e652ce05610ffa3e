// Request bodies of four protocols become one Request: a conversation to render, settings for sampling, for the output parser and
// for the form of the answer (spec: recipe.md §7, §8.4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "recipe/conversation.h"
#include "recipe/json_document.h"
#include "recipe/request_error.h"

namespace deepinfer::recipe {

/// Prompt format that a model name stands for (spec: recipe.md §8.2).
enum class ModelVersion : uint8_t { kV41Flash, kV4Pro };

/// What a server decides about the requests it takes. The defaults are those of DeepSeek's library, with our additions off.
struct RequestOptions {
  enum class WebSearch : uint8_t { kDrop, kReject };
  enum class DeveloperRole : uint8_t { kReject, kSystem, kUser };

  bool default_thinking = true;                        // when a request says nothing
  Effort default_effort = {};                          // with thinking on, when a request names none
  bool require_reasoning_history = false;              // `--require-reasoning-history` (spec: recipe.md §8.3)
  WebSearch messages_web_search = WebSearch::kReject;  // server tools `web_search*`
  WebSearch responses_web_search = WebSearch::kDrop;   // tools `web_search`
  DeveloperRole chat_developer =
      DeveloperRole::kReject;       // role `developer` in Chat Completions (spec: recipe.md §12 B40)
  bool fill_in_the_middle = false;  // `suffix` of Completions (spec: recipe.md §3.11: not confirmed for V4.1)
  int64_t max_tokens_bound = 393'216;        // largest answer that may be asked for
  int64_t context_length = 1'048'576;        // prompt and answer
  size_t max_body_bytes = size_t{48} << 20;  // spec: recipe.md §8.6
  /// Further model names; they win over those of §8.2.
  std::vector<std::pair<std::string, ModelVersion>> aliases;
};

/// A tool of a Responses namespace: the flat name that the prompt shows and its two parts (spec: recipe.md §7.6).
struct NamespacedTool {
  std::string flat_name;  // `ns::name`, with `_1`, `_2` … on a collision
  std::string name_space;
  std::string name;

  friend bool operator==(const NamespacedTool&, const NamespacedTool&) = default;
};

/// Settings that the object of the Responses protocol repeats as they were requested (spec: recipe.md §7.6). The values are ready to
/// be written; what was not given has its default.
struct ResponsesEcho {
  json::Value instructions;               // string or null
  json::Value max_output_tokens;          // integer or null
  json::Value reasoning_effort;           // name (or number, our extension) or null
  json::Value reasoning_summary;          // name or null
  json::Value temperature = 1.0F;         //
  json::Value text_format;                // object; {"type":"text"} by default
  json::Value text_verbosity;             // name or null
  json::Value tool_choice = "auto";       // name or object
  json::Value tools = json::Array{};      // array, members of known tool types in the library's order
  json::Value top_logprobs = int64_t{0};  //
  json::Value top_p = 1.0F;               //
  json::Value user;                       // string or null
};

/// A text completion; nothing of the chat format is used (spec: recipe.md §3.11).
struct Completion {
  std::string prompt;
  std::optional<std::string> suffix;  // given: fill in the middle
  bool echo = false;                  // the answer repeats the prompt
};

/// A request that passed all checks.
struct Request {
  Protocol protocol = Protocol::kChat;
  std::string model;  // as the client spells it; answers repeat it
  ModelVersion model_version = ModelVersion::kV41Flash;
  Conversation conversation;             // empty for Completions
  std::optional<Completion> completion;  // Completions only
  InferenceOptions inference;
  ParsingOptions parsing;
  bool stream = false;
  bool include_usage = false;  // Chat, Completions: `stream_options.include_usage`
  std::string user_id;         // isolation key (`user_id`, Messages `metadata.user_id`); empty = none
  std::vector<std::string>
      custom_tools;  // Responses: names of custom tools; their calls are answered as custom_tool_call
  std::vector<NamespacedTool> namespaces;  // Responses: tools that came from a namespace
  std::optional<ResponsesEcho> echo;       // Responses only
};

/// A Request, or the answer to give instead.
class RequestResult {
 public:
  RequestResult(Request request)
      : state_(std::in_place_index<0>, std::move(request)) {}  // NOLINT: implicit by design
  RequestResult(RequestError error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return state_.index() == 0; }
  Request& operator*() & { return std::get<0>(state_); }
  const Request& operator*() const& { return std::get<0>(state_); }
  Request&& operator*() && { return std::get<0>(std::move(state_)); }
  Request* operator->() { return &std::get<0>(state_); }
  const Request* operator->() const { return &std::get<0>(state_); }
  /// Only when !ok().
  const RequestError& error() const { return std::get<1>(state_); }

 private:
  std::variant<Request, RequestError> state_;
};

/// Reads a body and checks every field of recipe.md §7 that the protocol has; unknown top-level fields are ignored. Sampling values
/// are those of §7.2, thinking and effort those of §7.1. Nothing is fetched: images stay URLs.
RequestResult ParseRequest(Protocol protocol, std::string_view body, const RequestOptions& options = {});
/// The same for a body that is part of a larger document, of which it takes nothing but copies.
RequestResult ParseRequest(Protocol protocol, JsonView body, const RequestOptions& options = {});

/// How many tokens the answer may have, once the prompt's length is known (images at their span): the request's own number, else
/// 8192 without thinking, 65536 with it, 131072 at effort max, lowered to what the context leaves and raised to at least 1
/// (spec: recipe.md §7.2). Returns nothing and fills `error` when prompt and answer exceed the context (spec: recipe.md §8.7).
std::optional<int64_t> ResolveMaxTokens(const Request& request, int64_t prompt_tokens,
                                        const RequestOptions& options, RequestError* error);

/// The version that a model name stands for: options.aliases, then the names of recipe.md §8.2. Nothing for an unknown name.
std::optional<ModelVersion> FindModel(std::string_view name, const RequestOptions& options);

/// A name of recipe.md §7.1 other than "none", or a whole number from 1 to 100; nothing for any other text.
std::optional<Effort> FindEffort(std::string_view text);

/// "chat", "responses", "messages", "completions".
std::string_view ProtocolName(Protocol protocol);
std::optional<Protocol> FindProtocol(std::string_view name);

}  // namespace deepinfer::recipe
