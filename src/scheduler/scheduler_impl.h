// State of a scheduler and the parts that its files share. Internal to the module.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "scheduler/scheduler.h"
#include "scheduler/step_cost.h"
#include "scheduler/waiting_queue.h"

namespace deepinfer::scheduler {

struct Sequence;

/// A live request: what its sequences share.
struct RequestState {
  Request request;  // `prompt` is moved into the first sequence
  UserId user = 0;
  int64_t prompt_length = 0;
  int64_t length_limit = 0;  // prompt and output together
  std::vector<Sequence*> live;
};

struct Sequence {
  SequenceId id = 0;
  int sample_index = 0;
  std::shared_ptr<RequestState> shared;
  SequencePhase phase = SequencePhase::kWaiting;
  uint64_t order = 0;        // of submission
  int64_t since_us = 0;      // waiting since, for ageing
  std::vector<int32_t> ids;  // prompt and committed output; empty while kAwaitingPrompt
  int32_t preemptions = 0;
  bool approximate = false;

  // While it has state in the cache.
  cache::SequenceId state = cache::SequenceId::kNone;
  int32_t slot = -1;
  uint64_t admit_order = 0;
  int64_t reserved = 0;  // positions that have blocks
  int admit_level = 0;   // priority with what ageing had added
  bool preempting = false;
  SequenceId fork_parent = 0;  // while kForking

  // The run of prompt rows: everything known at admission.
  int64_t run_end = 0;
  int64_t decoder_begin = 0;
  cache::Resume resume;
  int64_t planned = 0;   // rows [0, planned) are in steps or done
  int64_t computed = 0;  // rows [0, computed) are committed
  cache::StateCache::SnapshotPoints points;

  // Steps in flight.
  int32_t in_flight = 0;
  int64_t pending_min = 0;  // tokens that they will give
  int64_t pending_max = 0;
  StepId last_step = 0;
  StepId last_sampling_step = 0;

  bool running() const { return phase == SequencePhase::kPrefill || phase == SequencePhase::kDecode; }
  int64_t known() const { return static_cast<int64_t>(ids.size()); }
  int64_t prompt_length() const { return shared->prompt_length; }
  int64_t limit() const { return shared->length_limit; }
};

class Scheduler::Impl {
 public:
  Impl(const SchedulerConfig& config, cache::StateCache* cache, const cache::CacheConfig& cache_config);

  // --- Life of requests (scheduler.cc) --------------------------------------------------------------------------------------------
  Result<SequenceId> Submit(Request request, int64_t now_us);
  bool Cancel(RequestId request, FinishReason reason);
  bool FinishOne(SequenceId sequence, FinishReason reason);
  bool Preempt(SequenceId sequence);
  std::vector<SamplingRow> SamplingRows(StepId step) const;
  Result<SequenceInfo> Info(SequenceId sequence) const;
  Status Audit() const;
  Status AuditIdle() const;

  // --- Planning (plan.cc, admission.cc) -------------------------------------------------------------------------------------------
  StepPlan Plan(int64_t now_us);

  // --- Results (commit.cc) --------------------------------------------------------------------------------------------------------
  Status Commit(const StepResult& result, int64_t now_us);
  Status Fail(StepId step);

 private:
  friend class Scheduler;

  /// One sequence's part in a step in flight.
  struct Flight {
    Sequence* sequence = nullptr;
    Phase phase = Phase::kPrefill;
    int64_t begin = 0;  // prefill: position of its first row
    int32_t num_rows = 0;
    int32_t num_drafts = 0;
    bool sample = false;
    std::vector<Sequence*> samples{};  // further samples that draw from the same row
  };
  struct InFlight {
    StepId id = 0;
    int32_t num_decode_rows = 0;
    int32_t num_prompt_rows = 0;
    std::vector<Flight> flights{};
  };
  struct DecodeRow {
    Sequence* sequence = nullptr;
    int32_t num_drafts = 0;
  };

  Status CheckRequest(const Request& request) const;
  int64_t UnitsFor(int64_t positions) const;
  int64_t DecoderTail(const Sequence& sequence) const;
  cache::Prompt PromptOf(const Sequence& sequence) const;
  /// Keeps the first answer of the cache that our own bookkeeping rules out: Audit reports it.
  void Expect(Status status);

