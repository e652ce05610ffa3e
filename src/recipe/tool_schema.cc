#include "recipe/tool_schema.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "recipe/python_json.h"

namespace deepinfer::recipe {
namespace {

using json::Value;

constexpr int kMaxDepth = 127;  // that of a request's JSON
constexpr std::string_view kScalarTypes[] = {"string", "number", "integer", "boolean", "null"};
constexpr std::string_view kFormats[] = {"email", "hostname", "ipv4", "ipv6", "uuid"};

bool IsOneOf(const auto& names, const Value& value) {
  return value.is_string() &&
         std::find(std::begin(names), std::end(names), value.AsString()) != std::end(names);
}

Status Invalid(std::string_view reason) {
  return InvalidArgument(fmt::format("Invalid tool parameters schema : {}", reason));
}

/// The member, unless it is absent or null.
const Value* Given(const Value& object, std::string_view key) {
  const Value* member = object.Find(key);
  return member == nullptr || member->is_null() ? nullptr : member;
}

/// Reads a schema into the fixed shape. `required` and `additionalProperties` are checked later, when the whole schema is known to have
/// the right shape: errors of the shape come first.
Result<Value> ReadSchema(const Value& schema, int depth);

/// Copies the member when it is given and `fits`.
Status Copy(const Value& from, std::string_view key, bool (*fits)(const Value&), std::string_view kind,
            Value* to) {
  const Value* member = Given(from, key);
  if (member == nullptr) return OkStatus();
  if (!fits(*member)) return Invalid(fmt::format("`{}` must be {}", key, kind));
  to->Set(std::string(key), *member);
  return OkStatus();
}

Status CopyText(const Value& from, std::string_view key, Value* to) {
  return Copy(from, key, [](const Value& v) { return v.is_string(); }, "a string", to);
}

bool IsListOfStrings(const Value& value) {
  return value.is_array() && std::all_of(value.AsArray().begin(), value.AsArray().end(),
                                         [](const Value& element) { return element.is_string(); });
}

Status ReadDefinitions(const Value& schema, int depth, Value* out) {
  const Value* given = Given(schema, "$def");
  if (given != nullptr) {
    if (!given->is_object()) return Invalid("`$def` must be an object");
    Value definitions = json::Object();
    for (const auto& [name, definition] : given->AsObject()) {
      DEEPINFER_ASSIGN_OR_RETURN(Value read, ReadSchema(definition, depth));
      definitions.AsObject().emplace_back(name, std::move(read));
    }
    out->Set("$def", std::move(definitions));
  }
  for (const char* key : {"$defs", "definitions"}) {
    if (const Value* kept = Given(schema, key); kept != nullptr) out->Set(key, *kept);
  }
  return OkStatus();
}

Result<Value> ReadObject(const Value& schema, int depth) {
  Value out = json::Object{{"type", "object"}};
  Value properties = json::Object();
  if (const Value* given = Given(schema, "properties"); given != nullptr) {
    if (!given->is_object()) return Invalid("`properties` must be an object");
    json::Object& members = properties.AsObject();
    members.reserve(given->AsObject().size());
    for (const auto& [name, property] : given->AsObject()) {
      DEEPINFER_ASSIGN_OR_RETURN(Value read, ReadSchema(property, depth));
      members.emplace_back(name, std::move(read));
    }
  }
  out.Set("properties", std::move(properties));
  DEEPINFER_RETURN_IF_ERROR(
      Copy(schema, "additionalProperties", [](const Value& v) { return v.is_bool(); }, "a boolean", &out));
  DEEPINFER_RETURN_IF_ERROR(Copy(schema, "required", IsListOfStrings, "a list of strings", &out));
  DEEPINFER_RETURN_IF_ERROR(CopyText(schema, "description", &out));
  DEEPINFER_RETURN_IF_ERROR(ReadDefinitions(schema, depth, &out));
  return out;
}

Result<Value> ReadArray(const Value& schema, int depth) {
  const Value* items = schema.Find("items");
  if (items == nullptr) return Invalid("missing field `items`");
  Value out = json::Object{{"type", "array"}};
  DEEPINFER_ASSIGN_OR_RETURN(Value read, ReadSchema(*items, depth));
  out.Set("items", std::move(read));
  DEEPINFER_RETURN_IF_ERROR(CopyText(schema, "description", &out));
  return out;
}

Status ReadNumberMembers(const Value& schema, bool integers, Value* out) {
  for (const char* key :
       {"const", "default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}) {
    if (integers) {
      DEEPINFER_RETURN_IF_ERROR(Copy(
          schema, key, [](const Value& v) { return v.type() == json::Type::kInt; }, "an integer of 64 bits",
          out));
    } else {
      DEEPINFER_RETURN_IF_ERROR(
          Copy(schema, key, [](const Value& v) { return v.is_number(); }, "a number", out));
    }
  }
  return OkStatus();
}

Result<Value> ReadScalar(const Value& schema, const std::string& type) {
  Value out = json::Object{{"type", type}};
  DEEPINFER_RETURN_IF_ERROR(CopyText(schema, "description", &out));
  if (type == "string") {
    DEEPINFER_RETURN_IF_ERROR(CopyText(schema, "pattern", &out));
    DEEPINFER_RETURN_IF_ERROR(Copy(
        schema, "format", [](const Value& v) { return IsOneOf(kFormats, v); },
        "one of `email`, `hostname`, `ipv4`, `ipv6`, `uuid`", &out));
    DEEPINFER_RETURN_IF_ERROR(Copy(schema, "enum", IsListOfStrings, "a list of strings", &out));
  } else if (type == "integer" || type == "number") {
    DEEPINFER_RETURN_IF_ERROR(ReadNumberMembers(schema, type == "integer", &out));
  }
  return out;
}

/// A schema whose `type` is one name.
Result<Value> ReadTyped(const Value& schema, const Value& type, int depth) {
  if (IsOneOf(kScalarTypes, type)) return ReadScalar(schema, type.AsString());
  if (type.is_string() && type.AsString() == "object") return ReadObject(schema, depth);
  if (type.is_string() && type.AsString() == "array") return ReadArray(schema, depth);
  return Invalid("`type` must be one of `object`, `string`, `number`, `integer`, `boolean`, `array`, `null`");
}

Result<Value> ReadTypeList(const Value& schema, const Value& types) {
  for (const Value& type : types.AsArray()) {
    if (!IsOneOf(kScalarTypes, type)) {
      return Invalid("field `type`: must be of `string`, `number`, `integer`, `boolean`, `null`");
    }
  }
  Value out = json::Object{{"type", types}};
  DEEPINFER_RETURN_IF_ERROR(CopyText(schema, "description", &out));
  return out;
}

Result<Value> ReadAlternatives(const Value& schema, const Value& any_of, int depth) {
  if (!any_of.is_array()) return Invalid("field `anyOf`: must be a list");
  Value alternatives = json::Array();
  for (const Value& alternative : any_of.AsArray()) {
    const Value* type = alternative.Find("type");
    if (type == nullptr) return Invalid("field `anyOf`: missing field `type`");
    DEEPINFER_ASSIGN_OR_RETURN(Value read, ReadTyped(alternative, *type, depth));
    alternatives.Append(std::move(read));
  }
  Value out;
  out.Set("anyOf", std::move(alternatives));
  DEEPINFER_RETURN_IF_ERROR(CopyText(schema, "description", &out));
  return out;
}

Result<Value> ReadSchema(const Value& schema, int depth) {
  if (depth >= kMaxDepth) return Invalid(fmt::format("nested deeper than {} levels", kMaxDepth));
  if (const Value* type = schema.Find("type"); type != nullptr) {
    return type->is_array() ? ReadTypeList(schema, *type) : ReadTyped(schema, *type, depth + 1);
  }
  if (const Value* any_of = schema.Find("anyOf"); any_of != nullptr) {
    return ReadAlternatives(schema, *any_of, depth + 1);
  }
  if (const Value* reference = schema.Find("$ref"); reference != nullptr) {
    if (!reference->is_string()) return Invalid("field `$ref`: must be a string");
    return Value(json::Object{{"$ref", *reference}});
  }
  return Invalid("one of `type`, `anyOf`, `$ref` field is required");
}

Status Finish(Value* schema, bool is_root);

/// `required` must name every property once.
Status CheckRequired(const Value& required, const json::Object& properties) {
  std::vector<std::string_view> names, known;
  for (const auto& [name, property] : properties) known.emplace_back(name);
  std::sort(known.begin(), known.end());
  for (const Value& name : required.AsArray()) {
    if (!std::binary_search(known.begin(), known.end(), name.AsString())) {
      return InvalidArgument(fmt::format("Required property '{}' not found in object", name.AsString()));
    }
    names.emplace_back(name.AsString());
  }
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    return InvalidArgument(fmt::format("Duplicate required property '{}'", *twice));
  }
  if (names.size() != known.size()) {
    return InvalidArgument("Required properties must match all properties in the object");
  }
  return OkStatus();
}

Status FinishObject(Value* schema, bool is_root) {
  json::Object& properties = schema->AsObject()[1].second.AsObject();
  if (properties.empty() && !is_root) return InvalidArgument("An object with no properties is not allowed.");
  Value names = json::Array();
  for (auto& [name, property] : properties) {
    DEEPINFER_RETURN_IF_ERROR(Finish(&property, false));
    names.Append(name);
  }
  if (const Value* required = schema->Find("required"); required != nullptr) {
    DEEPINFER_RETURN_IF_ERROR(CheckRequired(*required, properties));
  }
  const Value* additional = schema->Find("additionalProperties");
  if (additional != nullptr && additional->AsBool()) {
    return InvalidArgument("additionalProperties should not be true");
  }
  Value out = json::Object();
  out.Set("type", "object");
  out.Set("properties", std::move(properties));
  out.Set("additionalProperties", false);
  out.Set("required", std::move(names));
  for (const char* key : {"description", "$def", "$defs", "definitions"}) {
    if (const Value* member = schema->Find(key); member != nullptr) out.Set(key, *member);
  }
  for (auto& [key, member] : out.AsObject()) {
    if (key != "$def") continue;
    for (auto& [name, definition] : member.AsObject()) DEEPINFER_RETURN_IF_ERROR(Finish(&definition, false));
  }
  *schema = std::move(out);
  return OkStatus();
}

/// Checks and fills in `required` and `additionalProperties` of every object, the inner ones first.
Status Finish(Value* schema, bool is_root) {
  const Value* type = schema->Find("type");
  if (type != nullptr && type->is_string() && type->AsString() == "object")
    return FinishObject(schema, is_root);
  for (auto& [key, member] : schema->AsObject()) {
    if (key == "items") DEEPINFER_RETURN_IF_ERROR(Finish(&member, false));
    if (key != "anyOf") continue;
    for (Value& alternative : member.AsArray()) DEEPINFER_RETURN_IF_ERROR(Finish(&alternative, false));
  }
  return OkStatus();
}

/// Normalises the definitions under a key of today's JSON Schema where the rules allow them.
void NormalizeKeptDefinitions(Value* schema) {
  for (auto& [key, definitions] : schema->AsObject()) {
    if ((key != "$defs" && key != "definitions") || !definitions.is_object()) continue;
    for (auto& [name, definition] : definitions.AsObject()) {
      Result<Value> read = ReadSchema(definition, 0);
      if (read.ok() && Finish(&*read, false).ok()) definition = std::move(*read);
    }
  }
}

}  // namespace

Result<Value> NormalizeStrictSchema(const Value& schema) {
  Value normalized;
  if (schema.is_null()) {
    normalized = json::Object{{"type", "object"}, {"properties", json::Object()}};
  } else {
    DEEPINFER_ASSIGN_OR_RETURN(normalized, ReadSchema(schema, 0));
  }
  DEEPINFER_RETURN_IF_ERROR(Finish(&normalized, true));
  NormalizeKeptDefinitions(&normalized);
  return normalized;
}

Status AppendToolSchema(const Tool& tool, std::string* out) {
  *out += "{\"name\": ";
  AppendPythonString(tool.name, out);
  *out += ", \"description\": ";
  AppendPythonString(tool.description.value_or(""), out);
  *out += ", \"parameters\": ";
  const bool given = tool.parameters && !tool.parameters->is_null();
  if (tool.strict.value_or(false)) {
    Result<Value> normalized = NormalizeStrictSchema(given ? *tool.parameters : Value());
    if (!normalized.ok()) return std::move(normalized).status().Within(tool.name);
    AppendPythonJson(*normalized, out);
  } else if (given) {
    AppendPythonJson(*tool.parameters, out);
  } else {
    *out += "{}";
  }
  *out += '}';
  return OkStatus();
}

void AppendToolAsGiven(const Tool& tool, std::string* out) {
  *out += "{\"name\": ";
  AppendPythonString(tool.name, out);
  if (tool.description) {
    *out += ", \"description\": ";
    AppendPythonString(*tool.description, out);
  }
  if (tool.parameters) {
    *out += ", \"parameters\": ";
    AppendPythonJson(*tool.parameters, out);
  }
  if (tool.strict) *out += *tool.strict ? ", \"strict\": true" : ", \"strict\": false";
  *out += '}';
}

}  // namespace deepinfer::recipe
