#include "recipe/compact_json.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace deepinfer::recipe {
namespace {

void AppendDouble(double number, std::string* out) {
  char buffer[64];
  const double size = std::abs(number);
  const bool plain = size == 0 || (size >= 1e-5 && size < 1e16);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const char* end = std::to_chars(buffer, buffer + sizeof(buffer), number, format).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t exponent = text.find('e');
  if (plain || exponent == std::string_view::npos) {
    *out += text;
    if (text.find('.') == std::string_view::npos) *out += ".0";
    return;
  }
  // to_chars pads the exponent to two digits.
  const std::string_view digits = text.substr(exponent + 2);
  *out += text.substr(0, exponent + 2);
  *out += digits.substr(digits.size() > 1 && digits[0] == '0' ? 1 : 0);
}

void AppendNumber(const json::Value& value, std::string* out) {
  int64_t negative = 0;
  uint64_t positive = 0;
  if (value.GetInt64(&negative)) {
    fmt::format_to(std::back_inserter(*out), "{}", negative);
  } else if (value.GetUint64(&positive)) {
    fmt::format_to(std::back_inserter(*out), "{}", positive);
  } else {
    AppendDouble(value.AsDouble(), out);
  }
}

}  // namespace

void AppendCompactJson(const json::Value& value, std::string* out) {
  bool first = true;
  switch (value.type()) {
    case json::Type::kNull: *out += "null"; return;
    case json::Type::kBool: *out += value.AsBool() ? "true" : "false"; return;
    case json::Type::kInt:
    case json::Type::kUint:
    case json::Type::kDouble: AppendNumber(value, out); return;
    case json::Type::kString: json::AppendQuoted(value.AsString(), out); return;
    case json::Type::kArray:
      *out += '[';
      for (const json::Value& element : value.AsArray()) {
        if (!first) *out += ',';
        first = false;
        AppendCompactJson(element, out);
      }
      *out += ']';
      return;
    case json::Type::kObject:
      *out += '{';
      for (const auto& [key, member] : value.AsObject()) {
        if (!first) *out += ',';
        first = false;
        json::AppendQuoted(key, out);
        *out += ':';
        AppendCompactJson(member, out);
      }
      *out += '}';
      return;
  }
}

}  // namespace deepinfer::recipe
