// Schema rules of strict tools (spec: recipe.md §3.5). What the library does with each case was read off its prompts and errors.
#include "recipe/tool_schema.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "recipe/json_document.h"
#include "recipe/python_json.h"

namespace deepinfer::recipe {
namespace {

json::Value FromText(std::string_view text) {
  const auto document = JsonDocument::Parse(text);
  EXPECT_TRUE(document.ok()) << text;
  return document.ok() ? document->root().ToValue() : json::Value();
}

/// The normalised schema, or the message of the error. Normalising twice must change nothing.
std::string Normalized(std::string_view text) {
  const auto once = NormalizeStrictSchema(FromText(text));
  if (!once.ok()) {
    EXPECT_EQ(once.status().code(), StatusCode::kInvalidArgument);
    return once.status().message();
  }
  const auto twice = NormalizeStrictSchema(*once);
  EXPECT_EQ(twice.ok() ? PythonJson(*twice) : twice.status().message(), PythonJson(*once)) << text;
  return PythonJson(*once);
}

/// The same for a schema with one property `a`; without the frame around it when that is as expected.
std::string Property(std::string_view property) {
  const std::string result =
      Normalized(R"({"type":"object","properties":{"a":)" + std::string(property) + "}}");
  const std::string_view begin = R"({"type": "object", "properties": {"a": )";
  const std::string_view end = R"(}, "additionalProperties": false, "required": ["a"]})";
  if (!result.starts_with(begin) || !result.ends_with(end)) return result;
  return result.substr(begin.size(), result.size() - begin.size() - end.size());
}

TEST(StrictSchema, EmptyObjects) {
  const std::string empty =
      R"({"type": "object", "properties": {}, "additionalProperties": false, "required": []})";
  EXPECT_EQ(Normalized("null"), empty);
  EXPECT_EQ(Normalized(R"({"type":"object"})"), empty);
  EXPECT_EQ(Normalized(R"({"type":"object","properties":null,"required":[]})"), empty);
}

TEST(StrictSchema, MembersThatEachTypeKeepsInOrder) {
  EXPECT_EQ(
      Property(
          R"({"minLength":1,"enum":["x"],"format":"email","pattern":"^a","description":"d","type":"string",
                         "default":"x","title":"T","const":"c","items":5,"minimum":1})"),
      R"({"type": "string", "description": "d", "pattern": "^a", "format": "email", "enum": ["x"]})");
  EXPECT_EQ(
      Property(
          R"({"multipleOf":2,"exclusiveMaximum":4,"exclusiveMinimum":1,"maximum":9,"minimum":0,"enum":[1],
                         "default":2,"const":5,"description":"d","type":"integer"})"),
      R"({"type": "integer", "description": "d", "const": 5, "default": 2, "minimum": 0, "maximum": 9, "exclusiveMinimum": 1, )"
      R"("exclusiveMaximum": 4, "multipleOf": 2})");
  EXPECT_EQ(Property(R"({"type":"number","minimum":0,"maximum":1e30,"format":"float","pattern":"x"})"),
            R"({"type": "number", "minimum": 0, "maximum": 1e+30})");
  EXPECT_EQ(Property(R"({"type":"boolean","enum":[true],"description":"d"})"),
            R"({"type": "boolean", "description": "d"})");
  EXPECT_EQ(
      Property(R"({"type":"array","description":"d","maxItems":3,"items":{"type":"string","minLength":1}})"),
      R"({"type": "array", "items": {"type": "string"}, "description": "d"})");
  EXPECT_EQ(Property(R"({"type":["string","null"],"enum":["a"],"description":"d"})"),
            R"({"type": ["string", "null"], "description": "d"})");
  EXPECT_EQ(
      Property(
          R"({"title":"T","description":"d","anyOf":[{"type":"string","minLength":3},{"type":"null"}]})"),
      R"({"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d"})");
  EXPECT_EQ(Property(R"({"$ref":"#/$def/n","description":"d"})"), R"({"$ref": "#/$def/n"})");
  EXPECT_EQ(Property(R"({"type":"string","$ref":"#","anyOf":[]})"), R"({"type": "string"})");
  EXPECT_EQ(Property(R"({"description":null,"format":null,"enum":null,"type":"string"})"),
            R"({"type": "string"})");
}

TEST(StrictSchema, ObjectsAtEveryDepth) {
  const std::string inner =
      R"({"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": false, "required": ["x"]})";
  const std::string given =
      R"({"properties":{"x":{"type":"string","title":"t"}},"type":"object","required":["x"]})";
  EXPECT_EQ(Property(given), inner);
  EXPECT_EQ(Property(R"({"type":"array","items":)" + given + "}"),
            R"({"type": "array", "items": )" + inner + "}");
  EXPECT_EQ(Property(R"({"anyOf":[)" + given + "]}"), R"({"anyOf": [)" + inner + "]}");
  EXPECT_EQ(
      Normalized(
          R"({"type":"object","title":"T","description":"D","properties":{"b":{"type":"string"},"a":{"type":"null"}},
                           "required":["a","b"],"$def":{"n":)" +
          given + "}}"),
      R"({"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "null"}}, )"
      R"("additionalProperties": false, "required": ["b", "a"], "description": "D", "$def": {"n": )" +
          inner + "}}");
}

TEST(StrictSchema, DefinitionsOfJsonSchemaStay) {
  EXPECT_EQ(
      Normalized(R"({"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},
                           "definitions":{"m":{"type":"integer","title":"T"}},"$defs":{"n":{"oneOf":[1]}}})"),
      R"({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "additionalProperties": false, )"
      R"("required": ["a"], "$defs": {"n": {"oneOf": [1]}}, "definitions": {"m": {"type": "integer"}}})");
}

