#include "cli/answer_printer.h"

#include <string>

#include <fmt/format.h>

#include "cli/output.h"

namespace deepinfer::cli {
namespace {

std::string Safe(std::string_view text) { return StdoutIsTerminal() ? Printable(text) : std::string(text); }

}  // namespace

AnswerPrinter::AnswerPrinter(bool show_thinking) : show_reasoning_(show_thinking || StdoutIsTerminal()) {}

void AnswerPrinter::OnReasoning(std::string_view text, Logprobs) {
  if (!show_reasoning_) return;
  Write(std::string(DimOn()) + Safe(text) + std::string(DimOff()));
  reasoning_ = true;
}

void AnswerPrinter::OnText(std::string_view text, Logprobs) {
  if (reasoning_) Write("\n\n");
  reasoning_ = false;
  Write(Safe(text));
}

void AnswerPrinter::OnCall(const recipe::CallStart& call) {
  if (reasoning_) Write("\n");
  reasoning_ = false;
  if (something_ && !last_was_newline_) Write("\n");
  Write(fmt::format("[call {}] ", Safe(call.name)));
}

void AnswerPrinter::OnArguments(std::string_view json) { Write(Safe(json)); }

void AnswerPrinter::Print(const recipe::Answer& answer) {
  if (!answer.reasoning.empty()) OnReasoning(answer.reasoning, {});
  if (!answer.text.empty()) OnText(answer.text, {});
  for (const auto& call : answer.calls) {
    OnCall({.index = 0, .id = call.id, .name = call.name});
    OnArguments(call.arguments);
  }
}

Status AnswerPrinter::EndAnswer() {
  if (!last_was_newline_) Write("\n");
  reasoning_ = false;
  something_ = false;
  last_was_newline_ = false;
  return status_;
}

void AnswerPrinter::Write(std::string_view text) {
  if (status_.ok()) status_ = WriteStdout(text);
  something_ = true;
  last_was_newline_ = text.ends_with('\n');
}

}  // namespace deepinfer::cli
