#include <gtest/gtest.h>

#include "json_lines.h"
#include "recipe/plain_chat.h"

namespace deepinfer::recipe::plain {
namespace {

using deepinfer::testing::ReadJsonLines;
using deepinfer::testing::Text;

struct AnswerCase {
  const char *name, *text;
  bool thinking;
  const char *reasoning, *content;
};

class AnswerSplit : public ::testing::TestWithParam<AnswerCase> {};

TEST_P(AnswerSplit, WholeAndCutAnywhere) {
  const AnswerCase& c = GetParam();
  const std::string_view text = c.text;
  const auto whole = SplitAnswer(text, c.thinking);
  EXPECT_EQ(whole.reasoning, c.reasoning);
  EXPECT_EQ(whole.content, c.content);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    AnswerParser parser(c.thinking);
    std::string reasoning, content;
    for (const auto& delta :
         {parser.Push(text.substr(0, cut)), parser.Push(text.substr(cut)), parser.Finish()}) {
      reasoning += delta.reasoning;
      content += delta.content;
    }
    EXPECT_EQ(reasoning, c.reasoning) << cut;
    EXPECT_EQ(content, c.content) << cut;
  }
}

// Names with P are vectors of recipe.md §14.2.
INSTANTIATE_TEST_SUITE_P(
    All, AnswerSplit,
    ::testing::Values(AnswerCase{"empty", "", true, "", ""},
                      AnswerCase{"P01", "Let me think.</think>42.", true, "Let me think.", "42."},
                      AnswerCase{"P02", "Hello there!", false, "", "Hello there!"},
                      AnswerCase{"P10", "Let me.</think>The answer", false, "", "Let me.The answer"},
                      AnswerCase{"P11", "\nhmm\n</think>\n\nhi", true, "hmm", "hi"},
                      AnswerCase{"P17", "hi</think> there", false, "", "hi there"},
                      AnswerCase{"P28", "<think>b</think>c", true, "<think>b", "c"},
                      AnswerCase{"P29_newlines", "abc\n\n", true, "abc\n\n", ""},
                      AnswerCase{"P29_cut", "abc</thi", true, "abc</thi", ""},
                      AnswerCase{"P30", "</think>391", true, "", "391"},
                      AnswerCase{"leading_newlines", "\n\n x\n", false, "", " x\n"},
                      AnswerCase{"second_end", "a</think>b</think>\nc", true, "a", "b\nc"},
                      AnswerCase{"end_then_end", "a</think></think>\nc", true, "a", "\nc"},
                      AnswerCase{"failed_match", "a<\n</think>b", true, "a<\n", "b"},
                      AnswerCase{"match_after_failed_match", "a\n</</think>b", true, "a\n</", "b"},
                      AnswerCase{"two_lt", "a\n<</think>b", true, "a\n<", "b"},
                      AnswerCase{"inner_newlines", "a\n\nb\n\n</think>c\n\nd", true, "a\n\nb", "c\n\nd"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(AnswerParser, ReleasesTextAsSoonAsItIsCertain) {
  AnswerParser parser(true);
  EXPECT_EQ(parser.Push("ab\n").reasoning, "ab");
  EXPECT_EQ(parser.Push("c").reasoning, "\nc");
  EXPECT_TRUE(parser.in_reasoning());
  EXPECT_EQ(parser.Push("</think>x").content, "x");
  EXPECT_FALSE(parser.in_reasoning());
}

TEST(AnswerParser, GoldensOfTheLibrary) {
  const auto lines = ReadJsonLines(DEEPINFER_SOURCE_DIR "/tests/recipe/data/answers.jsonl");
  ASSERT_GE(lines.size(), 50U);
  for (const json::Value& line : lines) {
    std::string text;
    AnswerParser parser(line.Find("thinking")->AsBool());
    std::string reasoning, content;
    const auto take = [&](const AnswerParser::Delta& delta) {
      reasoning += delta.reasoning;
      content += delta.content;
    };
    for (const json::Value& chunk : line.Find("chunks")->AsArray()) take(parser.Push(chunk.AsString()));
    take(parser.Finish());
    EXPECT_EQ(reasoning, Text(line, "reasoning")) << Text(line, "id");
    EXPECT_EQ(content, Text(line, "content")) << Text(line, "id");
  }
}

}  // namespace
}  // namespace deepinfer::recipe::plain
