// From a prompt to an answer and its JSON form: what `generate`, `batch` and `chat` share (spec: cli.md §2, generate).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "cli/common_options.h"
#include "engine/engine.h"
#include "recipe/prompt.h"
#include "recipe/response.h"

namespace deepinfer::cli {

/// A prompt as ids, and how what follows it is read. Texts and ids have the plain reader: nothing is recognised but stop texts.
struct Prompt {
  std::vector<int32_t> ids;
  recipe::AnswerOptions answer;  // stop texts and the source of call ids come with the run
};

/// Errors: those of the encoder (kInvalidArgument, for a vocabulary without control tokens as well).
Result<Prompt> ChatPrompt(const Tokenizer& tokenizer, const recipe::Request& request,
                          recipe::HistoryThinking history_thinking);
Result<Prompt> TextPrompt(const Tokenizer& tokenizer, std::string_view text, bool special);
Prompt IdsPrompt(std::vector<int32_t> ids);

/// One sample.
struct Sample {
  GenerationResult result;
  recipe::Answer answer;
  /// "stop", "tool_calls", "length", "context_length" or "cancelled".
  std::string_view finish_reason() const;
};

struct Answer {
  std::vector<Sample> samples;  // as many as were asked for, fewer after an interrupt
  uint64_t seed = 0;
  bool interrupted() const;
};

/// What goes along with a run.
struct AnswerRun {
  uint64_t seed = 0;
  /// What ids of tool calls follow from: the same text, the same ids.
  std::string id_key;
  recipe::AnswerSink* sink = nullptr;        // takes the pieces of the answer as they become certain
  std::function<void()> on_token = nullptr;  // after every token
  Session* session = nullptr;
};

/// Runs `request.n` samples after each other. A stop text ends an answer where it stands in its text, not in the reasoning and not
/// in a tool call. Errors: those of Engine::Generate.
Result<Answer> RunAnswer(Engine& engine, const Prompt& prompt, const BaseRequest& request,
                         const AnswerRun& run);

/// Whether an error of the engine is the fault of the request: the same request fails again, others do not. Everything else (a file that
/// was cut, memory, an interrupt, a defect) belongs to the run and must not become a line's result.
bool IsRequestFault(const Status& status);

/// What the JSON form needs beside the answer.
struct AnswerContext {
  json::Value id;
  const Prompt* prompt = nullptr;
  const BaseRequest* request = nullptr;
  bool choices = false;           // an array `choices` (--n was given)
  std::optional<double> load_ms;  // set: with `timing`
};
json::Value AnswerToJson(const Answer& answer, const AnswerContext& context);

/// An identifier that follows from the prompt and the seed: "gen-" and 16 hexadecimal digits.
std::string AnswerId(const Prompt& prompt, uint64_t seed);

}  // namespace deepinfer::cli
