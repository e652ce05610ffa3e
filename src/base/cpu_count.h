// How many processors this process may keep busy.
#pragma once

#include <string_view>

namespace deepinfer {

/// Processors of the affinity mask, cut to the CPU limit of the control group (rounded up). At least 1.
int AvailableCpus();

/// The limit in a cgroup v2 `cpu.max` text ("QUOTA PERIOD" in microseconds), rounded up; 0 when there is none.
int CpusFromCpuMax(std::string_view text);

}  // namespace deepinfer
