#include "kernels/sequence_data.h"

#include <algorithm>

#include "tensor/quantize.h"

namespace deepinfer::kernels::testing {

uint8_t RandomE4m3(Rng& rng) {
  const auto code = static_cast<uint8_t>(rng.Int(0, 255));
  return (code & 0x7F) == 0x7F ? uint8_t{0} : code;
}

namespace {

/// Codes and scales whose values are of order one, as those of keys are.
void FillFp8Rows(Rng& rng, int64_t rows, int64_t dim, std::vector<uint8_t>* codes,
                 std::vector<uint8_t>* scales) {
  const std::vector<Bf16> x = NormalBf16(rng, rows * dim);
  codes->resize(x.size());
  scales->resize(x.size() / kQuantGroup);
  QuantizeFp8(x.data(), rows * dim, codes->data(), scales->data());
}

}  // namespace

RandomWindows::RandomWindows(Rng& rng, int64_t sequences, int64_t dim, int64_t window)
    : capacity_(window + rng.Pick<int64_t>({0, 1, 12})) {
  for (int64_t s = 0; s < sequences; ++s) {
    Ring ring;
    ring.chunk_begin = static_cast<int32_t>(rng.Chance(0.3) ? 0 : rng.Int(0, 5 * capacity_));
    ring.chunk_rows = rng.Chance(0.3) ? rng.Int(0, 1) : rng.Int(1, 2 * window + 3);
    if (ring.chunk_begin == 0)
      ring.chunk_rows = std::max<int64_t>(ring.chunk_rows, 1);  // some row must exist
    if (ring.chunk_begin > 0 && rng.Chance(0.4))
      ring.first = static_cast<int32_t>(rng.Int(0, ring.chunk_begin));
    FillFp8Rows(rng, capacity_, dim, &ring.codes, &ring.scales);
    FillFp8Rows(rng, ring.chunk_rows, dim, &ring.chunk_codes, &ring.chunk_scales);
    rings_.push_back(std::move(ring));
  }
}

std::vector<WindowView> RandomWindows::Views() {
  std::vector<WindowView> views;
  for (Ring& ring : rings_) {
    WindowView view;
    view.codes = ring.codes.data();
    view.scales = ring.scales.data();
    view.capacity = capacity_;
    view.first = ring.first;
    view.chunk_begin = ring.chunk_begin;
    view.chunk_codes = ring.chunk_codes.data();
    view.chunk_scales = ring.chunk_scales.data();
    views.push_back(view);
  }
  return views;
}

std::vector<uint8_t> RandomWindows::RingBytes() const {
  std::vector<uint8_t> bytes;
  for (const Ring& ring : rings_) {
    bytes.insert(bytes.end(), ring.codes.begin(), ring.codes.end());
    bytes.insert(bytes.end(), ring.scales.begin(), ring.scales.end());
  }
  return bytes;
}

RandomEntries::RandomEntries(Rng& rng, EntryFormat format, int64_t dim, int64_t sequences, int64_t entries) {
  const bool is_main = format == EntryFormat::kFp4Main;
  const int64_t scale_bytes = dim / (is_main ? kMainKvGroup : kQuantGroup);
  layout_.format = format;
  layout_.dim = dim;
  layout_.entries_per_block = rng.Pick<int64_t>({1, 3, 8, 64, 128});
  layout_.codes_offset = rng.Int(0, 40);
  layout_.scales_offset = layout_.codes_offset + layout_.entries_per_block * dim / 2 + rng.Int(0, 40);
  if (rng.Chance(0.3)) {  // scales before the codes
    layout_.scales_offset = rng.Int(0, 9);
    layout_.codes_offset = layout_.scales_offset + layout_.entries_per_block * scale_bytes;
  }
  const int64_t block_bytes = std::max(layout_.codes_offset + layout_.entries_per_block * dim / 2,
                                       layout_.scales_offset + layout_.entries_per_block * scale_bytes);
  const int64_t num_blocks = (entries + layout_.entries_per_block - 1) / layout_.entries_per_block;
  blocks_.resize(static_cast<size_t>(sequences));
  for (auto& blocks : blocks_) {
    for (int64_t b = 0; b < num_blocks; ++b) {
      std::vector<std::byte> block(static_cast<size_t>(block_bytes));
      for (std::byte& byte : block) byte = static_cast<std::byte>(rng.Int(0, 255));
      for (int64_t i = 0; i < layout_.entries_per_block * scale_bytes; ++i) {
        // Of order one; the scales of the main form are E4M3 numbers without a sign.
        block[static_cast<size_t>(layout_.scales_offset + i)] =
            static_cast<std::byte>(is_main ? rng.Int(32, 56) : rng.Int(122, 127));
      }
      blocks.push_back(std::move(block));
    }
  }
}

std::vector<BlockTable> RandomEntries::Tables() {
  pointers_.clear();
  for (auto& blocks : blocks_) {
    std::vector<std::byte*>& pointers = pointers_.emplace_back();
    for (auto& block : blocks) pointers.push_back(block.data());
  }
  std::vector<BlockTable> tables;
  for (const auto& pointers : pointers_) tables.push_back({pointers.data()});
  return tables;
}

std::vector<uint8_t> RandomEntries::AllBytes() const {
  std::vector<uint8_t> bytes;
  for (const auto& blocks : blocks_) {
    for (const auto& block : blocks) {
      for (std::byte byte : block) bytes.push_back(static_cast<uint8_t>(byte));
    }
  }
  return bytes;
}

}  // namespace deepinfer::kernels::testing
