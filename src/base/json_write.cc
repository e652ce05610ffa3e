#include <charconv>
#include <cmath>
#include <type_traits>

#include <fmt/format.h>

#include "base/byte_scan.h"
#include "base/json.h"

namespace deepinfer::json {
namespace {

// Shortest digits that read back to the same number, laid out like Python's repr: 1.0, 0.0001, 1e-05, 1e+16.
template <typename T>
void AppendFloat(T v, std::string* out) {
  if (!std::isfinite(v)) {
    *out += "null";
    return;
  }
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), v, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));  // "-d.ddde±XX"
  const size_t e = text.find('e');
  int exponent = 0;
  const char* exponent_begin = buffer + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(exponent_begin, end, exponent);
  if (exponent < -4 || exponent >= 16) {
    *out += text;
    return;
  }
  std::string digits;
  for (char c : text.substr(0, e)) {
    if (c == '-') {
      *out += '-';
    } else if (c != '.') {
      digits += c;
    }
  }
  if (exponent < 0) {
    *out += "0.";
    out->append(static_cast<size_t>(-exponent - 1), '0');
    *out += digits;
    return;
  }
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() < whole + 1) digits.append(whole + 1 - digits.size(), '0');
  out->append(digits, 0, whole);
  *out += '.';
  out->append(digits, whole);
}

// Length of the well-formed UTF-8 sequence at `text[at]`, or 0; then `*skip` is the length of the broken one.
size_t SequenceLength(std::string_view text, size_t at, size_t* skip) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at);
  size_t length = 0;
  unsigned low = 0x80;
  unsigned high = 0xBF;
  *skip = 1;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) length = 2;
  if (lead >= 0xE0 && lead <= 0xEF) length = 3;
  if (lead >= 0xF0 && lead <= 0xF4) length = 4;
  if (length == 0) return 0;
  if (lead == 0xE0) low = 0xA0;   // overlong
  if (lead == 0xED) high = 0x9F;  // surrogates
  if (lead == 0xF0) low = 0x90;   // overlong
  if (lead == 0xF4) high = 0x8F;  // above U+10FFFF
  for (size_t i = 1; i < length; ++i) {
    if (at + i >= text.size() || byte(at + i) < low || byte(at + i) > high) {
      *skip = i;
      return 0;
    }
    low = 0x80;
    high = 0xBF;
  }
  return length;
}

void AppendEscape(char c, std::string* out) {
  switch (c) {
    case '"': *out += "\\\""; return;
    case '\\': *out += "\\\\"; return;
    case '\b': *out += "\\b"; return;
    case '\f': *out += "\\f"; return;
    case '\n': *out += "\\n"; return;
    case '\r': *out += "\\r"; return;
    case '\t': *out += "\\t"; return;
    default: *out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c)); return;
  }
}

bool NeedsEscape(char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; }

void AppendNewline(int indent, int depth, std::string* out) {
  if (indent < 0) return;
  *out += '\n';
  out->append(static_cast<size_t>(indent) * static_cast<size_t>(depth), ' ');
}

}  // namespace

void AppendEscaped(std::string_view text, std::string* out) {
  for (size_t at = 0;;) {
    const size_t run_end = FindByte(
        text, at,
        [](ByteVector b) { return ((b < uint8_t{0x20}) | (b == uint8_t{'"'})) | (b == uint8_t{'\\'}); },
        [](uint8_t byte) { return NeedsEscape(static_cast<char>(byte)); });
    out->append(text, at, run_end - at);
    if (run_end == text.size()) return;
    AppendEscape(text[run_end], out);
    at = run_end + 1;
  }
}

void AppendQuoted(std::string_view text, std::string* out) {
  *out += '"';
  size_t run_begin = 0;
  for (size_t at = 0; at < text.size();) {
    at = FindByte(
        text, at, [](ByteVector b) { return b > uint8_t{0x7F}; }, [](uint8_t byte) { return byte > 0x7F; });
    if (at == text.size()) break;
    size_t skip = 1;
    const size_t length = SequenceLength(text, at, &skip);
    if (length > 0) {
      at += length;
      continue;
    }
    AppendEscaped(text.substr(run_begin, at - run_begin), out);
    *out += "\xEF\xBF\xBD";
    at += skip;
    run_begin = at;
  }
  AppendEscaped(text.substr(run_begin), out);
  *out += '"';
}

void SerializeTo(const Value& value, int indent, int depth, std::string* out) {
  struct Visitor {
    int indent;
    int depth;
    std::string* out;

    void operator()(std::monostate) const { *out += "null"; }
    void operator()(bool v) const { *out += v ? "true" : "false"; }
    void operator()(int64_t v) const { *out += fmt::format("{}", v); }
    void operator()(uint64_t v) const { *out += fmt::format("{}", v); }
    void operator()(double v) const { AppendFloat(v, out); }
    void operator()(Value::FloatBits v) const { AppendFloat(v.v, out); }
    void operator()(const std::string& v) const { AppendQuoted(v, out); }
    void operator()(const Array& v) const {
      *out += '[';
      for (size_t i = 0; i < v.size(); ++i) {
        if (i > 0) *out += ',';
        AppendNewline(indent, depth + 1, out);
        SerializeTo(v[i], indent, depth + 1, out);
      }
      if (!v.empty()) AppendNewline(indent, depth, out);
      *out += ']';
    }
    void operator()(const Object& v) const {
      *out += '{';
      for (size_t i = 0; i < v.size(); ++i) {
        if (i > 0) *out += ',';
        AppendNewline(indent, depth + 1, out);
        AppendQuoted(v[i].first, out);
        *out += indent < 0 ? ":" : ": ";
        SerializeTo(v[i].second, indent, depth + 1, out);
      }
      if (!v.empty()) AppendNewline(indent, depth, out);
      *out += '}';
    }
  };
  std::visit(Visitor{indent, depth, out}, value.data_);
}

std::string Serialize(const Value& value, int indent) {
  std::string out;
  SerializeTo(value, indent, 0, &out);
  return out;
}

}  // namespace deepinfer::json
