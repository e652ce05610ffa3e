// The layout of state in memory against the memory plan, which computes the same sizes before anything is loaded.
#include "model/state_layout.h"

#include <gtest/gtest.h>

#include "checkpoint/memory_plan.h"

namespace deepinfer::model {
namespace {

TEST(StateLayout, ReleasedModelHasThePlannedSizes) {
  const ModelConfig config = ReleasedConfig();
  const StateLayout layout = StateLayout::Make(config, ModelPlan::Make(config));
  EXPECT_EQ(layout.block_bytes, 113920);
  EXPECT_EQ(layout.block_bytes, static_cast<int64_t>(KvBlockBytes(config)));
  EXPECT_EQ(layout.tail_capacity, 16);
  EXPECT_EQ(layout.tails_bytes, 3 * 16 * 512 * 2 * 4);
  // The plan counts rows without padding, and the three draft windows as well.
  const int64_t row_bytes = 512 + 16, rows = 128 + 12;
  EXPECT_EQ(static_cast<int64_t>(SequenceStateBytes(config, true)),
            43 * rows * row_bytes + layout.tails_bytes);
  EXPECT_GE(layout.ring_stride, rows * row_bytes);
  EXPECT_LT(layout.ring_stride, rows * row_bytes + 2 * kPartAlignment);
}

TEST(StateLayout, PartsAreAlignedAndDisjoint) {
  const ModelConfig config = ReleasedConfig();
  const StateLayout layout = StateLayout::Make(config, ModelPlan::Make(config));
  int64_t at = 0;
  for (const StateLayout::Source& source : layout.sources) {
    for (const kernels::EntryLayout* part : {&source.main, &source.index}) {
      EXPECT_EQ(part->codes_offset, at);
      EXPECT_EQ(part->codes_offset % kPartAlignment, 0);
      EXPECT_GE(part->scales_offset, part->codes_offset + part->entries_per_block * part->dim / 2);
      EXPECT_EQ(part->scales_offset % kPartAlignment, 0);
      const int64_t group = part->format == kernels::EntryFormat::kFp4Main ? 16 : 32;
      at = part->scales_offset + part->entries_per_block * part->dim / group;
    }
  }
  EXPECT_EQ(layout.block_bytes, at);
}

}  // namespace
}  // namespace deepinfer::model
