#include "engine/stop_matcher.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace deepinfer {
namespace {

/// The rule itself: the first byte at which a stop string is complete; the longest one that ends there is cut off.
std::string Naive(const std::vector<std::string>& stops, const std::string& text, bool* matched) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) {
      *matched = true;
      return text.substr(0, end - longest);
    }
  }
  *matched = false;
  return text;
}

struct StopCase {
  const char* name;
  std::vector<std::string> stops;
  const char *text, *want;
  bool matched;
};

class StopMatch : public ::testing::TestWithParam<StopCase> {};

TEST_P(StopMatch, AtEveryCut) {
  const StopCase& c = GetParam();
  const std::string text = c.text;
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      StopMatcher matcher(c.stops);
      std::string out = matcher.Push(text.substr(0, first));
      out += matcher.Push(text.substr(first, second - first));
      out += matcher.Push(text.substr(second));
      out += matcher.Finish();
      ASSERT_EQ(out, c.want) << first << " " << second;
      ASSERT_EQ(matcher.matched(), c.matched) << first << " " << second;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, StopMatch,
    ::testing::Values(StopCase{"none", {}, "any text", "any text", false},
                      StopCase{"absent", {"xyz"}, "any text", "any text", false},
                      StopCase{"begin", {"an"}, "any text", "", true},
                      StopCase{"end", {"xt"}, "any text", "any te", true},
                      StopCase{"half", {"text!"}, "any text", "any text", false},
                      StopCase{"overlap", {"ab"}, "aab", "a", true},              // recipe.md P36
                      StopCase{"first_complete", {"A", "AB"}, "xAB", "x", true},  // recipe.md P36
                      StopCase{"complete_first_wins", {"abcd", "bc"}, "xabcd", "xa", true},
                      StopCase{"longest_at_one_end", {"c", "bc"}, "abc", "a", true},
                      StopCase{"restart", {"aabaaa"}, "aabaabaaa", "aab", true},
                      StopCase{"utf8", {"ü"}, "grün", "gr", true},
                      StopCase{"once", {"."}, "a.b.c", "a", true}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(StopMatcher, RandomTextsAgreeWithTheRule) {
  std::mt19937 random(7);
  const auto pick = [&](size_t bound) { return random() % bound; };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops(1 + pick(3));
    for (std::string& stop : stops) {
      for (size_t i = 1 + pick(4); i > 0; --i) stop += static_cast<char>('a' + pick(2));
    }
    std::string text;
    for (size_t i = pick(12); i > 0; --i) text += static_cast<char>('a' + pick(3));
    bool matched = false;
    const std::string want = Naive(stops, text, &matched);
    StopMatcher matcher(stops);
    std::string out;
    for (const char c : text) {
      out += matcher.Push({&c, 1});
      ASSERT_TRUE(want.starts_with(out)) << "text was given out that belongs to a stop string";
    }
    out += matcher.Finish();
    ASSERT_EQ(out, want) << text;
    ASSERT_EQ(matcher.matched(), matched);
  }
}

TEST(StopMatcher, HoldsBackNoMoreThanNeeded) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.Push("a st"), "a ");
  EXPECT_EQ(matcher.Push("a"), "sta");
  EXPECT_EQ(matcher.Push("sto"), "");
  EXPECT_EQ(matcher.Finish(), "sto");
}

}  // namespace
}  // namespace deepinfer
