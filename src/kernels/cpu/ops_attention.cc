// Attention: walks each row's key list in blocks of 64 slots; a block is decoded once for up to 16 heads.
#include "kernels/cpu/back_end.h"
#include "tensor/quantize.h"

namespace deepinfer::kernels {
namespace {

int64_t TileStride(int64_t dim) { return RoundUp(dim, kTileAlign); }

AttendState MakeState(Scratch memory, const Bf16* q, int64_t heads, int64_t dim, float scale) {
  const int64_t stride = TileStride(dim);
  AttendState s{.q = q, .heads = heads, .dim = dim, .tile_stride = stride, .scale = scale};
  s.tile = memory.Take<float>(kSlotBlock * stride);
  s.scores = memory.Take<double>(kHeadTile * kSlotBlock);
  s.p = memory.Take<float>(kHeadTile * kSlotBlock);
  s.max = memory.Take<double>(kHeadTile);
  s.sum = memory.Take<double>(kHeadTile);
  s.acc = memory.Take<double>(kHeadTile * stride);
  // The reference starts from a finite maximum, so that a block of absent slots leaves no NaN behind.
  std::fill_n(s.max, heads, -1e30);
  std::fill_n(s.sum, heads, 0.0);
  std::fill_n(s.acc, heads * stride, 0.0);
  return s;
}

/// The canonical key list of one row: window positions ascending, then entries ascending.
class KeyList {
 public:
  KeyList(const SparseAttentionParams& p, int64_t row)
      : sequence_(p.sequences[static_cast<size_t>(p.seq[row])]),
        layout_(p.layout),
        topk_(p.topk + row * p.k),
        dim_(p.dim) {
    const int64_t position = p.positions[row];
    first_ = std::max<int64_t>(sequence_.window.first, position - p.window + 1);
    num_window_ = std::max<int64_t>(position + 1 - first_, 0);
    while (num_entries_ < p.k && topk_[num_entries_] >= 0) ++num_entries_;
  }

  int64_t size() const { return num_window_ + num_entries_; }

  KeySlot At(int64_t i) const {
    if (i < num_window_) return WindowSlot(first_ + i);
    return EntrySlot(topk_[i - num_window_]);
  }

 private:
  KeySlot WindowSlot(int64_t position) const {
    const WindowView& w = sequence_.window;
    const bool staged = position >= w.chunk_begin;
    const int64_t row = staged ? position - w.chunk_begin : position % w.capacity;
    return {(staged ? w.chunk_codes : w.codes) + row * dim_,
            (staged ? w.chunk_scales : w.scales) + row * (dim_ / kQuantGroup), KeySlot::kFp8};
  }

  KeySlot EntrySlot(int64_t entry) const {
    const auto* block =
        reinterpret_cast<const uint8_t*>(sequence_.entries.blocks[entry / layout_.entries_per_block]);
    const int64_t row = entry % layout_.entries_per_block;
    return {block + layout_.codes_offset + row * (dim_ / 2),
            block + layout_.scales_offset + row * (dim_ / kMainKvGroup), KeySlot::kFp4Main};
  }

  const AttentionSequence& sequence_;
  const EntryLayout& layout_;
  const int32_t* topk_;
  int64_t dim_;
  int64_t first_ = 0;
  int64_t num_window_ = 0;
  int64_t num_entries_ = 0;
};

/// The slots of one row of SlotAttention.
class SlotList {
 public:
  SlotList(const SlotAttentionParams& p, int64_t row) : p_(p), slots_(p.slots + row * p.num_slots) {}
  int64_t size() const { return p_.num_slots; }
  KeySlot At(int64_t i) const {
    if (slots_[i] < 0) return {};
    return {p_.kv + slots_[i] * p_.dim, nullptr, KeySlot::kBf16};
  }

 private:
  const SlotAttentionParams& p_;
  const int32_t* slots_;
};

/// Up to kHeadTile heads of one row over all of its keys.
template <class List>
void AttendRow(const KernelTable& kernels, const List& list, const AttendState& state, const float* sink,
               Bf16* out) {
  bool any = false;
  for (int64_t begin = 0; begin < list.size(); begin += kSlotBlock) {
    KeySlot slots[kSlotBlock];
    const int64_t count = std::min(kSlotBlock, list.size() - begin);
    bool block_any = false;
    for (int64_t i = 0; i < count; ++i) {
      slots[i] = list.At(begin + i);
      block_any = block_any || slots[i].kind != KeySlot::kNone;
    }
    if (!block_any) continue;  // nothing to add: maximum, sums and accumulators stay as they are
    any = true;
    kernels.decode_keys(slots, count, state.dim, state.tile, state.tile_stride);
    kernels.attend_block(state, slots, count);
  }
  if (any) {
    kernels.attend_finish(state, sink, out);
  } else {
    std::fill_n(out, state.heads * state.dim, Bf16{});
  }
}

template <class List, class Params>
void AttendRows(const OpContext& ctx, const KernelTable& kernels, const Params& p, int64_t list_work) {
  const int64_t head_tiles = CeilDiv(p.heads, kHeadTile);
  ForUnits(ctx, p.rows * head_tiles, p.rows * p.heads * p.dim * list_work * 2, ctx.workspace,
           AttentionThreadBytes(p.dim), [&](int64_t unit, Scratch memory) {
             const int64_t row = unit / head_tiles, head = unit % head_tiles * kHeadTile;
             const int64_t offset = (row * p.heads + head) * p.dim;
             const AttendState state =
                 MakeState(memory, p.q + offset, std::min(kHeadTile, p.heads - head), p.dim, p.scale);
             AttendRow(kernels, List(p, row), state, p.sink + head, p.out + offset);
           });
}

}  // namespace

size_t AttentionThreadBytes(int64_t dim) {
  return PieceBytes<float>(kSlotBlock * TileStride(dim)) + PieceBytes<double>(kHeadTile * kSlotBlock) +
         PieceBytes<float>(kHeadTile * kSlotBlock) + 2 * PieceBytes<double>(kHeadTile) +
         PieceBytes<double>(kHeadTile * TileStride(dim));
}

void CpuOps::SparseAttention(const OpContext& ctx, const SparseAttentionParams& p) const {
  AttendRows<KeyList>(ctx, kernels_, p, p.window + p.k);
}

void CpuOps::SlotAttention(const OpContext& ctx, const SlotAttentionParams& p) const {
  AttendRows<SlotList>(ctx, kernels_, p, p.num_slots);
}

}  // namespace deepinfer::kernels
