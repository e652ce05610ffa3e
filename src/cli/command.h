// The commands: each file of this folder that is named after one holds its option table and what it does.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/option_spec.h"

namespace deepinfer::cli {

/// A command: its table, and the function that runs it and gives the exit code. An error becomes message and exit code.
struct Command {
  CommandSpec spec;
  Result<int> (*run)(const Arguments& args) = nullptr;
};

Command GenerateCommand();
Command ChatCommand();
Command BatchCommand();
Command ScoreCommand();
Command TokenizeCommand();
Command DetokenizeCommand();
Command EncodeCommand();
Command ParseCommand();
Command PlanCommand();
Command InspectCommand();
Command DoctorCommand();
Command CompletionCommand();
Command ManCommand();

/// All of them, in the order of the help text.
std::vector<Command> AllCommands();
/// Their tables.
std::vector<CommandSpec> AllSpecs();

/// MODEL and one more positional, of which MODEL may be left out: {MODEL or empty, the other or empty}.
struct ModelAndOperand {
  std::string model, operand;
};
ModelAndOperand SplitPositionals(const Arguments& args);

/// Runs a command line without the program's name; returns the exit code.
int RunCommandLine(const std::vector<std::string>& args);

}  // namespace deepinfer::cli
