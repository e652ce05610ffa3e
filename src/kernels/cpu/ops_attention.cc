// Attention: walks each row's key list in blocks of 64 slots; a block is decoded once for up to 16 heads.
#include <cmath>

#include "kernels/cpu/back_end.h"
#include "tensor/quantize.h"

namespace deepinfer::kernels {
namespace {

int64_t TileStride(int64_t dim) { return RoundUp(dim, kTileAlign); }

/// Memory of one unit: the state of the softmax, and p and alpha of every block for the outputs that are computed again.
struct AttendMemory {
  AttendState state;
  float* p;       // [blocks, kHeadTile, kSlotBlock]
  double* alpha;  // [blocks, kHeadTile]

  AttendMemory(Scratch memory, const Bf16* q, int64_t heads, int64_t dim, int64_t list, float scale) {
    const int64_t stride = TileStride(dim), blocks = CeilDiv(list, kSlotBlock);
    state = {.q = q, .heads = heads, .dim = dim, .tile_stride = stride, .scale = scale};
    state.tile = memory.Take<float>(kSlotBlock * stride);
    state.scores = memory.Take<double>(kHeadTile * kSlotBlock);
    state.max = memory.Take<double>(kHeadTile);
    state.sum = memory.Take<double>(kHeadTile);
    state.acc = memory.Take<double>(kHeadTile * stride);
    state.ties = memory.Take<int32_t>(kHeadTile * dim);
    p = memory.Take<float>(blocks * kHeadTile * kSlotBlock);
    alpha = memory.Take<double>(blocks * kHeadTile);
    // The reference starts from a finite maximum, so that a block of absent slots leaves no NaN behind.
    std::fill_n(state.max, heads, -1e30);
    std::fill_n(state.sum, heads, 0.0);
    std::fill_n(state.acc, heads * stride, 0.0);
  }
};

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

/// Channel c of one key; exact.
double KeyValue(const KeySlot& slot, int64_t c) {
  const auto* codes = static_cast<const uint8_t*>(slot.data);
  const auto nibble = [&] { return E2m1ToFloat(static_cast<uint8_t>(codes[c / 2] >> (c % 2 * 4))); };
  const auto product = [](float code, float scale) {
    return static_cast<double>(code) * static_cast<double>(scale);
  };
  switch (slot.kind) {
    case KeySlot::kNone: return 0;
    case KeySlot::kFp8: return product(E4m3ToFloat(codes[c]), E8m0ToFloat(slot.scales[c / kQuantGroup]));
    case KeySlot::kFp4Main: return product(nibble(), E4m3ToFloat(slot.scales[c / kMainKvGroup]));
    case KeySlot::kFp4Index: return product(nibble(), E8m0ToFloat(slot.scales[c / kQuantGroup]));
    case KeySlot::kBf16: return static_cast<double>(ToFloat(static_cast<const Bf16*>(slot.data)[c]));
  }
  return 0;
}

/// Slots [begin, begin + kSlotBlock) of a list; `any`: one of them has a key.
struct SlotBlock {
  KeySlot slots[kSlotBlock];
  int64_t count = 0;
  bool any = false;

  template <class List>
  SlotBlock(const List& list, int64_t begin) : count(std::min(kSlotBlock, list.size() - begin)) {
    for (int64_t i = 0; i < count; ++i) {
      slots[i] = list.At(begin + i);
      any = any || slots[i].kind != KeySlot::kNone;
    }
  }
};

/// Outputs that lie near a tie of their rounding, computed again in double.
template <class List>
class ExactOutputs {
 public:
  ExactOutputs(const KernelTable& kernels, const List& list, const AttendMemory& memory, const float* sink)
      : kernels_(kernels), list_(list), memory_(memory), sink_(sink) {}

  /// Channel c of a head; the outputs of a head one after the other.
  Bf16 At(int64_t head, int64_t c) {
    const double sum = WeightedSum(head, c);
    if (head != head_) {
      head_ = head;
      denominator_ = memory_.state.sum[head];
      exact_denominator_ = false;
    }
    // The denominator's error is relative to the output, so that it decides far fewer roundings.
    constexpr double kDenominatorError = 0x1p-21;
    const auto rounds = [&](double change) { return ToBf16(sum / denominator_ * (1 + change)).bits; };
    if (!exact_denominator_ && rounds(-kDenominatorError) != rounds(kDenominatorError)) {
      denominator_ = ExactDenominator(head);
      exact_denominator_ = true;
    }
    return ToBf16(sum / denominator_);
  }

