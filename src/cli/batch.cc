#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/file.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "cli/batch_request.h"
#include "cli/batch_runner.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/result_file.h"
#include "cli/self_test.h"

namespace deepinfer::cli {
namespace {

constexpr std::string_view kFormat = "deepinfer batch 3";
constexpr size_t kMaxModelFileBytes = size_t{1} << 30;  // of the files beside the shards

/// A batch from its options to its end.
class Batch {
 public:
  explicit Batch(const Arguments& args) : args_(args) {}
  Result<int> Run();

 private:
  Status ReadOptions();
  Result<json::Value> Identity() const;
  std::string OptionOrVariable(std::string_view option, const char* variable) const;
  /// The folder's name, which bodies may use for the model.
  std::string ModelName() const;
  Result<LineReader> OpenInput() const;
  Status SkipFinished(ResultFile& out, LineReader& in);
  /// `line` is the first one to answer.
  Status AnswerLines(Engine& engine, ResultFile& out, LineReader& in, Line line, BatchMeter& meter);
  /// Loads the model and answers what is left.
  Status AnswerRest(ResultFile& out, LineReader& in, BatchMeter& meter);
  bool from_stream() const { return input_ == "-"; }

  const Arguments& args_;
  std::string model_dir_, input_, output_;
  InputScan scan_;
  int64_t finished_ = 0;  // lines that an earlier run answered
  bool any_failed_ = false;
};

Status Batch::ReadOptions() {
  const ModelAndOperand split = SplitPositionals(args_);
  if (split.operand.empty())
    return InvalidArgument("an input file is needed").WithHint("deepinfer batch IN.jsonl -o OUT.jsonl");
  input_ = split.operand;
  output_ = args_.Text("--output");
  if (output_.empty())
    return InvalidArgument("an output is needed", "--output")
        .WithHint("-o OUT.jsonl, or -o - for standard output");
  if (args_.Has("--resume") && args_.Has("--overwrite"))
    return InvalidArgument("--resume and --overwrite exclude each other", "--overwrite");
  if (args_.Has("--resume") && (from_stream() || output_ == "-")) {
    return InvalidArgument("only a file as input and a file as output can be resumed", "--resume");
  }
  DEEPINFER_RETURN_IF_ERROR(ReadPromptOptions(args_).status());
  DEEPINFER_ASSIGN_OR_RETURN(model_dir_, FindModel(split.model));
  DEEPINFER_RETURN_IF_ERROR(CheckSamplingOptions(args_, model_dir_));
  if (from_stream()) return OkStatus();
  DEEPINFER_ASSIGN_OR_RETURN(scan_, ScanInput(input_));
  return OkStatus();
}

std::string Batch::OptionOrVariable(std::string_view option, const char* variable) const {
  const char* value = std::getenv(variable);
  return args_.Text(option, value != nullptr ? value : "");
}

std::string Batch::ModelName() const {
  const std::filesystem::path folder = std::filesystem::path(model_dir_).lexically_normal();
  return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

// SHA-256 of a file of the model folder; null when there is none.
Result<json::Value> FileDigest(const Checkpoint& checkpoint, std::string_view name) {
  Result<std::string> content = checkpoint.ReadFile(name, kMaxModelFileBytes);
  if (!content.ok() && content.status().code() == StatusCode::kNotFound) return json::Value();
  if (!content.ok()) return std::move(content).status();
  return json::Value(ToHex(Sha256Of(*content)));
}

// What results are made from: a run with another value would continue the file with different answers. `model_digest` covers
// configuration, index, headers and sizes of the shards; payloads are not read, so weights replaced by others of the same layout
// are not noticed.
Result<json::Value> Batch::Identity() const {
  json::Value out;
  out.Set("format", kFormat);
  out.Set("input_sha256", ToHex(scan_.digest));
  DEEPINFER_ASSIGN_OR_RETURN(const std::shared_ptr<Checkpoint> checkpoint,
                             Checkpoint::Open(model_dir_, CheckpointOptions(args_)));
  out.Set("model_digest", ToHex(checkpoint->digest()));
  for (const char* name : {"generation_config.json", "tokenizer.json", "engram_token_map.i32"}) {
    DEEPINFER_ASSIGN_OR_RETURN(json::Value digest, FileDigest(*checkpoint, name));
    out.Set(name, std::move(digest));
  }
  out.Set("kernel_target", ChosenTarget(args_));
  for (const OptionGroup& group : {SamplingOptions(), PromptOptions()}) {
    for (const OptionSpec& option : group.options) {
      if (!args_.Has(option.name)) continue;
      json::Array values;
      for (const std::string& value : args_.All(option.name)) values.emplace_back(value);
      out.Set(option.name, std::move(values));
    }
  }
  out.Set("--prefill", OptionOrVariable("--prefill", "DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE"));
  out.Set("--keep-tokens", OptionOrVariable("--keep-tokens", "DEEPINFER_YOCO_PREFILL_KEEP_TOKENS"));
  return out;
}

Result<LineReader> Batch::OpenInput() const {
  if (from_stream()) return LineReader(FileDescriptor(::dup(STDIN_FILENO)), "standard input", kMaxLineBytes);
  uint64_t size = 0;
  DEEPINFER_ASSIGN_OR_RETURN(FileDescriptor fd, OpenRegularFile(input_, &size));
  return LineReader(std::move(fd), input_, kMaxLineBytes);
}

// Reads on to the next line that is not blank. False at the end.
Result<bool> NextLine(LineReader& in, Line* line) {
  do {
    DEEPINFER_ASSIGN_OR_RETURN(const bool more, in.Next(line));
    if (!more) return false;
  } while (!line->too_long && IsBlank(line->text));
  return true;
}

// Pairs the whole lines of OUT with lines of IN, and cuts what follows the last sound one when it is the end of the file.
Status Batch::SkipFinished(ResultFile& out, LineReader& in) {
  if (out.is_stream() || out.size() == 0) return OkStatus();
  uint64_t size = 0;
  DEEPINFER_ASSIGN_OR_RETURN(FileDescriptor fd, OpenRegularFile(out.path(), &size));
  LineReader results(std::move(fd), out.path(), SIZE_MAX);
  json::ParseLimits unlimited;
  unlimited.max_bytes = SIZE_MAX;
  uint64_t sound_bytes = 0;
  Line result, line;
  for (;;) {
    DEEPINFER_ASSIGN_OR_RETURN(const bool more, results.Next(&result));
    if (!more) break;
    const Result<json::Value> object = json::Parse(result.text, unlimited);
    const std::string where = fmt::format("{}, line {}", out.path(), result.number + 1);
    if (!result.ended || !object.ok() || !object->is_object() || object->Find("id") == nullptr) {
      if (sound_bytes + result.text.size() + 1 < out.size()) {
        return DataLoss("a line that is no result, with others behind it", where)
            .WithHint("--overwrite to start again");
      }
      LogInfo(fmt::format("{}: a cut last line is repaired", out.path()));
      break;
    }
    DEEPINFER_ASSIGN_OR_RETURN(const bool has_line, NextLine(in, &line));
    if (!has_line || json::Serialize(ResultId(line, scan_.digest)) != json::Serialize(*object->Find("id"))) {
      return DataLoss("the result does not belong to the input's line", where)
          .WithHint("--overwrite to start again");
    }
    any_failed_ = any_failed_ || IsFailure(*object);
    sound_bytes += result.text.size() + 1;
    ++finished_;
  }
  if (sound_bytes < out.size()) DEEPINFER_RETURN_IF_ERROR(out.CutTo(sound_bytes));
  LogInfo(fmt::format("{}: resumed after {} of {} lines", out.path(), finished_, scan_.num_lines));
  return OkStatus();
}

Status Batch::AnswerLines(Engine& engine, ResultFile& out, LineReader& in, Line line, BatchMeter& meter) {
  DEEPINFER_ASSIGN_OR_RETURN(BaseRequest base, MakeBaseRequest(engine, args_));
  DEEPINFER_ASSIGN_OR_RETURN(PromptSettings prompt, ReadPromptOptions(args_));
  BatchRunner runner(engine, args_,
                     {.base = std::move(base),
                      .has_n = args_.Has("--n"),
                      .prompt = std::move(prompt),
                      .vocab_size = engine.config().vocab_size},
                     ModelName());
  // A stream's digest is not known before its end: a chain over the lines so far takes its place.
  Sha256Digest digest = scan_.digest;
  for (bool more = true; more;) {
    if (Interrupted()) return Cancelled();
    if (from_stream()) digest = Sha256Of(std::string(digest.begin(), digest.end()) + line.text);
    DEEPINFER_ASSIGN_OR_RETURN(const LineResult result, runner.Run(line, digest, &meter));
    if (result.interrupted) return Cancelled();
    DEEPINFER_RETURN_IF_ERROR(out.Append(json::Serialize(result.object)));
    any_failed_ = any_failed_ || result.failed;
    meter.Add(result.prompt_tokens, result.output_tokens);
    DEEPINFER_ASSIGN_OR_RETURN(more, NextLine(in, &line));
  }
  return OkStatus();
}

Status Batch::AnswerRest(ResultFile& out, LineReader& in, BatchMeter& meter) {
  Line line;
  DEEPINFER_ASSIGN_OR_RETURN(const bool more, NextLine(in, &line));
  if (!more) return OkStatus();  // nothing to load a model for
  DEEPINFER_RETURN_IF_ERROR(RunSelfTestOption(args_));
  DEEPINFER_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, LoadEngine(model_dir_, args_));
  return AnswerLines(*engine, out, in, std::move(line), meter);
}

Result<int> Batch::Run() {
  DEEPINFER_RETURN_IF_ERROR(ReadOptions());
  DEEPINFER_ASSIGN_OR_RETURN(const json::Value identity, Identity());
  const auto mode = args_.Has("--overwrite") ? ResultFile::Mode::kOverwrite : ResultFile::Mode::kResume;
  DEEPINFER_ASSIGN_OR_RETURN(ResultFile out,
                             ResultFile::Open(output_, input_, identity, !from_stream(), mode));
  DEEPINFER_ASSIGN_OR_RETURN(LineReader in, OpenInput());
  DEEPINFER_RETURN_IF_ERROR(SkipFinished(out, in));
  BatchMeter meter(finished_, scan_.num_lines);
  const Status status = AnswerRest(out, in, meter);
  meter.Clear();
  const Status durable = out.Finish();
  if (!status.ok() && status.code() != StatusCode::kCancelled) return status;
  DEEPINFER_RETURN_IF_ERROR(durable);
  LogInfo(fmt::format("{}: {}{}", output_, meter.Summary(),
                      status.ok() ? "" : "; interrupted, the same command goes on"));
  if (!status.ok()) return status;
  return any_failed_ ? 1 : 0;
}

Result<int> RunBatch(const Arguments& args) { return Batch(args).Run(); }

}  // namespace

Command BatchCommand() {
  CommandSpec spec;
  spec.name = "batch";
  spec.summary = "answers a file of requests";
  spec.positionals = {ModelPositional(),
                      {.name = "IN.jsonl",
                       .kind = ValueKind::kFile,
                       .help = "one request a line; - reads standard input",
                       .required = true}};
  spec.max_positionals = 2;
  spec.description =
      "A line holds an id and one of: messages (a conversation, with tools, tool_choice, response_format), "
      "prompt (a text as it is; \"special\":true recognises special tokens) or prompt_ids; besides, any "
      "sampling option with underscores, and thinking, effort, prefill, seed. Or it is an OpenAI batch line: "
      "custom_id, method, url (/v1/chat/completions, /v1/completions, /v1/responses, /v1/messages), body. A "
      "result is the object of generate --json without timing, or id, custom_id, response, error, in the "
      "order of the input; a bad line gives an error and exit code 1 at the end. When the output exists and "
      "comes from the same input and options, the run continues behind its last whole line. OUT.resume "
      "beside it says what it comes from. Seeds and ids that a line does not give follow from the input and "
      "the line's number. docs/batch.md has the details.";
  spec.example = "deepinfer batch in.jsonl -o out.jsonl --max-tokens 200";
  spec.example_note =
      "in.jsonl: {\"id\":1,\"messages\":[{\"role\":\"user\",\"content\":\"What is 17 + 10?\"}]}";
  spec.see_also = {"generate", "score"};
  OptionGroup files{.title = "Files", .options = {}};
  files.options.push_back({.name = "--output",
                           .short_name = "-o",
                           .kind = ValueKind::kFile,
                           .value = "OUT.jsonl",
                           .help = "where the results go; - is standard output"});
  files.options.push_back(
      {.name = "--resume",
       .kind = ValueKind::kFlag,
       .help = "continues an interrupted run (the default when OUT exists and belongs to the input)"});
  files.options.push_back(
      {.name = "--overwrite", .kind = ValueKind::kFlag, .help = "starts again, whatever OUT holds"});
  OptionGroup prompt = PromptOptions();
  std::erase_if(prompt.options, [](const OptionSpec& option) { return option.name == "--system"; });
  prompt.title = "Prompt of lines with messages";
  spec.groups = {std::move(files), std::move(prompt), SamplingOptions(), ModelOptions(), OutputOptions()};
  return {.spec = std::move(spec), .run = RunBatch};
}

}  // namespace deepinfer::cli
