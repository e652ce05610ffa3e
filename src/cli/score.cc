#include <unistd.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/log.h"
#include "cli/answer.h"
#include "cli/batch_request.h"
#include "cli/chat_request.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/self_test.h"
#include "cli/suggest.h"
#include "tokenizer/detokenizer.h"

namespace deepinfer::cli {
namespace {

constexpr size_t kMaxTextBytes = size_t{64} << 20;

double Perplexity(const ScoreResult& score, size_t num_ids) {
  return num_ids < 2 ? 1.0 : std::exp(score.nll / static_cast<double>(num_ids - 1));
}

json::Value ScoreToJson(const json::Value& id, const std::vector<int32_t>& ids, const ScoreResult& score,
                        bool with_top) {
  json::Array id_list, logprobs, top;
  for (size_t i = 0; i < ids.size(); ++i) {
    id_list.emplace_back(int64_t{ids[i]});
    logprobs.emplace_back(i == 0 ? json::Value() : json::Value(score.logprobs[i]));
  }
  for (size_t i = 0; with_top && i < score.top.size(); ++i) {
    json::Array best;
    for (const auto& [token, logprob] : score.top[i])
      best.emplace_back(json::Array{json::Value(int64_t{token}), json::Value(logprob)});
    top.emplace_back(std::move(best));
  }
  json::Value out;
  out.Set("id", id);
  out.Set("ids", std::move(id_list));
  out.Set("logprobs", std::move(logprobs));
  out.Set("top", std::move(top));
  out.Set("nll", score.nll);
  out.Set("perplexity", Perplexity(score, ids.size()));
  return out;
}

Status PrintForPeople(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, const ScoreResult& score) {
  std::string text = "      id    logprob  token\n";
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string logprob = i == 0 ? "-" : fmt::format("{:.4f}", score.logprobs[i]);
    text += fmt::format("{:>8}  {:>9}  {}\n", ids[i], logprob,
                        json::Serialize(DecodeText(tokenizer, {&ids[i], 1})));
    for (const auto& [token, best] :
         i < score.top.size() ? score.top[i] : decltype(score.top)::value_type{}) {
      text += fmt::format("{:>8}  {:>9.4f}    next: {}\n", token, best,
                          json::Serialize(DecodeText(tokenizer, {&token, 1})));
    }
  }
  text += fmt::format("{} tokens, nll {:.6g}, perplexity {:.6g}\n", ids.size(), score.nll,
                      Perplexity(score, ids.size()));
  return WriteStdout(text);
}

/// Scores texts and lines with one loaded model.
class Scorer {
 public:
  Scorer(Engine& engine, const Arguments& args)
      : engine_(engine),
        args_(args),
        top_(static_cast<int>(args.Integer("--top", 0))),
        json_(args.Has("--json")) {}

  /// `place` is where the person wrote the text or the ids.
  Status ScoreOne(const json::Value& id, const std::vector<int32_t>& ids, const std::string& place);
  /// Runs every line; false when one of them failed.
  Result<bool> ScoreLines(const std::string& path);

