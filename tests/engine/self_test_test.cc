#include "engine/self_test.h"

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "kernels/reference/reference_ops.h"
#include "support/cpu_timer.h"

namespace deepinfer {
namespace {

void Damage(Bf16* value) { *value = ToBf16(1000.0); }
void Damage(float* value) { *value = 1000; }
void Damage(int32_t* value) { *value ^= 1; }
void Damage(uint8_t* value) { *value ^= 0x11; }
void Damage(std::byte* value) { *value ^= std::byte{0x11}; }

/// The reference with one operation that gets its first result wrong.
class FaultyOps final : public kernels::Ops {
 public:
  explicit FaultyOps(std::string_view faulty) : faulty_(faulty) {}

  std::string_view target() const override { return "faulty"; }
  size_t WorkspaceBytes(const kernels::WorkspaceLimits& limits) const override {
    return right_->WorkspaceBytes(limits);
  }

#define FAULTY_OPERATION(Name, first_result)                                                \
  void Name(const kernels::OpContext& ctx, const kernels::Name##Params& p) const override { \
    right_->Name(ctx, p);                                                                   \
    if (faulty_ == #Name) Damage(first_result);                                             \
  }
  FAULTY_OPERATION(Embed, p.streams)
  FAULTY_OPERATION(RmsNorm, p.y)
  FAULTY_OPERATION(FakeQuantize, p.y)
  FAULTY_OPERATION(RopeTables, p.cos)
  FAULTY_OPERATION(Rope, p.x + p.dim - 1)
  FAULTY_OPERATION(HcMixes, p.pre)
  FAULTY_OPERATION(HcCollapse, p.y)
  FAULTY_OPERATION(HcExpand, p.out)
  FAULTY_OPERATION(StreamMean, p.y)
  FAULTY_OPERATION(QuantizeWindow, p.codes)
  FAULTY_OPERATION(CommitWindow, p.sequences[0].codes)
  FAULTY_OPERATION(WriteEntries, p.sequences[0].blocks[0])
  FAULTY_OPERATION(CompressorPool, p.latent)
  FAULTY_OPERATION(CommitTail, p.sequences[0].content)
  FAULTY_OPERATION(Scale, p.x)
  FAULTY_OPERATION(IndexerScores, p.scores)
  FAULTY_OPERATION(SelectTopK, p.topk)
  FAULTY_OPERATION(SelectCandidates, p.candidates)
  FAULTY_OPERATION(SparseAttention, p.out)
  FAULTY_OPERATION(SlotAttention, p.out)
  FAULTY_OPERATION(MoeRoute, p.topk_weights)
  FAULTY_OPERATION(MoeExperts, p.y)
  FAULTY_OPERATION(EngramGather, p.out)
  FAULTY_OPERATION(EngramGate, p.streams)
#undef FAULTY_OPERATION
  void Linear(const kernels::OpContext& ctx, const kernels::LinearParams& p) const override {
    right_->Linear(ctx, p);
    if (faulty_ == "Linear" && p.y != nullptr) Damage(p.y);
    if (faulty_ == "Linear in groups" && p.groups > 1) Damage(p.y_f32);
  }

 private:
  std::string_view faulty_;
  std::shared_ptr<const kernels::Ops> right_ = kernels::MakeReferenceOps();
};

size_t CountFaults(const std::vector<SelfTestItem>& items) {
  size_t faults = 0;
  for (const SelfTestItem& item : items) faults += item.problem.empty() ? 0 : 1;
  return faults;
}

TEST(SelfTest, SeesAFaultInEveryOperation) {
  const auto right = kernels::MakeReferenceOps();
  const auto faults_of = [&](std::string_view name) {
    return CountFaults(CompareBackEnds(FaultyOps(name), *right, SelfTestDepth::kQuick, 1).value());
  };
  EXPECT_EQ(faults_of(""), 0U);
  // All operations of kernels/ops.h.
  for (const char* name :
       {"Embed",           "RmsNorm",        "FakeQuantize",  "Linear",       "Linear in groups",
        "RopeTables",      "Rope",           "HcMixes",       "HcCollapse",   "HcExpand",
        "StreamMean",      "QuantizeWindow", "CommitWindow",  "WriteEntries", "CompressorPool",
        "CommitTail",      "Scale",          "IndexerScores", "SelectTopK",   "SelectCandidates",
        "SparseAttention", "SlotAttention",  "MoeRoute",      "MoeExperts",   "EngramGather",
        "EngramGate"}) {
    EXPECT_GT(faults_of(name), 0U) << name;
  }
}

// The conformance tests of the kernels compare every target on many shapes; here the self-test itself is at stake.
TEST(SelfTest, EveryTargetAgrees) {
  const std::string best = KernelTargets().front();
  for (const std::string& target : KernelTargets()) {
    const auto items = RunSelfTest(target, target == best ? SelfTestDepth::kFull : SelfTestDepth::kQuick, 2);
    ASSERT_TRUE(items.ok()) << items.status().ToString();
    for (const SelfTestItem& item : *items) EXPECT_EQ(item.problem, "") << target << ": " << item.operation;
  }
}

TEST(SelfTest, QuickIsQuick) {
  const testing::CpuTimer timer;
  ASSERT_TRUE(RunSelfTest(KernelTargets().front(), SelfTestDepth::kQuick, 1).ok());
  EXPECT_LT(timer.Seconds(), 0.3 * testing::kSanitizerFactor);
}

}  // namespace
}  // namespace deepinfer
