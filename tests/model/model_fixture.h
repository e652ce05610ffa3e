// Backbones over the checkpoints of the test data, one a kernel target.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/ops.h"
#include "model/backbone.h"

namespace deepinfer::testing {

/// "reference" and every CPU target of this machine.
std::vector<std::string> KernelTargets();
std::shared_ptr<const kernels::Ops> MakeOps(std::string_view target);

/// A loaded model; throws std::runtime_error when it cannot be loaded.
struct TestModel {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<model::Backbone> backbone;

  /// `folder` below the test data, e.g. "goldens/tiny".
  static TestModel Load(const std::string& folder, std::string_view target, int threads = 2,
                        int64_t max_rows = 512);
  /// A folder anywhere.
  static TestModel LoadDir(const std::string& dir, std::string_view target, int threads = 2,
                           int64_t max_rows = 512);

  std::unique_ptr<model::Sequence> NewSequence() const;
  /// Feeds `ids` to `sequence` in one pass; throws on an error.
  model::ChunkOutput Feed(model::Sequence* sequence, std::span<const int32_t> ids,
                          model::LogitsWanted logits = model::LogitsWanted::kAll,
                          model::PrefillMode mode = model::PrefillMode::kFull, int64_t prompt_length = 0,
                          int64_t keep = 0, model::Observer* observer = nullptr);
  /// Runs any chunk; throws on an error.
  model::ChunkOutput Run(const model::Chunk& chunk, bool taps = false, model::Observer* observer = nullptr);
};

/// Throws what went wrong.
void Check(const Status& status);
template <typename T>
T Check(Result<T> result) {
  Check(result.status());
  return std::move(result).value();
}

/// Pseudo-random ids of the goldens' prompts, id 0 first.
std::vector<int32_t> Prompt(int64_t length, int64_t vocab, uint64_t seed);

/// Arg-max, the lowest id on ties.
int32_t ArgMax(std::span<const float> logits);

}  // namespace deepinfer::testing
