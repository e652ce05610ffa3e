// Lengths, cancellation and refused requests.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_copy.h"

namespace deepinfer {
namespace {

using namespace deepinfer::testing;  // NOLINT: helpers of this folder

TEST(MaxTokens, Edges) {
  const Transcript& want = FindTranscript("arith-000");
  const int64_t length = static_cast<int64_t>(want.output_ids.size());
  const GenerationResult none = MustGenerate(Demo(), Greedy("arith-000", 0));
  EXPECT_TRUE(none.output_ids.empty());
  EXPECT_EQ(none.text, "");
  EXPECT_EQ(none.finish_reason, FinishReason::kLength);
  for (int64_t limit = 1; limit <= length + 1; ++limit) {
    const GenerationResult result = MustGenerate(Demo(), Greedy("arith-000", limit));
    EXPECT_EQ(static_cast<int64_t>(result.output_ids.size()), std::min(limit, length));
    EXPECT_EQ(result.finish_reason, limit < length ? FinishReason::kLength : FinishReason::kStop) << limit;
  }
}

TEST(ContextLimit, EndsTheAnswer) {
  const ModelCopy copy;
  copy.Replace("config.json", "\"max_position_embeddings\": 8192", "\"max_position_embeddings\": 24");
  const auto engine = copy.Load();
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  GenerationRequest request = Greedy("arith-000");  // 19 tokens of prompt, 11 of answer
  const GenerationResult whole = MustGenerate(Demo(), request);
  const GenerationResult result = MustGenerate(**engine, request);
  EXPECT_EQ(result.output_ids, std::vector<int32_t>(whole.output_ids.begin(), whole.output_ids.begin() + 5));
  EXPECT_EQ(result.finish_reason, FinishReason::kContext);
  EXPECT_EQ(FinishReasonName(result.finish_reason), "context_length");
  request.max_tokens = 5;
  EXPECT_EQ(MustGenerate(**engine, request).finish_reason, FinishReason::kLength);

  request.prompt_ids.resize(24, request.prompt_ids.back());
  const GenerationResult full = MustGenerate(**engine, request);
  EXPECT_TRUE(full.output_ids.empty());
  EXPECT_EQ(full.finish_reason, FinishReason::kContext);
  EXPECT_TRUE((*engine)->Score(request.prompt_ids, 0).ok());
  request.prompt_ids.push_back(request.prompt_ids.back());
  EXPECT_EQ((*engine)->Generate(request).status().where(), "prompt_ids");
  EXPECT_EQ((*engine)->Score(request.prompt_ids, 0).status().where(), "ids");
}

TEST(Cancel, BySink) {
  const Transcript& want = FindTranscript("arith-000");
  int calls = 0;
  const GenerationResult result =
      MustGenerate(Demo(), Greedy("arith-000"), [&](const OutputToken&) { return ++calls < 3; });
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(result.finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(result.output_ids, std::vector<int32_t>(want.output_ids.begin(), want.output_ids.begin() + 3));
  EXPECT_EQ(result.text, "17 +");
}

TEST(Cancel, ByFlag) {
  std::atomic<bool> stop = false;
  int calls = 0;
  const GenerationResult result = MustGenerate(
      Demo(), Greedy("arith-000"),
      [&](const OutputToken&) {
        stop = ++calls == 4;
        return true;
      },
      nullptr, &stop);
  EXPECT_EQ(result.finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(result.output_ids.size(), 4U);
  stop = true;
  const GenerationResult nothing = MustGenerate(Demo(), Greedy("arith-000"), nullptr, nullptr, &stop);
  EXPECT_EQ(nothing.finish_reason, FinishReason::kCancelled);
  EXPECT_TRUE(nothing.output_ids.empty());
  EXPECT_EQ(Demo().Score(FindTranscript("arith-000").prompt_ids, 0, &stop).status().code(),
            StatusCode::kCancelled);
}

TEST(Cancel, HeldBackTextIsInTheResult) {
  GenerationRequest request = Greedy("arith-000");
  request.stop = {"17 + 10 = 28"};
  std::string streamed;
  int calls = 0;
  const GenerationResult result = MustGenerate(Demo(), request, [&](const OutputToken& token) {
    streamed += token.text;
    return ++calls < 3;
  });
  EXPECT_EQ(streamed, "");
  EXPECT_EQ(result.text, "17 +");
}

TEST(Cancel, OnTheLastTokenIsNoCancellation) {
  const GenerationResult result =
      MustGenerate(Demo(), Greedy("arith-000", 1), [](const OutputToken&) { return false; });
  EXPECT_EQ(result.finish_reason, FinishReason::kLength);
}

TEST(Refused, RequestsNameTheField) {
  const auto where = [](auto change) {
    GenerationRequest request = Greedy("arith-000");
    change(request);
    const auto result = Demo().Generate(request);
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    return result.status().where();
  };
  EXPECT_EQ(where([](GenerationRequest& r) { r.prompt_ids.clear(); }), "prompt_ids");
  EXPECT_EQ(where([](GenerationRequest& r) { r.prompt_ids[2] = 4096; }), "prompt_ids");
  EXPECT_EQ(where([](GenerationRequest& r) { r.prompt_ids[2] = -1; }), "prompt_ids");
  EXPECT_EQ(where([](GenerationRequest& r) { r.prompt_ids.resize(8193, 5); }), "prompt_ids");
  EXPECT_EQ(where([](GenerationRequest& r) { r.sampling.top_p = 0; }), "top_p");
  EXPECT_EQ(where([](GenerationRequest& r) { r.sampling.logit_bias = {{4096, 1.0F}}; }), "logit_bias");
  EXPECT_EQ(where([](GenerationRequest& r) { r.max_tokens = -1; }), "max_tokens");
  EXPECT_EQ(where([](GenerationRequest& r) { r.logprobs = -2; }), "logprobs");
  EXPECT_EQ(where([](GenerationRequest& r) { r.logprobs = 4097; }), "logprobs");
  EXPECT_EQ(where([](GenerationRequest& r) { r.stop = {"a", ""}; }), "stop");
  EXPECT_EQ(where([](GenerationRequest& r) { r.stop = {"\xff"}; }), "stop");
  EXPECT_EQ(where([](GenerationRequest& r) { r.stop.assign(17, "a"); }), "stop");
  EXPECT_EQ(where([](GenerationRequest& r) { r.stop_ids = {-1}; }), "stop_ids");
  EXPECT_EQ(where([](GenerationRequest& r) { r.keep_tokens = 63; }), "keep_tokens");
}

TEST(Refused, ScoresNameTheField) {
  EXPECT_EQ(Demo().Score({}, 0).status().where(), "ids");
  EXPECT_EQ(Demo().Score(std::vector<int32_t>{1, 4096}, 0).status().where(), "ids");
  EXPECT_EQ(Demo().Score(std::vector<int32_t>{1, 2}, -1).status().where(), "top");
  EXPECT_EQ(Demo().Score(std::vector<int32_t>{1, 2}, 4097).status().where(), "top");
}

}  // namespace
}  // namespace deepinfer
