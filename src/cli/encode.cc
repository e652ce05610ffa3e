// Request bodies become prompts and ids, without a model (spec: cli.md §2).
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/common_options.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/tokenizer_option.h"
#include "recipe/prompt.h"
#include "recipe/request.h"
#include "recipe/request_json.h"

namespace deepinfer::cli {
namespace {

constexpr size_t kMaxBodyBytes = size_t{48} << 20;
/// A line holds a body as a JSON string, in which escapes need more room.
constexpr size_t kMaxLineBytes = size_t{128} << 20;

/// One request to encode.
struct EncodeJob {
  recipe::Protocol protocol = recipe::Protocol::kChat;
  std::optional<recipe::PromptProfile> profile;  // nothing: that of the request's model
  recipe::RequestOptions options;
  std::string body;
};

/// A request with its prompt.
struct Encoded {
  recipe::Request request;
  recipe::Prompt prompt;
  recipe::PromptProfile profile = recipe::PromptProfile::kRecipe;
};

recipe::PromptProfile ProfileOf(const EncodeJob& job, const recipe::Request& request) {
  const bool version_4 = request.model_version == recipe::ModelVersion::kV4Pro;
  return job.profile.value_or(version_4 ? recipe::PromptProfile::kV4 : recipe::PromptProfile::kRecipe);
}

// `encoded` keeps the request, which the prompt's images belong to.
Status Render(const EncodeJob& job, recipe::Request request, Encoded* encoded) {
  encoded->request = std::move(request);
  encoded->profile = ProfileOf(job, encoded->request);
  if (const auto& completion = encoded->request.completion) {
    encoded->prompt = recipe::RenderCompletion(completion->prompt, completion->suffix);
    return OkStatus();
  }
  recipe::PromptOptions options;
  options.profile = encoded->profile;
  DEEPINFER_ASSIGN_OR_RETURN(encoded->prompt, recipe::RenderPrompt(encoded->request.conversation, options));
  return OkStatus();
}

Result<json::Object> ResultObject(const Encoded& encoded, const Tokenizer& tokenizer) {
  json::Array special;
  for (const auto& [begin, end] : recipe::SpecialCodePoints(encoded.prompt)) {
    special.emplace_back(json::Array{json::Value(uint64_t{begin}), json::Value(uint64_t{end})});
  }
  json::Object out;
  out.emplace_back("prompt", encoded.prompt.text);
  out.emplace_back("special", std::move(special));
  if (encoded.profile != recipe::PromptProfile::kV4) {
    DEEPINFER_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                               recipe::EncodePrompt(encoded.prompt, tokenizer));
    json::Array id_list;
    id_list.reserve(ids.size());
    for (const int32_t id : ids) id_list.emplace_back(int64_t{id});
    out.emplace_back("ids", std::move(id_list));
  }
  if (!encoded.prompt.images.empty()) {
    json::Array images;
    for (const recipe::ImageSource* image : encoded.prompt.images)
      images.push_back(recipe::ImageJson(*image));
    out.emplace_back("images", std::move(images));
  }
  recipe::AppendSettings(encoded.request, &out);
  return out;
}

json::Object RejectedObject(const recipe::RequestError& error) {
  json::Object out;
  out.emplace_back("status", int64_t{error.status});
  json::Value body = error.ToJson();
  for (auto& member : body.AsObject()) out.push_back(std::move(member));
  return out;
}

// The prompt for people: control tokens in colour, what would disturb a terminal as \xNN.
std::string Coloured(const recipe::Prompt& prompt) {
  constexpr std::string_view kOn = "\x1b[1;36m";
  constexpr std::string_view kOff = "\x1b[0m";
  const std::string_view text = prompt.text;
  std::string out;
  size_t at = 0;
  for (const auto& special : prompt.special) {
    out += Printable(std::string(text.substr(at, special.begin - at)));
    out += kOn;
    out += text.substr(special.begin, special.end - special.begin);
    out += kOff;
    at = special.end;
  }
  return out += Printable(std::string(text.substr(at)));
}

Status CheckKeys(const json::Value& line) {
  for (const auto& [key, value] : line.AsObject()) {
    if (key == "id" || key == "protocol" || key == "profile" || key == "options" || key == "body") continue;
    return InvalidArgument(fmt::format("unknown field {}", key), key);
  }
  return OkStatus();
}

// The text of a line's field, or nothing.
Result<std::optional<std::string>> TextField(const json::Value& line, std::string_view key) {
  const json::Value* value = line.Find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return InvalidArgument(fmt::format("{} must be a string", key), std::string(key));
  return std::optional<std::string>(value->AsString());
}

// Fields of a line on top of the options of the command.
Status ApplyLine(const json::Value& line, EncodeJob* job) {
  DEEPINFER_RETURN_IF_ERROR(CheckKeys(line));
  DEEPINFER_ASSIGN_OR_RETURN(const auto protocol, TextField(line, "protocol"));
  if (protocol.has_value()) {
    const auto found = recipe::FindProtocol(*protocol);
    if (!found)
      return InvalidArgument("protocol must be chat, responses, messages or completions", "protocol");
    job->protocol = *found;
  }
  DEEPINFER_ASSIGN_OR_RETURN(const auto profile, TextField(line, "profile"));
  if (profile.has_value()) {
    job->profile = recipe::FindPromptProfile(*profile);
    if (!job->profile) return InvalidArgument("profile must be recipe, checkpoint or v4", "profile");
  }
  if (const json::Value* options = line.Find("options"); options != nullptr && !options->is_null()) {
    if (!options->is_object()) return InvalidArgument("options must be an object", "options");
    for (const auto& [name, value] : options->AsObject()) {
      DEEPINFER_RETURN_IF_ERROR(recipe::ApplyRequestOption(name, value, &job->options));
    }
  }
  DEEPINFER_ASSIGN_OR_RETURN(auto body, TextField(line, "body"));
  if (!body.has_value()) return InvalidArgument("a line needs a body", "body");
  job->body = *std::move(body);
  return OkStatus();
}

EncodeJob BaseJob(const Arguments& args) {
  EncodeJob job;
  // The choices of the option tables are names that these functions know.
  job.protocol = *recipe::FindProtocol(args.Text("--protocol", "chat"));
  if (args.Has("--profile")) job.profile = recipe::FindPromptProfile(args.Text("--profile"));
  job.options.fill_in_the_middle = true;  // no server decides here
  job.options.max_body_bytes = kMaxBodyBytes;
  return job;
}

// The object that answers a job: the result, or the refusal.
Result<json::Object> Answer(const EncodeJob& job, const Tokenizer& tokenizer, bool* refused) {
  recipe::RequestResult request = recipe::ParseRequest(job.protocol, job.body, job.options);
  *refused = !request.ok();
  if (*refused) return RejectedObject(request.error());
  Encoded encoded;
  DEEPINFER_RETURN_IF_ERROR(Render(job, *std::move(request), &encoded));
  return ResultObject(encoded, tokenizer);
}

Result<int> EncodeOne(const Arguments& args, const std::string& path) {
  const bool for_people = args.Has("--text") || args.Has("--show");
  EncodeJob job = BaseJob(args);
  DEEPINFER_ASSIGN_OR_RETURN(job.body, ReadTextInput(path, kMaxBodyBytes));
  if (!for_people) {
    DEEPINFER_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(args, ""));
    bool refused = false;
    DEEPINFER_ASSIGN_OR_RETURN(json::Object answer, Answer(job, *tokenizer, &refused));
    DEEPINFER_RETURN_IF_ERROR(WriteJsonLine(std::move(answer)));
    return refused ? 1 : 0;
  }
  recipe::RequestResult request = recipe::ParseRequest(job.protocol, job.body, job.options);
  if (!request.ok()) {
    ReportError(InvalidArgument(request.error().message, path).WithHint("deepinfer encode --help"),
                args.Has("--json"));
    return 1;
  }
  Encoded encoded;
  DEEPINFER_RETURN_IF_ERROR(Render(job, *std::move(request), &encoded));
  DEEPINFER_RETURN_IF_ERROR(
      WriteStdout(args.Has("--show") ? Coloured(encoded.prompt) + "\n" : encoded.prompt.text));
  return 0;
}

