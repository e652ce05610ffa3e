#include "recipe/json_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "recipe/compact_json.h"
#include "recipe/regex_syntax.h"

namespace deepinfer::recipe {
namespace {

using json::Value;

std::string Text(const Value& value) {
  std::string text;
  AppendCompactJson(value, &text);
  return text;
}

/// What the value of a keyword has to be.
enum class Form : uint8_t {
  kSchema,        // a schema
  kSchemaMap,     // an object of schemas
  kPatternMap,    // the same, keys are regular expressions
  kSchemaList,    // a non-empty array of schemas
  kItems,         // a schema; an array of them before draft 2020-12
  kDependencies,  // an object of schemas and arrays of names
  kNameMap,       // an object of arrays of names
  kNames,         // an array of different strings
  kType,          // a name of a type or an array of different ones
  kNumber,        // a number
  kBound,         // a number; a boolean in draft 4
  kPositive,      // a number above 0
  kCount,         // an integer from 0
  kBool,
  kString,
  kArray,
  kObject,
  kRegex,
  kAnchor,
};

struct Keyword {
  std::string_view name;
  Form form;
};

constexpr Keyword kKeywords[] = {
    {"properties", Form::kSchemaMap},
    {"patternProperties", Form::kPatternMap},
    {"$defs", Form::kSchemaMap},
    {"definitions", Form::kSchemaMap},
    {"dependentSchemas", Form::kSchemaMap},
    {"additionalProperties", Form::kSchema},
    {"unevaluatedProperties", Form::kSchema},
    {"unevaluatedItems", Form::kSchema},
    {"additionalItems", Form::kSchema},
    {"propertyNames", Form::kSchema},
    {"contains", Form::kSchema},
    {"contentSchema", Form::kSchema},
    {"not", Form::kSchema},
    {"if", Form::kSchema},
    {"then", Form::kSchema},
    {"else", Form::kSchema},
    {"items", Form::kItems},
    {"allOf", Form::kSchemaList},
    {"anyOf", Form::kSchemaList},
    {"oneOf", Form::kSchemaList},
    {"prefixItems", Form::kSchemaList},
    {"dependencies", Form::kDependencies},
    {"dependentRequired", Form::kNameMap},
    {"required", Form::kNames},
    {"type", Form::kType},
    {"maximum", Form::kNumber},
    {"minimum", Form::kNumber},
    {"exclusiveMaximum", Form::kBound},
    {"exclusiveMinimum", Form::kBound},
    {"multipleOf", Form::kPositive},
    {"maxLength", Form::kCount},
    {"minLength", Form::kCount},
    {"maxItems", Form::kCount},
    {"minItems", Form::kCount},
    {"maxProperties", Form::kCount},
    {"minProperties", Form::kCount},
    {"maxContains", Form::kCount},
    {"minContains", Form::kCount},
    {"uniqueItems", Form::kBool},
    {"deprecated", Form::kBool},
    {"readOnly", Form::kBool},
    {"writeOnly", Form::kBool},
    {"pattern", Form::kRegex},
    {"title", Form::kString},
    {"description", Form::kString},
    {"format", Form::kString},
    {"contentEncoding", Form::kString},
    {"contentMediaType", Form::kString},
    {"$comment", Form::kString},
    {"$id", Form::kString},
    {"$ref", Form::kString},
    {"$dynamicRef", Form::kString},
    {"$anchor", Form::kAnchor},
    {"$dynamicAnchor", Form::kAnchor},
    {"enum", Form::kArray},
    {"examples", Form::kArray},
    {"$vocabulary", Form::kObject},
};

constexpr std::array<std::string_view, 7> kTypes = {"array",  "boolean", "integer", "null",
                                                    "number", "object",  "string"};

constexpr std::string_view kDraft202012 = "https://json-schema.org/draft/2020-12/schema";
constexpr std::array<std::string_view, 5> kDrafts = {
    kDraft202012, "https://json-schema.org/draft/2019-09/schema", "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema", "http://json-schema.org/draft-04/schema"};

std::string_view WithoutEmptyFragment(std::string_view uri) {
  if (uri.ends_with('#')) uri.remove_suffix(1);
  return uri;
}

/// Checks one schema. Members return false once `fault_` is set.
class Checker {
 public:
  explicit Checker(const Value& root) : root_(root) {}

