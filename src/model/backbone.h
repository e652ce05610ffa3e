// The text backbone: token rows in, logits out (spec: model.md §6-12). Written on kernels/ops.h only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "kernels/ops.h"
#include "model/layer_plan.h"
#include "model/operation_count.h"
#include "model/sequence.h"

namespace deepinfer::model {

enum class LogitsWanted : uint8_t { kNone, kLast, kAll };

/// Consecutive rows of one sequence in a forward pass. A pass takes any number of chunks, each of another sequence.
struct Chunk {
  Sequence* sequence = nullptr;
  std::span<const int32_t> ids;               // rows at positions sequence->length() ...
  LogitsWanted logits = LogitsWanted::kLast;  // kAll: every row that runs through the last layer

  /// Prefill mode of these rows; decode steps use kFull. A prompt fed in several chunks gives its whole length in each.
  PrefillMode mode = PrefillMode::kFull;
  int64_t prompt_length = 0;  // 0 = ends with this chunk
  int64_t keep_tokens = 0;    // bounded replay; 0 = window + kMaxRollback

  /// Image rows: is_image[i] != 0 takes the embedding from row i of `embeds` [ids.size(), D], no Engram, bias_vl in the router.
  std::span<const uint8_t> is_image;  // empty = text only
  std::span<const Bf16> embeds;
};

/// Results of the chunk of the same index.
struct ChunkOutput {
  int64_t rows = 0;           // rows of logits: the last `rows` rows of the chunk
  std::vector<float> logits;  // [rows, V]
  std::vector<std::vector<Bf16>>
      taps;  // per tap [rows_of_tap, D], rows that reached that layer; only when asked for
};

/// Test hook: sees every named tensor ("layers.3.attn.q", …; names as in the golden manifests) right after it was made and may
/// overwrite it. Never set in production.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void OnBf16(const std::string& name, std::span<Bf16> data, std::span<const int64_t> shape) = 0;
  virtual void OnFloat(const std::string& name, std::span<float> data, std::span<const int64_t> shape) = 0;
  virtual void OnInt32(const std::string& name, std::span<int32_t> data, std::span<const int64_t> shape) = 0;
  virtual void OnInt64(const std::string& name, std::span<int64_t> data, std::span<const int64_t> shape) = 0;
};

struct BackboneOptions {
  int64_t max_rows =
      512;  // rows of one pass (all chunks together); longer prompts are fed in chunks by the caller
  kernels::ScoreRounding score_rounding = kernels::ScoreRounding::kReference;
};

class Backbone {
 public:
  using Progress = std::function<void(uint64_t bytes_done, uint64_t bytes_total)>;

  /// Loads the weights. `token_map` maps raw to compressed ids (tokenizer module); empty when the config has no Engram.
  /// `pool` and `ops` outlive the object. Errors: kDataLoss (unsound checkpoint), kResourceExhausted.
  static Result<std::unique_ptr<Backbone>> Create(std::shared_ptr<Checkpoint> checkpoint,
                                                  std::shared_ptr<const kernels::Ops> ops, ThreadPool* pool,
                                                  std::vector<int32_t> token_map,
                                                  const BackboneOptions& options = {},
                                                  const Progress& progress = nullptr);
  ~Backbone();

  const ModelConfig& config() const;
  const ModelPlan& plan() const;
  const kernels::Ops& ops() const;
  int64_t max_rows() const;

  Result<std::unique_ptr<Sequence>> NewSequence() const;

  /// Runs all chunks in one pass; outputs[i] belongs to chunks[i]. Not thread-safe.
  /// Errors: kInvalidArgument (id out of range, too many rows, context limit) and kResourceExhausted leave every sequence as it was;
  /// after kDataLoss (a file was cut while it was read) the sequences of the pass hold garbage and must be dropped.
  Status Forward(std::span<const Chunk> chunks, std::span<ChunkOutput> outputs, bool taps = false,
                 Observer* observer = nullptr);

  /// Work executed since the last reset.
  const OperationCounts& counts() const;
  void ResetCounts();

 private:
  struct Impl;
  explicit Backbone(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace deepinfer::model
