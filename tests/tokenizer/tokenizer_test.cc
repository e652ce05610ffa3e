// Encoding and decoding with real vocabularies: golden ids, added tokens, runs (spec: checkpoint.md §8).
#include "tokenizer/tokenizer.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tokenizer/test_tokenizers.h"

namespace deepinfer {
namespace {

using deepinfer::testing::DemoTokenizer;
using deepinfer::testing::FieldOf;
using deepinfer::testing::FromDocument;
using deepinfer::testing::SmallDocument;
using deepinfer::testing::V3Tokenizer;
using deepinfer::testing::V41Tokenizer;
using ::testing::ElementsAre;
using Ids = std::vector<int32_t>;

constexpr std::string_view kNul("x\0y", 3);

Ids EncodeOrFail(const Tokenizer& tokenizer, std::string_view text, bool added_tokens) {
  EncodeOptions options;
  options.added_tokens = added_tokens;
  const auto ids = tokenizer.Encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status().ToString();
  return ids.ok() ? *ids : Ids();
}

struct Golden {
  std::string_view text;
  Ids ids;
};

// The table of §8.2.
const std::vector<Golden>& Goldens() {
  static const std::vector<Golden> goldens = {
      {"Hello, world!", {19923, 14, 2058, 3}},
      {"The capital of France is", {671, 6102, 294, 8760, 344}},
      {"1234567", {6895, 18009, 25}},
      {"a1b22c333d4444", {67, 19, 68, 1302, 69, 11722, 70, 18966, 22}},
      {"你好，世界", {30594, 303, 3427}},
      {"日本語のテキスト", {88768, 1576, 17383, 20367, 24552}},
      {"한국어 텍스트", {5634, 17564, 9227, 61291, 238, 45652}},
      {"I don't", {43, 2090, 1664}},
      {"  5 a", {262, 23, 260}},
      {"abc   ", {32372, 361}},
      {"\r\n\r\n", {204, 201, 204, 201}},
      {"!!!\n\nx", {47868, 90}},
      {".foo bar-baz", {4658, 6379, 4758, 1761, 1521}},
      {"a\u200db", {67, 46088, 68}},
      {"x\u00a0y", {90, 2162, 91}},
      {"e\u0301", {71, 17793}},
      {"👍🏽", {92526, 40965, 124}},
      {"½ Ⅻ ²", {23951, 223, 23603, 107, 223, 1628}},
      {"\ufeffbom", {15251, 68, 316}},
      {kNul, {90, 191, 91}},
      {" calls>", {10699, 32}},
      {" invoke name=\"get_weather\">", {34756, 2329, 1281, 1133, 65, 50219, 3320}},
      {"You are a helpful assistant.", {3476, 477, 260, 11502, 22896, 16}},
      {"What is 2+2?", {3085, 344, 223, 20, 13, 20, 33}},
      {"\n\n<", {271, 30}},
      {"</", {1718}},
  };
  return goldens;
}

TEST(TokenizerTest, GivesTheGoldenIds) {
  for (const auto& tokenizer : {V3Tokenizer(), V41Tokenizer()}) {
    for (const Golden& golden : Goldens()) {
      for (const bool added_tokens : {false, true}) {
        EXPECT_EQ(EncodeOrFail(*tokenizer, golden.text, added_tokens), golden.ids) << golden.text;
      }
      EXPECT_EQ(tokenizer->Decode(golden.ids), golden.text);
    }
    EXPECT_THAT(EncodeOrFail(*tokenizer, "x<｜User｜>y<｜Assistant｜>", true),
                ElementsAre(90, 128803, 91, 128804));
  }
  EXPECT_THAT(EncodeOrFail(*V3Tokenizer(), "", true), ElementsAre());
}

TEST(TokenizerTest, SingleBytesFollowTheSymbolOrder) {
  for (const auto& tokenizer : {V3Tokenizer(), DemoTokenizer()}) {
    for (int byte = 0; byte < 256; ++byte) {
      const int id = byte <= 32    ? byte + 191
                     : byte <= 126 ? byte - 30
                     : byte <= 160 ? byte + 97
                     : byte <= 172 ? byte - 64
                     : byte == 173 ? 258
                                   : byte - 65;
      const char c = static_cast<char>(byte);
      EXPECT_EQ(tokenizer->TokenBytes(id), std::string_view(&c, 1)) << byte;
      EXPECT_EQ(tokenizer->TokenToId(tokenizer->TokenString(id)), id);
    }
  }
}

TEST(TokenizerTest, EveryTokenHasOneStringAndBytes) {
  for (const auto& tokenizer : {V41Tokenizer(), DemoTokenizer()}) {
    for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
      ASSERT_EQ(tokenizer->TokenToId(tokenizer->TokenString(id)), id);
      ASSERT_FALSE(tokenizer->TokenBytes(id).empty());
    }
    for (const int32_t id : {-1, tokenizer->vocab_size(), INT32_MAX, INT32_MIN}) {
      EXPECT_EQ(tokenizer->TokenBytes(id), "");
      EXPECT_EQ(tokenizer->TokenString(id), "");
      EXPECT_FALSE(tokenizer->IsAdded(id));
    }
  }
  EXPECT_EQ(V3Tokenizer()->TokenString(270), "Ġthe");
  EXPECT_EQ(V3Tokenizer()->TokenToId("Ġthe"), 270);
  EXPECT_EQ(V3Tokenizer()->TokenToId(" the"), std::nullopt);
  EXPECT_EQ(V3Tokenizer()->TokenToId("<｜User｜>"), 128803);
  EXPECT_EQ(V3Tokenizer()->TokenToId(""), std::nullopt);
}

TEST(TokenizerTest, KnowsTheReleasedControlTokens) {
  const auto tokenizer = V41Tokenizer();
  EXPECT_EQ(tokenizer->vocab_size(), 129280);
  const std::pair<TokenRole, int32_t> expected[] = {{TokenRole::kBos, 0},
                                                    {TokenRole::kEos, 1},
                                                    {TokenRole::kPad, 2},
                                                    {TokenRole::kSystem, 128799},
                                                    {TokenRole::kFimHole, 128800},
                                                    {TokenRole::kFimBegin, 128801},
                                                    {TokenRole::kFimEnd, 128802},
                                                    {TokenRole::kUser, 128803},
                                                    {TokenRole::kAssistant, 128804},
                                                    {TokenRole::kEot, 128805},
                                                    {TokenRole::kThinkBegin, 128821},
                                                    {TokenRole::kThinkEnd, 128822},
                                                    {TokenRole::kDsml, 128825},
                                                    {TokenRole::kLatestReminder, 128828},
                                                    {TokenRole::kAction, 128829},
                                                    {TokenRole::kQuery, 128830},
                                                    {TokenRole::kAuthority, 128831},
                                                    {TokenRole::kDomain, 128832},
                                                    {TokenRole::kTitle, 128836},
                                                    {TokenRole::kExtractedUrl, 128844},
                                                    {TokenRole::kReadUrl, 128845},
                                                    {TokenRole::kImage, 129264}};
  EXPECT_EQ(std::size(expected), kNumTokenRoles);
  for (const auto& [role, id] : expected) {
    EXPECT_EQ(tokenizer->RoleId(role), id);
    EXPECT_EQ(tokenizer->TokenBytes(id), TokenRoleText(role));
    EXPECT_TRUE(tokenizer->IsAdded(id));
  }
  EXPECT_TRUE(tokenizer->IsSpecial(0));
  EXPECT_FALSE(tokenizer->IsSpecial(128803));
  EXPECT_FALSE(tokenizer->IsAdded(3));
  EXPECT_EQ(V3Tokenizer()->RoleId(TokenRole::kImage), std::nullopt);
  EXPECT_EQ(DemoTokenizer()->RoleId(TokenRole::kImage), 4095);

  Ids never = {2};
  for (int32_t id = 128000; id <= 128799; ++id) never.push_back(id);
  for (int32_t id = 128847; id <= 129270; ++id) never.push_back(id);
  never.push_back(129279);
  EXPECT_THAT(tokenizer->never_valid_output(), ::testing::ElementsAreArray(never));
}

TEST(TokenizerTest, AddedTokensAreTextUnlessAskedFor) {
  const auto tokenizer = V41Tokenizer();
  for (const std::string_view text :
       {"<｜User｜>", "<think>", "｜DSML｜", "</think>", "<｜deepseek_image｜>"}) {
    EXPECT_EQ(EncodeOrFail(*tokenizer, text, true).size(), 1u);
    for (const int32_t id : EncodeOrFail(*tokenizer, text, false))
      EXPECT_FALSE(tokenizer->IsAdded(id)) << text;
  }
}

TEST(TokenizerTest, RunsProtectClientText) {
  const auto tokenizer = V41Tokenizer();
  const auto encode = [&](std::vector<TextRun> runs) {
    const auto ids = tokenizer->EncodeRuns(runs);
    EXPECT_TRUE(ids.ok());
    return ids.ok() ? *ids : Ids();
  };
  EXPECT_EQ(encode({}), Ids());
  EXPECT_EQ(encode({{"<｜User｜>", true}, {"Hello, world!", false}, {"<｜Assistant｜>", true}}),
            (Ids{128803, 19923, 14, 2058, 3, 128804}));
  // The client's control token stays text.
  EXPECT_EQ(encode({{"x", true}, {"<｜User｜>", false}}), EncodeOrFail(*tokenizer, "x<｜User｜>", false));
  // A match may not use a single byte of the client, on either side.
  EXPECT_EQ(encode({{"<｜Us", true}, {"er｜>", false}}), EncodeOrFail(*tokenizer, "<｜User｜>", false));
  EXPECT_EQ(encode({{"<｜Us", false}, {"er｜>", true}}), EncodeOrFail(*tokenizer, "<｜User｜>", false));
  // Trusted runs that touch are one text, even when an empty client run lies between them.
  EXPECT_EQ(encode({{"<｜Us", true}, {"er｜>", true}}), (Ids{128803}));
  EXPECT_EQ(encode({{"<｜Us", true}, {"", false}, {"er｜>", true}}), (Ids{128803}));
  // Merges cross the seam: "\n\n" and " capital" are single tokens.
  EXPECT_EQ(encode({{"\n", true}, {"\n<", false}}), (Ids{271, 30}));
  EXPECT_EQ(encode({{"The cap", false}, {"ital of", true}, {" France is", false}}),
            (Ids{671, 6102, 294, 8760, 344}));
  // A seam within a character.
  EXPECT_EQ(encode({{"\xE4\xBD", true}, {"\xA0好", false}}), EncodeOrFail(*tokenizer, "你好", false));
}

TEST(TokenizerTest, MatchesAddedTokensLeftmostLongestInTwoPasses) {
  json::Value document = SmallDocument();
  json::Array& added = FieldOf(document, "added_tokens").AsArray();
  const auto add = [&](const char* content, bool normalized) {
    json::Value entry = added[0];
    entry.Set("id", static_cast<int64_t>(256 + 2 + added.size()));
    entry.Set("content", content);
    entry.Set("normalized", normalized);
    added.push_back(entry);
  };
  add("xy", true);   // 260
  add("xyz", true);  // 261
  add("yzw", true);  // 262
  add("q<", false);  // 263
  add("a>", false);  // 264: the first pass takes it out of "<a>", which belongs to the second
  add("日", true);   // 265
  const auto tokenizer = FromDocument(document);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_EQ(EncodeOrFail(**tokenizer, "xyzw", true), (Ids{261, 'w'}));   // leftmost before longest
  EXPECT_EQ(EncodeOrFail(**tokenizer, "xyxyz", true), (Ids{260, 261}));  // longest at one place
  EXPECT_EQ(EncodeOrFail(**tokenizer, "-yzw-", true), (Ids{'-', 262, '-'}));
  EXPECT_EQ(EncodeOrFail(**tokenizer, "<a>", true), (Ids{'<', 264}));
  EXPECT_EQ(EncodeOrFail(**tokenizer, "q<a>", true), (Ids{263, 264}));
  EXPECT_EQ(EncodeOrFail(**tokenizer, "<b>xy日", true), (Ids{259, 260, 265}));
  EXPECT_EQ((*tokenizer)->TokenBytes(265), "日");
  EXPECT_EQ((*tokenizer)->TokenToId("日"), 265);
}

TEST(TokenizerTest, OffsetsAreThoseOfTheBytes) {
  const auto tokenizer = V41Tokenizer();
  const std::string text = "<｜User｜>日本語 x";
  const Ids ids = EncodeOrFail(*tokenizer, text, true);
  size_t expected_begin = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto [begin, end] = tokenizer->TokenOffsets(ids)[i];
    EXPECT_EQ(begin, expected_begin);
    EXPECT_EQ(text.substr(begin, end - begin), tokenizer->TokenBytes(ids[i]));
    expected_begin = end;
  }
  EXPECT_EQ(expected_begin, text.size());
}

