#include "engine/generation.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "tokenizer/unicode.h"

namespace deepinfer {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Status CheckStops(const GenerationRequest& request, const ModelConfig& config) {
  if (request.stop.size() > kMaxStopStrings) {
    return InvalidArgument(
        fmt::format("{} stop strings, at most {} are allowed", request.stop.size(), kMaxStopStrings), "stop");
  }
  for (const std::string& stop : request.stop) {
    if (stop.empty()) return InvalidArgument("a stop string must not be empty", "stop");
    if (unicode::FindInvalidUtf8(stop) != std::string::npos) {
      return InvalidArgument("a stop string must be UTF-8", "stop");
    }
  }
  for (const int32_t id : request.stop_ids) {
    if (id >= 0 && id < config.vocab_size) continue;
    return InvalidArgument(fmt::format("stop id {} is outside [0, {}]", id, config.vocab_size - 1),
                           "stop_ids");
  }
  return OkStatus();
}

}  // namespace

Status CheckRequest(const GenerationRequest& request, const ModelConfig& config) {
  DEEPINFER_RETURN_IF_ERROR(CheckIds(request.prompt_ids, config, "prompt_ids"));
  DEEPINFER_RETURN_IF_ERROR(sampling::Validate(request.sampling, config.vocab_size));
  DEEPINFER_RETURN_IF_ERROR(CheckStops(request, config));
  if (request.max_tokens < 0) {
    return InvalidArgument(fmt::format("max_tokens must not be negative, it is {}", request.max_tokens),
                           "max_tokens");
  }
  if (request.logprobs < -1 || request.logprobs > config.vocab_size) {
    return InvalidArgument(
        fmt::format("logprobs must be an integer in [0, {}], not {}", config.vocab_size, request.logprobs),
        "logprobs");
  }
  return CheckKeepTokens(request.keep_tokens.value_or(0), config.sliding_window,
                         config.max_position_embeddings);
}

Generation::Generation(EngineParts* engine, const GenerationRequest* request, const TokenSink* sink,
                       SessionState* session, const std::atomic<bool>* stop)
    : engine_(*engine),
      request_(*request),
      sink_(*sink),
      session_(session),
      stop_(stop),
      mode_(request->prefill.value_or(engine->prefill.mode)),
      keep_tokens_(request->keep_tokens.value_or(0)),
      detokenizer_(engine->tokenizer),
      stops_(request->stop) {
  if (keep_tokens_ == 0) keep_tokens_ = engine->prefill.keep_tokens;
  const int64_t context_left =
      engine_.config().max_position_embeddings - static_cast<int64_t>(request_.prompt_ids.size());
  max_output_ = std::min(request_.max_tokens, context_left);
  limit_reason_ = request_.max_tokens <= context_left ? FinishReason::kLength : FinishReason::kContext;
}

Result<GenerationResult> Generation::Run() {
  DEEPINFER_RETURN_IF_ERROR(Prepare());
  const Clock::time_point start = Clock::now();
  DEEPINFER_ASSIGN_OR_RETURN(const bool prompt_done, Prefill());
  result_.prefill_ms = MillisecondsSince(start);
  if (!prompt_done) return std::move(result_);
  const Clock::time_point decode_start = Clock::now();
  DEEPINFER_RETURN_IF_ERROR(Decode());
  result_.decode_ms = MillisecondsSince(decode_start);
  if (session_ != nullptr) session_->Keep(std::move(held_));
  return std::move(result_);
}

Status Generation::Prepare() {
  sampling::SamplerOptions options{.params = request_.sampling,
                                   .seed = request_.seed,
                                   .stream = request_.stream,
                                   .suppressed = engine_.suppressed};
  DEEPINFER_ASSIGN_OR_RETURN(
      sampler_,
      sampling::Sampler::Create(std::move(options), engine_.config().vocab_size, request_.prompt_ids));
  const bool exact = mode_ != model::PrefillMode::kBoundedReplay;
  if (session_ != nullptr) {
    DEEPINFER_ASSIGN_OR_RETURN(held_, session_->Take(request_.prompt_ids, exact));
  }
  if (!held_) {
    DEEPINFER_ASSIGN_OR_RETURN(held_.sequence, engine_.backbone->NewSequence());
  }
  held_.exact = held_.exact && exact;
  result_.prefill = mode_;
  result_.cached_tokens = static_cast<int64_t>(held_.ids.size());
  return OkStatus();
}

