#include "cli/suggest.h"

#include <vector>

#include <gtest/gtest.h>

namespace deepinfer::cli {
namespace {

TEST(Suggest, DistanceCountsEdits) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("top-p", "top-p"), 0);
  EXPECT_EQ(EditDistance("tempratur", "temperature"), 2);
  EXPECT_EQ(EditDistance("seed", "sede"), 1);  // neighbours swapped
}

TEST(Suggest, NearestOnlyWhenItMayBeMeant) {
  const std::vector<std::string> names = {"--temperature", "--top-p", "--top-k", "--seed"};
  EXPECT_EQ(Nearest("--temprature", names), "--temperature");
  EXPECT_EQ(Nearest("--topk", names), "--top-k");
  EXPECT_EQ(Nearest("--completely-different", names), "");
  EXPECT_EQ(Nearest("", names), "");
  EXPECT_EQ(Nearest(std::string(100000, 'x'), names), "");
}

}  // namespace
}  // namespace deepinfer::cli
