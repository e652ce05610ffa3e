#include "recipe/image_span.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "recipe/json_lines.h"

namespace deepinfer::recipe {
namespace {

int64_t Int(const json::Value& array, size_t index) {
  int64_t number = -1;
  EXPECT_TRUE(array.AsArray().at(index).GetInt64(&number));
  return number;
}

TEST(ImageSpan, Goldens) {
  const auto lines = testing::ReadJsonLines(DEEPINFER_TEST_DATA "/goldens/recipe/spans.jsonl");
  ASSERT_EQ(lines.size(), 200U);
  int with_ours = 0;
  for (const json::Value& line : lines) {
    const json::Value* ours = line.Find("ours");
    with_ours += ours != nullptr ? 1 : 0;
    const json::Value& expected = ours != nullptr ? *ours : line;
    const json::Value& size = *line.Find("size");
    const auto span = PlanImageSpan(Int(size, 0), Int(size, 1));
    ASSERT_TRUE(span.ok()) << json::Serialize(line);
    int64_t tokens = 0;
    ASSERT_TRUE(expected.Find("tokens")->GetInt64(&tokens));
    EXPECT_EQ(span->num_tokens(), tokens) << json::Serialize(line);
    EXPECT_EQ(span->rows, Int(*expected.Find("grid"), 0)) << json::Serialize(line);
    EXPECT_EQ(span->columns, Int(*expected.Find("grid"), 1)) << json::Serialize(line);
    EXPECT_EQ(span->width, Int(*expected.Find("fitted"), 0)) << json::Serialize(line);
    EXPECT_EQ(span->height, Int(*expected.Find("fitted"), 1)) << json::Serialize(line);
  }
  EXPECT_GT(with_ours, 0);
}

TEST(ImageSpan, Vectors) {
  // recipe.md §14.4 and the borders of vision.md §2.2: width, height -> rows, columns, width, height.
  const int64_t vectors[][6] = {
      {64, 48, 12, 15, 630, 476},       {50, 40, 12, 15, 616, 490},       {544, 544, 13, 13, 546, 546},
      {640, 480, 12, 16, 644, 490},     {1024, 1024, 25, 25, 1036, 1036}, {1920, 1080, 23, 41, 1708, 966},
      {4096, 256, 7, 98, 4102, 266},    {8192, 8192, 31, 31, 1302, 1302}, {50, 100000, 511, 1, 42, 21462},
      {94, 833, 39, 5, 182, 1624},      {1, 1, 13, 13, 546, 546},         {800, 600, 15, 20, 812, 602},
      {1000000, 1, 1, 1021, 42882, 42},
  };
  for (const auto& [width, height, rows, columns, fitted_width, fitted_height] : vectors) {
    const auto span = PlanImageSpan(width, height);
    ASSERT_TRUE(span.ok()) << width << "x" << height;
    EXPECT_EQ(*span, (ImageSpan{rows, columns, fitted_width, fitted_height})) << width << "x" << height;
  }
}

TEST(ImageSpan, StaysWithinTheBudget) {
  for (int64_t width = 1; width < 40'000; width += 1 + width / 7) {
    for (int64_t height = 1; height < 40'000; height += 1 + height / 9) {
      const auto span = PlanImageSpan(width, height);
      ASSERT_TRUE(span.ok()) << width << "x" << height;
      EXPECT_LE(span->num_tokens(), kMaxImageTokens);
      EXPECT_GE(span->num_tokens(), 100);
    }
  }
}

TEST(ImageSpan, RefusesSizesThatAreNone) {
  for (const int64_t side : {int64_t{0}, int64_t{-1}, kMaxImageSide + 1, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(PlanImageSpan(side, 10).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(PlanImageSpan(10, side).status().code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace deepinfer::recipe
