#include "model/sequence.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/checked.h"
#include "tensor/quantize.h"

namespace deepinfer::model {
namespace {

Result<AlignedBuffer> Copy(const AlignedBuffer& from) {
  DEEPINFER_ASSIGN_OR_RETURN(AlignedBuffer to, AlignedBuffer::Allocate(from.size()));
  if (from.size() > 0) std::memcpy(to.data(), from.data(), from.size());
  return to;
}

}  // namespace

Result<std::unique_ptr<Sequence>> Sequence::Create(std::shared_ptr<const StateLayout> layout) {
  std::unique_ptr<Sequence> sequence(new Sequence(std::move(layout)));
  const StateLayout& l = *sequence->layout_;
  DEEPINFER_ASSIGN_OR_RETURN(sequence->rings_, AlignedBuffer::Allocate(static_cast<size_t>(l.rings_bytes)));
  DEEPINFER_ASSIGN_OR_RETURN(sequence->tails_, AlignedBuffer::Allocate(static_cast<size_t>(l.tails_bytes)));
  sequence->window_first_.assign(static_cast<size_t>(l.num_layers), 0);
  sequence->window_end_.assign(static_cast<size_t>(l.num_layers), 0);
  return sequence;
}

Result<std::unique_ptr<Sequence>> Sequence::FromPrefix(const Sequence& donor, int64_t hit_length) {
  const int64_t window = donor.layout_->window;
  if (hit_length <= window || hit_length > donor.length()) {
    return InvalidArgument("a prefix hit must be longer than the window (" + std::to_string(window) +
                               ") and not longer than its donor (" + std::to_string(donor.length()) + ")",
                           "hit_length");
  }
  DEEPINFER_ASSIGN_OR_RETURN(std::unique_ptr<Sequence> sequence, Create(donor.layout_));
  const size_t blocks = static_cast<size_t>(CeilDiv(hit_length, kBlockTokens));
  sequence->blocks_.assign(donor.blocks_.begin(), donor.blocks_.begin() + static_cast<ptrdiff_t>(blocks));
  sequence->block_pointers_.assign(donor.block_pointers_.begin(),
                                   donor.block_pointers_.begin() + static_cast<ptrdiff_t>(blocks));
  const int64_t length = hit_length - window;
  sequence->compressed_ids_.assign(donor.compressed_ids_.begin(), donor.compressed_ids_.begin() + length);
  sequence->write_floor_ = hit_length;
  return sequence;
}

Result<std::unique_ptr<Sequence>> Sequence::Clone() const {
  std::unique_ptr<Sequence> copy(new Sequence(layout_));
  copy->blocks_ = blocks_;
  copy->block_pointers_ = block_pointers_;
  DEEPINFER_ASSIGN_OR_RETURN(copy->rings_, Copy(rings_));
  DEEPINFER_ASSIGN_OR_RETURN(copy->tails_, Copy(tails_));
  copy->window_first_ = window_first_;
  copy->window_end_ = window_end_;
  copy->compressed_ids_ = compressed_ids_;
  copy->sealed_ = sealed_;
  copy->furthest_ = furthest_;
  copy->write_floor_ = write_floor_;
  return copy;
}

Status Sequence::Rollback(int64_t count) {
  if (count == 0) return OkStatus();
  furthest_ = std::max(furthest_, length());
  const int64_t prompt = std::max(sealed_, write_floor_);
  if (count < 0 || length() - count < std::max(prompt, furthest_ - kMaxRollback)) {
    return InvalidArgument("cannot drop " + std::to_string(count) + " rows of " + std::to_string(length()) +
                               ": at most " + std::to_string(kMaxRollback) + " of the " +
                               std::to_string(furthest_) + " taken in, and none of the " +
                               std::to_string(prompt) + " of the prompt",
                           "count");
  }
  compressed_ids_.resize(compressed_ids_.size() - static_cast<size_t>(count));
  for (int32_t& end : window_end_) end = std::min(end, static_cast<int32_t>(length()));
  return OkStatus();
}

Status Sequence::PrepareWrite(int64_t end) {
  const size_t needed = static_cast<size_t>(CeilDiv(end, kBlockTokens));
  // The first entry that may be written belongs to the group that is open now; ratios divide a block, so no group spans two.
  for (size_t block = static_cast<size_t>(length() / kBlockTokens); block < needed; ++block) {
    if (block < blocks_.size() && blocks_[block].use_count() == 1) continue;
    AlignedBuffer fresh;
    if (block < blocks_.size()) {
      DEEPINFER_ASSIGN_OR_RETURN(fresh, Copy(*blocks_[block]));
    } else {
      DEEPINFER_ASSIGN_OR_RETURN(fresh, AlignedBuffer::Allocate(static_cast<size_t>(layout_->block_bytes)));
      blocks_.emplace_back();
      block_pointers_.emplace_back();
    }
    blocks_[block] = std::make_shared<AlignedBuffer>(std::move(fresh));
    block_pointers_[block] = blocks_[block]->data();
  }
  return OkStatus();
}

kernels::WindowView Sequence::Window(int layer) const {
  std::byte* base = const_cast<std::byte*>(rings_.data()) + layout_->ring_stride * layer;
  kernels::WindowView view;
  view.codes = reinterpret_cast<uint8_t*>(base);
  view.scales = reinterpret_cast<uint8_t*>(base + layout_->ring_scales_offset);
  view.capacity = layout_->ring_capacity;
  view.first = window_first_[static_cast<size_t>(layer)];
  return view;
}

kernels::TailView Sequence::TailRing(int source) const {
  const StateLayout::Source& s = layout_->sources[static_cast<size_t>(source)];
  kernels::TailView view;
  if (s.tail_offset < 0) return view;
  std::byte* base = const_cast<std::byte*>(tails_.data()) + s.tail_offset;
  const int64_t bytes = layout_->tail_capacity * layout_->head_dim * static_cast<int64_t>(sizeof(float));
  view.content = reinterpret_cast<float*>(base);
  view.gate = reinterpret_cast<float*>(base + RoundUp(bytes, kPartAlignment));
  view.capacity = layout_->tail_capacity;
  return view;
}

Sequence::RingImage Sequence::Ring(int layer) const {
  const StateLayout& l = *layout_;
  const size_t d = static_cast<size_t>(l.head_dim), groups = d / kQuantGroup,
               window = static_cast<size_t>(l.window);
  RingImage image{std::vector<uint8_t>(window * d), std::vector<uint8_t>(window * groups),
                  std::vector<uint8_t>(window)};
  const kernels::WindowView view = Window(layer);
  const int64_t end = window_end_[static_cast<size_t>(layer)];
  for (int64_t p = std::max<int64_t>({view.first, length() - l.window, 0}); p < end; ++p) {
    const size_t slot = static_cast<size_t>(p % l.window), from = static_cast<size_t>(p % l.ring_capacity);
    std::memcpy(&image.codes[slot * d], view.codes + from * d, d);
    std::memcpy(&image.scales[slot * groups], view.scales + from * groups, groups);
    image.valid[slot] = 1;
  }
  return image;
}

Sequence::EntryImage Sequence::Entries(const kernels::EntryLayout& layout, int64_t count) const {
  const size_t code_bytes = static_cast<size_t>(layout.dim / 2);
  const size_t scale_bytes = static_cast<size_t>(
      layout.dim / (layout.format == kernels::EntryFormat::kFp4Main ? kMainKvGroup : kQuantGroup));
  EntryImage image;
  image.count = count;
  for (int64_t j = 0; j < count; ++j) {
    const std::byte* block = block_pointers_[static_cast<size_t>(j / layout.entries_per_block)];
    const int64_t row = j % layout.entries_per_block;
    const auto* codes = reinterpret_cast<const uint8_t*>(block + layout.codes_offset) +
                        row * static_cast<int64_t>(code_bytes);
    const auto* scales = reinterpret_cast<const uint8_t*>(block + layout.scales_offset) +
                         row * static_cast<int64_t>(scale_bytes);
    image.codes.insert(image.codes.end(), codes, codes + code_bytes);
    image.scales.insert(image.scales.end(), scales, scales + scale_bytes);
  }
  return image;
}

int64_t Sequence::EntryCount(int source) const {
  return std::max(length(), write_floor_) / layout_->sources[static_cast<size_t>(source)].ratio;
}

Sequence::EntryImage Sequence::MainEntries(int source) const {
  return Entries(layout_->sources[static_cast<size_t>(source)].main, EntryCount(source));
}

Sequence::EntryImage Sequence::IndexEntries(int source) const {
  return Entries(layout_->sources[static_cast<size_t>(source)].index, EntryCount(source));
}

Sequence::TailImage Sequence::Tail(int source) const {
  TailImage image;
  const kernels::TailView view = TailRing(source);
  if (view.content == nullptr) return image;
  const int64_t ratio = layout_->sources[static_cast<size_t>(source)].ratio, d = layout_->head_dim;
  for (int64_t p = length() / ratio * ratio; p < length(); ++p) {
    const int64_t slot = p % view.capacity;
    image.content.insert(image.content.end(), view.content + slot * d, view.content + (slot + 1) * d);
    image.gate.insert(image.gate.end(), view.gate + slot * d, view.gate + (slot + 1) * d);
  }
  return image;
}

}  // namespace deepinfer::model
