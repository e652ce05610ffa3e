// Small made-up checkpoints in the published layout (spec: checkpoint.md §10): for tests, generators and demonstrations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/config.h"
#include "checkpoint/safetensors_writer.h"

namespace deepinfer {

/// The configuration of checkpoint.md §10: 852 tensors, 4,006,944 bytes, every kind of layer, three draft stages, vision.
ModelConfig SyntheticConfig();

/// Fills elements [first, first + …) of a tensor with values that depend on its name only: E8M0 codes 124 … 130, E4M3 codes without
/// NaN and mostly below 2 in magnitude (Engram rows never near zero), norms near 1, `bias_vl` unlike `bias`. `out` holds whole bytes
/// of the stored type: BF16, F32, F8_E4M3, F8_E8M0 or I8.
void FillSyntheticTensor(std::string_view name, StorageDtype dtype, std::span<const uint64_t> shape,
                         uint64_t first, std::span<std::byte> out);

/// A tensor and the shard that it goes to.
struct SyntheticTensor {
  TensorSpec spec;
  int shard = 0;
};

struct SyntheticOptions {
  enum class Layout : uint8_t {
    kSingleFile,  // model.safetensors, no index
    kParts,       // vision / embedding / layers / head and draft / Engram
    kReleased,    // one shard a layer, as the published checkpoint: 48 shards for the released configuration
  };
  Layout layout = Layout::kParts;
  bool sparse = false;       // payloads are holes (all zeros)
  bool flat_config = false;  // config.json in the flat form; otherwise nested
  bool tokenizer =
      false;  // tokenizer.json, tokenizer_config.json and engram_token_map.i32 of SyntheticConfig()
  SafetensorsWriteOptions write;
  /// Changes the tensors before anything is written: for faulty checkpoints.
  std::function<void(std::vector<SyntheticTensor>&)> edit;
};

/// The tensors of a configuration in writing order with their shards.
std::vector<SyntheticTensor> SyntheticTensors(const ModelConfig& config, SyntheticOptions::Layout layout);

/// Writes a checkpoint into a new or existing folder. Errors: kIo, kInvalidArgument.
Status WriteSyntheticCheckpoint(const std::string& dir, const ModelConfig& config,
                                const SyntheticOptions& options = {});

}  // namespace deepinfer