 private:
  double WeightedSum(int64_t head, int64_t c) const {
    double sum = 0;
    for (int64_t begin = 0; begin < list_.size(); begin += kSlotBlock) {
      const int64_t block = begin / kSlotBlock * kHeadTile + head;
      sum *= memory_.alpha[block];
      const int64_t count = std::min(kSlotBlock, list_.size() - begin);
      for (int64_t i = 0; i < count; ++i) {
        const auto p = static_cast<double>(memory_.p[block * kSlotBlock + i]);
        if (p != 0) sum += p * KeyValue(list_.At(begin + i), c);
      }
    }
    return sum;
  }

  double ExactDenominator(int64_t head) const {
    const AttendState& s = memory_.state;
    double sum = 0;
    for (int64_t begin = 0; begin < list_.size(); begin += kSlotBlock) {
      const SlotBlock block(list_, begin);
      if (!block.any) continue;
      kernels_.decode_keys(block.slots, block.count, s.dim, s.tile, s.tile_stride);
      sum += kernels_.exact_weights(s, head, block.slots, block.count);
    }
    return sum + std::exp(static_cast<double>(sink_[head]) - s.max[head]);
  }

  const KernelTable& kernels_;
  const List& list_;
  const AttendMemory& memory_;
  const float* sink_;
  int64_t head_ = -1;
  double denominator_ = 0;
  bool exact_denominator_ = false;
};

/// Up to kHeadTile heads of one row over all of its keys.
template <class List>
void AttendRow(const KernelTable& kernels, const List& list, const AttendMemory& memory, const float* sink,
               Bf16* out) {
  AttendState state = memory.state;
  bool any = false;
  for (int64_t begin = 0; begin < list.size(); begin += kSlotBlock) {
    const int64_t block = begin / kSlotBlock;
    state.p = memory.p + block * kHeadTile * kSlotBlock;
    state.alpha = memory.alpha + block * kHeadTile;
    const SlotBlock slots(list, begin);
    if (!slots.any) {  // nothing to add: maximum, sums and accumulators stay as they are
      std::fill_n(state.p, kHeadTile * kSlotBlock, 0.0f);
      std::fill_n(state.alpha, kHeadTile, 1.0);
      continue;
    }
    any = true;
    kernels.decode_keys(slots.slots, slots.count, state.dim, state.tile, state.tile_stride);
    kernels.attend_block(state, slots.slots, slots.count);
  }
  if (!any) {
    std::fill_n(out, state.heads * state.dim, Bf16{});
    return;
  }
  const int64_t ties = kernels.attend_finish(state, sink, out);
  ExactOutputs exact(kernels, list, memory, sink);
  for (int64_t i = 0; i < ties; ++i) {
    const int32_t at = state.ties[i];
    out[at] = exact.At(at / state.dim, at % state.dim);
  }
}

template <class List, class Params>
void AttendRows(const OpContext& ctx, const KernelTable& kernels, const Params& p, int64_t max_list) {
  const int64_t head_tiles = CeilDiv(p.heads, kHeadTile);
  ForUnits(ctx, p.rows * head_tiles, p.rows * p.heads * p.dim * max_list * 2, ctx.workspace,
           AttentionThreadBytes(p.dim, max_list), [&](int64_t unit, Scratch scratch) {
             const int64_t row = unit / head_tiles, head = unit % head_tiles * kHeadTile;
             const int64_t offset = (row * p.heads + head) * p.dim;
             const AttendMemory memory(scratch, p.q + offset, std::min(kHeadTile, p.heads - head), p.dim,
                                       max_list, p.scale);
             AttendRow(kernels, List(p, row), memory, p.sink + head, p.out + offset);
           });
}

}  // namespace

size_t AttentionThreadBytes(int64_t dim, int64_t max_list) {
  const int64_t stride = TileStride(dim), blocks = CeilDiv(max_list, kSlotBlock);
  return PieceBytes<float>(kSlotBlock * stride) + PieceBytes<double>(kHeadTile * kSlotBlock) +
         2 * PieceBytes<double>(kHeadTile) + PieceBytes<double>(kHeadTile * stride) +
         PieceBytes<int32_t>(kHeadTile * dim) + PieceBytes<float>(blocks * kHeadTile * kSlotBlock) +
         PieceBytes<double>(blocks * kHeadTile);
}

void CpuOps::SparseAttention(const OpContext& ctx, const SparseAttentionParams& p) const {
  AttendRows<KeyList>(ctx, kernels_, p, p.window + p.k);
}

void CpuOps::SlotAttention(const OpContext& ctx, const SlotAttentionParams& p) const {
  AttendRows<SlotList>(ctx, kernels_, p, p.num_slots);
}

}  // namespace deepinfer::kernels
