// An answer for people, written to standard output while it arrives.
#pragma once

#include <string_view>

#include "base/status.h"
#include "recipe/response.h"

namespace deepinfer::cli {

/// Reasoning is dimmed on a terminal and left out on a pipe unless it is asked for; control characters do not reach a terminal. A
/// tool call is a line of its own: its name and its arguments as JSON.
class AnswerPrinter : public recipe::AnswerSink {
 public:
  explicit AnswerPrinter(bool show_thinking);

  void OnStart(const recipe::AnswerStart&) override {}
  void OnReasoning(std::string_view text, Logprobs logprobs) override;
  void OnText(std::string_view text, Logprobs logprobs) override;
  void OnCall(const recipe::CallStart& call) override;
  void OnArguments(std::string_view json) override;
  void OnFinish(const recipe::AnswerFinish&) override {}

  /// A whole answer.
  void Print(const recipe::Answer& answer);
  /// Ends the answer with a line end; what comes next begins another one. Errors: the first one of writing.
  Status EndAnswer();

 private:
  void Write(std::string_view text);

  bool show_reasoning_;
  bool reasoning_ = false;  // the last piece was reasoning
  bool something_ = false;  // was written of this answer
  bool last_was_newline_ = false;
  Status status_;
};

}  // namespace deepinfer::cli
