// Responses (spec: recipe.md §7.6).
#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "recipe/response_parts.h"

namespace deepinfer::recipe {
namespace {

using Members = json::Object;

constexpr std::string_view kInProgress = "in_progress";
constexpr std::string_view kCompleted = "completed";
constexpr std::string_view kIncomplete = "incomplete";

std::string ItemId(std::string_view kind, const ResponseOptions& options, size_t index) {
  return fmt::format("{}_{}_{}", kind, options.id, index);
}

json::Value ReasoningPart(std::string_view text) {
  return Members{{"type", "reasoning_text"}, {"text", text}};
}

json::Value TextPart(std::string_view text, json::Array logprobs) {
  return Members{{"type", "output_text"},
                 {"annotations", json::Array{}},
                 {"logprobs", std::move(logprobs)},
                 {"text", text}};
}

// A message or a reasoning item; `part` null: no content yet.
json::Value ReasoningItem(const ResponseOptions& options, size_t index, std::string_view status,
                          json::Value part) {
  return Members{
      {"type", "reasoning"},      {"id", ItemId("rs", options, index)},
      {"status", status},         {"content", part.is_null() ? json::Array{} : json::Array{std::move(part)}},
      {"summary", json::Array{}}, {"encrypted_content", fmt::format("{}-{}", options.id, index)}};
}

json::Value MessageItem(const ResponseOptions& options, size_t index, std::string_view status,
                        bool before_call, json::Value part) {
  return Members{{"type", "message"},
                 {"id", ItemId("msg", options, index)},
                 {"status", status},
                 {"role", "assistant"},
                 {"phase", before_call ? "commentary" : "final_answer"},
                 {"content", part.is_null() ? json::Array{} : json::Array{std::move(part)}}};
}

bool IsCustom(const ResponseOptions& options, std::string_view name) {
  return std::find(options.custom_tools.begin(), options.custom_tools.end(), name) !=
         options.custom_tools.end();
}

// `text` is the input of a custom tool, else the arguments.
json::Value CallItem(const ResponseOptions& options, size_t index, std::string_view status,
                     const Answer::Call& call, std::string_view text) {
  const bool custom = IsCustom(options, call.name);
  json::Value item = Members{{"type", custom ? "custom_tool_call" : "function_call"},
                             {"id", ItemId(custom ? "ctc" : "fc", options, index)},
                             {"status", status},
                             {"call_id", call.id}};
  const auto tool = std::find_if(options.namespaces.begin(), options.namespaces.end(),
                                 [&](const NamespacedTool& t) { return t.flat_name == call.name; });
  if (tool == options.namespaces.end()) {
    item.Set("name", call.name);
  } else {
    item.Set("name", tool->name);
    item.Set("namespace", tool->name_space);
  }
  item.Set(custom ? "input" : "arguments", text);
  return item;
}

struct Ending {
  std::string_view event, status;
  json::Value details;
};

Ending EndingOf(FinishReason reason) {
  if (reason != FinishReason::kLength && reason != FinishReason::kContentFilter) {
    return {"response.completed", kCompleted, nullptr};
  }
  return {"response.incomplete", kIncomplete,
          Members{{"reason", reason == FinishReason::kLength ? "max_output_tokens" : "content_filter"}}};
}

json::Value Usage(const PromptUsage& prompt, int64_t output_tokens, std::optional<int64_t> reasoning_tokens) {
  return Members{{"input_tokens", prompt.prompt_tokens},
                 {"input_tokens_details", Members{{"cached_tokens", prompt.cached_tokens}}},
                 {"output_tokens", output_tokens},
                 {"output_tokens_details", Members{{"reasoning_tokens", reasoning_tokens.value_or(0)}}},
                 {"total_tokens", prompt.prompt_tokens + output_tokens}};
}

// The fields of the response object that change while it is made.
struct Progress {
  std::string_view status = kInProgress;
  json::Value completed_at, error, incomplete_details, usage;
  json::Array output;
};

json::Value ResponseBody(const ResponseOptions& options, Progress progress) {
  const ResponsesEcho& echo = options.echo;
  return Members{
      {"id", options.id},
      {"object", "response"},
      {"created_at", options.created},
      {"status", progress.status},
      {"background", false},
      {"completed_at", std::move(progress.completed_at)},
      {"content_filters", nullptr},
      {"error", std::move(progress.error)},
      {"frequency_penalty", 0.0},
      {"incomplete_details", std::move(progress.incomplete_details)},
      {"instructions", echo.instructions},
      {"max_output_tokens", echo.max_output_tokens},
      {"max_tool_calls", nullptr},
      {"model", options.model},
      {"moderation", nullptr},
      {"output", std::move(progress.output)},
      {"parallel_tool_calls", true},
      {"presence_penalty", 0.0},
      {"previous_response_id", nullptr},
      {"prompt_cache_key", nullptr},
      {"prompt_cache_retention", nullptr},
      {"reasoning", Members{{"effort", echo.reasoning_effort}, {"summary", echo.reasoning_summary}}},
      {"safety_identifier", nullptr},
      {"service_tier", "default"},
      {"store", false},
      {"temperature", echo.temperature},
      {"text", Members{{"format", echo.text_format.is_null() ? json::Value(Members{{"type", "text"}})
                                                             : echo.text_format},
                       {"verbosity", echo.text_verbosity}}},
      {"tool_choice", echo.tool_choice},
      {"tools", echo.tools},
      {"top_logprobs", echo.top_logprobs},
      {"top_p", echo.top_p},
      {"truncation", "disabled"},
      {"usage", std::move(progress.usage)},
      {"user", echo.user},
      {"metadata", json::Object{}},
  };
}

Progress FinalProgress(const ResponseOptions& options, FinishReason reason) {
  Ending ending = EndingOf(reason);
  Progress progress;
  progress.status = ending.status;
  progress.completed_at = options.clock ? options.clock() : options.created;
  progress.incomplete_details = std::move(ending.details);
  return progress;
}

class ResponsesStream : public ResponseStream {
 public:
  ResponsesStream(ResponseOptions options, EventSink* sink) : options_(std::move(options)), sink_(sink) {}

