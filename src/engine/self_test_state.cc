// The part of the self-test that needs the state of a sequence.
#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/checked.h"
#include "engine/self_test_operands.h"

namespace deepinfer::self_test {
namespace {

constexpr int64_t kPart = 128;  // alignment of the parts of a block
constexpr int64_t kEntriesPerBlock = 64;
constexpr int64_t kEntries = 100;  // of the sequence: the second block is not full
constexpr int64_t kIndexDim = 64, kIndexHeads = 8;

kernels::EntryLayout MakeLayout(kernels::EntryFormat format, int64_t dim) {
  return {.format = format,
          .dim = dim,
          .entries_per_block = kEntriesPerBlock,
          .codes_offset = 0,
          .scales_offset = RoundUp(kEntriesPerBlock * dim / 2, kPart)};
}

/// Two blocks of one source, filled by WriteEntries of a back end.
class Entries {
 public:
  Entries(const Ops& ops, const OpContext& ctx, const kernels::EntryLayout& layout,
          const std::vector<Bf16>& x)
      : bytes_(static_cast<size_t>(2 * BlockBytes(layout))),
        blocks_{bytes_.data(), bytes_.data() + BlockBytes(layout)},
        table_{.blocks = blocks_} {
    const std::vector<int32_t> seq(kEntries);
    std::vector<int32_t> entries(kEntries);
    for (size_t j = 0; j < entries.size(); ++j) entries[j] = static_cast<int32_t>(j);
    ops.WriteEntries(ctx, {.rows = kEntries,
                           .x = x.data(),
                           .seq = seq.data(),
                           .entries = entries.data(),
                           .layout = layout,
                           .sequences = tables()});
  }
  Entries(const Entries&) = delete;
  Entries& operator=(const Entries&) = delete;

  std::span<const kernels::BlockTable> tables() const { return {&table_, 1}; }
  Numbers AsNumbers() const {
    Numbers out;
    for (const std::byte byte : bytes_) out.push_back(std::to_integer<int>(byte));
    return out;
  }

 private:
  static int64_t BlockBytes(const kernels::EntryLayout& layout) {
    // A scale for 16 values at least.
    return layout.scales_offset + RoundUp(kEntriesPerBlock * layout.dim / 16, kPart);
  }
  std::vector<std::byte> bytes_;
  std::byte* blocks_[2];
  kernels::BlockTable table_;
};

/// A window ring that holds positions 0 … kChunkBegin - 1, and staged rows behind them.
class Window {
 public:
  static constexpr int64_t kWindow = 32, kCapacity = kWindow + 12;
  static constexpr int32_t kChunkBegin = 40;

  Window(Operands& make, int64_t rows, int64_t dim)
      : codes_(make.Codes(kCapacity * dim, 0, 255)),
        scales_(make.Codes(kCapacity * (dim / 32), 118, 124)),
        chunk_codes_(make.Codes(rows * dim, 0, 255)),
        chunk_scales_(make.Codes(rows * (dim / 32), 118, 124)) {}

  kernels::WindowView view() {
    return {.codes = codes_.data(),
            .scales = scales_.data(),
            .capacity = kCapacity,
            .first = 0,
            .chunk_begin = kChunkBegin,
            .chunk_codes = chunk_codes_.data(),
            .chunk_scales = chunk_scales_.data()};
  }
  Numbers Ring() const {
    Numbers out;
    Append(codes_, &out);
    Append(scales_, &out);
    return out;
  }

