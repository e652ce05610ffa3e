#include "tokenizer/pretokenizer.h"

namespace deepinfer {
namespace {

using unicode::CharClass;

bool IsLetterOrMark(CharClass c) { return c == CharClass::kLetter || c == CharClass::kMark; }
bool IsPunctuationOrSymbol(CharClass c) { return c == CharClass::kPunctuation || c == CharClass::kSymbol; }
bool IsAsciiLetter(uint8_t c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }
bool IsLineBreak(uint8_t c) { return c == '\r' || c == '\n'; }

}  // namespace

inline PieceScanner::Char PieceScanner::Decode(size_t pos) const {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text_[pos + i]); };
  const uint8_t lead = at(0);
  char32_t code_point = lead;
  uint8_t length = 1;
  if (lead >= 0xF0) {
    code_point = (lead & 0x07u) << 18 | (at(1) & 0x3Fu) << 12 | (at(2) & 0x3Fu) << 6 | (at(3) & 0x3Fu);
    length = 4;
  } else if (lead >= 0xE0) {
    code_point = (lead & 0x0Fu) << 12 | (at(1) & 0x3Fu) << 6 | (at(2) & 0x3Fu);
    length = 3;
  } else if (lead >= 0xC0) {
    code_point = (lead & 0x1Fu) << 6 | (at(1) & 0x3Fu);
    length = 2;
  }
  const uint8_t info = table_.Info(code_point);
  const auto char_class = static_cast<CharClass>(info & unicode::kClassMask);
  const Zone zone = char_class == CharClass::kNumber ? Zone::kNumber
                    : (info & unicode::kCjkBit) != 0 ? Zone::kCjk
                                                     : Zone::kOther;
  return {char_class, zone, length, length == 1 ? lead : uint8_t{0x80}};
}

inline PieceScanner::Char PieceScanner::Peek(size_t pos, Zone zone) const {
  if (pos < text_.size()) {
    const Char c = Decode(pos);
    if (c.zone == zone) return c;
  }
  return {CharClass::kOther, zone, 0, 0x80};
}

bool PieceScanner::Next(std::string_view* piece) {
  if (pos_ == text_.size()) return false;
  const size_t begin = pos_;
  const Zone zone = Decode(begin).zone;
  if (zone == Zone::kNumber) {
    pos_ = ScanNumbers(begin);
  } else {
    pos_ = MatchWord(begin, zone);
    // What no alternative matches is a piece up to the next match or the end of the zone.
    if (pos_ == begin) {
      do {
        pos_ += Decode(pos_).length;
      } while (Peek(pos_, zone).length != 0 && MatchWord(pos_, zone) == pos_);
    }
  }
  *piece = text_.substr(begin, pos_ - begin);
  return true;
}

size_t PieceScanner::ScanNumbers(size_t pos) const {
  for (int i = 0; i < 3; ++i) pos += Peek(pos, Zone::kNumber).length;
  return pos;
}

size_t PieceScanner::SkipLetters(size_t pos, Zone zone) const {
  for (Char c = Peek(pos, zone); c.length != 0 && IsLetterOrMark(c.char_class); c = Peek(pos, zone))
    pos += c.length;
  return pos;
}

size_t PieceScanner::MatchWord(size_t pos, Zone zone) const {
  const Char first = Decode(pos);
  const Char second = Peek(pos + first.length, zone);
  // A1: one ASCII punctuation character or symbol, then ASCII letters. All of ASCII that is P or S counts.
  if (IsPunctuationOrSymbol(first.char_class) && first.ascii < 0x80 && IsAsciiLetter(second.ascii)) {
    size_t end = pos + 2;
    while (end < text_.size() && IsAsciiLetter(static_cast<uint8_t>(text_[end]))) ++end;
    return end;
  }
  // A2: an optional character that is none of CR, LF, L, P, S; then letters and marks.
  if (IsLetterOrMark(first.char_class)) return SkipLetters(pos + first.length, zone);
  if (!IsLineBreak(first.ascii) && !IsPunctuationOrSymbol(first.char_class) &&
      IsLetterOrMark(second.char_class)) {
    return SkipLetters(pos + first.length, zone);
  }
  // A3: an optional space, then punctuation and symbols, then line breaks.
  if (IsPunctuationOrSymbol(first.char_class) ||
      (first.ascii == ' ' && IsPunctuationOrSymbol(second.char_class))) {
    size_t end = pos + first.length;
    for (Char c = Peek(end, zone); IsPunctuationOrSymbol(c.char_class); c = Peek(end, zone)) end += c.length;
    for (Char c = Peek(end, zone); IsLineBreak(c.ascii); c = Peek(end, zone)) end += c.length;
    return end;
  }
  return first.char_class == CharClass::kSpace ? MatchSpaces(pos, zone) : pos;
}

// A4: white space up to its last line break; A5: white space that no visible character follows, so a run before a word
// leaves its last character; A6: any white space.
size_t PieceScanner::MatchSpaces(size_t pos, Zone zone) const {
  size_t end = pos, last_begin = pos, after_break = pos;
  Char c = Peek(end, zone);
  for (; c.char_class == CharClass::kSpace; c = Peek(end, zone)) {
    last_begin = end;
    end += c.length;
    if (IsLineBreak(c.ascii)) after_break = end;
  }
  if (after_break != pos) return after_break;
  const bool at_end_of_zone = c.length == 0;
  if (at_end_of_zone || last_begin == pos) return end;
  return last_begin;
}

}  // namespace deepinfer
