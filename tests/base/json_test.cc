#include "base/json.h"

#include <cmath>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace deepinfer::json {
namespace {

std::string RoundTrip(std::string_view text) {
  const Result<Value> value = Parse(text);
  return value.ok() ? Serialize(*value) : "error: " + value.status().ToString();
}

Status ParseError(std::string_view text, const ParseLimits& limits = {}) {
  return Parse(text, limits).status();
}

TEST(JsonParse, KeepsOrderAndValues) {
  EXPECT_EQ(RoundTrip(R"( { "b" : [1, -2, 2.5, true, null], "a" : {"x": "y"}, "e": [], "o": {} } )"),
            R"({"b":[1,-2,2.5,true,null],"a":{"x":"y"},"e":[],"o":{}})");
  EXPECT_EQ(RoundTrip("3"), "3");
  EXPECT_EQ(RoundTrip("\"\""), "\"\"");
}

TEST(JsonParse, IntegersAreExactIn64Bits) {
  EXPECT_EQ(RoundTrip("[9223372036854775807,-9223372036854775808,9223372036854775808,18446744073709551615]"),
            "[9223372036854775807,-9223372036854775808,9223372036854775808,18446744073709551615]");
  EXPECT_EQ(ParseError("18446744073709551616").code(), StatusCode::kDataLoss);
  EXPECT_FALSE(ParseError("-9223372036854775809").ok());
  EXPECT_FALSE(ParseError("[" + std::string(400, '9') + "]").ok());

  int64_t i = 0;
  uint64_t u = 0;
  EXPECT_TRUE(Parse("9223372036854775807")->GetInt64(&i));
  EXPECT_EQ(i, INT64_MAX);
  EXPECT_FALSE(Parse("9223372036854775808")->GetInt64(&i));
  EXPECT_TRUE(Parse("9223372036854775808")->GetUint64(&u));
  EXPECT_EQ(u, uint64_t{1} << 63);
  EXPECT_FALSE(Parse("-1")->GetUint64(&u));
  EXPECT_FALSE(Parse("1.0")->GetInt64(&i));
  EXPECT_EQ(Parse("9223372036854775808")->type(), Type::kUint);
  EXPECT_EQ(Value(uint64_t{5}).type(), Type::kInt);
}

TEST(JsonParse, FloatingPointNumbers) {
  EXPECT_EQ(Parse("1e3")->AsDouble(), 1000.0);
  EXPECT_EQ(Parse("1e3")->type(), Type::kDouble);
  EXPECT_EQ(Parse("1E-400")->AsDouble(), 0.0);
  EXPECT_FALSE(ParseError("1e400").ok());
  EXPECT_FALSE(ParseError("-1e999").ok());
  EXPECT_TRUE(std::signbit(Parse("-0.0")->AsDouble()));
  EXPECT_EQ(Parse("-0")->type(), Type::kInt);
}

TEST(JsonParse, RefusesWhatRfc8259Refuses) {
  for (const char* text :
       {"",       " ",       "{",         "[1,]",  "{\"a\":1,}", "{a:1}",  "'a'",   "01",        "+1",
        ".5",     "1.",      "0x1",       "NaN",   "Infinity",   "-",      "tru",   "[1] 2",     "{} {}",
        "\"\t\"", "\"\\x\"", "\"\\u12\"", "\"abc", "// c\n1",    "/* */1", "[1 2]", "{\"a\" 1}", "\x01"}) {
    const Status status = ParseError(text);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << text;
    EXPECT_NE(status.where().find("byte "), std::string::npos) << text << ": " << status.ToString();
  }
}

TEST(JsonParse, Unicode) {
  EXPECT_EQ(Parse(R"("\u00e9\ud83d\ude00")")->AsString(), "é😀");
  EXPECT_EQ(Parse("\"é😀\"")->AsString(), "é😀");
  EXPECT_EQ(Parse(R"("a\u0000b")")->AsString(), std::string("a\0b", 3));
  for (const char* text :
       {R"("\ud83d")", R"("\ude00")", R"("\ud83dx")", R"("\ud83d\u0041")", "\"\xff\"", "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\"", "\xEF\xBB\xBF{}"}) {
    EXPECT_FALSE(ParseError(text).ok()) << text;
  }
}

TEST(JsonParse, NulByteDoesNotEndTheText) {
  EXPECT_FALSE(ParseError(std::string_view("1\0", 2)).ok());
  EXPECT_FALSE(ParseError(std::string_view("{}\0garbage", 10)).ok());
  EXPECT_EQ(ParseError(std::string_view("[1,\0]", 5)).where(), "byte 3");
}

TEST(JsonParse, DuplicateKeysAreFoundAfterUnescaping) {
  EXPECT_FALSE(ParseError(R"({"a":1,"b":2,"a":3})").ok());
  EXPECT_FALSE(ParseError(R"({"a":1,"\u0061":2})").ok());
  EXPECT_FALSE(ParseError(R"([{"x":{"k":1,"k":1}}])").ok());
  EXPECT_TRUE(Parse(R"([{"a":1},{"a":{"a":2}}])").ok());
}

TEST(JsonParse, BigHeaderIsFast) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += fmt::format("\"layers.{}.weight\":[{}],", i, i);
  std::string twice = text + "\"layers.7.weight\":0}";
  text.back() = '}';
  ASSERT_TRUE(Parse(text).ok());
  EXPECT_EQ(Parse(text)->AsObject().size(), 100'000U);
  EXPECT_EQ(RoundTrip(text), text);
  EXPECT_FALSE(ParseError(twice).ok());
}

TEST(JsonParse, Limits) {
  ParseLimits limits;
  limits.max_depth = 3;
  EXPECT_TRUE(Parse("[[[1]]]", limits).ok());
  EXPECT_FALSE(ParseError("[[[[1]]]]", limits).ok());
  limits.max_values = 4;
  EXPECT_TRUE(Parse("[1,2,3]", limits).ok());
  EXPECT_FALSE(ParseError("[1,2,3,4]", limits).ok());
  EXPECT_FALSE(ParseError("{\"a\":[],\"b\":[],\"c\":[],\"d\":[]}", limits).ok());
  limits.max_bytes = 5;
  EXPECT_TRUE(Parse("[1,2]", limits).ok());
  EXPECT_FALSE(ParseError("[1, 2]", limits).ok());
  EXPECT_FALSE(ParseError(std::string(1'000'000, '[')).ok());
  EXPECT_FALSE(ParseError(std::string(1'000'000, '[') + std::string(1'000'000, ']')).ok());
}

TEST(JsonParse, ErrorsAreShortAndNameTheOffset) {
  const Status status = ParseError("[1, \"" + std::string(100'000, 'x'));
  EXPECT_LT(status.ToString().size(), 300U);
  EXPECT_EQ(ParseError("[1,2,x]").where(), "byte 5");
}

TEST(JsonValue, SetFindAppend) {
  Value value;
  value.Set("a", 1);
  value.Set("list", Value()).Append("x");
  value.Set("a", 2.0);
  EXPECT_EQ(Serialize(value), R"({"a":2.0,"list":["x"]})");
  ASSERT_NE(value.Find("list"), nullptr);
  EXPECT_EQ(value.Find("b"), nullptr);
  EXPECT_EQ(Value(3).Find("a"), nullptr);
}

TEST(JsonSerialize, NumbersAreShortest) {
  EXPECT_EQ(Serialize(Value(1.0)), "1.0");
  EXPECT_EQ(Serialize(Value(0.1)), "0.1");
  EXPECT_EQ(Serialize(Value(0.1F)), "0.1");
  EXPECT_EQ(Serialize(Value(static_cast<double>(0.1F))), "0.10000000149011612");
  EXPECT_EQ(Serialize(Value(100000.0)), "100000.0");
  EXPECT_EQ(Serialize(Value(1e15)), "1000000000000000.0");
  EXPECT_EQ(Serialize(Value(1e16)), "1e+16");
  EXPECT_EQ(Serialize(Value(-0.0)), "-0.0");
  EXPECT_EQ(Serialize(Value(0.0001)), "0.0001");
  EXPECT_EQ(Serialize(Value(-0.00001)), "-1e-05");
  EXPECT_EQ(Serialize(Value(123.456)), "123.456");
  EXPECT_EQ(Serialize(Value(5e-324)), "5e-324");
  EXPECT_EQ(Serialize(Value(std::numeric_limits<double>::quiet_NaN())), "null");
  EXPECT_EQ(Serialize(Value(-std::numeric_limits<float>::infinity())), "null");
}

TEST(JsonSerialize, RandomNumbersComeBackExactly) {
  constexpr uint64_t kSeed = 20260731;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 20'000; ++i) {
    const double d = std::bit_cast<double>(random());
    if (std::isfinite(d)) {
      EXPECT_EQ(std::bit_cast<uint64_t>(Parse(Serialize(Value(d)))->AsDouble()), std::bit_cast<uint64_t>(d));
    }
    const float f = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isfinite(f)) {
      EXPECT_EQ(static_cast<float>(Parse(Serialize(Value(f)))->AsDouble()), f);
    }
  }
}

TEST(JsonSerialize, Text) {
  EXPECT_EQ(Serialize(Value(std::string("a\"\\\b\f\n\r\t\x01\x7f\0é", 13))),
            "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\x7f\\u0000é\"");
  EXPECT_EQ(Serialize(Value("\xff"
                            "a\xe2\x82"
                            "b\xf0\x9f\x98\x80\xed\xa0\x80")),
            "\"\uFFFDa\uFFFDb😀\uFFFD\uFFFD\uFFFD\"");
}

TEST(JsonSerialize, Indented) {
  EXPECT_EQ(Serialize(*Parse(R"({"a":[1,{"b":[]}],"c":{}})"), 2),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}");
}

TEST(JsonWrite, EscapesTextsInPieces) {
  std::string text = "plain text of more than sixteen bytes, then \"\\\n\t\b\f\x01 and é🦀 to the end";
  std::string whole;
  AppendEscaped(text, &whole);
  EXPECT_EQ(whole,
            "plain text of more than sixteen bytes, then \\\"\\\\\\n\\t\\b\\f\\u0001 and é🦀 to the end");
  for (size_t step = 1; step < text.size(); ++step) {
    std::string pieces;
    for (size_t at = 0; at < text.size(); at += step)
      AppendEscaped(std::string_view(text).substr(at, step), &pieces);
    EXPECT_EQ(pieces, whole);
  }
}

TEST(JsonWrite, RepairsInvalidUtf8BetweenLongRuns) {
  const std::string run(40, 'a');
  std::string out;
  AppendQuoted(run + "\xFF" + run + "\xE2\x82" + "\"" + run + "\xF0\x9F\x9F", &out);
  EXPECT_EQ(out, "\"" + run + "\uFFFD" + run + "\uFFFD\\\"" + run + "\uFFFD\"");
}

}  // namespace
}  // namespace deepinfer::json
