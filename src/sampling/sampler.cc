#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include <fmt/format.h>

#include "sampling/logits.h"
#include "sampling/sampling.h"

namespace deepinfer::sampling {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

bool Better(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : a.id < b.id;
}
bool Worse(const Candidate& a, const Candidate& b) { return Better(b, a); }
bool LowerId(const Candidate& a, const Candidate& b) { return a.id < b.id; }

}  // namespace

struct Sampler::Impl {
  Impl(SamplerOptions o, int64_t vocab)
      : options(std::move(o)),
        vocab_size(static_cast<size_t>(vocab)),
        rng(options.seed, options.stream, Purpose::kToken) {
    const SamplingParams& p = options.params;
    has_penalties = p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
    greedy = p.temperature == 0;
    edits_logits = has_penalties || !p.logit_bias.empty() || (!greedy && !options.suppressed.empty());
  }

  /// Raw logits with penalties, bias and suppressed ids; the span itself when nothing applies.
  std::span<const float> Edit(std::span<const float> logits);
  void FillCandidates(std::span<const float> logits, float max);
  void KeepTopK();
  void KeepTopP();
  void KeepMinP();

  SamplerOptions options;
  size_t vocab_size;
  CounterRng rng;
  bool has_penalties = false;
  bool greedy = false;
  bool edits_logits = false;
  std::unordered_map<int32_t, int64_t>
      output_counts;                  // every id of prompt and output; filled only with penalties
  std::vector<float> edited;          // [vocab_size], reused
  std::vector<Candidate> candidates;  // ascending id between the stages, reused
};

std::span<const float> Sampler::Impl::Edit(std::span<const float> logits) {
  if (!edits_logits) return logits;
  edited.assign(logits.begin(), logits.end());
  const SamplingParams& p = options.params;
  for (const auto& [id, count] : output_counts) {
    double logit = static_cast<double>(edited[static_cast<size_t>(id)]);
    logit = logit > 0 ? logit / p.repetition_penalty : logit * p.repetition_penalty;
    if (count > 0) logit -= p.presence_penalty + p.frequency_penalty * static_cast<double>(count);
    edited[static_cast<size_t>(id)] = static_cast<float>(logit);
  }
  for (const auto& [id, bias] : p.logit_bias) edited[static_cast<size_t>(id)] += bias;
  if (!greedy) {
    for (const int32_t id : options.suppressed) edited[static_cast<size_t>(id)] = kImpossible;
  }
  return edited;
}

void Sampler::Impl::FillCandidates(std::span<const float> logits, float max) {
  // Relative to the best before the division, so that the smallest temperature cannot overflow it.
  const double best = static_cast<double>(max);
  candidates.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == kImpossible) continue;
    candidates.push_back(
        {static_cast<int32_t>(i), (static_cast<double>(logits[i]) - best) / options.params.temperature});
  }
}

void Sampler::Impl::KeepTopK() {
  const size_t k = static_cast<size_t>(options.params.top_k);
  if (k == 0 || k >= candidates.size()) return;
  std::nth_element(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(k - 1), candidates.end(),
                   Better);
  candidates.resize(k);
  std::sort(candidates.begin(), candidates.end(), LowerId);
}

void Sampler::Impl::KeepTopP() {
  if (options.params.top_p >= 1) return;
  double total = 0;
  for (const Candidate& c : candidates) total += std::exp(c.score);
  // The shortest list of best tokens that holds the mass: taken from a heap, since it is short as a rule.
  std::make_heap(candidates.begin(), candidates.end(), Worse);
  auto rest = candidates.end();
  for (double mass = 0; rest != candidates.begin() && mass < options.params.top_p * total;) {
    mass += std::exp(candidates.front().score);
    std::pop_heap(candidates.begin(), rest, Worse);
    --rest;
  }
  candidates.erase(candidates.begin(), rest);
  std::sort(candidates.begin(), candidates.end(), LowerId);
}

void Sampler::Impl::KeepMinP() {
  if (options.params.min_p <= 0) return;
  std::erase_if(candidates, [&](const Candidate& c) { return std::exp(c.score) < options.params.min_p; });
}

Sampler::Sampler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;
Sampler::~Sampler() = default;

Result<Sampler> Sampler::Create(SamplerOptions options, int64_t vocab_size,
                                std::span<const int32_t> prompt_ids) {
  DEEPINFER_RETURN_IF_ERROR(Validate(options.params, vocab_size));
  const auto outside = [&](int32_t id) { return id < 0 || id >= vocab_size; };
  for (const std::span<const int32_t> ids : {prompt_ids, std::span<const int32_t>(options.suppressed)}) {
    const auto bad = std::find_if(ids.begin(), ids.end(), outside);
    if (bad != ids.end()) {
      return InvalidArgument(fmt::format("token id {} is outside the vocabulary of {}", *bad, vocab_size));
    }
  }
  auto impl = std::make_unique<Impl>(std::move(options), vocab_size);
  if (impl->has_penalties) {
    for (const int32_t id : prompt_ids) impl->output_counts.try_emplace(id, 0);
  }
  return Sampler(std::move(impl));
}

void Sampler::Accept(int32_t id) {
  if (impl_->has_penalties) ++impl_->output_counts[id];
}

Result<std::span<const Candidate>> Sampler::Process(std::span<const float> logits) {
  if (logits.size() != impl_->vocab_size) {
    return Internal(fmt::format("{} logits for a vocabulary of {}", logits.size(), impl_->vocab_size),
                    "logits");
  }
  DEEPINFER_ASSIGN_OR_RETURN(float max, CheckedMax(logits));
  const std::span<const float> edited = impl_->Edit(logits);
  if (impl_->edits_logits) {
    DEEPINFER_ASSIGN_OR_RETURN(max, CheckedMax(edited));
  }
  if (impl_->greedy) {
    impl_->candidates.assign(1, Candidate{ArgMax(edited), 0});
  } else {
    impl_->FillCandidates(edited, max);
    impl_->KeepTopK();
    impl_->KeepTopP();
    impl_->KeepMinP();
  }
  return std::span<const Candidate>(impl_->candidates);
}

Result<int32_t> Sampler::Sample(std::span<const float> logits, int64_t position) {
  DEEPINFER_ASSIGN_OR_RETURN(const std::span<const Candidate> candidates, Process(logits));
  if (candidates.size() == 1) return candidates.front().id;
  // A candidate so far below the best sum that no noise can lift it needs no random number. The most probable one goes first,
  // since it sets a high mark; among equal sums the lowest id wins, whatever the order.
  const auto likely = std::min_element(candidates.begin(), candidates.end(), Better);
  const double max_noise = CounterRng::MaxGumbel();
  const auto sum = [&](const Candidate& c) {
    return c.score + impl_->rng.Gumbel(static_cast<uint64_t>(position), static_cast<uint32_t>(c.id));
  };
  Candidate best{likely->id, sum(*likely)};
  for (const Candidate& c : candidates) {
    if (c.score + max_noise < best.score || c.id == likely->id) continue;
    const Candidate drawn{c.id, sum(c)};
    if (Better(drawn, best)) best = drawn;
  }
  return best.id;
}

}  // namespace deepinfer::sampling
