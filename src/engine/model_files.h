// What a model folder holds beside tensors and config.json, read as the engine reads it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer {

struct ModelFiles {
  std::shared_ptr<const Tokenizer> tokenizer;
  GenerationDefaults defaults;     // of generation_config.json
  std::vector<int32_t> token_map;  // compressed id of each token; empty without Engram
};

/// Errors: kDataLoss naming the file; kNotFound without a tokenizer.json; kIo.
Result<ModelFiles> LoadModelFiles(const Checkpoint& checkpoint);

/// What the same readers find wrong, file by file; empty when all of them can be used.
std::vector<Status> CheckModelFiles(const Checkpoint& checkpoint);

}  // namespace deepinfer