  std::optional<std::string> Run() {
    if (ReadDraft() && CheckSchema(root_) && CheckReferences()) return std::nullopt;
    return fault_;
  }

 private:
  bool Fail(std::string what) {
    fault_ = std::move(what);
    return false;
  }
  bool NotOfType(const Value& value, std::string_view type) {
    return Fail(fmt::format("{} is not of type \"{}\"", Text(value), type));
  }

  bool ReadDraft() {
    const Value* name = root_.Find("$schema");
    if (name == nullptr) return true;
    if (!name->is_string()) return NotOfType(*name, "string");
    if (name->AsString().empty()) return true;
    draft_ = WithoutEmptyFragment(name->AsString());
    if (std::find(kDrafts.begin(), kDrafts.end(), draft_) != kDrafts.end()) return true;
    return Fail(fmt::format(
        "Unknown meta-schema: '{}'. Custom meta-schemas must be registered in the registry before use",
        name->AsString()));
  }

  bool CheckSchema(const Value& schema) {
    if (schema.is_bool()) return true;
    if (!schema.is_object())
      return Fail(fmt::format("{} is not of types \"boolean\", \"object\"", Text(schema)));
    if (!checked_.insert(&schema).second) return true;
    for (const auto& [key, value] : schema.AsObject()) {
      const auto* keyword =
          std::find_if(std::begin(kKeywords), std::end(kKeywords),
                       [&key = key](const Keyword& candidate) { return candidate.name == key; });
      if (keyword == std::end(kKeywords)) continue;
      if (!CheckForm(keyword->form, value)) return false;
      Note(key, value);
    }
    return true;
  }

  // References are looked up when all anchors and ids are known.
  void Note(std::string_view key, const Value& value) {
    if (key == "$ref" || key == "$dynamicRef") references_.push_back(value.AsString());
    if (key == "$anchor" || key == "$dynamicAnchor") anchors_.insert(value.AsString());
    if (key == "$id") ids_.insert(WithoutEmptyFragment(value.AsString()));
  }

  bool CheckForm(Form form, const Value& value) {
    switch (form) {
      case Form::kSchema: return CheckSchema(value);
      case Form::kSchemaMap:
      case Form::kPatternMap: return CheckSchemaMap(value, form == Form::kPatternMap);
      case Form::kSchemaList: return CheckSchemaList(value);
      case Form::kItems:
        return value.is_array() && draft_ != kDraft202012 ? CheckSchemas(value.AsArray())
                                                          : CheckSchema(value);
      case Form::kDependencies: return CheckDependencies(value);
      case Form::kNameMap: return CheckNameMap(value);
      case Form::kNames: return CheckNames(value);
      case Form::kType: return CheckType(value);
      case Form::kBound:
        if (value.is_bool() && draft_ == kDrafts.back()) return true;
        [[fallthrough]];
      case Form::kNumber: return value.is_number() || NotOfType(value, "number");
      case Form::kPositive:
        if (!value.is_number()) return NotOfType(value, "number");
        return value.AsDouble() > 0 || Fail(Text(value) + " is less than or equal to the minimum of 0");
      case Form::kCount: return CheckCount(value);
      case Form::kBool: return value.is_bool() || NotOfType(value, "boolean");
      case Form::kString: return value.is_string() || NotOfType(value, "string");
      case Form::kArray: return value.is_array() || NotOfType(value, "array");
      case Form::kObject: return value.is_object() || NotOfType(value, "object");
      case Form::kRegex:
        if (!value.is_string()) return NotOfType(value, "string");
        return !CheckRegex(value.AsString()).has_value() || Fail(Text(value) + " is not a \"regex\"");
      case Form::kAnchor: return CheckAnchor(value);
    }
    return true;
  }

