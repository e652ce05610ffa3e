#include "recipe/json_document.h"

#include <chrono>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"

namespace deepinfer::recipe {
namespace {

JsonDocument ParseOrDie(std::string_view text) {
  auto document = JsonDocument::Parse(text);
  EXPECT_TRUE(document.ok()) << text << ": " << document.status().ToString();
  return std::move(document).value();
}

/// The value written by the writer of base, or the error.
std::string RoundTrip(std::string_view text) {
  const auto document = JsonDocument::Parse(text);
  return document.ok() ? json::Serialize(document->root().ToValue()) : document.status().ToString();
}

std::string Nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
}

TEST(JsonDocument, ReadsEveryKindOfValue) {
  const std::string text =
      R"( {"a" : [1, -2, 18446744073709551615, 1.5, true, false, null, "x"], "b":{} , "c":[ ]} )";
  EXPECT_EQ(RoundTrip(text), R"({"a":[1,-2,18446744073709551615,1.5,true,false,null,"x"],"b":{},"c":[]})");
  for (const char* scalar : {"1", "\"x\"", "true", "false", "null", "-1.5e+300"}) {
    EXPECT_EQ(RoundTrip(scalar), json::Serialize(json::Parse(scalar).value())) << scalar;
  }
}

TEST(JsonDocument, IteratesInOrder) {
  const auto document = ParseOrDie(R"({"z":[[1,2],{"k":[]}],"a":2,"z":3})");
  std::string keys;
  for (const auto& [key, value] : document.root().members()) keys += key;
  EXPECT_EQ(keys, "zaz");
  EXPECT_EQ(document.root().size(), 3U);
  const JsonView first = (*document.root().members().begin()).second;
  std::vector<json::Type> types;
  for (const JsonView element : first.elements()) types.push_back(element.type());
  EXPECT_EQ(types, (std::vector{json::Type::kArray, json::Type::kObject}));
  EXPECT_EQ(first.size(), 2U);
  // Iterating over a value of another kind finds nothing.
  for (const auto& member : first.members()) FAIL() << member.first;
  for (const JsonView element : document.root().elements()) FAIL() << element.size();
}

TEST(JsonDocument, FindsTheLastOfEqualKeys) {
  const auto document = ParseOrDie(R"({"a":1,"b":{"a":9},"a":2})");
  int64_t number = 0;
  ASSERT_TRUE(document.root().Find("a")->GetInt64(&number));
  EXPECT_EQ(number, 2);
  EXPECT_FALSE(document.root().Find("c").has_value());
  EXPECT_FALSE(document.root().Find("a")->Find("a").has_value());
}

TEST(JsonDocument, DuplicateKeysKeepTheFirstPlaceAndTheLastValue) {
  EXPECT_EQ(RoundTrip(R"({"a":1,"b":2,"a":3,"c":4,"b":5,"a":6})"), R"({"a":6,"b":5,"c":4})");
  EXPECT_EQ(RoundTrip(R"({"a":1,"\u0061":2})"), R"({"a":2})");
}

TEST(JsonDocument, NumbersKeepTheirSpellingAndType) {
  struct Case {
    const char* text;
    json::Type type;
    double value;
  };
  const Case cases[] = {
      {"0", json::Type::kInt, 0},
      {"-0", json::Type::kDouble, -0.0},
      {"-0.0", json::Type::kDouble, -0.0},
      {"1.0", json::Type::kDouble, 1},
      {"9223372036854775807", json::Type::kInt, 9223372036854775807.0},
      {"9223372036854775808", json::Type::kUint, 9223372036854775808.0},
      {"18446744073709551615", json::Type::kUint, 18446744073709551615.0},
      {"18446744073709551616", json::Type::kDouble, 18446744073709551616.0},
      {"-9223372036854775808", json::Type::kInt, -9223372036854775808.0},
      {"-9223372036854775809", json::Type::kDouble, -9223372036854775808.0},
      {"1e5", json::Type::kDouble, 1e5},
      {"1.7976931348623157e308", json::Type::kDouble, 1.7976931348623157e308},
      {"5e-324", json::Type::kDouble, 5e-324},
      {"1e-400", json::Type::kDouble, 0.0},
      {"-1e-99999999999999999999999", json::Type::kDouble, -0.0},
      {"0e99999999999999999999999", json::Type::kDouble, 0.0},
  };
  for (const Case& c : cases) {
    const auto document = ParseOrDie(c.text);
    EXPECT_EQ(document.root().type(), c.type) << c.text;
    EXPECT_EQ(document.root().AsDouble(), c.value) << c.text;
    EXPECT_EQ(std::signbit(document.root().AsDouble()), std::signbit(c.value)) << c.text;
    EXPECT_EQ(document.root().NumberText(), c.text);
  }
  int64_t number = 0;
  uint64_t large = 0;
  EXPECT_FALSE(ParseOrDie("18446744073709551615").root().GetInt64(&number));
  EXPECT_TRUE(ParseOrDie("18446744073709551615").root().GetUint64(&large));
  EXPECT_EQ(large, UINT64_MAX);
  EXPECT_FALSE(ParseOrDie("-1").root().GetUint64(&large));
  EXPECT_FALSE(ParseOrDie("1.0").root().GetInt64(&number));
  EXPECT_FALSE(ParseOrDie("\"1\"").root().GetInt64(&number));
}

TEST(JsonDocument, NumbersBeyondTheRangeOfADoubleAreErrors) {
  for (const std::string& text :
       {std::string("1e400"), std::string("-1e400"), std::string("1e99999999999999999999999"),
        "1" + std::string(400, '0'), "0.001e" + std::string(30, '9')}) {
    EXPECT_EQ(RoundTrip("[" + text + "]"), "invalid JSON: number out of range (byte 1)") << text;
  }
}

TEST(JsonDocument, Unescapes) {
  const auto document = ParseOrDie(
      R"(["plain","\"\\\/\b\f\n\r\t","a\u0041\u00e9\u4f60\ud83d\ude00\u0000z","\\","x\\\"y","\u0001"])");
  std::vector<std::string_view> texts;
  for (const JsonView element : document.root().elements()) texts.push_back(element.AsString());
  EXPECT_EQ(texts,
            (std::vector<std::string_view>{"plain", "\"\\/\b\f\n\r\t", std::string_view("aAé你😀\0z", 13),
                                           "\\", "x\\\"y", "\x01"}));
}

