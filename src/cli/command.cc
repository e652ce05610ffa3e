#include "cli/command.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "cli/documents.h"
#include "cli/output.h"
#include "cli/suggest.h"
#include "cli/version.h"

namespace deepinfer::cli {
namespace {

// Whether an option is there, before the table of any command is known.
bool Mentions(const std::vector<std::string>& args, std::string_view option) {
  const auto end = std::find(args.begin(), args.end(), "--");
  return std::find(args.begin(), end, option) != end;
}

// Whether a flag is among a command's words, also in the form --flag=VALUE, which is refused later: not as the value of another
// option, and not behind `--`.
bool HasFlag(const CommandSpec& spec, const std::vector<std::string>& words, std::string_view flag) {
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (words[i].substr(0, words[i].find('=')) == flag) return true;
    const OptionSpec* option = spec.Find(words[i]);
    if (option != nullptr && option->kind != ValueKind::kFlag && !option->optional_value) ++i;
  }
  return false;
}

// Every message about wrong usage says where to read on.
int ReportFor(const CommandSpec& spec, Status status, bool as_json) {
  if (status.code() != StatusCode::kInvalidArgument || !status.hint().empty())
    return ReportError(status, as_json);
  return ReportError(std::move(status).WithHint(fmt::format("deepinfer {} --help", spec.name)), as_json);
}

int PrintText(const std::string& text) {
  const Status status = WriteStdout(text);
  return status.ok() ? 0 : ReportError(status, false);
}

int RunWithoutCommand(const std::vector<std::string>& args) {
  if (Mentions(args, "--version")) {
    if (!Mentions(args, "--json")) return PrintText(VersionText() + "\n");
    const Status status = WriteJsonLine(VersionObject());
    return status.ok() ? 0 : ReportError(status, true);
  }
  if (Mentions(args, "--help") || Mentions(args, "-h") || (!args.empty() && args.front() == "help")) {
    return PrintText(OverviewHelp(AllSpecs()));
  }
  if (args.empty()) {
    return ReportError(InvalidArgument("a command is needed").WithHint("deepinfer --help"), false);
  }
  return -1;
}

int ReportUnknownCommand(const std::string& name, bool as_json) {
  std::vector<std::string> names;
  for (const CommandSpec& spec : AllSpecs()) names.push_back(spec.name);
  const bool is_option = name.starts_with("-");
  const std::string nearest = is_option ? std::string() : Nearest(name, names);
  std::string message = fmt::format("unknown {} {}", is_option ? "option" : "command", name);
  if (!nearest.empty()) message += fmt::format("; did you mean {}?", nearest);
  Status status = InvalidArgument(std::move(message));
  return ReportError(std::move(status).WithHint("deepinfer " + (nearest.empty() ? "--help" : nearest)),
                     as_json);
}

}  // namespace

std::vector<Command> AllCommands() {
  return {GenerateCommand(),   ChatCommand(),       BatchCommand(), ScoreCommand(), TokenizeCommand(),
          DetokenizeCommand(), EncodeCommand(),     ParseCommand(), PlanCommand(),  InspectCommand(),
          DoctorCommand(),     CompletionCommand(), ManCommand()};
}

std::vector<CommandSpec> AllSpecs() {
  std::vector<CommandSpec> specs;
  for (Command& command : AllCommands()) specs.push_back(std::move(command.spec));
  return specs;
}

ModelAndOperand SplitPositionals(const Arguments& args) {
  const std::vector<std::string>& words = args.positionals();
  if (words.empty()) return {};
  if (words.size() == 1) return {.model = {}, .operand = words[0]};
  return {.model = words[0], .operand = words[1]};
}

int RunCommandLine(const std::vector<std::string>& args) {
  const std::vector<Command> commands = AllCommands();
  const auto command =
      args.empty() ? commands.end() : std::find_if(commands.begin(), commands.end(), [&](const Command& one) {
        return one.spec.name == args.front();
      });
  if (command == commands.end()) {
    const int code = RunWithoutCommand(args);
    return code >= 0 ? code : ReportUnknownCommand(args.front(), Mentions(args, "--json"));
  }
  const CommandSpec& spec = command->spec;
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (HasFlag(spec, rest, "--help") || HasFlag(spec, rest, "-h")) return PrintText(CommandHelp(spec));
  const bool as_json = HasFlag(spec, rest, "--json");
  const Result<Arguments> parsed = ParseArguments(spec, rest);
  if (!parsed.ok()) return ReportFor(spec, parsed.status(), as_json);
  if (parsed->Has("--quiet")) SetLogLevel(LogLevel::kQuiet);
  if (parsed->Has("--verbose")) SetLogLevel(LogLevel::kVerbose);
  const Result<int> code = command->run(*parsed);
  return code.ok() ? *code : ReportFor(spec, code.status(), as_json);
}

}  // namespace deepinfer::cli
