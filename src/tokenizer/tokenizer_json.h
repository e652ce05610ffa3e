// Reading `tokenizer.json`: everything it declares is checked against what this module implements, and what is not
// expected is refused by the name of its field, so that a foreign file never gives silently wrong ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/bpe.h"

namespace deepinfer {

struct AddedToken {
  int32_t id;
  std::string content;
  bool normalized;
  bool special;
};

/// The content of a valid `tokenizer.json` (spec: checkpoint.md §8).
struct TokenizerSpec {
  /// Token bytes by id, base vocabulary first, then the added tokens that are not in it.
  ByteStrings token_bytes;
  int32_t base_vocab_size;
  /// By id of the base vocabulary: false for strings with characters outside the byte symbols, which stand for themselves.
  std::vector<bool> is_byte_level;
  /// Finds byte-level tokens by their bytes.
  StringIndex byte_level_index;
  std::vector<int32_t> byte_ids;  // by byte
  std::vector<Merge> merges;      // by rank
  std::vector<AddedToken> added;  // ids ascend
};

/// Limits on what a file may ask for, far above the released file (128,815 tokens, strings of at most 384 bytes).
inline constexpr size_t kMaxTokenizerBytes = size_t{64} << 20;
inline constexpr size_t kMaxTokenizerValues = 4'000'000;  // so merge rules stay below kMaxMerges, too
static_assert(kMaxTokenizerValues < kMaxMerges);
inline constexpr size_t kMaxAddedTokenBytes = 1024;
inline constexpr size_t kMaxAddedTotalBytes = size_t{1} << 20;

/// Errors: kDataLoss with the name of the field (`model.merges[17]`), kResourceExhausted over a limit.
Result<TokenizerSpec> ParseTokenizerJson(std::string_view text);

}  // namespace deepinfer
