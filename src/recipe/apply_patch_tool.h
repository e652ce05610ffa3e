// The one custom tool of the Responses protocol, as the model sees it: a function with one text (spec: recipe.md §7.6).
#pragma once

#include <string_view>

#include "recipe/conversation.h"

namespace deepinfer::recipe {

inline constexpr std::string_view kApplyPatchName = "apply_patch";

/// The function that stands for the custom tool. Its wording is a fixed constant of the model's format.
Tool ApplyPatchTool();

}  // namespace deepinfer::recipe
