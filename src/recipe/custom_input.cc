#include <algorithm>

#include "base/byte_scan.h"
#include "recipe/response_parts.h"
#include "tokenizer/unicode.h"

namespace deepinfer::recipe {
namespace {

constexpr std::string_view kHeadText = "{\"input\": ";  // as the output parser writes it
constexpr char32_t kReplacement = 0xFFFD;

bool IsJsonBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// What a two-character escape stands for, or NUL.
char SimpleEscape(char c) {
  switch (c) {
    case '"':
    case '\\':
    case '/': return c;
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return '\0';
  }
}

}  // namespace

void CustomInputDecoder::Push(std::string_view arguments, std::string* input) {
  for (size_t at = 0; at < arguments.size();) {
    if (state_ == State::kDone) return;
    if (state_ == State::kRaw) {
      *input += arguments.substr(at);
      return;
    }
    if (state_ == State::kString && escape_.empty() && high_surrogate_ == 0) {
      const size_t end = std::min(arguments.find_first_of("\"\\", at), arguments.size());
      *input += arguments.substr(at, end - at);
      at = end;
      if (at == arguments.size()) return;
    }
    const char c = arguments[at++];
    state_ == State::kHead ? PushHead(c, input) : PushString(c, input);
  }
}

void CustomInputDecoder::Finish(std::string* input) {
  if (state_ == State::kHead) *input += head_;
  FlushSurrogate(input);
  state_ = State::kDone;
}

void CustomInputDecoder::PushHead(char c, std::string* input) {
  const size_t size = head_.size();
  head_ += c;
  if (size < kHeadText.size() ? c == kHeadText[size] : IsJsonBlank(c)) return;
  if (size >= kHeadText.size() && c == '"') {
    state_ = State::kString;
  } else {
    *input += head_;
    state_ = State::kRaw;
  }
  head_.clear();
}

void CustomInputDecoder::PushString(char c, std::string* input) {
  if (!escape_.empty()) {
    if (PushEscape(c, input)) return;
    // No escape after all: it stays as it is, and the new character is looked at by itself.
    FlushSurrogate(input);
    *input += escape_;
    escape_.clear();
  }
  if (c == '\\') {
    escape_ = c;
    return;
  }
  FlushSurrogate(input);
  if (c == '"') {
    state_ = State::kDone;
  } else {
    *input += c;
  }
}

bool CustomInputDecoder::PushEscape(char c, std::string* input) {
  if (escape_.size() == 1 && c != 'u') {
    const char character = SimpleEscape(c);
    if (character == '\0') return false;
    FlushSurrogate(input);
    *input += character;
    escape_.clear();
    return true;
  }
  if (escape_.size() > 1 && HexDigit(c) < 0) return false;
  escape_ += c;
  if (escape_.size() < 6) return true;
  uint32_t unit = 0;
  for (size_t i = 2; i < 6; ++i) unit = unit << 4 | static_cast<uint32_t>(HexDigit(escape_[i]));
  escape_.clear();
  AppendUnit(unit, input);
  return true;
}

void CustomInputDecoder::AppendUnit(uint32_t unit, std::string* input) {
  const bool is_low = unit >= 0xDC00 && unit <= 0xDFFF;
  if (is_low && high_surrogate_ != 0) {
    unicode::AppendUtf8(0x10000 + ((high_surrogate_ - 0xD800) << 10) + (unit - 0xDC00), input);
    high_surrogate_ = 0;
    return;
  }
  FlushSurrogate(input);
  if (unit >= 0xD800 && unit <= 0xDBFF) {
    high_surrogate_ = unit;
  } else {
    unicode::AppendUtf8(is_low ? kReplacement : char32_t{unit}, input);
  }
}

void CustomInputDecoder::FlushSurrogate(std::string* input) {
  if (high_surrogate_ != 0) unicode::AppendUtf8(kReplacement, input);
  high_surrogate_ = 0;
}

}  // namespace deepinfer::recipe
