#include "recipe/response_parts.h"

#include <fmt/format.h>

#include "tokenizer/unicode.h"

namespace deepinfer::recipe {

ResponseOptions MakeResponseOptions(const Request& request, std::shared_ptr<const Tokenizer> tokenizer) {
  ResponseOptions options;
  options.model = request.model;
  options.thinking = !request.completion && request.conversation.thinking;
  options.include_usage = request.include_usage;
  options.custom_tools = request.custom_tools;
  options.namespaces = request.namespaces;
  if (request.echo) options.echo = *request.echo;
  if (request.completion && request.completion->echo) options.echoed_prompt = request.completion->prompt;
  options.tokenizer = std::move(tokenizer);
  return options;
}

AnswerOptions MakeAnswerOptions(const Request& request) {
  AnswerOptions options;
  options.parsing = request.parsing;
  options.thinking = !request.completion && request.conversation.thinking;
  options.plain = request.completion.has_value();
  return options;
}

void AnswerCollector::OnReasoning(std::string_view text, Logprobs logprobs) {
  answer_.reasoning += text;
  for (const TokenLogprob* entry : logprobs) answer_.reasoning_logprobs.push_back(*entry);
}

void AnswerCollector::OnText(std::string_view text, Logprobs logprobs) {
  answer_.text += text;
  for (const TokenLogprob* entry : logprobs) answer_.text_logprobs.push_back(*entry);
}

void AnswerCollector::OnCall(const CallStart& call) {
  answer_.calls.push_back({std::string(call.id), std::string(call.name), {}});
}

void AnswerCollector::OnFinish(const AnswerFinish& finish) {
  answer_.reason = finish.reason;
  answer_.stop_sequence = finish.stop_sequence;
  answer_.completion_tokens = finish.completion_tokens;
  answer_.reasoning_tokens = finish.reasoning_tokens;
}

json::Value ResponseObject(Protocol protocol, const Answer& answer, const ResponseOptions& options) {
  switch (protocol) {
    case Protocol::kChat: return ChatObject(answer, options);
    case Protocol::kMessages: return MessagesObject(answer, options);
    case Protocol::kResponses: return ResponsesObject(answer, options);
    case Protocol::kCompletions: return CompletionsObject(answer, options);
  }
  return {};
}

std::unique_ptr<ResponseStream> MakeResponseStream(Protocol protocol, ResponseOptions options,
                                                   EventSink* sink) {
  switch (protocol) {
    case Protocol::kChat: return MakeChatStream(std::move(options), sink);
    case Protocol::kMessages: return MakeMessagesStream(std::move(options), sink);
    case Protocol::kResponses: return MakeResponsesStream(std::move(options), sink);
    case Protocol::kCompletions: return MakeCompletionsStream(std::move(options), sink);
  }
  return nullptr;
}

void SseWriter::OnEvent(std::string_view name, std::string_view data) {
  if (!name.empty()) {
    *out_ += "event: ";
    *out_ += name;
    *out_ += '\n';
  }
  *out_ += "data: ";
  *out_ += data;
  *out_ += "\n\n";
}

std::string_view SseTerminator(Protocol protocol) {
  return protocol == Protocol::kChat || protocol == Protocol::kCompletions ? "data: [DONE]\n\n" : "";
}

void AppendString(std::string_view valid_utf8, std::string* out) {
  *out += '"';
  json::AppendEscaped(valid_utf8, out);
  *out += '"';
}

json::Value UsageObject(const PromptUsage& prompt, int64_t completion_tokens,
                        std::optional<int64_t> reasoning_tokens) {
  json::Value usage;
  usage.Set("prompt_tokens", prompt.prompt_tokens);
  usage.Set("completion_tokens", completion_tokens);
  usage.Set("total_tokens", prompt.prompt_tokens + completion_tokens);
  usage.Set("prompt_tokens_details", json::Object{{"cached_tokens", prompt.cached_tokens}});
  if (reasoning_tokens) {
    usage.Set("completion_tokens_details", json::Object{{"reasoning_tokens", *reasoning_tokens}});
  }
  usage.Set("prompt_cache_hit_tokens", prompt.cached_tokens);
  usage.Set("prompt_cache_miss_tokens", prompt.prompt_tokens - prompt.cached_tokens);
  return usage;
}

std::string_view ChatFinishReason(FinishReason reason) {
  switch (reason) {
    case FinishReason::kToolCalls: return "tool_calls";
    case FinishReason::kLength: return "length";
    case FinishReason::kContentFilter: return "content_filter";
    case FinishReason::kStop:
    case FinishReason::kStopSequence:
    case FinishReason::kEndOfStream: break;
  }
  return "stop";
}

std::string TokenText(const Tokenizer& tokenizer, int32_t id) {
  const std::string_view bytes = tokenizer.TokenBytes(id);
  if (unicode::FindInvalidUtf8(bytes) == std::string_view::npos) return std::string(bytes);
  std::string text;
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
  return text;
}

namespace {

json::Value LogprobEntry(const Tokenizer& tokenizer, int32_t id, float logprob) {
  json::Array bytes;
  for (const char c : tokenizer.TokenBytes(id)) bytes.emplace_back(int{static_cast<uint8_t>(c)});
  json::Value entry;
  entry.Set("token", TokenText(tokenizer, id));
  entry.Set("logprob", logprob);
  entry.Set("bytes", std::move(bytes));
  return entry;
}

}  // namespace

json::Array LogprobEntries(const Tokenizer& tokenizer, AnswerSink::Logprobs logprobs) {
  json::Array entries;
  for (const TokenLogprob* token : logprobs) {
    json::Array top;
    for (const TokenLogprob::Candidate& candidate : token->top) {
      top.push_back(LogprobEntry(tokenizer, candidate.id, candidate.logprob));
    }
    json::Value entry = LogprobEntry(tokenizer, token->id, token->logprob);
    entry.Set("top_logprobs", std::move(top));
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<const TokenLogprob*> Pointers(const std::vector<TokenLogprob>& logprobs) {
  std::vector<const TokenLogprob*> pointers;
  for (const TokenLogprob& entry : logprobs) pointers.push_back(&entry);
  return pointers;
}

json::Value ErrorBody(const StreamError& error) {
  json::Value fields;
  fields.Set("message", error.message);
  fields.Set("type", error.type);
  fields.Set("param", nullptr);
  fields.Set("code", error.code);
  return json::Object{{"error", std::move(fields)}};
}

}  // namespace deepinfer::recipe
