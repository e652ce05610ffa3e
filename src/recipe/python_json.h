// JSON as Python's `json.dumps(value, ensure_ascii=False)` writes it: the style of schemas, arguments and response formats in
// prompts (spec: recipe.md §3.4).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "recipe/json_document.h"

namespace deepinfer::recipe {

/// How numbers come out that 64 bits do not hold.
enum class NumberStyle : uint8_t {
  kRecipe,  // as the nearest double: integers beyond 64 bits, and `-0` as `-0.0`
  kPython,  // as Python keeps them: the digits of integers of any size, `-0` as `0`
};

/// Appends the value with `", "` and `": "`, members in their order. NaN and infinities are written as Python spells them.
void AppendPythonJson(const json::Value& value, std::string* out);
std::string PythonJson(const json::Value& value);

/// The same for a value of a client's text; of equal keys the last value stands at the place of the first.
void AppendPythonJson(JsonView value, NumberStyle style, std::string* out);

/// Appends the quoted string: only quote, backslash and control characters below 0x20 are escaped.
void AppendPythonString(std::string_view text, std::string* out);

/// Appends a double as Python's `repr`: the shortest digits that read back, `1.0`, `1e-05`, `1e+16`.
void AppendPythonDouble(double value, std::string* out);

}  // namespace deepinfer::recipe
