// The printable stand-ins of the 256 bytes in a byte-level vocabulary (spec: checkpoint.md §8.1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace deepinfer {

/// Code point that stands for `byte`: itself for 33-126, 161-172 and 174-255; the others in order are U+0100, U+0101, …
char32_t ByteSymbol(uint8_t byte);

/// The bytes that a token string of byte symbols stands for; nothing when any character of it is no byte symbol.
std::optional<std::string> BytesFromSymbols(std::string_view symbols);

/// Inverse of BytesFromSymbols.
std::string SymbolsFromBytes(std::string_view bytes);

}  // namespace deepinfer
