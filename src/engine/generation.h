// One answer: prefill, then token by token. Internal to the module.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine_impl.h"
#include "engine/session.h"
#include "engine/stop_matcher.h"
#include "tokenizer/detokenizer.h"

namespace deepinfer {

class Generation {
 public:
  /// `request` has passed CheckRequest; all pointers outlive the object, `session` and `stop` may be null.
  Generation(EngineParts* engine, const GenerationRequest* request, const TokenSink* sink,
             SessionState* session, const std::atomic<bool>* stop);

  Result<GenerationResult> Run();

 private:
  Status Prepare();
  /// Feeds the prompt; false when it was cancelled.
  Result<bool> Prefill();
  Status FeedPrompt(size_t from, size_t to);
  Status Decode();
  Status FeedToken(int32_t id);
  /// Takes `id` into the answer; true when the answer ends with it.
  Result<bool> Accept(int32_t id);
  bool IsStopId(int32_t id) const;
  /// The text that was held back.
  std::string Flush();
  void Cancel();
  void Finish(FinishReason reason) { result_.finish_reason = reason; }

  EngineParts& engine_;
  const GenerationRequest& request_;
  const TokenSink& sink_;
  SessionState* session_;
  const std::atomic<bool>* stop_;

  model::PrefillMode mode_;
  int64_t keep_tokens_;
  int64_t max_output_;         // output tokens that max_tokens and the context allow
  FinishReason limit_reason_;  // which of the two

  HeldSequence held_;
  model::ChunkOutput output_;  // logits of the row before the next token
  std::optional<sampling::Sampler> sampler_;
  Detokenizer detokenizer_;
  StopMatcher stops_;
  GenerationResult result_;
};

/// Errors: kInvalidArgument naming the field.
Status CheckRequest(const GenerationRequest& request, const ModelConfig& config);

}  // namespace deepinfer
