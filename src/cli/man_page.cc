#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "cli/documents.h"
#include "cli/version.h"

namespace deepinfer::cli {
namespace {

// Roff: backslashes and dashes have meanings of their own, and so has a dot or an apostrophe that begins a line.
std::string Roff(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (static_cast<unsigned char>(c) >= 0xc0) {
      // A character outside ASCII goes in by its number: the page reads the same whatever the formatter takes bytes for.
      const int length = static_cast<unsigned char>(c) >= 0xe0 ? 3 : 2;
      uint32_t point = static_cast<unsigned char>(c) & (length == 3 ? 0x0fu : 0x1fu);
      for (size_t k = 1; k < static_cast<size_t>(length); ++k)
        point = point << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3fu);
      out += fmt::format("\\[u{:04X}]", point);
      i += static_cast<size_t>(length) - 1;
    } else {
      out += c;
    }
  }
  if (!out.empty() && (out.front() == '.' || out.front() == '\'')) out.insert(0, "\\&");
  return out;
}

std::string OptionEntry(const OptionSpec& option) {
  std::string out = ".TP\n";
  out += option.short_name.empty() ? std::string() : fmt::format("\\fB{}\\fR, ", Roff(option.short_name));
  out += fmt::format("\\fB{}\\fR", Roff(option.name));
  if (option.kind != ValueKind::kFlag) {
    out += option.optional_value ? fmt::format("[=\\fI{}\\fR]", Roff(option.value))
                                 : fmt::format(" \\fI{}\\fR", Roff(option.value));
  }
  std::string text = option.help;
  const std::string range = RangeText(option);
  if (option.kind == ValueKind::kInteger || option.kind == ValueKind::kReal) text += "; " + range;
  if (option.repeated) text += "; may be repeated";
  return out + "\n" + Roff(text) + ".\n";
}

// Groups that every command of some kind shares are printed once, in a section of their own.
bool IsShared(const OptionGroup& group, std::span<const CommandSpec> commands) {
  return std::count_if(commands.begin(), commands.end(), [&](const CommandSpec& command) {
           return std::any_of(command.groups.begin(), command.groups.end(),
                              [&](const OptionGroup& other) { return other.title == group.title; });
         }) > 1;
}

std::string CommandSection(const CommandSpec& command, std::span<const CommandSpec> commands) {
  std::string out = fmt::format(".SS {}\n.B {}\n.PP\n{}.\n", Roff(command.name), Roff(UsageLine(command)),
                                Roff(command.summary));
  if (!command.description.empty()) out += ".PP\n" + Roff(command.description) + "\n";
  for (const PositionalSpec& positional : command.positionals) {
    out += fmt::format(".TP\n\\fI{}\\fR\n{}.\n", Roff(positional.name), Roff(positional.help));
  }
  std::string shared;
  for (const OptionGroup& group : command.groups) {
    if (IsShared(group, commands)) {
      shared += (shared.empty() ? "" : ", ") + group.title;
      continue;
    }
    for (const OptionSpec& option : group.options) out += OptionEntry(option);
  }
  if (!shared.empty()) out += fmt::format(".PP\nAlso takes: {}.\n", Roff(shared));
  out += fmt::format(".PP\nExample:\n.PP\n.nf\n.RS\n{}\n.RE\n.fi\n", Roff(command.example));
  return out;
}

}  // namespace

std::string ManPage(std::span<const CommandSpec> commands) {
  std::string out = fmt::format(".TH DEEPINFER 1 \"\" \"deepinfer {}\" \"User Commands\"\n", VersionNumber());
  out += ".SH NAME\ndeepinfer \\- inference for DeepSeek\\-V4.1\\-Flash\n";
  out +=
      ".SH SYNOPSIS\n.B deepinfer\n\\fICOMMAND\\fR [arguments] [options]\n.br\n.B deepinfer \\-\\-version\n";
  out += ".SH COMMANDS\n";
  for (const CommandSpec& command : commands) out += CommandSection(command, commands);
  out += ".SH SHARED OPTIONS\n";
  std::string seen;
  for (const CommandSpec& command : commands) {
    for (const OptionGroup& group : command.groups) {
      if (!IsShared(group, commands) || seen.find("|" + group.title + "|") != std::string::npos) continue;
      seen += "|" + group.title + "|";
      out += ".SS " + Roff(group.title) + "\n";
      for (const OptionSpec& option : group.options) out += OptionEntry(option);
    }
  }
  out += ".SH ENVIRONMENT\n";
  for (const VariableText& variable : Variables()) {
    out += fmt::format(".TP\n.B {}\n{}.\n", Roff(variable.name), Roff(variable.meaning));
  }
  out += ".SH EXIT STATUS\n";
  for (const ExitCodeText& code : ExitCodes())
    out += fmt::format(".TP\n.B {}\n{}.\n", code.code, Roff(code.meaning));
  return out;
}

}  // namespace deepinfer::cli
