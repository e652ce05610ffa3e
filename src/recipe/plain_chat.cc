#include "recipe/plain_chat.h"

#include <array>
#include <charconv>

#include <fmt/format.h>

namespace deepinfer::recipe::plain {
namespace {

/// Collects pieces; neighbours of the same kind become one run, so that the merges of BPE reach across them.
class RunBuilder {
 public:
  void Control(TokenRole role) { Add(TokenRoleText(role), true); }
  void Text(std::string_view text) { Add(text, false); }
  std::vector<PromptRun> Take() { return std::move(runs_); }

 private:
  void Add(std::string_view text, bool trusted) {
    if (text.empty()) return;
    if (runs_.empty() || runs_.back().trusted != trusted) runs_.push_back({"", trusted});
    runs_.back().text += text;
  }
  std::vector<PromptRun> runs_;
};

std::string EffortLine(int effort) {
  return fmt::format(
      "Reasoning Effort: {} (range 1-100, the higher the value, the more thorough the reasoning)\n\n",
      effort);
}

void RenderAssistant(const Message& message, bool with_reasoning, RunBuilder* out) {
  out->Control(TokenRole::kAssistant);
  if (with_reasoning) {
    out->Control(TokenRole::kThinkBegin);
    out->Text(message.reasoning);
  }
  out->Control(TokenRole::kThinkEnd);
  out->Text(message.content);
  out->Control(TokenRole::kEos);
}

constexpr std::array<std::pair<std::string_view, int>, 7> kEffortNames = {{{"minimal", 50},
                                                                           {"low", 50},
                                                                           {"medium", 75},
                                                                           {"high", 75},
                                                                           {"xhigh", 75},
                                                                           {"max", 100},
                                                                           {"ultra", 100}}};

}  // namespace

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kSystem: return "system";
    case Role::kUser: return "user";
    case Role::kAssistant: return "assistant";
  }
  return "";
}

Result<HistoryThinking> ParseHistoryThinking(std::string_view name) {
  if (name == "auto") return HistoryThinking::kAuto;
  if (name == "keep") return HistoryThinking::kKeep;
  if (name == "drop") return HistoryThinking::kDrop;
  return InvalidArgument(fmt::format("history thinking must be auto, keep or drop, not '{}'", name),
                         "history_thinking");
}

Result<int> ParseEffort(std::string_view text) {
  for (const auto& [name, effort] : kEffortNames) {
    if (text == name) return effort;
  }
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 1 && value <= 100) return value;
  return InvalidArgument(fmt::format("effort must be an integer in [1, 100] or one of minimal, low, medium, "
                                     "high, xhigh, max, ultra, not '{}'",
                                     text),
                         "effort");
}

Result<std::vector<PromptRun>> RenderChat(std::span<const Message> messages, const ChatOptions& options) {
  if (messages.empty()) return InvalidArgument("a conversation needs at least one message", "messages");
  if (options.effort < 1 || options.effort > 100) {
    return InvalidArgument(fmt::format("effort must be an integer in [1, 100], not {}", options.effort),
                           "effort");
  }
  const bool keep_reasoning = options.thinking && options.history_thinking == HistoryThinking::kKeep;
  RunBuilder out;
  out.Control(TokenRole::kBos);
  if (options.thinking) {
    out.Control(TokenRole::kSystem);
    out.Text(EffortLine(options.effort));
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    switch (message.role) {
      case Role::kSystem:
        if (i > 0 || !options.thinking) out.Control(TokenRole::kSystem);
        out.Text(message.content);
        break;
      case Role::kUser:
        // Neighbouring user messages are one turn.
        if (i > 0 && messages[i - 1].role == Role::kUser) {
          out.Text("\n\n");
        } else {
          out.Control(TokenRole::kUser);
        }
        out.Text(message.content);
        break;
      case Role::kAssistant: RenderAssistant(message, keep_reasoning, &out); break;
    }
  }
  out.Control(TokenRole::kAssistant);
  out.Control(options.thinking ? TokenRole::kThinkBegin : TokenRole::kThinkEnd);
  return out.Take();
}

std::string PromptText(std::span<const PromptRun> runs) {
  std::string text;
  for (const PromptRun& run : runs) text += run.text;
  return text;
}

Result<std::vector<int32_t>> EncodeChat(const Tokenizer& tokenizer, std::span<const Message> messages,
                                        const ChatOptions& options) {
  for (const TokenRole role : {TokenRole::kBos, TokenRole::kEos, TokenRole::kSystem, TokenRole::kUser,
                               TokenRole::kAssistant, TokenRole::kThinkBegin, TokenRole::kThinkEnd}) {
    if (tokenizer.RoleId(role)) continue;
    return InvalidArgument(fmt::format("the tokenizer of this model has no token {}, so it takes no messages",
                                       TokenRoleText(role)),
                           "tokenizer.json")
        .WithHint("give the whole prompt as text instead");
  }
  DEEPINFER_ASSIGN_OR_RETURN(const std::vector<PromptRun> runs, RenderChat(messages, options));
  std::vector<TextRun> views;
  for (const PromptRun& run : runs) views.push_back({run.text, run.trusted});
  return tokenizer.EncodeRuns(views);
}

int64_t CountReasoningTokens(const Tokenizer& tokenizer, std::span<const int32_t> output_ids, bool thinking) {
  if (!thinking) return 0;
  const std::optional<int32_t> end_of_thinking = tokenizer.RoleId(TokenRole::kThinkEnd);
  const std::optional<int32_t> end_of_text = tokenizer.RoleId(TokenRole::kEos);
  int64_t count = 0;
  for (const int32_t id : output_ids) {
    if (id == end_of_thinking || id == end_of_text) break;
    ++count;
  }
  return count;
}

}  // namespace deepinfer::recipe::plain
