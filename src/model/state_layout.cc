#include "model/state_layout.h"

#include <algorithm>

#include "base/checked.h"
#include "tensor/quantize.h"

namespace deepinfer::model {
namespace {

/// Gives the next part of a block its place and returns the place after it.
int64_t PlacePart(int64_t at, int64_t bytes, int64_t* offset) {
  *offset = at;
  return at + RoundUp(bytes, kPartAlignment);
}

int64_t ScaleBytes(const kernels::EntryLayout& layout) {
  return layout.dim / (layout.format == kernels::EntryFormat::kFp4Main ? kMainKvGroup : kQuantGroup);
}

}  // namespace

StateLayout StateLayout::Make(const ModelConfig& config, const ModelPlan& plan) {
  StateLayout layout;
  int64_t at = 0;
  int64_t max_ratio = 1;
  for (const SourcePlan& source : plan.sources()) {
    Source entry;
    entry.layer = source.layer;
    entry.ratio = source.ratio;
    max_ratio = std::max(max_ratio, entry.ratio);
    const int64_t count = kBlockTokens / source.ratio;
    entry.main = {kernels::EntryFormat::kFp4Main, config.head_dim, count, 0, 0};
    entry.index = {kernels::EntryFormat::kFp4Index, config.index_head_dim, count, 0, 0};
    for (kernels::EntryLayout* part : {&entry.main, &entry.index}) {
      at = PlacePart(at, count * part->dim / 2, &part->codes_offset);
      at = PlacePart(at, count * ScaleBytes(*part), &part->scales_offset);
    }
    layout.sources.push_back(entry);
  }
  layout.block_bytes = at;

  layout.num_layers = config.num_hidden_layers;
  layout.head_dim = config.head_dim;
  layout.window = config.sliding_window;
  layout.ring_capacity = config.sliding_window + kMaxRollback;
  layout.ring_scales_offset = RoundUp(layout.ring_capacity * config.head_dim, kPartAlignment);
  layout.ring_stride = layout.ring_scales_offset +
                       RoundUp(layout.ring_capacity * config.head_dim / kQuantGroup, kPartAlignment);
  layout.rings_bytes = layout.ring_stride * layout.num_layers;

  layout.tail_capacity = std::max(kMinTailTokens, max_ratio + kMaxRollback);
  const int64_t tail_bytes = layout.tail_capacity * config.head_dim * static_cast<int64_t>(sizeof(float));
  for (Source& source : layout.sources) {
    if (source.ratio == 1) continue;
    source.tail_offset = layout.tails_bytes;
    layout.tails_bytes += 2 * RoundUp(tail_bytes, kPartAlignment);
  }
  return layout;
}

}  // namespace deepinfer::model
