#include "cli/line_reader.h"

#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace deepinfer::cli {
namespace {

// All lines of a text, read from a pipe.
std::vector<Line> ReadAll(const std::string& text, size_t limit) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  LineReader reader(FileDescriptor(ends[0]), "pipe", limit);
  std::vector<Line> lines;
  for (Line line; *reader.Next(&line);) lines.push_back(line);
  return lines;
}

TEST(LineReader, SplitsAtLineEnds) {
  const std::vector<Line> lines = ReadAll("a\n\nbc\nd", 100);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].text, "a");
  EXPECT_EQ(lines[1].text, "");
  EXPECT_EQ(lines[2].text, "bc");
  EXPECT_EQ(lines[2].number, 2);
  EXPECT_TRUE(lines[2].ended);
  EXPECT_EQ(lines[3].text, "d");
  EXPECT_FALSE(lines[3].ended);
}

TEST(LineReader, NothingInAnEmptyInput) { EXPECT_TRUE(ReadAll("", 100).empty()); }

TEST(LineReader, SkipsLinesOverTheLimit) {
  const std::vector<Line> lines = ReadAll(std::string(5000, 'x') + "\nok\n" + std::string(11, 'y'), 10);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[0].too_long);
  EXPECT_EQ(lines[0].text, "");
  EXPECT_FALSE(lines[1].too_long);
  EXPECT_EQ(lines[1].text, "ok");
  EXPECT_TRUE(lines[2].too_long);
}

TEST(LineReader, LimitIsInclusive) {
  const std::vector<Line> lines = ReadAll("0123456789\n", 10);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_FALSE(lines[0].too_long);
}

TEST(LineReader, BlankLines) {
  EXPECT_TRUE(IsBlank(""));
  EXPECT_TRUE(IsBlank(" \t\r"));
  EXPECT_FALSE(IsBlank(" x"));
}

}  // namespace
}  // namespace deepinfer::cli
