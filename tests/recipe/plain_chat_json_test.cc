#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recipe/plain_chat.h"

namespace deepinfer::recipe::plain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

json::Value Parsed(std::string_view text) {
  auto value = json::Parse(text);
  EXPECT_TRUE(value.ok()) << value.status().ToString();
  return std::move(value).value();
}

Conversation Good(std::string_view text) {
  auto conversation = ParseConversation(Parsed(text));
  EXPECT_TRUE(conversation.ok()) << conversation.status().ToString();
  return conversation.ok() ? std::move(conversation).value() : Conversation{};
}

TEST(ConversationJson, ArrayOfMessages) {
  const Conversation c = Good(R"([{"role":"system","content":"s"},{"role":"user","content":"q"},
      {"role":"assistant","content":"a","reasoning_content":"r"},{"role":"user","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]}])");
  EXPECT_THAT(c.messages,
              ElementsAre(Message{Role::kSystem, "s", ""}, Message{Role::kUser, "q", ""},
                          Message{Role::kAssistant, "a", "r"}, Message{Role::kUser, "x\n\ny", ""}));
  EXPECT_EQ(c.thinking, std::nullopt);
  EXPECT_EQ(c.effort, std::nullopt);
}

TEST(ConversationJson, RoundTrip) {
  const std::vector<Message> messages = {
      {Role::kSystem, "s", ""}, {Role::kUser, "q\"\n", ""}, {Role::kAssistant, "a", "r"}};
  const auto back = ParseMessages(MessagesToJson(messages));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, messages);
}

TEST(ConversationJson, EmptySystemMessagesVanish) {
  const Conversation c = Good(R"([{"role":"system","content":""},{"role":"user","content":"q"}])");
  EXPECT_THAT(c.messages, ElementsAre(Message{Role::kUser, "q", ""}));
}

TEST(ConversationJson, BodyFields) {
  const Conversation c =
      Good(R"({"model":"m","reasoning_effort":"max","messages":[{"role":"user","content":"q"}],"top_p":0.5,
      "tools":[],"tool_choice":"required","response_format":{"type":"text"}})");
  EXPECT_EQ(c.effort, 100);
  EXPECT_EQ(c.thinking, true);
  EXPECT_THAT(c.other_fields, ElementsAre("model", "top_p"));
}

TEST(ConversationJson, ThinkingResolution) {
  const auto resolve = [](std::string_view fields) {
    const Conversation c =
        Good(std::string(R"({"messages":[{"role":"user","content":"q"}])") + std::string(fields) + "}");
    return std::make_pair(c.thinking, c.effort);
  };
  using Pair = std::pair<std::optional<bool>, std::optional<int>>;
  EXPECT_EQ(resolve(R"(,"thinking":{"type":"disabled"})"), (Pair{false, std::nullopt}));
  EXPECT_EQ(resolve(R"(,"thinking":{"type":"adaptive"},"reasoning_effort":"none")"),
            (Pair{true, std::nullopt}));
  EXPECT_EQ(resolve(R"(,"reasoning_effort":"none")"), (Pair{false, std::nullopt}));
  EXPECT_EQ(resolve(R"(,"reasoning_effort":"low","thinking":{"type":"disabled"})"), (Pair{false, 50}));
  EXPECT_EQ(resolve(R"(,"reasoning_effort":37)"), (Pair{true, 37}));
}

struct RejectCase {
  const char *name, *text, *where, *message;
};

class ConversationReject : public ::testing::TestWithParam<RejectCase> {};

TEST_P(ConversationReject, NamesTheField) {
  const auto result = ParseConversation(Parsed(GetParam().text));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(result.status().where(), GetParam().where);
  EXPECT_THAT(result.status().message(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, ConversationReject,
    ::testing::Values(
        RejectCase{"scalar", "3", "", "array of messages"},
        RejectCase{"no_messages", "{}", "messages", "missing"},
        RejectCase{"empty", "[]", "messages", "at least one"},
        RejectCase{"only_empty_system", R"([{"role":"system","content":""}])", "messages", "at least one"},
        RejectCase{"not_an_array", R"({"messages":{}})", "messages", "array"},
        RejectCase{"message_scalar", "[1]", "messages[0]", "object"},
        RejectCase{"no_role", R"([{"content":"q"}])", "messages[0].role", "role"},
        RejectCase{"unknown_role", R"([{"role":"developer","content":"q"}])", "messages[0].role",
                   "developer"},
        RejectCase{"tool_role", R"([{"role":"tool","content":"q"}])", "messages[0].role",
                   "tool results are not supported"},
        RejectCase{"no_content", R"([{"role":"user"}])", "messages[0].content", "content"},
        RejectCase{"null_content", R"([{"role":"assistant","content":null}])", "messages[0].content",
                   "content"},
        RejectCase{"tool_calls",
                   R"([{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[]}])",
                   "messages[1].tool_calls", "tool calls are not supported"},
        RejectCase{"prefix", R"([{"role":"assistant","content":"a","prefix":true}])", "messages[0].prefix",
                   "prefix"},
        RejectCase{"unknown_field", R"([{"role":"user","content":"q","nmae":"x"}])", "messages[0].nmae",
                   "nmae"},
        RejectCase{"user_reasoning", R"([{"role":"user","content":"q","reasoning_content":"x"}])",
                   "messages[0].reasoning_content", "user message"},
        RejectCase{"image", R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])",
                   "messages[0].content[0]", "images are not supported"},
        RejectCase{"part", R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0]",
                   "content part"},
        RejectCase{"tools", R"({"messages":[{"role":"user","content":"q"}],"tools":[{}]})", "tools",
                   "tools are not supported"},
        RejectCase{"response_format",
                   R"({"messages":[{"role":"user","content":"q"}],"response_format":{"type":"json_object"}})",
                   "response_format", "response formats are not supported"},
        RejectCase{"thinking", R"({"messages":[{"role":"user","content":"q"}],"thinking":{"type":"maybe"}})",
                   "thinking.type", "enabled"},
        RejectCase{"effort_name", R"({"messages":[{"role":"user","content":"q"}],"reasoning_effort":"hihg"})",
                   "reasoning_effort", "hihg"},
        RejectCase{"effort_101", R"({"messages":[{"role":"user","content":"q"}],"reasoning_effort":101})",
                   "reasoning_effort", "101"},
        RejectCase{"effort_fraction",
                   R"({"messages":[{"role":"user","content":"q"}],"reasoning_effort":75.5})",
                   "reasoning_effort", "integer"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ParseEffort, NamesAndNumbers) {
  const std::vector<std::pair<const char*, int>> good = {
      {"minimal", 50}, {"low", 50},    {"medium", 75}, {"high", 75}, {"xhigh", 75},
      {"max", 100},    {"ultra", 100}, {"1", 1},       {"37", 37},   {"100", 100}};
  for (const auto& [text, effort] : good) EXPECT_EQ(*ParseEffort(text), effort) << text;
  for (const char* bad : {"0", "101", "-1", "", "1.5", "75 ", "High", "none", "99999999999"}) {
    EXPECT_FALSE(ParseEffort(bad).ok()) << bad;
  }
}

TEST(ParseHistoryThinking, Names) {
  EXPECT_EQ(*ParseHistoryThinking("auto"), HistoryThinking::kAuto);
  EXPECT_EQ(*ParseHistoryThinking("keep"), HistoryThinking::kKeep);
  EXPECT_EQ(*ParseHistoryThinking("drop"), HistoryThinking::kDrop);
  EXPECT_FALSE(ParseHistoryThinking("always").ok());
}

}  // namespace
}  // namespace deepinfer::recipe::plain
