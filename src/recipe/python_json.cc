#include "recipe/python_json.h"

#include <charconv>
#include <cmath>
#include <iterator>

namespace deepinfer::recipe {
namespace {

using json::Type;

/// Elements between brackets, with `append` for each.
template <typename Range, typename Append>
void AppendList(const Range& range, char open, char close, std::string* out, Append append) {
  *out += open;
  bool first = true;
  for (const auto& element : range) {
    if (!first) *out += ", ";
    first = false;
    append(element);
  }
  *out += close;
}

void AppendNumber(JsonView number, NumberStyle style, std::string* out) {
  const std::string_view spelling = number.NumberText();
  const bool is_integer = spelling.find_first_of(".eE") == std::string_view::npos;
  if (number.type() == Type::kDouble && !(is_integer && style == NumberStyle::kPython)) {
    AppendPythonDouble(number.AsDouble(), out);
  } else {
    *out += spelling == "-0" ? "0" : spelling;
  }
}

}  // namespace

void AppendPythonString(std::string_view text, std::string* out) {
  *out += '"';
  json::AppendEscaped(text, out);
  *out += '"';
}

void AppendPythonDouble(double value, std::string* out) {
  if (std::isnan(value)) {
    *out += "NaN";
    return;
  }
  if (std::isinf(value)) {
    *out += value < 0 ? "-Infinity" : "Infinity";
    return;
  }
  // "-d.ddde±xx": the digits, and the power of ten of the first.
  char buffer[32];
  const auto written = std::to_chars(buffer, std::end(buffer), value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<size_t>(written.ptr - buffer));
  if (text[0] == '-') {
    *out += '-';
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(), exponent);
  // repr() leaves the positional form below 1e-4 and from 1e16 on.
  if (exponent < -4 || exponent >= 16) {
    *out += text;
    return;
  }
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  if (exponent < 0) {
    *out += "0.";
    out->append(static_cast<size_t>(-exponent - 1), '0');
    *out += digits;
    return;
  }
  const size_t before_point = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= before_point) digits.append(before_point - digits.size() + 1, '0');
  out->append(digits, 0, before_point);
  *out += '.';
  out->append(digits, before_point);
}

void AppendPythonJson(const json::Value& value, std::string* out) {
  switch (value.type()) {
    case Type::kNull: *out += "null"; return;
    case Type::kBool: *out += value.AsBool() ? "true" : "false"; return;
    case Type::kInt:
    case Type::kUint: *out += json::Serialize(value); return;
    case Type::kDouble: AppendPythonDouble(value.AsDouble(), out); return;
    case Type::kString: AppendPythonString(value.AsString(), out); return;
    case Type::kArray:
      AppendList(value.AsArray(), '[', ']', out,
                 [out](const json::Value& element) { AppendPythonJson(element, out); });
      return;
    case Type::kObject:
      AppendList(value.AsObject(), '{', '}', out, [out](const auto& member) {
        AppendPythonString(member.first, out);
        *out += ": ";
        AppendPythonJson(member.second, out);
      });
  }
}

std::string PythonJson(const json::Value& value) {
  std::string text;
  AppendPythonJson(value, &text);
  return text;
}

void AppendPythonJson(JsonView value, NumberStyle style, std::string* out) {
  switch (value.type()) {
    case Type::kNull: *out += "null"; return;
    case Type::kBool: *out += value.AsBool() ? "true" : "false"; return;
    case Type::kInt:
    case Type::kUint:
    case Type::kDouble: AppendNumber(value, style, out); return;
    case Type::kString: AppendPythonString(value.AsString(), out); return;
    case Type::kArray:
      AppendList(value.elements(), '[', ']', out,
                 [&](JsonView element) { AppendPythonJson(element, style, out); });
      return;
    case Type::kObject:
      AppendList(value.UniqueMembers(), '{', '}', out, [&](const JsonView::Member& member) {
        AppendPythonString(member.first, out);
        *out += ": ";
        AppendPythonJson(member.second, style, out);
      });
  }
}

}  // namespace deepinfer::recipe
