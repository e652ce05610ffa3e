// `--self-test`: the kernels that would be used, compared with their reference before a model runs (spec: cli.md §2, doctor).
#pragma once

#include "base/status.h"
#include "cli/arguments.h"

namespace deepinfer::cli {

/// Runs what --self-test asks for; nothing when it was not given. Errors: kInternal naming the first operation that differs,
/// kUnavailable for an unknown target.
Status RunSelfTestOption(const Arguments& args);

/// The kernel target that the options choose: --cpu-target, else DEEPINFER_CPU_TARGET, else the best one of this machine.
std::string ChosenTarget(const Arguments& args);

}  // namespace deepinfer::cli
