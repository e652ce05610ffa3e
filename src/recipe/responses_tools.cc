#include "recipe/responses_tools.h"

#include <fmt/format.h>

#include "recipe/apply_patch_tool.h"
#include "recipe/request_tools.h"

namespace deepinfer::recipe {
namespace {

json::Value ValueOrNull(const FieldValues& values, std::string_view name) {
  const auto value = values[name];
  return value.has_value() ? value->ToValue() : json::Value();
}

// The members that tools are repeated with, absent ones as null.
json::Object Echo(const FieldValues& values, std::initializer_list<std::string_view> names) {
  json::Object echo;
  for (const std::string_view name : names) echo.emplace_back(name, ValueOrNull(values, name));
  return echo;
}

}  // namespace

bool ResponsesToolReader::Read(JsonView tools, const FieldPath& path, const std::string& place, bool deferred,
                               Listing* listing) {
  deferred_ = deferred;
  size_t index = 0;
  for (const JsonView tool : tools.elements()) {
    if (!ReadTool(tool, path.Element(index), fmt::format("{}[{}]", place, index), listing)) return false;
    ++index;
  }
  return true;
}

bool ResponsesToolReader::ReadTool(JsonView value, const FieldPath& path, const std::string& place,
                                   Listing* listing) {
  FieldValues values;
  if (!FieldValues::Read(value, path, kResponsesToolFields, context_, &values)) return false;
  const std::string_view type = values.Text("type");
  if (type == "function") return ReadFunction(values, path, place, listing);
  if (type == "namespace") return ReadNamespace(values, path, place, listing);
  if (type == "custom") return ReadCustom(values, path, listing);
  if (type == "tool_search") return ReadSearch(values, path, listing);
  if (type == "web_search" || type == "web_search_2025_08_26") {
    if (context_.options.responses_web_search == RequestOptions::WebSearch::kReject) {
      return context_.Reject(RejectKind::kServerTool, "Server tools are not supported");
    }
    listing->echo.emplace_back(Echo(values, {"type", "search_context_size", "user_location"}));
    listing->flat.push_back(listing->echo.back());
  }
  return true;
}

bool ResponsesToolReader::CheckFunctionTypes(const FieldValues& values, const FieldPath& path) {
  return values.Required("name", FieldType::kString, path, context_).has_value() &&
         values.Check("description", FieldType::kString, path, context_) &&
         values.Check("strict", FieldType::kBool, path, context_);
}

void ResponsesToolReader::Add(Tool tool, Listing* listing) {
  tool.defer_loading = deferred_;
  listing->names.push_back(tool.name);
  context_.conversation().tools.push_back(std::move(tool));
}

bool ResponsesToolReader::ReadFunction(const FieldValues& values, const FieldPath& path,
                                       const std::string& place, Listing* listing) {
  if (!CheckFunctionTypes(values, path) || !CheckToolName(values.Text("name"), place + ".name", context_))
    return false;
  listing->echo.emplace_back(Echo(values, {"type", "name", "description", "parameters", "strict"}));
  listing->flat.push_back(listing->echo.back());
  Add(MakeTool(values, "parameters"), listing);
  return true;
}

bool ResponsesToolReader::ReadNamespace(const FieldValues& values, const FieldPath& path,
                                        const std::string& place, Listing* listing) {
  if (!values.Required("name", FieldType::kString, path, context_) ||
      !values.Check("description", FieldType::kString, path, context_)) {
    return false;
  }
  const auto tools = values.Required("tools", FieldType::kArray, path, context_);
  if (!tools.has_value() || !CheckToolName(values.Text("name"), place + ".name", context_)) return false;
  const FieldPath tools_path = path.Member("tools");
  std::unordered_set<std::string_view> names;
  json::Array echo;
  size_t index = 0;
  for (const JsonView tool : tools->elements()) {
    if (!ReadNamespaceTool(tool, tools_path.Element(index), fmt::format("{}.tools[{}]", place, index), values,
                           &names, &echo, listing)) {
      return false;
    }
    ++index;
  }
  json::Object entry = Echo(values, {"type", "name", "description"});
  entry.emplace_back("tools", std::move(echo));
  listing->echo.emplace_back(std::move(entry));
  return true;
}

bool ResponsesToolReader::ReadNamespaceTool(JsonView value, const FieldPath& path, const std::string& place,
                                            const FieldValues& name_space,
                                            std::unordered_set<std::string_view>* names, json::Array* echo,
                                            Listing* listing) {
  static constexpr std::array<std::string_view, 2> kTypes = {"function", "custom"};
  FieldValues values;
  if (!FieldValues::Read(value, path, kResponsesToolFields, context_, &values)) return false;
  const auto type = ReadVariant(*values["type"], path.Member("type"), kTypes, context_);
  if (!type.has_value() || !CheckFunctionTypes(values, path)) return false;
  const std::string_view name = values.Text("name");
  if (kTypes[*type] == "custom") {
    return context_.Reject(RejectKind::kCustomTool,
                           fmt::format("Currently custom tools are not allowed inside a namespace. "
                                       "Found custom tool '{}' in {}.",
                                       Shortened(name), place));
  }
  if (!CheckToolName(name, place + ".name", context_)) return false;
  if (!names->insert(name).second) {
    return context_.Reject(RejectKind::kToolNamesUnique, "Tool names within a namespace must be unique.");
  }
  json::Object entry = Echo(values, {"type", "name", "description", "parameters", "strict"});
  echo->emplace_back(entry);
  json::Object owner;
  owner.emplace_back("name", name_space.Text("name"));
  owner.emplace_back("description", name_space.Text("description"));
  entry.emplace_back("namespace", std::move(owner));
  listing->flat.emplace_back(std::move(entry));

  Tool tool = MakeTool(values, "parameters");
  if (const std::string_view description = name_space.Text("description"); !description.empty()) {
    tool.description = fmt::format("{}\n{}", description, tool.description.value_or(""));
  }
  // A schema's error names the tool as the model would see it.
  tool.name = FlatName(name_space.Text("name"), name);
  context_.request.namespaces.push_back({tool.name, std::string(name_space.Text("name")), std::string(name)});
  Add(std::move(tool), listing);
  return true;
}

std::string ResponsesToolReader::FlatName(std::string_view name_space, std::string_view name) {
  const std::string wanted = fmt::format("{}::{}", name_space, name);
  std::string flat = wanted;
  while (!flat_names_.insert(flat).second) flat = fmt::format("{}_{}", wanted, ++next_suffix_[wanted]);
  return flat;
}

bool ResponsesToolReader::ReadCustom(const FieldValues& values, const FieldPath& path, Listing* listing) {
  const auto name = values.Required("name", FieldType::kString, path, context_);
  if (!name.has_value()) return false;
  if (name->AsString() != kApplyPatchName) {
    return context_.Reject(RejectKind::kCustomTool,
                           fmt::format("Unsupported custom tool: '{}'. Only '{}' is supported.",
                                       Shortened(name->AsString()), kApplyPatchName));
  }
  listing->echo.emplace_back(Echo(values, {"type", "name"}));
  listing->flat.push_back(listing->echo.back());
  context_.request.custom_tools.emplace_back(kApplyPatchName);
  Add(ApplyPatchTool(), listing);
  return true;
}

bool ResponsesToolReader::ReadSearch(const FieldValues& values, const FieldPath& path, Listing* listing) {
  static constexpr std::array<std::string_view, 2> kExecutions = {"client", "server"};
  if (!values.Check("description", FieldType::kString, path, context_)) return false;
  const auto execution = values["execution"];
  if (execution.has_value() && !ReadVariant(*execution, path.Member("execution"), kExecutions, context_))
    return false;
  listing->echo.emplace_back(Echo(values, {"type", "execution", "description", "parameters"}));
  listing->flat.push_back(listing->echo.back());
  if (!execution.has_value() || execution->AsString() != "client") return true;
  Tool tool;
  tool.name = "tool_search";
  if (const auto description = values["description"]) tool.description = description->AsString();
  if (const auto parameters = values["parameters"]) tool.parameters = parameters->ToValue();
  Add(std::move(tool), listing);
  return true;
}

}  // namespace deepinfer::recipe