 private:
  /// Ids of a line and its id. Every error is the line's fault.
  Result<std::vector<int32_t>> ReadLine(const cli::Line& line, json::Value* id, std::string* field) const;
  Result<std::vector<int32_t>> LineIds(const json::Value& line, std::string* field) const;
  Engine& engine_;
  const Arguments& args_;
  int top_;
  bool json_;
};

Status Scorer::ScoreOne(const json::Value& id, const std::vector<int32_t>& ids, const std::string& place) {
  if (ids.empty()) return InvalidArgument("the text is empty", place);
  const Result<ScoreResult> score = engine_.Score(ids, top_, &StopFlag());
  if (!score.ok()) return InTermsOfOptions(score.status(), args_, place);
  if (json_) return WriteJsonLine(ScoreToJson(id, ids, *score, top_ > 0));
  return PrintForPeople(engine_.tokenizer(), ids, *score);
}

Result<std::vector<int32_t>> Scorer::LineIds(const json::Value& line, std::string* field) const {
  static const std::vector<std::string> kFields = [] {
    std::vector<std::string> fields = {"id", "prompt", "prompt_ids", "special"};
    for (const std::string_view name : ChatFields()) fields.emplace_back(name);
    return fields;
  }();
  for (const auto& [key, value] : line.AsObject()) {
    if (std::find(kFields.begin(), kFields.end(), key) != kFields.end()) continue;
    const std::string nearest = Nearest(key, kFields);
    return InvalidArgument(
        fmt::format("unknown field \"{}\"{}", key.substr(0, 80),
                    nearest.empty() ? std::string() : fmt::format("; did you mean \"{}\"?", nearest)),
        key.substr(0, 80));
  }
  DEEPINFER_ASSIGN_OR_RETURN(
      BatchRequest request,
      ParseBatchRequest(
          line, {.base = {}, .has_n = false, .prompt = {}, .vocab_size = engine_.config().vocab_size}));
  *field = PromptField(request);
  DEEPINFER_ASSIGN_OR_RETURN(Prompt prompt,
                             LinePrompt(engine_.tokenizer(), request, recipe::HistoryThinking::kAuto));
  return std::move(prompt.ids);
}

Result<std::vector<int32_t>> Scorer::ReadLine(const cli::Line& line, json::Value* id,
                                              std::string* field) const {
  if (line.too_long) return ResourceExhausted(fmt::format("the line is longer than {} bytes", kMaxLineBytes));
  Result<json::Value> parsed = json::Parse(line.text, LineLimits());
  if (!parsed.ok()) return std::move(parsed).status().Within(fmt::format("line {}", line.number + 1));
  const json::Value value = *std::move(parsed);
  if (!value.is_object()) return InvalidArgument("a line must be an object");
  DEEPINFER_ASSIGN_OR_RETURN(*id, LineId(value));
  return LineIds(value, field);
}

Result<bool> Scorer::ScoreLines(const std::string& path) {
  uint64_t size = 0;
  FileDescriptor fd(::dup(STDIN_FILENO));
  if (path != "-") {
    DEEPINFER_ASSIGN_OR_RETURN(fd, OpenRegularFile(path, &size));
  }
  LineReader in(std::move(fd), path == "-" ? "standard input" : path, kMaxLineBytes);
  bool all_good = true;
  cli::Line line;
  for (;;) {
    DEEPINFER_ASSIGN_OR_RETURN(const bool more, in.Next(&line));
    if (!more) return all_good;
    if (!line.too_long && IsBlank(line.text)) continue;
    json::Value id;
    std::string field;
    const Result<std::vector<int32_t>> ids = ReadLine(line, &id, &field);
    const Status status = ids.ok() ? ScoreOne(id, *ids, field) : ids.status();
    if (status.ok()) continue;
    if (ids.ok() && !IsRequestFault(status)) return status;
    all_good = false;
    json::Value error = ErrorObject(status);
    if (status.where().empty()) error.Set("where", fmt::format("line {}", line.number + 1));
    json::Value out;
    out.Set("id", id);
    out.Set("error", std::move(error));
    if (!json_) LogWarning(fmt::format("line {}: {}", line.number + 1, status.ToString()));
    if (json_) DEEPINFER_RETURN_IF_ERROR(WriteJsonLine(out));
  }
}

/// {MODEL, FILE}: the file may be left out when --text or --ids is there.
Result<ModelAndOperand> FindSource(const Arguments& args) {
  const int sources = (args.Has("--text") ? 1 : 0) + (args.Has("--ids") ? 1 : 0);
  if (sources > 1) return InvalidArgument("--text and --ids exclude each other", "--ids");
  if (sources == 0) {
    ModelAndOperand split = SplitPositionals(args);
    if (split.operand.empty())
      return InvalidArgument("a file, --text or --ids is needed")
          .WithHint("deepinfer score --text \"17 + 10 = 27\"");
    return split;
  }
  if (args.Has("--jsonl")) return InvalidArgument("--jsonl needs a file", "--jsonl");
  if (args.positionals().size() > 1)
    return InvalidArgument("--text and --ids take the place of the file", args.positionals().back());
  return ModelAndOperand{.model = args.positionals().empty() ? std::string() : args.positionals().front(),
                         .operand = {}};
}

// Where the person wrote the text or the ids.
std::string SourcePlace(const Arguments& args, const std::string& path) {
  return args.Has("--ids") ? "--ids" : args.Has("--text") ? "--text" : path == "-" ? "standard input" : path;
}

Result<std::vector<int32_t>> SourceIds(const Engine& engine, const Arguments& args, const std::string& path) {
  if (args.Has("--ids")) return ParseIds(args.Text("--ids"), "--ids");
  std::string text = args.Text("--text");
  if (!args.Has("--text")) {
    DEEPINFER_ASSIGN_OR_RETURN(text, ReadTextInput(path, kMaxTextBytes));
  }
  DEEPINFER_RETURN_IF_ERROR(CheckUtf8(text, SourcePlace(args, path)));
  DEEPINFER_ASSIGN_OR_RETURN(Prompt prompt, TextPrompt(engine.tokenizer(), text, args.Has("--special")));
  return std::move(prompt.ids);
}

Result<int> RunScore(const Arguments& args) {
  if (args.Has("--prefill") && args.Text("--prefill") != "full") {
    return InvalidArgument("score runs in mode full only: the shortened modes have no logits for most rows",
                           "--prefill");
  }
  DEEPINFER_ASSIGN_OR_RETURN(const ModelAndOperand source, FindSource(args));
  DEEPINFER_ASSIGN_OR_RETURN(const std::string model_dir, FindModel(source.model));
  DEEPINFER_RETURN_IF_ERROR(RunSelfTestOption(args));
  DEEPINFER_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, LoadEngine(model_dir, args));
  Scorer scorer(*engine, args);
  if (args.Has("--jsonl")) {
    DEEPINFER_ASSIGN_OR_RETURN(const bool all_good, scorer.ScoreLines(source.operand));
    return all_good ? 0 : 1;
  }
  DEEPINFER_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, SourceIds(*engine, args, source.operand));
  DEEPINFER_RETURN_IF_ERROR(scorer.ScoreOne(json::Value(), ids, SourcePlace(args, source.operand)));
  return 0;
}

}  // namespace

