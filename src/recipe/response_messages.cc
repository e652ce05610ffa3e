// Messages (spec: recipe.md §7.5).
#include <fmt/format.h>

#include "recipe/json_document.h"
#include "recipe/response_parts.h"

namespace deepinfer::recipe {
namespace {

std::string_view StopReason(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopSequence: return "stop_sequence";
    case FinishReason::kToolCalls: return "tool_use";
    case FinishReason::kLength: return "max_tokens";
    case FinishReason::kContentFilter: return "refusal";
    case FinishReason::kStop:
    case FinishReason::kEndOfStream: break;
  }
  return "end_turn";
}

json::Value StopSequence(FinishReason reason, std::string_view stop) {
  return reason == FinishReason::kStopSequence ? json::Value(stop) : json::Value();
}

json::Value Usage(const PromptUsage& prompt, int64_t output_tokens) {
  json::Value usage;
  usage.Set("input_tokens", prompt.prompt_tokens - prompt.cached_tokens);
  usage.Set("cache_creation_input_tokens", 0);
  usage.Set("cache_read_input_tokens", prompt.cached_tokens);
  usage.Set("output_tokens", output_tokens);
  usage.Set("service_tier", "standard");
  return usage;
}

json::Value MessageHead(const ResponseOptions& options) {
  json::Value message;
  message.Set("id", options.id);
  message.Set("type", "message");
  message.Set("role", "assistant");
  message.Set("model", options.model);
  return message;
}

json::Value ToolUse(std::string_view id, std::string_view name, json::Value input) {
  json::Value block;
  block.Set("type", "tool_use");
  block.Set("id", id);
  block.Set("name", name);
  block.Set("input", std::move(input));
  return block;
}

json::Value Block(std::string_view type, std::string_view key, std::string_view text) {
  json::Value block;
  block.Set("type", type);
  block.Set(std::string(key), text);
  return block;
}

json::Value ThinkingBlock(std::string_view thinking, std::string_view signature) {
  json::Value block = Block("thinking", "thinking", thinking);
  block.Set("signature", signature);
  return block;
}

// Arguments as an object; whatever is none, cut ones too, is an empty one.
json::Value ParsedInput(std::string_view arguments) {
  const auto document = JsonDocument::Parse(arguments);
  if (!document.ok() || !document->root().is_object()) return json::Object{};
  return document->root().ToValue();
}

class MessagesStream : public ResponseStream {
 public:
  MessagesStream(ResponseOptions options, EventSink* sink) : options_(std::move(options)), sink_(sink) {}

  void OnStart(const AnswerStart& start) override {
    prompt_ = start.usage;
    json::Value message = MessageHead(options_);
    message.Set("content", json::Array{});
    message.Set("stop_reason", nullptr);
    message.Set("stop_sequence", nullptr);
    message.Set("usage", Usage(prompt_, 0));
    json::Value event;
    event.Set("type", "message_start");
    event.Set("message", std::move(message));
    Send("message_start", event);
    if (options_.thinking) OpenBlock(BlockKind::kThinking, ThinkingBlock("", ""));
  }

  void OnReasoning(std::string_view text, Logprobs) override {
    SendDelta("thinking_delta", "thinking", text);
  }

  void OnText(std::string_view text, Logprobs) override {
    if (open_ != BlockKind::kText) {
      CloseBlock();
      OpenBlock(BlockKind::kText, Block("text", "text", ""));
    }
    SendDelta("text_delta", "text", text);
  }

  void OnCall(const CallStart& call) override {
    CloseBlock();
    OpenBlock(BlockKind::kToolUse, ToolUse(call.id, call.name, json::Object{}));
  }

  void OnArguments(std::string_view json) override { SendDelta("input_json_delta", "partial_json", json); }

  void OnFinish(const AnswerFinish& finish) override {
    CloseBlock();
    json::Value delta;
    delta.Set("stop_reason", StopReason(finish.reason));
    delta.Set("stop_sequence", StopSequence(finish.reason, finish.stop_sequence));
    json::Value event;
    event.Set("type", "message_delta");
    event.Set("delta", std::move(delta));
    event.Set("usage", Usage(prompt_, finish.completion_tokens));
    Send("message_delta", event);
    sink_->OnEvent("message_stop", R"({"type":"message_stop"})");
  }

  void OnError(const StreamError& error) override {
    json::Value event;
    event.Set("type", "error");
    event.Set("error", *ErrorBody(error).Find("error"));
    Send("error", event);
  }

 private:
  enum class BlockKind : uint8_t { kNone, kThinking, kText, kToolUse };

  void Send(std::string_view name, const json::Value& event) { sink_->OnEvent(name, json::Serialize(event)); }

  void OpenBlock(BlockKind kind, json::Value block) {
    open_ = kind;
    json::Value event;
    event.Set("type", "content_block_start");
    event.Set("index", index_);
    event.Set("content_block", std::move(block));
    Send("content_block_start", event);
    if (index_ == 0) sink_->OnEvent("ping", R"({"type":"ping"})");
  }

  void CloseBlock() {
    if (open_ == BlockKind::kNone) return;
    if (open_ == BlockKind::kThinking) SendDelta("signature_delta", "signature", options_.id);
    sink_->OnEvent("content_block_stop",
                   fmt::format(R"({{"type":"content_block_stop","index":{}}})", index_));
    open_ = BlockKind::kNone;
    ++index_;
  }

  void SendDelta(std::string_view type, std::string_view key, std::string_view text) {
    event_.clear();
    fmt::format_to(std::back_inserter(event_),
                   R"({{"type":"content_block_delta","index":{},"delta":{{"type":"{}","{}":)", index_, type,
                   key);
    AppendString(text, &event_);
    event_ += "}}";
    sink_->OnEvent("content_block_delta", event_);
  }

  ResponseOptions options_;
  EventSink* sink_;
  PromptUsage prompt_;
  BlockKind open_ = BlockKind::kNone;
  int64_t index_ = 0;
  std::string event_;
};

}  // namespace

json::Value MessagesObject(const Answer& answer, const ResponseOptions& options) {
  json::Array content;
  if (options.thinking) content.push_back(ThinkingBlock(answer.reasoning, options.id));
  if (!answer.text.empty()) content.push_back(Block("text", "text", answer.text));
  for (const Answer::Call& call : answer.calls) {
    content.push_back(ToolUse(call.id, call.name, ParsedInput(call.arguments)));
  }
  json::Value message = MessageHead(options);
  message.Set("content", std::move(content));
  message.Set("stop_reason", StopReason(answer.reason));
  message.Set("stop_sequence", StopSequence(answer.reason, answer.stop_sequence));
  message.Set("usage", Usage(answer.start.usage, answer.completion_tokens));
  return message;
}

std::unique_ptr<ResponseStream> MakeMessagesStream(ResponseOptions options, EventSink* sink) {
  return std::make_unique<MessagesStream>(std::move(options), sink);
}

}  // namespace deepinfer::recipe
