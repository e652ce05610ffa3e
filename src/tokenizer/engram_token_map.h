// The compressed token ids that Engram hashes: tokens that differ only in case, accents or white space share one
// (spec: checkpoint.md §9.1).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer {

/// Table token id -> compressed id, for every id of the model's vocabulary. Compressed ids are 0 … num_classes() - 1
/// without a gap.
class EngramTokenMap {
 public:
  /// Reads a sidecar `engram_token_map.i32`: `vocab_size` little-endian int32 without header.
  /// `num_classes` is the config's `engram_compressed_vocab_size`.
  /// Errors: those of ReadFile; kDataLoss when the length is wrong, an id is negative, the largest id + 1 is not
  /// `num_classes`, a class has no token, or the sizes are the released ones but the digest is not.
  static Result<EngramTokenMap> LoadSidecar(const std::string& path, int64_t vocab_size, int64_t num_classes);

  /// Computes the table from the tokenizer, with the Unicode 14.0 rules of §9.1.
  /// Errors: kDataLoss when the tokenizer has not `vocab_size` tokens, the number of classes is not `num_classes`, or
  /// the sizes are the released ones but the digest is not.
  static Result<EngramTokenMap> Derive(const Tokenizer& tokenizer, int64_t vocab_size, int64_t num_classes);

  std::span<const int32_t> ids() const { return ids_; }
  int32_t num_classes() const { return num_classes_; }
  /// SHA-256 of the table as little-endian int32, 64 hexadecimal digits.
  const std::string& digest() const { return digest_; }

 private:
  static Result<EngramTokenMap> FromIds(std::vector<int32_t> ids, int64_t num_classes,
                                        const std::string& where);

  std::vector<int32_t> ids_;
  int32_t num_classes_ = 0;
  std::string digest_;
};

/// Sizes and digest of the released model's table.
inline constexpr int64_t kReleasedVocabSize = 129280;
inline constexpr int64_t kReleasedEngramClasses = 99092;
inline constexpr std::string_view kReleasedEngramMapDigest =
    "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481";

/// Compressed id of every token, numbered by first appearance: the rule itself, without the checks.
std::vector<int32_t> ComputeEngramClasses(const Tokenizer& tokenizer);

/// The text under which tokens are the same; `utf8` must be valid. May be empty.
std::string NormalizeForEngram(std::string_view utf8);

}  // namespace deepinfer
