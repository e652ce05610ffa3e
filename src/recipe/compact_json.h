// JSON without blanks, as the grammar of the engine and the results of tool searches are spelled (spec: recipe.md §7, §3.5).
#pragma once

#include <string>

#include "base/json.h"

namespace deepinfer::recipe {

/// Appends `value`. Numbers that are no 64-bit integers have their shortest digits, plain from 1e-5 up to below 1e16, else with an
/// exponent: 1.0, 0.00001, 1.5e-7, 1e+16. Strings as in json::AppendQuoted. Recursion is bounded by the depth of a body.
void AppendCompactJson(const json::Value& value, std::string* out);

}  // namespace deepinfer::recipe
