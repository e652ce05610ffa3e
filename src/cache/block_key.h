// Names of blocks of global KV: a chain of hashes over everything that the bytes of a block depend on (spec: serving.md §3.3).
// The keys are the same on every machine and in every build, so that tiers and transfers can use them too.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/sha256.h"

namespace deepinfer::cache {

using Digest = Sha256Digest;

/// What all blocks of one chain share. Fields that are not used stay zero.
struct ChainIdentity {
  Digest model{};   // fingerprint of checkpoint, config and tokenizer
  Digest format{};  // fingerprint of block layout, window, ratios, sources, rope
  uint32_t numeric_class =
      0;  // back end, instruction set, index-score mode: kernels with other bits have another number
  Digest adapter{};
  uint8_t exactness = 0;  // domain; 0 for the index in memory, which keeps the class beside each block
  Digest salt{};          // zero: the shared domain; otherwise a keyed hash of the tenant and its own salt
};

/// Key "before the first block" of a chain.
Digest RootKey(const ChainIdentity& identity);

/// A span of positions whose content the token ids do not tell, such as an image.
struct ContentSpan {
  uint8_t kind = 0;
  int64_t begin = 0;  // first position
  int64_t length = 0;
  Digest content{};  // hash of the preprocessed content with shape, type and preprocessor version
};

/// Longest span that a key can describe: offsets inside it are 16-bit numbers.
inline constexpr int64_t kMaxSpanLength = 65'536;

/// The part of a span that lies in one block.
struct BlockItem {
  uint8_t kind = 0;
  uint16_t offset = 0;  // of the part's first position inside the span
  uint16_t length = 0;  // positions in this block
  Digest content{};

  bool operator==(const BlockItem&) const = default;
};

/// Computes keys; keeps its hash state between calls.
class BlockHasher {
 public:
  virtual ~BlockHasher() = default;
  /// Key of the block with these ids (one block's worth) and items behind the block (or root) with key `parent`.
  virtual Digest BlockKey(const Digest& parent, std::span<const int32_t> ids,
                          std::span<const BlockItem> items) = 0;
};

/// SHA-256(parent ‖ ids as u32le ‖ u16le number of items ‖ items as (u8 kind, u16le offset, u16le length, content)).
class Sha256BlockHasher final : public BlockHasher {
 public:
  Digest BlockKey(const Digest& parent, std::span<const int32_t> ids,
                  std::span<const BlockItem> items) override;

 private:
  Sha256 hash_;
};

}  // namespace deepinfer::cache
