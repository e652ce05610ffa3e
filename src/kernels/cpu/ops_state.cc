// Operations that write a sequence's state: window ring, compressed entries, compressor tail.
#include <cstring>

#include "kernels/cpu/back_end.h"
#include "tensor/quantize.h"

namespace deepinfer::kernels {

void CpuOps::QuantizeWindow(const OpContext& ctx, const QuantizeWindowParams& p) const {
  ForRows(ctx, p.rows, p.dim * 20, [&](int64_t begin, int64_t end) {
    // Groups do not know their row: a range of rows is one long row.
    QuantizeFp8(p.x + begin * p.dim, (end - begin) * p.dim, p.codes + begin * p.dim,
                p.scales + begin * p.dim / kQuantGroup);
  });
}

void CpuOps::CommitWindow(const OpContext& ctx, const CommitWindowParams& p) const {
  const int64_t scale_dim = p.dim / kQuantGroup;
  ForRows(ctx, p.rows, p.dim / 8, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const WindowView& window = p.sequences[static_cast<size_t>(p.seq[t])];
      const int64_t staged = p.positions[t] - window.chunk_begin, slot = p.positions[t] % window.capacity;
      std::memcpy(window.codes + slot * p.dim, window.chunk_codes + staged * p.dim,
                  static_cast<size_t>(p.dim));
      std::memcpy(window.scales + slot * scale_dim, window.chunk_scales + staged * scale_dim,
                  static_cast<size_t>(scale_dim));
    }
  });
}

void CpuOps::WriteEntries(const OpContext& ctx, const WriteEntriesParams& p) const {
  const EntryLayout& layout = p.layout;
  const bool main = layout.format == EntryFormat::kFp4Main;
  const int64_t code_bytes = layout.dim / 2, scale_bytes = layout.dim / (main ? kMainKvGroup : kQuantGroup);
  ForRows(ctx, p.rows, layout.dim * 20, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t entry = p.entries[t], in_block = entry % layout.entries_per_block;
      std::byte* block = p.sequences[static_cast<size_t>(p.seq[t])].blocks[entry / layout.entries_per_block];
      auto* codes = reinterpret_cast<uint8_t*>(block) + layout.codes_offset + in_block * code_bytes;
      auto* scales = reinterpret_cast<uint8_t*>(block) + layout.scales_offset + in_block * scale_bytes;
      (main ? QuantizeFp4Main : QuantizeFp4Index)(p.x + t * layout.dim, layout.dim, codes, scales);
    }
  });
}

namespace {

struct TailRow {
  const float* content;
  const float* gate;
};

TailRow FindTailRow(const TailView& tail, int64_t token, int64_t dim) {
  if (token >= tail.chunk_begin) {
    const int64_t row = token - tail.chunk_begin;
    return {tail.chunk_content + row * dim, tail.chunk_gate + row * dim};
  }
  const int64_t slot = token % tail.capacity;
  return {tail.content + slot * dim, tail.gate + slot * dim};
}

}  // namespace

void CpuOps::CompressorPool(const OpContext& ctx, const CompressorPoolParams& p) const {
  // The pointers of a group's tokens; longer groups than this do not exist (ratios are 1 and 2).
  constexpr int64_t kMaxRatio = 128;
  ForRows(ctx, p.groups, p.dim * p.ratio * 8, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const TailView& tail = p.sequences[static_cast<size_t>(p.seq[g])];
      const float* content[kMaxRatio];
      const float* gate[kMaxRatio];
      for (int64_t i = 0; i < p.ratio; ++i) {
        const TailRow row = FindTailRow(tail, p.ratio * p.entries[g] + i, p.dim);
        content[i] = row.content;
        gate[i] = row.gate;
      }
      kernels_.compressor_pool(content, gate, p.ratio, p.dim, p.latent + g * p.dim);
    }
  });
}

void CpuOps::CommitTail(const OpContext& ctx, const CommitTailParams& p) const {
  const size_t bytes = static_cast<size_t>(p.dim) * sizeof(float);
  ForRows(ctx, p.rows, p.dim / 2, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const TailView& tail = p.sequences[static_cast<size_t>(p.seq[t])];
      const int64_t row = p.positions[t] - tail.chunk_begin, slot = p.positions[t] % tail.capacity;
      std::memcpy(tail.content + slot * p.dim, tail.chunk_content + row * p.dim, bytes);
      std::memcpy(tail.gate + slot * p.dim, tail.chunk_gate + row * p.dim, bytes);
    }
  });
}

}  // namespace deepinfer::kernels
