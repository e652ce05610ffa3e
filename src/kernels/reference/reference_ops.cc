#include "kernels/reference/reference_ops.h"

#include "kernels/reference/functions.h"

namespace deepinfer::kernels {
namespace {

class ReferenceOps final : public Ops {
 public:
  std::string_view target() const override { return "reference"; }
  size_t WorkspaceBytes(const WorkspaceLimits& /*limits*/) const override { return 0; }

  void Embed(const OpContext& c, const EmbedParams& p) const override { reference::Embed(c, p); }
  void RmsNorm(const OpContext& c, const RmsNormParams& p) const override { reference::RmsNorm(c, p); }
  void FakeQuantize(const OpContext& c, const FakeQuantizeParams& p) const override {
    reference::FakeQuantize(c, p);
  }
  void Linear(const OpContext& c, const LinearParams& p) const override { reference::Linear(c, p); }
  void RopeTables(const OpContext& c, const RopeTablesParams& p) const override {
    reference::RopeTables(c, p);
  }
  void Rope(const OpContext& c, const RopeParams& p) const override { reference::Rope(c, p); }
  void HcMixes(const OpContext& c, const HcMixesParams& p) const override { reference::HcMixes(c, p); }
  void HcCollapse(const OpContext& c, const HcCollapseParams& p) const override {
    reference::HcCollapse(c, p);
  }
  void HcExpand(const OpContext& c, const HcExpandParams& p) const override { reference::HcExpand(c, p); }
  void StreamMean(const OpContext& c, const StreamMeanParams& p) const override {
    reference::StreamMean(c, p);
  }
  void QuantizeWindow(const OpContext& c, const QuantizeWindowParams& p) const override {
    reference::QuantizeWindow(c, p);
  }
  void CommitWindow(const OpContext& c, const CommitWindowParams& p) const override {
    reference::CommitWindow(c, p);
  }
  void WriteEntries(const OpContext& c, const WriteEntriesParams& p) const override {
    reference::WriteEntries(c, p);
  }
  void CompressorPool(const OpContext& c, const CompressorPoolParams& p) const override {
    reference::CompressorPool(c, p);
  }
  void CommitTail(const OpContext& c, const CommitTailParams& p) const override {
    reference::CommitTail(c, p);
  }
  void Scale(const OpContext& c, const ScaleParams& p) const override { reference::Scale(c, p); }
  void IndexerScores(const OpContext& c, const IndexerScoresParams& p) const override {
    reference::IndexerScores(c, p);
  }
  void SelectTopK(const OpContext& c, const SelectTopKParams& p) const override {
    reference::SelectTopK(c, p);
  }
  void SelectCandidates(const OpContext& c, const SelectCandidatesParams& p) const override {
    reference::SelectCandidates(c, p);
  }
  void SparseAttention(const OpContext& c, const SparseAttentionParams& p) const override {
    reference::SparseAttention(c, p);
  }
  void SlotAttention(const OpContext& c, const SlotAttentionParams& p) const override {
    reference::SlotAttention(c, p);
  }
  void MoeRoute(const OpContext& c, const MoeRouteParams& p) const override { reference::MoeRoute(c, p); }
  void MoeExperts(const OpContext& c, const MoeExpertsParams& p) const override {
    reference::MoeExperts(c, p);
  }
  void EngramGather(const OpContext& c, const EngramGatherParams& p) const override {
    reference::EngramGather(c, p);
  }
  void EngramGate(const OpContext& c, const EngramGateParams& p) const override {
    reference::EngramGate(c, p);
  }
};

}  // namespace

std::unique_ptr<const Ops> MakeReferenceOps() { return std::make_unique<ReferenceOps>(); }

}  // namespace deepinfer::kernels
