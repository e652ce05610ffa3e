#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "generated_logits.h"
#include "sampling/sampling.h"

namespace deepinfer::sampling {
namespace {

/// By long double and a full sort.
LogProbs Naive(std::span<const float> logits, int32_t id, size_t count) {
  long double sum = 0;
  const float max = *std::max_element(logits.begin(), logits.end());
  for (const float logit : logits) {
    sum += std::exp(static_cast<long double>(logit) - static_cast<long double>(max));
  }
  const auto log_prob = [&](float logit) {
    return static_cast<float>(static_cast<long double>(logit) - max - std::log(sum));
  };
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  LogProbs out;
  out.logprob = log_prob(logits[id]);
  for (size_t i = 0; i < std::min(count, order.size()); ++i) {
    out.top.emplace_back(order[i], log_prob(logits[order[i]]));
  }
  return out;
}

TEST(LogProbs, AgreesWithTheNaiveForm) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const auto logits = GenerateLogits(
        seed, 500 + seed, {.spread = 1.0 + seed, .tie_step = seed % 2 ? 0.5 : 0, .impossible_share = 0.1});
    for (const size_t count : {0, 1, 5, 499, 10000}) {
      const int32_t id = static_cast<int32_t>(seed * 7 % logits.size());
      const auto got = ComputeLogProbs(logits, id, static_cast<int64_t>(count));
      ASSERT_TRUE(got.ok());
      const LogProbs want = Naive(logits, id, count);
      EXPECT_FLOAT_EQ(got->logprob, want.logprob);
      ASSERT_EQ(got->top.size(), want.top.size());
      for (size_t i = 0; i < want.top.size(); ++i) {
        EXPECT_EQ(got->top[i].first, want.top[i].first) << i;
        EXPECT_FLOAT_EQ(got->top[i].second, want.top[i].second) << i;
      }
    }
  }
}

TEST(LogProbs, TiesGoToTheLowerId) {
  const std::vector<float> logits = {1, 3, 3, 2, 3, 1};
  const auto got = ComputeLogProbs(logits, 3, 4);
  ASSERT_TRUE(got.ok());
  std::vector<int32_t> ids;
  for (const auto& [id, lp] : got->top) ids.push_back(id);
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 2, 4, 3}));
  EXPECT_EQ(got->top[3].second, got->logprob);
}

TEST(LogProbs, SumsToOne) {
  const auto logits = GenerateLogits(1, 4096);
  const auto got = ComputeLogProbs(logits, -1, 4096);
  ASSERT_TRUE(got.ok());
  double sum = 0;
  for (const auto& [id, lp] : got->top) sum += std::exp(static_cast<double>(lp));
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_EQ(got->logprob, 0) << "no id was asked for";
}

TEST(LogProbs, ImpossibleTokens) {
  const std::vector<float> logits = {-kInf, 0, -kInf};
  const auto got = ComputeLogProbs(logits, 0, 3);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->logprob, -kInf);
  EXPECT_EQ(got->top[0], (std::pair<int32_t, float>(1, 0.0F)));
  EXPECT_EQ(got->top[1].first, 0);
}

TEST(LogProbs, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {3e38F, 3e38F, -3e38F};
  const auto got = ComputeLogProbs(logits, 0, 0);
  ASSERT_TRUE(got.ok());
  EXPECT_FLOAT_EQ(got->logprob, -0.69314718F);
}

TEST(LogProbs, NumbersThatAreNoneAreErrors) {
  for (const float bad : {std::nanf(""), kInf}) {
    EXPECT_EQ(ComputeLogProbs(std::vector<float>{0, bad, 1}, 0, 1).status().code(), StatusCode::kDataLoss);
  }
  EXPECT_FALSE(ComputeLogProbs(std::vector<float>{-kInf, -kInf}, 0, 1).ok());
}

TEST(ArgMax, LowestIdOnTies) {
  EXPECT_EQ(ArgMax(std::vector<float>{1, 2, 2, -kInf}), 1);
  EXPECT_EQ(ArgMax(std::vector<float>{-kInf, -5}), 1);
  EXPECT_EQ(ArgMax(std::vector<float>{-kInf, -kInf}), -1);
  EXPECT_EQ(ArgMax(std::vector<float>{1, std::nanf("")}), -1);
  EXPECT_EQ(ArgMax(std::vector<float>{-0.0F, 0.0F}), 0);
}

}  // namespace
}  // namespace deepinfer::sampling
