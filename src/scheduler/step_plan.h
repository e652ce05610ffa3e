// One step of work as plain numbers, and what comes back from it (spec: design.md §2.2, §2.3).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "cache/cache.h"
#include "scheduler/request.h"

namespace deepinfer::scheduler {

using StepId = uint64_t;

/// Most tokens that one sequence gets from one step: an accepted block of drafts and the token after it.
inline constexpr int kMaxDraftTokens = 5;
inline constexpr int kMaxTokensPerStep = kMaxDraftTokens + 1;

enum class Phase : uint8_t { kPrefill, kDecode };

/// The rows of one sequence in a step: consecutive positions.
struct SequenceStep {
  RequestId request = 0;
  SequenceId sequence = 0;
  cache::SequenceId state = cache::SequenceId::kNone;  // page table and state slot: cache::StateCache::View
  int32_t sample_index = 0;
  /// Index into arrays that an executor keeps beside the cache, such as the last token; in [0, SchedulerConfig::Slots()).
  int32_t slot = 0;
  Phase phase = Phase::kPrefill;

  int32_t first_row = 0;  // index of its first row in StepPlan::input_ids
  int32_t num_rows = 0;   // drafts included
  int32_t num_drafts = 0;
  /// Position of its first row when every step in flight gives one token. With drafts in flight the true position is up to
  /// `position_slack` greater; the device knows it (spec: dspark.md §2.11).
  int64_t first_position = 0;
  int32_t position_slack = 0;
  /// The step in flight that samples the token of the first row; 0 = the id is in input_ids.
  StepId token_source = 0;

  /// Whether the step ends with a token of the sequence; intermediate chunks never sample. The first produced token is for position
  /// first_position + num_rows - num_drafts (+ slack): random draws are keyed by it, never by step or slot.
  bool sample = false;
  int32_t num_samples =
      1;  // > 1: the logits of the last row are drawn from once for each sample of the request
  uint64_t seed = 0;
  bool constrained = false;

  /// Prefill rows only. The mode cuts relative to `run_end`, the end of the rows that it applies to.
  PrefillMode prefill_mode = PrefillMode::kFull;
  int64_t run_end = 0;
  int64_t keep_tokens = 0;    // bounded replay
  int64_t decoder_begin = 0;  // first position with any work in decoder layers
  cache::ResumeMode resume = cache::ResumeMode::kCold;
  int64_t run_begin = 0;     // first row of the run; windows see nothing below, except after kSnapshot
  int64_t write_floor = 0;   // entries whose last token is below are kept as they are
  bool approximate = false;  // has read or computed state that a cold run would not give to the bit
  bool first_chunk = false;  // the run starts here
  bool recompute = false;    // runs again after a preemption
};

struct StepPlan {
  StepId id = 0;  // 0 = nothing to do
  std::vector<int32_t>
      input_ids{};  // [num_rows]; -1 = sampled by a step in flight, or a draft: on the device
  std::vector<SequenceStep> sequences{};  // decode rows first
  cache::CopyList copies{};               // to be done before the rows, in this order
  int32_t num_decode_rows = 0;
  int32_t num_prompt_rows = 0;

  bool empty() const { return id == 0; }
};

/// What one sequence got from a step.
struct SequenceResult {
  SequenceId sequence = 0;
  int32_t num_tokens = 0;  // in [1, 1 + num_drafts]
  std::array<int32_t, kMaxTokensPerStep> tokens{};
  std::array<float, kMaxTokensPerStep> logprobs{};
  /// Set by the engine when a stop token, stop string or grammar ends the sequence with the last of `tokens`.
  std::optional<FinishReason> finish{};
};

/// Results of the rows that Scheduler::SamplingRows listed, in that order.
struct StepResult {
  StepId step = 0;
  int64_t duration_us = 0;  // time on the device
  std::vector<SequenceResult> sequences{};
};

}  // namespace deepinfer::scheduler
