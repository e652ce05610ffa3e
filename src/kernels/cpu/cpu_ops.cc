#include "kernels/cpu/cpu_ops.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include <hwy/detect_targets.h>
#include <hwy/targets.h>

#include "base/cpu_count.h"
#include "kernels/cpu/back_end.h"

namespace deepinfer::kernels {
namespace {

struct Target {
  std::string_view name;
  int64_t bit;
};

// Best first. Names are those of `--cpu-target`, not Highway's.
constexpr std::array kTargets = {Target{"avx512", HWY_AVX3},   Target{"avx2", HWY_AVX2},
                                 Target{"sse4", HWY_SSE4},     Target{"neon", HWY_NEON},
                                 Target{"scalar", HWY_EMU128}, Target{"scalar", HWY_SCALAR}};

// Threads that get scratch memory of their own; a pool with more uses as many as there is memory for.
constexpr int kMinThreadSlots = 8;

bool FillTable(int64_t target, KernelTable& table) {
  return FillProductKernels(target, table) && FillRowKernels(target, table) &&
         FillAttentionKernels(target, table) && FillIndexKernels(target, table);
}

bool Usable(int64_t target) {
  KernelTable table;
  const bool fallback = target == HWY_SCALAR || target == HWY_EMU128;
  return (fallback || (hwy::SupportedTargets() & target) != 0) && FillTable(target, table);
}

}  // namespace

void WorkspaceTooSmall(size_t needed, size_t available) {
  std::fprintf(stderr, "kernels/cpu: workspace too small: %zu bytes needed, %zu left\n", needed, available);
  std::abort();
}

std::vector<std::string_view> CpuTargets() {
  std::vector<std::string_view> names;
  for (const Target& target : kTargets) {
    if (Usable(target.bit)) names.push_back(target.name);
  }
  return names;
}

std::unique_ptr<const Ops> MakeCpuOps(std::string_view target) {
  for (const Target& candidate : kTargets) {
    if (candidate.name != target || !Usable(candidate.bit)) continue;
    KernelTable table;
    FillTable(candidate.bit, table);
    return std::make_unique<CpuOps>(candidate.name, table);
  }
  return nullptr;
}

size_t CpuOps::WorkspaceBytes(const WorkspaceLimits& limits) const {
  const size_t thread_bytes = std::max(
      {ProductThreadBytes(), MoeThreadBytes(), AttentionThreadBytes(limits.head_dim, limits.max_list),
       IndexThreadBytes(limits.index_heads, limits.index_head_dim), SelectThreadBytes(limits.max_entries)});
  const size_t shared_bytes =
      std::max({MoeSharedBytes(limits.max_rows, limits.hidden_size, limits.moe_intermediate_size,
                               limits.num_experts, limits.experts_per_token),
                HcSharedBytes(limits.max_rows, limits.hc_mult),
                RouteSharedBytes(limits.max_rows, limits.num_experts)});
  const int slots = std::max(kMinThreadSlots, AvailableCpus());
  return shared_bytes + static_cast<size_t>(slots) * RoundUp(thread_bytes, kScratchAlign);
}

}  // namespace deepinfer::kernels
