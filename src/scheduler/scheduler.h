// Requests → sequences → step plans (docs/contracts/scheduler.md).
//
// Pure code: no thread, no clock (every call that needs the time gets it), no device, no model. The same calls give the same plans.
//
// A step is planned, launched by an executor, and committed one step later: Plan(n + 1) may come before Commit(n). Until then the
// tokens of step n are known by count, not by id: the plan says which step in flight gives them. Sequences that end at Commit(n) compute
// rows of step n + 1 in vain; these results are dropped, and blocks and slots are given back at Commit(n + 1).
//
//   Submit* → [Plan → launch forward → Commit of the step before → SamplingRows → launch sampling]*
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cache/cache.h"
#include "scheduler/config.h"
#include "scheduler/executor.h"
#include "scheduler/request.h"
#include "scheduler/step_plan.h"

namespace deepinfer::scheduler {

/// Sums since creation.
struct SchedulerCounters {
  uint64_t requests = 0;
  uint64_t finished[6] = {};  // sequences, by FinishReason
  uint64_t steps = 0;
  uint64_t mixed_steps = 0;  // with decode and prompt rows
  uint64_t decode_rows = 0;  // drafts included
  uint64_t prompt_rows = 0;
  uint64_t recomputed_rows = 0;  // prompt rows run again after a preemption
  uint64_t dropped_rows = 0;     // of sequences that had ended when their step was committed
  uint64_t prompt_chunks = 0;    // pieces of prompts; one for each prompt that was not cut
  uint64_t prompts = 0;          // runs of prompt rows that were completed
  uint64_t generated_tokens = 0;
  uint64_t preemptions = 0;
  uint64_t inexact_recomputes = 0;  // of sequences that had resumed approximately: their tokens may differ
  uint64_t prompt_tokens = 0;       // of admitted prompts, first run only
  uint64_t hit_tokens = 0;          // of these, with blocks from the prefix cache
  uint64_t parked = 0;              // waits for a running sequence with the same prefix
  uint64_t forks = 0;               // samples that copied the state of the first one
  uint64_t fork_recomputes = 0;     // samples that had to compute the prompt themselves
};

enum class SequencePhase : uint8_t {
  kWaiting,         // in the queue
  kParked,          // until a running sequence has published the common prefix
  kAwaitingPrompt,  // a further sample, until the first one has computed the prompt
  kForking,         // its first token is drawn, its state is not copied yet
  kPrefill,
  kDecode,
  kEnding,  // ended, with a step in flight
};
std::string_view SequencePhaseName(SequencePhase phase);

struct SequenceInfo {
  RequestId request = 0;
  int sample_index = 0;
  SequencePhase phase = SequencePhase::kWaiting;
  cache::SequenceId state = cache::SequenceId::kNone;
  int64_t prompt_length = 0;
  std::span<const int32_t> ids{};  // prompt and committed output; until the next call
  int64_t remaining = 0;           // tokens it may still get
  int32_t preemptions = 0;
  bool approximate = false;
};

class Scheduler {
 public:
  /// `cache` outlives the scheduler, which alone admits and releases its sequences. Errors: kInvalidArgument naming the field.
  static Result<std::unique_ptr<Scheduler>> Create(const SchedulerConfig& config, cache::StateCache* cache,
                                                   const cache::CacheConfig& cache_config);
  ~Scheduler();

  /// Queues a request. Its sequences get consecutive ids, sample 0 the one returned. Errors: kInvalidArgument naming the field;
  /// kResourceExhausted when the queue is full or the prompt can never fit into the pool, with the arithmetic.
  Result<SequenceId> Submit(Request request, int64_t now_us);

  /// Ends all sequences of a request in any phase. False when none is live: it has ended, or never was.
  bool Cancel(RequestId request);
  /// Ends one sequence, from outside the steps: its consumer has seen enough. False when it is not live.
  bool Finish(SequenceId sequence, FinishReason reason);
  /// Takes a running sequence's memory away and queues it for recomputation. False when it is not running.
  bool Preempt(SequenceId sequence);

  /// The next step, or an empty plan: nothing can run now, or max_steps_in_flight are planned and not committed.
  StepPlan Plan(int64_t now_us);

  /// Draws to be made for a planned step: of sequences that are still live. Exact, constraints included, once the steps before are
  /// committed. Empty for an unknown step.
  std::vector<SamplingRow> SamplingRows(StepId step) const;

  /// Takes in the oldest step in flight. Of a sequence that would get more than it may, the surplus is dropped: ask Info for `remaining`
  /// before publishing more than one token. Errors: kInvalidArgument when the step is not the oldest or results do not fit
  /// the plan; nothing has changed then.
  Status Commit(const StepResult& result, int64_t now_us);
  /// The oldest step in flight has failed: its live sequences end with kError. Errors: kInvalidArgument.
  Status Fail(StepId step);

  /// From now on every call is appended to `log` as a line of JSON (event_log.h); null ends that. To be called on a fresh scheduler.
  void RecordTo(std::string* log);

  /// What ended since the last call.
  std::vector<Finished> TakeFinished();

  /// Errors: kNotFound.
  Result<SequenceInfo> Info(SequenceId sequence) const;

  const SchedulerConfig& config() const;
  int64_t num_running() const;  // admitted and not ended
  int64_t num_waiting() const;  // all others that are live
  int64_t num_steps_in_flight() const;
  const SchedulerCounters& counters() const;
  /// Earliest time at which Plan could do more without another event: a deadline. kNoDeadline when there is none.
  int64_t NextDeadline() const;

  /// Proves that phases, queues, slots, reservations and counts agree. O(everything). Errors: kInternal naming the disagreement.
  Status Audit() const;
  /// Audit, and nothing is left. Errors: kInternal.
  Status AuditIdle() const;

 private:
  class Impl;
  explicit Scheduler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
  std::string* log_ = nullptr;
};

}  // namespace deepinfer::scheduler
