#include "cache/resume.h"

#include <algorithm>

namespace deepinfer::cache {

ResumePlan PlanResume(const CacheConfig& config, const Prompt& prompt, const PrefixHit& hit) {
  // A replay of one window would feed all of a shorter hit again.
  if (hit.tokens <= config.window) return {};
  const auto length = static_cast<int64_t>(prompt.ids.size());
  // Every row from `base` on has to be computed: those behind the hit, and the tail that the decoder layers run on.
  const int64_t base = std::max<int64_t>(0, std::min(hit.tokens, length - prompt.decoder_tail));

  ResumePlan plan;
  plan.resume.hit = hit.tokens;
  plan.resume.exactness = hit.exactness;
  plan.resume.mode = ResumeMode::kExactReplay;
  plan.resume.start = std::max<int64_t>(0, base - config.exact_replay);
  plan.windows_from = plan.resume.start == 0 ? 0 : base - config.window;

  if (hit.windows && hit.windows->position >= plan.resume.start) {
    plan.resume.mode = ResumeMode::kSnapshot;
    plan.resume.start = hit.windows->position;
    plan.windows_from = std::max<int64_t>(0, hit.windows->position - config.window);
    if (hit.windows->exactness == Exactness::kApproximate) plan.resume.exactness = Exactness::kApproximate;
  }
  if (prompt.policy == CachePolicy::kDeepseek) {
    const int64_t start =
        std::max<int64_t>(0, std::min(hit.tokens - config.window, length - prompt.decoder_tail));
    if (start > plan.resume.start) {
      plan.resume.mode = ResumeMode::kBoundedReplay;
      plan.resume.start = start;
      plan.resume.exactness = Exactness::kApproximate;
      plan.windows_from = start;
    }
  }
  // Computing everything on top of approximate blocks has only disadvantages.
  if (plan.resume.start == 0 && plan.resume.exactness == Exactness::kApproximate) return {};
  return plan;
}

}  // namespace deepinfer::cache
