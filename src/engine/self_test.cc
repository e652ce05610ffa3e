#include "engine/self_test.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/back_end.h"
#include "engine/self_test_operands.h"

namespace deepinfer {
namespace self_test {

/// What is wrong with `got`; empty when it is near enough.
std::string Difference(const Numbers& got, const Numbers& want, Nearness nearness) {
  double squares = 0, worst = 0;
  size_t differing = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    squares += std::isfinite(want[i]) ? want[i] * want[i] : 0;
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    ++differing;
    const double error = std::fabs(got[i] - want[i]);
    const double relative = nearness == Nearness::kFp32 ? error / std::max(1.0, std::fabs(want[i])) : error;
    worst = std::isfinite(error) ? std::max(worst, relative) : INFINITY;
  }
  const double rms = want.empty() ? 0 : std::sqrt(squares / static_cast<double>(want.size()));
  const bool near = nearness == Nearness::kExact  ? differing == 0
                    : nearness == Nearness::kBf16 ? worst <= 0.1 * rms && differing * 10 <= want.size() + 20
                                                  : worst <= 1e-4;
  return near ? std::string()
              : fmt::format("{} of {} values differ, by up to {:.3g}", differing, want.size(), worst);
}

namespace {

void TestRows(const Shape& s, Operands& make, Tester* tester) {
  const auto x = make.Bf16s(s.rows * s.hidden), weight = make.Bf16s(s.hidden);
  const std::string size = fmt::format("{} rows of {}", s.rows, s.hidden);
  tester->Compare("RmsNorm, " + size, Nearness::kBf16, [&](const Ops& ops, const OpContext& ctx) {
    std::vector<Bf16> y(x.size());
    ops.RmsNorm(ctx, {.rows = s.rows,
                      .dim = s.hidden,
                      .x = x.data(),
                      .weight = weight.data(),
                      .eps = 1e-6f,
                      .y = y.data()});
    Numbers out;
    Append(y, &out);
    return out;
  });
  for (const auto scheme : {kernels::QuantScheme::kFp8Act, kernels::QuantScheme::kFp4Index}) {
    tester->Compare("FakeQuantize, " + size, Nearness::kExact, [&](const Ops& ops, const OpContext& ctx) {
      std::vector<Bf16> y(x.size());
      ops.FakeQuantize(ctx,
                       {.rows = s.rows, .dim = s.hidden, .scheme = scheme, .x = x.data(), .y = y.data()});
      Numbers out;
      Append(y, &out);
      return out;
    });
  }
  tester->Compare("QuantizeWindow, " + size, Nearness::kExact, [&](const Ops& ops, const OpContext& ctx) {
    std::vector<uint8_t> codes(x.size()), scales(x.size() / 32);
    ops.QuantizeWindow(
        ctx,
        {.rows = s.rows, .dim = s.hidden, .x = x.data(), .codes = codes.data(), .scales = scales.data()});
    Numbers out;
    Append(codes, &out);
    Append(scales, &out);
    return out;
  });
}

void TestLinear(const Shape& s, Operands& make, Tester* tester) {
  struct Format {
    WeightFormat format;
    const char* name;
  };
  const auto raw = make.Bf16s(s.rows * s.hidden);
  for (const Format& f : {Format{WeightFormat::kBf16, "bf16"}, Format{WeightFormat::kFp32, "fp32"},
                          Format{WeightFormat::kFp8Tile32, "fp8"}, Format{WeightFormat::kFp4Row32, "fp4"}}) {
    const Weight weight(make, f.format, s.out, s.hidden);
    tester->Compare(
        fmt::format("Linear {} {}x{}, {} rows", f.name, s.out, s.hidden, s.rows), Nearness::kBf16,
        [&](const Ops& ops, const OpContext& ctx) {
          std::vector<Bf16> x(raw.size()), y(static_cast<size_t>(s.rows * s.out));
          ops.FakeQuantize(ctx, {.rows = s.rows, .dim = s.hidden, .x = raw.data(), .y = x.data()});
          ops.Linear(ctx, {.rows = s.rows, .x = x.data(), .weight = weight.view(), .y = y.data()});
          Numbers out;
          Append(y, &out);
          return out;
        });
  }
}

// Half of the inputs for half of the features, as in the attention output; float results.
void TestGroupedLinear(const Shape& s, Operands& make, Tester* tester) {
  constexpr int64_t kGroups = 2;
  const auto x = make.Bf16s(s.rows * kGroups * s.hidden);
  const Weight weight(make, WeightFormat::kBf16, s.out, s.hidden);
  tester->Compare(
      fmt::format("Linear in {} groups, {} rows", kGroups, s.rows), Nearness::kFp32,
      [&](const Ops& ops, const OpContext& ctx) {
        std::vector<float> y(static_cast<size_t>(s.rows * s.out));
        ops.Linear(
            ctx,
            {.rows = s.rows, .groups = kGroups, .x = x.data(), .weight = weight.view(), .y_f32 = y.data()});
        Numbers out;
        Append(y, &out);
        return out;
      });
}

void TestRope(const Shape& s, Operands& make, Tester* tester) {
  const auto x = make.Bf16s(s.rows * s.heads * s.head_dim);
  const int64_t freqs = s.head_dim / 4;
  std::vector<float> table(static_cast<size_t>(freqs));
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = std::pow(10000.0f, -static_cast<float>(i) / static_cast<float>(freqs));
  std::vector<int32_t> positions(static_cast<size_t>(s.rows));
  for (size_t t = 0; t < positions.size(); ++t) positions[t] = static_cast<int32_t>(t * 977);
  tester->Compare(fmt::format("Rope, {} rows of {} heads", s.rows, s.heads), Nearness::kBf16,
                  [&](const Ops& ops, const OpContext& ctx) {
                    std::vector<float> cos(static_cast<size_t>(s.rows * freqs)), sin(cos.size());
                    std::vector<Bf16> y = x;
                    ops.RopeTables(ctx, {.rows = s.rows,
                                         .num_freqs = freqs,
                                         .positions = positions.data(),
                                         .freqs = table.data(),
                                         .cos = cos.data(),
                                         .sin = sin.data()});
                    ops.Rope(ctx, {.rows = s.rows,
                                   .heads = s.heads,
                                   .dim = s.head_dim,
                                   .num_freqs = freqs,
                                   .cos = cos.data(),
                                   .sin = sin.data(),
                                   .x = y.data()});
                    Numbers out;
                    Append(y, &out);
                    return out;
                  });
}

void TestStreams(const Shape& s, Operands& make, Tester* tester) {
  constexpr int64_t kStreams = 4, kMixes = kStreams * (kStreams + 2);
  const auto streams = make.Bf16s(s.rows * kStreams * s.hidden), y = make.Bf16s(s.rows * s.hidden);
  const auto fn = make.Floats(kMixes * kStreams * s.hidden, 0.05), scale = make.Floats(3),
             base = make.Floats(kMixes);
  tester->Compare(fmt::format("hyper-connections, {} rows of {}", s.rows, s.hidden), Nearness::kBf16,
                  [&](const Ops& ops, const OpContext& ctx) {
                    const auto rows = static_cast<size_t>(s.rows);
                    std::vector<float> pre(rows * kStreams), post(rows * kStreams),
                        comb(rows * kStreams * kStreams);
                    std::vector<Bf16> collapsed(y.size()), mean(y.size()), expanded(streams.size());
                    ops.HcMixes(ctx, {.rows = s.rows,
                                      .hc_mult = kStreams,
                                      .hidden = s.hidden,
                                      .sinkhorn_iters = 20,
                                      .hc_eps = 1e-6f,
                                      .norm_eps = 1e-6f,
                                      .streams = streams.data(),
                                      .fn = fn.data(),
                                      .scale = scale.data(),
                                      .base = base.data(),
                                      .pre = pre.data(),
                                      .post = post.data(),
                                      .comb = comb.data()});
                    ops.HcCollapse(ctx, {.rows = s.rows,
                                         .hc_mult = kStreams,
                                         .hidden = s.hidden,
                                         .streams = streams.data(),
                                         .pre = pre.data(),
                                         .y = collapsed.data()});
                    ops.HcExpand(ctx, {.rows = s.rows,
                                       .hc_mult = kStreams,
                                       .hidden = s.hidden,
                                       .y = y.data(),
                                       .streams = streams.data(),
                                       .post = post.data(),
                                       .comb = comb.data(),
                                       .out = expanded.data()});
                    ops.StreamMean(ctx, {.rows = s.rows,
                                         .hc_mult = kStreams,
                                         .hidden = s.hidden,
                                         .streams = streams.data(),
                                         .y = mean.data()});
                    Numbers out;
                    Append(collapsed, &out);
                    Append(expanded, &out);
                    Append(mean, &out);
                    return out;
                  });
}

void TestAttention(const Shape& s, Operands& make, Tester* tester) {
  constexpr int64_t kSlots = 150;
  const auto q = make.Bf16s(s.rows * s.heads * s.head_dim), kv = make.Bf16s(kSlots * s.head_dim);
  const auto sink = make.Floats(s.heads);
  std::vector<int32_t> slots(static_cast<size_t>(s.rows * kSlots));
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = i % 7 == 3 ? -1 : static_cast<int32_t>(i % kSlots);
  tester->Compare(fmt::format("attention, {} rows of {} heads x {}", s.rows, s.heads, s.head_dim),
                  Nearness::kBf16, [&](const Ops& ops, const OpContext& ctx) {
                    std::vector<Bf16> y(q.size());
                    ops.SlotAttention(ctx, {.rows = s.rows,
                                            .heads = s.heads,
                                            .dim = s.head_dim,
                                            .num_slots = kSlots,
                                            .q = q.data(),
                                            .kv = kv.data(),
                                            .slots = slots.data(),
                                            .sink = sink.data(),
                                            .scale = 1 / std::sqrt(static_cast<float>(s.head_dim)),
                                            .out = y.data()});
                    Numbers out;
                    Append(y, &out);
                    return out;
                  });
}

void TestSelection(const Shape& s, Operands& make, Tester* tester) {
  constexpr int64_t kColumns = 200, kTop = 24, kBlocks = 5, kBlock = 8;
  auto scores = make.Floats(s.rows * kColumns);
  std::vector<int32_t> visible(static_cast<size_t>(s.rows));
  for (size_t t = 0; t < visible.size(); ++t) {
    visible[t] = static_cast<int32_t>(kColumns - t);
    // What is not visible has a score of -infinity, as the indexer writes it.
    std::fill_n(scores.begin() + static_cast<std::ptrdiff_t>((t + 1) * kColumns - t), t, -INFINITY);
  }
  tester->Compare(fmt::format("selection, {} rows", s.rows), Nearness::kExact,
                  [&](const Ops& ops, const OpContext& ctx) {
                    std::vector<int32_t> top(static_cast<size_t>(s.rows * kTop)),
                        candidates(static_cast<size_t>(s.rows * kBlocks));
                    ops.SelectTopK(ctx, {.rows = s.rows,
                                         .columns = kColumns,
                                         .row_stride = kColumns,
                                         .k = kTop,
                                         .scores = scores.data(),
                                         .visible = visible.data(),
                                         .topk = top.data()});
                    ops.SelectCandidates(ctx, {.rows = s.rows,
                                               .columns = kColumns,
                                               .row_stride = kColumns,
                                               .max_candidates = kBlocks,
                                               .candidate_block = kBlock,
                                               .scores = scores.data(),
                                               .visible = visible.data(),
                                               .candidates = candidates.data()});
                    Numbers out;
                    Append(top, &out);
                    Append(candidates, &out);
                    return out;
                  });
}

void TestExperts(const Shape& s, Operands& make, Tester* tester) {
  constexpr int64_t kChosen = 2;
  const int64_t inner = s.hidden / 2;
  const auto raw = make.Bf16s(s.rows * s.hidden);
  const Weight gate(make, WeightFormat::kBf16, s.experts, s.hidden);
  const auto bias = make.Floats(s.experts, 0.1);
  std::vector<Weight> weights;
  std::vector<kernels::ExpertWeights> experts;
  for (int64_t e = 0; e <= s.experts; ++e) {
    const WeightFormat format =
        e < s.experts ? WeightFormat::kFp4Row32 : WeightFormat::kFp8Tile32;  // the last one is shared
    weights.emplace_back(make, format, inner, s.hidden);
    weights.emplace_back(make, format, inner, s.hidden);
    weights.emplace_back(make, format, s.hidden, inner);
  }
  for (size_t e = 0; e + 2 < weights.size(); e += 3)
    experts.push_back({weights[e].view(), weights[e + 1].view(), weights[e + 2].view()});
  const kernels::ExpertWeights shared = experts.back();
  experts.pop_back();
  tester->Compare(fmt::format("experts, {} rows of {}, {} experts", s.rows, s.hidden, s.experts),
                  Nearness::kBf16, [&](const Ops& ops, const OpContext& ctx) {
                    std::vector<Bf16> x(raw.size()), y(raw.size());
                    std::vector<float> scores(static_cast<size_t>(s.rows * s.experts)),
                        top_weights(static_cast<size_t>(s.rows * kChosen));
                    std::vector<int32_t> ids(top_weights.size());
                    ops.FakeQuantize(ctx, {.rows = s.rows, .dim = s.hidden, .x = raw.data(), .y = x.data()});
                    ops.MoeRoute(ctx, {.rows = s.rows,
                                       .hidden = s.hidden,
                                       .num_experts = s.experts,
                                       .k = kChosen,
                                       .route_scale = 1.5f,
                                       .x = x.data(),
                                       .gate = gate.view(),
                                       .bias = bias.data(),
                                       .bias_vl = bias.data(),
                                       .scores = scores.data(),
                                       .topk_ids = ids.data(),
                                       .topk_weights = top_weights.data()});
                    ops.MoeExperts(ctx, {.rows = s.rows,
                                         .hidden = s.hidden,
                                         .intermediate = inner,
                                         .k = kChosen,
                                         .swiglu_limit = 10,
                                         .x = x.data(),
                                         .topk_ids = ids.data(),
                                         .topk_weights = top_weights.data(),
                                         .experts = experts,
                                         .shared = shared,
                                         .y = y.data()});
                    Numbers out;
                    Append(y, &out);
                    return out;
                  });
}

void TestEngram(const Shape& s, Operands& make, Tester* tester) {
  constexpr int64_t kStreams = 4, kColumns = 6, kWidth = 64, kTable = 97;
  const auto codes = make.Codes(kTable * kWidth, 0, 255),
             scales = make.Codes(kTable * (kWidth / 32), 118, 124);
  const auto kv = make.Bf16s(s.rows * (kStreams + 1) * s.hidden), q_weight = make.Bf16s(kStreams * s.hidden),
             k_weight = make.Bf16s(kStreams * s.hidden);
  const auto streams = make.Bf16s(s.rows * kStreams * s.hidden);
  std::vector<int64_t> rows(static_cast<size_t>(s.rows * kColumns));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i * 31 % kTable);
  tester->Compare(fmt::format("EngramGather, {} rows", s.rows), Nearness::kExact,
                  [&](const Ops& ops, const OpContext& ctx) {
                    std::vector<Bf16> y(static_cast<size_t>(s.rows * kColumns * kWidth));
                    ops.EngramGather(ctx, {.rows = s.rows,
                                           .columns = kColumns,
                                           .width = kWidth,
                                           .table_rows = kTable,
                                           .row_ids = rows.data(),
                                           .codes = codes.data(),
                                           .scales = scales.data(),
                                           .out = y.data()});
                    Numbers out;
                    Append(y, &out);
                    return out;
                  });
  tester->Compare(fmt::format("EngramGate, {} rows of {}", s.rows, s.hidden), Nearness::kBf16,
                  [&](const Ops& ops, const OpContext& ctx) {
                    std::vector<Bf16> y = streams;
                    ops.EngramGate(ctx, {.rows = s.rows,
                                         .hc_mult = kStreams,
                                         .hidden = s.hidden,
                                         .norm_eps = 1e-6f,
                                         .kv = kv.data(),
                                         .q_weight = q_weight.data(),
                                         .k_weight = k_weight.data(),
                                         .streams = y.data()});
                    Numbers out;
                    Append(y, &out);
                    return out;
                  });
}

kernels::WorkspaceLimits Limits(const std::vector<Shape>& shapes) {
  kernels::WorkspaceLimits limits;
  limits.hc_mult = 4;
  limits.experts_per_token = 2;
  limits.max_list = 256;
  limits.index_heads = limits.index_head_dim = 64;
  limits.max_entries = 256;
  for (const Shape& s : shapes) {
    limits.max_rows = std::max(limits.max_rows, s.rows);
    limits.hidden_size = std::max(limits.hidden_size, s.hidden);
    limits.max_in_features = std::max(limits.max_in_features, 4 * s.hidden);
    limits.max_out_features = std::max({limits.max_out_features, s.out, s.hidden});
    limits.moe_intermediate_size = std::max(limits.moe_intermediate_size, s.hidden / 2);
    limits.num_experts = std::max(limits.num_experts, s.experts);
    limits.num_heads = std::max(limits.num_heads, s.heads);
    limits.head_dim = std::max(limits.head_dim, s.head_dim);
  }
  return limits;
}

}  // namespace
}  // namespace self_test

