// JSON for configuration files, headers, requests and answers: a strict parser with limits and a byte-stable writer.
// The lexer is nlohmann's; nothing outside this module sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace deepinfer::json {

class Value;
using Array = std::vector<Value>;
/// Members in the order of the text; keys are unique.
using Object = std::vector<std::pair<std::string, Value>>;

enum class Type : uint8_t { kNull, kBool, kInt, kUint, kDouble, kString, kArray, kObject };

/// One JSON value. Integers keep all 64 bits: kInt for negative ones and those up to 2^63-1, kUint above.
class Value {
 public:
  Value() = default;
  Value(std::nullptr_t) {}                              // NOLINT: implicit by design, as all below
  Value(bool v) : data_(v) {}                           // NOLINT
  Value(int v) : data_(static_cast<int64_t>(v)) {}      // NOLINT
  Value(int64_t v) : data_(v) {}                        // NOLINT
  Value(uint64_t v);                                    // NOLINT
  Value(double v) : data_(v) {}                         // NOLINT
  Value(float v) : data_(FloatBits{v}) {}               // NOLINT: written with the shortest float digits
  Value(const char* v) : data_(std::string(v)) {}       // NOLINT
  Value(std::string_view v) : data_(std::string(v)) {}  // NOLINT
  Value(std::string v) : data_(std::move(v)) {}         // NOLINT
  Value(Array v) : data_(std::move(v)) {}               // NOLINT
  Value(Object v) : data_(std::move(v)) {}              // NOLINT

  Type type() const;
  bool is_null() const { return type() == Type::kNull; }
  bool is_bool() const { return type() == Type::kBool; }
  bool is_string() const { return type() == Type::kString; }
  bool is_array() const { return type() == Type::kArray; }
  bool is_object() const { return type() == Type::kObject; }
  bool is_integer() const { return type() == Type::kInt || type() == Type::kUint; }
  bool is_number() const { return is_integer() || type() == Type::kDouble; }

  /// Accessors: the caller has checked the type (std::bad_variant_access otherwise is a defect of ours).
  bool AsBool() const { return std::get<bool>(data_); }
  const std::string& AsString() const { return std::get<std::string>(data_); }
  const Array& AsArray() const { return std::get<Array>(data_); }
  const Object& AsObject() const { return std::get<Object>(data_); }
  Array& AsArray() { return std::get<Array>(data_); }
  Object& AsObject() { return std::get<Object>(data_); }
  /// Any number as double.
  double AsDouble() const;
  /// False when the value is no integer or does not fit.
  bool GetInt64(int64_t* out) const;
  bool GetUint64(uint64_t* out) const;

  /// Member of an object, or null when absent (or when this is no object).
  const Value* Find(std::string_view key) const;
  /// Appends or replaces a member; a null value becomes an object first.
  Value& Set(std::string key, Value value);
  /// Appends an element; a null value becomes an array first.
  Value& Append(Value value);

 private:
  struct FloatBits {
    float v;
  };
  friend std::string Serialize(const Value& value, int indent);
  friend void SerializeTo(const Value& value, int indent, int depth, std::string* out);
  std::variant<std::monostate, bool, int64_t, uint64_t, double, FloatBits, std::string, Array, Object> data_;
};

/// Limits applied while parsing, before anything of that size is allocated.
struct ParseLimits {
  size_t max_bytes = size_t{64} << 20;
  int max_depth = 64;
  size_t max_values = 20'000'000;  // scalars, arrays and objects together
};

/// Strict RFC 8259: UTF-8 only, no duplicate keys (compared after unescaping), no lone surrogates, no trailing text. Integers out
/// of 64 bits and numbers out of double range are errors. Errors: kDataLoss with the byte offset.
Result<Value> Parse(std::string_view text, const ParseLimits& limits = {});

/// Compact text (indent < 0) or indented by `indent` blanks. Key order is kept, non-ASCII is written as UTF-8, floating point
/// numbers by their shortest round-trip digits; NaN and infinities become null.
std::string Serialize(const Value& value, int indent = -1);

/// Appends `text` as a quoted JSON string. Invalid UTF-8 becomes U+FFFD.
void AppendQuoted(std::string_view text, std::string* out);

/// Appends the inside of a JSON string: quotes, backslashes and control characters are escaped as Python's `json.dumps` does, every
/// other byte is copied unseen. The result is valid JSON when `text` is valid UTF-8; a text cut anywhere may be given in pieces.
void AppendEscaped(std::string_view text, std::string* out);

}  // namespace deepinfer::json
