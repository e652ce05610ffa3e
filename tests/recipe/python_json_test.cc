#include "recipe/python_json.h"

#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "recipe/json_document.h"

namespace deepinfer::recipe {
namespace {

std::string FromView(std::string_view text, NumberStyle style = NumberStyle::kRecipe) {
  const auto document = JsonDocument::Parse(text);
  if (!document.ok()) return document.status().ToString();
  std::string out;
  AppendPythonJson(document->root(), style, &out);
  return out;
}

std::string FromValue(std::string_view text) {
  const auto document = JsonDocument::Parse(text);
  return document.ok() ? PythonJson(document->root().ToValue()) : document.status().ToString();
}

TEST(PythonJson, Numbers) {
  // The vectors of recipe.md §14.3.
  const std::pair<const char*, const char*> vectors[] = {
      {"0", "0"},
      {"-0", "-0.0"},
      {"-0.0", "-0.0"},
      {"1", "1"},
      {"1e15", "1000000000000000.0"},
      {"18446744073709551616", "1.8446744073709552e+19"},
      {"-9223372036854775809", "-9.223372036854776e+18"},
      {"5e-324", "5e-324"},
      {"9007199254740993.0", "9007199254740992.0"},
      {"-1", "-1"},
      {"1.0", "1.0"},
      {"1e5", "100000.0"},
      {"1e16", "1e+16"},
      {"1.5e-7", "1.5e-07"},
      {"0.00001", "1e-05"},
      {"0.0001", "0.0001"},
      {"0.000123", "0.000123"},
      {"1e-10", "1e-10"},
      {"18446744073709551615", "18446744073709551615"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"3.14159", "3.14159"},
      {"123456789012345678901234567890", "1.2345678901234568e+29"},
      {"2.5e300", "2.5e+300"},
      {"1e-300", "1e-300"},
      {"0.1", "0.1"},
      {"100.0", "100.0"},
      {"1.7976931348623157e308", "1.7976931348623157e+308"},
      // Borders of the positional form, signs, many digits.
      {"9999999999999998.0", "9999999999999998.0"},
      {"-1e16", "-1e+16"},
      {"1.25e16", "1.25e+16"},
      {"-0.0001", "-0.0001"},
      {"-0.00012345678901234567", "-0.00012345678901234567"},
      {"0.1234567890123456789", "0.12345678901234568"},
      {"123456.789e3", "123456789.0"},
      {"1E400", "invalid JSON: number out of range (byte 0)"},
  };
  for (const auto& [text, expected] : vectors) {
    EXPECT_EQ(FromValue(text), expected) << text;
    EXPECT_EQ(FromView(text), expected) << text;
  }
}

TEST(PythonJson, NumbersAsPythonKeepsThem) {
  EXPECT_EQ(
      FromView("[-0,-0.0,18446744073709551616,123456789012345678901234567890,1e5,7]", NumberStyle::kPython),
      "[0, -0.0, 18446744073709551616, 123456789012345678901234567890, 100000.0, 7]");
}

TEST(PythonJson, NumbersThatAreNoJson) {
  std::string out;
  for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL}) AppendPythonDouble(value, &out);
  EXPECT_EQ(out, "NaNInfinity-Infinity");
}

TEST(PythonJson, Strings) {
  EXPECT_EQ(FromView(R"("a\"\\\/\n\r\t\b\f\u0000\u001f\u007f\u2028\u00e9é🦀")"),
            "\"a\\\"\\\\/\\n\\r\\t\\b\\f\\u0000\\u001f\x7f\u2028éé🦀\"");
  std::string text;
  for (int length = 0; length < 30; ++length) {
    std::string escaped;
    AppendPythonString(text + "\"" + text, &escaped);
    EXPECT_EQ(escaped, "\"" + text + "\\\"" + text + "\"");
    text += 'x';
  }
}

TEST(PythonJson, Containers) {
  const std::string_view text = R"({"b":[1,{"x":null,"a":true},[]],"a":{},"é":"ü","b2":[false]})";
  const std::string expected = R"({"b": [1, {"x": null, "a": true}, []], "a": {}, "é": "ü", "b2": [false]})";
  EXPECT_EQ(FromView(text), expected);
  EXPECT_EQ(FromValue(text), expected);
}

TEST(PythonJson, DuplicateKeys) {
  EXPECT_EQ(FromView(R"({"a":1,"b":{"x":1,"x":[2]},"a":3})"), R"({"a": 3, "b": {"x": [2]}})");
  EXPECT_EQ(FromValue(R"({"a":1,"b":{"x":1,"x":[2]},"a":3})"), R"({"a": 3, "b": {"x": [2]}})");
}

}  // namespace
}  // namespace deepinfer::recipe
