// The engine as commands use it: a loaded model that generates and scores. One request at a time (continuous batching is a
// scheduler's work and sits on the same Backbone).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/config.h"
#include "model/layer_plan.h"
#include "sampling/sampling.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer {

/// Progress of loading: bytes done and in all.
using LoadProgress = std::function<void(uint64_t bytes_done, uint64_t bytes_total)>;

struct EngineOptions {
  std::string model_dir;
  /// Files of the folder may be symbolic links to places below this one (a hub cache); empty = below the folder only.
  std::string allowed_root;
  /// auto | cpu | cuda[:N]; cuda is refused with kUnavailable when it is not built in.
  std::string device = "auto";
  int threads = 0;  // 0 = all processors of this process
  /// A name of KernelTargets(); empty = DEEPINFER_CPU_TARGET, else the best this processor has.
  std::string cpu_target;
  /// Prefill mode of requests that name none. Unset = DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE (compact: bounded_replay), else
  /// exact_halo.
  std::optional<model::PrefillMode> prefill;
  int64_t keep_tokens = 0;       // bounded replay; 0 = DEEPINFER_YOCO_PREFILL_KEEP_TOKENS, else window + 12
  int64_t max_chunk_rows = 512;  // rows of one forward pass
  LoadProgress progress = nullptr;
};

/// Defaults from generation_config.json (spec: cli.md §1).
struct GenerationDefaults {
  sampling::SamplingParams sampling;
  int64_t max_tokens = 0;        // 0 = the file names none
  std::vector<int32_t> eos_ids;  // tokens that end an answer; never empty
};

/// Most stop strings of a request (spec: recipe.md §7).
inline constexpr size_t kMaxStopStrings = 16;

struct GenerationRequest {
  std::vector<int32_t> prompt_ids;
  sampling::SamplingParams sampling;
  uint64_t seed = 0;
  uint32_t stream = 0;            // sample number with --n
  int64_t max_tokens = 256;       // output tokens, the stop id included; 0 = only read the prompt
  std::vector<std::string> stop;  // UTF-8, not empty; the text ends before the match that is complete first
  std::vector<int32_t> stop_ids;
  bool ignore_eos = false;  // stop_ids count all the same
  int logprobs = -1;        // K >= 0: log-probabilities and the K best of every output token
  std::optional<model::PrefillMode> prefill;
  std::optional<int64_t> keep_tokens;  // bounded replay: 0 = the engine's, else at least the window
};

enum class FinishReason : uint8_t { kStop, kLength, kContext, kCancelled };
std::string_view FinishReasonName(FinishReason reason);  // "stop", "length", "context_length", "cancelled"

struct TokenLogprob {
  float logprob = 0;
  std::vector<std::pair<int32_t, float>> top;  // best first
};

struct GenerationResult {
  std::vector<int32_t> output_ids;  // includes the stop id when one ended the text
  std::string text;                 // decoded, without the stop id and without the stop string
  FinishReason finish_reason = FinishReason::kStop;
  std::vector<TokenLogprob> logprobs;
  int64_t cached_tokens = 0;                                    // prompt tokens taken from a session's state
  model::PrefillMode prefill = model::PrefillMode::kExactHalo;  // the mode that was used
  double prefill_ms = 0, decode_ms = 0;
};

/// A token as it is drawn. Views and pointers are valid during the call.
struct OutputToken {
  int32_t id = 0;
  /// What became certain with it (may be empty: half characters and possible stop strings are held back).
  std::string_view text;
  bool is_stop = false;                   // the stop id that ends the answer; no text of its own
  const TokenLogprob* logprob = nullptr;  // when the request asked for log-probabilities
};

/// Called for every output token. All texts together are the result's text, but for a cancelled answer, where the result also has
/// what was held back. Returning false cancels.
using TokenSink = std::function<bool(const OutputToken& token)>;

struct ScoreResult {
  std::vector<float> logprobs;  // [ids.size()], of ids[i] given what is before it; entry 0 unused (NaN)
  /// [ids.size()], of the token after ids[i], best first; empty without top.
  std::vector<std::vector<std::pair<int32_t, float>>> top;
  double nll = 0;  // minus the sum of logprobs
};

/// State of a conversation: what a prompt has in common with the tokens it holds is not prefilled again. It remembers the tokens so
/// far and the state just before the last token of the last prompt, so that an answer can be continued (up to 12 tokens of it
/// taken back), repeated, or left out of the history. In the modes full and exact_halo the results are those of a fresh run, bit
/// for bit; with bounded_replay they may differ, as that mode approximates.
class Session {
 public:
  virtual ~Session() = default;
  /// Tokens of which the session holds the state.
  virtual int64_t length() const = 0;
};

/// Not thread-safe: one call at a time.
class Engine {
 public:
  /// Errors: as Checkpoint::Open and Backbone::Create; kResourceExhausted when the dense part does not fit in memory; kUnavailable for a device or kernel target this machine lacks.
  static Result<std::unique_ptr<Engine>> Load(const EngineOptions& options);
  ~Engine();

  const ModelConfig& config() const;
  const Tokenizer& tokenizer() const;
  /// The same, for objects that may outlive the engine.
  std::shared_ptr<const Tokenizer> shared_tokenizer() const;
  const GenerationDefaults& defaults() const;
  std::string_view kernel_target() const;
  int threads() const;
  double load_ms() const;
  /// Mode and kept tokens of requests that name none.
  model::PrefillMode prefill() const;
  int64_t keep_tokens() const;

  std::unique_ptr<Session> NewSession();

  /// Generates one answer. `session` may be null. `stop` (may be null) is polled between steps: the result then has kCancelled and
  /// what was complete. A draw never gives a token that is no valid output (padding, placeholders, image tokens, ids without text;
  /// spec: checkpoint.md §8.5); temperature 0 is the plain arg-max. Errors: kInvalidArgument with the field's name (empty prompt, id
  /// out of range, longer than the context, sampling values, stop strings); what Backbone::Forward reports; kDataLoss at "logits" for
  /// logits that are no numbers.
  Result<GenerationResult> Generate(const GenerationRequest& request, const TokenSink& sink = nullptr,
                                    Session* session = nullptr, const std::atomic<bool>* stop = nullptr);

  /// Log-probabilities of `ids` in mode `full`; `top` best at each position. Errors: kInvalidArgument (no ids, id out of range,
  /// longer than the context, top negative or above the vocabulary), kCancelled when `stop` became true.
  Result<ScoreResult> Score(std::span<const int32_t> ids, int top, const std::atomic<bool>* stop = nullptr);

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Kernel targets that can be named on this machine, best first, "reference" last.
std::vector<std::string> KernelTargets();
/// The target that EngineOptions::cpu_target stands for; it need not be one that this machine has.
std::string ChosenKernelTarget(const std::string& cpu_target);

}  // namespace deepinfer
