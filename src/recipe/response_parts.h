// What the files of the response protocols share.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "recipe/response.h"

namespace deepinfer::recipe {

std::unique_ptr<ResponseStream> MakeChatStream(ResponseOptions options, EventSink* sink);
std::unique_ptr<ResponseStream> MakeMessagesStream(ResponseOptions options, EventSink* sink);
std::unique_ptr<ResponseStream> MakeResponsesStream(ResponseOptions options, EventSink* sink);
std::unique_ptr<ResponseStream> MakeCompletionsStream(ResponseOptions options, EventSink* sink);

json::Value ChatObject(const Answer& answer, const ResponseOptions& options);
json::Value MessagesObject(const Answer& answer, const ResponseOptions& options);
json::Value ResponsesObject(const Answer& answer, const ResponseOptions& options);
json::Value CompletionsObject(const Answer& answer, const ResponseOptions& options);

/// Appends a text that is valid UTF-8 as a JSON string.
void AppendString(std::string_view valid_utf8, std::string* out);

/// The object of Chat and Completions (spec: recipe.md §7.4).
json::Value UsageObject(const PromptUsage& prompt, int64_t completion_tokens,
                        std::optional<int64_t> reasoning_tokens);
/// `finish_reason` of Chat and Completions.
std::string_view ChatFinishReason(FinishReason reason);

/// A token as text; one that is no UTF-8 is spelled `\xf0\x9f`, byte by byte.
std::string TokenText(const Tokenizer& tokenizer, int32_t id);
/// Entries `{token, logprob, bytes, top_logprobs}`.
json::Array LogprobEntries(const Tokenizer& tokenizer, AnswerSink::Logprobs logprobs);
std::vector<const TokenLogprob*> Pointers(const std::vector<TokenLogprob>& logprobs);

/// {"error":{"message","type","param":null,"code"}} (spec: recipe.md §7).
json::Value ErrorBody(const StreamError& error);

/// Input of a custom tool, decoded from its growing arguments: the value of `input` when that is the first parameter and a JSON
/// string, else the argument text itself (spec: recipe.md §7.6). Escapes that JSON does not know stay as they are, and half of a
/// surrogate pair becomes U+FFFD. What is given does not depend on the cutting.
class CustomInputDecoder {
 public:
  /// Appends to `input` what these bytes add.
  void Push(std::string_view arguments, std::string* input);
  /// The arguments end here.
  void Finish(std::string* input);

 private:
  enum class State : uint8_t { kHead, kString, kRaw, kDone };

  void PushHead(char c, std::string* input);
  void PushString(char c, std::string* input);
  bool PushEscape(char c, std::string* input);
  void AppendUnit(uint32_t unit, std::string* input);
  void FlushSurrogate(std::string* input);

  State state_ = State::kHead;
  std::string head_;    // kHead: arguments so far
  std::string escape_;  // kString: an unfinished escape
  uint32_t high_surrogate_ = 0;
};

}  // namespace deepinfer::recipe
