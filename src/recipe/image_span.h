// How many tokens an image takes in a prompt, from its size alone (spec: recipe.md §3.8, vision.md §2.2).
#pragma once

#include <cstdint>

#include "base/status.h"

namespace deepinfer::recipe {

/// The span that replaces an image token, and the size to which the image is fitted before it is cut into patches.
struct ImageSpan {
  int64_t rows, columns;  // of model tokens; a row ends with one token more
  int64_t width, height;  // fitted size in pixels, multiples of 14

  /// Rows with their ends, and the two tokens around the image.
  int64_t num_tokens() const { return rows * (columns + 1) + 2; }

  friend bool operator==(const ImageSpan&, const ImageSpan&) = default;
};

inline constexpr int64_t kMaxImageTokens = 1024;
inline constexpr int64_t kMaxImageSide = 1'000'000;

/// One pass of the resize rule, as the released image processor makes (the library repeats it on its own result, spec: recipe.md §17
/// D13). Sizes in pixels.
/// Errors: kInvalidArgument for a side that is not in 1 … kMaxImageSide, or when the rule leaves more than kMaxImageTokens.
Result<ImageSpan> PlanImageSpan(int64_t width, int64_t height);

}  // namespace deepinfer::recipe
