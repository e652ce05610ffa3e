// The filters against a short, slow form that sorts everything.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "generated_logits.h"
#include "sampling/sampling.h"

namespace deepinfer::sampling {
namespace {

struct NaiveToken {
  int32_t id;
  double logit, probability;
};

void Normalise(std::vector<NaiveToken>* tokens) {
  double sum = 0;
  for (const auto& t : *tokens) sum += t.probability;
  for (auto& t : *tokens) t.probability /= sum;
}

/// id -> probability after penalties, bias, temperature, top-k, top-p, min-p, each as its definition reads.
std::map<int32_t, double> NaiveProcess(std::vector<float> logits, const SamplingParams& p,
                                       std::span<const int32_t> prompt, std::span<const int32_t> output) {
  std::set<int32_t> seen(prompt.begin(), prompt.end());
  seen.insert(output.begin(), output.end());
  for (const int32_t id : seen) {
    const double x = logits[id];
    logits[id] = static_cast<float>(x > 0 ? x / p.repetition_penalty : x * p.repetition_penalty);
  }
  for (const int32_t id : std::set<int32_t>(output.begin(), output.end())) {
    const double n = static_cast<double>(std::count(output.begin(), output.end(), id));
    logits[id] = static_cast<float>(logits[id] - p.presence_penalty - n * p.frequency_penalty);
  }
  for (const auto& [id, bias] : p.logit_bias) logits[id] += bias;

  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<NaiveToken> tokens;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == -kInf) continue;
    const double z = (logits[i] - max) / p.temperature;
    tokens.push_back({static_cast<int32_t>(i), z, std::exp(z)});
  }
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const auto& a, const auto& b) { return a.logit > b.logit; });
  if (p.top_k > 0 && tokens.size() > static_cast<size_t>(p.top_k)) tokens.resize(p.top_k);
  Normalise(&tokens);
  if (p.top_p < 1) {
    double mass = 0;
    size_t kept = 0;
    while (kept < tokens.size() && mass < p.top_p) mass += tokens[kept++].probability;
    tokens.resize(kept);
  }
  const double least = tokens.front().probability * p.min_p;
  std::erase_if(tokens, [&](const auto& t) { return t.probability < least; });
  Normalise(&tokens);
  std::map<int32_t, double> out;
  for (const auto& t : tokens) out[t.id] = t.probability;
  return out;
}

std::map<int32_t, double> Processed(Sampler& sampler, std::span<const float> logits) {
  const auto candidates = sampler.Process(logits);
  EXPECT_TRUE(candidates.ok()) << candidates.status().ToString();
  std::map<int32_t, double> out;
  double sum = 0;
  int32_t last = -1;
  for (const Candidate& c : *candidates) {
    EXPECT_GT(c.id, last) << "not in ascending id";
    last = c.id;
    sum += std::exp(c.score);
    out[c.id] = std::exp(c.score);
  }
  for (auto& [id, probability] : out) probability /= sum;
  return out;
}

Sampler Make(const SamplingParams& params, int64_t vocab, std::span<const int32_t> prompt = {},
             uint64_t seed = 1) {
  auto sampler = Sampler::Create({.params = params, .seed = seed}, vocab, prompt);
  EXPECT_TRUE(sampler.ok()) << sampler.status().ToString();
  return std::move(sampler).value();
}

void ExpectSame(const std::map<int32_t, double>& got, const std::map<int32_t, double>& want,
                const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (auto a = got.begin(), b = want.begin(); a != got.end(); ++a, ++b) {
    ASSERT_EQ(a->first, b->first) << what;
    ASSERT_NEAR(a->second, b->second, 1e-9) << what << " id " << a->first;
  }
}

struct FilterCase {
  const char* name;
  SamplingParams params;
};

class Filter : public ::testing::TestWithParam<FilterCase> {};

