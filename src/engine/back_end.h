// Which kernels run. Internal to the module: the only place that knows the back ends.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "kernels/ops.h"

namespace deepinfer {

struct BackEnd {
  std::shared_ptr<const kernels::Ops> ops;
  std::string target;  // name as in KernelTargets()
};

/// `device`: auto, cpu, cuda or cuda:N. `cpu_target`: a name of KernelTargets(); empty = DEEPINFER_CPU_TARGET, else the best.
/// Errors: kInvalidArgument (no such device), kUnavailable (not on this machine, or not built in).
Result<BackEnd> ChooseBackEnd(const std::string& device, const std::string& cpu_target);

}  // namespace deepinfer
