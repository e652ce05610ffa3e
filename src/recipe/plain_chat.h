// Plain conversations in the V4.1 prompt format, profile `recipe`, and the way back from an answer to reasoning and content
// (spec: recipe.md §3, §6). System, user and assistant texts only: tools, response formats and images are refused.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::recipe::plain {

enum class Role : uint8_t { kSystem, kUser, kAssistant };
std::string_view RoleName(Role role);  // "system", "user", "assistant"

struct Message {
  Role role = Role::kUser;
  std::string content;
  std::string reasoning;  // assistant only; empty = none

  friend bool operator==(const Message&, const Message&) = default;
};

/// What happens to the reasoning of earlier assistant turns (spec: recipe.md §3.9).
enum class HistoryThinking : uint8_t {
  kAuto,  // as DeepSeek's library 0.2.0: dropped in conversations without tools, hence in all of this module
  kKeep,  // rendered in every turn: prefixes stay equal from turn to turn
  kDrop,
};
/// "auto", "keep" or "drop". Errors: kInvalidArgument.
Result<HistoryThinking> ParseHistoryThinking(std::string_view name);

inline constexpr int kDefaultEffort = 75;

struct ChatOptions {
  bool thinking = true;
  int effort = kDefaultEffort;  // 1..100; text conditioning only, used with thinking on
  HistoryThinking history_thinking = HistoryThinking::kAuto;
};

/// 1..100, or a name: minimal and low 50, medium, high and xhigh 75, max and ultra 100 (spec: recipe.md §3.7, §7.1).
/// Errors: kInvalidArgument with the allowed values.
Result<int> ParseEffort(std::string_view text);

/// `messages`: an array of {"role", "content", "reasoning_content"}. `content` is a string or an array of text parts, which are
/// joined with an empty line; empty system messages vanish, as in the library. Errors: kInvalidArgument that names message and
/// field; tool calls, images and everything unknown are refused.
Result<std::vector<Message>> ParseMessages(const json::Value& value);

/// What a chat request says about the prompt (spec: recipe.md §7.1).
struct Conversation {
  std::vector<Message> messages;
  std::optional<bool> thinking;  // nothing = the server's default
  std::optional<int> effort;
  /// Fields this module does not read: sampling and the like. The caller knows them or refuses them.
  std::vector<std::string> other_fields;
};
/// An array of messages, or an object with `messages`, `thinking`, `reasoning_effort`. Errors: as ParseMessages; tools and response
/// formats other than text are refused by name.
Result<Conversation> ParseConversation(const json::Value& value);
/// The JSON form that ParseMessages reads.
json::Value MessagesToJson(std::span<const Message> messages);

/// A piece of a prompt: control tokens written by us (trusted), or text in which nothing becomes a special token.
struct PromptRun {
  std::string text;
  bool trusted = false;

  friend bool operator==(const PromptRun&, const PromptRun&) = default;
};

/// The prompt up to the point where the model writes; trusted and untrusted runs alternate (spec: recipe.md §3.2, §3.13).
/// Errors: kInvalidArgument (no message, effort out of range).
Result<std::vector<PromptRun>> RenderChat(std::span<const Message> messages, const ChatOptions& options);
/// The runs as one string, for people and tests.
std::string PromptText(std::span<const PromptRun> runs);
/// RenderChat and run-wise encoding. Errors: those of both; kInvalidArgument for a tokenizer without the control tokens.
Result<std::vector<int32_t>> EncodeChat(const Tokenizer& tokenizer, std::span<const Message> messages,
                                        const ChatOptions& options);

/// Splits an answer while it arrives. Without tools and JSON mode this is the machine of recipe.md §6.2: leading newlines go,
/// so do newlines before and after `</think>`; an extra `</think>` in the content is dropped.
class AnswerParser {
 public:
  /// `thinking`: the prompt ended with `<think>`, the answer begins with reasoning.
  explicit AnswerParser(bool thinking) : in_reasoning_(thinking) {}

  struct Delta {
    std::string reasoning, content;
  };
  /// Takes the next piece of text, cut anywhere; returns what became certain.
  Delta Push(std::string_view text);
  /// End of the answer: releases what was held back.
  Delta Finish();
  /// Still before `</think>`.
  bool in_reasoning() const { return in_reasoning_; }

 private:
  void Take(char byte, Delta* delta);
  void Release(Delta* delta);
  void Write(std::string_view text, Delta* delta);

  bool in_reasoning_;
  bool leading_ = true;  // no byte of this part was written yet
  // Held back: that many newlines (reasoning only), then that many bytes of `</think>`.
  size_t newlines_ = 0;
  size_t matched_ = 0;
};

/// A whole answer at once.
AnswerParser::Delta SplitAnswer(std::string_view text, bool thinking);

/// Output ids that are reasoning: those before the first `</think>` token, or all when there is none; 0 without thinking.
int64_t CountReasoningTokens(const Tokenizer& tokenizer, std::span<const int32_t> output_ids, bool thinking);

}  // namespace deepinfer::recipe::plain
