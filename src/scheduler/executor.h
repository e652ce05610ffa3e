// What runs the plans of a scheduler: a CPU, a GPU, or a fake one in tests (docs/contracts/executor.md).
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "scheduler/step_plan.h"

namespace deepinfer::scheduler {

/// One draw to make: the state of its sequence is the committed one (spec: deepinfer.md §4.3).
struct SamplingRow {
  SequenceId sequence = 0;
  int32_t plan_index = 0;  // into StepPlan::sequences: whose last rows give the logits
  int32_t slot =
      -1;  // where the token goes, for the next step's forward; -1: of a sample that has no state yet
  int32_t sample_index = 0;
  int64_t position = 0;  // absolute position of the first token produced
  uint64_t seed = 0;
  bool constrained = false;
};

/// Runs steps in the order of launching. One thread calls it. At most two steps are launched and not yet waited for: the calls
/// come as forward(n), sampling(n), forward(n + 1), wait(n), sampling(n + 1), forward(n + 2), …
class Executor {
 public:
  virtual ~Executor() = default;

  /// Starts the copies and then the forward pass of all rows, reading tokens that are still unknown here from where the previous step leaves them. Page
  /// tables are read from the cache during the call; blocks and slots of the step stay untouched until Wait has returned.
  /// Errors: kResourceExhausted, kUnavailable, kDataLoss. After an error only the copies have been made.
  virtual Status LaunchForward(const StepPlan& plan) = 0;

  /// Starts drawing for the rows that still need it (Scheduler::SamplingRows): sequences that ended since the plan are not among them.
  /// Called once for every launched step, also with no rows. Errors: as LaunchForward.
  virtual Status LaunchSampling(const StepPlan& plan, std::span<const SamplingRow> rows) = 0;

  /// Waits for the step's end. Errors: kDataLoss, kUnavailable: the step's rows are void and its sequences must be dropped or recomputed.
  virtual Result<StepResult> Wait(StepId step) = 0;
};

}  // namespace deepinfer::scheduler
