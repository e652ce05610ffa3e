#include "tokenizer/byte_symbols.h"

#include <array>

#include "tokenizer/unicode.h"

namespace deepinfer {
namespace {

constexpr int kNumSymbols = 256 + 68;  // 68 bytes have no printable form of their own
constexpr int16_t kNoByte = -1;

constexpr bool StandsForItself(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
}

struct Tables {
  std::array<char32_t, 256> symbol_of{};
  std::array<int16_t, kNumSymbols> byte_of{};
};

constexpr Tables MakeTables() {
  Tables tables;
  tables.byte_of.fill(kNoByte);
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t symbol = StandsForItself(byte) ? static_cast<char32_t>(byte) : next++;
    tables.symbol_of[byte] = symbol;
    tables.byte_of[symbol] = static_cast<int16_t>(byte);
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

}  // namespace

char32_t ByteSymbol(uint8_t byte) { return kTables.symbol_of[byte]; }

std::optional<std::string> BytesFromSymbols(std::string_view symbols) {
  std::string bytes;
  bytes.reserve(symbols.size());
  while (!symbols.empty()) {
    const unicode::Utf8Sequence next = unicode::NextUtf8(symbols);
    if (next.kind != unicode::Utf8Kind::kValid || next.code_point >= kNumSymbols) return std::nullopt;
    const int16_t byte = kTables.byte_of[next.code_point];
    if (byte == kNoByte) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    symbols.remove_prefix(next.length);
  }
  return bytes;
}

std::string SymbolsFromBytes(std::string_view bytes) {
  std::string symbols;
  symbols.reserve(bytes.size() * 2);
  for (const char byte : bytes) unicode::AppendUtf8(ByteSymbol(static_cast<uint8_t>(byte)), &symbols);
  return symbols;
}

}  // namespace deepinfer
