// The class behind cpu_ops.h and what its operations share: workspace carving and the split of work over threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/ops.h"

namespace deepinfer::kernels {

/// Multiply-adds (or work worth as much) that pay for handing work to another thread.
inline constexpr int64_t kWorkPerThread = 20000;

inline constexpr size_t kScratchAlign = 128;

/// Bytes of `count` values, rounded up to the alignment of workspace pieces.
template <class T>
constexpr size_t PieceBytes(int64_t count) {
  return RoundUp(static_cast<size_t>(count) * sizeof(T), kScratchAlign);
}

/// Stops the program: the workspace is smaller than WorkspaceBytes said.
[[noreturn]] void WorkspaceTooSmall(size_t needed, size_t available);

/// Hands out pieces of the workspace, front to back.
class Scratch {
 public:
  explicit Scratch(std::span<std::byte> memory) : memory_(memory) {}

  template <class T>
  T* Take(int64_t count) {
    const size_t bytes = PieceBytes<T>(count);
    if (bytes > memory_.size()) WorkspaceTooSmall(bytes, memory_.size());
    T* piece = reinterpret_cast<T*>(memory_.data());
    memory_ = memory_.subspan(bytes);
    return piece;
  }
  std::span<std::byte> rest() const { return memory_; }

 private:
  std::span<std::byte> memory_;
};

/// Threads worth using for `work` multiply-adds.
inline int64_t UsefulThreads(const OpContext& ctx, int64_t work) {
  if (ctx.pool == nullptr) return 1;
  const int64_t useful = work / kWorkPerThread;
  return useful < 2 ? 1 : std::min<int64_t>(useful, ctx.pool->num_threads());
}

/// body(begin, end) over disjoint pieces of [0, rows); `work` multiply-adds a row.
template <class Body>
void ForRows(const OpContext& ctx, int64_t rows, int64_t work, const Body& body) {
  if (UsefulThreads(ctx, rows * work) <= 1 || rows <= 1) {
    if (rows > 0) body(int64_t{0}, rows);
    return;
  }
  const int64_t grain = CeilDiv(kWorkPerThread, std::max(work, int64_t{1}));
  ctx.pool->ParallelFor(rows, grain, [&body](int64_t begin, int64_t end, int) { body(begin, end); });
}

/// body(unit, scratch) for every unit of [0, units), each on some thread with `scratch_bytes` of its own out of `memory`. Units are
/// taken in order by whichever thread is free, so uneven ones balance; `work` multiply-adds in all.
template <class Body>
void ForUnits(const OpContext& ctx, int64_t units, int64_t work, std::span<std::byte> memory,
              size_t scratch_bytes, const Body& body) {
  if (units <= 0) return;
  scratch_bytes = RoundUp(scratch_bytes, kScratchAlign);
  if (memory.size() < scratch_bytes) WorkspaceTooSmall(scratch_bytes, memory.size());
  const int64_t slots = scratch_bytes == 0 ? units : static_cast<int64_t>(memory.size() / scratch_bytes);
  const int64_t threads = std::min({UsefulThreads(ctx, work), units, slots});
  if (threads <= 1) {
    for (int64_t unit = 0; unit < units; ++unit) body(unit, Scratch(memory.subspan(0, scratch_bytes)));
    return;
  }
  std::atomic<int64_t> next{0};
  ctx.pool->ParallelFor(threads, 1, [&](int64_t begin, int64_t end, int) {
    // Pieces are single slots unless the pool has other loops to run: then the first slot of a piece serves.
    if (begin == end) return;
    const Scratch scratch(memory.subspan(static_cast<size_t>(begin) * scratch_bytes, scratch_bytes));
    for (int64_t unit = next.fetch_add(1); unit < units; unit = next.fetch_add(1)) body(unit, scratch);
  });
}

class CpuOps final : public Ops {
 public:
  CpuOps(std::string_view target, const KernelTable& kernels) : target_(target), kernels_(kernels) {}

  std::string_view target() const override { return target_; }
  size_t WorkspaceBytes(const WorkspaceLimits& limits) const override;

  void Embed(const OpContext& ctx, const EmbedParams& p) const override;
  void RmsNorm(const OpContext& ctx, const RmsNormParams& p) const override;
  void FakeQuantize(const OpContext& ctx, const FakeQuantizeParams& p) const override;
  void Linear(const OpContext& ctx, const LinearParams& p) const override;
  void RopeTables(const OpContext& ctx, const RopeTablesParams& p) const override;
  void Rope(const OpContext& ctx, const RopeParams& p) const override;
  void HcMixes(const OpContext& ctx, const HcMixesParams& p) const override;
  void HcCollapse(const OpContext& ctx, const HcCollapseParams& p) const override;
  void HcExpand(const OpContext& ctx, const HcExpandParams& p) const override;
  void StreamMean(const OpContext& ctx, const StreamMeanParams& p) const override;
  void QuantizeWindow(const OpContext& ctx, const QuantizeWindowParams& p) const override;
  void CommitWindow(const OpContext& ctx, const CommitWindowParams& p) const override;
  void WriteEntries(const OpContext& ctx, const WriteEntriesParams& p) const override;
  void CompressorPool(const OpContext& ctx, const CompressorPoolParams& p) const override;
  void CommitTail(const OpContext& ctx, const CommitTailParams& p) const override;
  void Scale(const OpContext& ctx, const ScaleParams& p) const override;
  void IndexerScores(const OpContext& ctx, const IndexerScoresParams& p) const override;
  void SelectTopK(const OpContext& ctx, const SelectTopKParams& p) const override;
  void SelectCandidates(const OpContext& ctx, const SelectCandidatesParams& p) const override;
  void SparseAttention(const OpContext& ctx, const SparseAttentionParams& p) const override;
  void SlotAttention(const OpContext& ctx, const SlotAttentionParams& p) const override;
  void MoeRoute(const OpContext& ctx, const MoeRouteParams& p) const override;
  void MoeExperts(const OpContext& ctx, const MoeExpertsParams& p) const override;
  void EngramGather(const OpContext& ctx, const EngramGatherParams& p) const override;
  void EngramGate(const OpContext& ctx, const EngramGateParams& p) const override;

 private:
  std::string_view target_;
  KernelTable kernels_;
};

/// Scratch bytes of one thread, and of the parts that all threads share, for each group of operations.
size_t ProductThreadBytes();
size_t MoeThreadBytes();
size_t MoeSharedBytes(int64_t rows, int64_t hidden, int64_t intermediate, int64_t num_experts, int64_t k);
size_t HcSharedBytes(int64_t rows, int64_t hc_mult);
size_t RouteSharedBytes(int64_t rows, int64_t num_experts);
size_t AttentionThreadBytes(int64_t dim, int64_t max_list);
size_t IndexThreadBytes(int64_t heads, int64_t dim);
size_t SelectThreadBytes(int64_t columns);

}  // namespace deepinfer::kernels
