#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/interrupt.h"

int main(int argc, char** argv) {
  deepinfer::cli::InstallSignalHandlers();
  return deepinfer::cli::RunCommandLine(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