  void OnStart(const AnswerStart& start) override {
    prompt_ = start.usage;
    Send("response.created", {{"response", ResponseBody(options_, {})}});
    Send("response.in_progress", {{"response", ResponseBody(options_, {})}});
  }

  void OnReasoning(std::string_view text, Logprobs) override {
    if (open_ != Item::kReasoning) OpenWithPart(Item::kReasoning);
    text_ += text;
    SendDelta(text);
  }

  void OnText(std::string_view text, Logprobs logprobs) override {
    if (open_ != Item::kMessage) OpenWithPart(Item::kMessage);
    text_ += text;
    SendDelta(text, logprobs);
  }

  void OnCall(const CallStart& call) override {
    CloseItem(kCompleted, true);
    call_ = {std::string(call.id), std::string(call.name), {}};
    Open(IsCustom(options_, call_.name) ? Item::kCustomCall : Item::kCall);
    decoder_ = {};
    SendItem("response.output_item.added", CallItem(options_, output_.size(), kInProgress, call_, ""));
  }

  void OnArguments(std::string_view json) override {
    if (open_ == Item::kCall) {
      text_ += json;
      SendDelta(json);
      return;
    }
    const size_t begin = text_.size();
    decoder_.Push(json, &text_);
    if (text_.size() > begin) SendDelta(std::string_view(text_).substr(begin));
  }

  void OnFinish(const AnswerFinish& finish) override {
    const Ending ending = EndingOf(finish.reason);
    CloseItem(ending.status, false);
    Progress progress = FinalProgress(options_, finish.reason);
    progress.output = std::move(output_);
    progress.usage = Usage(prompt_, finish.completion_tokens, finish.reasoning_tokens);
    Send(ending.event, {{"response", ResponseBody(options_, std::move(progress))}});
  }

