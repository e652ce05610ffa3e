// Host work of the scheduler per step (spec: deepinfer.md R13; design.md §5): planning, committing and listing the draws, without an
// executor. Limits: 200 us a step at 64 sequences, 500 us at 1,024; 2 % on 1,000 steps of 5 ms.
//
//   scheduler_bench [--benchmark_filter=…]
#include <benchmark/benchmark.h>

#include <chrono>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"

namespace deepinfer::scheduler {
namespace {

constexpr int64_t kStubUs = 5000;

cache::CacheConfig CacheOf(int64_t sequences) {
  cache::CacheConfig config;
  config.block_bytes = 113'920;
  config.state_bytes = 3'128'928;
  config.snapshot_bytes = 1'351'680;
  config.max_sequences = 2 * sequences;
  // State and about 10,000 tokens for each.
  config.pool_bytes = sequences * (config.state_bytes + 80 * config.block_bytes) + 64 * config.state_bytes;
  return config;
}

/// Scheduler, cache and a stub that gives every draw the same token.
class Stub {
 public:
  Stub(int sequences, int drafts, int users, int64_t prompt, int rows_per_step)
      : cache_config_(CacheOf(sequences)) {
    SchedulerConfig config;
    config.max_sequences = sequences;
    config.draft_tokens = drafts;
    config.max_rows_per_step = rows_per_step;
    auto cache = cache::StateCache::Create(cache_config_);
    if (!cache.ok()) throw std::runtime_error(cache.status().ToString());
    cache_ = std::move(cache).value();
    auto scheduler = Scheduler::Create(config, cache_.get(), cache_config_);
    if (!scheduler.ok()) throw std::runtime_error(scheduler.status().ToString());
    scheduler_ = std::move(scheduler).value();
    for (int i = 0; i < sequences; ++i) Submit(i % users, prompt, drafts);
  }

  void Submit(int user, int64_t prompt, int drafts) {
    Request request;
    request.id = ++last_request_;
    request.user = "user " + std::to_string(user);
    request.prompt.assign(static_cast<size_t>(prompt), static_cast<int32_t>(request.id));
    request.max_tokens = 100'000;
    request.max_drafts = drafts;
    const auto submitted = scheduler_->Submit(std::move(request), now_us_);
    if (!submitted.ok()) throw std::runtime_error(submitted.status().ToString());
  }

  /// One overlapped round: plan n + 1, commit n, list the draws of n + 1.
  void Round() {
    plans_.push_back(scheduler_->Plan(now_us_));
    if (plans_.size() > 1) Commit();
    const auto rows = scheduler_->SamplingRows(plans_.back().id);
    results_.push_back({.step = plans_.back().id, .duration_us = kStubUs});
    for (const SamplingRow& row : rows) {
      results_.back().sequences.push_back({.sequence = row.sequence, .num_tokens = 1, .tokens = {7}});
    }
  }

  int64_t num_running() const { return scheduler_->num_running(); }
  const SchedulerCounters& counters() const { return scheduler_->counters(); }
  const StepPlan& last_plan() const { return plans_.back(); }

 private:
  void Commit() {
    now_us_ += kStubUs;
    const Status committed = scheduler_->Commit(results_.front(), now_us_);
    if (!committed.ok()) throw std::runtime_error(committed.ToString());
    results_.pop_front();
    plans_.pop_front();
  }

