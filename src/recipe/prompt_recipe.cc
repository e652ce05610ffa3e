// The encoder of the recipe library, V4.1 and V4 (spec: recipe.md §3.2, §3.10).
#include <utility>

#include "recipe/prompt_writer.h"

namespace deepinfer::recipe::internal {
namespace {

class RecipeRenderer {
 public:
  RecipeRenderer(const Conversation& conversation, const PromptOptions& options)
      : conversation_(conversation),
        is_v4_(options.profile == PromptProfile::kV4),
        with_reasoning_(conversation.thinking && (options.history_thinking == HistoryThinking::kKeep ||
                                                  (options.history_thinking == HistoryThinking::kAuto &&
                                                   conversation.tools_active()))),
        prefix_(PrefixMessage(conversation)),
        writer_(options.profile) {}

  Result<Prompt> Run() {
    writer_.Reserve(EstimateSize(conversation_));
    bool head_done = false;
    if (is_v4_) {
      DEEPINFER_RETURN_IF_ERROR(WriteV4Head());
    } else {
      DEEPINFER_RETURN_IF_ERROR(WriteHead(conversation_, writer_, &head_done));
    }
    const auto order = RenderOrder(conversation_.messages);
    for (size_t i = head_done ? 1 : 0; i < order.size(); ++i) {
      const Message& message = conversation_.messages[order[i]];
      // The library writes only the first of adjacent reminders.
      const bool repeated = i > 0 && std::holds_alternative<LatestReminder>(message) &&
                            std::holds_alternative<LatestReminder>(conversation_.messages[order[i - 1]]);
      if (repeated) continue;
      status_ = OkStatus();
      std::visit([this](const auto& turn) { Write(turn); }, message);
      if (!status_.ok()) return std::move(status_);
    }
    if (prefix_ == nullptr) WriteTail();
    return std::move(writer_).Take();
  }

 private:
  /// All system messages, wherever they stand, form the begin of a V4 prompt.
  Status WriteV4Head() {
    writer_.Token(TokenRole::kBos);
    if (conversation_.thinking) writer_.EffortText(conversation_);
    bool first = true;
    for (const Message& message : conversation_.messages) {
      const auto* system = std::get_if<SystemMessage>(&message);
      if (system == nullptr) continue;
      if (!first) writer_.Text("\n\n");
      first = false;
      writer_.Write(system->content);
    }
    if (conversation_.tools_active()) DEEPINFER_RETURN_IF_ERROR(writer_.Tools(conversation_.tools));
    writer_.Format(conversation_.response_format);
    return OkStatus();
  }

  void Write(const SystemMessage& message) {
    if (is_v4_) return;
    in_user_run_ = false;
    writer_.Token(TokenRole::kSystem);
    status_ = WriteSystem(message, conversation_, writer_);
  }

  void Write(const UserMessage& message) {
    StartPiece();
    writer_.Write(message.content);
  }

  void Write(const ToolMessage& message) {
    StartPiece();
    writer_.ToolResult(message.content);
  }

  void Write(const LatestReminder& message) {
    in_user_run_ = false;
    writer_.Token(TokenRole::kLatestReminder);
    writer_.Text(message.content);
  }

  void Write(const AssistantMessage& message) {
    in_user_run_ = false;
    writer_.Token(TokenRole::kAssistant);
    if (&message == prefix_) {
      writer_.Token(conversation_.thinking ? TokenRole::kThinkBegin : TokenRole::kThinkEnd);
      writer_.PrefixBody(message, conversation_.thinking);
      return;
    }
    if (with_reasoning_) {
      writer_.Token(TokenRole::kThinkBegin);
      if (message.reasoning) writer_.Text(*message.reasoning);
    }
    writer_.Token(TokenRole::kThinkEnd);
    writer_.Text(message.content);
    if (!message.tool_calls.empty()) {
      writer_.Text("\n\n");
      writer_.Calls(message.tool_calls);
    }
    writer_.Token(TokenRole::kEos);
  }

  void StartPiece() {
    if (in_user_run_) {
      writer_.Text("\n\n");
    } else {
      writer_.Token(TokenRole::kUser);
    }
    in_user_run_ = true;
  }

  void WriteTail() {
    writer_.Token(TokenRole::kAssistant);
    writer_.Token(conversation_.thinking ? TokenRole::kThinkBegin : TokenRole::kThinkEnd);
    const bool forced = conversation_.tool_choice == ToolChoice::kRequired && !conversation_.tools.empty();
    if (forced && !conversation_.thinking) writer_.CallsPrefill();
  }

  const Conversation& conversation_;
  const bool is_v4_;
  const bool with_reasoning_;
  const AssistantMessage* const prefix_;
  PromptWriter writer_;
  bool in_user_run_ = false;
  Status status_;
};

}  // namespace

Result<Prompt> RenderRecipe(const Conversation& conversation, const PromptOptions& options) {
  return RecipeRenderer(conversation, options).Run();
}

}  // namespace deepinfer::recipe::internal