TEST(JsonDocument, PlainStringsAreViewsOfTheText) {
  const std::string text = R"(["abc","d\ne"])";
  const auto document = ParseOrDie(text);
  const JsonView plain = *document.root().elements().begin();
  EXPECT_EQ(plain.AsString().data(), text.data() + 2);
}

TEST(JsonDocument, StopBytesAreFoundAtEveryPlace) {
  for (size_t length = 0; length < 40; ++length) {
    for (const std::string_view stop : {"\\n", "\\u00e9", "\"", "\n", "\x1f"}) {
      for (const std::string_view filler : {"a", "\x7f", "!"}) {
        std::string content;
        for (size_t i = 0; i < length; ++i) content += filler;
        const std::string text = "[\"" + content + std::string(stop) + "\"]";
        const auto document = JsonDocument::Parse(text);
        EXPECT_EQ(document.ok(), stop[0] == '\\') << text;
        if (!document.ok()) continue;
        const std::string expected = content + (stop == "\\n" ? "\n" : "é");
        EXPECT_EQ((*document->root().elements().begin()).AsString(), expected);
      }
    }
  }
}

TEST(JsonDocument, RejectsWhatIsNoJson) {
  const std::string_view texts[] = {"",
                                    " ",
                                    "{",
                                    "[",
                                    "]",
                                    "}",
                                    "[1,]",
                                    "[,1]",
                                    "[1 2]",
                                    "{\"a\"}",
                                    "{\"a\":}",
                                    "{\"a\":1,}",
                                    "{a:1}",
                                    "{1:2}",
                                    "[1}",
                                    "{\"a\":1]",
                                    "1 2",
                                    "[] []",
                                    "tru",
                                    "truex",
                                    "nul",
                                    "NaN",
                                    "Infinity",
                                    "-",
                                    "+1",
                                    "01",
                                    "-01",
                                    "1.",
                                    ".5",
                                    "1e",
                                    "1e+",
                                    "1.e5",
                                    "0x10",
                                    "1_000",
                                    "'a'",
                                    "\"a",
                                    "\"\\",
                                    "\"\\\"",
                                    "\"\\x41\"",
                                    "\"\\u12\"",
                                    "\"\\u12g4\"",
                                    "\"\\ud800\"",
                                    "\"\\udc00\"",
                                    "\"\\ud800\\u0041\"",
                                    "\"\\ud800\\ud800\"",
                                    "\"\\ud83d\\\"",
                                    "\"a\tb\"",
                                    "\"a\nb\"",
                                    "[\"a\"x]",
                                    "[\"a\"\"b\"]",
                                    "[1\"a\"]",
                                    "\xEF\xBB\xBF{}",
                                    "/**/1",
                                    "[1]//",
                                    "\f1",
                                    "\x1a",
                                    "{\"a\"::1}",
                                    "{\"a\" \"b\"}",
                                    "{,}",
                                    "[[]",
                                    "{\"\\ud800\":1}"};
  for (const std::string_view text : texts) {
    const auto document = JsonDocument::Parse(text);
    ASSERT_FALSE(document.ok()) << text;
    EXPECT_EQ(document.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(document.status().where().starts_with("byte ")) << text;
  }
  EXPECT_FALSE(JsonDocument::Parse(std::string_view("1\0", 2)).ok());
  EXPECT_FALSE(JsonDocument::Parse(std::string_view("\"\0\"", 3)).ok());
}

TEST(JsonDocument, NamesTheByte) {
  EXPECT_EQ(RoundTrip(R"({"a":[1,x]})"), "invalid JSON: not a value (byte 8)");
  EXPECT_EQ(RoundTrip("[\"ab\xFF\"]"), "invalid JSON: not UTF-8 (byte 4)");
  EXPECT_EQ(RoundTrip(R"(["a\ud800"])"), "invalid JSON: half of a surrogate pair (byte 3)");
}

TEST(JsonDocument, EveryCutOfADocumentIsRejected) {
  const std::string text =
      R"({"messages":[{"role":"user","content":"a\u00e9\n","n":[-1.5e3,true,null]}],"x":{}})";
  ASSERT_TRUE(JsonDocument::Parse(text).ok());
  for (size_t length = 0; length < text.size(); ++length) {
    // A copy of its own, so that a read past the end is seen by the sanitizers.
    const std::string cut(text.data(), length);
    EXPECT_FALSE(JsonDocument::Parse(cut).ok()) << cut;
  }
}

TEST(JsonDocument, DepthIsLimited) {
  EXPECT_TRUE(JsonDocument::Parse(Nested(127)).ok());
  EXPECT_EQ(RoundTrip(Nested(128)), "invalid JSON: nested deeper than 127 levels (byte 127)");
  JsonLimits limits;
  limits.max_depth = 2;
  EXPECT_TRUE(JsonDocument::Parse(R"({"a":[1]})", limits).ok());
  EXPECT_FALSE(JsonDocument::Parse(R"({"a":[[]]})", limits).ok());
}

TEST(JsonDocument, SizesAreLimited) {
  JsonLimits limits;
  limits.max_values = 4;
  EXPECT_TRUE(JsonDocument::Parse("[1,2,3]", limits).ok());
  EXPECT_EQ(JsonDocument::Parse("[1,2,3,4]", limits).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(JsonDocument::Parse(R"({"a":1,"b":2})", limits).status().code(), StatusCode::kResourceExhausted);
  limits.max_bytes = 6;
  EXPECT_EQ(JsonDocument::Parse("[1,2,3]", limits).status().code(), StatusCode::kResourceExhausted);
}

TEST(JsonDocument, ManyEqualKeysTakeNoQuadraticTime) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += i % 2 == 0 ? "\"k\":1," : "\"k" + std::to_string(i) + "\":1,";
  text += "\"k\":2}";
  const auto begin = std::chrono::steady_clock::now();
  const json::Value value = ParseOrDie(text).root().ToValue();
  EXPECT_EQ(value.AsObject().size(), 100'001U);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(JsonDocument, AgreesWithTheParserOfBase) {
  // Every text of up to five bytes over an alphabet that makes most of the grammar.
  const std::string_view alphabet = "{}[]:,\"1-0.e";
  std::vector<std::string> texts = {""};
  size_t accepted = 0, compared = 0;
  for (size_t length = 1; length <= 5; ++length) {
    std::vector<std::string> longer;
    longer.reserve(texts.size() * alphabet.size());
    for (const std::string& text : texts) {
      for (const char c : alphabet) longer.push_back(text + c);
    }
    texts = std::move(longer);
    for (const std::string& text : texts) {
      const auto ours = JsonDocument::Parse(text);
      const auto base = json::Parse(text);
      ASSERT_EQ(ours.ok(), base.ok()) << text;
      accepted += ours.ok() ? 1 : 0;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 271'452U);
  EXPECT_GT(accepted, 400U);
}

}  // namespace
}  // namespace deepinfer::recipe
