// A pull scanner for the two JSON files that can be large and hostile: safetensors headers and shard indexes. It never builds a
// tree, so its memory does not depend on the text. Internal to the checkpoint module.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace deepinfer {

/// Reads strict JSON token by token. The text is valid UTF-8 (the caller has checked) and outlives the scanner. All errors are
/// kDataLoss with the byte offset.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  /// Skips white space, then consumes `c` if it comes next.
  bool Consume(char c);
  /// As Consume, or an error.
  Status Expect(char c);
  /// Appends a string, unescaped, to `out`; more than `max_bytes` bytes are an error, as are lone surrogates.
  Status ReadString(size_t max_bytes, std::string* out);
  /// A number written as digits only, without sign, fraction, exponent or leading zero, below 2^64.
  Status ReadUnsigned(uint64_t* out);
  /// Skips any value that nests at most `max_depth` deep.
  Status SkipValue(int max_depth);

  size_t offset() const { return offset_; }
  /// What follows the current place.
  std::string_view rest() const { return text_.substr(offset_); }
  Status Error(std::string message) const;

 private:
  void SkipWhitespace();
  Status ReadEscape(std::string* out);
  Status ReadHex4(uint32_t* out);
  Status SkipNumber();
  Status SkipContainer(char close, bool keys, int max_depth);

  std::string_view text_;
  size_t offset_ = 0;
};

}  // namespace deepinfer
