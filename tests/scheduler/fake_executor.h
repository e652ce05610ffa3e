// An executor without a model: programmable latencies in simulated time, and a state whose every word is a hash of the whole prefix,
// so that a stale, torn or swapped block, ring or token is found at once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/cache.h"
#include "scheduler/executor.h"

namespace deepinfer::scheduler {

/// The model: word p of a sequence is a hash of ids 0 .. p; a token is a hash of the last word, the seed and the sample.
uint64_t PrefixWord(uint64_t previous, int32_t id, int64_t position);
int32_t DrawToken(uint64_t word, uint64_t seed, int sample_index, int64_t position);
inline constexpr int32_t kFakeVocabulary = 50'000;

/// What a request must give, computed without any engine.
std::vector<int32_t> ExpectedTokens(std::span<const int32_t> prompt, uint64_t seed, int sample_index,
                                    int64_t count, int32_t stop_modulus = 0);
/// Whether the request's stop rule ends it with this token.
inline bool IsStop(int32_t token, int32_t stop_modulus) {
  return stop_modulus > 0 && token % stop_modulus == 0;
}

/// Pool geometry whose units are words of the hash model: rings of window + max_rollback words.
cache::CacheConfig FakeCacheConfig(int64_t units, int64_t max_sequences);

class FakeExecutor final : public Executor {
 public:
  using Cost = std::function<int64_t(const StepPlan&)>;

  /// `ids_of` gives the ids of a live sequence: what its state must be about. Duration of a step in microseconds by `cost`.
  FakeExecutor(cache::StateCache* cache, const cache::CacheConfig& config, int32_t slots,
               std::function<std::vector<int32_t>(SequenceId)> ids_of, Cost cost);

  Status LaunchForward(const StepPlan& plan) override;
  Status LaunchSampling(const StepPlan& plan, std::span<const SamplingRow> rows) override;
  Result<StepResult> Wait(StepId step) override;

  /// The simulated clock: the host's time. Launching costs nothing, waiting moves it to the step's end.
  int64_t now_us() const { return now_us_; }
  void AdvanceTo(int64_t now_us) { now_us_ = now_us > now_us_ ? now_us : now_us_; }
  int64_t busy_us() const { return busy_us_; }

  /// Every so many drafts one is wrong.
  void set_draft_error_every(int every) { draft_error_every_ = every; }
  /// The first disagreement of the state; empty when all was right.
  const std::string& fault() const { return fault_; }
  uint64_t words_checked() const { return words_checked_; }

 private:
  struct Row {
    uint64_t word = 0;
    int32_t id = 0;
    int64_t position = 0;
  };
  struct SlotState {
    int32_t token = -1;
    int64_t position = 0;  // of the next row
    StepId source = 0;     // step that drew the token
  };
  struct Launched {
    StepId id = 0;
    int64_t end_us = 0;
    int64_t duration_us = 0;
    std::vector<std::vector<Row>> rows{};  // by sequence of the plan
    StepResult result{};
  };

  void Copy(const cache::CopyList& copies);
  void RunSequence(const StepPlan& plan, const SequenceStep& step, std::vector<Row>* rows);
  int32_t InputId(const StepPlan& plan, const SequenceStep& step, int32_t row,
                  const std::vector<Row>& before);
  std::span<uint64_t> Unit(uint32_t unit);
  uint64_t& Entry(const cache::SequenceView& view, int64_t position);
  uint64_t& Ring(const cache::SequenceView& view, int64_t position);
  void Check(bool right, const char* what, const SequenceStep& step, int64_t position);
  const std::vector<uint64_t>& Truth(const SequenceStep& step);

  cache::StateCache* cache_;
  cache::CacheConfig config_;
  std::function<std::vector<int32_t>(SequenceId)> ids_of_;
  Cost cost_;
  std::vector<uint64_t> memory_;
  std::vector<SlotState> slots_;
  std::unordered_map<SequenceId, std::vector<uint64_t>>
      truth_;  // words of the ids that a sequence began with
  std::deque<Launched> launched_;
  int64_t now_us_ = 0;
  int64_t free_us_ = 0;  // when the device is idle again
  int64_t busy_us_ = 0;
  int draft_error_every_ = 3;
  uint64_t words_checked_ = 0;
  std::string fault_;
};

}  // namespace deepinfer::scheduler