  cache::CacheConfig cache_config_;
  std::unique_ptr<cache::StateCache> cache_;
  std::unique_ptr<Scheduler> scheduler_;
  std::deque<StepPlan> plans_;
  std::deque<StepResult> results_;
  RequestId last_request_ = 0;
  int64_t now_us_ = 0;
};

/// All sequences decode. Arguments: sequences, drafts.
void DecodeStep(benchmark::State& state) {
  const int sequences = static_cast<int>(state.range(0));
  const int drafts = static_cast<int>(state.range(1));
  Stub stub(sequences, drafts, sequences, 16, sequences * (drafts + 1) + 512);
  for (int i = 0; i < 100; ++i) stub.Round();
  if (stub.last_plan().num_decode_rows != sequences * (drafts + 1)) state.SkipWithError("not all decode");
  for (auto _ : state) stub.Round();
}
BENCHMARK(DecodeStep)
    ->Args({64, 0})
    ->Args({64, 5})
    ->Args({256, 0})
    ->Args({1024, 0})
    ->Args({1024, 5})
    ->Unit(benchmark::kMicrosecond);

/// All places are taken, and 10,000 more of 1,000 users wait. Arguments: sequences.
void DecodeStepWithAQueue(benchmark::State& state) {
  const int sequences = static_cast<int>(state.range(0));
  Stub stub(sequences, 0, sequences, 16, sequences + 512);
  for (int i = 0; i < 10'000; ++i) stub.Submit(i % 1000, 500, 0);
  for (int i = 0; i < 100; ++i) stub.Round();
  for (auto _ : state) stub.Round();
}
BENCHMARK(DecodeStepWithAQueue)->Arg(64)->Arg(1024)->Unit(benchmark::kMicrosecond);

/// Prompts of 8,000 tokens are computed beside the sequences that have got through. Arguments: sequences.
void MixedStep(benchmark::State& state) {
  const int sequences = static_cast<int>(state.range(0));
  const auto make = [&] { return std::make_unique<Stub>(sequences, 0, 16, 8000, 4 * sequences + 512); };
  std::unique_ptr<Stub> stub = make();
  uint64_t mixed = 0;
  for (int i = 0; i < sequences / 2; ++i) stub->Round();
  for (auto _ : state) {
    if (stub->last_plan().num_prompt_rows == 0 && stub->counters().steps > 10) {
      state.PauseTiming();
      mixed += stub->counters().mixed_steps;
      stub = make();
      for (int i = 0; i < sequences / 2; ++i) stub->Round();
      state.ResumeTiming();
    }
    stub->Round();
  }
  if (mixed + stub->counters().mixed_steps == 0) state.SkipWithError("no step was mixed");
}
BENCHMARK(MixedStep)->Arg(64)->Unit(benchmark::kMicrosecond);

/// R13: 1,000 steps of 5 ms at 64 sequences. What the host adds: all of its work when steps do not overlap, only what exceeds the device's
/// step when they do.
void ThousandSteps(benchmark::State& state) {
  using Clock = std::chrono::steady_clock;
  double added_overlapped = 0, added_synchronous = 0, longest = 0;
  for (auto _ : state) {
    Stub stub(64, 0, 8, 16, 1024);
    for (int i = 0; i < 1000; ++i) {
      const auto begin = Clock::now();
      stub.Round();
      const double host_us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
      added_synchronous += host_us;
      added_overlapped += host_us > kStubUs ? host_us - kStubUs : 0;
      longest = host_us > longest ? host_us : longest;
    }
  }
  const double device_us = 1000.0 * kStubUs * static_cast<double>(state.iterations());
  state.counters["overhead_overlapped_%"] = 100 * added_overlapped / device_us;
  state.counters["overhead_synchronous_%"] = 100 * added_synchronous / device_us;
  state.counters["longest_us"] = longest;
}
BENCHMARK(ThousandSteps)->Unit(benchmark::kMillisecond);

/// From submission to the end of a request that is cancelled while it waits.
void SubmitAndCancel(benchmark::State& state) {
  cache::CacheConfig config = CacheOf(4);
  auto cache = cache::StateCache::Create(config);
  SchedulerConfig settings;
  settings.max_sequences = 4;
  auto scheduler = Scheduler::Create(settings, cache->get(), config);
  RequestId id = 0;
  const std::vector<int32_t> prompt(1000, 5);
  for (auto _ : state) {
    Request request;
    request.id = ++id;
    request.prompt = prompt;
    benchmark::DoNotOptimize((*scheduler)->Submit(std::move(request), 0).ok());
    benchmark::DoNotOptimize((*scheduler)->Cancel(id));
    if (id % 1000 == 0) (*scheduler)->TakeFinished();
  }
}
BENCHMARK(SubmitAndCancel)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace deepinfer::scheduler

BENCHMARK_MAIN();
