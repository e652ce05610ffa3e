#include "kernels/golden_model.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <gtest/gtest.h>

#include "tensor/quantize.h"

namespace deepinfer::kernels::testing {
namespace tiny {

int64_t Ratio(int64_t layer) { return layer == 0 ? 0 : layer < 5 ? 2 : 1; }
int64_t KvSource(int64_t layer) { return layer >= 5 ? 5 : layer >= 3 ? 3 : 1; }
int64_t IndexSource(int64_t layer) { return layer % 2 == 1 ? layer : layer - 1; }

WorkspaceLimits Limits(int64_t rows) {
  WorkspaceLimits limits;
  limits.max_rows = rows;
  limits.hidden_size = kHidden;
  limits.hc_mult = kStreams;
  limits.max_in_features = kStreams * kHidden;
  limits.max_out_features = (kStreams + 1) * kHidden;
  limits.moe_intermediate_size = kIntermediate;
  limits.num_experts = kExperts;
  limits.experts_per_token = kExpertsPerToken;
  limits.num_heads = kHeads;
  limits.head_dim = kHeadDim;
  limits.max_list = kWindow + kTopK;
  limits.index_heads = kIndexHeads;
  limits.index_head_dim = kIndexDim;
  limits.max_entries = 64;
  return limits;
}

}  // namespace tiny

namespace {

const GoldenFile& Checkpoint() { return GoldenFile::SharedCheckpoint("tiny"); }

/// Largest share of elements on another grid point in class "grid".
constexpr double kGridShare = 0.002;

bool WithinScoreClass(std::span<const float> got, std::span<const float> want) {
  int64_t finite = 0, differing = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isinf(want[i]) != std::isinf(got[i])) return false;
    if (std::isinf(want[i])) continue;
    ++finite;
    if (got[i] == want[i]) continue;
    ++differing;
    const int a = ToBf16(got[i]).bits, b = ToBf16(want[i]).bits;
    if (std::abs(a - b) > 1) return false;
  }
  return static_cast<double>(differing) <= 0.01 * static_cast<double>(finite);
}

bool IsReference(const OpRunner& runner) { return runner.ops().target() == "reference"; }

template <typename T>
void ExpectSame(const std::string& name, std::span<const T> got, std::span<const T> want) {
  ASSERT_EQ(got.size(), want.size()) << name;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i], want[i]) << name << ", element " << i;
  }
}

}  // namespace

WeightView TinyWeight(const std::string& name) {
  const GoldenTensor& weight = Checkpoint().Get(name + ".weight");
  WeightView view;
  view.data = weight.bytes.data();
  view.out_features = weight.shape.at(0);
  view.in_features = weight.shape.at(1);
  if (weight.dtype == "F8_E4M3") {
    view.format = WeightFormat::kFp8Tile32;
  } else if (weight.dtype == "I8") {
    view.format = WeightFormat::kFp4Row32;
    view.in_features *= 2;
  } else if (weight.dtype == "BF16") {
    view.format = WeightFormat::kBf16;
    return view;
  } else {
    throw std::runtime_error(name + " has type " + weight.dtype);
  }
  view.scales = Checkpoint().Bytes(name + ".scale").data();
  return view;
}

std::span<const Bf16> TinyBf16(const std::string& name) { return Checkpoint().Bf16s(name); }
std::span<const float> TinyFloat(const std::string& name) { return Checkpoint().Floats(name); }

ExpertWeights TinyExpert(const std::string& name) {
  return {TinyWeight(name + ".w1"), TinyWeight(name + ".w3"), TinyWeight(name + ".w2")};
}

const GoldenFile& TinyGoldens() { return GoldenFile::Shared("tiny_goldens"); }

void ExpectGolden(const OpRunner& runner, const std::string& name, std::span<const Bf16> got) {
  const std::span<const Bf16> want = TinyGoldens().Bf16s(name);
  ASSERT_EQ(got.size(), want.size()) << name;
  const Comparison c = deepinfer::testing::Compare(got, want);
  const std::string& tolerance = TinyGoldens().Get(name).tolerance;
  if (IsReference(runner) || tolerance == "exact") {
    EXPECT_EQ(c.differing, 0) << name << ": " << c.ToString();
  } else if (tolerance == "grid") {
    EXPECT_LE(static_cast<double>(c.differing), kGridShare * static_cast<double>(c.elements))
        << name << ": " << c.ToString();
  } else {
    EXPECT_TRUE(deepinfer::testing::WithinBf16Class(c)) << name << ": " << c.ToString();
  }
  TinyGoldens().MarkCompared(name);
}

void ExpectGolden(const OpRunner& runner, const std::string& name, std::span<const float> got) {
  const std::span<const float> want = TinyGoldens().Floats(name);
  ASSERT_EQ(got.size(), want.size()) << name;
  const Comparison c = deepinfer::testing::Compare(got, want);
  const std::string& tolerance = TinyGoldens().Get(name).tolerance;
  if (IsReference(runner) || tolerance == "exact") {
    EXPECT_EQ(c.differing, 0) << name << ": " << c.ToString();
  } else if (tolerance == "score") {
    EXPECT_TRUE(WithinScoreClass(got, want)) << name << ": " << c.ToString();
  } else if (tolerance == "logits") {
    EXPECT_LE(c.max_abs, 1e-4) << name << ": " << c.ToString();
  } else {
    EXPECT_TRUE(deepinfer::testing::WithinFp32Class(c)) << name << ": " << c.ToString();
  }
  TinyGoldens().MarkCompared(name);
}

