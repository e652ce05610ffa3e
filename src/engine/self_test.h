// A quick comparison of a kernel target with the reference operations, on generated operands (spec: cli.md §2, doctor).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/ops.h"

namespace deepinfer {

enum class SelfTestDepth : uint8_t {
  kQuick,  // one small shape an operation, a fraction of a second
  kFull,   // several shapes, odd ones and those of the released model included
};

/// One operation on one shape.
struct SelfTestItem {
  std::string operation;  // "Linear fp8 64x256, 3 rows"
  std::string problem;    // empty when the target agrees with the reference
};

/// Compares target `target` (as in --cpu-target; "reference" agrees with itself) on `threads` threads (0 = all). Errors:
/// kUnavailable for a target that this machine lacks.
Result<std::vector<SelfTestItem>> RunSelfTest(std::string_view target, SelfTestDepth depth, int threads);

/// The same for two back ends: every operation of `kernels::Ops` is among the items. Errors: kResourceExhausted.
Result<std::vector<SelfTestItem>> CompareBackEnds(const kernels::Ops& tested, const kernels::Ops& oracle,
                                                  SelfTestDepth depth, int threads);

}  // namespace deepinfer
