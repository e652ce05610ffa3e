// Unicode 14.0 data, as far as the tokenizer needs it. The values are in the generated unicode_tables.cc
// (tools/unicode/generate_tables.py); unicode.h is the interface for the rest of the module.
#pragma once

#include <cstdint>
#include <span>

namespace deepinfer::unicode {

/// What the pre-tokenizer distinguishes: the general categories L, M, N, P, S by their first letter, and the property
/// White_Space. No code point is in two of them (spec: checkpoint.md §8.2).
enum class CharClass : uint8_t { kOther, kLetter, kMark, kNumber, kPunctuation, kSymbol, kSpace };

struct ClassRange {
  char32_t first, last;
  CharClass value;
};
/// Canonical combining class of a range; code points outside every range have class 0.
struct CombiningRange {
  char32_t first, last;
  uint8_t value;
};
/// Full compatibility decomposition: `length` code points of the pool from `offset`.
struct Decomposition {
  char32_t code_point;
  uint16_t offset, length;
};
struct CasePair {
  char32_t upper, lower;
};

/// All tables are sorted by code point. Code points in no range are of class kOther.
std::span<const ClassRange> ClassRanges();
std::span<const CombiningRange> CombiningRanges();
/// Without the Hangul syllables, which decompose by arithmetic.
std::span<const Decomposition> Decompositions();
std::span<const char32_t> DecompositionPool();
std::span<const CasePair> LowerCasePairs();

}  // namespace deepinfer::unicode
