// The operations as free functions, one file a section of model.md. ReferenceOps forwards to them.
#pragma once

#include "kernels/ops.h"

namespace deepinfer::kernels::reference {

// rows.cc
void Embed(const OpContext& ctx, const EmbedParams& p);
void RmsNorm(const OpContext& ctx, const RmsNormParams& p);
void FakeQuantize(const OpContext& ctx, const FakeQuantizeParams& p);
void RopeTables(const OpContext& ctx, const RopeTablesParams& p);
void Rope(const OpContext& ctx, const RopeParams& p);
void Scale(const OpContext& ctx, const ScaleParams& p);

// linear.cc
void Linear(const OpContext& ctx, const LinearParams& p);

// hyper_connections.cc
void HcMixes(const OpContext& ctx, const HcMixesParams& p);
void HcCollapse(const OpContext& ctx, const HcCollapseParams& p);
void HcExpand(const OpContext& ctx, const HcExpandParams& p);
void StreamMean(const OpContext& ctx, const StreamMeanParams& p);

// state.cc
void QuantizeWindow(const OpContext& ctx, const QuantizeWindowParams& p);
void CommitWindow(const OpContext& ctx, const CommitWindowParams& p);
void WriteEntries(const OpContext& ctx, const WriteEntriesParams& p);
void CompressorPool(const OpContext& ctx, const CompressorPoolParams& p);
void CommitTail(const OpContext& ctx, const CommitTailParams& p);

// indexer.cc
void IndexerScores(const OpContext& ctx, const IndexerScoresParams& p);
void SelectTopK(const OpContext& ctx, const SelectTopKParams& p);
void SelectCandidates(const OpContext& ctx, const SelectCandidatesParams& p);

// attention.cc
void SparseAttention(const OpContext& ctx, const SparseAttentionParams& p);
void SlotAttention(const OpContext& ctx, const SlotAttentionParams& p);

// moe.cc
void MoeRoute(const OpContext& ctx, const MoeRouteParams& p);
void MoeExperts(const OpContext& ctx, const MoeExpertsParams& p);

// engram.cc
void EngramGather(const OpContext& ctx, const EngramGatherParams& p);
void EngramGate(const OpContext& ctx, const EngramGateParams& p);

}  // namespace deepinfer::kernels::reference
