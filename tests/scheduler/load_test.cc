// Loads in simulated time: stall bounds, storms of cancellations, overlap (spec: deepinfer.md R13, R18).
#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "scheduler/harness.h"

namespace deepinfer::scheduler {
namespace {

constexpr int64_t kStepUs = 5000;
constexpr int64_t kPromptRowUs = 40;

HarnessOptions LoadOptions() {
  HarnessOptions options;
  options.cache = FakeCacheConfig(4000, 128);
  options.scheduler.max_sequences = 64;
  options.scheduler.max_rows_per_step = 512;
  options.scheduler.min_prompt_rows = 64;
  options.cost = [](const StepPlan& plan) { return kStepUs + kPromptRowUs * plan.num_prompt_rows; };
  return options;
}

struct LoadResult {
  int64_t decode_gap_p99 = 0;
  int64_t decode_gap_max = 0;
  int64_t chat_first_token_max = 0;
  int64_t prompt_stall_max = 0;   // longest time between rows of the first unfinished prompt
  StepId prompt_stall_steps = 0;  // the same in steps: 1 = a row in every step
  uint64_t mixed_steps = 0;
};

/// Chats arriving every 30 ms while five prompts of 8,000 tokens are computed.
LoadResult RunMixedLoad(const HarnessOptions& options) {
  Harness harness(options);
  LoadResult out;
  // The sequence that was admitted first of those with prompt rows left is promised rows in every step.
  std::set<SequenceId> unfinished;
  SequenceId head = 0;
  int64_t head_served = 0;
  StepId head_step = 0;
  harness.on_plan = [&](const StepPlan& plan) {
    for (const auto& s : plan.sequences) {
      if (s.phase != Phase::kPrefill) continue;
      unfinished.insert(s.sequence);
      if (s.sequence == head) {
        out.prompt_stall_max = std::max(out.prompt_stall_max, harness.now() - head_served);
        out.prompt_stall_steps = std::max(out.prompt_stall_steps, plan.id - head_step);
        head_served = harness.now();
        head_step = plan.id;
      }
      if (s.sample) unfinished.erase(s.sequence);
    }
    const SequenceId first = unfinished.empty() ? 0 : *unfinished.begin();
    if (first != head) {
      head_served = harness.now();
      head_step = plan.id;
    }
    head = first;
  };
  std::vector<RequestId> chats;
  int64_t next_chat = 0;
  for (int64_t sent = 0; sent < 60 || harness.scheduler().num_running() > 0;) {
    if (sent < 60 && harness.now() >= next_chat) {
      const bool is_long = sent % 12 == 5;
      Request request;
      request.prompt = MakePrompt(is_long ? 8000 : 60, static_cast<uint64_t>(sent));
      request.max_tokens = is_long ? 20 : 80;
      const auto id = harness.Submit(std::move(request));
      EXPECT_TRUE(id.ok());
      if (!is_long) chats.push_back(*id);
      ++sent;
      next_chat += 30'000;
    }
    if (!harness.Round()) harness.executor().AdvanceTo(next_chat);
  }
  EXPECT_TRUE(harness.Drain());
  EXPECT_EQ(harness.Verdict(), "");
  std::vector<int64_t> gaps;
  for (const auto& [id, stream] : harness.streams()) {
    for (size_t i = 1; i < stream.times_us.size(); ++i)
      gaps.push_back(stream.times_us[i] - stream.times_us[i - 1]);
  }
  for (const RequestId id : chats) {
    const auto* stream = harness.Of(id)[0];
    out.chat_first_token_max = std::max(out.chat_first_token_max, stream->times_us[0] - stream->submitted_us);
  }
  std::ranges::sort(gaps);
  out.decode_gap_p99 = gaps[gaps.size() * 99 / 100];
  out.decode_gap_max = gaps.back();
  out.mixed_steps = harness.scheduler().counters().mixed_steps;
  return out;
}

TEST(MixedLoad, BothStallBoundsHold) {
  HarnessOptions options = LoadOptions();
  options.scheduler.max_prompt_rows_beside_decode = 128;
  const LoadResult mixed = RunMixedLoad(options);
  // For comparison: prompts may fill a step whatever decodes beside them.
  HarnessOptions unbounded = LoadOptions();
  unbounded.scheduler.max_prompt_rows_beside_decode = 512;
  const LoadResult free = RunMixedLoad(unbounded);
  std::printf(
      "decode gap p99 / max, first token of a chat max, prompt stall max [ms]: bound of 128 rows %.1f / "
      "%.1f, %.1f, "
      "%.1f; without %.1f / %.1f, %.1f, %.1f\n",
      static_cast<double>(mixed.decode_gap_p99) / 1e3, static_cast<double>(mixed.decode_gap_max) / 1e3,
      static_cast<double>(mixed.chat_first_token_max) / 1e3,
      static_cast<double>(mixed.prompt_stall_max) / 1e3, static_cast<double>(free.decode_gap_p99) / 1e3,
      static_cast<double>(free.decode_gap_max) / 1e3, static_cast<double>(free.chat_first_token_max) / 1e3,
      static_cast<double>(free.prompt_stall_max) / 1e3);
  const int64_t bound = kStepUs + 128 * kPromptRowUs;
  EXPECT_LE(mixed.decode_gap_max, bound);
  // The first prompt has rows in every step; a step without decode rows may be as long as the budget allows.
  EXPECT_EQ(mixed.prompt_stall_steps, 1U);
  EXPECT_LE(mixed.prompt_stall_max, kStepUs + 512 * kPromptRowUs);
  EXPECT_GT(mixed.mixed_steps, 100U);
  EXPECT_GT(free.decode_gap_p99, bound);
  // A chat waits for the steps in flight and its own.
  EXPECT_LE(mixed.chat_first_token_max, 4 * bound);
}

TEST(MixedLoad, TheBoundAsATimeHoldsOnceTheCostIsKnown) {
  HarnessOptions options = LoadOptions();
  options.scheduler.max_prompt_rows_beside_decode = 512;
  options.scheduler.decode_stall_us = 9000;
  const LoadResult result = RunMixedLoad(options);
  std::printf("decode gap p99 / max with a bound of 9 ms: %.1f / %.1f\n",
              static_cast<double>(result.decode_gap_p99) / 1e3,
              static_cast<double>(result.decode_gap_max) / 1e3);
  EXPECT_LE(result.decode_gap_p99, 9000);
  EXPECT_GT(result.mixed_steps, 100U);
}

TEST(MixedLoad, ManyDecodeRowsNeverStarveAPrompt) {
  HarnessOptions options = LoadOptions();
  options.scheduler.max_rows_per_step = 72;
  options.scheduler.min_prompt_rows = 16;
  Harness harness(options);
  for (uint64_t i = 0; i < 63; ++i) {
    Request request;
    request.prompt = MakePrompt(8, i);
    request.max_tokens = 600;
    ASSERT_TRUE(harness.Submit(std::move(request)).ok());
  }
  for (int i = 0; i < 60; ++i) harness.Round();
  Request request;
  request.prompt = MakePrompt(1600, 99);
  request.max_tokens = 2;
  const auto id = harness.Submit(std::move(request));
  ASSERT_TRUE(id.ok());
  int rounds = 0;
  while (harness.Of(*id)[0]->tokens.empty() && rounds < 1000) {
    harness.Round();
    ++rounds;
  }
  EXPECT_LE(rounds, 1600 / 16 + 3);
  EXPECT_TRUE(harness.Drain());
  EXPECT_EQ(harness.Verdict(), "");
}

TEST(MixedLoad, ShortPromptsNeverStarveALongOne) {
  HarnessOptions options = LoadOptions();
  options.scheduler.max_rows_per_step = 128;
  options.scheduler.min_prompt_rows = 32;
  options.scheduler.max_prompt_rows_beside_decode = 128;
  Harness harness(options);
  Request request;
  request.prompt = MakePrompt(1600, 99);
  request.max_tokens = 1;
  const auto id = harness.Submit(std::move(request));
  ASSERT_TRUE(id.ok());
  int rounds = 0;
  while (harness.Of(*id)[0]->tokens.empty() && rounds < 300) {
    // More short prompts than there are rows for.
    for (uint64_t i = 0; i < 2; ++i) {
      Request chat;
      chat.prompt = MakePrompt(100, 1000 + 2 * static_cast<uint64_t>(rounds) + i);
      chat.max_tokens = 1;
      ASSERT_TRUE(harness.Submit(std::move(chat)).ok());
    }
    harness.Round();
    ++rounds;
  }
  EXPECT_GT(rounds, 40);  // they did compete
  EXPECT_LE(rounds, 1600 / 32 + 3);
  EXPECT_TRUE(harness.Drain());
  EXPECT_EQ(harness.Verdict(), "");
}

TEST(CancelStorm, AThousandCancelsInAllPhasesLeaveNothing) {
  for (const int in_flight : {1, 2}) {
    HarnessOptions options = LoadOptions();
    options.cache = FakeCacheConfig(400, 128);
    options.scheduler.max_steps_in_flight = in_flight;
    options.scheduler.draft_tokens = 2;
    Harness harness(options);
    const auto fresh = [&](Harness* on) {
      Request request;
      request.prompt = MakePrompt(900, 123'456);
      request.max_tokens = 30;
      request.cache_policy = cache::CachePolicy::kOff;
      const int64_t begin = on->now();
      const auto id = on->Submit(std::move(request));
      EXPECT_TRUE(id.ok());
      EXPECT_TRUE(on->Drain());
      EXPECT_EQ(on->Of(*id)[0]->tokens.size(), 30U);
      return on->Of(*id)[0]->times_us.back() - begin;
    };
    const int64_t alone = fresh(&harness);
    std::mt19937_64 rng(7);
    std::map<SequencePhase, int> phases;
    int cancelled = 0;
    for (uint64_t i = 0; cancelled < 1000; ++i) {
      Request request;
      request.prompt = MakePrompt(1 + static_cast<int64_t>(rng() % 1500), i);
      request.max_tokens = 200;
      request.max_drafts = 2;
      request.num_samples = 1 + static_cast<int>(rng() % 4 == 0);
      ASSERT_TRUE(harness.Submit(std::move(request)).ok());
      if (i % 3 == 0) harness.Round();
      if (i < 100) continue;
      const SequenceId victim = 1 + rng() % harness.streams().rbegin()->first;
      const auto info = harness.scheduler().Info(victim);
      if (!info.ok() || info->phase == SequencePhase::kEnding) continue;
      ++phases[info->phase];
      ASSERT_TRUE(harness.scheduler().Cancel(info->request));
      EXPECT_FALSE(harness.scheduler().Cancel(info->request));
      ++cancelled;
      if (cancelled % 100 == 0) {
        const Status audit = harness.scheduler().Audit();
        ASSERT_TRUE(audit.ok()) << audit.ToString();
      }
    }
    EXPECT_GT(phases[SequencePhase::kWaiting], 0);
    EXPECT_GT(phases[SequencePhase::kPrefill], 0);
    EXPECT_GT(phases[SequencePhase::kDecode], 0);
    EXPECT_GT(phases[SequencePhase::kAwaitingPrompt], 0);
    for (const auto& [id, stream] : harness.streams()) {
      if (!stream.reason.has_value()) harness.scheduler().Cancel(stream.request.id);
    }
    EXPECT_TRUE(harness.Drain());
    EXPECT_EQ(fresh(&harness), alone);
    EXPECT_EQ(harness.Verdict(), "");
    EXPECT_TRUE(harness.scheduler().AuditIdle().ok());
    EXPECT_TRUE(harness.cache().AuditIdle().ok());
    std::printf("cancelled in: ");
    for (const auto& [phase, count] : phases)
      std::printf("%s %d  ", std::string(SequencePhaseName(phase)).c_str(), count);
    std::printf("\n");
  }
}

TEST(Overlap, SynchronousAndOverlappedStepsGiveTheSameTokens) {
  std::vector<std::vector<std::vector<int32_t>>> outputs;
  for (const int in_flight : {1, 2}) {
    HarnessOptions options = LoadOptions();
    options.scheduler.max_steps_in_flight = in_flight;
    Harness harness(options);
    for (uint64_t i = 0; i < 64; ++i) {
      Request request;
      request.prompt = MakePrompt(10 + static_cast<int64_t>(i) * 7, i);
      request.max_tokens = 100;
      request.seed = i;
      ASSERT_TRUE(harness.Submit(std::move(request), 211).ok());
    }
    ASSERT_TRUE(harness.Drain());
    EXPECT_EQ(harness.Verdict(), "");
    auto& tokens = outputs.emplace_back();
    for (const auto& [id, stream] : harness.streams()) tokens.push_back(stream.tokens);
  }
  EXPECT_EQ(outputs[0], outputs[1]);
}

TEST(Overlap, TheDeviceIsNeverIdleBetweenSteps) {
  Harness harness(LoadOptions());
  for (uint64_t i = 0; i < 64; ++i) {
    Request request;
    request.prompt = MakePrompt(8, i);
    request.max_tokens = 1000;
    ASSERT_TRUE(harness.Submit(std::move(request)).ok());
  }
  ASSERT_TRUE(harness.Drain());
  EXPECT_EQ(harness.now(), harness.executor().busy_us());
  EXPECT_GE(harness.scheduler().counters().steps, 1000U);
}

}  // namespace
}  // namespace deepinfer::scheduler
