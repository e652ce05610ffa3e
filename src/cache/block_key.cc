#include "cache/block_key.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace deepinfer::cache {
namespace {

static_assert(std::endian::native == std::endian::little, "keys hold numbers in little-endian order");

template <typename T>
void UpdateWith(Sha256& hash, const T& value) {
  hash.Update(std::as_bytes(std::span(&value, 1)));
}

}  // namespace

Digest RootKey(const ChainIdentity& identity) {
  Sha256 hash;
  hash.Update(std::string_view("DSKV1"));
  UpdateWith(hash, identity.model);
  UpdateWith(hash, identity.format);
  UpdateWith(hash, identity.numeric_class);
  UpdateWith(hash, identity.adapter);
  UpdateWith(hash, identity.exactness);
  UpdateWith(hash, identity.salt);
  return hash.Finish();
}

Digest Sha256BlockHasher::BlockKey(const Digest& parent, std::span<const int32_t> ids,
                                   std::span<const BlockItem> items) {
  hash_.Reset();
  UpdateWith(hash_, parent);
  hash_.Update(std::as_bytes(ids));
  UpdateWith(hash_, static_cast<uint16_t>(items.size()));
  for (const BlockItem& item : items) {
    UpdateWith(hash_, item.kind);
    UpdateWith(hash_, item.offset);
    UpdateWith(hash_, item.length);
    UpdateWith(hash_, item.content);
  }
  return hash_.Finish();
}

}  // namespace deepinfer::cache