TEST_P(Filter, AgreesWithTheNaiveForm) {
  const SamplingParams& params = GetParam().params;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const size_t vocab = 20 + seed * 13;
    const LogitOptions shape{.spread = 0.5 + seed % 7,
                             .tie_step = seed % 3 == 0 ? 0.25 : 0,
                             .impossible_share = seed % 4 == 0 ? 0.3 : 0};
    const auto logits = GenerateLogits(seed, vocab, shape);
    const std::vector<int32_t> prompt = {3, 7, 3, static_cast<int32_t>(vocab - 1)};
    const std::vector<int32_t> output = {7, 0, 0, 12, 0};
    Sampler sampler = Make(params, static_cast<int64_t>(vocab), prompt);
    for (const int32_t id : output) sampler.Accept(id);
    ExpectSame(Processed(sampler, logits), NaiveProcess(logits, params, prompt, output),
               "seed " + std::to_string(seed));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Filter,
    ::testing::Values(
        FilterCase{"none", {}}, FilterCase{"temperature_low", {.temperature = 0.3}},
        FilterCase{"temperature_high", {.temperature = 20}}, FilterCase{"top_k_1", {.top_k = 1}},
        FilterCase{"top_k_7", {.top_k = 7}}, FilterCase{"top_k_beyond_vocabulary", {.top_k = 100000}},
        FilterCase{"top_p_half", {.top_p = 0.5}}, FilterCase{"top_p_tiny", {.top_p = 1e-12}},
        FilterCase{"top_p_nearly_all", {.top_p = 0.999}}, FilterCase{"min_p", {.min_p = 0.07}},
        FilterCase{"min_p_one", {.min_p = 1}}, FilterCase{"top_k_and_p", {.top_p = 0.6, .top_k = 9}},
        FilterCase{"everything", {.temperature = 0.8, .top_p = 0.9, .top_k = 12, .min_p = 0.02}},
        FilterCase{"repetition", {.repetition_penalty = 1.7}},
        FilterCase{"repetition_reward", {.repetition_penalty = 0.5}},
        FilterCase{"presence", {.presence_penalty = 1.5}},
        FilterCase{"frequency", {.frequency_penalty = 0.9}},
        FilterCase{"negative_penalties", {.presence_penalty = -1, .frequency_penalty = -0.5}},
        FilterCase{"bias", {.logit_bias = {{5, 4.0F}, {1, -100.0F}, {0, 0.5F}}}},
        FilterCase{"penalties_bias_filters",
                   {.temperature = 1.3,
                    .top_p = 0.8,
                    .top_k = 15,
                    .repetition_penalty = 1.2,
                    .presence_penalty = 0.4,
                    .frequency_penalty = 0.3,
                    .logit_bias = {{0, 1.0F}, {7, -1.0F}}}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(FilterOrder, TopPIsMeasuredOnWhatTopKLeft) {
  // Probabilities 0.4, 0.3, 0.2, 0.1: of the best two the first holds 4/7 of the mass, enough for top_p = 0.5.
  const std::vector<float> logits = {std::log(0.4F), std::log(0.3F), std::log(0.2F), std::log(0.1F)};
  Sampler both = Make({.top_p = 0.5, .top_k = 2}, 4);
  EXPECT_EQ(Processed(both, logits).size(), 1U);
  Sampler nucleus = Make({.top_p = 0.5}, 4);
  EXPECT_EQ(Processed(nucleus, logits).size(), 2U);
}

TEST(FilterOrder, TiesAtTheThresholdKeepTheLowerIds) {
  const std::vector<float> logits = {0, 1, 1, 1, 0, 1};
  Sampler top_k = Make({.top_k = 2}, 6);
  const auto by_k = Processed(top_k, logits);
  EXPECT_TRUE(by_k.size() == 2 && by_k.contains(1) && by_k.contains(2));
  Sampler top_p = Make({.top_p = 0.3}, 6);  // each 1 holds 0.2114
  const auto by_p = Processed(top_p, logits);
  EXPECT_TRUE(by_p.size() == 2 && by_p.contains(1) && by_p.contains(2));
}

TEST(FilterEdges, TopPKeepsATokenThatHoldsTheMassExactly) {
  const std::vector<float> logits = {0, 0, 0, 0};
  Sampler half = Make({.top_p = 0.5}, 4);
  EXPECT_EQ(Processed(half, logits).size(), 2U);
  Sampler more = Make({.top_p = 0.5000001}, 4);
  EXPECT_EQ(Processed(more, logits).size(), 3U);
}

TEST(FilterEdges, ExtremeTemperatures) {
  const std::vector<float> logits = {30, 29.999F, -40, 30};
  for (const double t : {5e-324, 1e-300, 1e-9}) {
    Sampler cold = Make({.temperature = t}, 4);
    const auto p = Processed(cold, logits);
    EXPECT_NEAR(p.at(0), 0.5, 1e-12) << t;
    EXPECT_NEAR(p.at(3), 0.5, 1e-12) << t;
    Sampler with_top_p = Make({.temperature = t, .top_p = 0.9}, 4);
    EXPECT_EQ(Processed(with_top_p, logits).size(), 2U) << t;
  }
  Sampler hot = Make({.temperature = 100}, 4);
  for (const auto& [id, p] : Processed(hot, logits)) EXPECT_NEAR(p, 0.25, 0.12);
}

TEST(FilterEdges, PenaltyScopes) {
  // Presence and frequency look at the output only, repetition at the prompt as well (open-questions.md 18).
  const std::vector<float> logits = {1, 1, 1};
  const std::vector<int32_t> prompt = {0};
  Sampler presence = Make({.presence_penalty = 1}, 3, prompt);
  EXPECT_NEAR(Processed(presence, logits).at(0), 1.0 / 3, 1e-12);
  presence.Accept(1);
  EXPECT_LT(Processed(presence, logits).at(1), 1.0 / 3);
  Sampler repetition = Make({.repetition_penalty = 2}, 3, prompt);
  EXPECT_LT(Processed(repetition, logits).at(0), 1.0 / 3);
}

TEST(FilterEdges, GreedyAppliesPenaltiesAndBias) {
  const std::vector<float> logits = {1, 3, 2.5F, 2.5F};
  Sampler sampler = Make({.temperature = 0, .presence_penalty = 1}, 4);
  EXPECT_EQ(*sampler.Sample(logits, 0), 1);
  sampler.Accept(1);
  EXPECT_EQ(*sampler.Sample(logits, 1), 2) << "the lowest id on ties";
  Sampler biased = Make({.temperature = 0, .logit_bias = {{0, 50.0F}}}, 4);
  EXPECT_EQ(*biased.Sample(logits, 0), 0);
}

TEST(FilterEdges, SuppressedIdsAreNeverDrawnButArgMaxIsArgMax) {
  const std::vector<float> logits = {9, 1, 1};
  auto sampler = Sampler::Create({.params = {}, .suppressed = {0}}, 3, {});
  ASSERT_TRUE(sampler.ok());
  for (int64_t position = 0; position < 200; ++position) EXPECT_NE(*sampler->Sample(logits, position), 0);
  auto greedy = Sampler::Create({.params = {.temperature = 0}, .suppressed = {0}}, 3, {});
  ASSERT_TRUE(greedy.ok());
  EXPECT_EQ(*greedy->Sample(logits, 0), 0);
}

TEST(SamplerErrors, UnsoundLogits) {
  for (const double temperature : {0.0, 1.0}) {
    for (const bool penalties : {false, true}) {
      Sampler sampler = Make({.temperature = temperature, .presence_penalty = penalties ? 1.0 : 0.0}, 3);
      EXPECT_EQ(sampler.Sample(std::vector<float>{0, std::nanf(""), 1}, 0).status().code(),
                StatusCode::kDataLoss);
      EXPECT_EQ(sampler.Sample(std::vector<float>{0, kInf, 1}, 0).status().code(), StatusCode::kDataLoss);
      EXPECT_EQ(sampler.Sample(std::vector<float>{-kInf, -kInf, -kInf}, 0).status().code(),
                StatusCode::kDataLoss);
      EXPECT_EQ(sampler.Sample(std::vector<float>{0, 1}, 0).status().code(), StatusCode::kInternal);
      EXPECT_EQ(*sampler.Sample(std::vector<float>{-kInf, 1, -kInf}, 0), 1);
    }
  }
  auto all_suppressed = Sampler::Create({.params = {}, .suppressed = {0, 1}}, 2, {});
  EXPECT_FALSE(all_suppressed->Sample(std::vector<float>{0, 1}, 0).ok());
}

TEST(SamplerErrors, Arguments) {
  EXPECT_EQ(Sampler::Create({.params = {.top_p = 0}}, 3, {}).status().where(), "top_p");
  const std::vector<int32_t> prompt = {0, 3};
  EXPECT_EQ(Sampler::Create({}, 3, prompt).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Sampler::Create({.suppressed = {-1}}, 3, {}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace deepinfer::sampling
