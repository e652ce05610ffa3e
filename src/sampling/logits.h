// Shared by the files of this module.
#pragma once

#include <span>

#include "base/status.h"

namespace deepinfer::sampling {

/// The largest logit. Errors: kDataLoss for NaN or +infinity, or when all are -infinity.
Result<float> CheckedMax(std::span<const float> logits);

}  // namespace deepinfer::sampling
