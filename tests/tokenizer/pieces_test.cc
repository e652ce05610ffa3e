// The parts under the tokenizer: pre-tokenizer, BPE, byte symbols, Unicode.
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tokenizer/bpe.h"
#include "tokenizer/byte_symbols.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/unicode.h"

namespace deepinfer {
namespace {

using ::testing::ElementsAre;
using Pieces = std::vector<std::string>;

Pieces Split(std::string_view text) {
  Pieces out;
  PieceScanner scanner(text);
  for (std::string_view piece; scanner.Next(&piece);) out.emplace_back(piece);
  return out;
}

TEST(PieceScannerTest, NumbersGoByThreesFromTheLeft) {
  EXPECT_THAT(Split(""), ElementsAre());
  EXPECT_THAT(Split("1234567"), ElementsAre("123", "456", "7"));
  EXPECT_THAT(Split("½Ⅻ²3"), ElementsAre("½Ⅻ²", "3"));
  EXPECT_THAT(Split("a1b"), ElementsAre("a", "1", "b"));
  EXPECT_THAT(Split("٣१๕９"), ElementsAre("٣१๕", "９"));
  // A number ends the zone before it: its white space is not followed by anything.
  EXPECT_THAT(Split("a   1"), ElementsAre("a", "   ", "1"));
}

TEST(PieceScannerTest, CjkRunsAreTheirOwn) {
  EXPECT_THAT(Split("日本語のテキスト"), ElementsAre("日本語のテキスト"));
  EXPECT_THAT(Split("abc日本def"), ElementsAre("abc", "日本", "def"));
  EXPECT_THAT(Split("  日"), ElementsAre("  ", "日"));
  EXPECT_THAT(Split("龥龦"), ElementsAre("龥", "龦"));  // U+9FA5 is in the set, U+9FA6 is a letter outside
  EXPECT_THAT(Split("ア・イ"), ElementsAre("ア", "・", "イ"));  // punctuation within the zone
  EXPECT_THAT(Split("・\n"), ElementsAre("・", "\n"));          // the line break is in another zone
  EXPECT_THAT(Split("。\n"), ElementsAre("。\n"));
  EXPECT_THAT(Split("か\u3099"), ElementsAre("か\u3099"));
  // U+3040, U+3097 and U+3098 have no class: a lone one is a gap, before letters it is the optional first character.
  EXPECT_THAT(Split("\u3097\u3098"), ElementsAre("\u3097\u3098"));
  EXPECT_THAT(Split("あ\u3097\u3098い"), ElementsAre("あ", "\u3097", "\u3098い"));
}

TEST(PieceScannerTest, WordsTakeOneCharacterBefore) {
  EXPECT_THAT(Split("Hello world"), ElementsAre("Hello", " world"));
  EXPECT_THAT(Split("a\tb"), ElementsAre("a", "\tb"));
  EXPECT_THAT(Split("a\nb"), ElementsAre("a", "\n", "b"));
  EXPECT_THAT(Split("a\u200db"), ElementsAre("a", "\u200db"));
  EXPECT_THAT(Split("a\u200d\u200db"), ElementsAre("a", "\u200d", "\u200db"));
  EXPECT_THAT(Split("x\u00a0y"), ElementsAre("x", "\u00a0y"));
  EXPECT_THAT(Split(" \u0301a"), ElementsAre(" \u0301a"));
  EXPECT_THAT(Split("\u0301"), ElementsAre("\u0301"));
}

TEST(PieceScannerTest, Punctuation) {
  EXPECT_THAT(Split("I don't"), ElementsAre("I", " don", "'t"));
  EXPECT_THAT(Split(".foo.é"), ElementsAre(".foo", ".", "é"));
  EXPECT_THAT(Split("..foo"), ElementsAre("..", "foo"));
  EXPECT_THAT(Split(" ..\r\n\nx"), ElementsAre(" ..\r\n\n", "x"));
  EXPECT_THAT(Split("  !"), ElementsAre(" ", " !"));
  EXPECT_THAT(Split("_aé"), ElementsAre("_a", "é"));
  EXPECT_THAT(Split("👍🏽€"), ElementsAre("👍🏽€"));
  EXPECT_THAT(Split("`a`"), ElementsAre("`a", "`"));
}

TEST(PieceScannerTest, WhiteSpace) {
  EXPECT_THAT(Split("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(Split("a   "), ElementsAre("a", "   "));
  EXPECT_THAT(Split("a \n \n  b"), ElementsAre("a", " \n \n", " ", " b"));
  EXPECT_THAT(Split(" \x01"), ElementsAre(" ", "\x01"));
  EXPECT_THAT(Split("  \x01"), ElementsAre(" ", " ", "\x01"));
  EXPECT_THAT(Split("\x01\x02 "), ElementsAre("\x01\x02", " "));
  EXPECT_THAT(Split("\u2028\u3000\u0085"), ElementsAre("\u2028\u3000\u0085"));
  EXPECT_THAT(Split("\u200b\ufeff"), ElementsAre("\u200b\ufeff"));  // no white space in Unicode's sense
}

// Applies the rules one by one as the definition says: the whole list again for every merge.
std::vector<int32_t> NaiveBpe(std::vector<int32_t> symbols, const std::vector<Merge>& merges) {
  std::map<std::pair<int32_t, int32_t>, size_t> ranks;
  for (size_t rank = 0; rank < merges.size(); ++rank) ranks[{merges[rank].left, merges[rank].right}] = rank;
  while (true) {
    size_t best_rank = merges.size(), best_at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto it = ranks.find({symbols[i], symbols[i + 1]});
      if (it != ranks.end() && it->second < best_rank) {
        best_rank = it->second;
        best_at = i;
      }
    }
    if (best_rank == merges.size()) return symbols;
    symbols[best_at] = merges[best_rank].result;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best_at) + 1);
  }
}

TEST(BpeTest, FollowsTheDefinitionAtEveryLength) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    // Byte b is token b; random merges among four letters, in random order, so that their ranks do not follow their lengths.
    std::vector<int32_t> byte_ids(256);
    for (int32_t b = 0; b < 256; ++b) byte_ids[static_cast<size_t>(b)] = b;
    std::vector<int32_t> known = {'a', 'b', 'c', 'd'};
    std::map<std::pair<int32_t, int32_t>, int32_t> rules;
    int32_t next = 256;
    for (int i = 0; i < 40; ++i) {
      const auto pair = std::pair(known[random() % known.size()], known[random() % known.size()]);
      if (rules.emplace(pair, next).second) known.push_back(next++);
    }
    std::vector<Merge> merges;
    for (const auto& [pair, result] : rules) merges.push_back({pair.first, pair.second, result});
    std::shuffle(merges.begin(), merges.end(), random);
    const Bpe bpe(byte_ids, merges);
    Bpe::Scratch scratch;
    for (size_t length = 0; length < 130; ++length) {
      std::string piece;
      for (size_t i = 0; i < length; ++i) piece += static_cast<char>('a' + random() % 4);
      std::vector<int32_t> ids = {-1};
      bpe.Encode(piece, &scratch, &ids);
      std::vector<int32_t> expected = NaiveBpe({piece.begin(), piece.end()}, merges);
      expected.insert(expected.begin(), -1);  // what stood in the output stays
      ASSERT_EQ(ids, expected) << "round " << round << ": " << piece;
    }
  }
}

