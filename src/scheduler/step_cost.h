// Predicts how long a step takes from the durations of the steps before; integers only, so that a replay predicts the same.
#pragma once

#include <cstdint>

namespace deepinfer::scheduler {

class StepCost {
 public:
  /// Takes in the duration of a step with the given rows.
  void Observe(int64_t duration_us, int64_t decode_rows, int64_t prompt_rows);

  /// Prompt rows that fit beside decode rows so that the step ends within `limit_us`; `fallback` while nothing is known.
  int64_t PromptRowsWithin(int64_t limit_us, int64_t fallback) const;

  int64_t decode_step_us() const { return decode_ns_ / 1000; }
  int64_t prompt_row_ns() const { return prompt_row_ns_; }

 private:
  int64_t decode_ns_ = -1;      // a step with decode rows alone; -1 = not seen
  int64_t prompt_row_ns_ = -1;  // each prompt row beside them
};

}  // namespace deepinfer::scheduler
