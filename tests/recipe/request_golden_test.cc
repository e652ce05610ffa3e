// The settings of every line of prompts.jsonl: thinking, effort, parser, sampling, constraint, stream, images.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "recipe/json_lines.h"
#include "recipe/request_cases.h"
#include "recipe/request_json.h"

namespace deepinfer::recipe {
namespace {

using testing::Text;

// The package leaves out a seed of 0; numbers have six decimals.
json::Value Comparable(const json::Value& inference) {
  json::Object out;
  for (const auto& [key, value] : inference.AsObject()) {
    if (key == "seed" && value.is_integer() && value.AsDouble() == 0) continue;
    const bool rounded = key == "temperature" || key == "top_p";
    out.emplace_back(key, rounded ? json::Value(std::round(value.AsDouble() * 1e6) / 1e6) : value);
  }
  return out;
}

// The package drops the definitions of a strict schema, here as in the prompt; ours keeps them (spec: recipe.md §17 D6).
bool KeepsDefinitions(const json::Value& line) {
  const std::string& body = Text(line, "body");
  return body.find("\"strict\": true") != std::string::npos && body.find("\"$defs\"") != std::string::npos;
}

// The prompt orders results by their calls; here only the sources are compared.
json::Value Sorted(json::Array images) {
  std::sort(images.begin(), images.end(), [](const json::Value& a, const json::Value& b) {
    return json::Serialize(a) < json::Serialize(b);
  });
  return images;
}

json::Value ImagesJson(const Conversation& conversation) {
  json::Array images;
  const auto add = [&](const Content& content) {
    for (const Content::Image& image : content.images) images.push_back(ImageJson(image.source));
  };
  for (const Message& message : conversation.messages) {
    if (const auto* system = std::get_if<SystemMessage>(&message)) add(system->content);
    if (const auto* user = std::get_if<UserMessage>(&message)) add(user->content);
    if (const auto* tool = std::get_if<ToolMessage>(&message)) add(tool->content);
  }
  return Sorted(std::move(images));
}

TEST(RequestGolden, SettingsOfEveryPrompt) {
  const auto lines = GoldenLines("prompts.jsonl");
  ASSERT_EQ(lines.size(), 548U);
  size_t kept_definitions = 0;
  for (const json::Value& line : lines) {
    SCOPED_TRACE(Text(line, "id") + " " + Text(line, "body").substr(0, 600));
    const RequestResult result = ParseGolden(line);
    if (!result.ok()) {
      ADD_FAILURE() << result.error().message;
      continue;
    }
    EXPECT_EQ(result->model_version == ModelVersion::kV4Pro, Text(line, "profile") == "v4");
    json::Object settings;
    AppendSettings(*result, &settings);
    for (const auto& [key, value] : settings) {
      const json::Value& expected = *Expected(line, key);
      const bool sampling = key == "inference";
      if (sampling && KeepsDefinitions(line)) {
        ++kept_definitions;
        EXPECT_NE(result->inference.constraint->text.find(R"("$defs":{"n":{"type":"string"}})"),
                  std::string::npos);
        continue;
      }
      EXPECT_EQ(json::Serialize(sampling ? Comparable(value) : value),
                json::Serialize(sampling ? Comparable(expected) : expected))
          << key;
    }
    const json::Value* images = line.Find("images");
    EXPECT_EQ(json::Serialize(ImagesJson(result->conversation)),
              images == nullptr ? "[]" : json::Serialize(Sorted(images->AsArray())));
  }
  EXPECT_EQ(kept_definitions, 1U);
}

}  // namespace
}  // namespace deepinfer::recipe
