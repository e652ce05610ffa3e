// Answers in the form of each protocol: one object, or a stream of events (spec: recipe.md §7.4-7.6, §8.4).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "recipe/answer_processor.h"
#include "recipe/conversation.h"
#include "recipe/request.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::recipe {

/// What an answer repeats or needs to know of its request.
struct ResponseOptions {
  std::string id;
  std::string model;
  int64_t created = 0;                          // seconds since 1970
  bool thinking = false;                        // the answer shows reasoning
  bool include_usage = false;                   // Chat, Completions: every event has the key `usage`
  std::function<int64_t()> clock = {};          // Responses: `completed_at`; nothing: `created`
  std::vector<std::string> custom_tools = {};   // Responses
  std::vector<NamespacedTool> namespaces = {};  // Responses
  ResponsesEcho echo = {};                      // Responses
  std::string echoed_prompt = {};               // Completions: begins the text
  std::shared_ptr<const Tokenizer> tokenizer =
      {};  // texts of tokens in logprobs; nothing: no logprobs are shown
};

/// What the answer to a request needs of it. `tokenizer` may be null.
ResponseOptions MakeResponseOptions(const Request& request, std::shared_ptr<const Tokenizer> tokenizer);
/// How the output for a request is read.
AnswerOptions MakeAnswerOptions(const Request& request);

/// A whole answer.
struct Answer {
  struct Call {
    std::string id, name, arguments;
  };
  AnswerStart start;
  std::string reasoning, text;
  std::vector<Call> calls;
  std::vector<TokenLogprob> reasoning_logprobs, text_logprobs;
  FinishReason reason = FinishReason::kEndOfStream;
  std::string stop_sequence;
  int64_t completion_tokens = 0;
  std::optional<int64_t> reasoning_tokens;
};

/// Puts the pieces of an answer together.
class AnswerCollector : public AnswerSink {
 public:
  void OnStart(const AnswerStart& start) override { answer_.start = start; }
  void OnReasoning(std::string_view text, Logprobs logprobs) override;
  void OnText(std::string_view text, Logprobs logprobs) override;
  void OnCall(const CallStart& call) override;
  void OnArguments(std::string_view json) override { answer_.calls.back().arguments += json; }
  void OnFinish(const AnswerFinish& finish) override;

  const Answer& answer() const { return answer_; }

 private:
  Answer answer_;
};

/// The complete response body.
json::Value ResponseObject(Protocol protocol, const Answer& answer, const ResponseOptions& options);

/// Takes the events of a stream. The name is empty where a protocol's events have none; `data` is a JSON object. Views are valid
/// during the call.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void OnEvent(std::string_view name, std::string_view data) = 0;
};

/// Appends events as server-sent event frames to a text.
class SseWriter : public EventSink {
 public:
  explicit SseWriter(std::string* out) : out_(out) {}
  void OnEvent(std::string_view name, std::string_view data) override;

 private:
  std::string* out_;
};

/// The frame after the last event of a stream that ended well: `data: [DONE]` for Chat and Completions, else empty.
std::string_view SseTerminator(Protocol protocol);

/// Why a stream broke off.
struct StreamError {
  std::string message;
  std::string type = "internal_error";
  std::string code = "internal_error";
};

/// Turns the pieces of an answer into events.
class ResponseStream : public AnswerSink {
 public:
  /// Ends the stream with an error event instead of a finish (spec: recipe.md §8.7). Nothing may follow, no terminator either.
  virtual void OnError(const StreamError& error) = 0;
};

/// The sink must outlive the stream.
std::unique_ptr<ResponseStream> MakeResponseStream(Protocol protocol, ResponseOptions options,
                                                   EventSink* sink);

}  // namespace deepinfer::recipe
