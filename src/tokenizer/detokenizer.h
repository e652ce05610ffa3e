// Token ids to text, as they are generated.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace deepinfer {

/// Makes valid UTF-8 of bytes that arrive in pieces, as the WHATWG "UTF-8 decode" does, so the text does not depend on the cutting:
/// up to 3 bytes of an unfinished character are held back, and what can no longer become a character is one U+FFFD for each longest
/// beginning of a character (spec: checkpoint.md §8.5).
class Utf8Repairer {
 public:
  /// Appends to `text` what these bytes complete.
  void Append(std::string_view bytes, std::string* text);
  /// Ends the text: U+FFFD when an unfinished character is held back, else nothing. The object can then be used anew.
  void Finish(std::string* text);
  /// Bytes held back now, at most 3.
  size_t num_pending_bytes() const { return num_pending_; }

 private:
  char pending_[4] = {};
  size_t num_pending_ = 0;
};

/// Turns the bytes of tokens into valid UTF-8 (Utf8Repairer).
class Detokenizer {
 public:
  explicit Detokenizer(std::shared_ptr<const Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}

  /// The text that these ids complete; it may be empty. Ids without a token add nothing.
  std::string Push(std::span<const int32_t> ids);
  std::string Push(int32_t id) { return Push({&id, 1}); }
  /// Ends the text: U+FFFD when an unfinished character is held back, else nothing. The object can then be used anew.
  std::string Finish();
  /// Bytes held back now, at most 3.
  size_t num_pending_bytes() const { return repairer_.num_pending_bytes(); }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  Utf8Repairer repairer_;
};

/// The text of a whole list of ids, with U+FFFD for what is not UTF-8.
std::string DecodeText(const Tokenizer& tokenizer, std::span<const int32_t> ids);

}  // namespace deepinfer
