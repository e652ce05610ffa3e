// Unicode 14.0 for the tokenizer: character classes, compatibility decomposition, lower case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "tokenizer/unicode_tables.h"

namespace deepinfer::unicode {

/// Valid UTF-8 to code points.
std::u32string ToCodePoints(std::string_view utf8);

/// Per-character facts, one byte: the CharClass, and whether the character is in the CJK set of the second split of the
/// pre-tokenizer, U+4E00-9FA5, U+3040-309F or U+30A0-30FF (spec: checkpoint.md §8.2).
inline constexpr uint8_t kClassMask = 0x0F;
inline constexpr uint8_t kCjkBit = 0x10;

/// Table of those bytes for every code point, in blocks of 256. Built once per process.
class CharTable {
 public:
  static const CharTable& Get();
  /// `code_point` <= U+10FFFF.
  uint8_t Info(char32_t code_point) const {
    return blocks_[block_of_[code_point >> 8] + (code_point & 0xFF)];
  }
  CharClass Class(char32_t code_point) const { return static_cast<CharClass>(Info(code_point) & kClassMask); }

 private:
  CharTable();
  std::u32string block_of_;  // code_point >> 8 -> offset of its block
  std::basic_string<uint8_t> blocks_;
};

/// NFKD. Equal to NFKC followed by NFD, for every string: both composition steps in between are undone by NFD.
std::u32string CompatibilityDecompose(std::u32string_view text);

/// Lower case of one character, without context (spec: checkpoint.md §9.1).
char32_t ToLower(char32_t code_point);

}  // namespace deepinfer::unicode
