// The backbone's tensors as kernels read them, under the names of the checkpoint (spec: checkpoint.md §4).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "kernels/ops.h"
#include "tensor/aligned_buffer.h"

namespace deepinfer::model {

struct HcWeights {
  const float* fn = nullptr;     // [n(n+2), n*D]
  const float* base = nullptr;   // [n(n+2)]
  const float* scale = nullptr;  // [3]
};

struct CompressorWeights {
  kernels::WeightView wkv, wgate;  // bf16 [d, D]; wgate only for ratio > 1
  const Bf16* norm = nullptr;      // [d]
};

struct IndexerWeights {
  kernels::WeightView wq_b;          // fp8 [h*di, q_lora]
  kernels::WeightView weights_proj;  // bf16 [h, D]
  kernels::WeightView wk;            // bf16 [di, d]; KV sources only
  const Bf16* k_norm = nullptr;      // [di]; KV sources only
};

struct AttentionWeights {
  kernels::WeightView wq_a, wq_b, wkv, wo_a, wo_b;
  const Bf16* q_norm = nullptr;
  const Bf16* kv_norm = nullptr;
  const float* sink = nullptr;  // [H]
  CompressorWeights compressor;
  IndexerWeights indexer;
};

struct EngramWeights {
  const uint8_t* codes = nullptr;   // E4M3 [rows, width], mapped
  const uint8_t* scales = nullptr;  // E8M0 [rows, width/32], mapped
  int64_t table_rows = 0;
  kernels::WeightView wkv;
  const Bf16* q_weight = nullptr;  // [n, D]
  const Bf16* k_weight = nullptr;  // [n, D]
};

struct LayerWeights {
  const Bf16* attn_norm = nullptr;
  const Bf16* ffn_norm = nullptr;
  HcWeights hc_attn, hc_ffn;
  AttentionWeights attn;
  kernels::WeightView gate;  // bf16 [E, D]
  const float* gate_bias = nullptr;
  const float* gate_bias_vl = nullptr;
  std::vector<kernels::ExpertWeights> experts;
  kernels::ExpertWeights shared;
  EngramWeights engram;  // layers with Engram only
};

/// All weights of the backbone. Dense tensors are copied into aligned memory; routed experts and Engram tables stay mapped, so that a
/// model larger than memory still runs (spec: cli.md §1).
class Weights {
 public:
  using Progress = std::function<void(uint64_t bytes_done, uint64_t bytes_total)>;

  /// Errors: kDataLoss naming the tensor (missing, other dtype or shape, file cut), kResourceExhausted.
  static Result<std::unique_ptr<Weights>> Load(std::shared_ptr<Checkpoint> checkpoint,
                                               const Progress& progress);

  kernels::WeightView head;     // bf16 [V, D]
  const Bf16* embed = nullptr;  // [V, D]
  const Bf16* norm = nullptr;   // [D]
  std::vector<LayerWeights> layers;

 private:
  friend class WeightLoader;
  std::shared_ptr<Checkpoint> checkpoint_;  // keeps the maps
  std::vector<AlignedBuffer> dense_;
};

}  // namespace deepinfer::model
