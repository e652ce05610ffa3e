// Tools that a request declares: names, schemas, the choice among them (spec: recipe.md §3.5, §7).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "recipe/conversation.h"
#include "recipe/request_context.h"

namespace deepinfer::recipe {

/// A tool's (or namespace's) name: 1–128 letters, digits, `_` and `-`. `place` is what messages call the field.
bool CheckToolName(std::string_view name, std::string_view place, RequestContext& context);

/// The tool that a checked object declares: name, description, strict, and its schema under the given name.
Tool MakeTool(const FieldValues& values, std::string_view parameters);

/// Declared names are unique, parameters are JSON Schemas of type object, the choice names one of the tools, and only what may be
/// called stays (spec: recipe.md §7). Strict schemas are normalised here. With `tool_choice: none` only the names count.
bool ResolveTools(RequestContext& context);

/// The grammar constraint for the tools (kToolCall, kToolCallRequired), or nothing without tools.
std::optional<Constraint> ToolConstraint(const Conversation& conversation);

}  // namespace deepinfer::recipe
