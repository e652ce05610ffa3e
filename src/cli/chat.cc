#include <unistd.h>

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/answer.h"
#include "cli/answer_printer.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "cli/output.h"
#include "cli/self_test.h"

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
  Status Answer(const std::string& text);
  Result<Prompt> MakePrompt() const;
  void Remember(const Prompt& prompt, const Sample& sample);
  Status Save(const std::string& path) const;
  Status Load(const std::string& path);
  Status SetOption(const std::string& name, const std::string& value);
  void Reset();
  /// A person has seen what failed; a script that feeds a pipe learns it here.
  int ExitCode() const { return failed_ && ::isatty(STDIN_FILENO) != 1 ? 1 : 0; }
  /// A message for people, also when the program is quiet: it answers a command of theirs.
  static Status Say(std::string_view text) { return WriteStdout(std::string(text) + "\n"); }

  Engine& engine_;
  BaseRequest request_;
  recipe::plain::ChatOptions options_;
  std::string system_;
  std::vector<recipe::plain::Message> messages_;
  std::unique_ptr<Session> session_;
  std::vector<int32_t>
      past_ids_;  // of the finished turns, as they were generated; empty = render them from the messages
  AnswerPrinter printer_;
  bool failed_ = false;  // some line
};

Chat::Chat(Engine& engine, BaseRequest request, const PromptSettings& settings, bool show_thinking)
    : engine_(engine), request_(std::move(request)), system_(settings.system), printer_(show_thinking) {
  options_.thinking = settings.thinking.value_or(options_.thinking);
  options_.effort = settings.effort.value_or(options_.effort);
  // Reasoning of earlier turns stays in the prompt: a prefix that never changes is never prefilled twice.
  options_.history_thinking = recipe::plain::HistoryThinking::kKeep;
  Reset();
}

void Chat::Reset() {
  messages_.clear();
  if (!system_.empty())
    messages_.push_back({.role = recipe::plain::Role::kSystem, .content = system_, .reasoning = {}});
  session_ = engine_.NewSession();
  past_ids_.clear();
}

// The text of an answer may have other ids than the ones that were generated, and then its state would be of no use: finished turns
// are kept as ids, and only what follows the last user token is taken from the rendered conversation.
Result<Prompt> Chat::MakePrompt() const {
  DEEPINFER_ASSIGN_OR_RETURN(Prompt prompt, ChatPrompt(engine_.tokenizer(), messages_, options_));
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
  messages_.push_back(
      {.role = recipe::plain::Role::kAssistant, .content = sample.text, .reasoning = sample.reasoning});
  past_ids_ = prompt.ids;
  past_ids_.insert(past_ids_.end(), sample.result.output_ids.begin(), sample.result.output_ids.end());
  const int32_t eos = engine_.config().eos_token_id;
  if (past_ids_.back() != eos) past_ids_.push_back(eos);
}

Status Chat::Answer(const std::string& text) {
  DEEPINFER_RETURN_IF_ERROR(CheckUtf8(text, "the message"));
  messages_.push_back({.role = recipe::plain::Role::kUser, .content = text, .reasoning = {}});
  const Result<Prompt> prompt = MakePrompt();
  if (!prompt.ok()) {
    messages_.pop_back();
    return prompt.status();
  }
  const uint64_t seed = request_.seed.value_or(RandomSeed());
  const auto sink = [this](const recipe::plain::AnswerParser::Delta& delta) { printer_.Push(delta); };
  const Result<cli::Answer> answer = RunAnswer(engine_, *prompt, request_, seed, sink, session_.get());
  if (!answer.ok()) {
    messages_.pop_back();
    if (answer.status().where() != "prompt_ids") return answer.status();
    return InvalidArgument(answer.status().message(), "the conversation").WithHint("/reset");
  }
  const Sample& sample = answer->samples.front();
  Remember(*prompt, sample);
  DEEPINFER_RETURN_IF_ERROR(printer_.Finish());
  LogVerbose(fmt::format("{} prompt tokens, {} of them cached, {} output tokens, seed {}", prompt->ids.size(),
                         sample.result.cached_tokens, sample.result.output_ids.size(), seed));
  return OkStatus();
}

Status Chat::Save(const std::string& path) const {
  if (path.empty()) return InvalidArgument("a file name is needed", "/save").WithHint("/save FILE");
  if (messages_.empty()) return InvalidArgument("there is no message to save yet", "/save");
  json::Value thinking;
  thinking.Set("type", options_.thinking ? "enabled" : "disabled");
  json::Value out;
  out.Set("messages", recipe::plain::MessagesToJson(messages_));
  out.Set("thinking", std::move(thinking));
  if (options_.thinking) out.Set("reasoning_effort", options_.effort);
  DEEPINFER_RETURN_IF_ERROR(WriteFileAtomic(path, json::Serialize(out, 1) + "\n"));
  return Say(fmt::format("saved {} messages to {}", messages_.size(), path));
}

Status Chat::Load(const std::string& path) {
  if (path.empty()) return InvalidArgument("a file name is needed", "/load").WithHint("/load FILE");
  DEEPINFER_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxConversationBytes));
  Result<json::Value> value = json::Parse(text);
  if (!value.ok()) return std::move(value).status().Within(path);
  Result<recipe::plain::Conversation> conversation = recipe::plain::ParseConversation(*value);
  if (!conversation.ok()) return std::move(conversation).status().Within(path);
  options_.thinking = conversation->thinking.value_or(options_.thinking);
  options_.effort = conversation->effort.value_or(options_.effort);
  messages_ = std::move(conversation->messages);
  const bool has_system = !messages_.empty() && messages_.front().role == recipe::plain::Role::kSystem;
  system_ = has_system ? messages_.front().content : std::string();
  session_ = engine_.NewSession();
  past_ids_.clear();
  return Say(fmt::format("loaded {} messages from {}", messages_.size(), path));
}

Status Chat::SetOption(const std::string& name, const std::string& value) {
  if (name == "/effort") {
    DEEPINFER_ASSIGN_OR_RETURN(options_.effort, recipe::plain::ParseEffort(value));
    past_ids_.clear();  // the prompt begins with it
    return Say(fmt::format("effort {}", options_.effort));
  }
  if (value != "on" && value != "off") return InvalidArgument("/thinking must be on or off", "/thinking");
  options_.thinking = value == "on";
  past_ids_.clear();
  return Say("thinking " + value);
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
    status = Say("forgotten");
  } else if (name == "/system") {
    system_ = value;
    Reset();
    status = Say(value.empty() ? "no system message" : "system message set");
  } else if (name == "/thinking" || name == "/effort") {
    status = SetOption(name, value);
  } else if (name == "/save") {
    status = Save(value);
  } else if (name == "/load") {
    status = Load(value);
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
  if (StdoutIsTerminal()) DEEPINFER_RETURN_IF_ERROR(Say("/help lists the commands; Ctrl-D ends."));
  for (;;) {
    DEEPINFER_ASSIGN_OR_RETURN(const std::optional<std::string> line, editor.Read());
    if (!line) return ExitCode();
    if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
    if (line->front() == '/') {
      DEEPINFER_ASSIGN_OR_RETURN(const bool go_on, Command(*line));
      if (!go_on) return ExitCode();
      continue;
    }
    const Status status = Answer(*line);
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
      "Lines are messages; /help lists the commands (/system, /thinking, /effort, /save, /load, /reset). On "
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
