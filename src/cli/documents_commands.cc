#include "cli/command.h"
#include "cli/common_options.h"
#include "cli/documents.h"
#include "cli/output.h"

namespace deepinfer::cli {
namespace {

Result<int> RunCompletion(const Arguments& args) {
  const std::vector<CommandSpec> specs = AllSpecs();
  const std::string shell = args.positionals().empty() ? std::string() : args.positionals().front();
  std::string text;
  if (shell == "bash") text = BashCompletion(specs);
  if (shell == "zsh") text = ZshCompletion(specs);
  if (shell == "fish") text = FishCompletion(specs);
  if (text.empty())
    return InvalidArgument("the shell must be bash, zsh or fish", shell)
        .WithHint("deepinfer completion bash");
  DEEPINFER_RETURN_IF_ERROR(WriteStdout(text));
  return 0;
}

Result<int> RunMan(const Arguments&) {
  DEEPINFER_RETURN_IF_ERROR(WriteStdout(ManPage(AllSpecs())));
  return 0;
}

}  // namespace

Command CompletionCommand() {
  CommandSpec spec;
  spec.name = "completion";
  spec.summary = "prints the completion script of a shell";
  spec.positionals = {
      {.name = "bash|zsh|fish", .kind = ValueKind::kText, .help = "the shell", .required = true}};
  spec.max_positionals = 1;
  spec.example = "source <(deepinfer completion bash)";
  spec.example_note = "Completes commands, options and their values in this shell.";
  spec.see_also = {"man"};
  return {.spec = std::move(spec), .run = RunCompletion};
}

Command ManCommand() {
  CommandSpec spec;
  spec.name = "man";
  spec.summary = "prints the manual page";
  spec.example = "deepinfer man | man -l -";
  spec.example_note = "The installed page is the same: man deepinfer.";
  spec.see_also = {"completion"};
  return {.spec = std::move(spec), .run = RunMan};
}

}  // namespace deepinfer::cli
