// Every implementation of kernels/ops.h that this build has and this processor can run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/ops.h"

namespace deepinfer::kernels::testing {

/// "reference", then "cpu/TARGET" for each usable target of the CPU back end when it is built.
std::vector<std::string> ImplementationNames();

/// The implementation of that name; throws std::runtime_error for another name. Objects live as long as the process.
const Ops& Implementation(const std::string& name);

inline const Ops& ReferenceImplementation() { return Implementation("reference"); }

/// Name usable in a GoogleTest parameter ("cpu/avx2" -> "cpu_avx2").
std::string TestSuffix(const std::string& name);

}  // namespace deepinfer::kernels::testing