Result<bool> Generation::Prefill() {
  const size_t length = request_.prompt_ids.size();
  const size_t max_rows = static_cast<size_t>(engine_.backbone->max_rows());
  for (size_t from = held_.ids.size(); from < length;) {
    if (Stopped(stop_)) {
      Finish(FinishReason::kCancelled);
      return false;
    }
    size_t to = std::min(from + max_rows, length);
    if (session_ != nullptr) {
      // The last token goes alone, since the session wants the state before it. The split changes no bit.
      if (from + 1 == length) DEEPINFER_RETURN_IF_ERROR(session_->RememberPrompt(held_));
      if (from + 1 < length) to = std::min(to, length - 1);
    }
    DEEPINFER_RETURN_IF_ERROR(FeedPrompt(from, to));
    from = to;
  }
  held_.sequence->SealPrompt();
  return true;
}

Status Generation::FeedPrompt(size_t from, size_t to) {
  const std::span<const int32_t> ids(request_.prompt_ids);
  model::Chunk chunk;
  chunk.sequence = held_.sequence.get();
  chunk.ids = ids.subspan(from, to - from);
  chunk.logits = to == ids.size() ? model::LogitsWanted::kLast : model::LogitsWanted::kNone;
  chunk.mode = mode_;
  chunk.prompt_length = static_cast<int64_t>(ids.size());
  chunk.keep_tokens = keep_tokens_;
  DEEPINFER_RETURN_IF_ERROR(engine_.backbone->Forward({&chunk, 1}, {&output_, 1}));
  held_.ids.insert(held_.ids.end(), chunk.ids.begin(), chunk.ids.end());
  return OkStatus();
}

Status Generation::Decode() {
  if (max_output_ == 0) {
    Finish(limit_reason_);
    return OkStatus();
  }
  while (true) {
    if (Stopped(stop_)) {
      Cancel();
      return OkStatus();
    }
    DEEPINFER_ASSIGN_OR_RETURN(const int32_t id,
                               sampler_->Sample(output_.logits, static_cast<int64_t>(held_.ids.size())));
    DEEPINFER_ASSIGN_OR_RETURN(const bool ended, Accept(id));
    if (ended) return OkStatus();
    DEEPINFER_RETURN_IF_ERROR(FeedToken(id));
  }
}

Result<bool> Generation::Accept(int32_t id) {
  result_.output_ids.push_back(id);
  sampler_->Accept(id);
  if (request_.logprobs >= 0) {
    DEEPINFER_ASSIGN_OR_RETURN(sampling::LogProbs log_probs,
                               sampling::ComputeLogProbs(output_.logits, id, request_.logprobs));
    result_.logprobs.push_back({log_probs.logprob, std::move(log_probs.top)});
  }
  const bool is_stop_id = IsStopId(id);
  const bool is_last = static_cast<int64_t>(result_.output_ids.size()) == max_output_;
  std::string text = is_stop_id ? "" : stops_.Push(detokenizer_.Push(id));
  const bool ended = is_stop_id || is_last || stops_.matched();
  if (ended) {
    text += Flush();
    Finish(is_stop_id || stops_.matched() ? FinishReason::kStop : limit_reason_);
  }
  result_.text += text;
  const TokenLogprob* logprob = result_.logprobs.empty() ? nullptr : &result_.logprobs.back();
  if (sink_ != nullptr && !sink_({.id = id, .text = text, .is_stop = is_stop_id, .logprob = logprob}) &&
      !ended) {
    Cancel();
    return true;
  }
  return ended;
}

std::string Generation::Flush() {
  std::string text = stops_.Push(detokenizer_.Finish());
  return text + stops_.Finish();
}

void Generation::Cancel() {
  result_.text += Flush();
  Finish(FinishReason::kCancelled);
}

Status Generation::FeedToken(int32_t id) {
  model::Chunk chunk;
  chunk.sequence = held_.sequence.get();
  chunk.ids = {&id, 1};
  DEEPINFER_RETURN_IF_ERROR(engine_.backbone->Forward({&chunk, 1}, {&output_, 1}));
  held_.ids.push_back(id);
  return OkStatus();
}

bool Generation::IsStopId(int32_t id) const {
  const auto contains = [id](const std::vector<int32_t>& ids) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  return contains(request_.stop_ids) || (!request_.ignore_eos && contains(engine_.defaults.eos_ids));
}

Result<GenerationResult> Engine::Generate(const GenerationRequest& request, const TokenSink& sink,
                                          Session* session, const std::atomic<bool>* stop) {
  DEEPINFER_RETURN_IF_ERROR(CheckRequest(request, impl_->config()));
  auto* state = static_cast<SessionState*>(session);
  if (state != nullptr && state->owner() != impl_.get()) {
    return InvalidArgument("the session belongs to another engine", "session");
  }
  return Generation(impl_.get(), &request, &sink, state, stop).Run();
}

}  // namespace deepinfer
