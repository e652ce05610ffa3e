// A log gives the same plans again.
#include <random>

#include <gtest/gtest.h>

#include "scheduler/event_log.h"
#include "scheduler/harness.h"

namespace deepinfer::scheduler {
namespace {

HarnessOptions Options() {
  HarnessOptions options;
  options.cache = FakeCacheConfig(60, 16);
  options.scheduler.max_sequences = 8;
  options.scheduler.draft_tokens = 3;
  options.scheduler.max_rows_per_step = 128;
  options.scheduler.min_prompt_rows = 32;
  options.scheduler.decode_stall_us = 9000;
  options.cost = [](const StepPlan& plan) { return 4000 + 40 * plan.num_prompt_rows; };
  return options;
}

std::string Record(uint64_t seed) {
  Harness harness(Options());
  std::string log;
  harness.scheduler().RecordTo(&log);
  std::mt19937_64 rng(seed);
  for (int i = 0; i < 600; ++i) {
    if (rng() % 6 == 0) {
      Request request;
      request.prompt = MakePrompt(1 + static_cast<int64_t>(rng() % 500), rng() % 3);
      request.max_tokens = 1 + static_cast<int64_t>(rng() % 60);
      request.user = "user\n\"" + std::to_string(rng() % 3);
      request.seed = rng();
      request.max_drafts = 3;
      request.num_samples = 1 + static_cast<int>(rng() % 3 == 0);
      request.cache_policy = static_cast<cache::CachePolicy>(rng() % 3);
      request.content_spans = {{.kind = 1, .begin = 0, .length = 1, .content = {1, 2, 255}}};
      if (rng() % 5 == 0) request.deadline_us = harness.now() + 100'000;
      if (rng() % 20 == 0) request.prompt.clear();  // refused
      (void)harness.Submit(std::move(request));
    }
    if (rng() % 20 == 0) harness.scheduler().Cancel(1 + rng() % 80);
    if (rng() % 15 == 0) harness.scheduler().Preempt(1 + rng() % 120);
    if (rng() % 30 == 0) harness.scheduler().Finish(1 + rng() % 120, FinishReason::kCancelled);
    harness.Round();
  }
  EXPECT_TRUE(harness.Drain());
  return log;
}

Result<ReplayReport> ReplayFresh(std::string_view log) {
  const HarnessOptions options = Options();
  auto cache = cache::StateCache::Create(options.cache);
  EXPECT_TRUE(cache.ok());
  auto scheduler = Scheduler::Create(options.scheduler, cache->get(), options.cache);
  EXPECT_TRUE(scheduler.ok());
  Result<ReplayReport> report = Replay(log, scheduler->get());
  if (report.ok()) {
    EXPECT_TRUE((*scheduler)->AuditIdle().ok());
  }
  return report;
}

TEST(Replay, GivesIdenticalPlans) {
  for (const uint64_t seed : {1U, 2U, 3U}) {
    const std::string log = Record(seed);
    const auto report = ReplayFresh(log);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_GT(report->plans, 500);
    EXPECT_EQ(report->events, std::count(log.begin(), log.end(), '\n'));
  }
}

TEST(Replay, SeesAnyOtherPlan) {
  std::string log = Record(4);
  // Another prompt length in the first request: another plan.
  const size_t prompt = log.find("\"prompt\":[") + 10;
  log.insert(prompt, "17,");
  const auto report = ReplayFresh(log);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(report.status().message().find("differently"), std::string::npos);
}

TEST(Replay, RefusesUnsoundLogs) {
  const std::string config = ConfigLine(Options().scheduler);
  EXPECT_TRUE(ReplayFresh(config).ok());
  for (const char* line :
       {"{", "[]", "{}", "{\"plan\":1}", "{\"plan\":{}}", "{\"plan\":{\"now\":0,\"digest\":-1}}",
        "{\"cancel\":{}}", "{\"cancel\":{\"id\":\"1\"}}", "{\"dance\":{\"id\":1}}",
        "{\"submit\":{\"now\":0}}", "{\"commit\":{\"now\":0,\"step\":1,\"duration\":0,\"results\":[1]}}",
        "{\"commit\":{\"now\":0,\"step\":1,\"duration\":0,\"results\":[{\"sequence\":1,\"tokens\":[1,1,1,1,1,"
        "1,1],"
        "\"finish\":-1}]}}",
        "{\"finish\":{\"sequence\":1,\"reason\":6}}"}) {
    EXPECT_EQ(ReplayFresh(config + line + "\n").status().code(), StatusCode::kDataLoss) << line;
  }
  EXPECT_EQ(ReplayFresh("{\"config\":{}}\n").status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace deepinfer::scheduler
