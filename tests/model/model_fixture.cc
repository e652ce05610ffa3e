#include "model/model_fixture.h"

#include <algorithm>
#include <stdexcept>

#include "checkpoint/checkpoint.h"
#include "kernels/reference/reference_ops.h"
#include "tokenizer/engram_token_map.h"
#ifdef DEEPINFER_TEST_CPU_KERNELS
#include "kernels/cpu/cpu_ops.h"
#endif

namespace deepinfer::testing {

std::vector<std::string> KernelTargets() {
  std::vector<std::string> targets = {"reference"};
#ifdef DEEPINFER_TEST_CPU_KERNELS
  for (std::string_view target : kernels::CpuTargets()) targets.emplace_back(target);
#endif
  return targets;
}

std::shared_ptr<const kernels::Ops> MakeOps(std::string_view target) {
  if (target == "reference") return kernels::MakeReferenceOps();
#ifdef DEEPINFER_TEST_CPU_KERNELS
  return kernels::MakeCpuOps(target);
#else
  return nullptr;
#endif
}

void Check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

TestModel TestModel::Load(const std::string& folder, std::string_view target, int threads, int64_t max_rows) {
  return LoadDir(std::string(DEEPINFER_TEST_DATA) + "/" + folder, target, threads, max_rows);
}

TestModel TestModel::LoadDir(const std::string& dir, std::string_view target, int threads, int64_t max_rows) {
  TestModel model;
  model.pool = std::make_unique<ThreadPool>(threads);
  std::shared_ptr<Checkpoint> checkpoint = Check(Checkpoint::Open(dir));
  const ModelConfig& config = checkpoint->config();
  std::vector<int32_t> map;
  if (config.has_engram()) {
    const EngramTokenMap sidecar =
        Check(EngramTokenMap::LoadSidecar(Check(checkpoint->ResolveFile("engram_token_map.i32")),
                                          config.vocab_size, config.engram_compressed_vocab_size));
    map.assign(sidecar.ids().begin(), sidecar.ids().end());
  }
  model::BackboneOptions options;
  options.max_rows = max_rows;
  model.backbone =
      Check(model::Backbone::Create(checkpoint, MakeOps(target), model.pool.get(), std::move(map), options));
  return model;
}

std::unique_ptr<model::Sequence> TestModel::NewSequence() const { return Check(backbone->NewSequence()); }

model::ChunkOutput TestModel::Feed(model::Sequence* sequence, std::span<const int32_t> ids,
                                   model::LogitsWanted logits, model::PrefillMode mode, int64_t prompt_length,
                                   int64_t keep, model::Observer* observer) {
  model::Chunk chunk;
  chunk.sequence = sequence;
  chunk.ids = ids;
  chunk.logits = logits;
  chunk.mode = mode;
  chunk.prompt_length = prompt_length;
  chunk.keep_tokens = keep;
  return Run(chunk, false, observer);
}

model::ChunkOutput TestModel::Run(const model::Chunk& chunk, bool taps, model::Observer* observer) {
  model::ChunkOutput output;
  Check(backbone->Forward({&chunk, 1}, {&output, 1}, taps, observer));
  return output;
}

std::vector<int32_t> Prompt(int64_t length, int64_t vocab, uint64_t seed) {
  uint64_t x = seed * 2654435761u + 12345u;
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < length; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    ids.push_back(static_cast<int32_t>(3 + (x >> 33) % static_cast<uint64_t>(vocab - 3)));
  }
  ids[0] = 0;
  return ids;
}

int32_t ArgMax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace deepinfer::testing
