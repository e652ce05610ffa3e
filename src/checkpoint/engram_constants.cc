#include "checkpoint/engram_constants.h"

#include <array>
#include <limits>
#include <string>
#include <utility>

namespace deepinfer {
namespace {

using Uint128 = unsigned __int128;

uint64_t PowerMod(uint64_t base, uint64_t exponent, uint64_t modulus) {
  uint64_t result = 1;
  base %= modulus;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = static_cast<uint64_t>(Uint128{result} * base % modulus);
    base = static_cast<uint64_t>(Uint128{base} * base % modulus);
  }
  return result;
}

/// Miller-Rabin; these bases decide every 64-bit number.
bool IsPrime(uint64_t n) {
  constexpr std::array<uint64_t, 12> kBases = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
  if (n < 2) return false;
  for (const uint64_t p : kBases) {
    if (n % p == 0) return n == p;
  }
  const int twos = __builtin_ctzll(n - 1);
  const uint64_t odd = (n - 1) >> twos;
  for (const uint64_t base : kBases) {
    uint64_t x = PowerMod(base, odd, n);
    if (x == 1 || x == n - 1) continue;
    bool composite = true;
    for (int i = 1; i < twos && composite; ++i) {
      x = static_cast<uint64_t>(Uint128{x} * x % n);
      composite = x != n - 1;
    }
    if (composite) return false;
  }
  return true;
}

/// NumPy's SeedSequence for one integer seed: the four 64-bit words that seed PCG64.
std::array<uint64_t, 4> SeedWords(uint64_t seed) {
  constexpr uint32_t kXshift = 16;
  std::array<uint32_t, 4> pool = {};
  uint32_t hash = 0x43b0d7e5U;
  const auto hash_mix = [&hash](uint32_t value) {
    value ^= hash;
    hash *= 0x931e8875U;
    value *= hash;
    return value ^ (value >> kXshift);
  };
  const auto mix = [](uint32_t x, uint32_t y) {
    const uint32_t t = 0xca01f9ddU * x - 0x4973f715U * y;
    return t ^ (t >> kXshift);
  };
  pool[0] = hash_mix(static_cast<uint32_t>(seed));
  pool[1] = hash_mix(static_cast<uint32_t>(seed >> 32));
  pool[2] = hash_mix(0);
  pool[3] = hash_mix(0);
  for (size_t i = 0; i < pool.size(); ++i) {
    for (size_t j = 0; j < pool.size(); ++j) {
      if (i != j) pool[j] = mix(pool[j], hash_mix(pool[i]));
    }
  }
  std::array<uint64_t, 4> words = {};
  hash = 0x8b51f9ddU;
  for (size_t k = 0; k < 8; ++k) {
    uint32_t value = pool[k % 4] ^ hash;
    hash *= 0x58f38dedU;
    value *= hash;
    value ^= value >> kXshift;
    words[k / 2] |= uint64_t{value} << (32 * (k % 2));
  }
  return words;
}

Status CheckRange(int64_t value, int64_t low, int64_t high, const char* key) {
  if (value >= low && value <= high) return OkStatus();
  return DataLoss(
      std::to_string(value) + " is not within " + std::to_string(low) + " … " + std::to_string(high), key);
}

}  // namespace

NumpyPcg64::NumpyPcg64(uint64_t seed) {
  const std::array<uint64_t, 4> words = SeedWords(seed);
  const Uint128 stream = (Uint128{words[2]} << 64) | words[3];
  increment_ = (stream << 1) | 1;
  Step();
  state_ += (Uint128{words[0]} << 64) | words[1];
  Step();
}

void NumpyPcg64::Step() {
  constexpr Uint128 kMultiplier = (Uint128{0x2360ed051fc65da4ULL} << 64) | 0x4385df649fccf645ULL;
  state_ = state_ * kMultiplier + increment_;
}

uint64_t NumpyPcg64::Next() {
  Step();
  const uint64_t folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  const unsigned rotation = static_cast<unsigned>(state_ >> 122);
  return (folded >> rotation) | (folded << ((64 - rotation) & 63));
}

uint64_t NumpyPcg64::NextBounded(uint64_t bound) {
  const uint64_t threshold = (0 - bound) % bound;
  for (;;) {
    const Uint128 product = Uint128{Next()} * bound;
    if (static_cast<uint64_t>(product) >= threshold) return static_cast<uint64_t>(product >> 64);
  }
}

Result<EngramConstants> ComputeEngramConstants(const ModelConfig& config) {
  DEEPINFER_RETURN_IF_ERROR(
      CheckRange(static_cast<int64_t>(config.engram_layer_ids.size()), 0, 16, "engram_layer_ids"));
  EngramConstants constants;
  if (!config.has_engram()) return constants;
  DEEPINFER_RETURN_IF_ERROR(CheckRange(config.engram_max_ngram_size, 2, 8, "engram_max_ngram_size"));
  DEEPINFER_RETURN_IF_ERROR(CheckRange(config.engram_n_heads, 1, 64, "engram_n_heads"));
  DEEPINFER_RETURN_IF_ERROR(CheckRange(config.engram_vocab_size, 2, int64_t{1} << 33, "engram_vocab_size"));
  // The upper end keeps the multiplier bound above 2^32, where NumPy draws 64 bits.
  DEEPINFER_RETURN_IF_ERROR(
      CheckRange(config.engram_compressed_vocab_size, 1, int64_t{1} << 22, "engram_compressed_vocab_size"));

  constants.num_heads = config.engram_n_heads;
  constants.max_ngram_size = config.engram_max_ngram_size;
  // A product id * multiplier then stays below 2^63.
  const uint64_t bound =
      static_cast<uint64_t>(std::numeric_limits<int64_t>::max() / config.engram_compressed_vocab_size / 2);
  // Every order restarts its search at the same number and skips the primes already in use; as each search takes the smallest
  // free ones, all searches together take consecutive primes.
  uint64_t candidate = static_cast<uint64_t>(config.engram_vocab_size) - 1;
  for (const int layer_id : config.engram_layer_ids) {
    EngramLayerConstants layer;
    layer.layer_id = layer_id;
    for (int column = 0; column < config.engram_columns(); ++column) {
      do ++candidate;
      while (!IsPrime(candidate));
      layer.primes.push_back(static_cast<int64_t>(candidate));
      layer.offsets.push_back(layer.num_rows);
      layer.num_rows += layer.primes.back();
    }
    NumpyPcg64 generator(uint64_t{10007} * static_cast<uint64_t>(layer_id));
    for (int distance = 0; distance < config.engram_max_ngram_size; ++distance) {
      layer.multipliers.push_back(static_cast<int64_t>(2 * generator.NextBounded(bound) + 1));
    }
    constants.layers.push_back(std::move(layer));
  }
  return constants;
}

}  // namespace deepinfer
