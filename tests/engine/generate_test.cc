// What an answer is: text, stops, log-probabilities, seeds.
#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "demo_engine.h"
#include "tokenizer/detokenizer.h"

namespace deepinfer {
namespace {

using namespace deepinfer::testing;  // NOLINT: helpers of this folder

constexpr int32_t kEos = 1;

GenerationRequest Sampled(const std::string& transcript, uint64_t seed, int64_t max_tokens = 24) {
  GenerationRequest request = Greedy(transcript, max_tokens);
  request.sampling.temperature = 1.5;
  request.seed = seed;
  request.logprobs = 2;
  return request;
}

TEST(Generate, GreedyAnswer) {
  const Transcript& want = FindTranscript("arith-000");
  std::vector<int32_t> streamed_ids;
  std::string streamed_text;
  const GenerationResult result = MustGenerate(Demo(), Greedy("arith-000"), [&](const OutputToken& token) {
    streamed_ids.push_back(token.id);
    streamed_text += token.text;
    return true;
  });
  EXPECT_EQ(result.output_ids, want.output_ids);
  EXPECT_EQ(result.output_ids.back(), kEos) << "the stop id is part of the ids";
  EXPECT_EQ(result.text, "17 + 10 = 27") << "but not of the text";
  EXPECT_EQ(result.finish_reason, FinishReason::kStop);
  EXPECT_EQ(streamed_ids, result.output_ids);
  EXPECT_EQ(streamed_text, result.text);
  EXPECT_TRUE(result.logprobs.empty());
  EXPECT_EQ(result.cached_tokens, 0);
  EXPECT_GT(result.prefill_ms, 0);
  EXPECT_GT(result.decode_ms, 0);
}

TEST(Generate, ResultDependsOnNeitherChunksNorThreads) {
  GenerationRequest request = Sampled("hidden_short-000", 5, 8);
  const GenerationResult want = MustGenerate(Demo(), request);
  ExpectSameAnswer(MustGenerate(LoadDemo("", 1, 7), request), want);
  ExpectSameAnswer(MustGenerate(LoadDemo("", 2, 64), request), want);
}

TEST(Generate, PrefillModes) {
  GenerationRequest request = Greedy("hidden_600-016");  // longer than the halo of 380 rows
  request.logprobs = 3;
  request.prefill = model::PrefillMode::kFull;
  const GenerationResult full = MustGenerate(Demo(), request);
  EXPECT_EQ(full.prefill, model::PrefillMode::kFull);
  request.prefill = std::nullopt;
  const GenerationResult halo = MustGenerate(Demo(), request);
  EXPECT_EQ(halo.prefill, model::PrefillMode::kExactHalo);
  ExpectSameAnswer(halo, full);
  request.prefill = model::PrefillMode::kBoundedReplay;
  const GenerationResult bounded = MustGenerate(Demo(), request);
  EXPECT_EQ(bounded.prefill, model::PrefillMode::kBoundedReplay);
  EXPECT_EQ(bounded.output_ids, full.output_ids);
  EXPECT_NE(bounded.logprobs[0].top, full.logprobs[0].top)
      << "an approximation that gives the same bits was not applied";
  request.keep_tokens = 64;
  EXPECT_NE(MustGenerate(Demo(), request).logprobs[0].top, bounded.logprobs[0].top)
      << "keep_tokens had no effect";
}

// Any part of the answer as stop string: the text ends before it, and generation with the token that completes it.
TEST(Generate, StopStringsAcrossTokenBorders) {
  const GenerationResult whole = MustGenerate(Demo(), Greedy("letters-023"));
  ASSERT_EQ(whole.finish_reason, FinishReason::kStop);
  const auto offsets = Demo().tokenizer().TokenOffsets(whole.output_ids);
  std::set<size_t> borders;
  for (const auto& [begin, end] : offsets) borders.insert(end);
  int across = 0;
  for (size_t begin = 0; begin < 30; begin += 4) {
    const std::string stop = whole.text.substr(begin, 5);
    const size_t at = whole.text.find(stop), end = at + stop.size();
    const auto completing =
        std::find_if(offsets.begin(), offsets.end(), [&](const auto& o) { return o.second >= end; });
    across += std::any_of(borders.begin(), borders.end(), [&](size_t b) { return b > at && b < end; });
    GenerationRequest request = Greedy("letters-023");
    request.stop = {stop};
    std::string streamed;
    const GenerationResult result = MustGenerate(Demo(), request, [&](const OutputToken& token) {
      streamed += token.text;
      return true;
    });
    EXPECT_EQ(result.text, whole.text.substr(0, at)) << stop;
    EXPECT_EQ(streamed, result.text) << stop;
    EXPECT_EQ(result.finish_reason, FinishReason::kStop);
    const auto count = static_cast<size_t>(completing - offsets.begin()) + 1;
    EXPECT_EQ(result.output_ids,
              std::vector<int32_t>(whole.output_ids.begin(),
                                   whole.output_ids.begin() + static_cast<ptrdiff_t>(count)));
  }
  EXPECT_GT(across, 4);
}

TEST(Generate, HeldBackTextComesOutAtTheEnd) {
  GenerationRequest request = Greedy("arith-000");
  request.stop = {"27!"};
  const GenerationResult result = MustGenerate(Demo(), request);
  EXPECT_EQ(result.text, "17 + 10 = 27");
  request.max_tokens = 10;  // ends by length with "27" held back
  EXPECT_EQ(MustGenerate(Demo(), request).text, "17 + 10 = 27");
}

TEST(Generate, StopIds) {
  const Transcript& want = FindTranscript("arith-000");
  GenerationRequest request = Greedy("arith-000");
  request.stop_ids = {want.output_ids[2]};
  const GenerationResult result = MustGenerate(Demo(), request);
  EXPECT_EQ(result.output_ids, std::vector<int32_t>(want.output_ids.begin(), want.output_ids.begin() + 3));
  EXPECT_EQ(result.text, "17");
  EXPECT_EQ(result.finish_reason, FinishReason::kStop);
}

TEST(Generate, IgnoreEos) {
  GenerationRequest request = Greedy("arith-000", 20);
  request.ignore_eos = true;
  const GenerationResult result = MustGenerate(Demo(), request);
  ASSERT_EQ(result.output_ids.size(), 20U);
  EXPECT_EQ(result.output_ids[10], kEos);
  EXPECT_EQ(result.finish_reason, FinishReason::kLength);
  EXPECT_EQ(result.text, DecodeText(Demo().tokenizer(), result.output_ids));
  request.stop_ids = {kEos};
  EXPECT_EQ(MustGenerate(Demo(), request).output_ids.size(), 11U) << "a stop id counts all the same";
}

TEST(Generate, HalfCharactersAreHeldBack) {
  // A sequence of byte tokens by force of bias: the bytes of U+00FC one by one, then the end.
  const auto ids = Demo().tokenizer().Encode("\xF0\x9F\xA6\x80");
  ASSERT_TRUE(ids.ok());
  ASSERT_GT(ids->size(), 1U) << "the character must need several tokens";
  GenerationRequest request = Greedy("arith-000", 1);
  request.sampling.logit_bias = {{ids->front(), 100.0F}};
  std::vector<std::string> pieces;
  const GenerationResult result = MustGenerate(Demo(), request, [&](const OutputToken& token) {
    pieces.emplace_back(token.text);
    return true;
  });
  EXPECT_EQ(result.text, "\uFFFD") << "an unfinished character at the end";
  EXPECT_THAT(pieces, ::testing::ElementsAre("\uFFFD"));
  request.max_tokens = 2;
  pieces.clear();
  (void)MustGenerate(Demo(), request, [&](const OutputToken& token) {
    pieces.emplace_back(token.text);
    return true;
  });
  EXPECT_EQ(pieces.front(), "") << "half a character went out";
}

TEST(Generate, LogprobsAreThoseOfTheRawLogits) {
  GenerationRequest plain = Greedy("arith-000", 1), changed = plain;
  plain.logprobs = changed.logprobs = 3;
  const GenerationResult want = MustGenerate(Demo(), plain);
  changed.sampling.temperature = 0.2;
  changed.sampling.top_k = 1;
  changed.sampling.repetition_penalty = 1.3;
  changed.sampling.logit_bias = {{kEos, -5.0F}};
  const GenerationResult got = MustGenerate(Demo(), changed);
  ASSERT_EQ(got.logprobs.size(), 1U);
  EXPECT_EQ(got.logprobs[0].top, want.logprobs[0].top);
  EXPECT_EQ(want.logprobs[0].top.size(), 3U);
  EXPECT_EQ(want.logprobs[0].top[0], std::make_pair(want.output_ids[0], want.logprobs[0].logprob));
  plain.logprobs = 0;
  const GenerationResult none = MustGenerate(Demo(), plain);
  ASSERT_EQ(none.logprobs.size(), 1U);
  EXPECT_EQ(none.logprobs[0].logprob, want.logprobs[0].logprob);
  EXPECT_TRUE(none.logprobs[0].top.empty());
}

TEST(Generate, SameSeedSameAnswerOtherStreamOtherAnswer) {
  const GenerationResult first = MustGenerate(Demo(), Sampled("story-008", 11));
  ExpectSameAnswer(MustGenerate(Demo(), Sampled("story-008", 11)), first);
  std::set<std::vector<int32_t>> answers;
  for (uint32_t stream = 0; stream < 4; ++stream) {
    GenerationRequest request = Sampled("story-008", 11);
    request.stream = stream;
    answers.insert(MustGenerate(Demo(), request).output_ids);
  }
  EXPECT_EQ(answers.size(), 4U);
  EXPECT_NE(MustGenerate(Demo(), Sampled("story-008", 12)).output_ids, first.output_ids);
}

TEST(Generate, InvalidOutputIsNeverDrawn) {
  GenerationRequest request = Sampled("story-008", 3, 40);
  request.sampling.temperature = 100;  // nearly uniform over the vocabulary
  request.ignore_eos = true;
  const auto invalid = Demo().tokenizer().never_valid_output();
  ASSERT_FALSE(invalid.empty());
  // Pushed as far as a bias can, every draw would be one of them.
  for (const int32_t id : invalid.first(std::min<size_t>(invalid.size(), 16))) {
    request.sampling.logit_bias.emplace_back(id, 100.0F);
  }
  const GenerationResult result = MustGenerate(Demo(), request);
  for (const int32_t id : result.output_ids) {
    EXPECT_EQ(std::count(invalid.begin(), invalid.end(), id), 0) << id;
  }
}

TEST(Generate, PenaltiesMakeRepetitionsRarer) {
  const auto distinct = [](const GenerationRequest& request) {
    const GenerationResult result = MustGenerate(Demo(), request);
    EXPECT_EQ(result.output_ids.size(), 160U);
    return std::set<int32_t>(result.output_ids.begin(), result.output_ids.end()).size();
  };
  GenerationRequest request = Greedy("story-024", 160);
  request.ignore_eos = true;
  const size_t plain = distinct(request);
  for (const char* field : {"presence_penalty", "frequency_penalty", "repetition_penalty"}) {
    GenerationRequest penalised = request;
    ASSERT_TRUE(sampling::SetField(field, 2, &penalised.sampling).ok());
    EXPECT_GT(distinct(penalised), plain) << field;
  }
}

}  // namespace
}  // namespace deepinfer
