#include <unistd.h>

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/answer.h"
#include "cli/answer_printer.h"
#include "cli/batch_request.h"
#include "cli/chat_request.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "cli/output.h"
#include "cli/self_test.h"
#include "recipe/chat_json.h"

namespace deepinfer::cli {
namespace {

constexpr size_t kMaxConversationBytes = size_t{64} << 20;

const std::string kHelp =
    "/system TEXT      sets the system message and starts again\n"
    "/thinking on|off  reasoning before the answer\n"
    "/effort N|NAME    how thoroughly: " +
    std::string(kEffortValues) +
    "\n"
    "/save FILE        writes the conversation as JSON (generate --messages reads it)\n"
    "/load FILE        continues a written conversation\n"
    "/result TEXT      result of the next tool call (tools come with a loaded conversation)\n"
    "/reset            forgets the conversation, keeps the system message\n"
    "/help             this list\n"
    "/quit             ends; so does Ctrl-D. Ctrl-C ends an answer.\n";

/// A conversation, its model and what the person set.
class Chat {
 public:
  Chat(Engine& engine, BaseRequest request, const PromptSettings& settings, bool show_thinking);
  Result<int> Run();

 private:
  /// False ends the chat.
  Result<bool> Command(const std::string& line);
  /// Tells the person; on a pipe the exit code tells it, too.
  void Report(const Status& status);
  /// Adds a message and answers the conversation, if no result of a tool is missing. After an error it is as it was.
  Status Say(recipe::Message message);
  Status SayAsUser(const std::string& text);
  Status GiveResult(const std::string& text);
  Status Answer();
  /// Calls of the last answer that have no result yet.
  std::vector<recipe::ToolCall> OpenCalls() const;
  Result<Prompt> MakePrompt() const;
  void Remember(const Prompt& prompt, const Sample& sample);
  Status Save(const std::string& path) const;
  Status Load(const std::string& path);
  Status SetOption(const std::string& name, const std::string& value);
  void Reset();
  /// A person has seen what failed; a script that feeds a pipe learns it here.
  int ExitCode() const { return failed_ && ::isatty(STDIN_FILENO) != 1 ? 1 : 0; }
  /// A message for people, also when the program is quiet: it answers a command of theirs.
  static Status Tell(std::string_view text) { return WriteStdout(std::string(text) + "\n"); }

