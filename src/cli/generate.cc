#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "base/log.h"
#include "cli/answer.h"
#include "cli/answer_printer.h"
#include "cli/batch_request.h"
#include "cli/chat_request.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/self_test.h"

namespace deepinfer::cli {
namespace {

constexpr size_t kMaxInputBytes = size_t{64} << 20;

/// Where the prompt comes from; exactly one kind.
struct PromptSource {
  std::string model;
  std::string text;  // the positional
};

Result<PromptSource> FindSource(const Arguments& args) {
  const bool messages = args.Has("--messages"), ids = args.Has("--ids");
  if (messages && ids) return InvalidArgument("--messages and --ids exclude each other", "--ids");
  if (args.Has("--raw") && (messages || ids)) return InvalidArgument("--raw belongs to a text", "--raw");
  if (!messages && !ids) {
    if (args.positionals().empty())
      return InvalidArgument("a text is needed").WithHint("deepinfer generate \"Tell me a story.\"");
    ModelAndOperand split = SplitPositionals(args);
    return PromptSource{.model = std::move(split.model), .text = std::move(split.operand)};
  }
  if (args.positionals().size() > 1) {
    return InvalidArgument(fmt::format("{} takes the place of the text", messages ? "--messages" : "--ids"),
                           args.positionals().back());
  }
  return PromptSource{.model = args.positionals().empty() ? std::string() : args.positionals().front(),
                      .text = {}};
}

/// What the command line names as input, read before the model is loaded.
struct Input {
  std::optional<std::vector<int32_t>> ids;
  std::optional<json::Value> body;       // of a chat request, its prompt fields alone
  std::string text;                      // when neither is set
  json::Value sampling{json::Object{}};  // fields of a request body
};

// Fields of a chat request that only concern a server.
constexpr std::array<std::string_view, 6> kServerFields = {"model", "stream",  "stream_options",
                                                           "user",  "user_id", "parallel_tool_calls"};

// Tried without a model, so that what is wrong is said before one is loaded.
Status CheckSamplingFields(const json::Value& fields) {
  BaseRequest unused;
  bool has_n = false;
  return ApplySamplingFields(fields, std::numeric_limits<int32_t>::max(), &unused, &has_n);
}

Result<Input> ReadMessages(const std::string& path) {
  DEEPINFER_ASSIGN_OR_RETURN(const std::string text, ReadTextInput(path, kMaxInputBytes));
  Result<json::Value> value = json::Parse(text, LineLimits());
  if (!value.ok()) return std::move(value).status().Within(path);
  if (value->is_array()) *value = json::Object{{"messages", *std::move(value)}};
  if (!value->is_object() || value->Find("messages") == nullptr) {
    return DataLoss("a conversation must be an array of messages or an object with `messages`", path);
  }
  std::erase_if(value->AsObject(), [](const auto& member) {
    return std::find(kServerFields.begin(), kServerFields.end(), member.first) != kServerFields.end();
  });
  Input input;
  Result<json::Value> body = TakeChatFields(&*value);
  if (!body.ok()) return std::move(body).status().Within(path);
  input.body = *std::move(body);
  input.sampling = *std::move(value);
  if (Status status = CheckSamplingFields(input.sampling); !status.ok())
    return std::move(status).Within(path);
  return input;
}

// Where the person wrote the prompt.
std::string PromptPlace(const Arguments& args) {
  return args.Has("--ids") ? "--ids" : args.Has("--messages") ? "--messages" : "TEXT";
}

Result<Input> ReadInput(const Arguments& args, const PromptSource& source) {
  if (args.Has("--messages")) return ReadMessages(args.Text("--messages"));
  Input input;
  if (args.Has("--ids")) {
    DEEPINFER_ASSIGN_OR_RETURN(input.ids, ParseIds(args.Text("--ids"), "--ids"));
    return input;
  }
  input.text = source.text;
  if (source.text == "-") {
    DEEPINFER_ASSIGN_OR_RETURN(input.text, ReadTextInput("-", kMaxInputBytes));
  }
  DEEPINFER_RETURN_IF_ERROR(CheckUtf8(input.text, PromptPlace(args)));
  return input;
}

Status CheckIdsOption(const Input& input, std::optional<int64_t> vocab_size) {
  for (const int32_t id : input.ids.value_or(std::vector<int32_t>())) {
    if (id >= 0 && id < vocab_size.value_or(std::numeric_limits<int32_t>::max())) continue;
    return InvalidArgument(
        fmt::format("--ids must be token ids below {}, not {}", vocab_size.value_or(0), id), "--ids");
  }
  return OkStatus();
}

// The conversation of a text or a file, with what the options say of it; nothing for texts and ids that are the prompt themselves.
Result<std::optional<recipe::Request>> ReadConversation(const Arguments& args, const Input& input) {
  if (input.ids || args.Has("--raw")) return std::optional<recipe::Request>();
  DEEPINFER_ASSIGN_OR_RETURN(const PromptSettings settings, ReadPromptOptions(args));
  json::Value body = input.body ? *input.body : TextBody(input.text);
  ApplyPromptSettings(settings, Precedence::kOptions, &body);
  Result<recipe::Request> request = ParseChat(std::move(body));
  if (request.ok()) return std::optional(*std::move(request));
  const Status& status = request.status();
  // What a file says wrongly is the file's fault, not that of the command line.
  const bool unsound = input.body.has_value() && status.code() == StatusCode::kInvalidArgument;
  return Status(unsound ? StatusCode::kDataLoss : status.code(), status.message(), status.where())
      .Within(input.body ? args.Text("--messages") : PromptPlace(args));
}

Result<Prompt> MakePrompt(const Engine& engine, const Arguments& args, const Input& input,
                          const std::optional<recipe::Request>& conversation) {
  if (input.ids) return IdsPrompt(*input.ids);
  if (!conversation) return TextPrompt(engine.tokenizer(), input.text, /*special=*/true);
  DEEPINFER_ASSIGN_OR_RETURN(const PromptSettings settings, ReadPromptOptions(args));
  return ChatPrompt(engine.tokenizer(), *conversation,
                    settings.history_thinking.value_or(recipe::HistoryThinking::kAuto));
}

// Defaults of the checkpoint, then a request body's fields, then options.
Result<BaseRequest> MakeRequest(const Engine& engine, const Arguments& args, const Input& input,
                                bool* choices) {
  const int64_t vocab_size = engine.config().vocab_size;
  BaseRequest request = DefaultRequest(engine.defaults());
  DEEPINFER_RETURN_IF_ERROR(ApplySamplingFields(input.sampling, vocab_size, &request, choices));
  DEEPINFER_RETURN_IF_ERROR(ApplySamplingOptions(args, vocab_size, &request));
  *choices = *choices || args.Has("--n");
  return request;
}

Result<Answer> RunForPeople(Engine& engine, const Prompt& prompt, const BaseRequest& request, AnswerRun run,
                            bool show_thinking) {
  AnswerPrinter printer(show_thinking);
  if (request.n == 1) {
    run.sink = &printer;
    DEEPINFER_ASSIGN_OR_RETURN(Answer answer, RunAnswer(engine, prompt, request, run));
    DEEPINFER_RETURN_IF_ERROR(printer.EndAnswer());
    return answer;
  }
  // Samples are the streams of one seed; to put a heading between them they are kept and printed one by one.
  DEEPINFER_ASSIGN_OR_RETURN(Answer all, RunAnswer(engine, prompt, request, run));
  for (size_t i = 0; i < all.samples.size(); ++i) {
    DEEPINFER_RETURN_IF_ERROR(WriteStdout(fmt::format("[{} of {}]\n", i + 1, request.n)));
    printer.Print(all.samples[i].answer);
    DEEPINFER_RETURN_IF_ERROR(printer.EndAnswer());
  }
  return all;
}

void LogSpeed(const Answer& answer, const Prompt& prompt) {
  double prefill_ms = 0, decode_ms = 0;
  size_t tokens = 0;
  for (const Sample& sample : answer.samples) {
    prefill_ms += sample.result.prefill_ms;
    decode_ms += sample.result.decode_ms;
    tokens += sample.result.output_ids.size();
  }
  LogVerbose(fmt::format("{} prompt tokens in {:.0f} ms, {} output tokens in {:.0f} ms, seed {}",
                         prompt.ids.size(), prefill_ms, tokens, decode_ms, answer.seed));
}

Result<int> RunGenerate(const Arguments& args) {
  DEEPINFER_ASSIGN_OR_RETURN(const PromptSource source, FindSource(args));
  DEEPINFER_RETURN_IF_ERROR(ReadPromptOptions(args).status());
  DEEPINFER_ASSIGN_OR_RETURN(const std::string model_dir, FindModel(source.model));
  DEEPINFER_RETURN_IF_ERROR(CheckSamplingOptions(args, model_dir));
  DEEPINFER_ASSIGN_OR_RETURN(const Input input, ReadInput(args, source));
  DEEPINFER_RETURN_IF_ERROR(CheckIdsOption(input, VocabularyOf(args, model_dir)));
  DEEPINFER_ASSIGN_OR_RETURN(const auto conversation, ReadConversation(args, input));
  DEEPINFER_RETURN_IF_ERROR(RunSelfTestOption(args));
  DEEPINFER_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, LoadEngine(model_dir, args));
  bool choices = false;
  DEEPINFER_ASSIGN_OR_RETURN(const BaseRequest request, MakeRequest(*engine, args, input, &choices));
  DEEPINFER_ASSIGN_OR_RETURN(const Prompt prompt, MakePrompt(*engine, args, input, conversation));
  AnswerRun run;
  run.seed = request.seed.value_or(RandomSeed());
  run.id_key = AnswerId(prompt, run.seed);
  const bool as_json = args.Has("--json");
  const Result<Answer> result =
      as_json ? RunAnswer(*engine, prompt, request, run)
              : RunForPeople(*engine, prompt, request, run, args.Has("--show-thinking"));
  if (!result.ok()) return InTermsOfOptions(result.status(), args, PromptPlace(args));
  const Answer& answer = *result;
  if (!as_json) {
    LogSpeed(answer, prompt);
    return Interrupted() ? 130 : 0;
  }
  const AnswerContext context{.id = run.id_key,
                              .prompt = &prompt,
                              .request = &request,
                              .choices = choices,
                              .load_ms = engine->load_ms()};
  DEEPINFER_RETURN_IF_ERROR(WriteJsonLine(AnswerToJson(answer, context)));
  return answer.interrupted() ? 130 : 0;
}

}  // namespace

