// The encoder of the model repository (spec: recipe.md §3.9, §3.12).
#include <optional>
#include <utility>

#include "recipe/prompt_writer.h"

namespace deepinfer::recipe::internal {
namespace {

TokenRole TaskToken(Task task) {
  switch (task) {
    case Task::kAction: return TokenRole::kAction;
    case Task::kAuthority: return TokenRole::kAuthority;
    case Task::kDomain: return TokenRole::kDomain;
    case Task::kTitle: return TokenRole::kTitle;
    case Task::kReadUrl: return TokenRole::kReadUrl;
    case Task::kNone:
    case Task::kQuery: break;
  }
  return TokenRole::kQuery;
}

/// A turn: one message, or several user messages and tool results that were merged.
struct Turn {
  enum class Kind : uint8_t { kSystem, kUser, kReminder, kAssistant };
  Kind kind;
  size_t begin, end;                  // places in the render order
  const UserMessage* task = nullptr;  // the message that asks for a quick task
};

class CheckpointRenderer {
 public:
  CheckpointRenderer(const Conversation& conversation, HistoryThinking history)
      : conversation_(conversation),
        order_(RenderOrder(conversation.messages)),
        keep_reasoning_(history == HistoryThinking::kKeep ||
                        (history == HistoryThinking::kAuto && HasTools(conversation))),
        prefix_(PrefixMessage(conversation)),
        writer_(PromptProfile::kCheckpoint) {}

  Result<Prompt> Run() {
    writer_.Reserve(EstimateSize(conversation_));
    bool head_done = false;
    DEEPINFER_RETURN_IF_ERROR(WriteHead(conversation_, writer_, &head_done));
    CollectTurns(head_done ? 1 : 0);
    for (size_t i = 0; i < turns_.size(); ++i) DEEPINFER_RETURN_IF_ERROR(WriteTurn(i));
    return std::move(writer_).Take();
  }

 private:
  static bool HasTools(const Conversation& conversation) {
    if (conversation.tools_active()) return true;
    for (const Message& message : conversation.messages) {
      const auto* system = std::get_if<SystemMessage>(&message);
      if (system != nullptr && !system->tools.empty()) return true;
    }
    return false;
  }

  const Message& At(size_t place) const { return conversation_.messages[order_[place]]; }

  /// Turns behind the leading system message, and the last one that asks the model for something.
  void CollectTurns(size_t first) {
    for (size_t place = first; place < order_.size(); ++place) {
      const Message& message = At(place);
      const auto* user = std::get_if<UserMessage>(&message);
      const bool is_user = user != nullptr || std::holds_alternative<ToolMessage>(message);
      const bool merges = is_user && !turns_.empty() && turns_.back().kind == Turn::Kind::kUser &&
                          turns_.back().task == nullptr;
      if (!merges) turns_.push_back({KindOf(message), place, place});
      turns_.back().end = place + 1;
      if (user != nullptr && user->task != Task::kNone) turns_.back().task = user;
      if (is_user || turns_.back().kind == Turn::Kind::kSystem) last_question_ = turns_.size() - 1;
    }
  }

  static Turn::Kind KindOf(const Message& message) {
    if (std::holds_alternative<SystemMessage>(message)) return Turn::Kind::kSystem;
    if (std::holds_alternative<LatestReminder>(message)) return Turn::Kind::kReminder;
    if (std::holds_alternative<AssistantMessage>(message)) return Turn::Kind::kAssistant;
    return Turn::Kind::kUser;
  }

  Status WriteTurn(size_t i) {
    const Turn& turn = turns_[i];
    switch (turn.kind) {
      case Turn::Kind::kSystem:
        writer_.Token(TokenRole::kSystem);
        DEEPINFER_RETURN_IF_ERROR(
            WriteSystem(std::get<SystemMessage>(At(turn.begin)), conversation_, writer_));
        WriteHeader(i);
        break;
      case Turn::Kind::kUser:
        WriteUser(turn);
        WriteHeader(i);
        break;
      case Turn::Kind::kReminder:
        writer_.Token(TokenRole::kLatestReminder);
        writer_.Text(std::get<LatestReminder>(At(turn.begin)).content);
        break;
      case Turn::Kind::kAssistant: WriteAssistant(i); break;
    }
    return OkStatus();
  }

  void WriteUser(const Turn& turn) {
    writer_.Token(TokenRole::kUser);
    for (size_t place = turn.begin; place < turn.end; ++place) {
      if (place > turn.begin) writer_.Text("\n\n");
      if (const auto* user = std::get_if<UserMessage>(&At(place))) {
        writer_.Write(user->content);
      } else {
        writer_.ToolResult(std::get<ToolMessage>(At(place)).content);
      }
    }
  }

  /// Whether an answer follows the turn, so that tokens behind the turn introduce it.
  bool IsAnswered(size_t i) const {
    if (i + 1 == turns_.size()) return true;
    const Turn::Kind next = turns_[i + 1].kind;
    return next == Turn::Kind::kAssistant || next == Turn::Kind::kReminder;
  }

  /// What introduces the answer to a user or system turn.
  void WriteHeader(size_t i) {
    if (!IsAnswered(i)) return;
    const UserMessage* task = turns_[i].task;
    if (task != nullptr && task->task != Task::kAction) {
      if (task->task == Task::kReadUrl && !task->url.empty()) {
        writer_.Token(TokenRole::kExtractedUrl);
        writer_.Text(task->url);
      }
      writer_.Token(TaskToken(task->task));
      return;
    }
    const bool thinks = conversation_.thinking && (task != nullptr || keep_reasoning_ || i >= last_question_);
    writer_.Token(TokenRole::kAssistant);
    writer_.Token(thinks ? TokenRole::kThinkBegin : TokenRole::kThinkEnd);
    if (task != nullptr) {
      writer_.Token(TokenRole::kAction);
      return;
    }
    const bool forced = conversation_.tool_choice == ToolChoice::kRequired && !conversation_.tools.empty();
    if (i + 1 == turns_.size() && forced && !conversation_.thinking) writer_.CallsPrefill();
  }

  void WriteAssistant(size_t i) {
    const auto& message = std::get<AssistantMessage>(At(turns_[i].begin));
    const bool answers_task = i > 0 && turns_[i - 1].task != nullptr;
    const bool thinks = conversation_.thinking && !answers_task &&
                        (keep_reasoning_ || !last_question_ || i > *last_question_);
    if (&message == prefix_) {
      writer_.PrefixBody(message, thinks);
      return;
    }
    if (thinks) {
      if (message.reasoning) writer_.Text(*message.reasoning);
      writer_.Token(TokenRole::kThinkEnd);
    }
    writer_.Text(message.content);
    if (!message.tool_calls.empty()) {
      writer_.Text("\n\n");
      writer_.Calls(message.tool_calls);
    }
    writer_.Token(TokenRole::kEos);
    if (message.task == Task::kTitle && IsAnswered(i)) writer_.Token(TokenRole::kTitle);
  }

  const Conversation& conversation_;
  const std::vector<size_t> order_;
  const bool keep_reasoning_;
  const AssistantMessage* const prefix_;
  PromptWriter writer_;
  std::vector<Turn> turns_;
  std::optional<size_t> last_question_;  // turn
};

}  // namespace

Result<Prompt> RenderCheckpoint(const Conversation& conversation, HistoryThinking history) {
  return CheckpointRenderer(conversation, history).Run();
}

}  // namespace deepinfer::recipe::internal
