#include "cli/answer.h"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "base/sha256.h"
#include "cli/interrupt.h"
#include "model/layer_plan.h"
#include "recipe/chat_json.h"

namespace deepinfer::cli {
namespace {

json::Value Ids(std::span<const int32_t> ids) {
  json::Array out;
  out.reserve(ids.size());
  for (const int32_t id : ids) out.emplace_back(int64_t{id});
  return out;
}

json::Value Logprobs(const std::vector<TokenLogprob>& logprobs) {
  json::Array token, top;
  for (const TokenLogprob& one : logprobs) {
    token.emplace_back(one.logprob);
    json::Array best;
    for (const auto& [id, logprob] : one.top)
      best.emplace_back(json::Array{json::Value(int64_t{id}), json::Value(logprob)});
    top.emplace_back(std::move(best));
  }
  json::Value out;
  out.Set("token", std::move(token));
  out.Set("top", std::move(top));
  return out;
}

void SetSample(const Sample& sample, bool logprobs, json::Value* out) {
  out->Set("output_ids", Ids(sample.result.output_ids));
  std::vector<recipe::ToolCall> calls;
  for (const auto& call : sample.answer.calls) calls.push_back({call.id, call.name, call.arguments});
  out->Set("text", sample.answer.text);
  out->Set("reasoning", sample.answer.reasoning);
  out->Set("tool_calls", recipe::ChatToolCalls(calls));
  out->Set("finish_reason", sample.finish_reason());
  if (logprobs) out->Set("logprobs", Logprobs(sample.result.logprobs));
}

json::Value Usage(const Answer& answer, const Prompt& prompt) {
  int64_t completion = 0, reasoning = 0;
  for (const Sample& sample : answer.samples) {
    completion += static_cast<int64_t>(sample.result.output_ids.size());
    reasoning += sample.answer.reasoning_tokens.value_or(0);
  }
  json::Value usage;
  usage.Set("prompt_tokens", static_cast<int64_t>(prompt.ids.size()));
  usage.Set("cached_tokens",
            answer.samples.empty() ? int64_t{0} : answer.samples.front().result.cached_tokens);
  usage.Set("completion_tokens", completion);
  usage.Set("reasoning_tokens", reasoning);
  return usage;
}

json::Value Timing(const Answer& answer, double load_ms) {
  double prefill_ms = 0, decode_ms = 0;
  size_t tokens = 0;
  for (const Sample& sample : answer.samples) {
    prefill_ms += sample.result.prefill_ms;
    decode_ms += sample.result.decode_ms;
    // The first token comes from the prefill's logits.
    tokens += sample.result.output_ids.empty() ? 0 : sample.result.output_ids.size() - 1;
  }
  json::Value timing;
  timing.Set("load_ms", load_ms);
  timing.Set("prefill_ms", prefill_ms);
  timing.Set("decode_ms", decode_ms);
  timing.Set("tokens_per_s", decode_ms > 0 ? static_cast<double>(tokens) * 1000 / decode_ms : 0.0);
  return timing;
}

/// Gives what it takes to two others.
class TwoSinks : public recipe::AnswerSink {
 public:
  TwoSinks(recipe::AnswerSink* first, recipe::AnswerSink* second) : first_(first), second_(second) {}

  void OnStart(const recipe::AnswerStart& start) override {
    first_->OnStart(start);
    if (second_ != nullptr) second_->OnStart(start);
  }
  void OnReasoning(std::string_view text, Logprobs logprobs) override {
    first_->OnReasoning(text, logprobs);
    if (second_ != nullptr) second_->OnReasoning(text, logprobs);
  }
  void OnText(std::string_view text, Logprobs logprobs) override {
    first_->OnText(text, logprobs);
    if (second_ != nullptr) second_->OnText(text, logprobs);
  }
  void OnCall(const recipe::CallStart& call) override {
    first_->OnCall(call);
    if (second_ != nullptr) second_->OnCall(call);
  }
  void OnArguments(std::string_view json) override {
    first_->OnArguments(json);
    if (second_ != nullptr) second_->OnArguments(json);
  }
  void OnFinish(const recipe::AnswerFinish& finish) override {
    first_->OnFinish(finish);
    if (second_ != nullptr) second_->OnFinish(finish);
  }