  void OnError(const StreamError& error) override {
    Progress progress;
    progress.status = "failed";
    progress.error = Members{{"code", error.code}, {"message", error.message}};
    progress.output = std::move(output_);
    Send("response.failed", {{"response", ResponseBody(options_, std::move(progress))}});
  }

 private:
  enum class Item : uint8_t { kNone, kReasoning, kMessage, kCall, kCustomCall };
  struct ItemKind {
    std::string_view id_prefix, delta_event, done_event, done_key;
    bool has_part, has_logprobs;
  };

  static const ItemKind& KindOf(Item item) {
    static constexpr ItemKind kKinds[] = {
        {},
        {"rs", "response.reasoning_text.delta", "response.reasoning_text.done", "text", true, false},
        {"msg", "response.output_text.delta", "response.output_text.done", "text", true, true},
        {"fc", "response.function_call_arguments.delta", "response.function_call_arguments.done", "arguments",
         false, false},
        {"ctc", "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done", "input",
         false, false},
    };
    return kKinds[static_cast<size_t>(item)];
  }

  void Send(std::string_view name, Members members) {
    members.insert(members.begin(), {"type", name});
    members.emplace_back("sequence_number", sequence_number_++);
    sink_->OnEvent(name, json::Serialize(json::Value(std::move(members))));
  }

  void SendItem(std::string_view name, json::Value item) {
    Send(name, {{"item", std::move(item)}, {"output_index", static_cast<int64_t>(output_.size())}});
  }

  void SendPart(std::string_view name, json::Value part) {
    Send(name, {{"content_index", 0},
                {"item_id", item_id_},
                {"output_index", static_cast<int64_t>(output_.size())},
                {"part", std::move(part)}});
  }

  json::Value PartOf(std::string_view text) const {
    return open_ == Item::kReasoning ? ReasoningPart(text) : TextPart(text, logprobs_);
  }

  json::Value ItemOf(std::string_view status, bool before_call, json::Value part) const {
    switch (open_) {
      case Item::kNone: break;
      case Item::kReasoning: return ReasoningItem(options_, output_.size(), status, std::move(part));
      case Item::kMessage: return MessageItem(options_, output_.size(), status, before_call, std::move(part));
      case Item::kCall:
      case Item::kCustomCall: return CallItem(options_, output_.size(), status, call_, text_);
    }
    return {};
  }

  void Open(Item item) {
    open_ = item;
    const ItemKind& kind = KindOf(item);
    text_.clear();
    logprobs_.clear();
    item_id_ = ItemId(kind.id_prefix, options_, output_.size());
    delta_begin_ = fmt::format(R"({{"type":"{}",{}"delta":)", kind.delta_event,
                               kind.has_part ? R"("content_index":0,)" : "");
    delta_item_ = R"(,"item_id":)";
    AppendString(item_id_, &delta_item_);
    if (kind.has_logprobs) delta_item_ += R"(,"logprobs":)";
    delta_end_ = fmt::format(R"(,"output_index":{},"sequence_number":)", output_.size());
  }

  void OpenWithPart(Item item) {
    CloseItem(kCompleted, false);
    Open(item);
    SendItem("response.output_item.added", ItemOf(kInProgress, false, nullptr));
    SendPart("response.content_part.added", PartOf(""));
  }

  void SendDelta(std::string_view delta, Logprobs logprobs = {}) {
    event_ = delta_begin_;
    AppendString(delta, &event_);
    event_ += delta_item_;
    if (KindOf(open_).has_logprobs) AppendLogprobs(logprobs);
    event_ += delta_end_;
    event_ += std::to_string(sequence_number_++);
    event_ += '}';
    sink_->OnEvent(KindOf(open_).delta_event, event_);
  }

  void AppendLogprobs(Logprobs logprobs) {
    if (logprobs.empty() || options_.tokenizer == nullptr) {
      event_ += "[]";
      return;
    }
    json::Array entries = LogprobEntries(*options_.tokenizer, logprobs);
    event_ += json::Serialize(entries);
    std::move(entries.begin(), entries.end(), std::back_inserter(logprobs_));
  }

