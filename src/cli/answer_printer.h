// An answer for people, written to standard output while it arrives.
#pragma once

#include <string_view>

#include "base/status.h"
#include "recipe/plain_chat.h"

namespace deepinfer::cli {

/// Reasoning is dimmed on a terminal and left out on a pipe unless it is asked for; control characters do not reach a terminal.
class AnswerPrinter {
 public:
  explicit AnswerPrinter(bool show_thinking);

  void Push(const recipe::plain::AnswerParser::Delta& delta);
  /// Ends the answer with a line end; the next Push begins another one. Errors: the first one of writing.
  Status Finish();

 private:
  void Write(std::string_view text);

  bool show_reasoning_;
  bool reasoning_ = false;
  bool last_was_newline_ = false;
  Status status_;
};

}  // namespace deepinfer::cli
