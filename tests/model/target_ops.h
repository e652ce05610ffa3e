// Operations of a kernel target with a workspace for the small shapes of the tests here.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/ops.h"
#include "model/model_fixture.h"
#include "tensor/aligned_buffer.h"

namespace deepinfer::testing {

struct TargetOps {
  std::shared_ptr<const kernels::Ops> ops;
  AlignedBuffer workspace;
  kernels::OpContext context;

  explicit TargetOps(const std::string& target) : ops(MakeOps(target)) {
    kernels::WorkspaceLimits limits;
    limits.max_rows = 512;
    limits.hidden_size = 512;
    limits.hc_mult = 4;
    limits.max_in_features = 2048;
    limits.max_out_features = 2048;
    limits.moe_intermediate_size = 256;
    limits.num_experts = 384;
    limits.experts_per_token = 8;
    limits.num_heads = 64;
    limits.head_dim = 512;
    limits.max_list = 640;
    limits.index_heads = 32;
    limits.index_head_dim = 128;
    limits.max_entries = 4096;
    workspace = Check(AlignedBuffer::Allocate(ops->WorkspaceBytes(limits)));
    context.workspace = workspace.bytes();
  }
  const kernels::Ops* operator->() const { return ops.get(); }
};

/// Normally distributed values under a fixed seed.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  float Normal(float deviation = 1) { return std::normal_distribution<float>(0, deviation)(engine_); }
  int64_t Below(int64_t bound) { return std::uniform_int_distribution<int64_t>(0, bound - 1)(engine_); }
  std::vector<Bf16> Bf16s(int64_t count, float deviation = 1) {
    std::vector<Bf16> values(static_cast<size_t>(count));
    for (Bf16& v : values) v = ToBf16(Normal(deviation));
    return values;
  }
  std::vector<float> Floats(int64_t count, float deviation = 1) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = Normal(deviation);
    return values;
  }

 private:
  std::mt19937 engine_;
};

/// A test of single operations, parametrised by the kernel target.
class TargetOpsTest : public ::testing::TestWithParam<std::string> {
 protected:
  TargetOpsTest() : ops_(GetParam()) {}

  std::vector<Bf16> FakeQuantize(const std::vector<Bf16>& x, int64_t rows, kernels::QuantScheme scheme) {
    std::vector<Bf16> y(x.size());
    ops_->FakeQuantize(ops_.context, {.rows = rows,
                                      .dim = static_cast<int64_t>(x.size()) / rows,
                                      .scheme = scheme,
                                      .x = x.data(),
                                      .y = y.data()});
    return y;
  }

  TargetOps ops_;
};

}  // namespace deepinfer::testing
