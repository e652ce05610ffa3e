// Drives a scheduler with a fake executor in the order that an engine uses, and checks what comes out.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "scheduler/fake_executor.h"
#include "scheduler/scheduler.h"

namespace deepinfer::scheduler {

struct HarnessOptions {
  SchedulerConfig scheduler;
  cache::CacheConfig cache;
  FakeExecutor::Cost cost = [](const StepPlan&) { return int64_t{5000}; };
};

class Harness {
 public:
  explicit Harness(const HarnessOptions& options);

  Scheduler& scheduler() { return *scheduler_; }
  cache::StateCache& cache() { return *cache_; }
  FakeExecutor& executor() { return *executor_; }
  int64_t now() const { return executor_->now_us(); }

  /// Submits with the next free id; the request's own id is overwritten.
  Result<RequestId> Submit(Request request, int32_t stop_modulus = 0);

  /// One round: plan, forward, wait and commit of the step before (unless it is the only one and steps overlap), sampling.
  /// False when nothing was planned and nothing is in flight.
  bool Round();
  /// Rounds until nothing is left. False when `most` rounds were not enough.
  bool Drain(int most = 1'000'000);
  /// Waits for and commits the oldest step.
  void CommitOldest();
  /// Commits all steps in flight without planning another.
  void Pause() {
    while (!plans_.empty()) CommitOldest();
  }

  /// One sequence as its consumer sees it.
  struct Stream {
    Request request{};
    int sample_index = 0;
    int32_t stop_modulus = 0;
    int64_t submitted_us = 0;
    std::vector<int32_t> tokens{};
    std::vector<int64_t> times_us{};  // of each token
    std::optional<FinishReason> reason{};
    bool approximate = false;
  };
  const std::map<SequenceId, Stream>& streams() const { return streams_; }
  /// Streams of a request, by sample.
  std::vector<const Stream*> Of(RequestId request) const;

  /// Empty when every stream's tokens are what the model gives, every sequence ended once, and no state was ever wrong.
  std::string Verdict() const;
  /// Called with every plan.
  std::function<void(const StepPlan&)> on_plan;

 private:
  void Collect();

  std::unique_ptr<cache::StateCache> cache_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<FakeExecutor> executor_;
  int64_t block_tokens_;
  RequestId next_request_ = 1;
  std::deque<StepPlan> plans_;
  std::map<SequenceId, Stream> streams_;
  std::string error_;
};

/// `count` ids, a function of `salt`.
std::vector<int32_t> MakePrompt(int64_t count, uint64_t salt);

}  // namespace deepinfer::scheduler
