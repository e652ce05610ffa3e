#include <fmt/format.h>

#include "cli/documents.h"

namespace deepinfer::cli {
namespace {

std::string Replace(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string Names(std::span<const CommandSpec> commands) {
  std::string out;
  for (const CommandSpec& command : commands) out += (out.empty() ? "" : " ") + command.name;
  return out;
}

std::string OptionNames(const CommandSpec& command) {
  std::string out;
  for (const OptionGroup& group : command.groups) {
    for (const OptionSpec& option : group.options) out += (out.empty() ? "" : " ") + option.name;
  }
  return out;
}

// Inside single quotes of fish and zsh.
std::string Quoted(std::string text) {
  return "'" + Replace(Replace(std::move(text), "\\", "\\\\"), "'", "'\\''") + "'";
}

std::string ZshText(std::string text) {
  return Replace(Replace(Replace(Replace(std::move(text), "'", "'\\''"), ":", "\\:"), "[", "\\["), "]",
                 "\\]");
}

std::string ZshOption(const OptionSpec& option) {
  std::string action;
  switch (option.kind) {
    case ValueKind::kFlag: break;
    case ValueKind::kChoice:
      action = fmt::format(":{}:({})", ZshText(option.value), fmt::join(option.choices, " "));
      break;
    case ValueKind::kFile: action = fmt::format(":{}:_files", ZshText(option.value)); break;
    case ValueKind::kFolder: action = fmt::format(":{}:_files -/", ZshText(option.value)); break;
    default: action = fmt::format(":{}:", ZshText(option.value));
  }
  return fmt::format("      '{}{}[{}]{}' \\\n", option.repeated ? "*" : "", option.name, ZshText(option.help),
                     action);
}

}  // namespace

std::string BashCompletion(std::span<const CommandSpec> commands) {
  std::string out =
      "# bash completion for deepinfer, generated from its option tables\n_deepinfer() {\n"
      "  local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\" "
      "command=\"${COMP_WORDS[1]}\"\n";
  out += fmt::format(
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W \"{} --help --version\" -- "
      "\"$cur\"))\n    return\n  fi\n",
      Names(commands));
  out += "  case \"$command $prev\" in\n";
  for (const CommandSpec& command : commands) {
    for (const OptionGroup& group : command.groups) {
      for (const OptionSpec& option : group.options) {
        if (option.kind != ValueKind::kChoice) continue;
        out += fmt::format("    \"{} {}\") COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")); return;;\n",
                           command.name, option.name, fmt::join(option.choices, " "));
      }
    }
  }
  out += "  esac\n  case \"$command\" in\n";
  for (const CommandSpec& command : commands) {
    out += fmt::format(
        "    {})\n      case \"$cur\" in\n        -*) COMPREPLY=($(compgen -W \"{} --help\" -- \"$cur\"));;\n"
        "        *) COMPREPLY=($(compgen -f -- \"$cur\"));;\n      esac;;\n",
        command.name, OptionNames(command));
  }
  return out + "  esac\n}\ncomplete -o filenames -o bashdefault -F _deepinfer deepinfer\n";
}

std::string ZshCompletion(std::span<const CommandSpec> commands) {
  std::string out =
      "#compdef deepinfer\n# zsh completion for deepinfer, generated from its option tables\n_deepinfer() {\n"
      "  local -a commands\n  commands=(\n";
  for (const CommandSpec& command : commands)
    out += fmt::format("    '{}:{}'\n", command.name, ZshText(command.summary));
  out +=
      "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    _arguments '--help[show "
      "help]' '--version[show the version]'\n"
      "    return\n  fi\n  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n";
  for (const CommandSpec& command : commands) {
    out += fmt::format("    {})\n      _arguments \\\n", command.name);
    for (const OptionGroup& group : command.groups) {
      for (const OptionSpec& option : group.options) out += ZshOption(option);
    }
    out += "      '--help[show help]' '*:file:_files';;\n";
  }
  return out + "  esac\n}\n_deepinfer \"$@\"\n";
}

std::string FishCompletion(std::span<const CommandSpec> commands) {
  std::string out = "# fish completion for deepinfer, generated from its option tables\n";
  out += fmt::format("set -l commands {}\n", Names(commands));
  out +=
      "complete -c deepinfer -n \"not __fish_seen_subcommand_from $commands\" -f -l help -d 'show help'\n"
      "complete -c deepinfer -n \"not __fish_seen_subcommand_from $commands\" -f -l version -d 'show the "
      "version'\n";
  for (const CommandSpec& command : commands) {
    out +=
        fmt::format("complete -c deepinfer -n \"not __fish_seen_subcommand_from $commands\" -f -a {} -d {}\n",
                    command.name, Quoted(command.summary));
    for (const OptionGroup& group : command.groups) {
      for (const OptionSpec& option : group.options) {
        out += fmt::format("complete -c deepinfer -n \"__fish_seen_subcommand_from {}\" -l {}", command.name,
                           option.name.substr(2));
        if (!option.short_name.empty()) out += fmt::format(" -s {}", option.short_name.substr(1));
        if (option.kind == ValueKind::kChoice)
          out += fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
        if (option.kind == ValueKind::kFile || option.kind == ValueKind::kFolder) out += " -r -F";
        if (option.kind == ValueKind::kText || option.kind == ValueKind::kInteger ||
            option.kind == ValueKind::kUnsigned || option.kind == ValueKind::kReal) {
          out += " -x";
        }
        out += fmt::format(" -d {}\n", Quoted(option.help));
      }
    }
  }
  return out;
}

}  // namespace deepinfer::cli
