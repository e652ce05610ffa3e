#include "model/backbone.h"

#include <algorithm>
#include <limits>
#include <string>

#include "model/forward_pass.h"
#include "model/rope.h"

namespace deepinfer::model {

struct Backbone::Impl {
  BackboneParts parts;
  std::shared_ptr<Checkpoint> checkpoint;
};

Backbone::Backbone(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Backbone::~Backbone() = default;

const ModelConfig& Backbone::config() const { return impl_->parts.config; }
const ModelPlan& Backbone::plan() const { return impl_->parts.plan; }
const kernels::Ops& Backbone::ops() const { return *impl_->parts.ops; }
int64_t Backbone::max_rows() const { return impl_->parts.max_rows; }
const OperationCounts& Backbone::counts() const { return impl_->parts.counts; }
void Backbone::ResetCounts() { impl_->parts.counts = {}; }

namespace {

Status CheckTokenMap(const ModelConfig& config, std::span<const int32_t> map) {
  if (!config.has_engram()) return OkStatus();
  if (static_cast<int64_t>(map.size()) != config.vocab_size) {
    return DataLoss("the Engram token map has " + std::to_string(map.size()) +
                        " entries for a vocabulary of " + std::to_string(config.vocab_size),
                    "engram_token_map");
  }
  const auto [low, high] = std::minmax_element(map.begin(), map.end());
  if (*low < 0 || *high + 1 != config.engram_compressed_vocab_size) {
    return DataLoss("the Engram token map has " + std::to_string(*high + 1) + " classes, the config says " +
                        std::to_string(config.engram_compressed_vocab_size),
                    "engram_token_map");
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<Backbone>> Backbone::Create(std::shared_ptr<Checkpoint> checkpoint,
                                                   std::shared_ptr<const kernels::Ops> ops, ThreadPool* pool,
                                                   std::vector<int32_t> token_map,
                                                   const BackboneOptions& options, const Progress& progress) {
  auto impl = std::make_unique<Impl>();
  BackboneParts& parts = impl->parts;
  parts.config = checkpoint->config();
  DEEPINFER_RETURN_IF_ERROR(CheckTokenMap(parts.config, token_map));
  if (options.max_rows < 1) return InvalidArgument("a pass needs at least one row", "max_rows");
  parts.plan = ModelPlan::Make(parts.config);
  parts.layout = std::make_shared<StateLayout>(StateLayout::Make(parts.config, parts.plan));
  parts.ops = std::move(ops);
  parts.pool = pool;
  parts.token_map = std::move(token_map);
  parts.score_rounding = options.score_rounding;
  parts.max_rows = options.max_rows;
  for (int kind = 0; kind < 2; ++kind) parts.freqs[kind] = LayerFrequencies(parts.config, kind == 1);
  if (parts.config.has_engram()) {
    DEEPINFER_ASSIGN_OR_RETURN(parts.engram, ComputeEngramConstants(parts.config));
  }
  impl->checkpoint = checkpoint;
  DEEPINFER_ASSIGN_OR_RETURN(parts.weights, Weights::Load(std::move(checkpoint), progress));
  DEEPINFER_RETURN_IF_ERROR(parts.buffers.Allocate(parts.config, parts.max_rows, *parts.ops));
  return std::unique_ptr<Backbone>(new Backbone(std::move(impl)));
}

Result<std::unique_ptr<Sequence>> Backbone::NewSequence() const {
  return Sequence::Create(impl_->parts.layout);
}

namespace {

Status CheckChunk(const ModelConfig& config, const Chunk& chunk) {
  if (chunk.sequence == nullptr) return InvalidArgument("a chunk without a sequence", "sequence");
  if (chunk.ids.empty()) return InvalidArgument("a chunk without rows", "ids");
  const int64_t end = chunk.sequence->length() + static_cast<int64_t>(chunk.ids.size());
  if (end > config.max_position_embeddings) {
    return InvalidArgument("the sequence would have " + std::to_string(end) +
                               " tokens; the model's context is " +
                               std::to_string(config.max_position_embeddings),
                           "ids");
  }
  for (int32_t id : chunk.ids) {
    if (id < 0 || id >= config.vocab_size) {
      return InvalidArgument(
          "token id " + std::to_string(id) + " is not in [0, " + std::to_string(config.vocab_size) + ")",
          "ids");
    }
  }
  if (chunk.prompt_length != 0 &&
      (chunk.prompt_length < end || chunk.prompt_length > config.max_position_embeddings)) {
    return InvalidArgument("a prompt of " + std::to_string(chunk.prompt_length) +
                               " tokens; it must hold the " + std::to_string(end) +
                               " given ones and fit the context of " +
                               std::to_string(config.max_position_embeddings),
                           "prompt_length");
  }
  if (chunk.mode == PrefillMode::kBoundedReplay && chunk.keep_tokens != 0 &&
      chunk.keep_tokens < config.sliding_window) {
    return InvalidArgument(
        "bounded replay must keep at least the window of " + std::to_string(config.sliding_window) + " rows",
        "keep_tokens");
  }
  if (!chunk.is_image.empty() &&
      (chunk.is_image.size() != chunk.ids.size() ||
       chunk.embeds.size() != chunk.ids.size() * static_cast<size_t>(config.hidden_size))) {
    return InvalidArgument("image flags and embeddings must cover every row of the chunk", "embeds");
  }
  return OkStatus();
}

}  // namespace

Status Backbone::Forward(std::span<const Chunk> chunks, std::span<ChunkOutput> outputs, bool taps,
                         Observer* observer) {
  BackboneParts& parts = impl_->parts;
  if (outputs.size() != chunks.size()) return InvalidArgument("one output a chunk", "outputs");
  int64_t rows = 0;
  for (const Chunk& chunk : chunks) {
    DEEPINFER_RETURN_IF_ERROR(CheckChunk(parts.config, chunk));
    rows += static_cast<int64_t>(chunk.ids.size());
    for (const Chunk& other : chunks) {
      if (&other != &chunk && other.sequence == chunk.sequence)
        return InvalidArgument("two chunks of one sequence", "sequence");
    }
  }
  if (rows > parts.max_rows) {
    return InvalidArgument(
        "a pass of " + std::to_string(rows) + " rows; at most " + std::to_string(parts.max_rows), "ids");
  }
  for (const Chunk& chunk : chunks) {
    DEEPINFER_RETURN_IF_ERROR(
        chunk.sequence->PrepareWrite(chunk.sequence->length() + static_cast<int64_t>(chunk.ids.size())));
  }
  for (ChunkOutput& output : outputs) {
    output.rows = 0;
    output.logits.clear();
    output.taps.assign(taps ? parts.config.dspark_target_layer_ids.size() : 0, {});
  }
  ForwardPass(&parts, chunks, outputs, taps, observer).Run();
  return impl_->checkpoint->CheckMaps();
}

}  // namespace deepinfer::model
