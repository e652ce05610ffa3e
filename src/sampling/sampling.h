// From logits to the next token: penalties, filters, random draw, and log-probabilities (spec: cli.md §1; dspark.md §2.1, §2.5;
// open-questions.md 18, 22).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace deepinfer::sampling {

/// How a token is chosen. The defaults change nothing: a draw from the model's own distribution.
struct SamplingParams {
  double temperature = 1;                                  // 0 = arg-max, the lowest id on ties
  double top_p = 1;                                        // 1 = off
  int64_t top_k = 0;                                       // 0 = off
  double min_p = 0;                                        // relative to the most probable token; 0 = off
  double repetition_penalty = 1;                           // 1 = off; tokens of prompt and output
  double presence_penalty = 0;                             // tokens of the output
  double frequency_penalty = 0;                            // per occurrence in the output
  std::vector<std::pair<int32_t, float>> logit_bias = {};  // token id, added to its logit

  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

/// One numeric field of SamplingParams with its allowed range: the single source for options, request fields and help texts.
struct FieldSpec {
  std::string_view name;  // as in JSON: "top_p"; options write "--top-p"
  double min = 0;
  double max = 0;
  bool min_excluded = false;
  bool integer = false;
  std::string_view meaning;  // half a sentence for help texts
  double (*get)(const SamplingParams&) = nullptr;
  void (*set)(SamplingParams&, double) = nullptr;
};

/// All numeric fields, in the order of the struct.
std::span<const FieldSpec> Fields();
/// The field of that name, or null.
const FieldSpec* FindField(std::string_view name);
/// The allowed values as people read them: "a number in (0, 1]".
std::string RangeText(const FieldSpec& field);

/// kInvalidArgument with the field's name as `where` unless `value` is allowed.
Status CheckField(const FieldSpec& field, double value);
/// Checks and sets. Errors: kInvalidArgument (value out of range, or no such field).
Status SetField(std::string_view name, double value, SamplingParams* params);
/// `logit_bias` entry: id in [0, vocab_size), bias in [-100, 100].
Status CheckLogitBias(int64_t id, double bias, int64_t vocab_size);
/// All of the above for a whole struct, and that no token has two biases.
Status Validate(const SamplingParams& params, int64_t vocab_size);

/// What a random number is for; numbers of different purposes are independent.
enum class Purpose : uint8_t { kToken = 0, kDraft = 1, kAcceptance = 2, kResidual = 3 };

/// Random numbers as a pure function of what they are for: no state, so the batch, the step and the number of drafts cannot
/// influence them (spec: dspark.md §2.10; Philox4x32-10).
class CounterRng {
 public:
  CounterRng(uint64_t seed, uint32_t stream, Purpose purpose)
      : seed_(seed), stream_(stream), purpose_(purpose) {}

  /// Uniform in the open interval (0, 1) in steps of 2^-52, for item `index` (a token id) of the absolute position `position`.
  double Uniform(uint64_t position, uint32_t index) const;
  /// -log(-log(u)): Gumbel noise of the same coordinates.
  double Gumbel(uint64_t position, uint32_t index) const;
  /// Upper bound of Gumbel().
  static double MaxGumbel();

 private:
  uint64_t seed_;
  uint32_t stream_;
  Purpose purpose_;
};

/// A token that may be drawn. Its probability is proportional to exp(score); the best score is 0.
struct Candidate {
  int32_t id = 0;
  double score = 0;
};

/// Everything that makes a draw repeatable besides the logits.
struct SamplerOptions {
  SamplingParams params = {};
  uint64_t seed = 0;
  uint32_t stream = 0;                   // sample number of the request
  std::vector<int32_t> suppressed = {};  // ids that are never drawn; not applied by arg-max (temperature 0)
};

/// Chooses the tokens of one sequence. A token depends on the logits, the tokens before it, (seed, stream) and its position only.
///
/// Order: repetition, presence and frequency penalty on the raw logits, logit bias, suppressed ids; temperature, top-k, top-p on
/// what is left (renormalised), min-p; draw. All comparisons order by (score descending, id ascending); sums are doubles in
/// ascending id.
///
/// The draw is the arg-max of score + Gumbel noise per (position, id), so that a draft model that uses the same noise agrees with
/// its target as often as possible (spec: dspark.md §2.5, rule C) and speculation does not change what a seed gives.
class Sampler {
 public:
  /// Errors: those of Validate; kInvalidArgument for a prompt or suppressed id outside the vocabulary.
  static Result<Sampler> Create(SamplerOptions options, int64_t vocab_size,
                                std::span<const int32_t> prompt_ids);
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;
  ~Sampler();

  /// The token for absolute position `position` (prompt tokens counted) given `logits` [vocab_size]. Errors: kInternal when the
  /// logits hold a NaN or +infinity, or leave no token possible.
  Result<int32_t> Sample(std::span<const float> logits, int64_t position);

  /// The candidates after all filters, in ascending id; valid until the next call. For temperature 0: the arg-max alone.
  Result<std::span<const Candidate>> Process(std::span<const float> logits);

  /// Counts `id` as an output token for the penalties.
  void Accept(int32_t id);

 private:
  struct Impl;
  explicit Sampler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The id with the largest logit, the lowest one on ties; -1 when a logit is NaN or none is above -infinity.
int32_t ArgMax(std::span<const float> logits);

/// Natural log-softmax of raw logits.
struct LogProbs {
  float logprob = 0;                           // of the id asked for
  std::vector<std::pair<int32_t, float>> top;  // best first, the lower id first on ties
};

/// Log-probability of `id` (-1 = none wanted) and of the `top_count` best tokens (at most the vocabulary), computed in double.
/// Errors: kInternal when the logits hold a NaN or +infinity, or are all -infinity.
Result<LogProbs> ComputeLogProbs(std::span<const float> logits, int32_t id, int64_t top_count);

}  // namespace deepinfer::sampling
