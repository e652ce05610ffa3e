#include "base/utf8.h"

#include <cstring>

namespace deepinfer::unicode {

Utf8Sequence NextUtf8(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return {Utf8Kind::kValid, 1, lead};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Kind::kInvalid, 1, 0};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte excludes overlong forms, surrogates and values above U+10FFFF.
  uint8_t low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  char32_t code_point = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {Utf8Kind::kIncomplete, static_cast<uint8_t>(i), 0};
    if (at(i) < low || at(i) > high) return {Utf8Kind::kInvalid, static_cast<uint8_t>(i), 0};
    code_point = code_point << 6 | (at(i) & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Kind::kValid, static_cast<uint8_t>(length), code_point};
}

size_t FindInvalidUtf8(std::string_view bytes) {
  size_t pos = 0;
  while (pos < bytes.size()) {
    // Eight ASCII bytes at a time; most prompts are mostly ASCII.
    uint64_t word;
    if (pos + sizeof(word) <= bytes.size()) {
      std::memcpy(&word, bytes.data() + pos, sizeof(word));
      if ((word & 0x8080808080808080u) == 0) {
        pos += sizeof(word);
        continue;
      }
    }
    const Utf8Sequence next = NextUtf8(bytes.substr(pos));
    if (next.kind != Utf8Kind::kValid) return pos;
    pos += next.length;
  }
  return std::string_view::npos;
}

void AppendUtf8(char32_t c, std::string* out) {
  const auto put = [&](char32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

}  // namespace deepinfer::unicode
