// How to start behind a prefix hit: a pure function of numbers (spec: serving.md §3.4.2; open-questions.md 1).
#pragma once

#include <cstdint>
#include <optional>

#include "cache/cache.h"

namespace deepinfer::cache {

/// The longest usable chain of cached blocks for a prompt.
struct PrefixHit {
  int64_t tokens = 0;  // H
  Exactness exactness = Exactness::kExact;
  /// The usable snapshot with the greatest position <= min(H, P - T).
  struct Windows {
    uint32_t snapshot = 0;
    int64_t position = 0;
    Exactness exactness = Exactness::kExact;
  };
  std::optional<Windows> windows;
};

struct ResumePlan {
  Resume resume;
  int64_t windows_from = 0;  // rows from here on have windows that a snapshot may be cut from
};

/// The admissible mode that computes the fewest rows; among equals the exact one.
ResumePlan PlanResume(const CacheConfig& config, const Prompt& prompt, const PrefixHit& hit);

}  // namespace deepinfer::cache