Result<std::vector<SelfTestItem>> CompareBackEnds(const kernels::Ops& tested, const kernels::Ops& oracle,
                                                  SelfTestDepth depth, int threads) {
  using namespace self_test;  // NOLINT: this function is the rest of that namespace
  std::vector<Shape> shapes = {
      {.rows = 3, .hidden = 256, .out = 96, .heads = 4, .head_dim = 64, .experts = 4}};
  if (depth == SelfTestDepth::kFull) {
    shapes.push_back({.rows = 1, .hidden = 64, .out = 32, .heads = 1, .head_dim = 32, .experts = 3});
    shapes.push_back({.rows = 17, .hidden = 320, .out = 64, .heads = 3, .head_dim = 96, .experts = 7});
    // Width, heads and head size of the released model.
    shapes.push_back({.rows = 2, .hidden = 5120, .out = 512, .heads = 64, .head_dim = 512, .experts = 8});
  }
  ThreadPool pool(threads);
  const kernels::WorkspaceLimits limits = Limits(shapes);
  const size_t bytes = std::max(tested.WorkspaceBytes(limits), oracle.WorkspaceBytes(limits));
  DEEPINFER_ASSIGN_OR_RETURN(AlignedBuffer workspace, AlignedBuffer::Allocate(bytes));
  Tester tester(tested, oracle, &pool, std::move(workspace));
  for (const Shape& shape : shapes) {
    Operands make;
    TestRows(shape, make, &tester);
    TestLinear(shape, make, &tester);
    TestGroupedLinear(shape, make, &tester);
    TestRope(shape, make, &tester);
    TestStreams(shape, make, &tester);
    TestAttention(shape, make, &tester);
    TestSelection(shape, make, &tester);
    TestState(shape, make, &tester);
    TestExperts(shape, make, &tester);
    TestEngram(shape, make, &tester);
  }
  return tester.Take();
}

Result<std::vector<SelfTestItem>> RunSelfTest(std::string_view target, SelfTestDepth depth, int threads) {
  DEEPINFER_ASSIGN_OR_RETURN(const BackEnd tested, ChooseBackEnd("cpu", std::string(target)));
  DEEPINFER_ASSIGN_OR_RETURN(const BackEnd oracle, ChooseBackEnd("cpu", "reference"));
  return CompareBackEnds(*tested.ops, *oracle.ops, depth, threads);
}

}  // namespace deepinfer
