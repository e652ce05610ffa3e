// Single operations against the unit.* vectors of the goldens.
#include <algorithm>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/golden_model.h"

namespace deepinfer::kernels::testing {
namespace {

class GoldenUnit : public ::testing::TestWithParam<std::string> {
 protected:
  OpRunner runner_{GetParam(), 2};
  TinyOps ops_{&runner_};
};

TEST_P(GoldenUnit, Linear) {
  const std::span<const Bf16> x = TinyGoldens().Bf16s("unit.linear.input");
  ExpectGolden(runner_, "unit.linear.fp8", ops_.QuantizedLinear(x, TinyWeight("layers.0.attn.wq_a")));
  ExpectGolden(runner_, "unit.linear.fp4", ops_.QuantizedLinear(x, TinyWeight("layers.0.ffn.experts.0.w1")));
}

TEST_P(GoldenUnit, HcMixes) {
  HcMixesParams p;
  p.rows = 6;
  p.hc_mult = tiny::kStreams;
  p.hidden = tiny::kHidden;
  p.sinkhorn_iters = 20;
  p.hc_eps = 1e-6f;
  p.norm_eps = tiny::kEps;
  p.streams = TinyGoldens().Bf16s("unit.hc.input").data();
  p.fn = TinyFloat("layers.0.hc_attn_fn").data();
  p.scale = TinyFloat("layers.0.hc_attn_scale").data();
  p.base = TinyFloat("layers.0.hc_attn_base").data();
  std::vector<float> pre(6 * 4), post(6 * 4), comb(6 * 16);
  p.pre = pre.data();
  p.post = post.data();
  p.comb = comb.data();
  runner_.ops().HcMixes(runner_.Context(tiny::Limits(6)), p);
  ExpectGolden(runner_, "unit.hc.pre", pre);
  ExpectGolden(runner_, "unit.hc.post", post);
  ExpectGolden(runner_, "unit.hc.comb", comb);
}

TEST_P(GoldenUnit, RopeTables) {
  const std::span<const int32_t> positions = TinyGoldens().Ints("unit.rope.positions");
  for (const std::string kind : {"plain", "yarn", "released_plain", "released_yarn"}) {
    const std::string prefix = "unit.rope." + kind;
    const std::span<const float> freqs = TinyGoldens().Floats(prefix + ".freqs");
    std::vector<float> cos(positions.size() * freqs.size()), sin(cos.size());
    RopeTablesParams p;
    p.rows = static_cast<int64_t>(positions.size());
    p.num_freqs = static_cast<int64_t>(freqs.size());
    p.positions = positions.data();
    p.freqs = freqs.data();
    p.cos = cos.data();
    p.sin = sin.data();
    runner_.ops().RopeTables(runner_.Context(tiny::Limits(p.rows)), p);
    ExpectGolden(runner_, prefix + ".cos", cos);
    ExpectGolden(runner_, prefix + ".sin", sin);
  }
}

TEST_P(GoldenUnit, SlotAttention) {
  const GoldenTensor& q = TinyGoldens().Get("unit.sparse_attention.q");
  const std::span<const int32_t> slots = TinyGoldens().Ints("unit.sparse_attention.slots");
  SlotAttentionParams p;
  p.rows = q.shape.at(0);
  p.heads = q.shape.at(1);
  p.dim = q.shape.at(2);
  p.num_slots = TinyGoldens().Get("unit.sparse_attention.slots").shape.at(1);
  p.q = TinyGoldens().Bf16s("unit.sparse_attention.q").data();
  p.kv = TinyGoldens().Bf16s("unit.sparse_attention.kv").data();
  p.sink = TinyGoldens().Floats("unit.sparse_attention.sink").data();
  p.scale = 0.125f;
  std::vector<Bf16> out(static_cast<size_t>(p.rows * p.heads * p.dim));
  p.out = out.data();
  WorkspaceLimits limits = tiny::Limits(p.rows);
  limits.max_list = p.num_slots;

  p.slots = slots.data();
  runner_.ops().SlotAttention(runner_.Context(limits), p);
  ExpectGolden(runner_, "unit.sparse_attention.output", out);

  std::vector<int32_t> canonical(slots.begin(), slots.end());
  for (auto row = canonical.begin(); row != canonical.end(); row += p.num_slots) {
    std::stable_partition(row, row + p.num_slots, [](int32_t slot) { return slot >= 0; });
  }
  p.slots = canonical.data();
  runner_.ops().SlotAttention(runner_.Context(limits), p);
  ExpectGolden(runner_, "unit.sparse_attention.output_canonical", out);
}

TEST_P(GoldenUnit, Select) {
  constexpr int64_t kBlocks = 80, kBlock = 8, kColumns = 3000, kChosen = 512;
  const std::span<const float> scores = TinyGoldens().Floats("unit.select.scores");
  const std::span<const int32_t> visible = TinyGoldens().Ints("unit.select.visible");
  const auto rows = static_cast<int64_t>(visible.size());
  WorkspaceLimits limits = tiny::Limits(rows);
  limits.max_entries = kColumns;
  std::vector<int32_t> topk(static_cast<size_t>(rows * kChosen));
  SelectTopKParams select;
  select.rows = rows;
  select.columns = select.row_stride = kColumns;
  select.k = kChosen;
  select.scores = scores.data();
  select.visible = visible.data();
  select.topk = topk.data();
  runner_.ops().SelectTopK(runner_.Context(limits), select);
  ExpectGolden(runner_, "unit.select.topk", topk);

  std::vector<int32_t> candidates(static_cast<size_t>(rows * kBlocks));
  SelectCandidatesParams pool;
  pool.rows = rows;
  pool.columns = pool.row_stride = kColumns;
  pool.max_candidates = kBlocks;
  pool.candidate_block = kBlock;
  pool.scores = scores.data();
  pool.visible = visible.data();
  pool.candidates = candidates.data();
  runner_.ops().SelectCandidates(runner_.Context(limits), pool);

  // The golden is a membership mask over entries; the scores of the candidates' columns follow from the list.
  std::vector<uint8_t> member(static_cast<size_t>(rows * kColumns));
  std::vector<float> in_pool(static_cast<size_t>(rows * kBlocks * kBlock),
                             -std::numeric_limits<float>::infinity());
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < kBlocks * kBlock; ++i) {
      const int32_t block = candidates[static_cast<size_t>(t * kBlocks + i / kBlock)];
      const int64_t entry = block * kBlock + i % kBlock;
      if (block < 0 || entry >= kColumns) continue;
      member[static_cast<size_t>(t * kColumns + entry)] = 1;
      in_pool[static_cast<size_t>(t * kBlocks * kBlock + i)] =
          scores[static_cast<size_t>(t * kColumns + entry)];
    }
  }
  ExpectGolden(runner_, "unit.select.candidates", member);

  select.columns = select.row_stride = kBlocks * kBlock;
  select.scores = in_pool.data();
  select.candidates = candidates.data();
  select.max_candidates = kBlocks;
  select.candidate_block = kBlock;
  runner_.ops().SelectTopK(runner_.Context(limits), select);
  ExpectGolden(runner_, "unit.select.topk_in_pool", topk);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenUnit, ::testing::ValuesIn(ImplementationNames()),
                         [](const auto& param) { return TestSuffix(param.param); });

}  // namespace
}  // namespace deepinfer::kernels::testing
