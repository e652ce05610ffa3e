#include "recipe/answer_processor.h"

#include <algorithm>
#include <limits>

#include "tokenizer/unicode.h"

namespace deepinfer::recipe {
namespace {

OutputParser MakeParser(const AnswerOptions& options) {
  ParsingOptions parsing = options.parsing;
  // The text is valid UTF-8: anything else cannot stand in it, but its bytes could match in the middle of a character.
  std::erase_if(parsing.stops, [](const std::string& stop) {
    return unicode::FindInvalidUtf8(stop) != std::string_view::npos;
  });
  return options.plain ? OutputParser::Plain(std::move(parsing.stops)) : OutputParser(parsing);
}

}  // namespace

AnswerProcessor::AnswerProcessor(AnswerOptions options, std::shared_ptr<const Tokenizer> tokenizer,
                                 AnswerSink* sink)
    : options_(std::move(options)),
      tokenizer_(std::move(tokenizer)),
      sink_(sink),
      parser_(MakeParser(options_)) {}

void AnswerProcessor::Ready(std::optional<std::string> fingerprint, const PromptUsage& usage) {
  if (started_ || finished_) return;
  started_ = true;
  sink_->OnStart({std::move(fingerprint), usage});
}

void AnswerProcessor::EnsureStarted() {
  if (!started_) Ready({}, {});
}

void AnswerProcessor::Text(std::string_view text, int64_t num_tokens) {
  if (finished_) return;
  EnsureStarted();
  completion_tokens_ += num_tokens;
  const uint64_t begin = text_end_;
  text_.clear();
  if (repairer_.num_pending_bytes() > 0 || unicode::FindInvalidUtf8(text) != std::string_view::npos) {
    repairer_.Append(text, &text_);
    text = text_;
  }
  text_end_ += text.size();
  if (counts_reasoning()) AddSource(begin, true, nullptr);
  Parse(text);
}

Status AnswerProcessor::Tokens(std::span<const int32_t> ids, std::span<const TokenLogprob> logprobs) {
  if (tokenizer_ == nullptr) return InvalidArgument("token ids need a tokenizer", "ids");
  if (!logprobs.empty() && logprobs.size() != ids.size()) {
    return InvalidArgument("there must be one entry for each id", "logprobs");
  }
  if (finished_) return OkStatus();
  EnsureStarted();
  completion_tokens_ += static_cast<int64_t>(ids.size());
  text_.clear();
  std::string_view text;
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string_view bytes = tokenizer_->TokenBytes(ids[i]);
    if (bytes.empty()) continue;
    const uint64_t begin = text_end_;
    if (ids.size() == 1 && repairer_.num_pending_bytes() == 0 &&
        unicode::FindInvalidUtf8(bytes) == std::string_view::npos) {
      text = bytes;
      text_end_ += bytes.size();
    } else {
      const size_t size_before = text_.size();
      repairer_.Append(bytes, &text_);
      text_end_ += text_.size() - size_before;
      text = text_;
    }
    if (counts_reasoning() || !logprobs.empty())
      AddSource(begin, false, logprobs.empty() ? nullptr : &logprobs[i]);
  }
  Parse(text);
  return OkStatus();
}

void AnswerProcessor::AddSource(uint64_t begin, bool is_text, const TokenLogprob* logprob) {
  Source& source = sources_.emplace_back();
  source.begin = begin;
  // A token whose last bytes wait for the rest of a character belongs to that character, too.
  source.end = text_end_ + (!is_text && repairer_.num_pending_bytes() > 0 ? 1 : 0);
  source.is_text = is_text;
  if (logprob == nullptr) return;
  source.has_logprob = true;
  source.logprob = *logprob;
}

void AnswerProcessor::Parse(std::string_view text) {
  parser_.Push(text, this);
  SendArguments();
  ForgetSources(parser_.num_classified_bytes());
  if (sources_begin_ == sources_.size()) {
    sources_.clear();
    sources_begin_ = 0;
  } else if (sources_begin_ > 64 && sources_begin_ > sources_.size() / 2) {
    sources_.erase(sources_.begin(), sources_.begin() + static_cast<ptrdiff_t>(sources_begin_));
    sources_begin_ = 0;
  }
  if (stopped_) Conclude(FinishReason::kStopSequence);
}

