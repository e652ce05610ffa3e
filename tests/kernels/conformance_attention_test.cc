// Conformance of indexer scores, selection and sparse attention.
#include <cmath>
#include <limits>

#include "kernels/op_case.h"
#include "kernels/sequence_data.h"
#include "tensor/quantize.h"

namespace deepinfer::kernels::testing {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

/// Lists of candidate blocks, ascending, -1 padded; some rows have fewer than fit, some none.
std::vector<int32_t> CandidateLists(Rng& rng, int64_t rows, int64_t max_candidates, int64_t blocks) {
  std::vector<int32_t> lists;
  for (int64_t t = 0; t < rows; ++t) {
    const int64_t most = std::min(max_candidates, blocks);
    std::vector<int32_t> list = rng.Distinct(rng.Chance(0.5) ? most : rng.Int(0, most), blocks);
    list.resize(static_cast<size_t>(max_candidates), -1);
    lists.insert(lists.end(), list.begin(), list.end());
  }
  return lists;
}

struct IndexerScoresCase {
  IndexerScoresCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        heads(rng.Pick<int64_t>({1, 2, 3, 4, 8, 32})),
        dim(32 * rng.Pick<int64_t>({1, 2, 4})),
        sequences(rng.Int(1, 4)),
        num_entries(rng.Pick<int64_t>({1, 7, 64, 65, 150})),
        rounding(rng.Chance(0.5) ? ScoreRounding::kReference : ScoreRounding::kFp32),
        keys(rng, EntryFormat::kFp4Index, dim, sequences, num_entries),
        w(NormalBf16(rng, rows * heads, 0.1)) {
    const std::vector<Bf16> raw = NormalBf16(rng, rows * heads * dim);
    std::vector<uint8_t> codes(raw.size() / 2), scales(raw.size() / kQuantGroup);
    q.resize(raw.size());
    QuantizeFp4Index(raw.data(), static_cast<int64_t>(raw.size()), codes.data(), scales.data());
    DequantizeFp4Index(codes.data(), scales.data(), static_cast<int64_t>(raw.size()), q.data());
    if (rng.Chance(0.4)) {
      block = rng.Pick<int64_t>({1, 4, 8});
      max_candidates = rng.Int(1, 12);
      candidates = CandidateLists(rng, rows, max_candidates, (num_entries + block - 1) / block);
    }
    columns = candidates.empty() ? num_entries : max_candidates * block;
    row_stride = columns + rng.Pick<int64_t>({0, 1, 13});
    for (int64_t t = 0; t < rows; ++t) {
      seq.push_back(static_cast<int32_t>(rng.Int(0, sequences - 1)));
      visible.push_back(static_cast<int32_t>(rng.Chance(0.2) ? rng.Pick<int64_t>({0, 1, num_entries})
                                                             : rng.Int(0, num_entries)));
    }
  }
  std::string Describe() const {
    return std::to_string(heads) + " heads of " + std::to_string(dim) + ", " + std::to_string(columns) +
           " columns" + (candidates.empty() ? "" : " of candidates");
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    RandomEntries state = keys;
    const std::vector<BlockTable> tables = state.Tables();
    std::vector<float> out(static_cast<size_t>(rows * columns));
    for (const auto& batch : batches) {
      const Operand<Bf16> batch_q(TakeRows(q, heads * dim, batch)), batch_w(TakeRows(w, heads, batch));
      const Operand<int32_t> batch_seq(TakeRows(seq, 1, batch)), batch_visible(TakeRows(visible, 1, batch));
      const Operand<int32_t> lists(candidates.empty() ? candidates
                                                      : TakeRows(candidates, max_candidates, batch));
      Operand<float> scores(batch.size() * static_cast<size_t>(row_stride), kUnwrittenFloat);
      IndexerScoresParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.heads = heads;
      p.dim = dim;
      p.columns = columns;
      p.row_stride = row_stride;
      p.q = batch_q.data();
      p.w = batch_w.data();
      p.seq = batch_seq.data();
      p.visible = batch_visible.data();
      p.layout = state.layout();
      p.sequences = tables;
      p.candidates = candidates.empty() ? nullptr : lists.data();
      p.max_candidates = max_candidates;
      p.candidate_block = block;
      p.rounding = rounding;
      p.scores = scores.data();
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.index_heads = heads;
      limits.index_head_dim = dim;
      limits.max_entries = columns;
      runner.ops().IndexerScores(runner.Context(limits), p);
      PutRows(scores.data(), row_stride, columns, batch, &out);
    }
    return {{"scores", rounding == ScoreRounding::kReference ? Match::kScore : Match::kFp32, columns, out}};
  }

