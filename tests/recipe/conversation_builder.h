// Short spellings of conversations, as the vectors of recipe.md §4 are written.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recipe/conversation.h"

namespace deepinfer::recipe::testing {

inline Message S(std::string text) { return SystemMessage{{std::move(text), {}}, {}, {}}; }
inline Message U(std::string text, Task task = Task::kNone, std::string url = {}) {
  return UserMessage{{std::move(text), {}}, task, std::move(url)};
}
inline Message R(std::string text) { return LatestReminder{std::move(text)}; }
inline Message T(std::string id, std::string text) {
  return ToolMessage{{std::move(text), {}}, std::move(id)};
}
inline Message A(std::string text, std::optional<std::string> reasoning = {},
                 std::vector<ToolCall> calls = {}) {
  return AssistantMessage{std::move(text), std::move(reasoning), std::move(calls), false, Task::kNone};
}
inline Message Prefix(std::string text, std::optional<std::string> reasoning = {}) {
  return AssistantMessage{std::move(text), std::move(reasoning), {}, true, Task::kNone};
}

/// A text with images at these offsets.
inline Content WithImages(std::string text, std::initializer_list<size_t> offsets) {
  Content content{std::move(text), {}};
  for (const size_t offset : offsets) content.images.push_back({offset, {}});
  return content;
}

inline Tool MakeTool(std::string name, std::optional<std::string> description = {},
                     std::optional<json::Value> parameters = {}) {
  return Tool{std::move(name), std::move(description), std::move(parameters), std::nullopt, false};
}

/// The tool `w` of the vectors.
inline Tool W() { return MakeTool("w", "d", json::Value(json::Object{{"type", "object"}})); }

struct TalkSetup {
  bool thinking = true;
  std::vector<Tool> tools = {};
  ToolChoice choice = ToolChoice::kAuto;
  std::optional<Effort> effort = std::nullopt;
  ResponseFormat format = {};
};

inline Conversation Talk(std::vector<Message> messages, TalkSetup setup = {}) {
  Conversation conversation;
  conversation.messages = std::move(messages);
  conversation.thinking = setup.thinking;
  conversation.tools = std::move(setup.tools);
  conversation.tool_choice = setup.choice;
  conversation.effort = setup.effort;
  conversation.response_format = std::move(setup.format);
  return conversation;
}

}  // namespace deepinfer::recipe::testing
