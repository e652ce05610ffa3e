#include "engine/model_files.h"

#include <utility>

#include <fmt/format.h>

#include "engine/generation_config.h"
#include "tokenizer/engram_token_map.h"

namespace deepinfer {
namespace {

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

/// The sidecar when the folder has one, else from the tokenizer (spec: checkpoint.md §9.1). `tokenizer` is null when it could not be
/// loaded.
Result<std::vector<int32_t>> LoadTokenMap(const Checkpoint& checkpoint, const Tokenizer* tokenizer) {
  const ModelConfig& config = checkpoint.config();
  if (!config.has_engram()) return std::vector<int32_t>{};
  const Result<std::string> sidecar = checkpoint.ResolveFile("engram_token_map.i32");
  if (!sidecar.ok() && sidecar.status().code() != StatusCode::kNotFound) return sidecar.status();
  if (!sidecar.ok() && tokenizer == nullptr) return std::vector<int32_t>{};  // its own fault is reported
  Result<EngramTokenMap> map =
      sidecar.ok()
          ? EngramTokenMap::LoadSidecar(*sidecar, config.vocab_size, config.engram_compressed_vocab_size)
          : EngramTokenMap::Derive(*tokenizer, config.vocab_size, config.engram_compressed_vocab_size);
  if (!map.ok()) return std::move(map).status();
  return std::vector<int32_t>(map->ids().begin(), map->ids().end());
}

}  // namespace

Result<ModelFiles> LoadModelFiles(const Checkpoint& checkpoint) {
  ModelFiles files;
  DEEPINFER_ASSIGN_OR_RETURN(files.tokenizer, LoadTokenizer(checkpoint));
  DEEPINFER_ASSIGN_OR_RETURN(files.defaults, ReadGenerationConfig(checkpoint));
  DEEPINFER_ASSIGN_OR_RETURN(files.token_map, LoadTokenMap(checkpoint, files.tokenizer.get()));
  return files;
}

std::vector<Status> CheckModelFiles(const Checkpoint& checkpoint) {
  std::vector<Status> problems;
  const auto note = [&problems](Status status) {
    if (!status.ok()) problems.push_back(std::move(status));
  };
  const auto tokenizer = LoadTokenizer(checkpoint);
  note(tokenizer.status());
  note(ReadGenerationConfig(checkpoint).status());
  note(LoadTokenMap(checkpoint, tokenizer.ok() ? tokenizer->get() : nullptr).status());
  return problems;
}

}  // namespace deepinfer
