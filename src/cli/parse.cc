// Outputs of the model become answers of a protocol, without a model (spec: cli.md §2).
#include <array>
#include <limits>
#include <random>
#include <variant>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/common_options.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/tokenizer_option.h"
#include "recipe/answer_processor.h"
#include "recipe/json_document.h"
#include "recipe/request.h"
#include "recipe/response.h"

namespace deepinfer::cli {
namespace {

using recipe::JsonView;

constexpr size_t kMaxLineBytes = size_t{128} << 20;

/// What all outputs of one call have in common.
struct ParseSettings {
  recipe::Protocol protocol = recipe::Protocol::kChat;
  bool stream = false;
  std::shared_ptr<const Tokenizer> tokenizer;
  recipe::RandomSource random = recipe::SystemRandomNumber;
};

/// One output to read.
struct ParseJob {
  recipe::AnswerOptions answer;
  recipe::ResponseOptions response;
  std::optional<recipe::BackendFinish> finish = recipe::BackendFinish::kStop;
  recipe::PromptUsage usage;
  std::vector<std::variant<std::string, std::vector<int32_t>>> chunks;
};

Status WrongField(std::string_view field, std::string_view what) {
  return InvalidArgument(fmt::format("{} must be {}", field, what), std::string(field));
}

Result<bool> ReadFlag(std::string_view field, JsonView value) {
  if (!value.is_bool()) return WrongField(field, "true or false");
  return value.AsBool();
}

Status ReadStage(JsonView value, ParseJob* job) {
  using recipe::ParserStage;
  constexpr std::array<std::pair<std::string_view, ParserStage>, 5> kStages = {
      {{"none", ParserStage::kNone},
       {"start", ParserStage::kStart},
       {"reasoning", ParserStage::kReasoning},
       {"content", ParserStage::kContent},
       {"tool_calls", ParserStage::kToolCalls}}};
  for (const auto& [name, stage] : kStages) {
    if (!value.is_string() || value.AsString() != name) continue;
    job->answer.parsing.stage = stage;
    // The stages that only a request with thinking has.
    job->answer.thinking = stage != ParserStage::kNone && stage != ParserStage::kToolCalls;
    job->response.thinking = job->answer.thinking;
    return OkStatus();
  }
  return WrongField("stage", "none, start, reasoning, content or tool_calls");
}

Status ReadFinish(JsonView value, ParseJob* job) {
  using recipe::BackendFinish;
  constexpr std::array<std::pair<std::string_view, BackendFinish>, 3> kNames = {
      {{"stop", BackendFinish::kStop},
       {"length", BackendFinish::kLength},
       {"content_filter", BackendFinish::kContentFilter}}};
  job->finish.reset();
  if (value.is_null()) return OkStatus();
  for (const auto& [name, finish] : kNames) {
    if (value.is_string() && value.AsString() == name) job->finish = finish;
  }
  return job->finish ? OkStatus() : WrongField("finish", "stop, length, content_filter or null");
}

Status ReadUsage(JsonView value, ParseJob* job) {
  std::vector<int64_t> numbers;
  for (const JsonView element : value.elements()) {
    int64_t number = -1;
    if (element.GetInt64(&number) && number >= 0) numbers.push_back(number);
  }
  if (value.size() != 2 || numbers.size() != 2 || numbers[1] > numbers[0]) {
    return WrongField("usage", "[prompt tokens, cached tokens]");
  }
  job->usage = {numbers[0], numbers[1]};
  return OkStatus();
}

Status ReadStops(JsonView value, ParseJob* job) {
  if (!value.is_array()) return WrongField("stops", "an array of strings");
  job->answer.parsing.stops.clear();
  for (const JsonView stop : value.elements()) {
    if (!stop.is_string()) return WrongField("stops", "an array of strings");
    job->answer.parsing.stops.emplace_back(stop.AsString());
  }
  return OkStatus();
}

Status ReadChunks(JsonView value, ParseJob* job) {
  constexpr std::string_view kWhat = "an array of texts and lists of token ids";
  if (!value.is_array()) return WrongField("chunks", kWhat);
  for (const JsonView chunk : value.elements()) {
    if (chunk.is_string()) {
      job->chunks.emplace_back(std::string(chunk.AsString()));
      continue;
    }
    if (!chunk.is_array()) return WrongField("chunks", kWhat);
    std::vector<int32_t> ids;
    for (const JsonView element : chunk.elements()) {
      int64_t id = -1;
      if (!element.GetInt64(&id) || id < 0 || id > std::numeric_limits<int32_t>::max()) {
        return WrongField("chunks", kWhat);
      }
      ids.push_back(static_cast<int32_t>(id));
    }
    job->chunks.emplace_back(std::move(ids));
  }
  return OkStatus();
}

// The request that the output answers; the other fields go over what follows from it.
Status ReadBody(JsonView value, const ParseSettings& settings, ParseJob* job) {
  if (!value.is_string()) return WrongField("body", "a string");
  recipe::RequestOptions options;
  options.fill_in_the_middle = true;  // no server decides here
  const recipe::RequestResult request = recipe::ParseRequest(settings.protocol, value.AsString(), options);
  if (!request.ok()) return InvalidArgument(request.error().message, "body");
  job->answer = recipe::MakeAnswerOptions(*request);
  job->response = recipe::MakeResponseOptions(*request, nullptr);
  return OkStatus();
}

Status ReadField(std::string_view key, JsonView value, ParseJob* job) {
  if (key == "id" || key == "body") return OkStatus();
  if (key == "stage") return ReadStage(value, job);
  if (key == "finish") return ReadFinish(value, job);
  if (key == "usage") return ReadUsage(value, job);
  if (key == "stops") return ReadStops(value, job);
  if (key == "chunks") return ReadChunks(value, job);
  if (key == "tools") {
    DEEPINFER_ASSIGN_OR_RETURN(job->answer.parsing.tools, ReadFlag(key, value));
    return OkStatus();
  }
  if (key == "json") {
    DEEPINFER_ASSIGN_OR_RETURN(job->answer.parsing.json, ReadFlag(key, value));
    return OkStatus();
  }
  return InvalidArgument(fmt::format("unknown field {}", key), std::string(key));
}

Result<ParseJob> ReadJob(JsonView line, const ParseSettings& settings) {
  ParseJob job;
  job.response.model = "DeepSeek-V4.1-Flash";
  if (settings.protocol == recipe::Protocol::kCompletions) job.answer.plain = true;
  if (const auto body = line.Find("body")) DEEPINFER_RETURN_IF_ERROR(ReadBody(*body, settings, &job));
  if (!line.Find("chunks")) return InvalidArgument("chunks are needed", "chunks");
  for (const auto& [key, value] : line.members()) DEEPINFER_RETURN_IF_ERROR(ReadField(key, value, &job));
  job.answer.random = settings.random;
  // The same for every call, so that outputs can be compared.
  job.response.id = "rid";
  return job;
}

Status Feed(const ParseJob& job, const ParseSettings& settings, recipe::AnswerSink* sink) {
  recipe::AnswerProcessor processor(job.answer, settings.tokenizer, sink);
  processor.Ready("fp", job.usage);
  for (const auto& chunk : job.chunks) {
    if (const auto* text = std::get_if<std::string>(&chunk)) {
      processor.Text(*text);
      continue;
    }
    DEEPINFER_RETURN_IF_ERROR(processor.Tokens(std::get<std::vector<int32_t>>(chunk)));
  }
  if (job.finish) {
    processor.Finish(*job.finish);
  } else {
    processor.End();
  }
  return OkStatus();
}

bool HasIds(const ParseJob& job) {
  for (const auto& chunk : job.chunks) {
    if (std::holds_alternative<std::vector<int32_t>>(chunk)) return true;
  }
  return false;
}

// A vocabulary is needed, and looked for, only when there are ids.
Status LoadTokenizerFor(const ParseJob& job, const Arguments& args, ParseSettings* settings) {
  if (settings->tokenizer != nullptr || !HasIds(job)) return OkStatus();
  DEEPINFER_ASSIGN_OR_RETURN(settings->tokenizer, LoadTokenizer(args, ""));
  return OkStatus();
}

Result<json::Value> ParsedResponse(const ParseJob& job, const ParseSettings& settings) {
  recipe::AnswerCollector collector;
  DEEPINFER_RETURN_IF_ERROR(Feed(job, settings, &collector));
  return recipe::ResponseObject(settings.protocol, collector.answer(), job.response);
}

/// Keeps events for a JSON line: [name or null, data].
class EventList : public recipe::EventSink {
 public:
  void OnEvent(std::string_view name, std::string_view data) override {
    auto value = json::Parse(data, {.max_bytes = data.size(), .max_depth = 256});
    events.emplace_back(json::Array{name.empty() ? json::Value() : json::Value(name),
                                    value.ok() ? std::move(value).value() : json::Value(data)});
  }
  json::Array events;
};

Result<int> ParseOne(const Arguments& args, const std::string& path, ParseSettings settings) {
  DEEPINFER_ASSIGN_OR_RETURN(const std::string text, ReadTextInput(path, kMaxLineBytes));
  const auto document = recipe::JsonDocument::Parse(text, {.max_bytes = kMaxLineBytes});
  if (!document.ok()) return DataLoss(document.status().message(), path);
  if (!document->root().is_object()) return DataLoss("the input must be a JSON object", path);
  auto job = ReadJob(document->root(), settings);
  if (!job.ok()) return DataLoss(job.status().message(), job.status().where());
  DEEPINFER_RETURN_IF_ERROR(LoadTokenizerFor(*job, args, &settings));
  if (!settings.stream) {
    DEEPINFER_ASSIGN_OR_RETURN(const json::Value response, ParsedResponse(*job, settings));
    DEEPINFER_RETURN_IF_ERROR(WriteJsonLine(response));
    return 0;
  }
  std::string frames;
  recipe::SseWriter writer(&frames);
  const auto stream = recipe::MakeResponseStream(settings.protocol, job->response, &writer);
  DEEPINFER_RETURN_IF_ERROR(Feed(*job, settings, stream.get()));
  frames += recipe::SseTerminator(settings.protocol);
  DEEPINFER_RETURN_IF_ERROR(WriteStdout(frames));
  return 0;
}

// {"response"} or {"events"} of a line.
Status AnswerJob(const ParseJob& job, const ParseSettings& settings, json::Object* out) {
  if (!settings.stream) {
    DEEPINFER_ASSIGN_OR_RETURN(json::Value response, ParsedResponse(job, settings));
    out->emplace_back("response", std::move(response));
    return OkStatus();
  }
  EventList list;
  const auto stream = recipe::MakeResponseStream(settings.protocol, job.response, &list);
  DEEPINFER_RETURN_IF_ERROR(Feed(job, settings, stream.get()));
  out->emplace_back("events", std::move(list.events));
  return OkStatus();
}

// Answers one line. Errors of the line go to `out`; those of the environment are returned.
Status AnswerLine(const Line& line, const Arguments& args, ParseSettings* settings, json::Object* out,
                  bool* failed) {
  const auto fail = [&](const Status& status) {
    *failed = true;
    out->emplace_back("error", ErrorObject(status));
    return OkStatus();
  };
  const std::string place = fmt::format("line {}", line.number + 1);
  out->emplace_back("id", nullptr);
  if (line.too_long) {
    return fail(ResourceExhausted(fmt::format("{} is longer than {} bytes", place, kMaxLineBytes)));
  }
  auto document = recipe::JsonDocument::Parse(line.text, {.max_bytes = kMaxLineBytes});
  if (!document.ok()) return fail(std::move(document).status().Within(place));
  if (!document->root().is_object()) return fail(InvalidArgument("a line must be a JSON object", place));
  if (const auto id = document->root().Find("id")) out->front().second = id->ToValue();
  const auto job = ReadJob(document->root(), *settings);
  if (!job.ok()) return fail(job.status());
  DEEPINFER_RETURN_IF_ERROR(LoadTokenizerFor(*job, args, settings));
  const Status answered = AnswerJob(*job, *settings, out);
  return answered.ok() ? OkStatus() : fail(answered);
}

Result<int> ParseLines(const Arguments& args, const std::string& path, ParseSettings settings) {
  DEEPINFER_ASSIGN_OR_RETURN(LineReader reader, OpenLines(path, kMaxLineBytes));
  int exit_code = 0;
  Line line;
  while (true) {
    DEEPINFER_ASSIGN_OR_RETURN(const bool more, reader.Next(&line));
    if (!more) return exit_code;
    if (!line.too_long && IsBlank(line.text)) continue;
    bool failed = false;
    json::Object answer;
    DEEPINFER_RETURN_IF_ERROR(AnswerLine(line, args, &settings, &answer, &failed));
    if (failed) exit_code = 1;
    DEEPINFER_RETURN_IF_ERROR(WriteJsonLine(std::move(answer)));
  }
}

Result<int> RunParse(const Arguments& args) {
  ParseSettings settings;
  settings.protocol = *recipe::FindProtocol(args.Text("--protocol", "chat"));
  settings.stream = args.Has("--stream");
  if (args.Has("--tokenizer")) {
    DEEPINFER_ASSIGN_OR_RETURN(settings.tokenizer, LoadTokenizer(args, ""));
  }
  if (args.Has("--seed")) settings.random = std::mt19937_64(args.Unsigned("--seed", 0));
  const std::string path = args.positionals().empty() ? "-" : args.positionals().front();
  return args.Has("--jsonl") ? ParseLines(args, path, std::move(settings))
                             : ParseOne(args, path, std::move(settings));
}

OptionGroup ParsingGroup() {
  OptionGroup group{.title = "Parsing", .options = {}};
  group.options.push_back({.name = "--protocol",
                           .kind = ValueKind::kChoice,
                           .value = "NAME",
                           .help = "form of the answer; default chat",
                           .choices = {"chat", "responses", "messages", "completions"}});
  group.options.push_back({.name = "--stream",
                           .kind = ValueKind::kFlag,
                           .help = "the event stream instead of the response body"});
  group.options.push_back({.name = "--jsonl",
                           .kind = ValueKind::kFlag,
                           .help = "reads one object a line and prints id with response, events or error"});
  group.options.push_back({.name = "--seed",
                           .kind = ValueKind::kUnsigned,
                           .value = "N",
                           .help = "random part of call ids; default: one that nobody can guess"});
  group.options.push_back(TokenizerOption());
  return group;
}

}  // namespace

Command ParseCommand() {
  CommandSpec spec;
  spec.name = "parse";
  spec.summary = "turns what a model wrote into an answer of an API";
  spec.positionals = {{.name = "FILE",
                       .kind = ValueKind::kFile,
                       .help = "the output as JSON; - or nothing reads standard input"}};
  spec.max_positionals = 1;
  spec.description =
      "The input is an object: chunks (texts and lists of token ids, as the model wrote them), stage (none, "
      "start, "
      "reasoning, content or tool_calls; default none), tools and json (true or false), stops (texts), "
      "finish (stop, "
      "length, content_filter or null), usage ([prompt tokens, cached tokens]), body (the request that is "
      "answered, as "
      "a string). Prints the response body. Needs no model; a vocabulary only for ids.";
  spec.example =
      "echo '{\"stage\": \"start\", \"chunks\": [\"17 + 10 = 27</think>27\"]}' | deepinfer parse --protocol "
      "messages";
  spec.example_note = "Prints a message with a thinking block and a text block.";
  spec.see_also = {"encode", "detokenize"};
  spec.groups = {ParsingGroup(), OutputOptions()};
  return {.spec = std::move(spec), .run = RunParse};
}

}  // namespace deepinfer::cli
