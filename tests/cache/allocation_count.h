// How often this program has asked for memory.
#pragma once

#include <cstdint>

namespace deepinfer::cache {

int64_t AllocationCount();

}  // namespace deepinfer::cache
