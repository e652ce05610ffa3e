#include "cli/self_test.h"

#include <fmt/format.h>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/self_test.h"

namespace deepinfer::cli {

std::string ChosenTarget(const Arguments& args) { return ChosenKernelTarget(args.Text("--cpu-target")); }

Status RunSelfTestOption(const Arguments& args) {
  const std::string depth = args.Text("--self-test", "off");
  if (depth == "off") return OkStatus();
  const std::string target = ChosenTarget(args);
  DEEPINFER_ASSIGN_OR_RETURN(
      const std::vector<SelfTestItem> items,
      RunSelfTest(target, depth == "full" ? SelfTestDepth::kFull : SelfTestDepth::kQuick,
                  static_cast<int>(args.Integer("--threads", 0))));
  for (const SelfTestItem& item : items) {
    if (item.problem.empty()) continue;
    return Internal(fmt::format("self-test of {}: {}", item.operation, item.problem), target)
        .WithHint("deepinfer doctor, or --cpu-target reference");
  }
  LogVerbose(
      fmt::format("self-test: {} operations of target {} agree with the reference", items.size(), target));
  return OkStatus();
}

}  // namespace deepinfer::cli
