// Sparse attention with sink (spec: model.md §8.8).
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/dot.h"
#include "kernels/reference/functions.h"
#include "kernels/reference/state_rows.h"

namespace deepinfer::kernels::reference {
namespace {

constexpr int64_t kSlotBlock = 64;

/// Online softmax of all heads of one row over blocks of at most 64 key rows (K = V).
class OnlineSoftmax {
 public:
  OnlineSoftmax(const Bf16* q, int64_t heads, int64_t dim, float scale)
      : heads_(heads),
        dim_(dim),
        scale_(scale),
        q_(static_cast<size_t>(heads * dim)),
        max_(static_cast<size_t>(heads), -1e30),
        denominator_(static_cast<size_t>(heads)),
        accumulator_(static_cast<size_t>(heads * dim)) {
    ToDoubles(q, heads * dim, q_.data());
  }

  /// rows: [count, dim] filled slots of one block. Empty slots of the block are left out: they have p = 0.
  void AddBlock(const double* rows, int64_t count) {
    if (count == 0) return;
    for (int64_t h = 0; h < heads_; ++h) AddBlockToHead(static_cast<size_t>(h), rows, count);
  }

  /// The sink enters the denominator only.
  void Finish(const float* sink, Bf16* out) const {
    for (int64_t h = 0; h < heads_; ++h) {
      const auto head = static_cast<size_t>(h);
      const double denominator = denominator_[head] + std::exp(sink[h] - max_[head]);
      for (int64_t i = 0; i < dim_; ++i) {
        out[h * dim_ + i] = ToBf16(accumulator_[static_cast<size_t>(h * dim_ + i)] / denominator);
      }
    }
  }

 private:
  void AddBlockToHead(size_t head, const double* rows, int64_t count) {
    const double* q = q_.data() + head * static_cast<size_t>(dim_);
    double* accumulator = accumulator_.data() + head * static_cast<size_t>(dim_);
    double scores[kSlotBlock];
    double new_max = max_[head];
    for (int64_t s = 0; s < count; ++s) {
      scores[s] = Dot(q, rows + s * dim_, dim_) * scale_;
      new_max = std::max(new_max, scores[s]);
    }
    const double rescale = std::exp(max_[head] - new_max);
    double sum = 0;
    for (int64_t i = 0; i < dim_; ++i) accumulator[i] *= rescale;
    for (int64_t s = 0; s < count; ++s) {
      const double p = std::exp(scores[s] - new_max);
      sum += p;
      const double rounded = ToDouble(ToBf16(p));  // for the PV product only
      for (int64_t i = 0; i < dim_; ++i) accumulator[i] += rounded * rows[s * dim_ + i];
    }
    denominator_[head] = denominator_[head] * rescale + sum;
    max_[head] = new_max;
  }

  int64_t heads_, dim_;
  double scale_;
  std::vector<double> q_, max_, denominator_, accumulator_;
};

/// Collects key rows and hands them to the softmax in blocks of 64 slots.
class SlotBlocks {
 public:
  SlotBlocks(int64_t dim, OnlineSoftmax* softmax)
      : dim_(dim), softmax_(softmax), rows_(static_cast<size_t>(kSlotBlock * dim)) {}

  void AddRow(const Bf16* row) {
    ToDoubles(row, dim_, rows_.data() + filled_ * dim_);
    ++filled_;
    AdvanceSlot();
  }
  void AddEmptySlot() { AdvanceSlot(); }
  void Flush() {
    softmax_->AddBlock(rows_.data(), filled_);
    filled_ = slots_ = 0;
  }

 private:
  void AdvanceSlot() {
    if (++slots_ == kSlotBlock) Flush();
  }

  int64_t dim_;
  OnlineSoftmax* softmax_;
  std::vector<double> rows_;
  int64_t filled_ = 0, slots_ = 0;
};

}  // namespace

void SparseAttention(const OpContext& ctx, const SparseAttentionParams& p) {
  ForEachRow(ctx, p.rows, [&p](int64_t t) {
    const AttentionSequence& sequence = p.sequences[static_cast<size_t>(p.seq[t])];
    const int64_t position = p.positions[t];
    OnlineSoftmax softmax(p.q + t * p.heads * p.dim, p.heads, p.dim, p.scale);
    SlotBlocks blocks(p.dim, &softmax);
    std::vector<Bf16> row(static_cast<size_t>(p.dim));
    for (int64_t i = std::max<int64_t>(sequence.window.first, position - p.window + 1); i <= position; ++i) {
      ReadWindowRow(sequence.window, static_cast<int32_t>(i), p.dim, row.data());
      blocks.AddRow(row.data());
    }
    for (int64_t i = 0; i < p.k && p.topk[t * p.k + i] >= 0; ++i) {
      ReadEntry(p.layout, sequence.entries, p.topk[t * p.k + i], row.data());
      blocks.AddRow(row.data());
    }
    blocks.Flush();
    softmax.Finish(p.sink, p.out + t * p.heads * p.dim);
  });
}

void SlotAttention(const OpContext& ctx, const SlotAttentionParams& p) {
  ForEachRow(ctx, p.rows, [&p](int64_t t) {
    OnlineSoftmax softmax(p.q + t * p.heads * p.dim, p.heads, p.dim, p.scale);
    SlotBlocks blocks(p.dim, &softmax);
    for (int64_t s = 0; s < p.num_slots; ++s) {
      const int32_t slot = p.slots[t * p.num_slots + s];
      if (slot < 0) {
        blocks.AddEmptySlot();
      } else {
        blocks.AddRow(p.kv + slot * p.dim);
      }
    }
    blocks.Flush();
    softmax.Finish(p.sink, p.out + t * p.heads * p.dim);
  });
}

}  // namespace deepinfer::kernels::reference