TEST(StrictSchema, Errors) {
  const std::string required = "Required properties must match all properties in the object";
  const std::string empty = "An object with no properties is not allowed.";
  const std::string missing =
      "Invalid tool parameters schema : one of `type`, `anyOf`, `$ref` field is required";
  for (const char* property :
       {"{}", "true", "null", R"({"enum":["x"]})", R"({"oneOf":[{"type":"string"}]})",
        R"({"type":"array","items":[{"type":"string"}]})", R"({"type":"array","items":{}})"}) {
    EXPECT_EQ(Property(property), missing) << property;
  }
  EXPECT_EQ(Normalized("{}"), missing);
  EXPECT_EQ(Property(R"({"type":"array"})"), "Invalid tool parameters schema : missing field `items`");
  EXPECT_EQ(Property(R"({"anyOf":[{"$ref":"#"}]})"),
            "Invalid tool parameters schema : field `anyOf`: missing field `type`");
  for (const char* property : {R"({"type":"object"})", R"({"type":"array","items":{"type":"object"}})",
                               R"({"anyOf":[{"type":"object","properties":{}}]})"}) {
    EXPECT_EQ(Property(property), empty) << property;
  }
  EXPECT_EQ(Property(R"({"type":"object","properties":{"x":{"type":"string"}},"required":[]})"), required);
  const std::string head = R"({"type":"object","properties":{"a":{"type":"string"}},)";
  EXPECT_EQ(Normalized(head + R"("required":[]})"), required);
  EXPECT_EQ(Normalized(head + R"("required":["a","b"]})"), "Required property 'b' not found in object");
  EXPECT_EQ(Normalized(head + R"("required":["a","a"]})"), "Duplicate required property 'a'");
  EXPECT_EQ(Normalized(head + R"("additionalProperties":true})"), "additionalProperties should not be true");
  // The shape of the whole comes first, then the inner objects.
  EXPECT_EQ(Normalized(R"({"type":"object","properties":{"a":{"type":"object"},"b":{}},"required":[]})"),
            missing);
  EXPECT_EQ(Normalized(R"({"type":"object","properties":{"a":{"type":"object"}},"required":[]})"), empty);
  EXPECT_EQ(Normalized(head + R"("additionalProperties":true,"required":[]})"), required);
}

TEST(StrictSchema, WrongShapes) {
  for (const char* property : {R"({"type":"foo"})",
                               R"({"type":5})",
                               R"({"type":null})",
                               R"({"type":["object"]})",
                               R"({"type":["string",5]})",
                               R"({"type":"string","description":5})",
                               R"({"type":"string","enum":["a",1]})",
                               R"({"type":"string","enum":"x"})",
                               R"({"type":"string","format":"date-time"})",
                               R"({"type":"string","pattern":5})",
                               R"({"type":"integer","minimum":1.5})",
                               R"({"type":"integer","maximum":9223372036854775808})",
                               R"({"type":"number","minimum":"x"})",
                               R"({"anyOf":5})",
                               R"({"anyOf":[5]})",
                               R"({"anyOf":[{"type":["string"]}]})",
                               R"({"$ref":5})",
                               R"({"type":"object","properties":[1]})",
                               R"({"type":"object","additionalProperties":{}})",
                               R"({"type":"object","required":"a"})",
                               R"({"type":"object","required":[5]})"}) {
    EXPECT_TRUE(Property(property).starts_with("Invalid tool parameters schema : ")) << property;
  }
}

TEST(StrictSchema, DepthIsLimited) {
  json::Value schema = json::Object{{"type", "string"}};
  for (int i = 0; i < 200; ++i) schema = json::Object{{"type", "array"}, {"items", std::move(schema)}};
  EXPECT_EQ(NormalizeStrictSchema(schema).status().code(), StatusCode::kInvalidArgument);
}

TEST(ToolSchema, Lines) {
  Tool tool{"f\"", std::nullopt, std::nullopt, true, false};
  std::string line;
  ASSERT_TRUE(AppendToolSchema(tool, &line).ok());
  EXPECT_EQ(line, R"({"name": "f\"", "description": "", "parameters": )" + Normalized("null") + "}");
  tool.parameters = FromText(R"({"type":"object","additionalProperties":true})");
  EXPECT_EQ(AppendToolSchema(tool, &line).where(), "f\"");
  tool.strict = false;
  line.clear();
  ASSERT_TRUE(AppendToolSchema(tool, &line).ok());
  EXPECT_EQ(
      line,
      R"({"name": "f\"", "description": "", "parameters": {"type": "object", "additionalProperties": true}})");
  line.clear();
  AppendToolAsGiven(tool, &line);
  EXPECT_EQ(
      line,
      R"({"name": "f\"", "parameters": {"type": "object", "additionalProperties": true}, "strict": false})");
}

}  // namespace
}  // namespace deepinfer::recipe
