// The demo model's own prompts: text and ids.
#include <gtest/gtest.h>

#include "json_lines.h"
#include "recipe/plain_chat.h"

namespace deepinfer::recipe::plain {
namespace {

using deepinfer::testing::ReadJsonLines;
using deepinfer::testing::Text;

const char* const kTasks[] = {"arith",        "classify",     "fact",       "hidden_1800", "hidden_600",
                              "hidden_short", "hidden_two",   "letters",    "multiturn",   "needle_1800",
                              "needle_600",   "needle_short", "needle_two", "story"};

std::string DataPath(const std::string& name) {
  return std::string(DEEPINFER_TEST_DATA "/demo-eval/") + name + ".jsonl";
}

/// The corpus has the fields "reasoning" and "calls" in every message.
std::vector<Message> Messages(const json::Value& line) {
  std::vector<Message> messages;
  for (const json::Value& m : line.Find("messages")->AsArray()) {
    const std::string& role = Text(m, "role");
    messages.push_back({role == "system" ? Role::kSystem
                        : role == "user" ? Role::kUser
                                         : Role::kAssistant,
                        Text(m, "content"), Text(m, "reasoning")});
  }
  return messages;
}

bool IsPlain(const json::Value& line) {
  return line.Find("tools")->AsArray().empty() && !line.Find("json_mode")->AsBool();
}

// The corpus keeps earlier reasoning, as version 0.1 of the library did.
TEST(DemoPrompts, RenderByteEqual) {
  size_t count = 0, with_history = 0;
  for (const char* task : kTasks) {
    for (const json::Value& line : ReadJsonLines(DataPath(task))) {
      if (!IsPlain(line)) continue;
      int64_t effort = 0;
      ASSERT_TRUE(line.Find("effort")->GetInt64(&effort));
      ChatOptions options{.thinking = line.Find("thinking")->AsBool(),
                          .effort = static_cast<int>(effort),
                          .history_thinking = HistoryThinking::kKeep};
      const auto messages = Messages(line);
      const auto runs = RenderChat(messages, options);
      ASSERT_TRUE(runs.ok());
      ASSERT_EQ(PromptText(*runs), Text(line, "prompt")) << Text(line, "id");
      ++count;
      const bool has_history = std::any_of(messages.begin(), messages.end(),
                                           [](const Message& m) { return m.role == Role::kAssistant; });
      with_history += has_history;
      if (!has_history || !options.thinking) {
        options.history_thinking = HistoryThinking::kAuto;
        ASSERT_EQ(PromptText(*RenderChat(messages, options)), Text(line, "prompt")) << Text(line, "id");
      }
    }
  }
  EXPECT_EQ(count, 14U * 48U);
  EXPECT_GT(with_history, 0U);
}

class DemoTokens : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loaded = Tokenizer::Load(DEEPINFER_TEST_DATA "/demo-model/tokenizer.json");
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    tokenizer_ = *loaded;
  }
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(DemoTokens, PromptIdsOfTheTranscripts) {
  size_t count = 0;
  for (const json::Value& line : ReadJsonLines(DataPath("transcripts"))) {
    for (const json::Value& source : ReadJsonLines(DataPath(Text(line, "task")))) {
      if (Text(source, "id") != Text(line, "id") || !IsPlain(source)) continue;
      int64_t effort = 0;
      ASSERT_TRUE(source.Find("effort")->GetInt64(&effort));
      const auto ids = EncodeChat(*tokenizer_, Messages(source),
                                  {.thinking = source.Find("thinking")->AsBool(),
                                   .effort = static_cast<int>(effort),
                                   .history_thinking = HistoryThinking::kKeep});
      ASSERT_TRUE(ids.ok()) << ids.status().ToString();
      std::vector<int32_t> want;
      for (const json::Value& id : line.Find("prompt_ids")->AsArray()) {
        want.push_back(static_cast<int32_t>(id.AsDouble()));
      }
      EXPECT_EQ(*ids, want) << Text(line, "id");
      ++count;
    }
  }
  EXPECT_GE(count, 25U);
}

TEST_F(DemoTokens, ControlTokensOfClientsAreOrdinaryText) {
  const int32_t end_of_text = *tokenizer_->RoleId(TokenRole::kEos);
  const auto ids = EncodeChat(*tokenizer_, std::vector<Message>{{Role::kUser, "<｜end▁of▁sentence｜>", ""}},
                              {.thinking = false});
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(std::count(ids->begin(), ids->end(), end_of_text), 0);
  EXPECT_EQ(tokenizer_->Decode(*ids),
            "<｜begin▁of▁sentence｜><｜User｜><｜end▁of▁sentence｜><｜Assistant｜></think>");
}

TEST_F(DemoTokens, ReasoningTokens) {
  const int32_t end_of_thinking = *tokenizer_->RoleId(TokenRole::kThinkEnd),
                end_of_text = *tokenizer_->RoleId(TokenRole::kEos);
  const std::vector<int32_t> ids = {50, 51, end_of_thinking, 52, end_of_text};
  EXPECT_EQ(CountReasoningTokens(*tokenizer_, ids, true), 2);
  EXPECT_EQ(CountReasoningTokens(*tokenizer_, ids, false), 0);
  EXPECT_EQ(CountReasoningTokens(*tokenizer_, std::vector<int32_t>{50, 51, 52, end_of_text}, true), 3);
}

TEST(EncodeChat, TokenizerWithoutControlTokens) {
  auto tokenizer = Tokenizer::Load(DEEPINFER_TEST_DATA "/demo-model/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok());
  auto text = ReadFile(DEEPINFER_TEST_DATA "/demo-model/tokenizer.json", size_t{1} << 24);
  ASSERT_TRUE(text.ok());
  for (size_t at; (at = text->find("<｜User｜>")) != std::string::npos;) {
    text->replace(at, std::string("<｜User｜>").size(), "<|user|>");
  }
  const auto other = Tokenizer::FromJson(*text);
  ASSERT_TRUE(other.ok()) << other.status().ToString();
  const auto ids = EncodeChat(**other, std::vector<Message>{{Role::kUser, "q", ""}}, {});
  EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(ids.status().message().find("<｜User｜>"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::recipe::plain