 private:
  recipe::AnswerSink* first_;
  recipe::AnswerSink* second_;  // may be null
};

uint64_t RandomSeedOf(std::string_view key) {
  const Sha256Digest digest = Sha256Of(key);
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value = value << 8 | digest[i];
  return value;
}

recipe::TokenLogprob Converted(int32_t id, const TokenLogprob& logprob) {
  recipe::TokenLogprob out{.id = id, .logprob = logprob.logprob, .top = {}};
  for (const auto& [candidate, value] : logprob.top) out.top.push_back({candidate, value});
  return out;
}

// False when the answer has ended with a stop text.
bool Push(const OutputToken& token, recipe::AnswerProcessor& processor) {
  if (token.is_stop) {
    processor.Text("");  // counts, and has no text
    return true;
  }
  std::vector<recipe::TokenLogprob> logprobs;
  if (token.logprob != nullptr) logprobs.push_back(Converted(token.id, *token.logprob));
  // Cannot fail: there is a tokenizer and as many entries as ids, if any.
  (void)processor.Tokens({&token.id, 1}, logprobs);
  return !processor.finished();
}

void Finish(FinishReason reason, recipe::AnswerProcessor& processor) {
  switch (reason) {
    case FinishReason::kStop: return processor.Finish(recipe::BackendFinish::kStop);
    case FinishReason::kLength:
    case FinishReason::kContext: return processor.Finish(recipe::BackendFinish::kLength);
    case FinishReason::kCancelled: return processor.End();
  }
}

Result<Sample> RunSample(Engine& engine, const Prompt& prompt, const GenerationRequest& request,
                         const std::vector<std::string>& stops, const AnswerRun& run) {
  recipe::AnswerOptions options = prompt.answer;
  options.parsing.stops = stops;
  options.random = std::mt19937_64(RandomSeedOf(fmt::format("{} {}", run.id_key, request.stream)));
  recipe::AnswerCollector collector;
  TwoSinks sinks(&collector, run.sink);
  recipe::AnswerProcessor processor(std::move(options), engine.shared_tokenizer(), &sinks);
  processor.Ready({}, {.prompt_tokens = static_cast<int64_t>(prompt.ids.size()), .cached_tokens = 0});
  const auto push = [&](const OutputToken& token) {
    const bool go_on = Push(token, processor);
    if (run.on_token) run.on_token();
    return go_on;
  };
  Sample sample;
  DEEPINFER_ASSIGN_OR_RETURN(sample.result, engine.Generate(request, push, run.session, &StopFlag()));
  Finish(sample.result.finish_reason, processor);
  sample.answer = collector.answer();
  return sample;
}

}  // namespace

Result<Prompt> ChatPrompt(const Tokenizer& tokenizer, const recipe::Request& request,
                          recipe::HistoryThinking history_thinking) {
  recipe::PromptOptions options;
  options.history_thinking = history_thinking;
  DEEPINFER_ASSIGN_OR_RETURN(const recipe::Prompt rendered,
                             recipe::RenderPrompt(request.conversation, options));
  Result<std::vector<int32_t>> ids = recipe::EncodePrompt(rendered, tokenizer);
  if (!ids.ok())
    return Status(ids.status().code(), ids.status().message(), ids.status().where())
        .WithHint("give the whole prompt as text instead");
  return Prompt{.ids = *std::move(ids), .answer = recipe::MakeAnswerOptions(request)};
}

Result<Prompt> TextPrompt(const Tokenizer& tokenizer, std::string_view text, bool special) {
  EncodeOptions options;
  options.added_tokens = special;
  DEEPINFER_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.Encode(text, options));
  return IdsPrompt(std::move(ids));
}

Prompt IdsPrompt(std::vector<int32_t> ids) {
  Prompt prompt{.ids = std::move(ids), .answer = {}};
  prompt.answer.plain = true;
  return prompt;
}

std::string_view Sample::finish_reason() const {
  switch (answer.reason) {
    case recipe::FinishReason::kStopSequence: return "stop";
    case recipe::FinishReason::kToolCalls: return "tool_calls";
    case recipe::FinishReason::kStop:
    case recipe::FinishReason::kLength:
    case recipe::FinishReason::kContentFilter:
    case recipe::FinishReason::kEndOfStream: break;
  }
  return FinishReasonName(result.finish_reason);
}

bool Answer::interrupted() const {
  return std::any_of(samples.begin(), samples.end(),
                     [](const Sample& sample) { return sample.finish_reason() == "cancelled"; });
}

Result<Answer> RunAnswer(Engine& engine, const Prompt& prompt, const BaseRequest& request,
                         const AnswerRun& run) {
  Answer answer;
  answer.seed = run.seed;
  GenerationRequest one = request.request;
  one.prompt_ids = prompt.ids;
  one.seed = run.seed;
  const std::vector<std::string> stops = std::exchange(one.stop, {});
  for (int64_t i = 0; i < request.n && !answer.interrupted(); ++i) {
    one.stream = static_cast<uint32_t>(i);
    DEEPINFER_ASSIGN_OR_RETURN(Sample sample, RunSample(engine, prompt, one, stops, run));
    answer.samples.push_back(std::move(sample));
  }
  return answer;
}

bool IsRequestFault(const Status& status) {
  // Logits that allow no draw come from this prompt, in this model.
  return status.code() == StatusCode::kInvalidArgument ||
         (status.code() == StatusCode::kDataLoss && status.where() == "logits");
}

json::Value AnswerToJson(const Answer& answer, const AnswerContext& context) {
  const bool logprobs = context.request->request.logprobs >= 0;
  json::Value out;
  out.Set("id", context.id);
  out.Set("prompt_ids", Ids(context.prompt->ids));
  if (context.choices) {
    json::Array choices;
    for (const Sample& sample : answer.samples) {
      json::Value choice;
      choice.Set("index", static_cast<int64_t>(choices.size()));
      SetSample(sample, logprobs, &choice);
      choices.push_back(std::move(choice));
    }
    out.Set("choices", std::move(choices));
  } else {
    SetSample(answer.samples.empty() ? Sample{} : answer.samples.front(), false, &out);
  }
  out.Set("seed", answer.seed);
  if (!answer.samples.empty())
    out.Set("prefill", model::PrefillModeName(answer.samples.front().result.prefill));
  out.Set("usage", Usage(answer, *context.prompt));
  if (logprobs && !context.choices && !answer.samples.empty())
    out.Set("logprobs", Logprobs(answer.samples.front().result.logprobs));
  if (context.load_ms) out.Set("timing", Timing(answer, *context.load_ms));
  return out;
}

std::string AnswerId(const Prompt& prompt, uint64_t seed) {
  std::string text = std::to_string(seed);
  for (const int32_t id : prompt.ids) text += ' ' + std::to_string(id);
  return "gen-" + ToHex(Sha256Of(text)).substr(0, 16);
}

}  // namespace deepinfer::cli
