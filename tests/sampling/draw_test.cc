// The random draw: its distribution, and what it may depend on.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "generated_logits.h"
#include "sampling/sampling.h"

namespace deepinfer::sampling {
namespace {

Sampler Make(const SamplingParams& params, int64_t vocab, uint64_t seed = 1, uint32_t stream = 0) {
  auto sampler = Sampler::Create({.params = params, .seed = seed, .stream = stream}, vocab, {});
  EXPECT_TRUE(sampler.ok()) << sampler.status().ToString();
  return std::move(sampler).value();
}

struct ChiSquare {
  double statistic;
  int degrees;
  double limit;
};

/// Chi-square statistic of `counts` against `probabilities`; cells below five expected draws are pooled into one.
ChiSquare Compare(std::span<const int64_t> counts, std::span<const double> probabilities, double draws) {
  double chi = 0, pooled_expected = 0, pooled_count = 0;
  int degrees = -1;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * draws;
    const double count = static_cast<double>(counts[i]);
    if (expected < 5) {
      pooled_expected += expected;
      pooled_count += count;
      continue;
    }
    chi += (count - expected) * (count - expected) / expected;
    ++degrees;
  }
  if (pooled_expected >= 5) {
    chi += (pooled_count - pooled_expected) * (pooled_count - pooled_expected) / pooled_expected;
    ++degrees;
  }
  // Wilson-Hilferty: a right sampler exceeds this about once in 10^6 tests.
  const double d = degrees, z = 4.75;
  const double root = 1 - 2 / (9 * d) + z * std::sqrt(2 / (9 * d));
  return {chi, degrees, d * root * root * root};
}

std::vector<double> Softmax(std::span<const float> logits, double temperature) {
  std::vector<double> p(logits.size());
  for (size_t i = 0; i < p.size(); ++i) p[i] = std::exp(static_cast<double>(logits[i]) / temperature);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

struct DrawCase {
  const char* name;
  double temperature;
  size_t vocab;
  double spread;
};

class DrawDistribution : public ::testing::TestWithParam<DrawCase> {};

TEST_P(DrawDistribution, IsTheSoftmax) {
  const DrawCase& c = GetParam();
  constexpr int64_t kDraws = 20000;
  for (uint32_t seed = 0; seed < 3; ++seed) {
    const auto logits = GenerateLogits(seed + 100, c.vocab, {.spread = c.spread});
    const auto want = Softmax(logits, c.temperature);
    // Along the positions of one stream, and across the streams at one position: both must be independent draws.
    for (const bool along_positions : {true, false}) {
      std::vector<int64_t> counts(c.vocab);
      Sampler fixed = Make({.temperature = c.temperature}, static_cast<int64_t>(c.vocab), seed);
      for (int64_t i = 0; i < kDraws; ++i) {
        if (along_positions) {
          ++counts[static_cast<size_t>(*fixed.Sample(logits, i))];
        } else {
          Sampler other = Make({.temperature = c.temperature}, static_cast<int64_t>(c.vocab), seed,
                               static_cast<uint32_t>(i));
          ++counts[static_cast<size_t>(*other.Sample(logits, 17))];
        }
      }
      const ChiSquare chi = Compare(counts, want, kDraws);
      ASSERT_GE(chi.degrees, 2);
      EXPECT_LT(chi.statistic, chi.limit) << c.name << " seed " << seed << " degrees " << chi.degrees;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DrawDistribution,
                         ::testing::Values(DrawCase{"few_flat", 1, 8, 0.3}, DrawCase{"peaked", 0.7, 40, 2},
                                           DrawCase{"wide", 1, 300, 1}, DrawCase{"hot", 5, 60, 3}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Draw, ChiSquareFindsAWrongDistribution) {
  // The test above must be able to fail: draws at temperature 1 are no draws at 1.05.
  const auto logits = GenerateLogits(100, 40, {.spread = 2});
  Sampler sampler = Make({.temperature = 1}, 40);
  std::vector<int64_t> counts(40);
  for (int64_t i = 0; i < 40000; ++i) ++counts[static_cast<size_t>(*sampler.Sample(logits, i))];
  const ChiSquare chi = Compare(counts, Softmax(logits, 1.05), 40000);
  EXPECT_GT(chi.statistic, chi.limit);
}

TEST(Draw, NeighbouringPositionsAreIndependent) {
  const std::vector<float> logits = {0, 0.7F, 0.2F};
  const auto p = Softmax(logits, 1);
  std::vector<double> want;
  for (const double a : p) {
    for (const double b : p) want.push_back(a * b);
  }
  std::vector<int64_t> counts(9);
  Sampler sampler = Make({}, 3, 5);
  constexpr int64_t kPairs = 40000;
  for (int64_t i = 0; i < kPairs; ++i) {
    const int32_t first = *sampler.Sample(logits, 2 * i), second = *sampler.Sample(logits, 2 * i + 1);
    ++counts[static_cast<size_t>(first * 3 + second)];
  }
  const ChiSquare chi = Compare(counts, want, kPairs);
  EXPECT_LT(chi.statistic, chi.limit);
}

TEST(Draw, EqualsTheFullGumbelArgMax) {
  // The shortcut for hopeless candidates must never change the answer.
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const size_t vocab = 50 + seed;
    const auto logits =
        GenerateLogits(seed, vocab, {.spread = 1.0 + seed % 40, .tie_step = seed % 2 ? 1.0 : 0});
    Sampler sampler = Make({}, static_cast<int64_t>(vocab), seed);
    const CounterRng rng(seed, 0, Purpose::kToken);
    const double max = *std::max_element(logits.begin(), logits.end());
    int32_t best = -1;
    double best_sum = -1e300;
    for (size_t i = 0; i < vocab; ++i) {
      const double sum =
          (static_cast<double>(logits[i]) - max) + rng.Gumbel(seed * 3, static_cast<uint32_t>(i));
      if (sum > best_sum) {
        best_sum = sum;
        best = static_cast<int32_t>(i);
      }
    }
    EXPECT_EQ(*sampler.Sample(logits, seed * 3), best) << seed;
  }
}

TEST(Draw, DependsOnNothingButItsCoordinates) {
  constexpr int64_t kCount = 300;
  const SamplingParams params{.temperature = 1.1, .top_p = 0.95, .top_k = 40, .min_p = 0.001};
  std::vector<std::vector<float>> rows;
  for (int64_t i = 0; i < kCount; ++i) rows.push_back(GenerateLogits(static_cast<uint32_t>(i), 200));
  std::vector<int32_t> in_order;
  Sampler first = Make(params, 200, 9, 2);
  for (int64_t i = 0; i < kCount; ++i) in_order.push_back(*first.Sample(rows[i], i));
  // Another object, positions in a shuffled order, other sequences drawn in between.
  Sampler second = Make(params, 200, 9, 2), other = Make(params, 200, 10, 2);
  std::vector<int64_t> order(kCount);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(3));
  for (const int64_t i : order) {
    ASSERT_TRUE(other.Sample(rows[kCount - 1 - i], i).ok());
    EXPECT_EQ(*second.Sample(rows[i], i), in_order[i]) << i;
  }
}

TEST(Draw, SeedAndStreamChangeTheTokens) {
  const auto logits = GenerateLogits(4, 200, {.spread = 0.5});
  const auto draw = [&](uint64_t seed, uint32_t stream) {
    Sampler sampler = Make({}, 200, seed, stream);
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < 32; ++i) ids.push_back(*sampler.Sample(logits, i));
    return ids;
  };
  const auto base = draw(1, 0);
  EXPECT_EQ(base, draw(1, 0));
  EXPECT_NE(base, draw(2, 0));
  EXPECT_NE(base, draw(1, 1));
  EXPECT_NE(base, draw(1 + (uint64_t{1} << 32), 0));
}

TEST(Draw, FiltersDoNotChangeTheNoise) {
  // A token that survives the filters and wins without them wins with them: what coupling with a draft relies on.
  int wins = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const auto logits = GenerateLogits(seed, 100);
    Sampler plain = Make({}, 100, seed), filtered = Make({.top_k = 5}, 100, seed);
    const int32_t a = *plain.Sample(logits, 3), b = *filtered.Sample(logits, 3);
    const auto kept = *filtered.Process(logits);
    if (std::any_of(kept.begin(), kept.end(), [&](const Candidate& c) { return c.id == a; })) {
      EXPECT_EQ(a, b);
      ++wins;
    }
  }
  EXPECT_GT(wins, 100);
}

}  // namespace
}  // namespace deepinfer::sampling
