// Rotary frequencies of the two layer kinds (spec: model.md §5.2).
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/config.h"

namespace deepinfer::model {

/// f_i = 1 / theta^(2i/dim), i < dim/2, in fp32.
std::vector<float> PlainFrequencies(int64_t dim, double theta);

/// The YaRN blend of the plain frequencies; no magnitude factor.
std::vector<float> YarnFrequencies(int64_t dim, double theta, double factor, int64_t original_length,
                                   double beta_fast, double beta_slow);

/// Frequencies of the layers with ratio 0 (`compressed` false) or above.
std::vector<float> LayerFrequencies(const ModelConfig& config, bool compressed);

/// First and last frequency index of the YaRN ramp.
struct YarnRamp {
  int64_t low = 0, high = 0;
};
YarnRamp YarnRampRange(int64_t dim, double theta, int64_t original_length, double beta_fast,
                       double beta_slow);

}  // namespace deepinfer::model
