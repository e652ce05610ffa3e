#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace deepinfer::model {

std::vector<float> PlainFrequencies(int64_t dim, double theta) {
  std::vector<float> freqs(static_cast<size_t>(dim / 2));
  for (size_t i = 0; i < freqs.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    freqs[i] = 1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
  }
  return freqs;
}

YarnRamp YarnRampRange(int64_t dim, double theta, int64_t original_length, double beta_fast,
                       double beta_slow) {
  const auto turning_dim = [&](double rotations) {
    return static_cast<double>(dim) *
           std::log(static_cast<double>(original_length) / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  return {std::max<int64_t>(static_cast<int64_t>(std::floor(turning_dim(beta_fast))), 0),
          std::min<int64_t>(static_cast<int64_t>(std::ceil(turning_dim(beta_slow))), dim - 1)};
}

std::vector<float> YarnFrequencies(int64_t dim, double theta, double factor, int64_t original_length,
                                   double beta_fast, double beta_slow) {
  std::vector<float> freqs = PlainFrequencies(dim, theta);
  const YarnRamp range = YarnRampRange(dim, theta, original_length, beta_fast, beta_slow);
  const float width = static_cast<float>(std::max(static_cast<double>(range.high - range.low), 1e-3));
  for (size_t i = 0; i < freqs.size(); ++i) {
    const float ramp =
        std::clamp((static_cast<float>(i) - static_cast<float>(range.low)) / width, 0.0f, 1.0f);
    const float smooth = 1.0f - ramp;
    freqs[i] = freqs[i] / static_cast<float>(factor) * (1.0f - smooth) + freqs[i] * smooth;
  }
  return freqs;
}

std::vector<float> LayerFrequencies(const ModelConfig& config, bool compressed) {
  if (!compressed) return PlainFrequencies(config.qk_rope_head_dim, config.rope_theta);
  return YarnFrequencies(config.qk_rope_head_dim, config.compress_rope_theta, config.rope_factor,
                         config.original_max_position_embeddings, config.beta_fast, config.beta_slow);
}

}  // namespace deepinfer::model
