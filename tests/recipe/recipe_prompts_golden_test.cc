// Every line of prompts.jsonl: request body to prompt, control tokens, ids and images.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "recipe/json_lines.h"
#include "recipe/prompt.h"
#include "recipe/request_cases.h"
#include "tokenizer/test_tokenizers.h"

namespace deepinfer::recipe {
namespace {

using testing::Text;

std::vector<int32_t> Ids(const json::Value& array) {
  std::vector<int32_t> ids;
  for (const json::Value& element : array.AsArray()) {
    int64_t id = -1;
    EXPECT_TRUE(element.GetInt64(&id));
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

json::Value RangesJson(const Prompt& prompt) {
  json::Array ranges;
  for (const auto& [begin, end] : SpecialCodePoints(prompt)) {
    ranges.emplace_back(json::Array{static_cast<int64_t>(begin), static_cast<int64_t>(end)});
  }
  return ranges;
}

/// Places of the images, in the order of the prompt.
std::vector<std::string> ImagePaths(const Prompt& prompt) {
  std::vector<std::string> paths;
  for (const ImageSource* image : prompt.images) paths.push_back(image->path);
  return paths;
}

std::vector<std::string> ImagePaths(const json::Value* images) {
  std::vector<std::string> paths;
  if (images == nullptr) return paths;
  for (const json::Value& image : images->AsArray()) paths.push_back(Text(image, "path"));
  return paths;
}

TEST(PromptGoldens, EveryLine) {
  const auto lines = GoldenLines("prompts.jsonl");
  ASSERT_EQ(lines.size(), 548U);
  const auto tokenizer = testing::V41Tokenizer();
  size_t with_ids = 0, with_ranges = 0, with_images = 0;
  for (const json::Value& line : lines) {
    SCOPED_TRACE(Text(line, "id") + " " + Text(line, "body").substr(0, 600));
    const RequestResult request = ParseGolden(line);
    if (!request.ok()) {
      ADD_FAILURE() << request.error().message;
      continue;
    }
    const PromptOptions options{.profile = *FindPromptProfile(Text(line, "profile"))};
    const Result<Prompt> prompt = RenderPrompt(request->conversation, options);
    ASSERT_TRUE(prompt.ok()) << prompt.status().ToString();
    EXPECT_EQ(prompt->text, Expected(line, "prompt")->AsString());
    const json::Value* images = line.Find("images");
    with_images += images != nullptr ? 1 : 0;
    EXPECT_EQ(ImagePaths(*prompt), ImagePaths(images));

    const json::Value* ours = line.Find("ours");
    const bool other_text = ours != nullptr && ours->Find("prompt") != nullptr;
    if (!other_text) {
      ++with_ranges;
      EXPECT_EQ(json::Serialize(RangesJson(*prompt)), json::Serialize(*line.Find("special")));
    }
    const json::Value* ids = other_text ? ours->Find("ids") : line.Find("ids");
    if (ids == nullptr) continue;
    ++with_ids;
    const auto encoded = EncodePrompt(*prompt, *tokenizer);
    ASSERT_TRUE(encoded.ok()) << encoded.status().ToString();
    EXPECT_EQ(*encoded, Ids(*ids));
  }
  // 17 lines of V4 have no ids; four of ours have another text, one of them with ids.
  EXPECT_EQ(with_ids, 548U - 17 - 3);
  EXPECT_EQ(with_ranges, 548U - 4);
  EXPECT_GT(with_images, 20U);
}

}  // namespace
}  // namespace deepinfer::recipe
