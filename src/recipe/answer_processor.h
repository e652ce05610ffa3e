// From what the engine produces to what protocols show: token ids or text in, parsed pieces of an answer with usage, call ids and
// finish reason out (spec: recipe.md §6.3, §6.4).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "recipe/call_id.h"
#include "recipe/conversation.h"
#include "recipe/output_parser.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::recipe {

/// Tokens of the prompt, and how many of them came from a cache.
struct PromptUsage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
};

/// A token with its natural log-probability and the likeliest alternatives.
struct TokenLogprob {
  struct Candidate {
    int32_t id = 0;
    float logprob = 0;
  };
  int32_t id = 0;
  float logprob = 0;
  std::vector<Candidate> top;
};

/// Why generation ended, as the engine says it.
enum class BackendFinish : uint8_t { kStop, kLength, kContentFilter };

/// Why the answer ended (spec: recipe.md §6.4).
enum class FinishReason : uint8_t { kStop, kStopSequence, kToolCalls, kLength, kContentFilter, kEndOfStream };

struct AnswerStart {
  std::optional<std::string> fingerprint;
  PromptUsage usage;
};

struct CallStart {
  int64_t index = 0;
  std::string_view id;
  std::string_view name;
};

struct AnswerFinish {
  FinishReason reason = FinishReason::kStop;
  std::string_view stop_sequence;  // kStopSequence only
  int64_t completion_tokens = 0;
  std::optional<int64_t> reasoning_tokens;  // thinking with a tokenizer only
};

/// Takes the parsed answer: one start, pieces, one finish. Views are valid during the call. Logprobs are those of the tokens whose
/// text begins in the piece; tokens of markup are never listed (spec: recipe.md §17 D11).
class AnswerSink {
 public:
  using Logprobs = std::span<const TokenLogprob* const>;
  virtual ~AnswerSink() = default;
  virtual void OnStart(const AnswerStart& start) = 0;
  virtual void OnReasoning(std::string_view text, Logprobs logprobs) = 0;
  virtual void OnText(std::string_view text, Logprobs logprobs) = 0;
  virtual void OnCall(const CallStart& call) = 0;
  /// More argument text of the last call.
  virtual void OnArguments(std::string_view json) = 0;
  virtual void OnFinish(const AnswerFinish& finish) = 0;
};

struct AnswerOptions {
  ParsingOptions parsing;
  bool thinking = false;                     // the request's; decides about call ids and reasoning tokens
  bool plain = false;                        // a text completion: nothing is recognised but stop sequences
  RandomSource random = SystemRandomNumber;  // for call ids
};

/// Processes the chunks of one answer. After the finish (Finish, End, or a stop sequence) chunks are ignored; an engine should then
/// be stopped. The sink must outlive the object.
class AnswerProcessor : private ParserSink {
 public:
  /// `tokenizer` may be null when only text comes; then usage has no reasoning tokens.
  AnswerProcessor(AnswerOptions options, std::shared_ptr<const Tokenizer> tokenizer, AnswerSink* sink);

  /// The prompt is processed. Only the first call before any output counts; output without it starts with zero usage.
  void Ready(std::optional<std::string> fingerprint, const PromptUsage& usage);
  /// Text that counts as `num_tokens` tokens. Bytes that are no UTF-8 are repaired; a character may be cut between calls.
  void Text(std::string_view text, int64_t num_tokens = 1);
  /// Generated ids. Complete characters go out at once, at most 3 bytes wait; ids outside the vocabulary have no text and are
  /// counted. `logprobs` is empty or has one entry for each id. Errors: kInvalidArgument without a tokenizer, or when the numbers differ;
  /// then nothing was processed.
  Status Tokens(std::span<const int32_t> ids, std::span<const TokenLogprob> logprobs = {});
  void Finish(BackendFinish finish);
  /// The source ended without saying why.
  void End();

  bool finished() const { return finished_; }

 private:
  // A token, or a text chunk, and the bytes of the text that it had a part in.
  struct Source {
    uint64_t begin = 0, end = 0;
    bool is_text = false, is_reasoning = false, has_logprob = false;
    TokenLogprob logprob;
  };

  void OnReasoning(std::string_view text, uint64_t offset) override;
  void OnText(std::string_view text, uint64_t offset) override;
  void OnReplacedText() override;
  void OnCall(std::string_view name) override;
  void OnArguments(std::string_view json) override;
  void OnStop(std::string_view stop) override;

  void EnsureStarted();
  void AddSource(uint64_t begin, bool is_text, const TokenLogprob* logprob);
  void Parse(std::string_view text);
  void Flush();
  void SendArguments();
  void Conclude(FinishReason reason);
  void ForgetSources(uint64_t before);
  template <typename Visit>
  void ForSources(uint64_t begin, uint64_t end, Visit visit);
  AnswerSink::Logprobs TakeLogprobs(uint64_t begin, uint64_t end);
  bool counts_reasoning() const { return options_.thinking && tokenizer_ != nullptr; }
  std::optional<int64_t> ReasoningTokens() const;

  AnswerOptions options_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  AnswerSink* sink_;
  OutputParser parser_;
  Utf8Repairer repairer_;
  std::string text_;             // text of the chunk at hand
  uint64_t text_end_ = 0;        // bytes of all text so far, the chunk at hand included
  std::vector<Source> sources_;  // from sources_begin_ on: not wholly classified
  size_t sources_begin_ = 0;
  std::vector<const TokenLogprob*> taken_logprobs_;
  std::string reasoning_text_;  // reasoning that came as text, to be counted
  std::string arguments_;       // of the last call, not yet given to the sink: one piece a chunk
  std::string stop_;
  int64_t num_calls_ = 0;
  int64_t completion_tokens_ = 0;
  int64_t reasoning_ids_ = 0;
  bool started_ = false, finished_ = false, has_reasoning_ = false, stopped_ = false;
};

}  // namespace deepinfer::recipe
