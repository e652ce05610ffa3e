// generation_config.json: how the publisher of a model wants it sampled. Internal to the module.
#pragma once

#include <optional>
#include <string_view>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "engine/engine.h"

namespace deepinfer {

/// Defaults from the text of the file (spec: cli.md §1); without a file temperature 1, top-p 1 and the config's end token. Keys that
/// say nothing about sampling are ignored. Errors: kDataLoss naming the key.
Result<GenerationDefaults> ParseGenerationConfig(std::string_view text, const ModelConfig& config);
GenerationDefaults DefaultsWithoutFile(const ModelConfig& config);

/// Reads the file of a checkpoint folder, if there is one. Errors: as above, kIo.
Result<GenerationDefaults> ReadGenerationConfig(const Checkpoint& checkpoint);

}  // namespace deepinfer