  /// -inf exactly where a column stands for no visible entry.
  void CheckFormula(const Outputs& outputs) const {
    const auto& scores = std::get<std::vector<float>>(outputs[0].values);
    for (int64_t i = 0; i < rows * columns; ++i) {
      const auto t = static_cast<size_t>(i / columns);
      int64_t entry = i % columns;
      if (!candidates.empty()) {
        const int32_t id =
            candidates[t * static_cast<size_t>(max_candidates) + static_cast<size_t>(entry / block)];
        entry = id < 0 ? num_entries : id * block + entry % block;
      }
      ASSERT_EQ(std::isinf(scores[static_cast<size_t>(i)]), entry >= visible[t])
          << "row " << t << ", column " << i % columns;
    }
  }

  int64_t rows, heads, dim, sequences, num_entries;
  ScoreRounding rounding;
  RandomEntries keys;
  std::vector<Bf16> w, q;
  int64_t block = 0, max_candidates = 0, columns = 0, row_stride = 0;
  std::vector<int32_t> candidates, seq, visible;
};

/// Score rows of several kinds: distinct, few levels with many ties, signed zeros only, all -inf.
std::vector<float> ScoreRows(Rng& rng, int64_t rows, int64_t row_stride,
                             const std::vector<int32_t>& visible) {
  std::vector<float> scores;
  for (int64_t t = 0; t < rows; ++t) {
    const int64_t kind = rng.Int(0, 5);
    for (int64_t c = 0; c < row_stride; ++c) {
      float score = static_cast<float>(rng.Normal());
      if (kind == 1 || kind == 2) score = rng.Pick({-2.0f, -1.0f, -0.0f, 0.0f, 0.5f, 0.5f, 3.0f});
      if (kind == 3) score = rng.Chance(0.5) ? 0.0f : -0.0f;
      if (kind == 4) score = ToFloat(ToBf16(score));
      if (kind == 5 && rng.Chance(0.9)) score = kMinusInfinity;
      if (kind == 0) score = std::ldexp(score, static_cast<int>(rng.Int(-40, 40)));
      if (c >= visible[static_cast<size_t>(t)]) score = kMinusInfinity;
      scores.push_back(score);
    }
  }
  return scores;
}

struct SelectTopKCase {
  SelectTopKCase(Rng& rng, int64_t num_rows)
      : rows(num_rows), columns(rng.Pick<int64_t>({1, 5, 64, 65, 200, 700})) {
    if (rng.Chance(0.4)) {
      block = rng.Pick<int64_t>({1, 4, 8});
      max_candidates = rng.Int(1, 20);
      columns = max_candidates * block;
      candidates = CandidateLists(rng, rows, max_candidates, max_candidates + rng.Int(0, 30));
    }
    row_stride = columns + rng.Pick<int64_t>({0, 1, 13});
    k = rng.Pick<int64_t>({1, 2, 8, 63, 64, 65, columns, columns + 7});
    std::vector<int32_t> scored;
    for (int64_t t = 0; t < rows; ++t) {
      // Without candidates scores end where visibility does, in one row of four they do not.
      visible.push_back(static_cast<int32_t>(rng.Int(0, candidates.empty() ? columns : 2 * columns)));
      scored.push_back(rng.Chance(0.25) || !candidates.empty() ? static_cast<int32_t>(columns)
                                                               : visible.back());
    }
    scores = ScoreRows(rng, rows, row_stride, scored);
  }
  std::string Describe() const {
    return std::to_string(k) + " of " + std::to_string(columns) + " columns" +
           (candidates.empty() ? "" : " of candidates");
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<int32_t> out(static_cast<size_t>(rows * k));
    for (const auto& batch : batches) {
      const Operand<float> batch_scores(TakeRows(scores, row_stride, batch));
      const Operand<int32_t> batch_visible(TakeRows(visible, 1, batch));
      const Operand<int32_t> lists(candidates.empty() ? candidates
                                                      : TakeRows(candidates, max_candidates, batch));
      Operand<int32_t> topk(batch.size() * static_cast<size_t>(k), kUnwrittenInt);
      SelectTopKParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.columns = columns;
      p.row_stride = row_stride;
      p.k = k;
      p.scores = batch_scores.data();
      p.visible = batch_visible.data();
      p.candidates = candidates.empty() ? nullptr : lists.data();
      p.max_candidates = max_candidates;
      p.candidate_block = block;
      p.topk = topk.data();
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.max_entries = columns;
      limits.max_list = k;
      runner.ops().SelectTopK(runner.Context(limits), p);
      PutRows(topk, k, batch, &out);
    }
    return {{"topk", Match::kExact, k, out}};
  }