  Engine& engine_;
  BaseRequest request_;
  recipe::HistoryThinking history_thinking_;
  std::string system_;
  recipe::Conversation conversation_;
  std::unique_ptr<Session> session_;
  std::vector<int32_t>
      past_ids_;  // of the finished turns, as they were generated; empty = render them from the messages
  AnswerPrinter printer_;
  bool failed_ = false;  // some line
};

// Unless something else is asked for, reasoning of earlier turns stays in the prompt: a prefix that never changes is never prefilled
// twice.
Chat::Chat(Engine& engine, BaseRequest request, const PromptSettings& settings, bool show_thinking)
    : engine_(engine),
      request_(std::move(request)),
      history_thinking_(settings.history_thinking.value_or(recipe::HistoryThinking::kKeep)),
      system_(settings.system),
      printer_(show_thinking) {
  conversation_.thinking = settings.thinking.value_or(true);
  conversation_.effort = settings.effort.value_or(recipe::Effort());
  Reset();
}

void Chat::Reset() {
  conversation_.messages.clear();
  if (!system_.empty())
    conversation_.messages.emplace_back(
        recipe::SystemMessage{.content = {system_, {}}, .loaded_tools = {}, .tools = {}});
  session_ = engine_.NewSession();
  past_ids_.clear();
}

// The text of an answer may have other ids than the ones that were generated, and then its state would be of no use: finished turns
// are kept as ids, and only what follows the last user token is taken from the rendered conversation.
Result<Prompt> Chat::MakePrompt() const {
  DEEPINFER_ASSIGN_OR_RETURN(const recipe::Request request, ParseChat(recipe::ChatBody(conversation_)));
  DEEPINFER_ASSIGN_OR_RETURN(Prompt prompt, ChatPrompt(engine_.tokenizer(), request, history_thinking_));
  const std::optional<int32_t> user = engine_.tokenizer().RoleId(TokenRole::kUser);
  if (past_ids_.empty() || !user) return prompt;
  const auto last = std::find(prompt.ids.rbegin(), prompt.ids.rend(), *user);
  if (last == prompt.ids.rend()) return prompt;
  std::vector<int32_t> ids = past_ids_;
  ids.insert(ids.end(), last.base() - 1, prompt.ids.end());
  prompt.ids = std::move(ids);
  return prompt;
}

void Chat::Remember(const Prompt& prompt, const Sample& sample) {
  recipe::AssistantMessage message;
  message.content = sample.answer.text;
  if (!sample.answer.reasoning.empty()) message.reasoning = sample.answer.reasoning;
  for (const auto& call : sample.answer.calls)
    message.tool_calls.push_back({call.id, call.name, call.arguments});
  conversation_.messages.emplace_back(std::move(message));
  past_ids_.clear();
  if (history_thinking_ != recipe::HistoryThinking::kKeep) return;
  past_ids_ = prompt.ids;
  past_ids_.insert(past_ids_.end(), sample.result.output_ids.begin(), sample.result.output_ids.end());
  const int32_t eos = engine_.config().eos_token_id;
  if (past_ids_.back() != eos) past_ids_.push_back(eos);
}

std::vector<recipe::ToolCall> Chat::OpenCalls() const {
  size_t results = 0;
  for (auto message = conversation_.messages.rbegin(); message != conversation_.messages.rend(); ++message) {
    if (std::holds_alternative<recipe::ToolMessage>(*message)) {
      ++results;
      continue;
    }
    const auto* turn = std::get_if<recipe::AssistantMessage>(&*message);
    if (turn == nullptr || turn->tool_calls.size() <= results) return {};
    return {turn->tool_calls.begin() + static_cast<ptrdiff_t>(results), turn->tool_calls.end()};
  }
  return {};
}

Status Chat::SayAsUser(const std::string& text) {
  if (const auto open = OpenCalls(); !open.empty()) {
    return InvalidArgument(fmt::format("the call of {} has no result yet", open.front().name), "the message")
        .WithHint("/result TEXT");
  }
  DEEPINFER_RETURN_IF_ERROR(CheckUtf8(text, "the message"));
  return Say(recipe::UserMessage{.content = {text, {}}});
}

Status Chat::GiveResult(const std::string& text) {
  const auto open = OpenCalls();
  if (open.empty()) return InvalidArgument("no call waits for a result", "/result");
  DEEPINFER_RETURN_IF_ERROR(CheckUtf8(text, "/result"));
  return Say(recipe::ToolMessage{.content = {text, {}}, .tool_call_id = open.front().id});
}

Status Chat::Say(recipe::Message message) {
  conversation_.messages.push_back(std::move(message));
  if (!OpenCalls().empty()) return OkStatus();
  const Status status = Answer();
  if (!status.ok() && status.code() != StatusCode::kIo) conversation_.messages.pop_back();
  return status;
}

Status Chat::Answer() {
  DEEPINFER_ASSIGN_OR_RETURN(const Prompt prompt, MakePrompt());
  AnswerRun run;
  run.seed = request_.seed.value_or(RandomSeed());
  run.id_key = AnswerId(prompt, run.seed);
  run.sink = &printer_;
  run.session = session_.get();
  const Result<cli::Answer> answer = RunAnswer(engine_, prompt, request_, run);
  if (!answer.ok()) {
    if (answer.status().where() != "prompt_ids") return answer.status();
    return InvalidArgument(answer.status().message(), "the conversation").WithHint("/reset");
  }
  const Sample& sample = answer->samples.front();
  Remember(prompt, sample);
  DEEPINFER_RETURN_IF_ERROR(printer_.EndAnswer());
  LogVerbose(fmt::format("{} prompt tokens, {} of them cached, {} output tokens, seed {}", prompt.ids.size(),
                         sample.result.cached_tokens, sample.result.output_ids.size(), run.seed));
  return OkStatus();
}

Status Chat::Save(const std::string& path) const {
  if (path.empty()) return InvalidArgument("a file name is needed", "/save").WithHint("/save FILE");
  if (conversation_.messages.empty()) return InvalidArgument("there is no message to save yet", "/save");
  const json::Value body = recipe::ChatBody(conversation_);
  DEEPINFER_RETURN_IF_ERROR(WriteFileAtomic(path, json::Serialize(body, 1) + "\n"));
  return Tell(fmt::format("saved {} messages to {}", conversation_.messages.size(), path));
}

Status Chat::Load(const std::string& path) {
  if (path.empty()) return InvalidArgument("a file name is needed", "/load").WithHint("/load FILE");
  DEEPINFER_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxConversationBytes));
  Result<json::Value> value = json::Parse(text, LineLimits());
  if (!value.ok()) return std::move(value).status().Within(path);
  if (value->is_array()) *value = json::Object{{"messages", *std::move(value)}};
  if (!value->is_object()) return DataLoss("a conversation must be an array or an object", path);
  Result<json::Value> body = TakeChatFields(&*value);
  if (!body.ok()) return std::move(body).status().Within(path);
  ApplyPromptSettings({.system = {},
                       .thinking = conversation_.thinking,
                       .effort = conversation_.effort,
                       .history_thinking = {}},
                      Precedence::kBody, &*body);
  Result<recipe::Request> request = ParseChat(*std::move(body));
  if (!request.ok()) return std::move(request).status().Within(path);
  const std::optional<recipe::Effort> effort = conversation_.effort;
  conversation_ = std::move(request->conversation);
  if (!conversation_.effort) conversation_.effort = effort;  // for when thinking is switched on
  const auto* system = std::get_if<recipe::SystemMessage>(&conversation_.messages.front());
  system_ = system != nullptr ? system->content.text : std::string();
  session_ = engine_.NewSession();
  past_ids_.clear();
  return Tell(fmt::format("loaded {} messages from {}", conversation_.messages.size(), path));
}

