#include "checkpoint/json_scanner.h"

#include <gtest/gtest.h>

namespace deepinfer {
namespace {

std::string ReadOk(std::string_view json) {
  JsonScanner scanner(json);
  std::string out;
  EXPECT_TRUE(scanner.ReadString(100, &out).ok()) << json;
  return out;
}

TEST(JsonScanner, UnescapesStrings) {
  EXPECT_EQ(ReadOk(R"("a\"\\\/\b\f\n\r\t")"), "a\"\\/\b\f\n\r\t");
  EXPECT_EQ(ReadOk(R"("\u0041\u00e9\u20AC\ud83d\ude00")"), "A\u00e9\u20ac\U0001F600");
  EXPECT_EQ(ReadOk("  \"\""), "");
  EXPECT_EQ(ReadOk(R"("\u0000")"), std::string(1, '\0'));
}

TEST(JsonScanner, RefusesBadStrings) {
  for (const char* json : {"", "a", "\"a", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\u12G4\"", "\"\\ud800\"",
                           "\"\\ud800a\"", "\"\\ud800\\u0041\"", "\"\\udc00\"", "\"\n\"", "\"\x01\""}) {
    JsonScanner scanner(json);
    std::string out;
    EXPECT_EQ(scanner.ReadString(100, &out).code(), StatusCode::kDataLoss) << json;
  }
  JsonScanner scanner("\"abcdef\"");
  std::string out = "kept ";
  EXPECT_FALSE(scanner.ReadString(5, &out).ok());
}

TEST(JsonScanner, ReadsPlainUnsignedIntegersOnly) {
  uint64_t value = 0;
  EXPECT_TRUE(JsonScanner("0").ReadUnsigned(&value).ok());
  EXPECT_EQ(value, 0u);
  EXPECT_TRUE(JsonScanner(" 18446744073709551615,").ReadUnsigned(&value).ok());
  EXPECT_EQ(value, UINT64_MAX);
  EXPECT_TRUE(JsonScanner("9007199254740993").ReadUnsigned(&value).ok());  // not a double
  EXPECT_EQ(value, 9007199254740993u);
  for (const char* json : {"", "-1", "-0", "+1", "01", "1.0", "1e3", "1E3", "18446744073709551616",
                           "99999999999999999999", "x", "\"1\""}) {
    EXPECT_FALSE(JsonScanner(json).ReadUnsigned(&value).ok()) << json;
  }
}

TEST(JsonScanner, SkipsValues) {
  for (const char* json :
       {"null", "true", "false", "0", "-1.5e+10", "1E2", "\"x\"", "[]", "{}", "[1, [2, {\"a\": []}]]"}) {
    JsonScanner scanner(json);
    EXPECT_TRUE(scanner.SkipValue(8).ok()) << json;
    EXPECT_EQ(scanner.rest(), "") << json;
  }
  for (const char* json :
       {"", "nul", "-", "1.", "1e", "01", "[1,]", "[1", "{\"a\"}", "{\"a\":}", "{,}", "]"}) {
    EXPECT_FALSE(JsonScanner(json).SkipValue(8).ok()) << json;
  }
  EXPECT_TRUE(JsonScanner("[[[]]]").SkipValue(3).ok());
  EXPECT_FALSE(JsonScanner("[[[]]]").SkipValue(2).ok());
  EXPECT_FALSE(JsonScanner(std::string(1'000'000, '[')).SkipValue(8).ok());
}

}  // namespace
}  // namespace deepinfer
