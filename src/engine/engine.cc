#include "engine/engine.h"

#include <fmt/format.h>

#include "engine/engine_impl.h"
#include "engine/session.h"

namespace deepinfer {

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kContext: return "context_length";
    case FinishReason::kCancelled: return "cancelled";
  }
  return "";
}

Status CheckIds(std::span<const int32_t> ids, const ModelConfig& config, const std::string& field) {
  if (ids.empty()) return InvalidArgument("there must be at least one token", field);
  if (static_cast<int64_t>(ids.size()) > config.max_position_embeddings) {
    return InvalidArgument(fmt::format("{} tokens are more than the model's context of {}", ids.size(),
                                       config.max_position_embeddings),
                           field);
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < config.vocab_size) continue;
    return InvalidArgument(
        fmt::format("token id {} at index {} is outside [0, {}]", ids[i], i, config.vocab_size - 1), field);
  }
  return OkStatus();
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

const ModelConfig& Engine::config() const { return impl_->config(); }
const Tokenizer& Engine::tokenizer() const { return *impl_->tokenizer; }
std::shared_ptr<const Tokenizer> Engine::shared_tokenizer() const { return impl_->tokenizer; }
const GenerationDefaults& Engine::defaults() const { return impl_->defaults; }
std::string_view Engine::kernel_target() const { return impl_->target; }
int Engine::threads() const { return impl_->pool->num_threads(); }
double Engine::load_ms() const { return impl_->load_ms; }
model::PrefillMode Engine::prefill() const { return impl_->prefill.mode; }
int64_t Engine::keep_tokens() const { return impl_->prefill.keep_tokens; }

std::unique_ptr<Session> Engine::NewSession() { return std::make_unique<SessionState>(impl_.get()); }

}  // namespace deepinfer
