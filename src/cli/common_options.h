// Options that many commands share, and what they mean to the engine (spec: cli.md §1).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "cli/arguments.h"
#include "cli/option_spec.h"
#include "engine/engine.h"
#include "recipe/prompt.h"

namespace deepinfer::cli {

/// --device, --threads, --cpu-target, --prefill, --keep-tokens, --self-test. `with_prefill` false leaves the prefill options out.
OptionGroup ModelOptions(bool with_prefill = true);
/// Every sampling option, --seed included.
OptionGroup SamplingOptions();
/// --system, --thinking, --effort, --history-thinking.
OptionGroup PromptOptions();
/// --json, --quiet, --verbose. `with_json` false for commands without a JSON form.
OptionGroup OutputOptions(bool with_json = true);
PositionalSpec ModelPositional();
/// --allow-links, part of ModelOptions.
OptionSpec AllowLinksOption();
/// How to open a checkpoint folder: --allow-links, else DEEPINFER_ALLOW_LINKS.
OpenOptions CheckpointOptions(const Arguments& args);

/// The checkpoint folder: `positional`, else DEEPINFER_MODEL, else the demo model beside the build tree or under the installed
/// share folder. Errors: kNotFound.
Result<std::string> FindModel(std::string_view positional);

/// Loads the model with the options of ModelOptions and a progress line. Says on standard error which device runs it and why.
/// Errors: those of Engine::Load; kInvalidArgument for an option.
Result<std::unique_ptr<Engine>> LoadEngine(const std::string& model_dir, const Arguments& args);

/// Sampling of a request before any line of a file adds to it: defaults of the checkpoint, then the options. `seed` is set only
/// when --seed was given. Errors: kInvalidArgument.
struct BaseRequest {
  GenerationRequest request;  // without prompt
  std::optional<uint64_t> seed;
  int64_t n = 1;
};
Result<BaseRequest> MakeBaseRequest(const Engine& engine, const Arguments& args);
/// The two halves of MakeBaseRequest.
BaseRequest DefaultRequest(const GenerationDefaults& defaults);
Status ApplySamplingOptions(const Arguments& args, int64_t vocab_size, BaseRequest* base);

/// Checks the sampling options before the model is loaded, against the vocabulary of its configuration where that can be read.
/// Errors: kInvalidArgument naming the option.
Status CheckSamplingOptions(const Arguments& args, const std::string& model_dir);
/// Tokens of the model's vocabulary; nothing when its configuration cannot be read, which loading reports.
std::optional<int64_t> VocabularyOf(const Arguments& args, const std::string& model_dir);

/// What the options say of a prompt. Errors: kInvalidArgument.
struct PromptSettings {
  std::string system;
  std::optional<bool> thinking;
  std::optional<recipe::Effort> effort;
  std::optional<recipe::HistoryThinking> history_thinking;
};
Result<PromptSettings> ReadPromptOptions(const Arguments& args);

/// kInvalidArgument naming `where` and the byte when `text` is not UTF-8.
Status CheckUtf8(std::string_view text, const std::string& where);

/// An error of the engine in the words of the command line: the field of a request becomes the option that set it, and the prompt's
/// ids become `prompt`, the place where the person wrote it.
Status InTermsOfOptions(Status status, const Arguments& args, const std::string& prompt);

/// An integer from 1 to 100, or a name. Errors: kInvalidArgument with the allowed values.
Result<recipe::Effort> ParseEffort(std::string_view text);
/// Values of --effort in help texts.
inline constexpr std::string_view kEffortValues = "1 to 100, or minimal, low, medium, high, xhigh, max";

/// A seed from the system's random numbers, small enough for every JSON reader (53 bits).
uint64_t RandomSeed();

/// Largest `n`, `logprobs` and stop lists that a request may ask for.
inline constexpr int64_t kMaxSamples = 128;
inline constexpr int64_t kMaxLogprobs = 1000;
inline constexpr int64_t kMaxThreads = 4096;
/// Output tokens when neither the request nor generation_config.json says: the whole context at most.
inline constexpr int64_t kDefaultMaxTokens = 1024;

}  // namespace deepinfer::cli