Status Chat::SetOption(const std::string& name, const std::string& value) {
  if (name == "/effort") {
    DEEPINFER_ASSIGN_OR_RETURN(conversation_.effort, ParseEffort(value));
    past_ids_.clear();  // the prompt begins with it
    return Tell(fmt::format("effort {}", conversation_.effort->number));
  }
  if (value != "on" && value != "off") return InvalidArgument("/thinking must be on or off", "/thinking");
  conversation_.thinking = value == "on";
  past_ids_.clear();
  return Tell("thinking " + value);
}

Result<bool> Chat::Command(const std::string& line) {
  const size_t blank = std::min(line.find(' '), line.size());
  const std::string name = line.substr(0, blank);
  const size_t begin = std::min(line.find_first_not_of(' ', blank), line.size());
  const std::string value = line.substr(begin);
  Status status;
  if (name == "/quit" || name == "/exit") return false;
  if (name == "/help") {
    status = WriteStdout(kHelp);
  } else if (name == "/reset") {
    Reset();
    status = Tell("forgotten");
  } else if (name == "/system") {
    system_ = value;
    Reset();
    status = Tell(value.empty() ? "no system message" : "system message set");
  } else if (name == "/thinking" || name == "/effort") {
    status = SetOption(name, value);
  } else if (name == "/save") {
    status = Save(value);
  } else if (name == "/load") {
    status = Load(value);
  } else if (name == "/result") {
    status = GiveResult(value);
  } else {
    status = InvalidArgument(fmt::format("unknown command {}", name)).WithHint("/help");
  }
  if (!status.ok()) Report(status);
  return true;
}

void Chat::Report(const Status& status) {
  failed_ = true;
  const bool without_hint = status.code() == StatusCode::kInvalidArgument && status.hint().empty();
  ReportError(without_hint ? Status(status).WithHint("/help") : status, false);
}

Result<int> Chat::Run() {
  LineEditor editor("> ");
  if (StdoutIsTerminal()) DEEPINFER_RETURN_IF_ERROR(Tell("/help lists the commands; Ctrl-D ends."));
  for (;;) {
    DEEPINFER_ASSIGN_OR_RETURN(const std::optional<std::string> line, editor.Read());
    if (!line) return ExitCode();
    if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
    if (line->front() == '/') {
      DEEPINFER_ASSIGN_OR_RETURN(const bool go_on, Command(*line));
      if (!go_on) return ExitCode();
      continue;
    }
    const Status status = SayAsUser(*line);
    // Ctrl-C ended this answer; on a pipe nobody is there to go on.
    if (Interrupted() && !StdoutIsTerminal()) return 130;
    ClearInterrupt();
    if (!status.ok() && status.code() != StatusCode::kInvalidArgument &&
        status.code() != StatusCode::kCancelled)
      return status;
    if (!status.ok()) Report(status);
  }
}

Result<int> RunChat(const Arguments& args) {
  DEEPINFER_ASSIGN_OR_RETURN(const PromptSettings settings, ReadPromptOptions(args));
  DEEPINFER_ASSIGN_OR_RETURN(
      const std::string model_dir,
      FindModel(args.positionals().empty() ? std::string() : args.positionals().front()));
  DEEPINFER_RETURN_IF_ERROR(CheckSamplingOptions(args, model_dir));
  DEEPINFER_RETURN_IF_ERROR(RunSelfTestOption(args));
  DEEPINFER_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, LoadEngine(model_dir, args));
  DEEPINFER_ASSIGN_OR_RETURN(BaseRequest request, MakeBaseRequest(*engine, args));
  return Chat(*engine, std::move(request), settings, args.Has("--show-thinking")).Run();
}

}  // namespace

Command ChatCommand() {
  CommandSpec spec;
  spec.name = "chat";
  spec.summary = "a conversation in the terminal";
  spec.positionals = {ModelPositional()};
  spec.max_positionals = 1;
  spec.description =
      "Lines are messages; /help lists the commands (/system, /thinking, /effort, /save, /load, /result, "
      "/reset). On "
      "a terminal lines can be edited "
      "and the arrow keys go through earlier ones; on a pipe every line is one message. Ctrl-C ends an "
      "answer, Ctrl-D the conversation. On a pipe the exit code is 1 when a line failed.";
  spec.example = "deepinfer chat --system \"Answer briefly.\"";
  spec.example_note = "Starts a conversation with the demo model.";
  spec.see_also = {"generate"};
  OptionGroup sampling = SamplingOptions();
  std::erase_if(sampling.options,
                [](const OptionSpec& option) { return option.name == "--n" || option.name == "--logprobs"; });
  sampling.title = "Sampling of a conversation";
  OptionGroup output = OutputOptions(/*with_json=*/false);
  output.title = "Messages";
  output.options.push_back(
      {.name = "--show-thinking", .kind = ValueKind::kFlag, .help = "prints the reasoning on a pipe, too"});
  spec.groups = {PromptOptions(), std::move(sampling), ModelOptions(), std::move(output)};
  return {.spec = std::move(spec), .run = RunChat};
}

}  // namespace deepinfer::cli
