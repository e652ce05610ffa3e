// From a checkpoint folder to a running engine.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/log.h"
#include "checkpoint/inventory.h"
#include "engine/back_end.h"
#include "engine/engine_impl.h"
#include "engine/memory_check.h"
#include "engine/model_files.h"

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
  DEEPINFER_ASSIGN_OR_RETURN(
      std::shared_ptr<Checkpoint> checkpoint,
      Checkpoint::Open(options.model_dir, {.limits = {}, .allowed_root = options.allowed_root}));
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
  DEEPINFER_ASSIGN_OR_RETURN(ModelFiles files, LoadModelFiles(*checkpoint));
  impl->tokenizer = std::move(files.tokenizer);
  impl->defaults = std::move(files.defaults);
  impl->suppressed = SuppressedIds(*impl->tokenizer, config, impl->defaults.eos_ids);

  impl->pool = std::make_unique<ThreadPool>(options.threads);
  impl->target = std::move(back_end.target);
  DEEPINFER_ASSIGN_OR_RETURN(impl->backbone,
                             model::Backbone::Create(checkpoint, std::move(back_end.ops), impl->pool.get(),
                                                     std::move(files.token_map),
                                                     {.max_rows = options.max_chunk_rows}, options.progress));
  impl->load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

}  // namespace deepinfer