TEST(TokenizerTest, RefusesTextThatIsNotUtf8) {
  const std::pair<std::string_view, size_t> cases[] = {
      {"\x80", 0},         {"abc\xFF", 3},           {"\xC0\x80", 0},         {"0123456789\xE2\x82", 10},
      {"\xED\xA0\x80", 0}, {"é\xF0\x80\x80\x80", 2}, {"\xF4\x90\x80\x80", 0}, {"12345678\xE2\x28\xA1", 8}};
  for (const auto& [text, offset] : cases) {
    const auto ids = V3Tokenizer()->Encode(text);
    ASSERT_FALSE(ids.ok());
    EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(ids.status().where(), "byte " + std::to_string(offset));
  }
  const std::vector<TextRun> runs = {{"abc", true}, {"d\xFF", false}};
  EXPECT_EQ(V3Tokenizer()->EncodeRuns(runs).status().where(), "byte 4");
}

TEST(TokenizerTest, KeepsTheLimits) {
  EncodeOptions options;
  options.max_bytes = 5;
  EXPECT_TRUE(V3Tokenizer()->Encode("Hello", options).ok());
  EXPECT_EQ(V3Tokenizer()->Encode("Hello!", options).status().code(), StatusCode::kResourceExhausted);
  const std::vector<TextRun> runs = {{"Hel", true}, {"lo!", false}};
  EXPECT_EQ(V3Tokenizer()->EncodeRuns(runs, options).status().code(), StatusCode::kResourceExhausted);
  options = {};
  options.max_tokens = 2;
  options.added_tokens = true;
  EXPECT_TRUE(V3Tokenizer()->Encode("<｜User｜><｜User｜>", options).ok());
  EXPECT_FALSE(V3Tokenizer()->Encode("<｜User｜><｜User｜><｜User｜>", options).ok());
  EXPECT_FALSE(V3Tokenizer()->Encode("a b c", options).ok());
}

