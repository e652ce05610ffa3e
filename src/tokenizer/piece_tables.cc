#include "tokenizer/piece_tables.h"

#include <algorithm>
#include <bit>

namespace deepinfer {

void ShortTokenIndex::Reserve(size_t count) {
  slots_.assign(std::bit_ceil(std::max<size_t>(count, 8) * 2), Slot{});
}

void ShortTokenIndex::Insert(std::string_view bytes, int32_t id) {
  size_t at = HashBytes(bytes) & (slots_.size() - 1);
  while (slots_[at].size != 0) at = (at + 1) & (slots_.size() - 1);
  slots_[at].id = id;
  slots_[at].size = static_cast<uint8_t>(bytes.size());
  std::memcpy(slots_[at].bytes.data(), bytes.data(), bytes.size());
}

}  // namespace deepinfer