  Sequence* Find(SequenceId sequence) const;
  void Enqueue(Sequence* sequence);
  void End(Sequence* sequence, FinishReason reason);
  void DetachWaiting(Sequence* sequence);
  void PromoteSample(const std::shared_ptr<RequestState>& shared);
  void ReleaseState(Sequence* sequence, cache::ReleaseMode mode);
  void StartPreemption(Sequence* sequence);
  void Requeue(Sequence* sequence);
  void WakeParked(cache::SequenceId leader, int64_t published);

  void ExpireDeadlines();
  void ForkSamples(StepPlan* plan);
  bool ForkOne(Sequence* child, StepPlan* plan);
  void SaveWindows(StepPlan* plan);
  void TakePlace(Sequence* sequence, cache::SequenceId state);

  void Admit(StepPlan* plan);
  enum class AdmitOutcome : uint8_t { kAdmitted, kParked, kEnded, kBlocked };
  AdmitOutcome AdmitOne(Sequence* sequence, StepPlan* plan);
  bool HasRoomFor(const Sequence& sequence, int64_t hit) const;
  bool Park(Sequence* sequence, const cache::Resume& probe);
  bool PreemptFor(const Sequence& waiting);
  void StartRun(Sequence* sequence, const cache::Admission& admission);

  void CollectDecodeRows(std::vector<DecodeRow>* rows);
  static void DropPreempted(std::vector<DecodeRow>* rows);
  bool ReserveForDecode(Sequence* sequence, int32_t* num_drafts);
  void RelievePressure(Sequence* in_need, bool hard);
  Sequence* Victim(int below_level) const;
  void FitDecodeRows(std::vector<DecodeRow>* rows, int64_t budget) const;
  int64_t PromptBudget(int64_t decode_rows) const;
  bool PromptCanRun(const Sequence& sequence) const;
  int64_t NextCut(const Sequence& sequence) const;
  void AddDecodeRow(const DecodeRow& row, StepPlan* plan, InFlight* step);
  void AddPromptRows(int64_t budget, StepPlan* plan, InFlight* step);
  void AddChunk(Sequence* sequence, int64_t num_rows, StepPlan* plan, InFlight* step);
  SequenceStep StepOf(const Sequence& sequence, const StepPlan& plan) const;

  /// For every draw of the oldest step, in plan order, its result, or null for a sequence that has ended.
  Status MatchResults(const StepResult& result, std::vector<const SequenceResult*>* matched) const;
  void CommitFlight(const Flight& flight, std::span<const SequenceResult* const> results);
  void CommitPrompt(const Flight& flight);
  void CommitTokens(const Flight& flight, const SequenceResult& result);
  void CommitFirstToken(Sequence* sample, const Sequence& parent, const SequenceResult& result);
  void EndIfDone(Sequence* sequence, const SequenceResult& result);
  /// Gives back what a sequence without steps in flight no longer needs.
  void Settle(Sequence* sequence);

  const SchedulerConfig config_;
  cache::StateCache* const cache_;
  const cache::CacheConfig cache_config_;
  int64_t now_us_ = 0;  // of the last call that brought a time

  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  std::unordered_map<RequestId, std::shared_ptr<RequestState>> requests_;
  std::vector<Sequence*> admitted_;  // with state in the cache, in order of admission
  std::vector<Sequence*> forking_;
  WaitingQueue queue_;
  /// Parked sequences by the leader's stay and the tokens it must have published.
  std::map<cache::SequenceId, std::multimap<int64_t, Sequence*>> parked_;
  std::unordered_map<cache::SequenceId, Sequence*> by_state_;
  std::set<std::pair<int64_t, RequestId>> deadlines_;
  std::set<int32_t> free_slots_;
  std::deque<InFlight> in_flight_;
  cache::CopyList carried_;  // of a plan that came out empty
  std::vector<Finished> finished_;
  StepCost cost_;
  SchedulerCounters counters_;
  SequenceId next_sequence_ = 1;
  StepId next_step_ = 1;
  uint64_t next_order_ = 1;
  int64_t num_live_ = 0;
  int64_t num_running_ = 0;
  int64_t num_leaving_ =
      0;  // ended or preempted with a step in flight: their memory comes back without our doing
  Status defect_;
  /// The head that found no room, and the units and places there were: asking again costs hashes and is useless until there are more.
  struct Blocked {
    SequenceId sequence = 0;
    int64_t available = 0;
    int64_t running = 0;
  } blocked_;
};

}  // namespace deepinfer::scheduler
