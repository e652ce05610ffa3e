// The tokenizer of the model: text to token ids and back (spec: checkpoint.md §8).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/piece_tables.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/tokenizer_json.h"

namespace deepinfer {

struct EncodeOptions {
  /// Whether texts of added tokens (`<｜User｜>`, `<think>`, …) become those tokens. Only for text that nobody outside
  /// wrote; false encodes every character as ordinary text.
  bool added_tokens = false;
  /// Longest text in bytes; never more than 2^31 - 1.
  size_t max_bytes = size_t{64} << 20;
  /// Largest number of ids (default: context length of the released model).
  size_t max_tokens = 1'048'576;
};

/// A part of a text, with its origin.
struct TextRun {
  std::string_view text;
  /// True when a template wrote it: added tokens are recognised. False for bytes from a client.
  bool trusted = false;
};

/// A part of a text that stands for a token, whatever its bytes are.
struct TokenSpan {
  size_t begin, end;
  int32_t id;
};

/// Byte-level BPE tokenizer. Immutable: one object serves any number of threads.
class Tokenizer {
 public:
  /// Reads a `tokenizer.json` of at most 64 MiB. Everything the file declares must be what this class implements.
  /// Errors: those of ReadFile; kDataLoss naming the field; kResourceExhausted.
  static Result<std::shared_ptr<const Tokenizer>> Load(const std::string& path);
  /// The same from the text of the file.
  static Result<std::shared_ptr<const Tokenizer>> FromJson(std::string_view json);

  /// Ids of a text. The bytes of the ids, put together, are the text (spec: checkpoint.md §8.2). Nothing is added: the
  /// begin-of-sentence token, too, comes from the text.
  /// Errors: kInvalidArgument when the text is not UTF-8, with the offset of the first bad byte; kResourceExhausted over
  /// a limit of the options.
  Result<std::vector<int32_t>> Encode(std::string_view utf8, const EncodeOptions& options = {}) const;

  /// Ids of the runs put together to one text. An added token is recognised only where all of its bytes come from
  /// trusted runs; the rest is encoded as one text, so merges across the seams stay as the model was trained (spec:
  /// checkpoint.md §8.4 "Injection"). `options.added_tokens` is ignored. Errors as for Encode; offsets count from the
  /// begin of the first run.
  Result<std::vector<int32_t>> EncodeRuns(std::span<const TextRun> runs,
                                          const EncodeOptions& options = {}) const;

  /// Ids of a text in which the caller has marked the tokens: ascending parts that do not overlap. What stands between two of them is
  /// encoded as ordinary text. `options.added_tokens` is ignored. Errors as for Encode.
  Result<std::vector<int32_t>> EncodeWithTokens(std::string_view utf8, std::span<const TokenSpan> tokens,
                                                const EncodeOptions& options = {}) const;

  /// Bytes of the ids put together; they may be invalid UTF-8 (Detokenizer repairs that). Ids without a token, such as
  /// padding rows of a model's vocabulary, add nothing.
  std::string Decode(std::span<const int32_t> ids) const;

  /// Bytes of one token; empty when `id` has no token. No token is empty. Valid as long as this object.
  std::string_view TokenBytes(int32_t id) const;

  /// The token as the vocabulary spells it, one printable symbol a byte; added tokens are literal. This is the key of
  /// TokenToId, and unlike TokenBytes always valid UTF-8.
  std::string TokenString(int32_t id) const;

  /// The id whose TokenString this is.
  std::optional<int32_t> TokenToId(std::string_view token) const;

  /// Byte range [first, second) of each id within Decode(ids), which for the result of an Encode is its text.
  std::vector<std::pair<size_t, size_t>> TokenOffsets(std::span<const int32_t> ids) const;

  /// Number of ids; they are 0 … vocab_size() - 1 without a gap, added tokens included.
  int32_t vocab_size() const { return spec_.token_bytes.size(); }
  /// Whether the id is in the list of added tokens.
  bool IsAdded(int32_t id) const { return (FlagsOf(id) & kAddedFlag) != 0; }
  /// The flag of that list. It does not say what a user may see: `<｜User｜>` has it unset (spec: checkpoint.md §8.3).
  bool IsSpecial(int32_t id) const { return (FlagsOf(id) & kSpecialFlag) != 0; }

  /// The id of a control token, looked up by its text among the added tokens.
  std::optional<int32_t> RoleId(TokenRole role) const { return role_ids_[static_cast<size_t>(role)]; }
  /// Ids that are never valid output and that generation suppresses, ascending (spec: checkpoint.md §8.5).
  std::span<const int32_t> never_valid_output() const { return never_valid_output_; }

 private:
  static constexpr uint8_t kAddedFlag = 1, kSpecialFlag = 2;

  class Encoder;

  explicit Tokenizer(TokenizerSpec spec);
  uint8_t FlagsOf(int32_t id) const {
    return id >= 0 && id < vocab_size() ? flags_[static_cast<size_t>(id)] : uint8_t{0};
  }
  void FindWholeTokens();
  void IndexAddedTokens();

  TokenizerSpec spec_;
  Bpe bpe_;
  std::vector<uint8_t> flags_;  // by id
  // Tokens that BPE of their own bytes gives again: the short ones by their bytes, and which of the longer ones by id.
  ShortTokenIndex short_tokens_;
  std::vector<bool> encodes_to_self_;
  // Added tokens of the two passes: `normalized` false, then true (spec: checkpoint.md §8.4).
  std::array<AddedTokenSet, 2> added_by_pass_;
  std::vector<std::pair<std::string, int32_t>>
      literal_ids_;  // sorted: tokens that TokenString gives literally
  std::array<std::optional<int32_t>, kNumTokenRoles> role_ids_;
  std::vector<int32_t> never_valid_output_;
};

}  // namespace deepinfer
