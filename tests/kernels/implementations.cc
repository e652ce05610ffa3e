#include "kernels/implementations.h"

#include <cctype>
#include <map>
#include <stdexcept>
#include <string_view>

#include "kernels/reference/reference_ops.h"
#if DEEPINFER_TEST_CPU_KERNELS
#include "kernels/cpu/cpu_ops.h"
#endif

namespace deepinfer::kernels::testing {
namespace {

using OpsByName = std::map<std::string, std::unique_ptr<const Ops>>;

const OpsByName& AllImplementations() {
  static const OpsByName implementations = [] {
    OpsByName ops;
    ops["reference"] = MakeReferenceOps();
#if DEEPINFER_TEST_CPU_KERNELS
    for (std::string_view target : CpuTargets()) ops["cpu/" + std::string(target)] = MakeCpuOps(target);
#endif
    return ops;
  }();
  return implementations;
}

}  // namespace

std::vector<std::string> ImplementationNames() {
  std::vector<std::string> names = {"reference"};
  for (const auto& [name, ops] : AllImplementations()) {
    if (name != "reference") names.push_back(name);
  }
  return names;
}

const Ops& Implementation(const std::string& name) {
  const auto it = AllImplementations().find(name);
  if (it == AllImplementations().end() || it->second == nullptr)
    throw std::runtime_error("no implementation " + name);
  return *it->second;
}

std::string TestSuffix(const std::string& name) {
  std::string suffix = name;
  for (char& c : suffix) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return suffix;
}

}  // namespace deepinfer::kernels::testing
