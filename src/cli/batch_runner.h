// Answers the lines of a batch (spec: cli.md §2, batch).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "cli/answer.h"
#include "cli/arguments.h"
#include "cli/batch_request.h"
#include "cli/line_reader.h"
#include "cli/openai_batch.h"
#include "cli/progress.h"

namespace deepinfer::cli {

/// What one input line became.
struct LineResult {
  json::Value object;
  bool failed = false;
  bool interrupted = false;
  int64_t prompt_tokens = 0, output_tokens = 0;
};

/// The value of `id` in the result of a line. `input` as LineIdentity has it.
json::Value ResultId(const Line& line, const Sha256Digest& input);
/// Whether a result says that its line failed.
bool IsFailure(const json::Value& result);

/// Answers lines, one after the other.
class BatchRunner {
 public:
  /// `model_name`: a name that bodies may give the loaded model, besides those of the library.
  BatchRunner(Engine& engine, const Arguments& args, BatchDefaults defaults, std::string model_name);

  /// `input` as LineIdentity has it. What is wrong with the line is a LineResult; an error is the run's and ends it, so that a resumed
  /// run answers the line.
  Result<LineResult> Run(const Line& line, const Sha256Digest& input, BatchMeter* meter);

 private:
  /// Forms 1 to 3.
  Result<LineResult> RunLine(const Line& line, const LineIdentity& identity, BatchMeter* meter);
  /// Form 4.
  Result<LineResult> RunOpenAi(recipe::JsonView line, const LineIdentity& identity, BatchMeter* meter);
  /// The body of the answer, or the error that the protocol's server would give instead.
  Result<json::Value> AnswerOpenAi(const OpenAiLine& line, const LineIdentity& identity, BatchMeter* meter,
                                   LineResult* result, recipe::RequestError* error);
  Result<Prompt> OpenAiPrompt(const recipe::Request& request) const;
  /// Runs a prompt and counts its tokens in `result`.
  Result<Answer> Run(const Prompt& prompt, const BaseRequest& request, const LineIdentity& identity,
                     BatchMeter* meter, LineResult* result);
  recipe::HistoryThinking history_thinking() const {
    return defaults_.prompt.history_thinking.value_or(recipe::HistoryThinking::kAuto);
  }

  Engine& engine_;
  const Arguments& args_;
  BatchDefaults defaults_;
  OpenAiDefaults openai_;
};

}  // namespace deepinfer::cli
