#include "base/byte_scan.h"

#include <string>

#include <gtest/gtest.h>

namespace deepinfer {
namespace {

TEST(ByteSet, FindsEveryMemberAtEveryPlace) {
  for (const std::string_view members : {"x", "xy", "xyz\n", "xyz\nq\xFF"}) {
    ByteSet set;
    for (const char c : members) set.Add(c);
    set.Add(members.front());  // again
    for (size_t size = 1; size < 70; ++size) {
      std::string text(size, 'a');
      EXPECT_EQ(set.Find(text, 0), size);
      for (size_t at = 0; at < size; ++at) {
        for (const char c : members) {
          text[at] = c;
          EXPECT_EQ(set.Find(text, 0), at);
          EXPECT_EQ(set.Find(text, at), at);
          EXPECT_EQ(set.Find(text, at + 1), size);
          EXPECT_TRUE(set.Contains(c));
        }
        text[at] = 'a';
      }
    }
    EXPECT_FALSE(set.Contains('a'));
  }
}

TEST(ByteSet, AnEmptySetFindsNothing) { EXPECT_EQ(ByteSet().Find(std::string(40, '\0'), 3), 40U); }

}  // namespace
}  // namespace deepinfer