Command GenerateCommand() {
  CommandSpec spec;
  spec.name = "generate";
  spec.summary = "writes one answer, streamed";
  spec.positionals = {ModelPositional(),
                      {.name = "TEXT",
                       .kind = ValueKind::kText,
                       .help = "what the user says; - reads it from standard input"}};
  spec.max_positionals = 2;
  spec.description =
      "With one argument it is the text, with two the first is the model. Reasoning is dimmed on a terminal "
      "and left out on a pipe; a tool call is a line [call NAME] with its arguments. A stop text counts in "
      "the answer, not in reasoning and tool calls. finish_reason of --json is stop (end token, --stop or "
      "--stop-id), tool_calls, length (--max-tokens), context_length (the model's context is full) or "
      "cancelled (Ctrl-C; what was finished is there). Decoding is not bound to a grammar: response_format "
      "json_object and tool_choice required shape the prompt, json_schema and regex are refused.";
  spec.example = "deepinfer generate \"What is 17 + 10?\" --temperature 0";
  spec.example_note =
      "Answers with the demo model; --json prints ids, texts, usage and timing as one object.";
  spec.see_also = {"chat", "batch", "score"};
  OptionGroup input{.title = "Input", .options = {}};
  input.options.push_back({.name = "--messages",
                           .kind = ValueKind::kFile,
                           .value = "FILE|-",
                           .help = "conversation instead of a text: a JSON array of messages, or a chat "
                                   "request body with tools, tool_choice, response_format, thinking, "
                                   "reasoning_effort and sampling fields; options go before its fields"});
  input.options.push_back({.name = "--raw",
                           .kind = ValueKind::kFlag,
                           .help = "the text is the prompt as it is, special tokens recognised"});
  input.options.push_back(
      {.name = "--ids", .kind = ValueKind::kText, .value = "0,17,…", .help = "token ids instead of a text"});
  OptionGroup output = OutputOptions();
  output.options.push_back(
      {.name = "--show-thinking", .kind = ValueKind::kFlag, .help = "prints the reasoning on a pipe, too"});
  spec.groups = {std::move(input), PromptOptions(), SamplingOptions(), ModelOptions(), std::move(output)};
  return {.spec = std::move(spec), .run = RunGenerate};
}

}  // namespace deepinfer::cli
