#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/harness.h"

namespace deepinfer::scheduler {
namespace {

HarnessOptions Options(int64_t units = 400) {
  HarnessOptions options;
  options.cache = FakeCacheConfig(units, 64);
  options.scheduler.max_sequences = 32;
  options.scheduler.max_rows_per_step = 256;
  options.scheduler.min_prompt_rows = 32;
  options.scheduler.exact_halo_rows = 200;
  return options;
}

Request Make(int64_t prompt, int64_t max_tokens, uint64_t salt = 1) {
  Request request;
  request.prompt = MakePrompt(prompt, salt);
  request.max_tokens = max_tokens;
  request.seed = salt;
  return request;
}

void ExpectIdle(Harness* harness) {
  EXPECT_TRUE(harness->Drain());
  EXPECT_EQ(harness->Verdict(), "");
  const Status scheduler = harness->scheduler().AuditIdle();
  EXPECT_TRUE(scheduler.ok()) << scheduler.ToString();
  const Status cache = harness->cache().AuditIdle();
  EXPECT_TRUE(cache.ok()) << cache.ToString();
}

TEST(Scheduler, ConfigurationNamesTheField) {
  const auto field = [](auto change) {
    SchedulerConfig config;
    change(&config);
    return config.Validate().where();
  };
  EXPECT_TRUE(SchedulerConfig{}.Validate().ok());
  EXPECT_EQ(field([](auto* c) { c->max_sequences = 0; }), "max_sequences");
  EXPECT_EQ(field([](auto* c) { c->num_slots = 3; }), "num_slots");
  EXPECT_EQ(field([](auto* c) { c->draft_tokens = 6; }), "draft_tokens");
  EXPECT_EQ(field([](auto* c) { c->max_steps_in_flight = 3; }), "max_steps_in_flight");
  EXPECT_EQ(field([](auto* c) { c->min_prompt_rows = 512; }), "max_rows_per_step");
  EXPECT_EQ(field([](auto* c) { c->max_prompt_rows_beside_decode = 8; }), "max_prompt_rows_beside_decode");
  EXPECT_EQ(field([](auto* c) { c->decode_stall_us = -1; }), "decode_stall_us");
  EXPECT_EQ(field([](auto* c) { c->max_waiting = 0; }), "max_waiting");
}

TEST(Scheduler, CreationChecksTheCache) {
  HarnessOptions options = Options();
  auto cache = cache::StateCache::Create(options.cache);
  ASSERT_TRUE(cache.ok());
  options.scheduler.max_sequences = 65;
  EXPECT_EQ(Scheduler::Create(options.scheduler, cache->get(), options.cache).status().where(),
            "max_sequences");
  options = Options();
  options.scheduler.draft_tokens = 5;
  options.cache.max_rollback = 11;
  EXPECT_EQ(Scheduler::Create(options.scheduler, cache->get(), options.cache).status().where(),
            "draft_tokens");
}

TEST(Scheduler, RefusesWhatCannotRunAndNamesTheField) {
  Harness harness(Options(40));
  const auto field = [&](auto change) {
    Request request = Make(10, 4);
    request.id = 7;
    change(&request);
    return harness.scheduler().Submit(std::move(request), 0).status().where();
  };
  EXPECT_EQ(field([](auto* r) { r->id = 0; }), "id");
  EXPECT_EQ(field([](auto* r) { r->prompt.clear(); }), "prompt");
  EXPECT_EQ(field([](auto* r) { r->prompt[3] = -1; }), "prompt");
  EXPECT_EQ(field([](auto* r) { r->max_tokens = -1; }), "max_tokens");
  EXPECT_EQ(field([](auto* r) { r->priority = 8; }), "priority");
  EXPECT_EQ(field([](auto* r) { r->num_samples = 0; }), "num_samples");
  EXPECT_EQ(field([](auto* r) { r->num_samples = 33; }), "num_samples");
  EXPECT_EQ(field([](auto* r) { r->max_drafts = -1; }), "max_drafts");
  EXPECT_EQ(field([](auto* r) { r->keep_tokens = 127; }), "keep_tokens");
  EXPECT_EQ(field([](auto* r) { r->content_spans = {{.kind = 1, .begin = 8, .length = 3}}; }),
            "content_spans");
  EXPECT_EQ(field([](auto* r) { r->content_spans = {{.begin = 4, .length = 3}, {.begin = 6, .length = 1}}; }),
            "content_spans");
  // 40 units: a state of 2 and 38 blocks; 38 * 128 tokens with the reserved ones.
  const auto fits = [&](int64_t prompt) {
    Request request = Make(prompt, 1);
    request.id = 9;
    const auto result = harness.scheduler().Submit(std::move(request), 0);
    harness.scheduler().Cancel(9);
    return result.status();
  };
  const int64_t most = (harness.cache().total_units() - harness.cache().slot_units()) * 128 - 2;
  EXPECT_TRUE(fits(most).ok());
  EXPECT_EQ(fits(most + 1).code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(fits(most + 1).message(), testing::HasSubstr("the pool has"));
  EXPECT_TRUE(harness.scheduler().AuditIdle().ok());
}

TEST(Scheduler, AFullQueueRefuses) {
  HarnessOptions options = Options();
  options.scheduler.max_waiting = 3;
  Harness harness(options);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(harness.Submit(Make(10, 4)).ok());
  EXPECT_EQ(harness.Submit(Make(10, 4)).status().where(), "max_waiting");
  harness.Round();
  EXPECT_TRUE(harness.Submit(Make(10, 4)).ok());
  ExpectIdle(&harness);
}

TEST(Scheduler, OneRequestGivesTheModelsTokens) {
  for (const int in_flight : {1, 2}) {
    for (const int drafts : {0, 1, 5}) {
      HarnessOptions options = Options();
      options.scheduler.max_steps_in_flight = in_flight;
      options.scheduler.draft_tokens = drafts;
      Harness harness(options);
      Request request = Make(700, 200);
      request.max_drafts = drafts;
      ASSERT_TRUE(harness.Submit(std::move(request)).ok());
      ExpectIdle(&harness);
      const auto& c = harness.scheduler().counters();
      EXPECT_EQ(c.generated_tokens, 200U);
      EXPECT_EQ(c.prompt_rows, 700U);
      EXPECT_EQ(c.prompt_chunks, 3U);
      if (drafts == 0) {
        // The limit is known in advance: no row is computed in vain.
        EXPECT_EQ(c.decode_rows, 199U);
        EXPECT_EQ(c.dropped_rows, 0U);
      } else {
        EXPECT_LT(c.steps, 3U + 199U);
      }
    }
  }
}

TEST(Scheduler, IntermediateChunksNeverSample) {
  Harness harness(Options());
  ASSERT_TRUE(harness.Submit(Make(700, 1)).ok());
  std::vector<std::pair<int64_t, bool>> chunks;
  harness.on_plan = [&](const StepPlan& plan) {
    for (const auto& s : plan.sequences) chunks.emplace_back(s.first_position + s.num_rows, s.sample);
  };
  ExpectIdle(&harness);
  EXPECT_EQ(chunks, (std::vector<std::pair<int64_t, bool>>{{256, false}, {512, false}, {700, true}}));
}

TEST(Scheduler, PlansAStepBeforeTheOneBeforeIsCommitted) {
  Harness harness(Options());
  Request request = Make(5, 10);
  request.id = 1;
  ASSERT_TRUE(harness.scheduler().Submit(std::move(request), 0).ok());
  const StepPlan first = harness.scheduler().Plan(0);
  const StepPlan second = harness.scheduler().Plan(0);
  ASSERT_EQ(second.sequences.size(), 1U);
  EXPECT_EQ(second.sequences[0].token_source, first.id);
  EXPECT_EQ(second.sequences[0].first_position, 5);
  EXPECT_EQ(second.sequences[0].position_slack, 0);
  EXPECT_EQ(second.input_ids, std::vector<int32_t>{-1});
  // Two in flight: nothing more is planned.
  EXPECT_TRUE(harness.scheduler().Plan(0).empty());
  StepResult result{.step = first.id,
                    .sequences = {{.sequence = first.sequences[0].sequence, .num_tokens = 1}}};
  EXPECT_EQ(harness.scheduler().Commit({.step = second.id}, 0).where(), "step");
  EXPECT_EQ(harness.scheduler().Commit({.step = first.id}, 0).where(), "sequences");
  result.sequences[0].num_tokens = 2;
  EXPECT_EQ(harness.scheduler().Commit(result, 0).where(), "num_tokens");
  result.sequences[0].num_tokens = 1;
  EXPECT_TRUE(harness.scheduler().Commit(result, 0).ok());
  const auto rows = harness.scheduler().SamplingRows(second.id);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].position, 6);
  EXPECT_TRUE(harness.scheduler().SamplingRows(99).empty());
}

TEST(Scheduler, PositionsInFlightAreKnownByCount) {
  HarnessOptions options = Options();
  options.scheduler.draft_tokens = 5;
  Harness harness(options);
  Request request = Make(5, 100);
  request.id = 1;
  request.max_drafts = 5;
  ASSERT_TRUE(harness.scheduler().Submit(std::move(request), 0).ok());
  const StepPlan first = harness.scheduler().Plan(0);
  StepResult result{.step = first.id,
                    .sequences = {{.sequence = first.sequences[0].sequence, .num_tokens = 1}}};
  const StepPlan second = harness.scheduler().Plan(0);
  EXPECT_EQ(second.sequences[0].num_rows, 6);
  ASSERT_TRUE(harness.scheduler().Commit(result, 0).ok());
  const StepPlan third = harness.scheduler().Plan(0);
  // Step two gives one to six tokens: row 0 of step three is at position 6 .. 11, and 12 positions are reserved in all.
  EXPECT_EQ(third.sequences[0].first_position, 6);
  EXPECT_EQ(third.sequences[0].position_slack, 5);
  EXPECT_EQ(harness.cache().View(third.sequences[0].state)->reserved / 128, 1);
  EXPECT_TRUE(harness.scheduler().Audit().ok());
}

TEST(Scheduler, AdmissionReservesTwiceTheDraftAndOne) {
  // 128 - 12 = 116 known positions fit into one block with the reserve; 117 need two (R17).
  for (const int64_t prompt : {116, 117}) {
    HarnessOptions options = Options();
    options.scheduler.draft_tokens = 5;
    Harness harness(options);
    ASSERT_TRUE(harness.Submit(Make(prompt, 50)).ok());
    const StepPlan plan = harness.scheduler().Plan(0);
    EXPECT_EQ(harness.cache().View(plan.sequences[0].state)->units.size(), prompt == 116 ? 1U : 2U);
  }
}

TEST(Scheduler, AStopIsSeenOneStepLateAndTheSurplusRowIsDropped) {
  for (const int in_flight : {1, 2}) {
    HarnessOptions options = Options();
    options.scheduler.max_steps_in_flight = in_flight;
    Harness harness(options);
    for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(harness.Submit(Make(20 + i, 400, i), 20).ok());
    ExpectIdle(&harness);
    const auto& c = harness.scheduler().counters();
    EXPECT_EQ(c.finished[static_cast<int>(FinishReason::kStop)], 8U);
    EXPECT_EQ(c.dropped_rows, in_flight == 1 ? 0U : 8U);
  }
}

TEST(Scheduler, NothingIsSampledWithoutTokensWanted) {
  Harness harness(Options());
  const auto id = harness.Submit(Make(300, 0));
  ASSERT_TRUE(id.ok());
  ExpectIdle(&harness);
  EXPECT_EQ(harness.scheduler().counters().generated_tokens, 0U);
  EXPECT_EQ(harness.Of(*id)[0]->reason, FinishReason::kLength);
}

TEST(Scheduler, TheContextLimitEndsASequence) {
  HarnessOptions options = Options();
  options.scheduler.context_limit = 64;
  Harness harness(options);
  Request request = Make(60, 4);
  request.max_tokens = 1'000'000'000'000;
  request.id = 5;
  ASSERT_TRUE(harness.scheduler().Submit(std::move(request), 0).ok());
  EXPECT_EQ(harness.scheduler().Info(1)->remaining, 4);
  EXPECT_EQ(harness.Submit(Make(64, 1)).status().where(), "prompt");
}

TEST(Scheduler, SamplesShareThePromptByFork) {
  for (const int in_flight : {1, 2}) {
    HarnessOptions options = Options();
    options.scheduler.max_steps_in_flight = in_flight;
    options.scheduler.draft_tokens = 2;
    Harness harness(options);
    Request request = Make(333, 40);
    request.num_samples = 4;
    request.max_drafts = 2;
    const auto id = harness.Submit(std::move(request));
    ASSERT_TRUE(id.ok());
    ExpectIdle(&harness);
    EXPECT_EQ(harness.scheduler().counters().forks, 3U);
    EXPECT_EQ(harness.scheduler().counters().prompt_rows, 333U);
    const auto streams = harness.Of(*id);
    ASSERT_EQ(streams.size(), 4U);
    EXPECT_NE(streams[0]->tokens, streams[1]->tokens);
  }
}

TEST(Scheduler, AForkLeavesOutWhatTheFirstSampleHasGoneOnWith) {
  Harness harness(Options());
  Request request = Make(200, 40);
  request.num_samples = 3;
  ASSERT_TRUE(harness.Submit(std::move(request)).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(harness.Round());
  harness.Pause();  // the first sample has one row of its own when the others are copied
  EXPECT_EQ(harness.scheduler().Info(1)->ids.size(), 202U);
  ExpectIdle(&harness);
  EXPECT_EQ(harness.scheduler().counters().forks, 2U);
}

TEST(Scheduler, RejectedDraftsUseUpRollback) {
  HarnessOptions options = Options();
  options.scheduler.draft_tokens = 5;
  options.scheduler.max_steps_in_flight = 1;
  Harness harness(options);
  harness.executor().set_draft_error_every(1);
  Request request = Make(20, 100);
  request.max_drafts = 5;
  ASSERT_TRUE(harness.Submit(std::move(request)).ok());
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(harness.Round());
  const auto info = harness.scheduler().Info(1);
  EXPECT_EQ(info->ids.size(), 50U);
  // Six rows were written behind the row that stays: of 12 rows in the rings beyond the window five are taken by rejected ones.
  EXPECT_FALSE(harness.cache().Rollback(info->state, 8).ok());
  EXPECT_TRUE(harness.cache().Rollback(info->state, 7).ok());
}

TEST(Scheduler, SamplesWithoutAPlaceComputeThePromptThemselves) {
  HarnessOptions options = Options();
  options.scheduler.max_sequences = 2;
  Harness harness(options);
  Request request = Make(333, 40);
  request.num_samples = 2;
  ASSERT_TRUE(harness.Submit(std::move(request)).ok());
  ASSERT_TRUE(harness.Submit(Make(50, 100, 9)).ok());
  ExpectIdle(&harness);
  EXPECT_EQ(harness.scheduler().counters().fork_recomputes, 1U);
}

TEST(Scheduler, EveryRequestSurvivesPreemption) {
  for (const auto mode : {PrefillMode::kFull, PrefillMode::kExactHalo, PrefillMode::kBoundedReplay}) {
    for (const auto policy :
         {cache::CachePolicy::kOff, cache::CachePolicy::kStrict, cache::CachePolicy::kDeepseek}) {
      Harness harness(Options());
      Request request = Make(500, 120);
      request.prefill_mode = mode;
      request.cache_policy = policy;
      request.constrained = true;
      request.seed = 4711;
      ASSERT_TRUE(harness.Submit(std::move(request)).ok());
      int preempted = 0;
      harness.on_plan = [&](const StepPlan& plan) {
        for (const auto& s : plan.sequences) {
          EXPECT_EQ(s.seed, 4711U);
          EXPECT_TRUE(s.constrained);
          if (s.phase == Phase::kDecode) continue;
          if (mode == PrefillMode::kBoundedReplay) {
            // The cut belongs to the prompt as it was sent, also when output is computed again.
            EXPECT_EQ(s.decoder_begin, 500 - 130);
            EXPECT_EQ(s.prefill_mode,
                      s.first_position < 500 ? PrefillMode::kBoundedReplay : PrefillMode::kFull);
            EXPECT_TRUE(s.first_position >= 500 || s.first_position + s.num_rows <= 500);
          }
          if (mode == PrefillMode::kExactHalo) {
            EXPECT_EQ(s.decoder_begin, s.run_end - 200);
          }
        }
      };
      for (int i = 0; i < 60; ++i) {
        harness.Round();
        if (i % 7 == 6) preempted += harness.scheduler().Preempt(1);
      }
      EXPECT_GT(preempted, 2);
      ExpectIdle(&harness);
      EXPECT_EQ(harness.scheduler().counters().preemptions, static_cast<uint64_t>(preempted));
      EXPECT_EQ(harness.scheduler().counters().inexact_recomputes, 0U);
    }
  }
}

TEST(Scheduler, MemoryPressurePreemptsTheYoungestAndAllComplete) {
  for (const int in_flight : {1, 2}) {
    HarnessOptions options = Options(36);
    options.scheduler.max_steps_in_flight = in_flight;
    Harness harness(options);
    std::vector<RequestId> ids;
    for (uint64_t i = 0; i < 6; ++i) {
      Request request = Make(200, 900, i);
      request.cache_policy = cache::CachePolicy::kOff;
      ids.push_back(*harness.Submit(std::move(request)));
    }
    ExpectIdle(&harness);
    EXPECT_GT(harness.scheduler().counters().preemptions, 0U);
    // The oldest is never taken out, so it ends first.
    int64_t last = 0;
    for (const RequestId id : ids) last = std::max(last, harness.Of(id)[0]->times_us.back());
    EXPECT_LT(harness.Of(ids[0])[0]->times_us.back(), last);
    EXPECT_EQ(harness.scheduler().counters().finished[static_cast<int>(FinishReason::kLength)], 6U);
  }
}

TEST(Scheduler, ALoneSequenceThatOutgrowsThePoolEndsWithItsReason) {
  for (const int in_flight : {1, 2}) {
    HarnessOptions options = Options(8);
    options.scheduler.max_steps_in_flight = in_flight;
    Harness harness(options);
    const auto id = harness.Submit(Make(300, 100'000));
    ASSERT_TRUE(id.ok());
    ExpectIdle(&harness);
    const auto* stream = harness.Of(*id)[0];
    EXPECT_EQ(stream->reason, FinishReason::kCapacity);
    // All blocks were used: the last row has a place, the token after it needs none.
    const int64_t places = (harness.cache().total_units() - harness.cache().slot_units()) * 128;
    EXPECT_EQ(300 + static_cast<int64_t>(stream->tokens.size()), places + 1);
  }
}

TEST(Scheduler, ASequenceTakenOutWhenItFillsThePoolEndsInsteadOfWaitingForever) {
  Harness harness(Options(8));
  const auto id = harness.Submit(Make(300, 100'000));
  ASSERT_TRUE(id.ok());
  const int64_t places = (harness.cache().total_units() - harness.cache().slot_units()) * 128;
  while (harness.scheduler().Info(1)->ids.size() < static_cast<size_t>(places)) ASSERT_TRUE(harness.Round());
  EXPECT_TRUE(harness.scheduler().Preempt(1));
  ExpectIdle(&harness);
  EXPECT_EQ(harness.Of(*id)[0]->reason, FinishReason::kCapacity);
}

TEST(Scheduler, AHigherPriorityTakesThePlaceOfALower) {
  HarnessOptions options = Options();
  options.scheduler.max_sequences = 2;
  options.scheduler.num_slots = 2;
  Harness harness(options);
  const auto low = harness.Submit(Make(50, 200, 1));
  const auto other = harness.Submit(Make(50, 200, 2));
  for (int i = 0; i < 10; ++i) harness.Round();
  Request request = Make(50, 20, 3);
  request.priority = 2;
  const auto high = harness.Submit(std::move(request));
  Request equal = Make(50, 20, 4);
  const auto patient = harness.Submit(std::move(equal));
  ExpectIdle(&harness);
  EXPECT_EQ(harness.scheduler().counters().preemptions, 1U);
  const auto end = [&](const Result<RequestId>& id) { return harness.Of(*id)[0]->times_us.back(); };
  EXPECT_LT(end(high), end(low));
  EXPECT_LT(end(high), end(other));
  EXPECT_LT(end(low), end(patient));  // the first of the two was not the one taken out
}

TEST(Scheduler, AgeingWhileRunningDoesNotBringAPreemptedSequenceBackFirst) {
  HarnessOptions options = Options();
  options.scheduler.max_sequences = 1;
  options.scheduler.num_slots = 2;
  options.scheduler.aging_us = 50'000;
  Harness harness(options);
  const auto low = harness.Submit(Make(50, 300, 1));
  for (int i = 0; i < 100; ++i) harness.Round();
  Request request = Make(50, 5, 3);
  request.priority = 2;
  const auto high = harness.Submit(std::move(request));
  ExpectIdle(&harness);
  EXPECT_LT(harness.Of(*high)[0]->times_us.back(), harness.Of(*low)[0]->times_us.back());
  EXPECT_EQ(harness.scheduler().counters().preemptions, 1U);
}

TEST(Scheduler, DeadlinesEndRequestsInAnyPhase) {
  HarnessOptions options = Options();
  options.scheduler.max_sequences = 1;
  options.scheduler.num_slots = 2;
  Harness harness(options);
  Request running = Make(50, 1000, 1);
  running.deadline_us = 100'000;
  Request waiting = Make(50, 10, 2);
  waiting.deadline_us = 60'000;
  const auto a = harness.Submit(std::move(running));
  harness.Round();
  const auto b = harness.Submit(std::move(waiting));
  EXPECT_EQ(harness.scheduler().NextDeadline(), 60'000);
  ExpectIdle(&harness);
  EXPECT_EQ(harness.Of(*a)[0]->reason, FinishReason::kDeadline);
  EXPECT_EQ(harness.Of(*b)[0]->reason, FinishReason::kDeadline);
  EXPECT_EQ(harness.scheduler().NextDeadline(), kNoDeadline);
  EXPECT_LE(harness.now(), 110'000);
}

TEST(Scheduler, AFailedStepEndsItsSequencesAndNoOthers) {
  HarnessOptions options = Options();
  options.scheduler.max_sequences = 1;
  options.scheduler.num_slots = 3;
  Harness harness(options);
  Request doomed = Make(50, 1000, 1);
  doomed.id = 1;
  Request waiting = Make(50, 10, 2);
  waiting.id = 2;
  ASSERT_TRUE(harness.scheduler().Submit(std::move(doomed), 0).ok());
  ASSERT_TRUE(harness.scheduler().Submit(std::move(waiting), 0).ok());
  const StepPlan first = harness.scheduler().Plan(0);
  const StepPlan second = harness.scheduler().Plan(0);
  EXPECT_EQ(harness.scheduler().Fail(second.id).where(), "step");
  ASSERT_TRUE(harness.scheduler().Fail(first.id).ok());
  EXPECT_TRUE(harness.scheduler().Audit().ok());
  const auto finished = harness.scheduler().TakeFinished();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].reason, FinishReason::kError);
  EXPECT_TRUE(harness.scheduler().SamplingRows(second.id).empty());
  ASSERT_TRUE(harness.scheduler().Commit({.step = second.id}, 0).ok());
  EXPECT_EQ(harness.scheduler().Plan(0).sequences[0].request, 2U);
  EXPECT_TRUE(harness.scheduler().Audit().ok());
}

TEST(Scheduler, EqualPromptsAreComputedOnce) {
  // 32 identical cold prompts (S22): at most 1.05 times the rows that one needs and the rests that each must run itself.
  Harness harness(Options(800));
  for (uint64_t i = 0; i < 32; ++i) {
    Request request = Make(8000, 4);
    request.seed = i;
    request.prefill_mode = PrefillMode::kBoundedReplay;
    request.cache_policy = cache::CachePolicy::kDeepseek;
    ASSERT_TRUE(harness.Submit(std::move(request)).ok());
  }
  ExpectIdle(&harness);
  const auto& c = harness.scheduler().counters();
  const uint64_t rest = 8000 - (62 * 128 - 128);  // after a hit of 62 blocks one window is fed again
  EXPECT_EQ(c.parked, 31U);
  EXPECT_LE(c.prompt_rows, 8000U + 31U * rest);
  EXPECT_LE(c.prompt_tokens - c.hit_tokens, 8000U * 105 / 100 + 31U * (8000 - 62 * 128));
}

TEST(Scheduler, ParkedRequestsGoOnWhenTheirLeaderIsCancelled) {
  Harness harness(Options(800));
  std::vector<RequestId> ids;
  for (uint64_t i = 0; i < 4; ++i) {
    Request request = Make(4000, 4);
    request.prefill_mode = PrefillMode::kBoundedReplay;
    request.cache_policy = cache::CachePolicy::kDeepseek;
    ids.push_back(*harness.Submit(std::move(request)));
  }
  for (int i = 0; i < 4; ++i) harness.Round();
  EXPECT_EQ(harness.scheduler().counters().parked, 3U);
  EXPECT_TRUE(harness.scheduler().Cancel(ids[0]));
  EXPECT_TRUE(harness.scheduler().Cancel(ids[2]));
  ExpectIdle(&harness);
  EXPECT_EQ(harness.scheduler().counters().finished[static_cast<int>(FinishReason::kLength)], 2U);
}

TEST(Scheduler, ResumeModesComeAsNumbers) {
  struct Case {
    cache::CachePolicy policy;
    bool snapshots;
    cache::ResumeMode mode;
    int64_t begin;
  };
  // Prompt 1,000, decoder tail 200: hit 896, rows before the tail 800. Exact replay of the fake: 300 rows.
  for (const Case& c : {Case{cache::CachePolicy::kDeepseek, false, cache::ResumeMode::kBoundedReplay, 768},
                        Case{cache::CachePolicy::kStrict, false, cache::ResumeMode::kExactReplay, 500},
                        Case{cache::CachePolicy::kStrict, true, cache::ResumeMode::kSnapshot, 768},
                        Case{cache::CachePolicy::kOff, true, cache::ResumeMode::kCold, 0}}) {
    HarnessOptions options = Options();
    options.scheduler.window_snapshots = c.snapshots;
    Harness harness(options);
    for (int i = 0; i < 2; ++i) {
      Request request = Make(1000, 30);
      request.cache_policy = c.policy;
      ASSERT_TRUE(harness.Submit(std::move(request)).ok());
      std::optional<SequenceStep> start;
      harness.on_plan = [&](const StepPlan& plan) {
        for (const auto& s : plan.sequences) {
          if (s.first_chunk) start = s;
        }
      };
      ExpectIdle(&harness);
      ASSERT_TRUE(start.has_value());
      const bool again = i == 1;
      EXPECT_EQ(start->resume, again ? c.mode : cache::ResumeMode::kCold);
      EXPECT_EQ(start->run_begin, again ? c.begin : 0);
      EXPECT_EQ(start->first_position, start->run_begin);
      EXPECT_EQ(start->write_floor, again && c.mode != cache::ResumeMode::kCold ? 896 : 0);
      EXPECT_EQ(start->decoder_begin, 800);
      EXPECT_EQ(start->approximate, again && c.mode == cache::ResumeMode::kBoundedReplay);
    }
  }
}

TEST(Scheduler, HitsAroundABlockAreRight) {
  // A hit of one window or less is not used (R21); prompts that end on a block leave it out, since a row must be computed.
  for (const int64_t length : {127, 128, 129, 256, 257, 384, 385, 512}) {
    Harness harness(Options());
    for (int i = 0; i < 2; ++i) {
      Request request = Make(length, 20);
      request.cache_policy = cache::CachePolicy::kDeepseek;
      request.prefill_mode = PrefillMode::kBoundedReplay;
      ASSERT_TRUE(harness.Submit(std::move(request)).ok());
      ExpectIdle(&harness);
    }
    const int64_t hit = (length - 1) / 128 * 128;
    EXPECT_EQ(harness.scheduler().counters().hit_tokens, static_cast<uint64_t>(hit > 128 ? hit : 0))
        << length;
  }
}

TEST(Scheduler, UsersShareThePlaces) {
  HarnessOptions options = Options();
  options.scheduler.max_sequences = 2;
  options.scheduler.num_slots = 3;
  Harness harness(options);
  std::vector<RequestId> flood, few;
  for (uint64_t i = 0; i < 40; ++i) {
    Request request = Make(100, 20, i);
    request.user = "flood";
    flood.push_back(*harness.Submit(std::move(request)));
  }
  for (uint64_t i = 0; i < 4; ++i) {
    Request request = Make(100, 20, 100 + i);
    request.user = "few";
    few.push_back(*harness.Submit(std::move(request)));
  }
  ExpectIdle(&harness);
  // Four requests that came last are through when the flood has had about as many.
  EXPECT_LT(harness.Of(few.back())[0]->times_us.back(), harness.Of(flood[8])[0]->times_us.back());
}

TEST(Scheduler, DecodeRowsTakeTurnsWhenTheyDoNotFit) {
  HarnessOptions options = Options();
  options.scheduler.max_rows_per_step = 16;
  options.scheduler.min_prompt_rows = 4;
  options.scheduler.max_prompt_rows_beside_decode = 8;
  Harness harness(options);
  for (uint64_t i = 0; i < 30; ++i) ASSERT_TRUE(harness.Submit(Make(6, 60, i)).ok());
  std::map<SequenceId, StepId> last;
  StepId longest = 0;
  harness.on_plan = [&](const StepPlan& plan) {
    EXPECT_LE(plan.input_ids.size(), 16U);
    for (const auto& s : plan.sequences) {
      if (s.phase != Phase::kDecode) continue;
      if (last.contains(s.sequence)) longest = std::max(longest, plan.id - last[s.sequence]);
      last[s.sequence] = plan.id;
    }
  };
  ExpectIdle(&harness);
  // 30 sequences through at least 12 rows a step: each has a row in every third step.
  EXPECT_GT(longest, 1U);
  EXPECT_LE(longest, 3U);
}

}  // namespace
}  // namespace deepinfer::scheduler