  bool CheckSchemas(const json::Array& schemas) {
    return std::all_of(schemas.begin(), schemas.end(),
                       [this](const Value& schema) { return CheckSchema(schema); });
  }

  bool CheckSchemaList(const Value& value) {
    if (!value.is_array()) return NotOfType(value, "array");
    if (value.AsArray().empty()) return Fail("[] has less than 1 item");
    return CheckSchemas(value.AsArray());
  }

  bool CheckSchemaMap(const Value& value, bool patterns) {
    if (!value.is_object()) return NotOfType(value, "object");
    for (const auto& [key, schema] : value.AsObject()) {
      if (patterns && CheckRegex(key).has_value()) return Fail(Text(Value(key)) + " is not a \"regex\"");
      if (!CheckSchema(schema)) return false;
    }
    return true;
  }

  bool CheckNames(const Value& value) {
    if (!value.is_array()) return NotOfType(value, "array");
    std::unordered_set<std::string_view> names;
    for (const Value& name : value.AsArray()) {
      if (!name.is_string()) return NotOfType(name, "string");
      if (!names.insert(name.AsString()).second) return Fail(Text(value) + " has non-unique elements");
    }
    return true;
  }

  bool CheckNameMap(const Value& value) {
    if (!value.is_object()) return NotOfType(value, "object");
    const auto& members = value.AsObject();
    return std::all_of(members.begin(), members.end(),
                       [this](const auto& member) { return CheckNames(member.second); });
  }

  bool CheckDependencies(const Value& value) {
    if (!value.is_object()) return NotOfType(value, "object");
    for (const auto& [key, entry] : value.AsObject()) {
      if (!entry.is_array() && !entry.is_object() && !entry.is_bool()) {
        return Fail(Text(entry) + " is not valid under any of the schemas listed in the 'anyOf' keyword");
      }
      if (entry.is_array() ? !CheckNames(entry) : !CheckSchema(entry)) return false;
    }
    return true;
  }

  bool CheckType(const Value& value) {
    const auto is_type = [](const Value& name) {
      return name.is_string() && std::find(kTypes.begin(), kTypes.end(), name.AsString()) != kTypes.end();
    };
    bool sound = is_type(value);
    if (value.is_array() && !value.AsArray().empty() && value.AsArray().size() <= kTypes.size()) {
      std::unordered_set<std::string_view> names;
      sound = std::all_of(value.AsArray().begin(), value.AsArray().end(), [&](const Value& name) {
        return is_type(name) && names.insert(name.AsString()).second;
      });
    }
    return sound ||
           Fail(Text(value) + " is not valid under any of the schemas listed in the 'anyOf' keyword");
  }

  bool CheckCount(const Value& value) {
    if (!value.is_number() || std::floor(value.AsDouble()) != value.AsDouble())
      return NotOfType(value, "integer");
    return value.AsDouble() >= 0 || Fail(Text(value) + " is less than the minimum of 0");
  }

  bool CheckAnchor(const Value& value) {
    if (!value.is_string()) return NotOfType(value, "string");
    const auto is_letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    const std::string& name = value.AsString();
    const bool sound =
        !name.empty() && is_letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
          return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
        });
    return sound || Fail(Text(value) + " does not match \"^[A-Za-z_][-A-Za-z0-9._]*$\"");
  }

  bool CheckReferences() {
    std::unordered_set<std::string_view> seen;
    // What a reference leads to may hold further ones.
    for (size_t i = 0; i < references_.size(); ++i) {
      if (seen.insert(references_[i]).second && !CheckReference(references_[i])) return false;
    }
    return true;
  }