Command ScoreCommand() {
  CommandSpec spec;
  spec.name = "score";
  spec.summary = "log-probabilities of a given text";
  spec.positionals = {
      ModelPositional(),
      {.name = "FILE", .kind = ValueKind::kFile, .help = "the text as it is; - reads standard input"}};
  spec.max_positionals = 2;
  spec.description =
      "logprobs[i] is that of ids[i] given what is before it; top[i] belongs to the distribution after "
      "ids[i]. Natural logarithms of the "
      "raw logits, always in mode full.";
  spec.example = "deepinfer score --special --text \"<think>17 + 10 = 27\" --json";
  spec.example_note = "Prints ids, logprobs, nll and perplexity.";
  spec.see_also = {"generate", "tokenize"};
  OptionGroup input{.title = "Input and result", .options = {}};
  input.options.push_back(
      {.name = "--text", .kind = ValueKind::kText, .value = "TEXT", .help = "text instead of a file"});
  input.options.push_back(
      {.name = "--ids", .kind = ValueKind::kText, .value = "0,17,…", .help = "token ids instead of a file"});
  input.options.push_back({.name = "--jsonl",
                           .kind = ValueKind::kFlag,
                           .help = "the file holds lines of prompt, prompt_ids or messages, with an id"});
  input.options.push_back(
      {.name = "--special", .kind = ValueKind::kFlag, .help = "special tokens are recognised in the text"});
  input.options.push_back({.name = "--top",
                           .kind = ValueKind::kInteger,
                           .value = "K",
                           .help = "the K best next tokens at every position; default 0",
                           .min = 0,
                           .max = static_cast<double>(kMaxLogprobs)});
  input.options.push_back({.name = "--prefill",
                           .kind = ValueKind::kChoice,
                           .value = "full",
                           .help = "only full is accepted here",
                           .choices = {"full", "exact_halo", "bounded_replay"}});
  spec.groups = {std::move(input), ModelOptions(/*with_prefill=*/false), OutputOptions()};
  return {.spec = std::move(spec), .run = RunScore};
}

}  // namespace deepinfer::cli
