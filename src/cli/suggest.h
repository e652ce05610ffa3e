// "Did you mean …": the nearest of a set of names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace deepinfer::cli {

/// Changes (insert, delete, replace, swap of neighbours) that turn `a` into `b`.
int EditDistance(std::string_view a, std::string_view b);

/// The name nearest to `word`, the first one on ties; empty when none is near enough to be meant.
std::string Nearest(std::string_view word, std::span<const std::string> names);

}  // namespace deepinfer::cli