  /// An entry is chosen when fewer than k others beat it.
  void CheckFormula(const Outputs& outputs) const {
    const auto& topk = std::get<std::vector<int32_t>>(outputs[0].values);
    for (int64_t t = 0; t < rows; ++t) {
      std::vector<std::pair<int64_t, float>> eligible;  // entry, score; entries ascending
      for (int64_t c = 0; c < columns; ++c) {
        int64_t entry = c;
        if (!candidates.empty()) {
          const int32_t id = candidates[static_cast<size_t>(t * max_candidates + c / block)];
          if (id < 0) continue;
          entry = id * block + c % block;
        }
        const float score = scores[static_cast<size_t>(t * row_stride + c)];
        if (entry < visible[static_cast<size_t>(t)] && score > kMinusInfinity)
          eligible.emplace_back(entry, score);
      }
      std::vector<int32_t> want;
      for (size_t i = 0; i < eligible.size(); ++i) {
        int64_t better = 0;
        for (size_t j = 0; j < eligible.size(); ++j) {
          better +=
              eligible[j].second > eligible[i].second || (eligible[j].second == eligible[i].second && j < i);
        }
        if (better < k) want.push_back(static_cast<int32_t>(eligible[i].first));
      }
      want.resize(static_cast<size_t>(k), -1);
      ASSERT_EQ(TakeRows(topk, k, {t}), want) << "row " << t;
    }
  }

  int64_t rows, columns, row_stride = 0, k = 0, block = 0, max_candidates = 0;
  std::vector<int32_t> candidates, visible;
  std::vector<float> scores;
};

struct SelectCandidatesCase {
  SelectCandidatesCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        columns(rng.Pick<int64_t>({1, 5, 64, 65, 200, 700})),
        row_stride(columns + rng.Pick<int64_t>({0, 1, 13})),
        block(rng.Pick<int64_t>({1, 3, 4, 8})),
        max_candidates(rng.Pick<int64_t>({1, 2, 7, 16, 100})) {
    for (int64_t t = 0; t < rows; ++t)
      visible.push_back(static_cast<int32_t>(rng.Int(rng.Chance(0.1) ? 0 : 1, columns)));
    scores = ScoreRows(rng, rows, row_stride, visible);
  }
  std::string Describe() const {
    return std::to_string(max_candidates) + " blocks of " + std::to_string(block) + " from " +
           std::to_string(columns) + " columns";
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<int32_t> out(static_cast<size_t>(rows * max_candidates));
    for (const auto& batch : batches) {
      const Operand<float> batch_scores(TakeRows(scores, row_stride, batch));
      const Operand<int32_t> batch_visible(TakeRows(visible, 1, batch));
      Operand<int32_t> lists(batch.size() * static_cast<size_t>(max_candidates), kUnwrittenInt);
      SelectCandidatesParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.columns = columns;
      p.row_stride = row_stride;
      p.max_candidates = max_candidates;
      p.candidate_block = block;
      p.scores = batch_scores.data();
      p.visible = batch_visible.data();
      p.candidates = lists.data();
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.max_entries = columns;
      limits.max_list = max_candidates;
      runner.ops().SelectCandidates(runner.Context(limits), p);
      PutRows(lists, max_candidates, batch, &out);
    }
    return {{"candidates", Match::kExact, max_candidates, out}};
  }

