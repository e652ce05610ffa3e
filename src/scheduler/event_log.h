// A scheduler's calls as lines of JSON, and the proof that they give the same plans again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "scheduler/scheduler.h"

namespace deepinfer::scheduler {

/// Hash of everything that a plan says; page tables are the cache's and not part of it.
uint64_t PlanDigest(const StepPlan& plan);

/// Lines of a log, each ending with a line feed. Plans are kept as their digest.
std::string ConfigLine(const SchedulerConfig& config);
std::string SubmitLine(const Request& request, int64_t now_us);
std::string CancelLine(RequestId request);
std::string FinishLine(SequenceId sequence, FinishReason reason);
std::string PreemptLine(SequenceId sequence);
std::string PlanLine(int64_t now_us, const StepPlan& plan);
std::string CommitLine(const StepResult& result, int64_t now_us);
std::string FailLine(StepId step);

struct ReplayReport {
  int64_t events = 0;
  int64_t plans = 0;
};

/// Feeds the calls of `log` to a fresh scheduler (and cache) with the configuration of the recorded one.
/// Errors: kDataLoss naming the line when the log is unsound, the configuration differs or a plan comes out differently.
Result<ReplayReport> Replay(std::string_view log, Scheduler* scheduler);

}  // namespace deepinfer::scheduler
