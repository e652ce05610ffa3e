// Random events against the whole of scheduler, cache and hash model (spec: deepinfer.md R16, R17, R22).
#include <random>

#include <gtest/gtest.h>

#include "scheduler/harness.h"

namespace deepinfer::scheduler {
namespace {

struct Mix {
  const char* name;
  int steps_in_flight;
  int drafts;
  int64_t units;
  bool snapshots;
};

class RandomEvents : public testing::TestWithParam<Mix> {};

Request RandomRequest(std::mt19937_64* rng, int drafts) {
  const auto pick = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(*rng);
  };
  Request request;
  // Long common beginnings, so that prefixes are shared, followed by parts of their own.
  request.prompt = MakePrompt(pick(0, 3) == 0 ? 0 : 128 * pick(1, 6), static_cast<uint64_t>(pick(1, 3)));
  const auto own = MakePrompt(pick(1, 300), (*rng)());
  request.prompt.insert(request.prompt.end(), own.begin(), own.end());
  request.max_tokens = pick(0, 40) == 0 ? 0 : pick(1, 150);
  request.num_samples = request.max_tokens > 0 && pick(0, 5) == 0 ? static_cast<int>(pick(2, 4)) : 1;
  request.user = std::to_string(pick(0, 4));
  request.priority = static_cast<int>(pick(-2, 2));
  request.seed = (*rng)();
  request.max_drafts = static_cast<int>(pick(0, drafts));
  request.prefill_mode = static_cast<PrefillMode>(pick(0, 2));
  request.cache_policy = static_cast<cache::CachePolicy>(pick(0, 2));
  return request;
}

TEST_P(RandomEvents, NothingLeaksAndEveryTokenIsRight) {
  const Mix mix = GetParam();
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    HarnessOptions options;
    options.cache = FakeCacheConfig(mix.units, 24);
    options.scheduler.max_sequences = 12;
    options.scheduler.num_slots = 16;
    options.scheduler.draft_tokens = mix.drafts;
    options.scheduler.max_steps_in_flight = mix.steps_in_flight;
    options.scheduler.max_rows_per_step = 160;
    options.scheduler.min_prompt_rows = 32;
    options.scheduler.max_waiting = 60;
    options.scheduler.window_snapshots = mix.snapshots;
    options.scheduler.exact_halo_rows = 200;
    options.scheduler.single_flight_min_rows = 64;
    Harness harness(options);
    std::mt19937_64 rng(seed);
    const auto pick = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(rng);
    };
    uint64_t refused = 0, cancelled = 0, forced = 0, stopped = 0;
    int events = 0;
    for (; events < 10'000; ++events) {
      const int64_t what = pick(0, 99);
      if (what < 9) {
        Request request = RandomRequest(&rng, mix.drafts);
        if (pick(0, 9) == 0) request.deadline_us = harness.now() + pick(0, 400'000);
        const auto id = harness.Submit(std::move(request), pick(0, 2) == 0 ? 37 : 0);
        refused += !id.ok();
      } else if (what < 12) {
        const auto& streams = harness.streams();
        if (!streams.empty()) {
          // Mostly a recent one: older ones have ended.
          auto it = streams.rbegin();
          std::advance(it, pick(0, std::min<int64_t>(30, static_cast<int64_t>(streams.size()) - 1)));
          if (what == 9) cancelled += harness.scheduler().Cancel(it->second.request.id);
          if (what == 10) forced += harness.scheduler().Preempt(it->first);
          if (what == 11) stopped += harness.scheduler().Finish(it->first, FinishReason::kCancelled);
        }
      } else {
        harness.Round();
      }
      if (events % 50 == 0) {
        const Status scheduler = harness.scheduler().Audit();
        ASSERT_TRUE(scheduler.ok()) << "event " << events << ": " << scheduler.ToString();
        const Status cache = harness.cache().Audit();
        ASSERT_TRUE(cache.ok()) << "event " << events << ": " << cache.ToString();
        ASSERT_EQ(harness.executor().fault(), "") << "event " << events;
      }
    }
    ASSERT_TRUE(harness.Drain());
    EXPECT_EQ(harness.Verdict(), "");
    const Status scheduler = harness.scheduler().AuditIdle();
    EXPECT_TRUE(scheduler.ok()) << scheduler.ToString();
    const Status cache = harness.cache().AuditIdle();
    EXPECT_TRUE(cache.ok()) << cache.ToString();

    const SchedulerCounters& c = harness.scheduler().counters();
    std::printf(
        "%s seed %llu: %llu requests (%llu refused), %llu cancelled, %llu stopped, %llu forced out, %llu "
        "preempted, %llu steps "
        "(%llu mixed), %llu tokens, %llu chunks of %llu prompts, %llu hit tokens, %llu parked, %llu+%llu "
        "forks, "
        "%llu dropped rows, %llu words checked\n",
        mix.name, static_cast<unsigned long long>(seed), static_cast<unsigned long long>(c.requests),
        static_cast<unsigned long long>(refused), static_cast<unsigned long long>(cancelled),
        static_cast<unsigned long long>(stopped), static_cast<unsigned long long>(forced),
        static_cast<unsigned long long>(c.preemptions), static_cast<unsigned long long>(c.steps),
        static_cast<unsigned long long>(c.mixed_steps), static_cast<unsigned long long>(c.generated_tokens),
        static_cast<unsigned long long>(c.prompt_chunks), static_cast<unsigned long long>(c.prompts),
        static_cast<unsigned long long>(c.hit_tokens), static_cast<unsigned long long>(c.parked),
        static_cast<unsigned long long>(c.forks), static_cast<unsigned long long>(c.fork_recomputes),
        static_cast<unsigned long long>(c.dropped_rows),
        static_cast<unsigned long long>(harness.executor().words_checked()));
    EXPECT_GT(c.preemptions, 0U);
    EXPECT_GT(c.mixed_steps, 0U);
    EXPECT_GT(c.hit_tokens, 0U);
    EXPECT_GT(c.forks, 0U);
    EXPECT_GT(cancelled, 0U);
    EXPECT_GT(c.prompt_chunks, c.prompts);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RandomEvents,
                         testing::Values(Mix{"async", 2, 0, 80, false}, Mix{"sync", 1, 0, 80, false},
                                         Mix{"async_drafts", 2, 5, 80, false},
                                         Mix{"sync_drafts", 1, 5, 80, false},
                                         Mix{"async_snapshots", 2, 0, 80, true},
                                         Mix{"tight", 2, 5, 40, true}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace deepinfer::scheduler
