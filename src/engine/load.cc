// From a checkpoint folder to a running engine.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/log.h"
#include "checkpoint/inventory.h"
#include "engine/back_end.h"
#include "engine/engine_impl.h"
#include "engine/generation_config.h"
#include "engine/memory_check.h"
#include "tokenizer/engram_token_map.h"

namespace deepinfer {
namespace {

constexpr int kMaxThreads = 4096;

Status CheckOptions(const EngineOptions& options) {
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return InvalidArgument(
        fmt::format("threads must be an integer in [0, {}], not {}", kMaxThreads, options.threads),
        "threads");
  }
  if (options.max_chunk_rows < 1) {
    return InvalidArgument(fmt::format("max_chunk_rows must be at least 1, not {}", options.max_chunk_rows),
                           "max_chunk_rows");
  }
  return OkStatus();
}

/// A file that must be there, with a hint of what to do when it is not.
Result<std::string> RequiredFile(const Checkpoint& checkpoint, const char* name) {
  Result<std::string> path = checkpoint.ResolveFile(name);
  if (path.ok() || path.status().code() != StatusCode::kNotFound) return path;
  return std::move(path).status().WithHint(
      fmt::format("copy {} of the published model into {}", name, checkpoint.dir()));
}

Result<std::shared_ptr<const Tokenizer>> LoadTokenizer(const Checkpoint& checkpoint) {
  DEEPINFER_ASSIGN_OR_RETURN(const std::string path, RequiredFile(checkpoint, "tokenizer.json"));
  DEEPINFER_ASSIGN_OR_RETURN(std::shared_ptr<const Tokenizer> tokenizer, Tokenizer::Load(path));
  // Fewer tokens than rows of the embedding are fine: the rest is padding.
  if (tokenizer->vocab_size() > checkpoint.config().vocab_size) {
    return DataLoss(fmt::format("{} tokens for a model with a vocabulary of {}", tokenizer->vocab_size(),
                                checkpoint.config().vocab_size),
                    path);
  }
  return tokenizer;
}

/// The sidecar when the folder has one, else from the tokenizer (spec: checkpoint.md §9.1).
Result<std::vector<int32_t>> LoadTokenMap(const Checkpoint& checkpoint, const Tokenizer& tokenizer) {
  const ModelConfig& config = checkpoint.config();
  if (!config.has_engram()) return std::vector<int32_t>{};
  const Result<std::string> sidecar = checkpoint.ResolveFile("engram_token_map.i32");
  if (!sidecar.ok() && sidecar.status().code() != StatusCode::kNotFound) return sidecar.status();
  Result<EngramTokenMap> map =
      sidecar.ok()
          ? EngramTokenMap::LoadSidecar(*sidecar, config.vocab_size, config.engram_compressed_vocab_size)
          : EngramTokenMap::Derive(tokenizer, config.vocab_size, config.engram_compressed_vocab_size);
  if (!map.ok()) return std::move(map).status();
  return std::vector<int32_t>(map->ids().begin(), map->ids().end());
}

/// Ids that are never valid output, and those without text.
std::vector<int32_t> SuppressedIds(const Tokenizer& tokenizer, const ModelConfig& config,
                                   std::span<const int32_t> eos_ids) {
  std::vector<int32_t> ids(tokenizer.never_valid_output().begin(), tokenizer.never_valid_output().end());
  if (config.image_token_id >= 0) ids.push_back(config.image_token_id);
  for (int32_t id = tokenizer.vocab_size(); id < config.vocab_size; ++id) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::erase_if(ids,
                [&](int32_t id) { return std::find(eos_ids.begin(), eos_ids.end(), id) != eos_ids.end(); });
  return ids;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Load(const EngineOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  DEEPINFER_RETURN_IF_ERROR(CheckOptions(options));
  DEEPINFER_ASSIGN_OR_RETURN(BackEnd back_end, ChooseBackEnd(options.device, options.cpu_target));
  DEEPINFER_ASSIGN_OR_RETURN(std::shared_ptr<Checkpoint> checkpoint, Checkpoint::Open(options.model_dir));
  const ModelConfig& config = checkpoint->config();
  // Draft and vision weights are not used here: they may be there or not.
  DEEPINFER_RETURN_IF_ERROR(CheckInventory(*checkpoint, {.draft = false, .vision = false}).ToStatus());
  DEEPINFER_ASSIGN_OR_RETURN(const std::string memory_note, CheckMemory(config, HostMemoryBytes()));
  if (!memory_note.empty()) LogInfo(memory_note);

  auto impl = std::make_unique<Impl>();
  DEEPINFER_ASSIGN_OR_RETURN(impl->prefill,
                             ResolvePrefill(options.prefill, options.keep_tokens, ReadYocoVariables(),
                                            config.sliding_window, config.max_position_embeddings));
  if (!impl->prefill.note.empty()) (impl->prefill.note_is_warning ? LogWarning : LogInfo)(impl->prefill.note);
  DEEPINFER_ASSIGN_OR_RETURN(impl->tokenizer, LoadTokenizer(*checkpoint));
  DEEPINFER_ASSIGN_OR_RETURN(impl->defaults, ReadGenerationConfig(*checkpoint));
  DEEPINFER_ASSIGN_OR_RETURN(std::vector<int32_t> token_map, LoadTokenMap(*checkpoint, *impl->tokenizer));
  impl->suppressed = SuppressedIds(*impl->tokenizer, config, impl->defaults.eos_ids);

  impl->pool = std::make_unique<ThreadPool>(options.threads);
  impl->target = std::move(back_end.target);
  DEEPINFER_ASSIGN_OR_RETURN(
      impl->backbone,
      model::Backbone::Create(checkpoint, std::move(back_end.ops), impl->pool.get(), std::move(token_map),
                              {.max_rows = options.max_chunk_rows}, options.progress));
  impl->load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

}  // namespace deepinfer
