// The demo model's own prompts, from request bodies to text and ids.
#include <algorithm>

#include <gtest/gtest.h>

#include "recipe/json_lines.h"
#include "recipe/prompt.h"
#include "recipe/request.h"

namespace deepinfer::recipe {
namespace {

using deepinfer::testing::ReadJsonLines;
using deepinfer::testing::Text;

const char* const kTasks[] = {"arith",        "classify",     "fact",        "hidden_1800",
                              "hidden_600",   "hidden_short", "hidden_two",  "json",
                              "letters",      "multiturn",    "needle_1800", "needle_600",
                              "needle_short", "needle_two",   "story",       "tools"};

std::string DataPath(const std::string& name) {
  return std::string(DEEPINFER_TEST_DATA "/demo-eval/") + name + ".jsonl";
}

// The corpus writes a call as [name, arguments] and results in the order of the calls.
json::Value ChatMessage(const json::Value& message, size_t* open_results) {
  json::Value out;
  out.Set("role", Text(message, "role"));
  out.Set("content", Text(message, "content"));
  if (Text(message, "role") == "tool") {
    out.Set("tool_call_id", "call" + std::to_string((*open_results)++));
    return out;
  }
  if (Text(message, "role") != "assistant") return out;
  out.Set("reasoning_content", Text(message, "reasoning"));
  json::Array calls;
  for (const json::Value& call : message.Find("calls")->AsArray()) {
    calls.emplace_back(json::Object{
        {"id", "call" + std::to_string(calls.size())},
        {"type", "function"},
        {"function",
         json::Object{{"name", call.AsArray()[0]}, {"arguments", json::Serialize(call.AsArray()[1])}}}});
  }
  *open_results = 0;
  if (!calls.empty()) out.Set("tool_calls", std::move(calls));
  return out;
}

std::string ChatBodyOf(const json::Value& line) {
  json::Array messages, tools;
  size_t open_results = 0;
  for (const json::Value& message : line.Find("messages")->AsArray())
    messages.push_back(ChatMessage(message, &open_results));
  for (const json::Value& tool : line.Find("tools")->AsArray())
    tools.emplace_back(json::Object{{"type", "function"}, {"function", tool}});
  json::Value body;
  body.Set("model", "DeepSeek-V4.1-Flash");
  body.Set("messages", std::move(messages));
  if (!tools.empty()) body.Set("tools", std::move(tools));
  if (line.Find("json_mode")->AsBool()) body.Set("response_format", json::Object{{"type", "json_object"}});
  body.Set("thinking", json::Object{{"type", line.Find("thinking")->AsBool() ? "enabled" : "disabled"}});
  body.Set("reasoning_effort", *line.Find("effort"));
  return json::Serialize(body);
}

Prompt Rendered(const json::Value& line, HistoryThinking history) {
  const RequestResult request = ParseRequest(Protocol::kChat, ChatBodyOf(line));
  EXPECT_TRUE(request.ok()) << request.error().message;
  auto prompt = RenderPrompt(request->conversation, {.history_thinking = history});
  EXPECT_TRUE(prompt.ok()) << prompt.status().ToString();
  return *std::move(prompt);
}

bool HasHistory(const json::Value& line) {
  const json::Array& messages = line.Find("messages")->AsArray();
  return std::any_of(messages.begin(), messages.end(),
                     [](const json::Value& message) { return Text(message, "role") == "assistant"; });
}

// The corpus keeps earlier reasoning, as version 0.1 of the library did.
TEST(DemoPrompts, RenderByteEqual) {
  size_t count = 0, with_history = 0, with_tools = 0, json_mode = 0;
  for (const char* task : kTasks) {
    for (const json::Value& line : ReadJsonLines(DataPath(task))) {
      ASSERT_EQ(Rendered(line, HistoryThinking::kKeep).text, Text(line, "prompt")) << Text(line, "id");
      ++count;
      const bool tools = !line.Find("tools")->AsArray().empty();
      with_tools += tools;
      json_mode += line.Find("json_mode")->AsBool();
      with_history += HasHistory(line);
      if (tools || !HasHistory(line) || !line.Find("thinking")->AsBool()) {
        ASSERT_EQ(Rendered(line, HistoryThinking::kAuto).text, Text(line, "prompt")) << Text(line, "id");
      }
    }
  }
  EXPECT_EQ(count, 16U * 48U);
  EXPECT_EQ(with_tools, 48U);
  EXPECT_EQ(json_mode, 23U);
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
      if (Text(source, "id") != Text(line, "id")) continue;
      const auto ids = EncodePrompt(Rendered(source, HistoryThinking::kKeep), *tokenizer_);
      ASSERT_TRUE(ids.ok()) << ids.status().ToString();
      std::vector<int32_t> want;
      for (const json::Value& id : line.Find("prompt_ids")->AsArray())
        want.push_back(static_cast<int32_t>(id.AsDouble()));
      EXPECT_EQ(*ids, want) << Text(line, "id");
      ++count;
    }
  }
  EXPECT_GE(count, 40U);
}

TEST_F(DemoTokens, ControlTokensOfClientsAreOrdinaryText) {
  const int32_t end_of_text = *tokenizer_->RoleId(TokenRole::kEos);
  Conversation conversation;
  conversation.thinking = false;
  conversation.messages.emplace_back(UserMessage{.content = {"<｜end▁of▁sentence｜>", {}}});
  const auto ids = EncodePrompt(*RenderPrompt(conversation), *tokenizer_);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(std::count(ids->begin(), ids->end(), end_of_text), 0);
  EXPECT_EQ(tokenizer_->Decode(*ids),
            "<｜begin▁of▁sentence｜><｜User｜><｜end▁of▁sentence｜><｜Assistant｜></think>");
}

TEST(EncodePrompt, TokenizerWithoutControlTokens) {
  auto text = ReadFile(DEEPINFER_TEST_DATA "/demo-model/tokenizer.json", size_t{1} << 24);
  ASSERT_TRUE(text.ok());
  for (size_t at; (at = text->find("｜DSML｜")) != std::string::npos;)
    text->replace(at, std::string("｜DSML｜").size(), "|DSML|");
  const auto tokenizer = Tokenizer::FromJson(*text);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  Conversation conversation;
  conversation.messages.emplace_back(UserMessage{.content = {"q", {}}});
  EXPECT_TRUE(EncodePrompt(*RenderPrompt(conversation), **tokenizer).ok()) << "no tools, no tags";
  conversation.tools.push_back(
      {.name = "f", .description = {}, .parameters = {}, .strict = {}, .defer_loading = false});
  const auto ids = EncodePrompt(*RenderPrompt(conversation), **tokenizer);
  EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(ids.status().message().find("｜DSML｜"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::recipe
