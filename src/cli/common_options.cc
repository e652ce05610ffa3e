#include "cli/common_options.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/log.h"
#include "cli/progress.h"
#include "recipe/request.h"
#include "sampling/sampling.h"
#include "tokenizer/unicode.h"

namespace deepinfer::cli {
namespace {

namespace fs = std::filesystem;

std::string OptionName(std::string_view field) {
  std::string name = "--" + std::string(field);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// Field errors name JSON fields; people typed options.
Status AsOption(Status status) {
  const std::string option = OptionName(status.where());
  std::string message = status.message();
  const size_t at = message.find(status.where());
  if (!status.where().empty() && at != std::string::npos) message.replace(at, status.where().size(), option);
  return Status(status.code(), message, option).WithHint(status.hint());
}

// Fields of EngineOptions that options set.
bool IsOptionField(std::string_view where) {
  return where == "device" || where == "cpu_target" || where == "keep_tokens" || where == "threads" ||
         where == "prefill";
}

Status AddLogitBias(const Arguments& args, int64_t vocab_size, sampling::SamplingParams* params) {
  for (const std::string& text : args.All("--logit-bias")) {
    const size_t equals = text.find('=');
    int64_t id = 0;
    double bias = 0;
    if (equals == std::string::npos || !ParseInteger(text.substr(0, equals), &id) ||
        !ParseReal(text.substr(equals + 1), &bias)) {
      return InvalidArgument(fmt::format("--logit-bias must be ID=X, not \"{}\"", text), "--logit-bias")
          .WithHint("--logit-bias 17=-5");
    }
    if (const Status status = sampling::CheckLogitBias(id, bias, vocab_size); !status.ok())
      return AsOption(status);
    std::erase_if(params->logit_bias, [id](const auto& entry) { return entry.first == id; });
    params->logit_bias.emplace_back(static_cast<int32_t>(id), static_cast<float>(bias));
  }
  return OkStatus();
}

Status SetSampling(const Arguments& args, sampling::SamplingParams* params) {
  for (const sampling::FieldSpec& field : sampling::Fields()) {
    const std::string option = OptionName(field.name);
    if (!args.Has(option)) continue;
    const Status status = sampling::SetField(field.name, args.Real(option, 0), params);
    if (!status.ok()) return AsOption(status);
  }
  return OkStatus();
}

Status SetStops(const Arguments& args, int64_t vocab_size, GenerationRequest* request) {
  if (args.Has("--stop")) request->stop = args.All("--stop");
  if (request->stop.size() > kMaxStopStrings) {
    return InvalidArgument(
        fmt::format("--stop may be given {} times at most, not {}", kMaxStopStrings, request->stop.size()),
        "--stop");
  }
  for (const std::string& text : request->stop) {
    if (text.empty()) return InvalidArgument("--stop must not be empty", "--stop");
    DEEPINFER_RETURN_IF_ERROR(CheckUtf8(text, "--stop"));
  }
  if (args.Has("--stop-id")) request->stop_ids.clear();
  for (const std::string& text : args.All("--stop-id")) {
    int64_t id = 0;
    if (!ParseInteger(text, &id) || id >= vocab_size) {
      return InvalidArgument(fmt::format("--stop-id must be below {}, not {}", vocab_size, text),
                             "--stop-id");
    }
    request->stop_ids.push_back(static_cast<int32_t>(id));
  }
  return OkStatus();
}

std::string ExecutableFolder() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error ? std::string() : path.parent_path().string();
}

Result<EngineOptions> MakeEngineOptions(const std::string& model_dir, const Arguments& args) {
  EngineOptions options;
  options.model_dir = model_dir;
  options.allowed_root = CheckpointOptions(args).allowed_root;
  options.device = args.Text("--device", "auto");
  options.threads = static_cast<int>(args.Integer("--threads", 0));
  options.cpu_target = args.Text("--cpu-target");
  if (args.Has("--prefill")) {
    DEEPINFER_ASSIGN_OR_RETURN(options.prefill, model::ParsePrefillMode(args.Text("--prefill")));
  }
  options.keep_tokens = args.Integer("--keep-tokens", 0);
  return options;
}

}  // namespace

OptionGroup ModelOptions(bool with_prefill) {
  OptionGroup group{.title = "Model and device", .options = {}};
  group.options.push_back({.name = "--device",
                           .kind = ValueKind::kText,
                           .value = "auto|cpu|cuda[:N]",
                           .help = "where to run; auto (the default) says what it chose and why"});
  group.options.push_back({.name = "--threads",
                           .kind = ValueKind::kInteger,
                           .value = "N",
                           .help = "processor threads; default: all that this process may use",
                           .min = 1,
                           .max = static_cast<double>(kMaxThreads)});
  group.options.push_back({.name = "--cpu-target",
                           .kind = ValueKind::kText,
                           .value = "NAME",
                           .help = "kernel target, as deepinfer doctor lists them; default: "
                                   "DEEPINFER_CPU_TARGET, else the best one"});
  if (with_prefill) {
    group.options.push_back({.name = "--prefill",
                             .kind = ValueKind::kChoice,
                             .value = "MODE",
                             .help = "full, exact_halo (default; the same result with less work) or "
                                     "bounded_replay (an approximation)",
                             .choices = {"full", "exact_halo", "bounded_replay"}});
    group.options.push_back({.name = "--keep-tokens",
                             .kind = ValueKind::kInteger,
                             .value = "K",
                             .help = "prompt rows that bounded_replay keeps, at least the window; 0, the "
                                     "default: the window plus 12",
                             .min = 0,
                             .max = 1 << 20});
  }
  group.options.push_back(AllowLinksOption());
  group.options.push_back(
      {.name = "--self-test",
       .kind = ValueKind::kChoice,
       .value = "quick|full|off",
       .help = "compares the kernels with their reference before the model runs; default off",
       .choices = {"quick", "full", "off"}});
  return group;
}

OptionGroup SamplingOptions() {
  OptionGroup group{.title = "Sampling (defaults where generation_config.json says nothing)", .options = {}};
  const sampling::SamplingParams defaults;
  for (const sampling::FieldSpec& field : sampling::Fields()) {
    group.options.push_back({.name = OptionName(field.name),
                             .kind = field.integer ? ValueKind::kInteger : ValueKind::kReal,
                             .value = field.integer ? "N" : "X",
                             .help = fmt::format("{}; default {}", field.meaning, field.get(defaults)),
                             .min = field.min,
                             .max = field.max,
                             .min_excluded = field.min_excluded});
  }
  group.options.push_back({.name = "--logit-bias",
                           .kind = ValueKind::kText,
                           .value = "ID=X",
                           .help = "adds X, -100 to 100, to the logit of one token id",
                           .repeated = true});
  group.options.push_back({.name = "--max-tokens",
                           .kind = ValueKind::kInteger,
                           .value = "N",
                           .help = fmt::format("most tokens of an answer; default {}", kDefaultMaxTokens),
                           .min = 1,
                           .max = 1 << 30});
  group.options.push_back({.name = "--stop",
                           .kind = ValueKind::kText,
                           .value = "TEXT",
                           .help = "ends the answer before this text",
                           .repeated = true});
  group.options.push_back({.name = "--stop-id",
                           .kind = ValueKind::kInteger,
                           .value = "ID",
                           .help = "ends the answer at this token id",
                           .min = 0,
                           .max = 2147483647,
                           .repeated = true});
  group.options.push_back(
      {.name = "--ignore-eos", .kind = ValueKind::kFlag, .help = "goes on after the end token"});
  group.options.push_back({.name = "--n",
                           .kind = ValueKind::kInteger,
                           .value = "N",
                           .help = "answers to one prompt; default 1",
                           .min = 1,
                           .max = static_cast<double>(kMaxSamples)});
  group.options.push_back(
      {.name = "--logprobs",
       .kind = ValueKind::kInteger,
       .value = "K",
       .help = "log-probability of every output token and of the K best ones, of the raw logits",
       .min = 0,
       .max = static_cast<double>(kMaxLogprobs)});
  group.options.push_back({.name = "--seed",
                           .kind = ValueKind::kUnsigned,
                           .value = "N",
                           .help = "makes the random draws repeatable; default: drawn and reported"});
  return group;
}

OptionGroup PromptOptions() {
  return {.title = "Prompt",
          .options = {{.name = "--system",
                       .kind = ValueKind::kText,
                       .value = "TEXT",
                       .help = "system message in front of the conversation"},
                      {.name = "--thinking",
                       .kind = ValueKind::kChoice,
                       .value = "on|off",
                       .help = "whether the model reasons before it answers; default on",
                       .choices = {"on", "off"}},
                      {.name = "--effort",
                       .kind = ValueKind::kText,
                       .value = "1..100|NAME",
                       .help = fmt::format("how thoroughly it reasons: {}; default 75", kEffortValues)},
                      {.name = "--history-thinking",
                       .kind = ValueKind::kChoice,
                       .value = "auto|keep|drop",
                       .help = "reasoning of earlier turns in the prompt: auto (only while tools can be "
                               "called; the default), keep (the default of chat) or drop",
                       .choices = {"auto", "keep", "drop"}}}};
}

OptionGroup OutputOptions(bool with_json) {
  OptionGroup group{.title = "Output", .options = {}};
  if (with_json)
    group.options.push_back(
        {.name = "--json", .kind = ValueKind::kFlag, .help = "machine-readable result, errors included"});
  group.options.push_back(
      {.name = "--quiet", .kind = ValueKind::kFlag, .help = "errors only on standard error"});
  group.options.push_back(
      {.name = "--verbose", .kind = ValueKind::kFlag, .help = "more of what happens on standard error"});
  return group;
}

PositionalSpec ModelPositional() {
  return {.name = "MODEL",
          .kind = ValueKind::kFolder,
          .help = "checkpoint folder; default: DEEPINFER_MODEL, else the bundled demo model",
          .required = false};
}

OptionSpec AllowLinksOption() {
  return {.name = "--allow-links",
          .kind = ValueKind::kFolder,
          .value = "DIR",
          .help =
              "files of the model may be links to places below DIR, as in a hub cache; default: "
              "DEEPINFER_ALLOW_LINKS, else links may not leave the model's folder"};
}

OpenOptions CheckpointOptions(const Arguments& args) {
  const char* variable = std::getenv("DEEPINFER_ALLOW_LINKS");
  OpenOptions options;
  options.allowed_root = args.Text("--allow-links", variable != nullptr ? variable : "");
  return options;
}

Result<std::string> FindModel(std::string_view positional) {
  if (!positional.empty()) return std::string(positional);
  if (const char* variable = std::getenv("DEEPINFER_MODEL"); variable != nullptr && *variable != '\0')
    return std::string(variable);
  const std::string folder = ExecutableFolder();
  for (const char* relative : {"../data/demo-model", "../share/deepinfer/demo-model"}) {
    std::error_code error;
    const fs::path candidate = (fs::path(folder) / relative).lexically_normal();
    if (fs::exists(candidate / "config.json", error)) return candidate.string();
  }
  return Status(StatusCode::kNotFound, "no model given, and the demo model is not beside this program",
                folder)
      .WithHint("deepinfer COMMAND MODEL, or export DEEPINFER_MODEL=FOLDER");
}

Result<std::unique_ptr<Engine>> LoadEngine(const std::string& model_dir, const Arguments& args) {
  DEEPINFER_ASSIGN_OR_RETURN(EngineOptions options, MakeEngineOptions(model_dir, args));
  LoadMeter meter;
  options.progress = [&meter](uint64_t done, uint64_t total) { meter.Update(done, total); };
  Result<std::unique_ptr<Engine>> engine = Engine::Load(options);
  meter.Clear();
  if (!engine.ok())
    return IsOptionField(engine.status().where()) ? AsOption(engine.status()) : engine.status();
  const std::string why = options.device == "auto" ? " (auto: this build has no GPU back end)" : "";
  LogInfo(fmt::format("{} on the CPU{}: target {}, {} thread{}, loaded in {:.0f} ms", model_dir, why,
                      (*engine)->kernel_target(), (*engine)->threads(), (*engine)->threads() == 1 ? "" : "s",
                      (*engine)->load_ms()));
  return engine;
}

std::optional<int64_t> VocabularyOf(const Arguments& args, const std::string& model_dir) {
  const Result<ModelConfig> config = ReadModelConfig(model_dir, CheckpointOptions(args));
  return config.ok() ? std::optional(config->vocab_size) : std::nullopt;
}

Status CheckSamplingOptions(const Arguments& args, const std::string& model_dir) {
  BaseRequest base;
  return ApplySamplingOptions(
      args, VocabularyOf(args, model_dir).value_or(std::numeric_limits<int32_t>::max()), &base);
}

BaseRequest DefaultRequest(const GenerationDefaults& defaults) {
  BaseRequest base;
  base.request.sampling = defaults.sampling;
  base.request.max_tokens = defaults.max_tokens > 0 ? defaults.max_tokens : kDefaultMaxTokens;
  return base;
}

Status ApplySamplingOptions(const Arguments& args, int64_t vocab_size, BaseRequest* base) {
  GenerationRequest& request = base->request;
  DEEPINFER_RETURN_IF_ERROR(SetSampling(args, &request.sampling));
  DEEPINFER_RETURN_IF_ERROR(AddLogitBias(args, vocab_size, &request.sampling));
  request.max_tokens = args.Integer("--max-tokens", request.max_tokens);
  DEEPINFER_RETURN_IF_ERROR(SetStops(args, vocab_size, &request));
  if (args.Has("--ignore-eos")) request.ignore_eos = true;
  request.logprobs = static_cast<int>(args.Integer("--logprobs", request.logprobs));
  if (args.Has("--logprobs") && request.logprobs > vocab_size) {
    return InvalidArgument(
        fmt::format("--logprobs must be an integer in [0, {}], not {}", vocab_size, request.logprobs),
        "--logprobs");
  }
  base->n = args.Integer("--n", base->n);
  if (args.Has("--seed")) base->seed = args.Unsigned("--seed", 0);
  // The engine has the values of these options as its defaults.
  if (args.Has("--prefill")) request.prefill.reset();
  if (args.Has("--keep-tokens")) request.keep_tokens.reset();
  return OkStatus();
}

Result<BaseRequest> MakeBaseRequest(const Engine& engine, const Arguments& args) {
  BaseRequest base = DefaultRequest(engine.defaults());
  DEEPINFER_RETURN_IF_ERROR(ApplySamplingOptions(args, engine.config().vocab_size, &base));
  return base;
}

Result<PromptSettings> ReadPromptOptions(const Arguments& args) {
  PromptSettings settings;
  settings.system = args.Text("--system");
  DEEPINFER_RETURN_IF_ERROR(CheckUtf8(settings.system, "--system"));
  if (args.Has("--thinking")) settings.thinking = args.Text("--thinking") == "on";
  if (args.Has("--effort")) {
    const Result<recipe::Effort> effort = ParseEffort(args.Text("--effort"));
    if (!effort.ok()) return InvalidArgument(effort.status().message(), "--effort");
    settings.effort = *effort;
  }
  if (args.Has("--history-thinking")) {
    const std::string rule = args.Text("--history-thinking");
    settings.history_thinking = rule == "keep"   ? recipe::HistoryThinking::kKeep
                                : rule == "drop" ? recipe::HistoryThinking::kDrop
                                                 : recipe::HistoryThinking::kAuto;
  }
  return settings;
}

Result<recipe::Effort> ParseEffort(std::string_view text) {
  if (const auto effort = recipe::FindEffort(text)) return *effort;
  return InvalidArgument(fmt::format("effort must be an integer in [1, 100] or one of minimal, low, medium, "
                                     "high, xhigh, max, ultra, not '{}'",
                                     text),
                         "effort");
}

Status CheckUtf8(std::string_view text, const std::string& where) {
  const size_t bad = unicode::FindInvalidUtf8(text);
  if (bad == std::string_view::npos) return OkStatus();
  return InvalidArgument("the text is not valid UTF-8", fmt::format("{}: byte {}", where, bad));
}

Status InTermsOfOptions(Status status, const Arguments& args, const std::string& prompt) {
  if (status.where() == "prompt_ids" || status.where() == "ids")
    return Status(status.code(), status.message(), prompt).WithHint(status.hint());
  const std::string option = OptionName(status.where());
  return !status.where().empty() && args.Has(option) ? AsOption(std::move(status)) : status;
}

uint64_t RandomSeed() {
  uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value))
    value = static_cast<uint64_t>(::getpid());
  return value >> 11;
}

}  // namespace deepinfer::cli
