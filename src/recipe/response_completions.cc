// Completions, with or without a text to fill in (spec: recipe.md §8.4).
#include <algorithm>

#include "recipe/response_parts.h"

namespace deepinfer::recipe {
namespace {

int64_t NumCharacters(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(),
                       [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

// The parallel lists of this protocol. `*offset` is where the first token stands, in characters of the text; it moves on.
json::Value LogprobLists(const Tokenizer& tokenizer, AnswerSink::Logprobs logprobs, int64_t* offset) {
  json::Array tokens, values, top, offsets;
  for (const TokenLogprob* token : logprobs) {
    tokens.emplace_back(TokenText(tokenizer, token->id));
    values.emplace_back(token->logprob);
    json::Value candidates = json::Object{};
    for (const TokenLogprob::Candidate& candidate : token->top) {
      candidates.Set(TokenText(tokenizer, candidate.id), candidate.logprob);
    }
    top.push_back(std::move(candidates));
    offsets.emplace_back(*offset);
    *offset += NumCharacters(tokenizer.TokenBytes(token->id));
  }
  json::Value lists;
  lists.Set("tokens", std::move(tokens));
  lists.Set("token_logprobs", std::move(values));
  lists.Set("top_logprobs", std::move(top));
  lists.Set("text_offset", std::move(offsets));
  return lists;
}

json::Value ChoiceObject(std::string_view text, json::Value logprobs, json::Value finish_reason) {
  json::Value choice;
  choice.Set("text", text);
  choice.Set("index", 0);
  choice.Set("logprobs", std::move(logprobs));
  choice.Set("finish_reason", std::move(finish_reason));
  return choice;
}

json::Value BodyHead(const ResponseOptions& options, const std::optional<std::string>& fingerprint) {
  json::Value body;
  body.Set("id", options.id);
  body.Set("object", "text_completion");
  body.Set("created", options.created);
  body.Set("model", options.model);
  body.Set("system_fingerprint", fingerprint ? json::Value(*fingerprint) : json::Value());
  return body;
}

class CompletionsStream : public ResponseStream {
 public:
  CompletionsStream(ResponseOptions options, EventSink* sink) : options_(std::move(options)), sink_(sink) {}

  void OnStart(const AnswerStart& start) override {
    start_ = start;
    if (options_.echoed_prompt.empty()) return;
    Send(ChoiceObject(options_.echoed_prompt, nullptr, nullptr), nullptr);
    offset_ = NumCharacters(options_.echoed_prompt);
  }
  void OnReasoning(std::string_view text, Logprobs logprobs) override { OnText(text, logprobs); }
  void OnText(std::string_view text, Logprobs logprobs) override {
    json::Value lists;
    if (options_.tokenizer != nullptr && !logprobs.empty()) {
      lists = LogprobLists(*options_.tokenizer, logprobs, &offset_);
    }
    Send(ChoiceObject(text, std::move(lists), nullptr), nullptr);
  }
  void OnCall(const CallStart&) override {}
  void OnArguments(std::string_view) override {}
  void OnFinish(const AnswerFinish& finish) override {
    Send(ChoiceObject("", nullptr, ChatFinishReason(finish.reason)),
         UsageObject(start_.usage, finish.completion_tokens, std::nullopt));
  }
  void OnError(const StreamError& error) override { sink_->OnEvent({}, json::Serialize(ErrorBody(error))); }

 private:
  void Send(json::Value choice, json::Value usage) {
    json::Value body = BodyHead(options_, start_.fingerprint);
    body.Set("choices", json::Array{std::move(choice)});
    if (options_.include_usage || !usage.is_null()) body.Set("usage", std::move(usage));
    sink_->OnEvent({}, json::Serialize(body));
  }

  ResponseOptions options_;
  EventSink* sink_;
  AnswerStart start_;
  int64_t offset_ = 0;
};

}  // namespace

json::Value CompletionsObject(const Answer& answer, const ResponseOptions& options) {
  json::Value lists;
  if (options.tokenizer != nullptr && !answer.text_logprobs.empty()) {
    int64_t offset = NumCharacters(options.echoed_prompt);
    lists = LogprobLists(*options.tokenizer, Pointers(answer.text_logprobs), &offset);
  }
  json::Value body = BodyHead(options, answer.start.fingerprint);
  body.Set("choices", json::Array{ChoiceObject(options.echoed_prompt + answer.text, std::move(lists),
                                               ChatFinishReason(answer.reason))});
  body.Set("usage", UsageObject(answer.start.usage, answer.completion_tokens, std::nullopt));
  return body;
}

std::unique_ptr<ResponseStream> MakeCompletionsStream(ResponseOptions options, EventSink* sink) {
  return std::make_unique<CompletionsStream>(std::move(options), sink);
}

}  // namespace deepinfer::recipe
