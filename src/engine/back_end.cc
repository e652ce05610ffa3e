#include "engine/back_end.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/engine.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/reference/reference_ops.h"

namespace deepinfer {
namespace {

constexpr char kTargetVariable[] = "DEEPINFER_CPU_TARGET";
constexpr std::string_view kReference = "reference";

Status CheckDevice(std::string_view device) {
  if (device == "auto" || device == "cpu") return OkStatus();
  const std::string_view number = device.starts_with("cuda:") ? device.substr(5) : "0";
  const bool is_number =
      !number.empty() && number.size() <= 3 &&
      std::all_of(number.begin(), number.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (device == "cuda" || (device.starts_with("cuda:") && is_number)) {
    return Unavailable("this build has no CUDA back end", "device").WithHint("--device cpu");
  }
  return InvalidArgument(fmt::format("device must be auto, cpu, cuda or cuda:N, not \"{}\"", device),
                         "device")
      .WithHint("--device auto");
}

}  // namespace

std::vector<std::string> KernelTargets() {
  std::vector<std::string> names;
  for (const std::string_view name : kernels::CpuTargets()) names.emplace_back(name);
  names.emplace_back(kReference);
  return names;
}

std::string ChosenKernelTarget(const std::string& cpu_target) {
  if (!cpu_target.empty()) return cpu_target;
  if (const char* variable = std::getenv(kTargetVariable); variable != nullptr && *variable != '\0')
    return variable;
  return KernelTargets().front();
}

Result<BackEnd> ChooseBackEnd(const std::string& device, const std::string& cpu_target) {
  DEEPINFER_RETURN_IF_ERROR(CheckDevice(device));
  const std::vector<std::string> names = KernelTargets();
  const std::string name = ChosenKernelTarget(cpu_target);
  if (name == kReference) return BackEnd{kernels::MakeReferenceOps(), name};
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    return Unavailable(
               fmt::format("this machine has no kernel target '{}'; it has {}", name, fmt::join(names, ", ")),
               cpu_target.empty() ? kTargetVariable : "cpu_target")
        .WithHint("--cpu-target " + names.front());
  }
  return BackEnd{kernels::MakeCpuOps(name), name};
}

}  // namespace deepinfer
