// The table-driven part of reading a request body: every object of every protocol is described by a table of fields, one function
// checks a JSON object against its table. docs/recipe.md is written from the same tables.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "recipe/json_document.h"
#include "recipe/request.h"

namespace deepinfer::recipe {

struct RequestContext;

/// Where a value stands in the body. Lives on the stack; written out only when a message needs it.
struct FieldPath {
  const FieldPath* parent = nullptr;
  std::string_view name;  // member, or empty for an element
  size_t index = 0;

  FieldPath Member(std::string_view member) const { return {this, member, 0}; }
  FieldPath Element(size_t element) const { return {this, {}, element}; }
  /// "messages[0].content[1].text"; empty for the body itself.
  std::string ToString() const;
};

enum class FieldType : uint8_t {
  kAny,
  kString,
  kBool,
  kUint8,  // integers: `1.0` is none
  kUint32,
  kUint64,
  kNumber,
  kArray,
  kObject,
  kStringOrArray,
  kStringOrObject,
};

/// "a string", "an integer from 0 to 255" …
std::string_view FieldTypeText(FieldType type);

enum class FieldPresence : uint8_t {
  kRequired,
  kNullable,  // absent and null mean the same
  kOptional,  // may be absent, must not be null
};

/// Checks one value and keeps what it says in the context. False after a Reject.
using FieldValidator = bool (*)(JsonView value, const FieldPath& path, RequestContext& context);

struct Field {
  std::string_view name;
  FieldType type = FieldType::kAny;
  FieldPresence presence = FieldPresence::kNullable;
  std::string_view text;              // values and handling, for the documentation; Markdown
  FieldValidator validate = nullptr;  // none: the object's reader looks at the value itself, or nobody does
};

/// One kind of object of a protocol.
struct FieldTable {
  std::string_view title;  // e.g. "messages[]"
  std::span<const Field> fields;
};

/// The tables of a protocol, the body first.
std::span<const FieldTable> FieldTables(Protocol protocol);

/// The members of an object that its table knows. Of equal keys the last counts.
class FieldValues {
 public:
  /// Rejects what is no object, lacks a required member or has a member of the wrong type. Unknown members are ignored.
  static bool Read(JsonView object, const FieldPath& path, std::span<const Field> fields,
                   RequestContext& context, FieldValues* values);
  /// Runs the validators in the order of the table.
  bool Validate(const FieldPath& path, RequestContext& context) const;

  /// The value, or nothing when it is absent or null. `name` is one of the table.
  std::optional<JsonView> operator[](std::string_view name) const;
  /// For members whose type depends on others: true when the member is absent, null or of the type.
  bool Check(std::string_view name, FieldType type, const FieldPath& path, RequestContext& context) const;
  /// The same for a member that is needed: nothing after a Reject.
  std::optional<JsonView> Required(std::string_view name, FieldType type, const FieldPath& path,
                                   RequestContext& context) const;
  /// "" when absent.
  std::string_view Text(std::string_view name) const;
  /// False when absent.
  bool Flag(std::string_view name) const;

 private:
  static constexpr size_t kMaxFields = 28;
  std::span<const Field> fields_;
  std::array<std::optional<JsonView>, kMaxFields> values_;
};

/// A client's text for a message: whole up to 256 bytes, then cut.
std::string Shortened(std::string_view text);

/// Index of a string among the allowed ones. Rejects other types (kWrongType) and other names (kUnknownVariant).
std::optional<size_t> ReadVariant(JsonView value, const FieldPath& path,
                                  std::span<const std::string_view> allowed, RequestContext& context);

}  // namespace deepinfer::recipe
