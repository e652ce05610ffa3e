#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/documents.h"

namespace deepinfer::cli {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kColumn = 30;  // where the explanation of an option begins

// Characters, not bytes: the tables hold some non-ASCII text.
size_t Columns(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string Row(const std::string& left, const std::string& right) {
  std::string out = "  " + left;
  const size_t used = Columns(out);
  if (used + 2 > kColumn) {
    out += "\n" + std::string(kColumn, ' ');
  } else {
    out += std::string(kColumn - used, ' ');
  }
  return out + Wrap(right, kWidth - kColumn, kColumn) + "\n";
}

std::string OptionLeft(const OptionSpec& option) {
  std::string out = option.short_name.empty() ? std::string() : option.short_name + ", ";
  out += option.name;
  if (option.kind == ValueKind::kFlag) return out;
  return out + (option.optional_value ? "[=" + option.value + "]" : " " + option.value);
}

std::string OptionRight(const OptionSpec& option) {
  std::string out = option.help;
  const std::string range = RangeText(option);
  if (option.kind == ValueKind::kInteger || option.kind == ValueKind::kReal) out += "; " + range;
  if (option.repeated) out += "; may be repeated";
  return out;
}

}  // namespace

std::string Wrap(std::string_view text, size_t width, size_t indent) {
  std::string out;
  size_t column = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    const size_t columns = Columns(word);
    if (column > 0 && column + 1 + columns > width) {
      out += "\n" + std::string(indent, ' ');
      column = 0;
    } else if (column > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += columns;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::span<const ExitCodeText> ExitCodes() {
  static constexpr std::array<ExitCodeText, 6> kCodes = {{
      {0, "done"},
      {1, "at least one item failed; the rest is complete"},
      {2, "wrong usage: unknown option or value out of range"},
      {3, "the environment: file, memory, device or permission"},
      {4, "the model or another input file is unsound"},
      {130, "interrupted; what was finished is on disk"},
  }};
  return kCodes;
}

std::span<const VariableText> Variables() {
  static constexpr std::array<VariableText, 6> kVariables = {{
      {"DEEPINFER_MODEL", "checkpoint folder when MODEL is left out"},
      {"DEEPINFER_ALLOW_LINKS", "folder that links of a model may lead to when --allow-links is left out"},
      {"DEEPINFER_CPU_TARGET", "kernel target when --cpu-target is left out"},
      {"DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE",
       "off, mask or compact: prefill mode when --prefill is left out"},
      {"DEEPINFER_YOCO_PREFILL_KEEP_TOKENS", "prompt rows that bounded_replay keeps without --keep-tokens"},
      {"NO_COLOR", "when set, no dimmed text on a terminal"},
  }};
  return kVariables;
}

std::string UsageLine(const CommandSpec& command) {
  std::string out = "deepinfer " + command.name;
  for (const PositionalSpec& positional : command.positionals) {
    out += positional.required ? " " + positional.name : " [" + positional.name + "]";
  }
  return command.groups.empty() ? out : out + " [options]";
}

std::string CommandHelp(const CommandSpec& command) {
  std::string out =
      fmt::format("deepinfer {}: {}\n\nUsage:\n  {}\n", command.name, command.summary, UsageLine(command));
  out += fmt::format("\nExample:\n  {}\n", command.example);
  if (!command.example_note.empty()) out += "  " + Wrap(command.example_note, kWidth - 2, 2) + "\n";
  if (!command.description.empty()) out += "\n" + Wrap(command.description, kWidth, 0) + "\n";
  if (!command.positionals.empty()) out += "\nArguments:\n";
  for (const PositionalSpec& positional : command.positionals) out += Row(positional.name, positional.help);
  for (const OptionGroup& group : command.groups) {
    out += fmt::format("\n{}:\n", group.title);
    for (const OptionSpec& option : group.options) out += Row(OptionLeft(option), OptionRight(option));
  }
  if (!command.see_also.empty()) {
    out += "\nRelated:\n";
    for (const std::string& name : command.see_also) out += fmt::format("  deepinfer {} --help\n", name);
  }
  return out;
}

std::string OverviewHelp(std::span<const CommandSpec> commands) {
  std::string out =
      "deepinfer: inference for DeepSeek-V4.1-Flash\n\nUsage:\n  deepinfer COMMAND [arguments] [options]\n\n"
      "Example:\n  deepinfer generate \"Tell me a story about a rabbit called Jeta.\"\n"
      "  Runs on the bundled demo model: no download, no GPU.\n\nCommands:\n";
  for (const CommandSpec& command : commands) out += Row(command.name, command.summary);
  out += "\nOptions:\n";
  out += Row("--help", "this text; deepinfer COMMAND --help explains a command");
  out += Row("--version",
             "version, commit, build type, kernel target and CUDA support; with --json as an object");
  out += "\nEnvironment:\n";
  for (const VariableText& variable : Variables())
    out += Row(std::string(variable.name), std::string(variable.meaning));
  out += "\nExit codes:\n";
  for (const ExitCodeText& code : ExitCodes())
    out += Row(fmt::format("{}", code.code), std::string(code.meaning));
  return out;
}

}  // namespace deepinfer::cli