// The answer to one line; `failed` when it is not a result.
json::Object AnswerLine(const Line& line, const EncodeJob& base, const Tokenizer& tokenizer, bool* failed) {
  json::Object out;
  const auto fail = [&](const Status& status) {
    *failed = true;
    out.emplace_back("error", ErrorObject(status));
    return out;
  };
  if (line.too_long) {
    out.emplace_back("id", nullptr);
    return fail(
        ResourceExhausted(fmt::format("line {} is longer than {} bytes", line.number + 1, kMaxLineBytes)));
  }
  json::ParseLimits limits;
  limits.max_bytes = kMaxLineBytes;
  auto value = json::Parse(line.text, limits);
  if (value.ok() && !value->is_object()) value = InvalidArgument("a line must be a JSON object");
  const json::Value* id = value.ok() ? value->Find("id") : nullptr;
  out.emplace_back("id", id == nullptr ? json::Value() : *id);
  if (!value.ok()) return fail(std::move(value).status().Within(fmt::format("line {}", line.number + 1)));
  EncodeJob job = base;
  if (auto status = ApplyLine(*value, &job); !status.ok()) return fail(status);
  bool refused = false;
  auto answer = Answer(job, tokenizer, &refused);
  if (!answer.ok()) return fail(answer.status());
  *failed = refused;
  for (auto& member : *answer) out.push_back(std::move(member));
  return out;
}

