// From a prompt to an answer and its JSON form: what `generate`, `batch` and `chat` share (spec: cli.md §2, generate).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "cli/common_options.h"
#include "engine/engine.h"
#include "recipe/plain_chat.h"

namespace deepinfer::cli {

/// A prompt as ids. A chat prompt's answer is split into reasoning and content; any other answer is text as it is.
struct Prompt {
  std::vector<int32_t> ids;
  bool chat = false;
  bool thinking = false;  // a chat prompt that ended with <think>
};

/// Errors: those of the encoder (kInvalidArgument).
Result<Prompt> ChatPrompt(const Tokenizer& tokenizer, std::span<const recipe::plain::Message> messages,
                          const recipe::plain::ChatOptions& options);
Result<Prompt> TextPrompt(const Tokenizer& tokenizer, std::string_view text, bool special);

/// One sample.
struct Sample {
  GenerationResult result;
  std::string text, reasoning;
  int64_t reasoning_tokens = 0;
};

struct Answer {
  std::vector<Sample> samples;  // as many as were asked for, fewer after an interrupt
  uint64_t seed = 0;
  bool interrupted() const;
};

/// What became certain of the sample that is being generated.
using AnswerSink = std::function<void(const recipe::plain::AnswerParser::Delta& delta)>;

/// Runs `request.n` samples after each other. Errors: those of Engine::Generate.
Result<Answer> RunAnswer(Engine& engine, const Prompt& prompt, const BaseRequest& request, uint64_t seed,
                         const AnswerSink& sink, Session* session = nullptr);

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