 private:
  std::vector<uint8_t> codes_, scales_, chunk_codes_, chunk_scales_;
};

std::vector<int32_t> Ascending(int64_t count, int32_t first) {
  std::vector<int32_t> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = first + static_cast<int32_t>(i);
  return out;
}

void TestEmbed(const Shape& s, Operands& make, Tester* tester) {
  constexpr int64_t kVocabulary = 40, kStreams = 4;
  const auto table = make.Bf16s(kVocabulary * s.hidden), given = make.Bf16s(s.hidden);
  std::vector<int32_t> ids(static_cast<size_t>(s.rows)), given_row(ids.size(), -1);
  for (size_t t = 0; t < ids.size(); ++t) ids[t] = static_cast<int32_t>(t * 13 % kVocabulary);
  given_row.back() = 0;  // an image row
  tester->Compare(fmt::format("Embed, {} rows of {}", s.rows, s.hidden), Nearness::kExact,
                  [&](const Ops& ops, const OpContext& ctx) {
                    std::vector<Bf16> y(static_cast<size_t>(s.rows * kStreams * s.hidden));
                    ops.Embed(ctx, {.rows = s.rows,
                                    .hidden = s.hidden,
                                    .hc_mult = kStreams,
                                    .ids = ids.data(),
                                    .table = table.data(),
                                    .given_row = given_row.data(),
                                    .given = given.data(),
                                    .streams = y.data()});
                    Numbers out;
                    Append(y, &out);
                    return out;
                  });
}

void TestWindow(const Shape& s, Operands& make, Tester* tester) {
  const Window initial(make, s.rows, s.head_dim);
  const std::vector<int32_t> seq(static_cast<size_t>(s.rows)),
      positions = Ascending(s.rows, Window::kChunkBegin);
  tester->Compare(fmt::format("CommitWindow, {} rows of {}", s.rows, s.head_dim), Nearness::kExact,
                  [&](const Ops& ops, const OpContext& ctx) {
                    Window window = initial;
                    const kernels::WindowView view = window.view();
                    ops.CommitWindow(ctx, {.rows = s.rows,
                                           .dim = s.head_dim,
                                           .seq = seq.data(),
                                           .positions = positions.data(),
                                           .sequences = {&view, 1}});
                    return window.Ring();
                  });
}

void TestSparseAttention(const Shape& s, Operands& make, Tester* tester) {
  constexpr int64_t kTop = 24;
  const kernels::EntryLayout layout = MakeLayout(kernels::EntryFormat::kFp4Main, s.head_dim);
  const auto x = make.Bf16s(kEntries * s.head_dim), q = make.Bf16s(s.rows * s.heads * s.head_dim);
  const auto sink = make.Floats(s.heads);
  const Window initial(make, s.rows, s.head_dim);
  const std::vector<int32_t> seq(static_cast<size_t>(s.rows)),
      positions = Ascending(s.rows, Window::kChunkBegin);
  std::vector<int32_t> topk(static_cast<size_t>(s.rows * kTop), -1);
  for (int64_t t = 0; t < s.rows; ++t) {
    for (int64_t j = 0; j + t % 3 < kTop; ++j)  // rows with lists of several lengths
      topk[static_cast<size_t>(t * kTop + j)] = static_cast<int32_t>(4 * j + t % 4);
  }
  tester->Compare(
      fmt::format("WriteEntries main, dimension {}", s.head_dim), Nearness::kExact,
      [&](const Ops& ops, const OpContext& ctx) { return Entries(ops, ctx, layout, x).AsNumbers(); });
  tester->Compare(fmt::format("SparseAttention, {} rows of {} heads x {}", s.rows, s.heads, s.head_dim),
                  Nearness::kBf16, [&](const Ops& ops, const OpContext& ctx) {
                    const Entries entries(ops, ctx, layout, x);
                    Window window = initial;
                    const kernels::AttentionSequence sequence{window.view(), entries.tables().front()};
                    std::vector<Bf16> y(q.size());
                    ops.SparseAttention(ctx, {.rows = s.rows,
                                              .heads = s.heads,
                                              .dim = s.head_dim,
                                              .window = Window::kWindow,
                                              .k = kTop,
                                              .q = q.data(),
                                              .positions = positions.data(),
                                              .seq = seq.data(),
                                              .topk = topk.data(),
                                              .layout = layout,
                                              .sequences = {&sequence, 1},
                                              .sink = sink.data(),
                                              .scale = 1 / std::sqrt(static_cast<float>(s.head_dim)),
                                              .out = y.data()});
                    Numbers out;
                    Append(y, &out);
                    return out;
                  });
}

void TestIndexer(const Shape& s, Operands& make, Tester* tester) {
  constexpr int64_t kCandidates = 6, kBlock = 8;
  const kernels::EntryLayout layout = MakeLayout(kernels::EntryFormat::kFp4Index, kIndexDim);
  const auto x = make.Bf16s(kEntries * kIndexDim), raw = make.Bf16s(s.rows * kIndexHeads * kIndexDim),
             w = make.Bf16s(s.rows * kIndexHeads);
  const std::vector<int32_t> seq(static_cast<size_t>(s.rows));
  std::vector<int32_t> visible(seq.size()), candidates(static_cast<size_t>(s.rows * kCandidates), -1);
  for (size_t t = 0; t < visible.size(); ++t) {
    visible[t] = static_cast<int32_t>(kEntries - t);
    for (size_t j = 0; j + 1 < kCandidates; ++j)
      candidates[t * kCandidates + j] = static_cast<int32_t>(2 * j + t % 2);
  }
  tester->Compare("WriteEntries index", Nearness::kExact, [&](const Ops& ops, const OpContext& ctx) {
    return Entries(ops, ctx, layout, x).AsNumbers();
  });
  for (const bool with_candidates : {false, true}) {
    const int64_t columns = with_candidates ? kCandidates * kBlock : kEntries;
    tester->Compare(
        fmt::format("Scale and IndexerScores, {} rows{}", s.rows, with_candidates ? ", candidates" : ""),
        Nearness::kBf16, [&](const Ops& ops, const OpContext& ctx) {
          const Entries entries(ops, ctx, layout, x);
          std::vector<Bf16> q(raw.size()), scaled = w;
          std::vector<float> scores(static_cast<size_t>(s.rows * columns));
          ops.FakeQuantize(ctx, {.rows = s.rows * kIndexHeads,
                                 .dim = kIndexDim,
                                 .scheme = kernels::QuantScheme::kFp4Index,
                                 .x = raw.data(),
                                 .y = q.data()});
          ops.Scale(ctx, {.count = s.rows * kIndexHeads, .factor = 0.3, .x = scaled.data()});
          ops.IndexerScores(ctx, {.rows = s.rows,
                                  .heads = kIndexHeads,
                                  .dim = kIndexDim,
                                  .columns = columns,
                                  .row_stride = columns,
                                  .q = q.data(),
                                  .w = scaled.data(),
                                  .seq = seq.data(),
                                  .visible = visible.data(),
                                  .layout = layout,
                                  .sequences = entries.tables(),
                                  .candidates = with_candidates ? candidates.data() : nullptr,
                                  .max_candidates = with_candidates ? kCandidates : 0,
                                  .candidate_block = with_candidates ? kBlock : 0,
                                  .scores = scores.data()});
          Numbers out;
          Append(scaled, &out);
          Append(scores, &out);
          return out;
        });
  }
}

void TestCompressor(const Shape& s, Operands& make, Tester* tester) {
  constexpr int64_t kCapacity = 16, kRatio = 2;
  constexpr int32_t kChunkBegin = 9;  // the first group has one token in the tail and one in the chunk
  const int64_t dim = s.head_dim, rows = std::min(s.rows, kCapacity);
  const int64_t first_group = kChunkBegin / kRatio, groups = (kChunkBegin + rows) / kRatio - first_group;
  const auto content = make.Floats(kCapacity * dim), gate = make.Floats(kCapacity * dim),
             chunk_content = make.Floats(rows * dim), chunk_gate = make.Floats(rows * dim);
  const std::vector<int32_t> seq(static_cast<size_t>(rows)),
      positions = Ascending(rows, kChunkBegin),
      entries = Ascending(groups, static_cast<int32_t>(first_group));
  const auto run = [&](const auto& body) {
    std::vector<float> tail_content = content, tail_gate = gate;
    const kernels::TailView tail{.content = tail_content.data(),
                                 .gate = tail_gate.data(),
                                 .capacity = kCapacity,
                                 .chunk_begin = kChunkBegin,
                                 .chunk_content = chunk_content.data(),
                                 .chunk_gate = chunk_gate.data()};
    Numbers out;
    body(std::span(&tail, 1), &out);
    Append(tail_content, &out);
    Append(tail_gate, &out);
    return out;
  };
  tester->Compare(fmt::format("CompressorPool, {} groups of {}", groups, dim), Nearness::kBf16,
                  [&](const Ops& ops, const OpContext& ctx) {
                    return run([&](std::span<const kernels::TailView> tails, Numbers* out) {
                      std::vector<Bf16> latent(static_cast<size_t>(groups * dim));
                      ops.CompressorPool(ctx, {.groups = groups,
                                               .dim = dim,
                                               .ratio = kRatio,
                                               .seq = seq.data(),
                                               .entries = entries.data(),
                                               .sequences = tails,
                                               .latent = latent.data()});
                      Append(latent, out);
                    });
                  });
  tester->Compare(fmt::format("CommitTail, {} rows of {}", rows, dim), Nearness::kExact,
                  [&](const Ops& ops, const OpContext& ctx) {
                    return run([&](std::span<const kernels::TailView> tails, Numbers*) {
                      ops.CommitTail(ctx, {.rows = rows,
                                           .dim = dim,
                                           .seq = seq.data(),
                                           .positions = positions.data(),
                                           .sequences = tails});
                    });
                  });
}

}  // namespace

void TestState(const Shape& shape, Operands& make, Tester* tester) {
  TestEmbed(shape, make, tester);
  TestWindow(shape, make, tester);
  TestSparseAttention(shape, make, tester);
  TestIndexer(shape, make, tester);
  TestCompressor(shape, make, tester);
}

}  // namespace deepinfer::self_test
