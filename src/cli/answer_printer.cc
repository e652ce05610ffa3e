#include "cli/answer_printer.h"

#include <string>

#include "cli/output.h"

namespace deepinfer::cli {
namespace {

std::string Safe(std::string_view text) { return StdoutIsTerminal() ? Printable(text) : std::string(text); }

}  // namespace

AnswerPrinter::AnswerPrinter(bool show_thinking) : show_reasoning_(show_thinking || StdoutIsTerminal()) {}

void AnswerPrinter::Push(const recipe::plain::AnswerParser::Delta& delta) {
  if (show_reasoning_ && !delta.reasoning.empty()) {
    Write(std::string(DimOn()) + Safe(delta.reasoning) + std::string(DimOff()));
    reasoning_ = true;
  }
  if (delta.content.empty()) return;
  if (reasoning_) Write("\n\n");
  reasoning_ = false;
  Write(Safe(delta.content));
}

Status AnswerPrinter::Finish() {
  if (!last_was_newline_) Write("\n");
  reasoning_ = false;
  last_was_newline_ = false;
  return status_;
}

void AnswerPrinter::Write(std::string_view text) {
  if (status_.ok()) status_ = WriteStdout(text);
  last_was_newline_ = text.ends_with('\n');
}

}  // namespace deepinfer::cli
