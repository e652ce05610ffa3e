#include "cli/answer.h"

#include <algorithm>

#include "base/sha256.h"
#include "cli/interrupt.h"
#include "model/layer_plan.h"

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
  out->Set("text", sample.text);
  out->Set("reasoning", sample.reasoning);
  out->Set("tool_calls", json::Array());
  out->Set("finish_reason", FinishReasonName(sample.result.finish_reason));
  if (logprobs) out->Set("logprobs", Logprobs(sample.result.logprobs));
}

json::Value Usage(const Answer& answer, const Prompt& prompt) {
  int64_t completion = 0, reasoning = 0;
  for (const Sample& sample : answer.samples) {
    completion += static_cast<int64_t>(sample.result.output_ids.size());
    reasoning += sample.reasoning_tokens;
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

}  // namespace

Result<Prompt> ChatPrompt(const Tokenizer& tokenizer, std::span<const recipe::plain::Message> messages,
                          const recipe::plain::ChatOptions& options) {
  DEEPINFER_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                             recipe::plain::EncodeChat(tokenizer, messages, options));
  return Prompt{.ids = std::move(ids), .chat = true, .thinking = options.thinking};
}

Result<Prompt> TextPrompt(const Tokenizer& tokenizer, std::string_view text, bool special) {
  EncodeOptions options;
  options.added_tokens = special;
  DEEPINFER_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.Encode(text, options));
  return Prompt{.ids = std::move(ids), .chat = false, .thinking = false};
}

bool Answer::interrupted() const {
  return std::any_of(samples.begin(), samples.end(), [](const Sample& sample) {
    return sample.result.finish_reason == FinishReason::kCancelled;
  });
}

Result<Answer> RunAnswer(Engine& engine, const Prompt& prompt, const BaseRequest& request, uint64_t seed,
                         const AnswerSink& sink, Session* session) {
  Answer answer;
  answer.seed = seed;
  GenerationRequest one = request.request;
  one.prompt_ids = prompt.ids;
  one.seed = seed;
  for (int64_t i = 0; i < request.n && !answer.interrupted(); ++i) {
    one.stream = static_cast<uint32_t>(i);
    recipe::plain::AnswerParser parser(prompt.thinking);
    const auto push = [&](int32_t, std::string_view text) {
      recipe::plain::AnswerParser::Delta delta;
      if (prompt.chat) {
        delta = parser.Push(text);
      } else {
        delta.content = text;
      }
      if (sink) sink(delta);
      return true;
    };
    DEEPINFER_ASSIGN_OR_RETURN(GenerationResult result, engine.Generate(one, push, session, &StopFlag()));
    Sample sample;
    if (prompt.chat) {
      if (sink) sink(parser.Finish());
      recipe::plain::AnswerParser::Delta split = recipe::plain::SplitAnswer(result.text, prompt.thinking);
      sample.text = std::move(split.content);
      sample.reasoning = std::move(split.reasoning);
      sample.reasoning_tokens =
          recipe::plain::CountReasoningTokens(engine.tokenizer(), result.output_ids, prompt.thinking);
    } else {
      sample.text = result.text;
    }
    sample.result = std::move(result);
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