void AnswerProcessor::Finish(BackendFinish finish) {
  if (finished_) return;
  Flush();
  if (finished_) return;  // a stop sequence at the very end
  switch (finish) {
    case BackendFinish::kStop:
      return Conclude(num_calls_ > 0 ? FinishReason::kToolCalls : FinishReason::kStop);
    case BackendFinish::kLength: return Conclude(FinishReason::kLength);
    case BackendFinish::kContentFilter: return Conclude(FinishReason::kContentFilter);
  }
}

void AnswerProcessor::End() {
  if (finished_) return;
  Flush();
  if (!finished_) Conclude(FinishReason::kEndOfStream);
}

void AnswerProcessor::Flush() {
  EnsureStarted();
  if (repairer_.num_pending_bytes() > 0) {
    text_.clear();
    repairer_.Finish(&text_);
    text_end_ += text_.size();
    Parse(text_);
    if (finished_) return;
  }
  parser_.Finish(this);
  SendArguments();
}

void AnswerProcessor::Conclude(FinishReason reason) {
  finished_ = true;
  sink_->OnFinish({.reason = reason,
                   .stop_sequence = stop_,
                   .completion_tokens = completion_tokens_,
                   .reasoning_tokens = ReasoningTokens()});
}

std::optional<int64_t> AnswerProcessor::ReasoningTokens() const {
  if (!counts_reasoning()) return std::nullopt;
  if (reasoning_text_.empty()) return reasoning_ids_;
  const EncodeOptions options{.added_tokens = true,
                              .max_bytes = std::numeric_limits<size_t>::max(),
                              .max_tokens = std::numeric_limits<size_t>::max()};
  const auto ids = tokenizer_->Encode(reasoning_text_, options);
  return reasoning_ids_ + (ids.ok() ? static_cast<int64_t>(ids->size()) : 0);
}

void AnswerProcessor::ForgetSources(uint64_t before) {
  while (sources_begin_ < sources_.size() && sources_[sources_begin_].end <= before) ++sources_begin_;
}

template <typename Visit>
void AnswerProcessor::ForSources(uint64_t begin, uint64_t end, Visit visit) {
  ForgetSources(begin);
  for (size_t i = sources_begin_; i < sources_.size() && sources_[i].begin < end; ++i) visit(sources_[i]);
}

AnswerSink::Logprobs AnswerProcessor::TakeLogprobs(uint64_t begin, uint64_t end) {
  taken_logprobs_.clear();
  ForSources(begin, end, [this](Source& source) {
    if (source.has_logprob) taken_logprobs_.push_back(&source.logprob);
    source.has_logprob = false;
  });
  return taken_logprobs_;
}

void AnswerProcessor::OnReasoning(std::string_view text, uint64_t offset) {
  has_reasoning_ = true;
  const uint64_t end = offset + text.size();
  if (counts_reasoning()) {
    ForSources(offset, end, [&](Source& source) {
      if (source.is_text) {
        const uint64_t from = std::max(offset, source.begin);
        reasoning_text_ += text.substr(from - offset, std::min(end, source.end) - from);
      } else if (!source.is_reasoning) {
        source.is_reasoning = true;
        ++reasoning_ids_;
      }
    });
  }
  sink_->OnReasoning(text, TakeLogprobs(offset, end));
}

void AnswerProcessor::OnText(std::string_view text, uint64_t offset) {
  sink_->OnText(text, TakeLogprobs(offset, offset + text.size()));
}

void AnswerProcessor::OnReplacedText() { sink_->OnText(" ", {}); }

void AnswerProcessor::OnCall(std::string_view name) {
  SendArguments();
  const bool empty_thinking = options_.thinking && !has_reasoning_;
  const std::string id = MakeCallId(num_calls_, empty_thinking, options_.random);
  sink_->OnCall({num_calls_, id, name});
  ++num_calls_;
}

void AnswerProcessor::OnArguments(std::string_view json) { arguments_ += json; }

void AnswerProcessor::SendArguments() {
  if (arguments_.empty()) return;
  sink_->OnArguments(arguments_);
  arguments_.clear();
}

void AnswerProcessor::OnStop(std::string_view stop) {
  stop_ = stop;
  stopped_ = true;
}

}  // namespace deepinfer::recipe
