// Indexer scores and selection (spec: model.md §8.5-8.7).
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/reference/dot.h"
#include "kernels/reference/functions.h"
#include "kernels/reference/state_rows.h"

namespace deepinfer::kernels::reference {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

/// The entry that a score column stands for; -1 for none. `candidates` is the row's list or null.
int64_t EntryOfColumn(const int32_t* candidates, int64_t block, int64_t column) {
  if (candidates == nullptr) return column;
  const int32_t id = candidates[column / block];
  return id < 0 ? -1 : id * block + column % block;
}

/// sum_h relu(q_h . key) w_h with the roundings of spec: model.md §8.6
float Score(const double* q, const Bf16* w, const double* key, int64_t heads, int64_t dim,
            ScoreRounding rounding) {
  double sum = 0;
  for (int64_t h = 0; h < heads; ++h) {
    const double dot = Dot(q + h * dim, key, dim);
    if (rounding == ScoreRounding::kReference) {
      const double positive = std::max(ToDouble(ToBf16(dot)), 0.0);
      sum += ToDouble(ToBf16(positive * ToDouble(w[h])));
    } else {
      sum += std::max(dot, 0.0) * ToDouble(w[h]);
    }
  }
  return rounding == ScoreRounding::kReference ? ToFloat(ToBf16(sum)) : static_cast<float>(sum);
}

/// Indices of the `count` largest values above -inf, ties to the lower index, ascending.
std::vector<int32_t> BestIndices(const std::vector<float>& values, int64_t count) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&values](int32_t i) { return !(values[static_cast<size_t>(i)] > kMinusInfinity); });
  const auto better = [&values](int32_t a, int32_t b) {
    const float x = values[static_cast<size_t>(a)], y = values[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto kept = static_cast<size_t>(std::min<int64_t>(count, static_cast<int64_t>(order.size())));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), better);
  order.resize(kept);
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

// spec: model.md §8.6
void IndexerScores(const OpContext& ctx, const IndexerScoresParams& p) {
  ForEachRow(ctx, p.rows, [&p](int64_t t) {
    const BlockTable& table = p.sequences[static_cast<size_t>(p.seq[t])];
    const int32_t* candidates = p.candidates == nullptr ? nullptr : p.candidates + t * p.max_candidates;
    std::vector<Bf16> packed(static_cast<size_t>(p.dim));
    std::vector<double> key(static_cast<size_t>(p.dim)), q(static_cast<size_t>(p.heads * p.dim));
    ToDoubles(p.q + t * p.heads * p.dim, p.heads * p.dim, q.data());
    for (int64_t c = 0; c < p.columns; ++c) {
      const int64_t entry = EntryOfColumn(candidates, p.candidate_block, c);
      float& score = p.scores[t * p.row_stride + c];
      score = kMinusInfinity;
      if (entry < 0 || entry >= p.visible[t]) continue;
      ReadEntry(p.layout, table, entry, packed.data());
      ToDoubles(packed.data(), p.dim, key.data());
      score = Score(q.data(), p.w + t * p.heads, key.data(), p.heads, p.dim, p.rounding);
    }
  });
}

// spec: model.md §8.7
void SelectTopK(const OpContext& ctx, const SelectTopKParams& p) {
  ForEachRow(ctx, p.rows, [&p](int64_t t) {
    const int32_t* candidates = p.candidates == nullptr ? nullptr : p.candidates + t * p.max_candidates;
    std::vector<float> scores(p.scores + t * p.row_stride, p.scores + t * p.row_stride + p.columns);
    std::vector<int32_t> entries(scores.size());
    for (size_t c = 0; c < scores.size(); ++c) {
      const int64_t entry = EntryOfColumn(candidates, p.candidate_block, static_cast<int64_t>(c));
      entries[c] = static_cast<int32_t>(entry);
      if (entry < 0 || entry >= p.visible[t]) scores[c] = kMinusInfinity;
    }
    int32_t* out = p.topk + t * p.k;
    std::fill(out, out + p.k, -1);
    for (int32_t column : BestIndices(scores, p.k)) *out++ = entries[static_cast<size_t>(column)];
  });
}

// spec: model.md §8.7
void SelectCandidates(const OpContext& ctx, const SelectCandidatesParams& p) {
  const int64_t blocks = (p.columns + p.candidate_block - 1) / p.candidate_block;
  ForEachRow(ctx, p.rows, [&p, blocks](int64_t t) {
    const float* scores = p.scores + t * p.row_stride;
    std::vector<float> best(static_cast<size_t>(blocks), kMinusInfinity);
    for (int64_t c = 0; c < p.columns; ++c) {
      float& block = best[static_cast<size_t>(c / p.candidate_block)];
      block = std::max(block, scores[c]);
    }
    // The newest block, though it may be partial, is always kept.
    if (p.visible[t] > 0) best[static_cast<size_t>((p.visible[t] - 1) / p.candidate_block)] = -kMinusInfinity;
    int32_t* out = p.candidates + t * p.max_candidates;
    std::fill(out, out + p.max_candidates, -1);
    for (int32_t block : BestIndices(best, p.max_candidates)) *out++ = block;
  });
}

}  // namespace deepinfer::kernels::reference
