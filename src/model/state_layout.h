// Where each kind of state stands in memory: one function of the config (spec: design.md §2.4, model.md §11, open-questions.md 5, 6).
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/config.h"
#include "kernels/ops.h"
#include "model/layer_plan.h"

namespace deepinfer::model {

/// Tokens of one global-KV block.
inline constexpr int64_t kBlockTokens = 128;
/// Tokens of a compressor tail at least (spec: dspark.md §7).
inline constexpr int64_t kMinTailTokens = 16;
/// Every part of a block and of a ring begins at a multiple of this.
inline constexpr int64_t kPartAlignment = 128;

struct StateLayout {
  // Global KV: per source, in the order of ModelPlan::sources, main codes, main scales, index codes, index scales.
  struct Source {
    int layer = 0;
    int64_t ratio = 1;
    kernels::EntryLayout main;
    kernels::EntryLayout index;
    int64_t tail_offset =
        -1;  // bytes into the tails buffer: content [tail_capacity, d], then gate; -1 for ratio 1
  };
  std::vector<Source> sources;
  int64_t block_bytes = 0;  // 113,920 in the released model

  // Window rings, layers ascending: codes [capacity, d], then scales [capacity, d/32].
  int64_t num_layers = 0;
  int64_t head_dim = 0;
  int64_t window = 0;
  int64_t ring_capacity = 0;  // window + kMaxRollback: dropped rows leave the window of the kept ones intact
  int64_t ring_scales_offset = 0;  // from the begin of a layer's ring
  int64_t ring_stride = 0;         // bytes from one layer's ring to the next
  int64_t rings_bytes = 0;

  int64_t tail_capacity = 0;  // tokens: an open group plus the rows that may be dropped
  int64_t tails_bytes = 0;

  static StateLayout Make(const ModelConfig& config, const ModelPlan& plan);
};

}  // namespace deepinfer::model
