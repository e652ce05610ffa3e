// Philox4x32-10 as a function (Random123; Salmon et al. 2011).
#pragma once

#include <array>
#include <cstdint>

namespace deepinfer::sampling {

std::array<uint32_t, 4> Philox4x32(const std::array<uint32_t, 4>& counter,
                                   const std::array<uint32_t, 2>& key);

}  // namespace deepinfer::sampling
