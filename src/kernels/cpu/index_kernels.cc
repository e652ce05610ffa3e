// Indexer scores from the dots of every head.
#include "kernels/cpu/kernel_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/index_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::kernels::HWY_NAMESPACE {
namespace {

/// Heads ascending; every lane is one key.
void ScoreTile(const ScoreTileArgs& a) {
  const bool reference = a.rounding == ScoreRounding::kReference;
  for (int64_t i = 0; i < kEntryTile; i += kLanes) {
    VF sum = Zero();
    for (int64_t h = 0; h < a.heads; ++h) {
      const VF dot = LoadFloats(a.dots + h * kEntryTile + i);
      const VF w = Set(ToFloat(a.w[h]));
      if (reference) {
        sum = hn::Add(sum, RoundBf16(hn::Mul(hn::Max(RoundBf16(dot), Zero()), w)));
      } else {
        sum = hn::MulAdd(hn::Max(dot, Zero()), w, sum);
      }
    }
    StoreFloats(reference ? RoundBf16(sum) : sum, a.scores + i);
  }
}

void Fill(KernelTable& table) { table.score_tile = ScoreTile; }

}  // namespace
}  // namespace deepinfer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/targets.h"

namespace deepinfer::kernels {
bool FillIndexKernels(int64_t target, KernelTable& table) { DEEPINFER_FILL_TARGETS(target, table); }
}  // namespace deepinfer::kernels
#endif