void ExpectGolden(const OpRunner& /*runner*/, const std::string& name, std::span<const int32_t> got) {
  ExpectSame(name, got, TinyGoldens().Ints(name));
  TinyGoldens().MarkCompared(name);
}

void ExpectGolden(const OpRunner& /*runner*/, const std::string& name, std::span<const uint8_t> got) {
  ExpectSame(name, got, TinyGoldens().Bytes(name));
  TinyGoldens().MarkCompared(name);
}

std::vector<Bf16> TinyOps::Quantize(std::span<const Bf16> x, int64_t dim, QuantScheme scheme) {
  std::vector<Bf16> y(x.size());
  FakeQuantizeParams p;
  p.rows = static_cast<int64_t>(x.size()) / dim;
  p.dim = dim;
  p.scheme = scheme;
  p.x = x.data();
  p.y = y.data();
  runner_->ops().FakeQuantize(runner_->Context(tiny::Limits(p.rows)), p);
  return y;
}

std::vector<Bf16> TinyOps::Linear(std::span<const Bf16> x, const WeightView& weight, int64_t groups) {
  LinearParams p;
  p.rows = static_cast<int64_t>(x.size()) / (groups * weight.in_features);
  std::vector<Bf16> y(static_cast<size_t>(p.rows * weight.out_features));
  p.groups = groups;
  p.x = x.data();
  p.weight = weight;
  p.y = y.data();
  runner_->ops().Linear(runner_->Context(tiny::Limits(p.rows)), p);
  return y;
}

std::vector<float> TinyOps::LinearF32(std::span<const Bf16> x, const WeightView& weight) {
  LinearParams p;
  p.rows = static_cast<int64_t>(x.size()) / weight.in_features;
  std::vector<float> y(static_cast<size_t>(p.rows * weight.out_features));
  p.x = x.data();
  p.weight = weight;
  p.y_f32 = y.data();
  runner_->ops().Linear(runner_->Context(tiny::Limits(p.rows)), p);
  return y;
}

std::vector<Bf16> TinyOps::QuantizedLinear(std::span<const Bf16> x, const WeightView& weight) {
  return Linear(Quantize(x, weight.in_features, QuantScheme::kFp8Act), weight);
}

std::vector<Bf16> TinyOps::Norm(std::span<const Bf16> x, std::span<const Bf16> weight) {
  std::vector<Bf16> y(x.size());
  RmsNormParams p;
  p.dim = static_cast<int64_t>(weight.size());
  p.rows = static_cast<int64_t>(x.size()) / p.dim;
  p.x = x.data();
  p.weight = weight.data();
  p.eps = tiny::kEps;
  p.y = y.data();
  runner_->ops().RmsNorm(runner_->Context(tiny::Limits(p.rows)), p);
  return y;
}

std::vector<Bf16> TinyOps::Collapse(std::span<const Bf16> streams, std::span<const float> pre) {
  HcCollapseParams p;
  p.rows = static_cast<int64_t>(pre.size()) / tiny::kStreams;
  p.hc_mult = tiny::kStreams;
  p.hidden = tiny::kHidden;
  p.streams = streams.data();
  p.pre = pre.data();
  std::vector<Bf16> y(static_cast<size_t>(p.rows * p.hidden));
  p.y = y.data();
  runner_->ops().HcCollapse(runner_->Context(tiny::Limits(p.rows)), p);
  return y;
}

std::vector<Bf16> TinyOps::Expand(std::span<const Bf16> y, std::span<const Bf16> streams,
                                  std::span<const float> post, std::span<const float> comb) {
  HcExpandParams p;
  p.rows = static_cast<int64_t>(post.size()) / tiny::kStreams;
  p.hc_mult = tiny::kStreams;
  p.hidden = tiny::kHidden;
  p.y = y.data();
  p.streams = streams.data();
  p.post = post.data();
  p.comb = comb.data();
  std::vector<Bf16> out(streams.size());
  p.out = out.data();
  runner_->ops().HcExpand(runner_->Context(tiny::Limits(p.rows)), p);
  return out;
}

void TinyOps::Rotate(std::vector<Bf16>* x, int64_t heads, int64_t dim, const std::vector<int32_t>& positions,
                     int64_t ratio, bool inverse) {
  const auto rows = static_cast<int64_t>(positions.size());
  std::vector<float> cos(static_cast<size_t>(rows * tiny::kFreqs)), sin(cos.size());
  RopeTablesParams tables;
  tables.rows = rows;
  tables.num_freqs = tiny::kFreqs;
  tables.positions = positions.data();
  tables.freqs = TinyGoldens().Floats(ratio == 0 ? "unit.rope.plain.freqs" : "unit.rope.yarn.freqs").data();
  tables.cos = cos.data();
  tables.sin = sin.data();
  runner_->ops().RopeTables(runner_->Context(tiny::Limits(rows)), tables);
  RopeParams p;
  p.rows = rows;
  p.heads = heads;
  p.dim = dim;
  p.num_freqs = tiny::kFreqs;
  p.cos = cos.data();
  p.sin = sin.data();
  p.inverse = inverse;
  p.x = x->data();
  runner_->ops().Rope(runner_->Context(tiny::Limits(rows)), p);
}

}  // namespace deepinfer::kernels::testing
