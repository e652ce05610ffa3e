#include "sampling/philox.h"

#include <cmath>

#include <Random123/philox.h>

#include "sampling/sampling.h"

namespace deepinfer::sampling {

std::array<uint32_t, 4> Philox4x32(const std::array<uint32_t, 4>& counter,
                                   const std::array<uint32_t, 2>& key) {
  const auto block =
      r123::Philox4x32_R<10>()({{counter[0], counter[1], counter[2], counter[3]}}, {{key[0], key[1]}});
  return {block[0], block[1], block[2], block[3]};
}

double CounterRng::Uniform(uint64_t position, uint32_t index) const {
  // A block holds two numbers of 64 bits: items 2i and 2i + 1 share one.
  const uint32_t purpose_and_high_position =
      static_cast<uint32_t>(purpose_) << 24 | (static_cast<uint32_t>(position >> 32) & 0xffffff);
  const std::array<uint32_t, 4> block =
      Philox4x32({static_cast<uint32_t>(position), index / 2, stream_, purpose_and_high_position},
                 {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  const size_t half = index % 2 * 2;
  const uint64_t bits = static_cast<uint64_t>(block[half + 1]) << 32 | block[half];
  // 52 bits and a half: exact in a double and never 0 or 1.
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

double CounterRng::Gumbel(uint64_t position, uint32_t index) const {
  return -std::log(-std::log(Uniform(position, index)));
}

double CounterRng::MaxGumbel() { return -std::log(-std::log(1 - 0x1p-53)); }

}  // namespace deepinfer::sampling
