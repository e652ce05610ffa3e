// A conversation kept as a request body is the same conversation.
#include "recipe/chat_json.h"

#include <gtest/gtest.h>

#include "recipe/conversation_builder.h"
#include "recipe/json_lines.h"
#include "recipe/prompt.h"
#include "recipe/request_cases.h"

namespace deepinfer::recipe {
namespace {

using namespace testing;  // NOLINT: short spellings of conversations
using deepinfer::testing::Text;

RequestResult BackFrom(const Conversation& conversation, const RequestOptions& options) {
  json::Value body = ChatBody(conversation);
  body.Set("model", "DeepSeek-V4.1-Flash");
  return ParseRequest(Protocol::kChat, json::Serialize(body), options);
}

TEST(ChatJson, EveryChatGoldenIsTheSameAgain) {
  size_t count = 0;
  for (const json::Value& line : GoldenLines("prompts.jsonl")) {
    if (Text(line, "protocol") != "chat") continue;
    SCOPED_TRACE(Text(line, "id"));
    const RequestResult first = ParseGolden(line);
    ASSERT_TRUE(first.ok());
    const RequestResult second = BackFrom(first->conversation, GoldenOptions(line));
    ASSERT_TRUE(second.ok()) << second.error().message;
    const auto want = RenderPrompt(first->conversation), got = RenderPrompt(second->conversation);
    ASSERT_TRUE(want.ok() && got.ok());
    EXPECT_EQ(got->text, want->text);
    EXPECT_EQ(got->special, want->special);
    ASSERT_EQ(got->images.size(), want->images.size());
    for (size_t i = 0; i < want->images.size(); ++i) EXPECT_EQ(*got->images[i], *want->images[i]);
    EXPECT_EQ(second->parsing.stage, first->parsing.stage);
    EXPECT_EQ(second->parsing.tools, first->parsing.tools);
    EXPECT_EQ(second->parsing.json, first->parsing.json);
    EXPECT_EQ(json::Serialize(ChatBody(second->conversation)),
              json::Serialize(ChatBody(first->conversation)));
    ++count;
  }
  EXPECT_GT(count, 200U);
}

TEST(ChatJson, EveryKindOfMessage) {
  Conversation conversation;
  conversation.messages = {
      S("s"),       U("q"),       A("a", "r", {{"c1", "f", R"({"x": 1})"}, {"c2", "g", "no json"}}),
      T("c1", "1"), T("c2", "2"), R("brief"),
      A("b"),       U("e")};
  conversation.tools = {MakeTool("f", "d", json::Object{{"type", "object"}}), MakeTool("g")};
  conversation.effort = Effort{Effort::Name::kNumber, 37};
  EXPECT_EQ(
      json::Serialize(ChatBody(conversation)),
      R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"},)"
      R"({"role":"assistant","content":"a","reasoning_content":"r","tool_calls":[)"
      R"({"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}},)"
      R"({"id":"c2","type":"function","function":{"name":"g","arguments":"no json"}}]},)"
      R"({"role":"tool","content":"1","tool_call_id":"c1"},{"role":"tool","content":"2","tool_call_id":"c2"},)"
      R"({"role":"latest_reminder","content":"brief"},{"role":"assistant","content":"b"},)"
      R"({"role":"user","content":"e"}],)"
      R"("tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}},)"
      R"({"type":"function","function":{"name":"g"}}],)"
      R"("thinking":{"type":"enabled"},"reasoning_effort":37})");
}

TEST(ChatJson, PartsAroundImages) {
  const char* const bodies[] = {
      R"([{"type":"image_url","image_url":{"url":"http://a/b"}},{"type":"text","text":"x"}])",
      R"([{"type":"text","text":""},{"type":"image_url","image_url":{"url":"http://a/b"}},{"type":"text","text":""}])",
      R"([{"type":"text","text":"x\n\n"},{"type":"image_url","image_url":{"url":"http://a/b"}},)"
      R"({"type":"image_url","image_url":{"url":"http://a/c"}},{"type":"text","text":"\n\ny"},)"
      R"({"type":"image_url","image_url":{"url":"http://a/d"}}])",
      R"([{"type":"image_url","image_url":{"url":"http://a/b"}},{"type":"text","text":""},)"
      R"({"type":"image_url","image_url":{"url":"http://a/c"}}])"};
  for (const char* content : bodies) {
    const std::string body =
        std::string(R"({"model":"deepseek-flash","messages":[{"role":"user","content":)") + content + "}]}";
    const RequestResult first = ParseRequest(Protocol::kChat, body);
    ASSERT_TRUE(first.ok()) << first.error().message;
    const RequestResult second = BackFrom(first->conversation, {});
    ASSERT_TRUE(second.ok()) << second.error().message;
    EXPECT_EQ(std::get<UserMessage>(second->conversation.messages[0]).content,
              std::get<UserMessage>(first->conversation.messages[0]).content)
        << content;
  }
}

TEST(FindEffort, NamesAndNumbers) {
  const std::vector<std::pair<const char*, int>> good = {
      {"minimal", 50}, {"low", 50},    {"medium", 75}, {"high", 75}, {"xhigh", 75},
      {"max", 100},    {"ultra", 100}, {"1", 1},       {"37", 37},   {"100", 100}};
  for (const auto& [text, effort] : good) EXPECT_EQ(FindEffort(text)->number, effort) << text;
  for (const char* bad : {"0", "101", "-1", "", "1.5", "75 ", "High", "none", "99999999999"})
    EXPECT_FALSE(FindEffort(bad).has_value()) << bad;
}

TEST(DefaultEffort, HoldsWhereABodyNamesNone) {
  RequestOptions options;
  options.default_effort = {Effort::Name::kNumber, 37};
  const auto effort = [&](const std::string& fields) {
    const std::string body =
        R"({"model":"deepseek-flash","messages":[{"role":"user","content":"q"}])" + fields + "}";
    return ParseRequest(Protocol::kChat, body, options)->conversation.effort;
  };
  EXPECT_EQ(effort(""), (Effort{Effort::Name::kNumber, 37}));
  EXPECT_EQ(effort(R"(,"reasoning_effort":"max")"), (Effort{Effort::Name::kMax, 100}));
  EXPECT_EQ(effort(R"(,"thinking":{"type":"disabled"})"), std::nullopt);
}

}  // namespace
}  // namespace deepinfer::recipe
