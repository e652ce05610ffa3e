// Logits for tests: repeatable, with ties, -infinity and a spread like a model's.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace deepinfer::sampling {

inline constexpr float kInf = std::numeric_limits<float>::infinity();

struct LogitOptions {
  double spread = 3;            // standard deviation
  double tie_step = 0;          // > 0: rounded to multiples, so that many are equal
  double impossible_share = 0;  // share of -infinity
};

inline std::vector<float> GenerateLogits(uint32_t seed, size_t count, const LogitOptions& options = {}) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, options.spread);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<float> logits(count);
  for (float& logit : logits) {
    double value = normal(random);
    if (options.tie_step > 0) value = std::round(value / options.tie_step) * options.tie_step;
    logit = static_cast<float>(value);
    if (uniform(random) < options.impossible_share) logit = -kInf;
  }
  logits[0] = 0.5F;  // at least one is possible
  return logits;
}

}  // namespace deepinfer::sampling