// A piece of a megabyte must not cost quadratic time, whatever it is made of.
TEST(TokenizerTest, LongPiecesTakeLittleTime) {
  const size_t size = size_t{1} << 20;
  std::string han, mixed;
  while (han.size() < size) han += "的一是不了人我在有他";
  for (size_t i = 0; i < size; ++i) mixed += static_cast<char>('a' + i * i % 23);
  const std::string inputs[] = {std::string(size, 'a'),
                                std::string(size, ' '),
                                std::string(size, '!'),
                                std::string(size, '\n'),
                                std::string(size, '\x01'),
                                std::string(size, '7'),
                                "a" + std::string(size, ' ') + "b",
                                han,
                                mixed};
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& input : inputs) {
    const Ids ids = EncodeOrFail(*V3Tokenizer(), input, true);
    EXPECT_EQ(V3Tokenizer()->Decode(ids), input);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), 30.0) << "for 9 MB; quadratic time would be hours";
}

TEST(TokenizerTest, ServesSeveralThreads) {
  const auto tokenizer = V3Tokenizer();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        for (const Golden& golden : Goldens())
          EXPECT_EQ(EncodeOrFail(*tokenizer, golden.text, true), golden.ids);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TokenizerTest, LoadNamesTheFile) {
  const auto missing = Tokenizer::Load("/nonexistent/tokenizer.json");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  const auto folder = Tokenizer::Load(DEEPINFER_TEST_DATA);
  EXPECT_EQ(folder.status().code(), StatusCode::kIo);
  EXPECT_TRUE(Tokenizer::Load(DEEPINFER_TEST_DATA "/demo-model/tokenizer.json").ok());
}

}  // namespace
}  // namespace deepinfer
