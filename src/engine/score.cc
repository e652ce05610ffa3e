// Log-probabilities of a given text.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "engine/engine_impl.h"

namespace deepinfer {
namespace {

/// Logits of one pass in bytes, at most: with a vocabulary of 129,280 these are 129 rows.
constexpr int64_t kMaxLogitBytes = int64_t{64} << 20;

/// Takes over the logits of rows [first, first + output.rows).
Status TakeRows(const model::ChunkOutput& output, size_t first, std::span<const int32_t> ids, int top,
                ScoreResult* result) {
  const size_t vocab = output.logits.size() / static_cast<size_t>(output.rows);
  for (size_t row = 0; row < static_cast<size_t>(output.rows); ++row) {
    const size_t next = first + row + 1;
    const int32_t id = next < ids.size() ? ids[next] : -1;
    const std::span<const float> logits(output.logits.data() + row * vocab, vocab);
    DEEPINFER_ASSIGN_OR_RETURN(sampling::LogProbs log_probs, sampling::ComputeLogProbs(logits, id, top));
    if (top > 0) result->top[next - 1] = std::move(log_probs.top);
    if (id < 0) continue;
    result->logprobs[next] = log_probs.logprob;
    result->nll -= static_cast<double>(log_probs.logprob);
  }
  return OkStatus();
}

}  // namespace

Result<ScoreResult> Engine::Score(std::span<const int32_t> ids, int top, const std::atomic<bool>* stop) {
  const ModelConfig& model_config = impl_->config();
  DEEPINFER_RETURN_IF_ERROR(CheckIds(ids, model_config, "ids"));
  if (top < 0 || top > model_config.vocab_size) {
    return InvalidArgument(
        fmt::format("top must be an integer in [0, {}], not {}", model_config.vocab_size, top), "top");
  }
  ScoreResult result;
  result.logprobs.assign(ids.size(), std::numeric_limits<float>::quiet_NaN());
  if (top > 0) result.top.resize(ids.size());

  model::Backbone& backbone = *impl_->backbone;
  DEEPINFER_ASSIGN_OR_RETURN(const std::unique_ptr<model::Sequence> sequence, backbone.NewSequence());
  const int64_t logit_rows = kMaxLogitBytes / (model_config.vocab_size * static_cast<int64_t>(sizeof(float)));
  const size_t rows = static_cast<size_t>(std::clamp<int64_t>(logit_rows, 1, backbone.max_rows()));
  model::ChunkOutput output;
  for (size_t first = 0; first < ids.size(); first += rows) {
    if (Stopped(stop)) return Cancelled();
    model::Chunk chunk;
    chunk.sequence = sequence.get();
    chunk.ids = ids.subspan(first, std::min(rows, ids.size() - first));
    chunk.logits = model::LogitsWanted::kAll;
    chunk.mode = model::PrefillMode::kFull;
    chunk.prompt_length = static_cast<int64_t>(ids.size());
    DEEPINFER_RETURN_IF_ERROR(backbone.Forward({&chunk, 1}, {&output, 1}));
    DEEPINFER_RETURN_IF_ERROR(TakeRows(output, first, ids, top, &result));
  }
  return result;
}

}  // namespace deepinfer