  /// The newest visible block, then every block that fewer than the remaining places beat.
  void CheckFormula(const Outputs& outputs) const {
    const auto& lists = std::get<std::vector<int32_t>>(outputs[0].values);
    for (int64_t t = 0; t < rows; ++t) {
      const int64_t newest = (visible[static_cast<size_t>(t)] + block - 1) / block - 1;
      std::vector<float> best(static_cast<size_t>((columns + block - 1) / block), kMinusInfinity);
      for (int64_t c = 0; c < columns; ++c) {
        float& of_block = best[static_cast<size_t>(c / block)];
        of_block = std::max(of_block, scores[static_cast<size_t>(t * row_stride + c)]);
      }
      std::vector<int32_t> want;
      for (size_t b = 0; b < best.size(); ++b) {
        int64_t better = newest >= 0 ? 1 : 0;
        for (size_t j = 0; j < best.size(); ++j) {
          if (static_cast<int64_t>(j) != newest) better += best[j] > best[b] || (best[j] == best[b] && j < b);
        }
        const bool kept =
            static_cast<int64_t>(b) == newest || (best[b] > kMinusInfinity && better < max_candidates);
        if (kept) want.push_back(static_cast<int32_t>(b));
      }
      want.resize(static_cast<size_t>(max_candidates), -1);
      ASSERT_EQ(TakeRows(lists, max_candidates, {t}), want) << "row " << t;
    }
  }

  int64_t rows, columns, row_stride, block, max_candidates;
  std::vector<int32_t> visible;
  std::vector<float> scores;
};

std::vector<float> Sinks(Rng& rng, int64_t heads) {
  std::vector<float> sinks;
  for (int64_t h = 0; h < heads; ++h)
    sinks.push_back(rng.Pick({-1e4f, -10.0f, 0.0f, 0.7f, 3.0f, 20.0f, 1e4f}));
  return sinks;
}

struct SparseAttentionCase {
  SparseAttentionCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        heads(rng.Pick<int64_t>({1, 2, 3, 4, 8})),
        dim(32 * rng.Pick<int64_t>({1, 2, 3})),
        window(rng.Pick<int64_t>({1, 4, 16, 64, 128})),
        k(rng.Pick<int64_t>({0, 1, 8, 64, num_rows < 8 ? 572 : 80})),
        sequences(rng.Int(1, 4)),
        windows(rng, sequences, dim, window),
        entries(rng, EntryFormat::kFp4Main, dim, sequences, kEntries),
        sink(Sinks(rng, heads)),
        q(NormalBf16(rng, rows * heads * dim, rng.Pick({0.3, 1.0, 4.0}))) {
    for (int64_t t = 0; t < rows; ++t) {
      const int64_t s = rng.Int(0, sequences - 1);
      seq.push_back(static_cast<int32_t>(s));
      // A staged position, or one in the ring whose window is still there.
      const int64_t staged = windows.chunk_rows(s), begin = windows.chunk_begin(s);
      int64_t position = begin + (staged > 0 ? rng.Int(0, staged - 1) : -1);
      if (staged > 0 && begin > 0 && rng.Chance(0.2)) position = begin - 1;
      positions.push_back(static_cast<int32_t>(position));
      std::vector<int32_t> list =
          rng.Distinct(rng.Chance(0.5) ? std::min(k, kEntries) : rng.Int(0, std::min(k, kEntries)), kEntries);
      list.resize(static_cast<size_t>(k), -1);
      topk.insert(topk.end(), list.begin(), list.end());
    }
  }
  std::string Describe() const {
    return std::to_string(heads) + " heads of " + std::to_string(dim) + ", window " + std::to_string(window) +
           ", k " + std::to_string(k) + ", " + std::to_string(sequences) + " sequences";
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    RandomWindows window_state = windows;
    RandomEntries entry_state = entries;
    const std::vector<WindowView> views = window_state.Views();
    const std::vector<BlockTable> tables = entry_state.Tables();
    std::vector<AttentionSequence> states;
    for (size_t s = 0; s < views.size(); ++s) states.push_back({views[s], tables[s]});
    const Operand<float> sink_copy(sink);
    std::vector<Bf16> out(q.size());
    for (const auto& batch : batches) {
      const Operand<Bf16> batch_q(TakeRows(q, heads * dim, batch));
      const Operand<int32_t> batch_seq(TakeRows(seq, 1, batch)),
          batch_positions(TakeRows(positions, 1, batch));
      const Operand<int32_t> lists(TakeRows(topk, k, batch));
      Operand<Bf16> result(batch.size() * static_cast<size_t>(heads * dim), kUnwrittenBf16);
      SparseAttentionParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.heads = heads;
      p.dim = dim;
      p.window = window;
      p.k = k;
      p.q = batch_q.data();
      p.positions = batch_positions.data();
      p.seq = batch_seq.data();
      p.topk = k == 0 ? nullptr : lists.data();
      p.layout = entry_state.layout();
      p.sequences = states;
      p.sink = sink_copy.data();
      p.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
      p.out = result.data();
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.num_heads = heads;
      limits.head_dim = dim;
      limits.max_list = window + k;
      runner.ops().SparseAttention(runner.Context(limits), p);
      PutRows(result, heads * dim, batch, &out);
    }
    return {{"out", Match::kExact, dim, out}};
  }

