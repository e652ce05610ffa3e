// Texts made from the option tables: help, man page, shell completion.
#pragma once

#include <span>
#include <string>

#include "cli/option_spec.h"

namespace deepinfer::cli {

/// `deepinfer --help`: what there is, one example each.
std::string OverviewHelp(std::span<const CommandSpec> commands);
/// `deepinfer COMMAND --help`.
std::string CommandHelp(const CommandSpec& command);
/// deepinfer(1) in man(7) macros.
std::string ManPage(std::span<const CommandSpec> commands);

std::string BashCompletion(std::span<const CommandSpec> commands);
std::string ZshCompletion(std::span<const CommandSpec> commands);
std::string FishCompletion(std::span<const CommandSpec> commands);

/// "deepinfer generate [MODEL] TEXT [options]".
std::string UsageLine(const CommandSpec& command);

/// Breaks a text at blanks so that lines hold at most `width` columns, and indents every line but the first.
std::string Wrap(std::string_view text, size_t width, size_t indent);

/// Exit codes as help and man page list them.
struct ExitCodeText {
  int code;
  std::string_view meaning;
};
std::span<const ExitCodeText> ExitCodes();

/// Environment variables that commands read.
struct VariableText {
  std::string_view name, meaning;
};
std::span<const VariableText> Variables();

}  // namespace deepinfer::cli