TEST(ByteSymbolsTest, AreInverse) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(BytesFromSymbols(SymbolsFromBytes(all)), all);
  EXPECT_EQ(SymbolsFromBytes(" \n\xAD"), "ĠĊŃ");
  EXPECT_EQ(BytesFromSymbols("Ġ"), " ");
  EXPECT_EQ(BytesFromSymbols(" "),
            std::nullopt);  // bytes without a printable form do not stand for themselves
  EXPECT_EQ(BytesFromSymbols("中"), std::nullopt);
  EXPECT_EQ(BytesFromSymbols("\u0144"), std::nullopt);  // one after the last symbol, U+0143
}

TEST(UnicodeTest, FindsInvalidUtf8LikeTheDefinition) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    unicode::AppendUtf8(c, &text);
    const unicode::Utf8Sequence next = unicode::NextUtf8(text);
    ASSERT_EQ(next.kind, unicode::Utf8Kind::kValid);
    ASSERT_EQ(next.code_point, c);
    ASSERT_EQ(next.length, text.size());
    ASSERT_EQ(unicode::FindInvalidUtf8(text), std::string_view::npos);
  }
  EXPECT_EQ(unicode::FindInvalidUtf8("\xED\xBF\xBF"), 0u);  // a surrogate
  EXPECT_EQ(unicode::FindInvalidUtf8("aaaaaaaaaaaaaaa\xC1\xBF"), 15u);
}

TEST(UnicodeTest, Classes) {
  using unicode::CharClass;
  const auto& table = unicode::CharTable::Get();
  EXPECT_EQ(table.Class(U'a'), CharClass::kLetter);
  EXPECT_EQ(table.Class(0x0301), CharClass::kMark);
  EXPECT_EQ(table.Class(0x20DD), CharClass::kMark);  // Me
  EXPECT_EQ(table.Class(0x0903), CharClass::kMark);  // Mc
  EXPECT_EQ(table.Class(0x3007), CharClass::kNumber);
  EXPECT_EQ(table.Class(U'$'), CharClass::kSymbol);
  EXPECT_EQ(table.Class(U'_'), CharClass::kPunctuation);
  EXPECT_EQ(table.Class(0x85), CharClass::kSpace);
  EXPECT_EQ(table.Class(0x180E), CharClass::kOther);  // no white space since Unicode 6.3
  EXPECT_EQ(table.Class(0x10FFFF), CharClass::kOther);
  EXPECT_EQ(table.Class(0x1FAE0), CharClass::kSymbol);  // new in Unicode 14
  EXPECT_EQ(table.Class(0x1FAE8), CharClass::kOther);   // new in Unicode 15
}

TEST(UnicodeTest, DecomposesAndLowers) {
  EXPECT_EQ(unicode::CompatibilityDecompose(U"é한글ﬁ①"), U"e\u0301\u1112\u1161\u11AB\u1100\u1173\u11AFfi1");
  EXPECT_EQ(unicode::CompatibilityDecompose(U"가"), U"\u1100\u1161");
  // Marks in canonical order: below (220) before above (230), equal ones as they stood.
  EXPECT_EQ(unicode::CompatibilityDecompose(U"a\u0301\u0300\u0323"), U"a\u0323\u0301\u0300");
  EXPECT_EQ(unicode::CompatibilityDecompose(U"ﷺ").size(), 18u);
  EXPECT_EQ(unicode::ToLower(U'Σ'), U'σ');
  EXPECT_EQ(unicode::ToLower(U'ẞ'), U'ß');
  EXPECT_EQ(unicode::ToLower(0x10400), 0x10428u);
  EXPECT_EQ(unicode::ToLower(U'1'), U'1');
}

}  // namespace
}  // namespace deepinfer