  /// Against a plain softmax over the keys named by the definition; only the rounding of P differs.
  void CheckFormula(const Outputs& outputs) const {
    RandomWindows window_state = windows;
    RandomEntries entry_state = entries;
    const std::vector<WindowView> views = window_state.Views();
    const std::vector<BlockTable> tables = entry_state.Tables();
    for (int64_t t = 0; t < rows; ++t) {
      const auto s = static_cast<size_t>(seq[static_cast<size_t>(t)]);
      const WindowView& view = views[s];
      std::vector<std::vector<Bf16>> keys;
      for (int64_t p = 0; p <= positions[static_cast<size_t>(t)]; ++p) {
        if (p < view.first || p + window <= positions[static_cast<size_t>(t)]) continue;
        const bool staged = p >= view.chunk_begin;
        const int64_t row = staged ? p - view.chunk_begin : p % view.capacity;
        keys.emplace_back(static_cast<size_t>(dim));
        DequantizeFp8((staged ? view.chunk_codes : view.codes) + row * dim,
                      (staged ? view.chunk_scales : view.scales) + row * dim / 32, dim, keys.back().data());
      }
      for (int64_t i = 0; i < k; ++i) {
        const int64_t j = topk[static_cast<size_t>(t * k + i)];
        if (j < 0) continue;
        const EntryLayout& layout = entry_state.layout();
        const auto* block = reinterpret_cast<const uint8_t*>(tables[s].blocks[j / layout.entries_per_block]);
        const int64_t row = j % layout.entries_per_block;
        keys.emplace_back(static_cast<size_t>(dim));
        DequantizeFp4Main(block + layout.codes_offset + row * dim / 2,
                          block + layout.scales_offset + row * dim / 16, dim, keys.back().data());
      }
      CheckRow(t, keys, std::get<std::vector<Bf16>>(outputs[0].values));
    }
  }

  void CheckRow(int64_t t, const std::vector<std::vector<Bf16>>& keys, const std::vector<Bf16>& out) const {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = (t * heads + h) * dim;
      std::vector<double> scores;
      double max = sink[static_cast<size_t>(h)];
      for (const auto& key : keys) {
        double score = 0;
        for (int64_t c = 0; c < dim; ++c)
          score += static_cast<double>(ToFloat(q[static_cast<size_t>(at + c)])) *
                   ToFloat(key[static_cast<size_t>(c)]);
        scores.push_back(score / std::sqrt(static_cast<double>(dim)));
        max = std::max(max, scores.back());
      }
      double denominator = std::exp(sink[static_cast<size_t>(h)] - max);
      for (double score : scores) denominator += std::exp(score - max);
      for (int64_t c = 0; c < dim; ++c) {
        double sum = 0, magnitude = 0;
        for (size_t i = 0; i < keys.size(); ++i) {
          const double term =
              std::exp(scores[i] - max) / denominator * ToFloat(keys[i][static_cast<size_t>(c)]);
          sum += term;
          magnitude += std::fabs(term);
        }
        ASSERT_NEAR(ToFloat(out[static_cast<size_t>(at + c)]), sum,
                    0.004 * std::fabs(sum) + 0.003 * magnitude + 1e-38)
            << "row " << t << ", head " << h << ", channel " << c << ", " << keys.size() << " keys";
      }
    }
  }

  static constexpr int64_t kEntries = 600;
  int64_t rows, heads, dim, window, k, sequences;
  RandomWindows windows;
  RandomEntries entries;
  std::vector<float> sink;
  std::vector<Bf16> q;
  std::vector<int32_t> seq, positions, topk;
};

