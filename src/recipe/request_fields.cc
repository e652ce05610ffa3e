#include "recipe/request_fields.h"

#include <fmt/format.h>

#include "recipe/request_context.h"

namespace deepinfer::recipe {

std::string_view FieldTypeText(FieldType type) {
  switch (type) {
    case FieldType::kAny: return "any value";
    case FieldType::kString: return "a string";
    case FieldType::kBool: return "a boolean";
    case FieldType::kUint8: return "an integer from 0 to 255";
    case FieldType::kUint32: return "an integer from 0 to 4294967295";
    case FieldType::kUint64: return "an integer from 0 to 18446744073709551615";
    case FieldType::kNumber: return "a number";
    case FieldType::kArray: return "an array";
    case FieldType::kObject: return "an object";
    case FieldType::kStringOrArray: return "a string or an array";
    case FieldType::kStringOrObject: return "a string or an object";
  }
  return "any value";
}

namespace {

bool TypeMatches(FieldType type, JsonView value) {
  switch (type) {
    case FieldType::kAny: return true;
    case FieldType::kString: return value.is_string();
    case FieldType::kBool: return value.is_bool();
    case FieldType::kUint8:
    case FieldType::kUint32:
    case FieldType::kUint64: return value.is_integer();
    case FieldType::kNumber: return value.is_number();
    case FieldType::kArray: return value.is_array();
    case FieldType::kObject: return value.is_object();
    case FieldType::kStringOrArray: return value.is_string() || value.is_array();
    case FieldType::kStringOrObject: return value.is_string() || value.is_object();
  }
  return false;
}

bool IntegerFits(FieldType type, JsonView value) {
  uint64_t limit = 0;
  switch (type) {
    case FieldType::kUint8: limit = 0xFF; break;
    case FieldType::kUint32: limit = 0xFFFFFFFF; break;
    case FieldType::kUint64: limit = UINT64_MAX; break;
    default: return true;
  }
  uint64_t number = 0;
  return value.GetUint64(&number) && number <= limit;
}

bool CheckType(std::string_view name, FieldType type, JsonView value, const FieldPath& path,
               RequestContext& context) {
  const bool matches = TypeMatches(type, value);
  if (matches && IntegerFits(type, value)) return true;
  return context.RejectBody(matches ? RejectKind::kNumberRange : RejectKind::kWrongType, path.Member(name),
                            fmt::format("expected {}", FieldTypeText(type)));
}

bool RejectMissing(std::string_view name, const FieldPath& path, RequestContext& context) {
  return context.RejectBody(RejectKind::kMissingField, path, fmt::format("missing field `{}`", name));
}

}  // namespace

std::string FieldPath::ToString() const {
  if (parent == nullptr) return {};
  std::string text = parent->ToString();
  if (name.empty()) return text += fmt::format("[{}]", index);
  if (!text.empty()) text += '.';
  return text += name;
}

bool FieldValues::Read(JsonView object, const FieldPath& path, std::span<const Field> fields,
                       RequestContext& context, FieldValues* values) {
  if (!object.is_object()) return context.RejectBody(RejectKind::kWrongType, path, "expected an object");
  values->fields_ = fields;
  for (size_t i = 0; i < fields.size(); ++i) values->values_[i].reset();
  for (const auto& [key, value] : object.members()) {
    for (size_t i = 0; i < fields.size(); ++i) {
      if (key == fields[i].name) values->values_[i] = value;
    }
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    auto& value = values->values_[i];
    const Field& field = fields[i];
    if (value.has_value() && value->is_null() && field.presence == FieldPresence::kNullable) value.reset();
    if (!value.has_value() && field.presence == FieldPresence::kRequired) {
      return RejectMissing(field.name, path, context);
    }
    if (value.has_value() && !CheckType(field.name, field.type, *value, path, context)) return false;
  }
  return true;
}

bool FieldValues::Validate(const FieldPath& path, RequestContext& context) const {
  for (size_t i = 0; i < fields_.size(); ++i) {
    const Field& field = fields_[i];
    if (!values_[i].has_value() || field.validate == nullptr) continue;
    if (!field.validate(*values_[i], path.Member(field.name), context)) return false;
  }
  return true;
}

std::optional<JsonView> FieldValues::operator[](std::string_view name) const {
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].name == name) return values_[i];
  }
  return std::nullopt;
}

bool FieldValues::Check(std::string_view name, FieldType type, const FieldPath& path,
                        RequestContext& context) const {
  const auto value = (*this)[name];
  return !value.has_value() || value->is_null() || CheckType(name, type, *value, path, context);
}

std::optional<JsonView> FieldValues::Required(std::string_view name, FieldType type, const FieldPath& path,
                                              RequestContext& context) const {
  const auto value = (*this)[name];
  if (!value.has_value()) {
    RejectMissing(name, path, context);
    return std::nullopt;
  }
  if (!CheckType(name, type, *value, path, context)) return std::nullopt;
  return value;
}

std::string_view FieldValues::Text(std::string_view name) const {
  const auto value = (*this)[name];
  return value.has_value() ? value->AsString() : std::string_view();
}

bool FieldValues::Flag(std::string_view name) const {
  const auto value = (*this)[name];
  return value.has_value() && value->AsBool();
}

std::string Shortened(std::string_view text) {
  constexpr size_t kLongest = 256;
  if (text.size() <= kLongest) return std::string(text);
  size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "…";
}

std::optional<size_t> ReadVariant(JsonView value, const FieldPath& path,
                                  std::span<const std::string_view> allowed, RequestContext& context) {
  if (!value.is_string()) {
    context.RejectBody(RejectKind::kWrongType, path, "expected a string");
    return std::nullopt;
  }
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (value.AsString() == allowed[i]) return i;
  }
  std::string names;
  for (const std::string_view name : allowed) names += fmt::format("{}`{}`", names.empty() ? "" : ", ", name);
  context.RejectBody(
      RejectKind::kUnknownVariant, path,
      fmt::format("unknown variant `{}`, expected one of {}", Shortened(value.AsString()), names));
  return std::nullopt;
}

}  // namespace deepinfer::recipe
