// Parts of prompts that several profiles share. Internal to the recipe module.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "recipe/conversation.h"
#include "recipe/prompt.h"

namespace deepinfer::recipe::internal {

/// Appends to a Prompt.
class PromptWriter {
 public:
  explicit PromptWriter(PromptProfile profile) : profile_(profile) {}

  /// Makes room for a text of about this size.
  void Reserve(size_t bytes) { prompt_.text.reserve(bytes); }
  void Token(TokenRole role) { Special(role, TokenRoleText(role)); }
  /// Text without control tokens.
  void Text(std::string_view text) { prompt_.text += text; }
  /// A text of ours whose `<think>`, `</think>` and `｜DSML｜` are control tokens. Tags are spelled as in V4.1; the V4 profile writes
  /// its own spelling.
  void Template(std::string_view text);
  /// Text and images.
  void Write(const Content& content);
  /// `<tool_result>…</tool_result>`
  void ToolResult(const Content& content);
  /// The block of calls, without anything in front (spec: recipe.md §3.6).
  void Calls(const std::vector<ToolCall>& calls);
  /// What opens the block when a call is forced.
  void CallsPrefill() { Template("\n\n<｜DSML｜ calls>\n"); }

  /// TOOLS with a line for each tool that is not deferred; nothing when there is none. Starts with an empty line.
  Status Tools(const std::vector<Tool>& tools);
  /// FORMAT, after an empty line; nothing for formats without a text (spec: recipe.md §3.7).
  void Format(const ResponseFormat& format);
  /// The schemas of deferred tools that a turn loads (spec: recipe.md §3.5).
  Status LoadedTools(const std::vector<std::string>& names, const std::vector<Tool>& declared);
  /// The line at the start of the first turn in thinking mode (spec: recipe.md §3.7).
  void EffortText(const Conversation& conversation);

  /// The think part and the text of a turn that the answer continues, after `<｜Assistant｜>` and the opening token
  /// (spec: recipe.md §3.10).
  void PrefixBody(const AssistantMessage& message, bool thinking);

  Prompt Take() && { return std::move(prompt_); }

 private:
  void Special(TokenRole role, std::string_view text);
  void Call(const ToolCall& call);
  void Parameter(std::string_view key, bool is_string, std::string_view value);
  Status ToolLine(const Tool& tool);

  const PromptProfile profile_;
  Prompt prompt_;
};

/// Writes BOS and the first system turn: effort, text of a leading system message, tools, response format (spec: recipe.md §3.2). Sets
/// `done` when the first message was a system message and is written with it.
Status WriteHead(const Conversation& conversation, PromptWriter& writer, bool* done);

/// Text, tools of its own and loaded tools of a system message, without the token in front.
Status WriteSystem(const SystemMessage& message, const Conversation& conversation, PromptWriter& writer);

/// Bytes that a prompt of the conversation has at least, for Reserve.
size_t EstimateSize(const Conversation& conversation);

/// Indices of the messages in the order in which they are rendered: inside each run of user and tool messages, the results stand in the
/// order of the calls they answer; user messages keep their places (spec: recipe.md §3.3).
std::vector<size_t> RenderOrder(const std::vector<Message>& messages);

/// The last message when it is an assistant turn that the answer continues.
const AssistantMessage* PrefixMessage(const Conversation& conversation);

Result<Prompt> RenderRecipe(const Conversation& conversation, const PromptOptions& options);
Result<Prompt> RenderCheckpoint(const Conversation& conversation, HistoryThinking history);

}  // namespace deepinfer::recipe::internal
