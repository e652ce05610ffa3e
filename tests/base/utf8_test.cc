#include "base/utf8.h"

#include <gtest/gtest.h>

namespace deepinfer {
namespace {

TEST(FindInvalidUtf8, AcceptsWellFormedText) {
  for (const char* text :
       {"", "abc", "\u00e9", "\u20ac", "\U0001F600", "\u007f", "\U0010FFFF", "\uD7FF", "\uE000"}) {
    EXPECT_EQ(unicode::FindInvalidUtf8(text), std::string_view::npos) << text;
  }
}

TEST(FindInvalidUtf8, RefusesIllFormedText) {
  for (const char* text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\xFF", "a\xE2\x82", "\xE2\x28\xA1"}) {
    EXPECT_NE(unicode::FindInvalidUtf8(text), std::string_view::npos) << text;
  }
}

}  // namespace
}  // namespace deepinfer
