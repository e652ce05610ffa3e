// The three isolating splits of the released pre-tokenizer, as a scanner (spec: checkpoint.md §8.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tokenizer/unicode.h"

namespace deepinfer {

/// The regular expressions this scanner implements, as `tokenizer.json` spells them (CR and LF may also stand there as
/// the two-character escapes \r and \n).
inline constexpr std::string_view kSplitNumbers = R"(\p{N}{1,3})";
inline constexpr std::string_view kSplitCjk = "[一-龥぀-ゟ゠-ヿ]+";
inline constexpr std::string_view kSplitWords =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Cuts valid UTF-8 into the pieces that BPE works on. Concatenated, the pieces are the text. Linear time.
///
/// The splits are nested: the second works inside the pieces of the first, the third inside those of the second, and a
/// look-ahead never sees beyond its own piece. So the text falls into zones (numbers; CJK; everything else), and the
/// third split takes the border of a zone for the end of the text.
class PieceScanner {
 public:
  /// `text` must be valid UTF-8 and outlive the scanner.
  explicit PieceScanner(std::string_view text) : text_(text), table_(unicode::CharTable::Get()) {}

  /// Sets `piece` to the next piece; false at the end of the text.
  bool Next(std::string_view* piece);

 private:
  enum class Zone : uint8_t { kNumber, kCjk, kOther };
  struct Char {
    unicode::CharClass char_class;
    Zone zone;
    uint8_t length;  // in bytes; 0 = end of the zone
    uint8_t ascii;   // the character itself when ASCII, else 0x80
  };

  Char Decode(size_t pos) const;
  /// The character at `pos`, or one of length 0 when the zone ends there.
  Char Peek(size_t pos, Zone zone) const;
  size_t ScanNumbers(size_t pos) const;
  /// End of the match of the third split at `pos`; `pos` itself when no alternative matches.
  size_t MatchWord(size_t pos, Zone zone) const;
  size_t MatchSpaces(size_t pos, Zone zone) const;
  size_t SkipLetters(size_t pos, Zone zone) const;

  std::string_view text_;
  const unicode::CharTable& table_;
  size_t pos_ = 0;
};

}  // namespace deepinfer
