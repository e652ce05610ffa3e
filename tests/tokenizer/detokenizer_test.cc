// Incremental decoding and its repairs (spec: checkpoint.md §8.5).
#include "tokenizer/detokenizer.h"

#include <random>

#include <gtest/gtest.h>

#include "tokenizer/test_tokenizers.h"
#include "tokenizer/unicode.h"

namespace deepinfer {
namespace {

using deepinfer::testing::FromDocument;
using deepinfer::testing::SmallDocument;
using deepinfer::testing::V3Tokenizer;

const std::string kBad = "\xEF\xBF\xBD";  // U+FFFD

/// A tokenizer in which the id of every byte is the byte.
std::shared_ptr<const Tokenizer> ByteTokenizer() {
  static const auto tokenizer = FromDocument(SmallDocument()).value();
  return tokenizer;
}

std::vector<int32_t> IdsOf(std::string_view bytes) {
  std::vector<int32_t> ids;
  for (const char c : bytes) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

struct Case {
  std::string bytes, text;
};

// One U+FFFD for each longest beginning of a character, as in the WHATWG decoder.
const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"plain é 日 👍", "plain é 日 👍"},
      {"\xED\xA0\x80", kBad + kBad + kBad},
      {std::string("\xF0\x80\x80") + "A", kBad + kBad + kBad + "A"},
      {std::string("\xE2\x80") + "A", kBad + "A"},
      {"\xFF", kBad},
      {"\xC0\xAF", kBad + kBad},
      {"\xE2\x82", kBad},
      {"\xF0\x9F\x91", kBad},
      {"\xF0\x9F\xF0\x9F\x91\x8D", kBad + "👍"},
      {"\xF4\x90\x80\x80", kBad + kBad + kBad + kBad},
      {"\xE2\xE2\x82\xAC", kBad + "€"},
      {"\x80\x80", kBad + kBad},
      {"a\xC3", "a" + kBad},
      {"", ""},
  };
  return cases;
}

TEST(DetokenizerTest, RepairsLikeTheWebStandard) {
  for (const Case& c : Cases()) {
    const std::vector<int32_t> ids = IdsOf(c.bytes);
    EXPECT_EQ(DecodeText(*ByteTokenizer(), ids), c.text);
    Detokenizer whole(ByteTokenizer());
    const std::string at_once = whole.Push(ids);
    EXPECT_EQ(at_once + whole.Finish(), c.text);
    Detokenizer single(ByteTokenizer());
    std::string text;
    for (const int32_t id : ids) text += single.Push(id);
    EXPECT_EQ(text + single.Finish(), c.text);
    EXPECT_EQ(single.Finish(), "");
  }
}

TEST(DetokenizerTest, HoldsBackUnfinishedCharacters) {
  Detokenizer detokenizer(ByteTokenizer());
  EXPECT_EQ(detokenizer.Push(0xF0), "");
  EXPECT_EQ(detokenizer.Push(0x9F), "");
  EXPECT_EQ(detokenizer.Push(0x91), "");
  EXPECT_EQ(detokenizer.num_pending_bytes(), 3u);
  EXPECT_EQ(detokenizer.Push(0x8D), "👍");
  EXPECT_EQ(detokenizer.num_pending_bytes(), 0u);
  // An added token ends a character that lacks bytes.
  EXPECT_EQ(detokenizer.Push(0xE2), "");
  EXPECT_EQ(detokenizer.Push(258), kBad + "<a>");
  EXPECT_EQ(detokenizer.Push(0xE2), "");
  EXPECT_EQ(detokenizer.Push(-5), "");
  EXPECT_EQ(detokenizer.Push(1 << 30), "");
  EXPECT_EQ(detokenizer.Finish(), kBad);
  EXPECT_EQ(detokenizer.Push('x'), "x");
}

TEST(DetokenizerTest, TextDoesNotDependOnTheCuts) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::vector<int32_t> ids(random() % 24);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % (round % 2 == 0 ? 259 : 128815));
    const std::string expected = DecodeText(*V3Tokenizer(), ids);
    EXPECT_EQ(unicode::FindInvalidUtf8(expected), std::string_view::npos);
    Detokenizer detokenizer(V3Tokenizer());
    std::string text;
    for (size_t at = 0; at < ids.size();) {
      const size_t count = std::min<size_t>(1 + random() % 3, ids.size() - at);
      const std::string part = detokenizer.Push(std::span(ids).subspan(at, count));
      EXPECT_EQ(unicode::FindInvalidUtf8(part), std::string_view::npos);
      EXPECT_LE(detokenizer.num_pending_bytes(), 3u);
      text += part;
      at += count;
    }
    EXPECT_EQ(text + detokenizer.Finish(), expected);
  }
}

TEST(DetokenizerTest, CountsTheTokensThatAreNoTextAlone) {
  int with_replacement = 0, invalid = 0;
  for (int32_t id = 0; id < 128000; ++id) {
    with_replacement += DecodeText(*V3Tokenizer(), {&id, 1}).find(kBad) != std::string::npos ? 1 : 0;
    invalid += unicode::FindInvalidUtf8(V3Tokenizer()->TokenBytes(id)) != std::string_view::npos ? 1 : 0;
  }
  EXPECT_EQ(with_replacement, 1484);
  EXPECT_EQ(invalid, 1470);
}

}  // namespace
}  // namespace deepinfer
