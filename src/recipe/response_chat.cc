// Chat Completions (spec: recipe.md §7.4).
#include <fmt/format.h>

#include "recipe/response_parts.h"

namespace deepinfer::recipe {
namespace {

json::Value CallObject(size_t index, const Answer::Call& call) {
  json::Value function;
  function.Set("name", call.name);
  function.Set("arguments", call.arguments);
  json::Value object;
  object.Set("index", static_cast<int64_t>(index));
  object.Set("id", call.id);
  object.Set("type", "function");
  object.Set("function", std::move(function));
  return object;
}

json::Value LogprobsObject(const Answer& answer, const ResponseOptions& options) {
  if (options.tokenizer == nullptr) return nullptr;
  json::Value object;
  if (!answer.text_logprobs.empty()) {
    object.Set("content", LogprobEntries(*options.tokenizer, Pointers(answer.text_logprobs)));
  }
  if (!answer.reasoning_logprobs.empty()) {
    object.Set("reasoning_content", LogprobEntries(*options.tokenizer, Pointers(answer.reasoning_logprobs)));
  }
  return object;
}

json::Value Fingerprint(const AnswerStart& start) {
  return start.fingerprint ? json::Value(*start.fingerprint) : json::Value();
}

class ChatStream : public ResponseStream {
 public:
  ChatStream(ResponseOptions options, EventSink* sink) : options_(std::move(options)), sink_(sink) {}

  void OnStart(const AnswerStart& start) override {
    prompt_ = start.usage;
    json::Value head;
    head.Set("id", options_.id);
    head.Set("object", "chat.completion.chunk");
    head.Set("created", options_.created);
    head.Set("model", options_.model);
    head.Set("system_fingerprint", Fingerprint(start));
    begin_ = json::Serialize(head);
    begin_.pop_back();
    begin_ += ",\"choices\":[{\"index\":0,\"delta\":";
    end_ = ",\"logprobs\":null";
    rest_ = std::string(",\"finish_reason\":null}]") + (options_.include_usage ? ",\"usage\":null}" : "}");
    end_ += rest_;
    Begin(options_.thinking ? R"({"role":"assistant","content":null,"reasoning_content":""})"
                            : R"({"role":"assistant","content":""})");
    End({}, {});
  }

  void OnReasoning(std::string_view text, Logprobs logprobs) override {
    Begin(R"({"content":null,"reasoning_content":)");
    AppendString(text, &event_);
    event_ += '}';
    End("reasoning_content", logprobs);
  }

  void OnText(std::string_view text, Logprobs logprobs) override {
    Begin(R"({"content":)");
    AppendString(text, &event_);
    event_ += options_.thinking ? R"(,"reasoning_content":null})" : "}";
    End("content", logprobs);
  }

  void OnCall(const CallStart& call) override {
    call_index_ = std::to_string(call.index);
    BeginCall();
    event_ += R"(,"id":)";
    AppendString(call.id, &event_);
    event_ += R"(,"type":"function","function":{"name":)";
    AppendString(call.name, &event_);
    event_ += R"(,"arguments":""}}]})";
    End({}, {});
  }

  void OnArguments(std::string_view json) override {
    BeginCall();
    event_ += R"(,"function":{"arguments":)";
    AppendString(json, &event_);
    event_ += "}}]}";
    End({}, {});
  }

  void OnFinish(const AnswerFinish& finish) override {
    Begin(options_.thinking ? R"({"content":"","reasoning_content":null})" : R"({"content":""})");
    event_ += R"(,"logprobs":null,"finish_reason":)";
    AppendString(ChatFinishReason(finish.reason), &event_);
    event_ += R"(}],"usage":)";
    event_ += json::Serialize(UsageObject(prompt_, finish.completion_tokens, finish.reasoning_tokens));
    event_ += '}';
    sink_->OnEvent({}, event_);
  }

  void OnError(const StreamError& error) override { sink_->OnEvent({}, json::Serialize(ErrorBody(error))); }

 private:
  void Begin(std::string_view delta) {
    event_ = begin_;
    event_ += delta;
  }
  void BeginCall() {
    Begin(R"({"tool_calls":[{"index":)");
    event_ += call_index_;
  }
  void End(std::string_view logprobs_key, Logprobs logprobs) {
    if (logprobs.empty() || options_.tokenizer == nullptr) {
      event_ += end_;
    } else {
      event_ += R"(,"logprobs":{)";
      AppendString(logprobs_key, &event_);
      event_ += ':';
      event_ += json::Serialize(LogprobEntries(*options_.tokenizer, logprobs));
      event_ += '}';
      event_ += rest_;
    }
    sink_->OnEvent({}, event_);
  }

  ResponseOptions options_;
  EventSink* sink_;
  PromptUsage prompt_;
  std::string begin_, end_,
      rest_;  // of every event but the last: up to the delta; after it; after the logprobs
  std::string call_index_;
  std::string event_;
};

}  // namespace

json::Value ChatObject(const Answer& answer, const ResponseOptions& options) {
  json::Value message;
  message.Set("role", "assistant");
  message.Set("content", answer.text);
  if (options.thinking) message.Set("reasoning_content", answer.reasoning);
  if (!answer.calls.empty()) {
    json::Array calls;
    for (size_t i = 0; i < answer.calls.size(); ++i) calls.push_back(CallObject(i, answer.calls[i]));
    message.Set("tool_calls", std::move(calls));
  }
  json::Value choice;
  choice.Set("index", 0);
  choice.Set("message", std::move(message));
  choice.Set("logprobs", LogprobsObject(answer, options));
  choice.Set("finish_reason", ChatFinishReason(answer.reason));
  json::Value body;
  body.Set("id", options.id);
  body.Set("object", "chat.completion");
  body.Set("created", options.created);
  body.Set("model", options.model);
  body.Set("choices", json::Array{std::move(choice)});
  body.Set("usage", UsageObject(answer.start.usage, answer.completion_tokens, answer.reasoning_tokens));
  body.Set("system_fingerprint", Fingerprint(answer.start));
  return body;
}

std::unique_ptr<ResponseStream> MakeChatStream(ResponseOptions options, EventSink* sink) {
  return std::make_unique<ChatStream>(std::move(options), sink);
}

}  // namespace deepinfer::recipe