  void CloseItem(std::string_view status, bool before_call) {
    if (open_ == Item::kNone) return;
    if (open_ == Item::kCustomCall) FinishCustomInput();
    const ItemKind& kind = KindOf(open_);
    const auto output_index = static_cast<int64_t>(output_.size());
    Members done;
    if (!kind.has_part) done.emplace_back(kind.done_key, text_);
    if (kind.has_part) done.emplace_back("content_index", 0);
    done.emplace_back("item_id", item_id_);
    if (kind.has_logprobs) done.emplace_back("logprobs", logprobs_);
    done.emplace_back("output_index", output_index);
    if (kind.has_part) {
      // "text" stands behind the number of the event.
      done.emplace_back("sequence_number", sequence_number_++);
      done.emplace_back(kind.done_key, text_);
      done.insert(done.begin(), {"type", kind.done_event});
      sink_->OnEvent(kind.done_event, json::Serialize(json::Value(std::move(done))));
      SendPart("response.content_part.done", PartOf(text_));
    } else {
      Send(kind.done_event, std::move(done));
    }
    json::Value item = ItemOf(status, before_call, PartOf(text_));
    SendItem("response.output_item.done", item);
    output_.push_back(std::move(item));
    open_ = Item::kNone;
  }

  void FinishCustomInput() {
    const size_t begin = text_.size();
    decoder_.Finish(&text_);
    if (text_.size() > begin) SendDelta(std::string_view(text_).substr(begin));
  }

  ResponseOptions options_;
  EventSink* sink_;
  PromptUsage prompt_;
  int64_t sequence_number_ = 0;
  json::Array output_;  // finished items
  Item open_ = Item::kNone;
  std::string item_id_;
  std::string text_;  // of the open item: its text, arguments or input so far
  Answer::Call call_;
  CustomInputDecoder decoder_;
  json::Array logprobs_;  // of the open item's text
  std::string delta_begin_, delta_item_, delta_end_;
  std::string event_;
};

std::string CallText(const ResponseOptions& options, const Answer::Call& call) {
  if (!IsCustom(options, call.name)) return call.arguments;
  std::string input;
  CustomInputDecoder decoder;
  decoder.Push(call.arguments, &input);
  decoder.Finish(&input);
  return input;
}

}  // namespace

json::Value ResponsesObject(const Answer& answer, const ResponseOptions& options) {
  Progress progress = FinalProgress(options, answer.reason);
  const size_t num_items =
      (answer.reasoning.empty() ? 0U : 1U) + (answer.text.empty() ? 0U : 1U) + answer.calls.size();
  // The last item shares the status of the response.
  const auto status = [&] { return progress.output.size() + 1 == num_items ? progress.status : kCompleted; };
  if (!answer.reasoning.empty()) {
    progress.output.push_back(ReasoningItem(options, 0, status(), ReasoningPart(answer.reasoning)));
  }
  if (!answer.text.empty()) {
    json::Array logprobs;
    if (options.tokenizer != nullptr) {
      logprobs = LogprobEntries(*options.tokenizer, Pointers(answer.text_logprobs));
    }
    json::Value part = TextPart(answer.text, std::move(logprobs));
    progress.output.push_back(
        MessageItem(options, progress.output.size(), status(), !answer.calls.empty(), std::move(part)));
  }
  for (const Answer::Call& call : answer.calls) {
    progress.output.push_back(
        CallItem(options, progress.output.size(), status(), call, CallText(options, call)));
  }
  progress.usage = Usage(answer.start.usage, answer.completion_tokens, answer.reasoning_tokens);
  return ResponseBody(options, std::move(progress));
}

std::unique_ptr<ResponseStream> MakeResponsesStream(ResponseOptions options, EventSink* sink) {
  return std::make_unique<ResponsesStream>(std::move(options), sink);
}

}  // namespace deepinfer::recipe
