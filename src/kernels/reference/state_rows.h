// Where the packed rows of a sequence's state lie (spec: model.md §11, kernels/ops.h).
#pragma once

#include "kernels/ops.h"
#include "tensor/quantize.h"

namespace deepinfer::kernels::reference {

/// The packed window row of position p: staged in this call, or in the ring.
inline void ReadWindowRow(const WindowView& window, int32_t position, int64_t dim, Bf16* out) {
  const int64_t groups = dim / kQuantGroup;
  if (position >= window.chunk_begin) {
    const int64_t row = position - window.chunk_begin;
    DequantizeFp8(window.chunk_codes + row * dim, window.chunk_scales + row * groups, dim, out);
  } else {
    const int64_t slot = position % window.capacity;
    DequantizeFp8(window.codes + slot * dim, window.scales + slot * groups, dim, out);
  }
}

struct EntryRow {
  uint8_t* codes;
  uint8_t* scales;
};

/// Entry j of a sequence: block j / entries_per_block, row j % entries_per_block.
inline EntryRow LocateEntry(const EntryLayout& layout, const BlockTable& table, int64_t entry) {
  const int64_t group = layout.format == EntryFormat::kFp4Main ? kMainKvGroup : kQuantGroup;
  auto* block = reinterpret_cast<uint8_t*>(table.blocks[entry / layout.entries_per_block]);
  const int64_t row = entry % layout.entries_per_block;
  return {block + layout.codes_offset + row * (layout.dim / 2),
          block + layout.scales_offset + row * (layout.dim / group)};
}

inline void ReadEntry(const EntryLayout& layout, const BlockTable& table, int64_t entry, Bf16* out) {
  const EntryRow row = LocateEntry(layout, table, entry);
  if (layout.format == EntryFormat::kFp4Main) {
    DequantizeFp4Main(row.codes, row.scales, layout.dim, out);
  } else {
    DequantizeFp4Index(row.codes, row.scales, layout.dim, out);
  }
}

}  // namespace deepinfer::kernels::reference
