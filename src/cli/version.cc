#include "cli/version.h"

#include <fmt/format.h>

#include "cli/build_info.h"
#include "engine/engine.h"

namespace deepinfer::cli {
namespace {

std::string BestTarget() {
  const std::vector<std::string> targets = KernelTargets();
  return targets.empty() ? "none" : targets.front();
}

}  // namespace

std::string_view VersionNumber() { return kBuildVersion; }

std::string VersionText() {
  return fmt::format("deepinfer {} (commit {}, {}, {}; kernel target {}; CUDA not built in)", kBuildVersion,
                     kBuildCommit, kBuildType, kBuildCompiler, BestTarget());
}

json::Value VersionObject() {
  json::Value out;
  out.Set("version", kBuildVersion);
  out.Set("commit", kBuildCommit);
  out.Set("build_type", kBuildType);
  out.Set("compiler", kBuildCompiler);
  out.Set("kernel_target", BestTarget());
  out.Set("cuda", nullptr);
  return out;
}

}  // namespace deepinfer::cli
