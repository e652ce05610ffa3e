// Does a regular expression compile? Checked before any work is done for the request (spec: recipe.md §17 D14).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace deepinfer::recipe {

/// Nothing when `pattern` (UTF-8, Perl-like syntax as in JSON Schema) compiles, else what is wrong with it and where. Patterns over
/// 64 KiB and those whose compiled form is too large are refused.
std::optional<std::string> CheckRegex(std::string_view pattern);

}  // namespace deepinfer::recipe
