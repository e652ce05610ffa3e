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
  std::string device = "auto";      // auto | cpu | cuda[:N]; cuda is refused with kUnavailable when it is not built in
  int threads = 0;                  // 0 = all processors of this process
  std::string cpu_target;           // empty = DEEPINFER_CPU_TARGET, else the best this processor has; "reference" is one
  model::PrefillMode prefill = model::PrefillMode::kExactHalo;
  int64_t keep_tokens = 0;          // bounded replay; 0 = window + 12
  int64_t max_chunk_rows = 512;     // rows of one forward pass
  LoadProgress progress;
};

/// Defaults from generation_config.json (spec: cli.md §1).
struct GenerationDefaults {
  sampling::SamplingParams sampling;
  int64_t max_tokens = 0;  // 0 = the file names none
};

struct GenerationRequest {
  std::vector<int32_t> prompt_ids;
  sampling::SamplingParams sampling;
  uint64_t seed = 0;
  uint32_t stream = 0;                    // sample number with --n
  int64_t max_tokens = 256;
  std::vector<std::string> stop;          // strings; the text ends before the first match
  std::vector<int32_t> stop_ids;
  bool ignore_eos = false;
  int logprobs = -1;                      // K >= 0: log-probabilities and the K best of every output token
  std::optional<model::PrefillMode> prefill;
  std::optional<int64_t> keep_tokens;
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
  int64_t cached_tokens = 0;        // prompt tokens taken from a session's state
  double prefill_ms = 0, decode_ms = 0;
};

/// Called for every output token: its id and the text that became certain with it (may be empty: half characters and possible stop
/// strings are held back). Returning false cancels.
using TokenSink = std::function<bool(int32_t id, std::string_view text)>;

struct ScoreResult {
  std::vector<float> logprobs;  // [ids.size()], entry 0 unused (NaN)
  std::vector<std::vector<std::pair<int32_t, float>>> top;  // [ids.size()], best first
  double nll = 0;
};

/// State of a conversation: prompts that begin with what it holds are not prefilled twice.
class Session {
 public:
  virtual ~Session() = default;
  virtual int64_t length() const = 0;
};

class Engine {
 public:
  /// Errors: as Checkpoint::Open and Backbone::Create; kUnavailable for a device or kernel target this machine lacks.
  static Result<std::unique_ptr<Engine>> Load(const EngineOptions& options);
  ~Engine();

  const ModelConfig& config() const;
  const Tokenizer& tokenizer() const;
  const GenerationDefaults& defaults() const;
  std::string_view kernel_target() const;
  int threads() const;
  double load_ms() const;

  std::unique_ptr<Session> NewSession();

  /// Generates one answer. `session` may be null. `stop` (may be null) is polled between steps: the result then has kCancelled and
  /// what was complete. Errors: kInvalidArgument (empty prompt, id out of range, longer than the context).
  Result<GenerationResult> Generate(const GenerationRequest& request, const TokenSink& sink = nullptr,
                                    Session* session = nullptr, const std::atomic<bool>* stop = nullptr);

  /// Log-probabilities of `ids` in mode `full`; `top` best at each position.
  Result<ScoreResult> Score(std::span<const int32_t> ids, int top, const std::atomic<bool>* stop = nullptr);

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Kernel targets that can be named on this machine, best first, "reference" last.
std::vector<std::string> KernelTargets();

}  // namespace deepinfer
