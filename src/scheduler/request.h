// What the scheduler knows of a request: plain numbers. Sampling parameters, grammars and texts belong to the engine.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "cache/cache.h"

namespace deepinfer::scheduler {

using RequestId = uint64_t;
/// Identity of a sequence from submission to its end, over preemptions; cache::SequenceId is one stay in the cache.
using SequenceId = uint64_t;

inline constexpr int64_t kNoDeadline = std::numeric_limits<int64_t>::max();
/// Priorities are in [-kMaxPriority, kMaxPriority]; a greater one goes first.
inline constexpr int kMaxPriority = 7;

/// Which rows of a prompt run through the decoder layers (spec: design.md §4). Numbered as model::PrefillMode.
enum class PrefillMode : uint8_t { kFull = 0, kExactHalo = 1, kBoundedReplay = 2 };

enum class FinishReason : uint8_t {
  kStop,       // the engine saw a stop token, stop string or the end of a grammar
  kLength,     // max_tokens or the context limit
  kCapacity,   // alone in the pool and still out of blocks
  kCancelled,  // by the caller
  kDeadline,   // the deadline passed
  kError,      // its step failed
};

/// Stable snake_case name, e.g. "length".
std::string_view FinishReasonName(FinishReason reason);

/// One request. All `num_samples` sequences share the prompt.
struct Request {
  RequestId id = 0;    // unique among live requests, not 0
  std::string user{};  // whose share the work counts against; empty = the common one
  int priority = 0;
  int64_t deadline_us = kNoDeadline;  // same clock as `now_us`
  std::vector<int32_t> prompt{};      // at least one id
  int64_t max_tokens = 16;            // 0: the prompt is computed and nothing is sampled
  int num_samples = 1;
  uint64_t seed = 0;         // copied into every plan: a recomputed sequence draws as before
  bool constrained = false;  // has a grammar; copied into every plan
  int max_drafts = 0;        // at most this many of SchedulerConfig::draft_tokens
  PrefillMode prefill_mode = PrefillMode::kExactHalo;
  int64_t keep_tokens = 0;  // bounded replay; 0 = window + 2 * (draft_tokens + 1)

  /// Use of the prefix cache; a recomputed sequence that was exact so far resumes exactly, whatever the policy.
  cache::CachePolicy cache_policy = cache::CachePolicy::kStrict;
  cache::Digest cache_root{};                       // cache::RootKey of its identity
  std::vector<cache::ContentSpan> content_spans{};  // images of the prompt
};

/// A sequence has ended. Reported once for each, in the order of ending.
struct Finished {
  RequestId request = 0;
  SequenceId sequence = 0;
  int sample_index = 0;
  FinishReason reason = FinishReason::kStop;
};

}  // namespace deepinfer::scheduler
