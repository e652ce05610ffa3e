// The parts of a loaded engine. Internal to the module.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engine/engine.h"
#include "engine/prefill_settings.h"
#include "model/backbone.h"

namespace deepinfer {

struct EngineParts {
  // The backbone uses pool and kernels: it is destroyed first.
  std::unique_ptr<ThreadPool> pool;
  std::string target;
  std::shared_ptr<const Tokenizer> tokenizer;
  GenerationDefaults defaults;
  PrefillSettings prefill;
  std::vector<int32_t> suppressed;  // ids that a draw never gives
  std::unique_ptr<model::Backbone> backbone;
  double load_ms = 0;

  const ModelConfig& config() const { return backbone->config(); }
};

struct Engine::Impl : EngineParts {};

/// True when the caller wants to end.
inline bool Stopped(const std::atomic<bool>* stop) {
  return stop != nullptr && stop->load(std::memory_order_relaxed);
}

/// Ids that are in the vocabulary, at least one, at most the context. Errors: kInvalidArgument naming `field`.
Status CheckIds(std::span<const int32_t> ids, const ModelConfig& config, const std::string& field);

}  // namespace deepinfer
