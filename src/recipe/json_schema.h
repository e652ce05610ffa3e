// Is a value a usable JSON Schema? Keywords of draft 2020-12 and, where a schema names them, of drafts 4 to 2019-09. Nothing is
// fetched: a reference has to point into the schema itself (spec: recipe.md §7).
#pragma once

#include <optional>
#include <string>

#include "base/json.h"

namespace deepinfer::recipe {

/// Nothing when `schema` compiles, else what is wrong, e.g. `"x" is not of type "array"`. Time grows with the size of the schema;
/// recursion is bounded by the depth of a body.
std::optional<std::string> CheckJsonSchema(const json::Value& schema);

}  // namespace deepinfer::recipe
