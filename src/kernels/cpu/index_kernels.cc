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
    Wide sum = SetWide(0.0);
    for (int64_t h = 0; h < a.heads; ++h) {
      const Wide dot = LoadWide(a.dots + h * kEntryTile + i);
      const VF w = Set(ToFloat(a.w[h]));
      if (reference) {
        // Two bf16 factors: their product is exact in float.
        sum = Add(sum, Widen(RoundBf16(hn::Mul(hn::Max(RoundBf16(Narrow(dot)), Zero()), w))));
      } else {
        sum = MulAdd(Max(dot, SetWide(0.0)), Widen(w), sum);
      }
    }
    StoreFloats(reference ? RoundBf16(Narrow(sum)) : Narrow(sum), a.scores + i);
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
