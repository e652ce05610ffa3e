// Tools of the Responses protocol: functions, namespaces, the custom tool, tool search (spec: recipe.md §7.6, §3.5).
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "recipe/request_context.h"
#include "recipe/request_fields.h"

namespace deepinfer::recipe {

inline constexpr Field kResponsesToolFields[] = {
    {"type", FieldType::kString, FieldPresence::kRequired,
     "`function`, `namespace`, `custom`, `tool_search`; `web_search` and `web_search_2025_08_26` are ignored "
     "(or refused, where "
     "the server says so); any other type is ignored"},
    {"name", FieldType::kAny, FieldPresence::kOptional,
     "required but for searches: 1 to 128 letters, digits, `_`, `-`; `custom`: only `apply_patch`"},
    {"description", FieldType::kAny, FieldPresence::kNullable,
     "shown to the model; that of a namespace stands in front of those of its tools"},
    {"parameters", FieldType::kAny, FieldPresence::kNullable,
     "a JSON Schema with `\"type\": \"object\"`, no references to other documents"},
    {"strict", FieldType::kAny, FieldPresence::kNullable,
     "the schema is brought into the strict form; all tools that may be called or none"},
    {"tools", FieldType::kAny, FieldPresence::kOptional,
     "`namespace`: required, functions; the model sees `namespace::name`, with `_1`, `_2` … when that is "
     "taken"},
    {"execution", FieldType::kAny, FieldPresence::kNullable,
     "`tool_search`: `client` makes it a function of the request, `server` is ignored"},
    {"search_context_size", FieldType::kAny, FieldPresence::kNullable, "`web_search`: ignored"},
    {"user_location", FieldType::kAny, FieldPresence::kNullable, "`web_search`: ignored"},
};

/// Reads lists of tools into the conversation. One object per request: names of namespaces must not collide between lists.
class ResponsesToolReader {
 public:
  /// What a list of tools leaves behind beside the conversation's tools.
  struct Listing {
    json::Array echo;                // the tools as the object of the protocol repeats them
    json::Array flat;                // the same with namespaces resolved: what a search result shows
    std::vector<std::string> names;  // of the tools that were added
  };

  explicit ResponsesToolReader(RequestContext& context) : context_(context) {}

  /// `tools` is an array, `place` what messages call it. Tools found by a search are `deferred`. False after a Reject.
  bool Read(JsonView tools, const FieldPath& path, const std::string& place, bool deferred, Listing* listing);

 private:
  bool ReadTool(JsonView value, const FieldPath& path, const std::string& place, Listing* listing);
  bool ReadFunction(const FieldValues& values, const FieldPath& path, const std::string& place,
                    Listing* listing);
  bool ReadNamespace(const FieldValues& values, const FieldPath& path, const std::string& place,
                     Listing* listing);
  bool ReadNamespaceTool(JsonView value, const FieldPath& path, const std::string& place,
                         const FieldValues& name_space, std::unordered_set<std::string_view>* names,
                         json::Array* echo, Listing* listing);
  bool ReadCustom(const FieldValues& values, const FieldPath& path, Listing* listing);
  bool ReadSearch(const FieldValues& values, const FieldPath& path, Listing* listing);
  bool CheckFunctionTypes(const FieldValues& values, const FieldPath& path);
  void Add(Tool tool, Listing* listing);
  std::string FlatName(std::string_view name_space, std::string_view name);

  RequestContext& context_;
  bool deferred_ = false;
  std::unordered_set<std::string> flat_names_;
  std::unordered_map<std::string, size_t> next_suffix_;
};

}  // namespace deepinfer::recipe