struct SlotAttentionCase {
  SlotAttentionCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        heads(rng.Int(1, 4)),
        dim(32 * rng.Pick<int64_t>({1, 2, 3})),
        slots_per_row(rng.Pick<int64_t>({0, 1, 63, 64, 65, 133, num_rows < 8 ? 700 : 192})),
        kv_rows(rng.Int(1, 300)),
        sink(Sinks(rng, heads)),
        q(NormalBf16(rng, rows * heads * dim, rng.Pick({0.3, 1.0, 4.0}))),
        kv(NormalBf16(rng, kv_rows * dim)) {
    for (int64_t t = 0; t < rows; ++t) {
      const double holes = rng.Pick({0.0, 0.1, 0.9, 1.0});
      const int64_t leading = rng.Chance(0.3) ? rng.Int(0, slots_per_row)
                                              : 0;  // empty slots first, as a ring that is filling has
      for (int64_t s = 0; s < slots_per_row; ++s) {
        slots.push_back(s < leading || rng.Chance(holes) ? -1
                                                         : static_cast<int32_t>(rng.Int(0, kv_rows - 1)));
      }
    }
  }
  std::string Describe() const {
    return std::to_string(heads) + " heads of " + std::to_string(dim) + ", " + std::to_string(slots_per_row) +
           " slots";
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<Bf16> out(q.size());
    const Operand<float> sink_copy(sink);
    const Operand<Bf16> kv_copy(kv);
    for (const auto& batch : batches) {
      const Operand<Bf16> batch_q(TakeRows(q, heads * dim, batch));
      const Operand<int32_t> batch_slots(TakeRows(slots, slots_per_row, batch));
      Operand<Bf16> result(batch.size() * static_cast<size_t>(heads * dim), kUnwrittenBf16);
      SlotAttentionParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.heads = heads;
      p.dim = dim;
      p.num_slots = slots_per_row;
      p.q = batch_q.data();
      p.kv = kv_copy.data();
      p.slots = batch_slots.data();
      p.sink = sink_copy.data();
      p.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
      p.out = result.data();
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.num_heads = heads;
      limits.head_dim = dim;
      limits.max_list = slots_per_row;
      runner.ops().SlotAttention(runner.Context(limits), p);
      PutRows(result, heads * dim, batch, &out);
    }
    return {{"out", Match::kExact, dim, out}};
  }

  /// A row without filled slots gives zeros.
  void CheckFormula(const Outputs& outputs) const {
    const auto& out = std::get<std::vector<Bf16>>(outputs[0].values);
    for (int64_t t = 0; t < rows; ++t) {
      const std::vector<int32_t> own = TakeRows(slots, slots_per_row, {t});
      if (std::any_of(own.begin(), own.end(), [](int32_t slot) { return slot >= 0; })) continue;
      for (Bf16 v : TakeRows(out, heads * dim, {t})) ASSERT_EQ(ToFloat(v), 0) << "row " << t;
    }
  }

  int64_t rows, heads, dim, slots_per_row, kv_rows;
  std::vector<float> sink;
  std::vector<Bf16> q, kv;
  std::vector<int32_t> slots;
};

TEST_P(Conformance, IndexerScores) { CheckConformance<IndexerScoresCase>(GetParam(), 6); }
TEST_P(Conformance, IndexerScoresRows) { CheckRowInvariance<IndexerScoresCase>(GetParam()); }
TEST_P(Conformance, SelectTopK) { CheckConformance<SelectTopKCase>(GetParam(), 8); }
TEST_P(Conformance, SelectTopKRows) { CheckRowInvariance<SelectTopKCase>(GetParam()); }
TEST_P(Conformance, SelectCandidates) { CheckConformance<SelectCandidatesCase>(GetParam(), 8); }
TEST_P(Conformance, SelectCandidatesRows) { CheckRowInvariance<SelectCandidatesCase>(GetParam()); }
TEST_P(Conformance, SparseAttention) { CheckConformance<SparseAttentionCase>(GetParam(), 4); }
TEST_P(Conformance, SparseAttentionRows) { CheckRowInvariance<SparseAttentionCase>(GetParam()); }
TEST_P(Conformance, SlotAttention) { CheckConformance<SlotAttentionCase>(GetParam(), 4); }
TEST_P(Conformance, SlotAttentionRows) { CheckRowInvariance<SlotAttentionCase>(GetParam()); }

}  // namespace
}  // namespace deepinfer::kernels::testing
