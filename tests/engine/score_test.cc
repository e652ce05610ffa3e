#include <cmath>

#include <gtest/gtest.h>

#include "demo_engine.h"

namespace deepinfer {
namespace {

using namespace deepinfer::testing;  // NOLINT: helpers of this folder

ScoreResult MustScore(Engine& engine, std::span<const int32_t> ids, int top) {
  auto result = engine.Score(ids, top);
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return std::move(result).value();
}

std::vector<int32_t> Joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Every token that generation gave a log-probability has the same one, bit for bit, when its text is scored.
void ExpectConsistent(Engine& engine, GenerationRequest request) {
  request.logprobs = 3;
  const GenerationResult answer = MustGenerate(engine, request);
  const size_t prompt = request.prompt_ids.size();
  const ScoreResult score = MustScore(engine, Joined(request.prompt_ids, answer.output_ids), 3);
  ASSERT_FALSE(answer.logprobs.empty());
  for (size_t i = 0; i < answer.logprobs.size(); ++i) {
    EXPECT_EQ(score.logprobs[prompt + i], answer.logprobs[i].logprob) << i;
    EXPECT_EQ(score.top[prompt + i - 1], answer.logprobs[i].top) << i;
  }
}

TEST(Score, EqualsGenerationBitForBit) {
  ExpectConsistent(Demo(), Greedy("fact-000"));
  ExpectConsistent(Demo(), Greedy("hidden_600-000"));  // the prompt was read in mode exact_halo
  GenerationRequest sampled = Greedy("story-024", 20);
  sampled.sampling.temperature = 1.2;
  sampled.seed = 4;
  ExpectConsistent(LoadDemo("", 1, 7), sampled);
}

TEST(Score, ReferenceKernels) { ExpectConsistent(LoadDemo("reference", 2, 512), Greedy("letters-039")); }

TEST(Score, DoesNotDependOnChunks) {
  const Transcript& t = FindTranscript("hidden_short-032");
  const auto ids = Joined(t.prompt_ids, t.output_ids);
  const ScoreResult want = MustScore(Demo(), ids, 2);
  const ScoreResult got = MustScore(LoadDemo("", 1, 7), ids, 2);
  for (size_t i = 1; i < ids.size(); ++i) EXPECT_EQ(got.logprobs[i], want.logprobs[i]) << i;
  EXPECT_EQ(got.top, want.top);
  EXPECT_EQ(got.nll, want.nll);
}

TEST(Score, ShapeAndSum) {
  const Transcript& t = FindTranscript("arith-000");
  const ScoreResult score = MustScore(Demo(), t.prompt_ids, 4);
  ASSERT_EQ(score.logprobs.size(), t.prompt_ids.size());
  ASSERT_EQ(score.top.size(), t.prompt_ids.size());
  EXPECT_TRUE(std::isnan(score.logprobs[0]));
  double nll = 0;
  for (size_t i = 1; i < score.logprobs.size(); ++i) {
    EXPECT_LE(score.logprobs[i], 0);
    nll -= static_cast<double>(score.logprobs[i]);
    for (const auto& [id, logprob] : score.top[i - 1]) {
      if (id == t.prompt_ids[i]) {
        EXPECT_EQ(logprob, score.logprobs[i]);
      }
    }
  }
  EXPECT_DOUBLE_EQ(score.nll, nll);
  EXPECT_EQ(score.top.back().size(), 4U);
  EXPECT_EQ(score.top.back()[0].first, t.output_ids[0])
      << "the last row predicts the first token of the answer";
  EXPECT_TRUE(MustScore(Demo(), t.prompt_ids, 0).top.empty());
}

TEST(Score, OneToken) {
  const ScoreResult score = MustScore(Demo(), std::vector<int32_t>{0}, 1);
  EXPECT_EQ(score.nll, 0);
  EXPECT_EQ(score.logprobs.size(), 1U);
  EXPECT_EQ(score.top[0].size(), 1U);
}

}  // namespace
}  // namespace deepinfer
