#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "sampling/logits.h"
#include "sampling/sampling.h"

namespace deepinfer::sampling {

namespace {

/// A weight that is no number is the cause as a rule: weights come from files, and nothing before the logits looks at values.
Status Unsound(std::string message) {
  return DataLoss(std::move(message), "logits")
      .WithHint("deepinfer inspect MODEL --verify, which names weights that are no finite numbers");
}

}  // namespace

Result<float> CheckedMax(std::span<const float> logits) {
  float max = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] < std::numeric_limits<float>::infinity())) {
      return Unsound(
          fmt::format("the model computed a logit that is no finite number ({} for token {})", logits[i], i));
    }
    max = std::max(max, logits[i]);
  }
  if (max == -std::numeric_limits<float>::infinity()) {
    return Unsound("no token is possible: every logit is -infinity");
  }
  return max;
}

int32_t ArgMax(std::span<const float> logits) {
  int32_t best = -1;
  float max = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) return -1;
    if (logits[i] > max) {
      max = logits[i];
      best = static_cast<int32_t>(i);
    }
  }
  return best;
}

Result<LogProbs> ComputeLogProbs(std::span<const float> logits, int32_t id, int64_t top_count) {
  DEEPINFER_ASSIGN_OR_RETURN(const float max, CheckedMax(logits));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - static_cast<double>(max));
  const double log_sum = std::log(sum);
  const auto log_prob = [&](float logit) {
    return static_cast<float>((static_cast<double>(logit) - static_cast<double>(max)) - log_sum);
  };

  LogProbs out;
  if (id >= 0) out.logprob = log_prob(logits[static_cast<size_t>(id)]);
  const size_t count = static_cast<size_t>(std::min<int64_t>(top_count, static_cast<int64_t>(logits.size())));
  if (count == 0) return out;
  // A heap of the best so far with the worst of them in front: O(V log K) without a buffer of V entries.
  const auto better = [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  };
  for (size_t i = 0; i < logits.size(); ++i) {
    const std::pair<int32_t, float> entry(static_cast<int32_t>(i), logits[i]);
    if (out.top.size() == count) {
      if (!better(entry, out.top.front())) continue;
      std::pop_heap(out.top.begin(), out.top.end(), better);
      out.top.pop_back();
    }
    out.top.push_back(entry);
    std::push_heap(out.top.begin(), out.top.end(), better);
  }
  std::sort_heap(out.top.begin(), out.top.end(), better);
  for (auto& entry : out.top) entry.second = log_prob(entry.second);
  return out;
}

}  // namespace deepinfer::sampling
