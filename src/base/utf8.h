// UTF-8: the one reader and the one writer of characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace deepinfer::unicode {

enum class Utf8Kind : uint8_t { kValid, kInvalid, kIncomplete };

/// What stands at the begin of some bytes. `length` bytes belong to it: a whole character; or the longest beginning of a
/// character that can no longer become valid (one U+FFFD in the WHATWG decoder); or a tail that more bytes may complete.
struct Utf8Sequence {
  Utf8Kind kind;
  uint8_t length;
  char32_t code_point;  // kValid only
};

/// Looks at the first character of `bytes`, which must not be empty.
Utf8Sequence NextUtf8(std::string_view bytes);

/// Offset in bytes of the first byte that is not part of a valid character, or npos. An incomplete tail is invalid.
size_t FindInvalidUtf8(std::string_view bytes);

/// Appends the UTF-8 form of a code point that is no surrogate.
void AppendUtf8(char32_t code_point, std::string* out);

}  // namespace deepinfer::unicode
