#include "scheduler/harness.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace deepinfer::scheduler {

Harness::Harness(const HarnessOptions& options) : block_tokens_(options.cache.block_tokens) {
  auto made = cache::StateCache::Create(options.cache);
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  cache_ = std::move(made).value();
  auto scheduler = Scheduler::Create(options.scheduler, cache_.get(), options.cache);
  EXPECT_TRUE(scheduler.ok()) << scheduler.status().ToString();
  scheduler_ = std::move(scheduler).value();
  executor_ = std::make_unique<FakeExecutor>(
      cache_.get(), options.cache, options.scheduler.Slots(),
      [this](SequenceId sequence) {
        const auto info = scheduler_->Info(sequence);
        return info.ok() ? std::vector<int32_t>(info->ids.begin(), info->ids.end()) : std::vector<int32_t>{};
      },
      options.cost);
}

Result<RequestId> Harness::Submit(Request request, int32_t stop_modulus) {
  request.id = next_request_++;
  const RequestId id = request.id;
  const int samples = request.num_samples;
  const Request kept = request;
  DEEPINFER_ASSIGN_OR_RETURN(const SequenceId first, scheduler_->Submit(std::move(request), now()));
  for (int i = 0; i < samples; ++i) {
    streams_[first + static_cast<SequenceId>(i)] = {
        .request = kept, .sample_index = i, .stop_modulus = stop_modulus, .submitted_us = now()};
  }
  return id;
}

void Harness::CommitOldest() {
  Result<StepResult> result = executor_->Wait(plans_.front().id);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  for (SequenceResult& entry : result->sequences) {
    const auto info = scheduler_->Info(entry.sequence);
    if (!info.ok() || info->phase == SequencePhase::kEnding) continue;
    Stream& stream = streams_.at(entry.sequence);
    const int64_t count = std::min<int64_t>(entry.num_tokens, info->remaining);
    for (int32_t i = 0; i < count; ++i) {
      stream.tokens.push_back(entry.tokens[static_cast<size_t>(i)]);
      stream.times_us.push_back(now());
      if (IsStop(stream.tokens.back(), stream.stop_modulus)) {
        entry.num_tokens = i + 1;
        entry.finish = FinishReason::kStop;
        break;
      }
    }
    stream.approximate |= info->approximate;
  }
  const Status committed = scheduler_->Commit(*result, now());
  ASSERT_TRUE(committed.ok()) << committed.ToString();
  plans_.pop_front();
  Collect();
}

void Harness::Collect() {
  for (const Finished& finished : scheduler_->TakeFinished()) {
    Stream& stream = streams_.at(finished.sequence);
    if (stream.reason.has_value() && error_.empty())
      error_ = fmt::format("sequence {} ended twice", finished.sequence);
    stream.reason = finished.reason;
  }
}

bool Harness::Round() {
  const bool overlap = scheduler_->config().max_steps_in_flight > 1;
  const StepPlan plan = scheduler_->Plan(now());
  if (on_plan) on_plan(plan);
  if (!plan.empty()) {
    const Status launched = executor_->LaunchForward(plan);
    EXPECT_TRUE(launched.ok()) << launched.ToString();
    plans_.push_back(plan);
  }
  // The step before: launched in an earlier round, its sampling too.
  const bool before = plans_.size() > (plan.empty() ? 0U : 1U);
  if (before) CommitOldest();
  if (!plan.empty()) {
    const auto rows = scheduler_->SamplingRows(plan.id);
    const Status launched = executor_->LaunchSampling(plan, rows);
    EXPECT_TRUE(launched.ok()) << launched.ToString();
    if (!overlap) CommitOldest();
  }
  Collect();
  return !plan.empty() || before;
}

bool Harness::Drain(int most) {
  for (int i = 0; i < most; ++i) {
    if (!Round()) return true;
  }
  return false;
}

std::vector<const Harness::Stream*> Harness::Of(RequestId request) const {
  std::vector<const Stream*> found;
  for (const auto& [id, stream] : streams_) {
    if (stream.request.id == request) found.push_back(&stream);
  }
  return found;
}

std::string Harness::Verdict() const {
  if (!error_.empty()) return error_;
  if (!executor_->fault().empty()) return executor_->fault();
  for (const auto& [id, stream] : streams_) {
    if (!stream.reason.has_value()) return fmt::format("sequence {} has not ended", id);
    const auto expected = ExpectedTokens(stream.request.prompt, stream.request.seed, stream.sample_index,
                                         stream.request.max_tokens, stream.stop_modulus);
    const bool complete = *stream.reason == FinishReason::kStop || *stream.reason == FinishReason::kLength;
    const bool same = complete ? stream.tokens == expected
                               : stream.tokens.size() <= expected.size() &&
                                     std::equal(stream.tokens.begin(), stream.tokens.end(), expected.begin());
    if (!same) {
      return fmt::format("sequence {} ({}, {} of {} tokens) differs from the model", id,
                         FinishReasonName(*stream.reason), stream.tokens.size(), expected.size());
    }
  }
  return {};
}

std::vector<int32_t> MakePrompt(int64_t count, uint64_t salt) {
  std::vector<int32_t> ids;
  uint64_t word = salt * 0x9e3779b97f4a7c15ULL + 1;
  for (int64_t i = 0; i < count; ++i) {
    word = PrefixWord(word, 7, i);
    ids.push_back(static_cast<int32_t>(word % kFakeVocabulary));
  }
  return ids;
}

}  // namespace deepinfer::scheduler
