#include "checkpoint/json_scanner.h"

#include <limits>
#include <utility>

#include "base/utf8.h"

namespace deepinfer {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

Status JsonScanner::Error(std::string message) const {
  return DataLoss(std::move(message), "byte " + std::to_string(offset_));
}

void JsonScanner::SkipWhitespace() {
  while (offset_ < text_.size()) {
    const char c = text_[offset_];
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return;
    ++offset_;
  }
}

bool JsonScanner::Consume(char c) {
  SkipWhitespace();
  if (offset_ >= text_.size() || text_[offset_] != c) return false;
  ++offset_;
  return true;
}

Status JsonScanner::Expect(char c) {
  if (Consume(c)) return OkStatus();
  return Error(std::string("expected '") + c + "'");
}

Status JsonScanner::ReadHex4(uint32_t* out) {
  if (text_.size() - offset_ < 4) return Error("cut escape sequence");
  *out = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = text_[offset_];
    uint32_t digit = 0;
    if (IsDigit(c)) {
      digit = static_cast<uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint32_t>(c - 'a' + 10);
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<uint32_t>(c - 'A' + 10);
    } else {
      return Error("bad escape sequence");
    }
    *out = (*out << 4) | digit;
    ++offset_;
  }
  return OkStatus();
}

Status JsonScanner::ReadEscape(std::string* out) {
  if (offset_ >= text_.size()) return Error("cut escape sequence");
  const char c = text_[offset_++];
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
  if (const size_t at = kNames.find(c); at != std::string_view::npos) {
    out->push_back(kValues[at]);
    return OkStatus();
  }
  if (c != 'u') return Error("bad escape sequence");
  uint32_t code = 0;
  DEEPINFER_RETURN_IF_ERROR(ReadHex4(&code));
  if (code >= 0xDC00 && code < 0xE000) return Error("lone surrogate");
  if (code >= 0xD800 && code < 0xDC00) {
    if (rest().substr(0, 2) != "\\u") return Error("lone surrogate");
    offset_ += 2;
    uint32_t low = 0;
    DEEPINFER_RETURN_IF_ERROR(ReadHex4(&low));
    if (low < 0xDC00 || low >= 0xE000) return Error("lone surrogate");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  unicode::AppendUtf8(code, out);
  return OkStatus();
}

Status JsonScanner::ReadString(size_t max_bytes, std::string* out) {
  DEEPINFER_RETURN_IF_ERROR(Expect('"'));
  const size_t start = out->size();
  for (;;) {
    size_t end = offset_;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\\' &&
           static_cast<unsigned char>(text_[end]) >= 0x20)
      ++end;
    if (end - offset_ > max_bytes - (out->size() - start)) return Error("the string is too long");
    out->append(text_.substr(offset_, end - offset_));
    offset_ = end;
    if (offset_ >= text_.size()) return Error("cut string");
    const char c = text_[offset_];
    if (c == '"') break;
    if (c != '\\') return Error("control character in a string");
    ++offset_;
    DEEPINFER_RETURN_IF_ERROR(ReadEscape(out));
    if (out->size() - start > max_bytes) return Error("the string is too long");
  }
  ++offset_;
  return OkStatus();
}

Status JsonScanner::ReadUnsigned(uint64_t* out) {
  SkipWhitespace();
  const size_t start = offset_;
  uint64_t value = 0;
  for (; offset_ < text_.size() && IsDigit(text_[offset_]); ++offset_) {
    const auto digit = static_cast<uint64_t>(text_[offset_] - '0');
    if (value > (std::numeric_limits<uint64_t>::max() - digit) / 10)
      return Error("the number does not fit 64 bits");
    value = value * 10 + digit;
  }
  const size_t digits = offset_ - start;
  if (digits == 0) return Error("expected a non-negative integer");
  if (digits > 1 && text_[start] == '0') return Error("leading zero in a number");
  if (offset_ < text_.size()) {
    const char c = text_[offset_];
    if (c == '.' || c == 'e' || c == 'E') return Error("expected an integer in plain digits");
  }
  *out = value;
  return OkStatus();
}

Status JsonScanner::SkipNumber() {
  const auto digits = [this] {
    const size_t start = offset_;
    while (offset_ < text_.size() && IsDigit(text_[offset_])) ++offset_;
    return offset_ - start;
  };
  const auto next_is = [this](char c) { return offset_ < text_.size() && text_[offset_] == c; };
  if (next_is('-')) ++offset_;
  const bool zero = next_is('0');
  const size_t integer = digits();
  if (integer == 0 || (zero && integer > 1)) return Error("bad value");
  if (next_is('.')) {
    ++offset_;
    if (digits() == 0) return Error("bad number");
  }
  if (next_is('e') || next_is('E')) {
    ++offset_;
    if (next_is('+') || next_is('-')) ++offset_;
    if (digits() == 0) return Error("bad number");
  }
  return OkStatus();
}

Status JsonScanner::SkipContainer(char close, bool keys, int max_depth) {
  if (max_depth <= 0) return Error("the JSON nests too deep");
  if (Consume(close)) return OkStatus();
  do {
    if (keys) {
      std::string key;
      DEEPINFER_RETURN_IF_ERROR(ReadString(text_.size(), &key));
      DEEPINFER_RETURN_IF_ERROR(Expect(':'));
    }
    DEEPINFER_RETURN_IF_ERROR(SkipValue(max_depth - 1));
  } while (Consume(','));
  return Expect(close);
}

Status JsonScanner::SkipValue(int max_depth) {
  if (Consume('{')) return SkipContainer('}', /*keys=*/true, max_depth);
  if (Consume('[')) return SkipContainer(']', /*keys=*/false, max_depth);
  SkipWhitespace();
  for (const std::string_view word : {"true", "false", "null"}) {
    if (rest().substr(0, word.size()) != word) continue;
    offset_ += word.size();
    return OkStatus();
  }
  if (offset_ < text_.size() && text_[offset_] == '"') {
    std::string ignored;
    return ReadString(text_.size(), &ignored);
  }
  return SkipNumber();
}

}  // namespace deepinfer