  bool CheckReference(std::string_view reference) {
    const size_t hash = reference.find('#');
    const std::string_view resource = reference.substr(0, hash);
    const std::string_view fragment =
        hash == std::string_view::npos ? std::string_view() : reference.substr(hash + 1);
    if (!resource.empty()) {
      if (IsKnownResource(resource)) return true;
      return Fail(
          fmt::format("Resource '{0}' is not present in a registry and retrieving it failed: Retrieval is "
                      "disabled, cannot fetch {0}",
                      resource));
    }
    if (fragment.empty()) return true;
    if (fragment[0] != '/') {
      return anchors_.contains(fragment) || Fail(fmt::format("Anchor '{}' does not exist", fragment));
    }
    const Value* target = FindPointer(fragment);
    if (target == nullptr) return Fail(fmt::format("Pointer '{}' does not exist", fragment));
    return CheckSchema(*target);
  }

  // The schema's own resources, by their id as it is written or by its last part, and the published meta-schemas.
  bool IsKnownResource(std::string_view resource) const {
    if (ids_.contains(resource)) return true;
    const size_t slash = resource.rfind('/');
    if (slash != std::string_view::npos && ids_.contains(resource.substr(slash + 1))) return true;
    return std::find(kDrafts.begin(), kDrafts.end(), resource) != kDrafts.end();
  }

  const Value* FindPointer(std::string_view pointer) {
    const Value* at = &root_;
    while (!pointer.empty()) {
      const size_t end = std::min(pointer.find('/', 1), pointer.size());
      const std::string token = Unescaped(pointer.substr(1, end - 1));
      pointer.remove_prefix(end);
      if (at->is_object()) {
        at = Member(*at, token);
      } else if (at->is_array()) {
        at = Element(at->AsArray(), token);
      } else {
        return nullptr;
      }
      if (at == nullptr) return nullptr;
    }
    return at;
  }

  // Objects that many references lead through are indexed once.
  const Value* Member(const Value& object, const std::string& name) {
    constexpr size_t kFew = 16;
    if (object.AsObject().size() <= kFew) return object.Find(name);
    auto [index, fresh] = members_.try_emplace(&object);
    if (fresh) {
      for (const auto& [key, value] : object.AsObject()) index->second.emplace(key, &value);
    }
    const auto member = index->second.find(name);
    return member == index->second.end() ? nullptr : member->second;
  }

  static const Value* Element(const json::Array& array, std::string_view token) {
    size_t index = 0;
    if (token.empty() || token.size() > 9) return nullptr;
    for (const char c : token) {
      if (c < '0' || c > '9') return nullptr;
      index = index * 10 + static_cast<size_t>(c - '0');
    }
    return index < array.size() ? &array[index] : nullptr;
  }

  // A token of a JSON pointer in a URI fragment: %xx, then ~1 and ~0.
  static std::string Unescaped(std::string_view token) {
    const auto digit = [](char c) {
      if (c >= '0' && c <= '9') return c - '0';
      c = static_cast<char>(c | 0x20);
      return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    };
    std::string bytes;
    for (size_t i = 0; i < token.size(); ++i) {
      if (token[i] == '%' && i + 2 < token.size() && digit(token[i + 1]) >= 0 && digit(token[i + 2]) >= 0) {
        bytes += static_cast<char>(digit(token[i + 1]) * 16 + digit(token[i + 2]));
        i += 2;
      } else {
        bytes += token[i];
      }
    }
    std::string text;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const bool escape =
          bytes[i] == '~' && i + 1 < bytes.size() && (bytes[i + 1] == '0' || bytes[i + 1] == '1');
      text += escape ? (bytes[++i] == '1' ? '/' : '~') : bytes[i];
    }
    return text;
  }

  const Value& root_;
  std::string_view draft_ = kDraft202012;
  std::vector<std::string_view> references_;
  std::unordered_set<const Value*> checked_;
  std::unordered_set<std::string_view> anchors_;
  std::unordered_set<std::string_view> ids_;
  std::unordered_map<const Value*, std::unordered_map<std::string_view, const Value*>> members_;
  std::string fault_;
};

}  // namespace

std::optional<std::string> CheckJsonSchema(const json::Value& schema) { return Checker(schema).Run(); }

}  // namespace deepinfer::recipe
