// Tool definitions as prompts show them, and the schema rules of strict tools (spec: recipe.md §3.5).
#pragma once

#include <string>

#include "base/json.h"
#include "base/status.h"
#include "recipe/conversation.h"

namespace deepinfer::recipe {

/// The schema of a strict tool in the shape that the model was given in training: known members only and in a fixed order, every
/// property required, nothing additional. Null (not given) is an object without properties. `$defs` and `definitions` stay behind
/// `$def`; what the rules do not allow inside these two stays as it is (spec: recipe.md §17 D6). Normalising twice changes nothing.
/// Errors: kInvalidArgument whose message is that of the API: "Required properties must match all properties in the object",
/// "additionalProperties should not be true", "An object with no properties is not allowed.", "Invalid tool parameters schema : …".
Result<json::Value> NormalizeStrictSchema(const json::Value& schema);

/// Appends `{"name": …, "description": …, "parameters": …}`: a missing description is `""`, missing parameters are `{}`, those of a
/// strict tool are normalised. Errors: those of NormalizeStrictSchema, with the tool's name as place.
Status AppendToolSchema(const Tool& tool, std::string* out);

/// Appends the members that the tool has, in the order name, description, parameters, strict, and the schema as it was given: the
/// line of the checkpoint profile (spec: recipe.md §3.9).
void AppendToolAsGiven(const Tool& tool, std::string* out);

}  // namespace deepinfer::recipe
