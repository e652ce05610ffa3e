#include "scheduler/step_cost.h"

#include <algorithm>

namespace deepinfer::scheduler {
namespace {

constexpr int64_t kLongestUs = int64_t{1} << 40;  // keeps the products below in 64 bits

/// A rise counts for half and a fall for an eighth: the prediction bounds a stall, so it errs on the long side.
int64_t Blend(int64_t old_value, int64_t sample) {
  if (old_value < 0) return sample;
  const int64_t step = sample > old_value ? (sample - old_value + 1) / 2 : (sample - old_value) / 8;
  return old_value + step;
}

}  // namespace

void StepCost::Observe(int64_t duration_us, int64_t decode_rows, int64_t prompt_rows) {
  if (duration_us <= 0 || decode_rows + prompt_rows <= 0) return;
  const int64_t duration_ns = std::min(duration_us, kLongestUs) * 1000;
  if (prompt_rows == 0) {
    decode_ns_ = Blend(decode_ns_, duration_ns);
    return;
  }
  // Without a step of decode rows alone the whole duration is put on the prompt rows: too much, which is the safe side.
  const int64_t base = decode_rows > 0 && decode_ns_ > 0 ? std::min(decode_ns_, duration_ns) : 0;
  prompt_row_ns_ = Blend(prompt_row_ns_, (duration_ns - base) / prompt_rows);
}

int64_t StepCost::PromptRowsWithin(int64_t limit_us, int64_t fallback) const {
  if (prompt_row_ns_ < 0) return fallback;
  const int64_t left = std::min(limit_us, kLongestUs) * 1000 - std::max<int64_t>(decode_ns_, 0);
  if (left <= 0) return 0;
  return left / std::max<int64_t>(prompt_row_ns_, 1);
}

}  // namespace deepinfer::scheduler
