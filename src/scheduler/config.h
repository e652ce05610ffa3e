// Settings of a scheduler.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace deepinfer::scheduler {

struct SchedulerConfig {
  int32_t max_sequences = 256;  // running at the same time
  /// State slots; a sequence that ended keeps its slot while a step in flight still writes it. 0 = max_sequences + a quarter.
  int32_t num_slots = 0;
  int64_t max_waiting = 65536;  // sequences waiting; beyond it Submit refuses
  int64_t context_limit = 1 << 20;
  /// Geometry of the model (spec: model.md §12.2): decoder rows that make a shortened prefill exact, 1 + decoder layers * (window - 1).
  int64_t exact_halo_rows = 2541;
  int32_t draft_tokens = 0;         // drafts a decode row may carry (spec: dspark.md §2)
  int32_t max_steps_in_flight = 2;  // 1 = synchronous: a step is planned when the one before is committed

  /// Rows of one step, prompt and decode together.
  int32_t max_rows_per_step = 512;
  /// Bound on the stall of decoding: a step with decode rows has at most this many prompt rows. 0 = a quarter of max_rows_per_step.
  int32_t max_prompt_rows_beside_decode = 0;
  /// The same bound as a time: prompt rows are cut so that the predicted duration stays below. 0 = none.
  int64_t decode_stall_us = 0;
  /// Bound on the stall of prompts: while any prompt is unfinished every step has at least so many of its rows, of the sequence
  /// that was admitted first in its priority.
  int32_t min_prompt_rows = 64;

  /// A waiting sequence rises by one priority each time it has waited so long. 0 = never.
  int64_t aging_us = 10'000'000;
  /// A sequence goes before others of its priority when its deadline is nearer than this.
  int64_t urgent_us = 1'000'000;
  /// Saves the windows of prompts at block edges, for exact resumes (spec: serving.md §3.4.3).
  bool window_snapshots = false;
  /// A prompt waits for a running one that computes the same blocks when that saves at least so many rows (spec: serving.md §6 S22).
  int32_t single_flight_min_rows = 256;

  /// Errors: kInvalidArgument naming the field.
  Status Validate() const;

  int32_t Slots() const { return num_slots > 0 ? num_slots : max_sequences + (max_sequences + 3) / 4; }
  int32_t PromptRowsBesideDecode() const {
    if (max_prompt_rows_beside_decode > 0) return max_prompt_rows_beside_decode;
    return max_rows_per_step / 4 > min_prompt_rows ? max_rows_per_step / 4 : min_prompt_rows;
  }
  /// Positions reserved beyond the committed ones: the step in flight and the next one (spec: deepinfer.md R17).
  int64_t ReservedPositions() const { return int64_t{2} * (draft_tokens + 1); }
};

}  // namespace deepinfer::scheduler