Result<int> EncodeLines(const Arguments& args, const std::string& path) {
  for (const char* option : {"--text", "--show"}) {
    if (args.Has(option))
      return InvalidArgument(fmt::format("{} and --jsonl exclude each other", option), option);
  }
  DEEPINFER_ASSIGN_OR_RETURN(LineReader reader, OpenLines(path, kMaxLineBytes));
  DEEPINFER_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(args, ""));
  const EncodeJob base = BaseJob(args);
  int exit_code = 0;
  Line line;
  while (true) {
    DEEPINFER_ASSIGN_OR_RETURN(const bool more, reader.Next(&line));
    if (!more) return exit_code;
    if (!line.too_long && IsBlank(line.text)) continue;
    bool failed = false;
    json::Object answer = AnswerLine(line, base, *tokenizer, &failed);
    if (failed) exit_code = 1;
    DEEPINFER_RETURN_IF_ERROR(WriteJsonLine(std::move(answer)));
  }
}

Result<int> RunEncode(const Arguments& args) {
  if (args.Has("--text") && args.Has("--show"))
    return InvalidArgument("--text and --show exclude each other", "--show");
  const std::string path = args.positionals().empty() ? "-" : args.positionals().front();
  return args.Has("--jsonl") ? EncodeLines(args, path) : EncodeOne(args, path);
}

OptionGroup EncodeOptions() {
  OptionGroup group{.title = "Encoding", .options = {}};
  group.options.push_back({.name = "--protocol",
                           .kind = ValueKind::kChoice,
                           .value = "NAME",
                           .help = "what the body is; default chat",
                           .choices = {"chat", "responses", "messages", "completions"}});
  group.options.push_back({.name = "--profile",
                           .kind = ValueKind::kChoice,
                           .value = "NAME",
                           .help = "rules of the prompt; default recipe, v4 for a model of that version",
                           .choices = {"recipe", "checkpoint", "v4"}});
  group.options.push_back(
      {.name = "--text", .kind = ValueKind::kFlag, .help = "prints the prompt alone, byte for byte"});
  group.options.push_back({.name = "--show",
                           .kind = ValueKind::kFlag,
                           .help = "prints the prompt with its special tokens in colour"});
  group.options.push_back(
      {.name = "--jsonl",
       .kind = ValueKind::kFlag,
       .help = "reads one object a line: id, body (a string), protocol, profile, options"});
  group.options.push_back(TokenizerOption());
  return group;
}

}  // namespace

Command EncodeCommand() {
  CommandSpec spec;
  spec.name = "encode";
  spec.summary = "turns a request body into prompt and token ids";
  spec.positionals = {{.name = "FILE",
                       .kind = ValueKind::kFile,
                       .help = "the request body; - or nothing reads standard input"}};
  spec.max_positionals = 1;
  spec.description =
      "Prints one JSON object: prompt, special (ranges of code points that are control tokens), ids, images, "
      "thinking, effort, parsing, inference, stream. A request that a server would refuse gives status and "
      "error, "
      "exit code 1. Needs no model. docs/recipe.md lists the fields of every protocol.";
  spec.example =
      "echo '{\"model\": \"deepseek-flash\", \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}' | "
      "deepinfer encode --show";
  spec.example_note = "Shows the prompt of a chat request.";
  spec.see_also = {"tokenize", "generate"};
  spec.groups = {EncodeOptions(), OutputOptions()};
  return {.spec = std::move(spec), .run = RunEncode};
}

}  // namespace deepinfer::cli
