// Everything one sequence keeps between forward passes, in the packed layouts (spec: model.md §11; open-questions.md 5, 6).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "model/layer_plan.h"
#include "model/state_layout.h"
#include "tensor/aligned_buffer.h"

namespace deepinfer::model {

/// Blocks, rings, tails and ids of one sequence. Forward passes (Backbone) write it; one thread at a time.
class Sequence {
 public:
  /// Errors: kResourceExhausted.
  static Result<std::unique_ptr<Sequence>> Create(std::shared_ptr<const StateLayout> layout);

  /// A sequence that adopts the global KV of the first `hit_length` tokens of `donor` without its window rings (spec: model.md
  /// §12.4). Its length is hit_length - window: the caller feeds ids from there on; groups that end before `hit_length` are not
  /// rewritten. Errors: kInvalidArgument unless window < hit_length <= donor.length().
  static Result<std::unique_ptr<Sequence>> FromPrefix(const Sequence& donor, int64_t hit_length);

  /// A copy with all state. Errors: kResourceExhausted.
  Result<std::unique_ptr<Sequence>> Clone() const;

  /// Number of tokens taken in.
  int64_t length() const { return static_cast<int64_t>(compressed_ids_.size()); }

  /// Rows [0, n) can no longer be dropped: the prompt. Called by whoever prefills.
  void SealPrompt() { sealed_ = length(); }
  int64_t sealed() const { return sealed_; }

  /// Forgets the last `count` rows. Errors: kInvalidArgument when it would reach into the prompt (sealed or adopted) or further than
  /// kMaxRollback rows behind the furthest row ever taken in: the rings hold no more.
  Status Rollback(int64_t count);

  /// Packed bytes for tests and for moving state: one layer's ring as the goldens have it, slot p mod window holding position p.
  struct RingImage {
    std::vector<uint8_t> codes, scales, valid;  // [W, d], [W, d/32], [W]
  };
  RingImage Ring(int layer) const;
  /// Code and scale rows of all complete entries of a source (index into ModelPlan::sources).
  struct EntryImage {
    int64_t count = 0;
    std::vector<uint8_t> codes, scales;
  };
  EntryImage MainEntries(int source) const;
  EntryImage IndexEntries(int source) const;
  /// Content and gate of the tokens of the open group, oldest first; empty for ratio 1 or a complete group.
  struct TailImage {
    std::vector<float> content, gate;
  };
  TailImage Tail(int source) const;
  /// Compressed ids with -1 at image positions, all tokens.
  std::span<const int32_t> compressed_ids() const { return compressed_ids_; }

 private:
  friend class ForwardPass;
  friend class Backbone;
  explicit Sequence(std::shared_ptr<const StateLayout> layout) : layout_(std::move(layout)) {}
  /// Makes every block that rows length() .. end - 1 may write exist and belong to this sequence alone.
  Status PrepareWrite(int64_t end);
  /// The layer's ring without staged rows.
  kernels::WindowView Window(int layer) const;
  /// The source's tail without chunk rows; null pointers for ratio 1.
  kernels::TailView TailRing(int source) const;
  kernels::BlockTable Blocks() const { return {block_pointers_.data()}; }
  /// Complete entries of a source, those of an adopted prefix included.
  int64_t EntryCount(int source) const;
  EntryImage Entries(const kernels::EntryLayout& layout, int64_t count) const;

  std::shared_ptr<const StateLayout> layout_;
  std::vector<std::shared_ptr<AlignedBuffer>>
      blocks_;  // global KV, 128 tokens each; shared with a donor while untouched
  std::vector<std::byte*> block_pointers_;
  AlignedBuffer rings_;                // all layers' rings
  AlignedBuffer tails_;                // all ratio > 1 sources' tails
  std::vector<int32_t> window_first_;  // per layer: first position that exists
  std::vector<int32_t> window_end_;    // per layer: one past the last position written
  std::vector<int32_t> compressed_ids_;
  int64_t sealed_ = 0;
  int64_t furthest_ = 0;     // greatest length that a rollback has left behind
  int64_t write_floor_ = 0;  // groups whose last token is below are kept as they are
};

}  // namespace deepinfer::model
