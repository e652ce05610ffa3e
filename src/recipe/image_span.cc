#include "recipe/image_span.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/checked.h"

namespace deepinfer::recipe {
namespace {

constexpr int64_t kPatch = 14;             // pixels
constexpr int64_t kCell = 3 * kPatch;      // pixels of a model token
constexpr int64_t kMinPixels = 544 * 544;  // smaller images are enlarged to about this area

/// The span of an image of `width` by `height` pixels, both multiples of the patch.
ImageSpan SpanOf(int64_t width, int64_t height) {
  return {CeilDiv(height, kCell), CeilDiv(width, kCell), width, height};
}

/// The largest size of the same shape that keeps within the budget. All divisions in double precision, in this order.
ImageSpan Shrink(double width, double height) {
  const double ratio = height / width;
  const double columns = std::sqrt(static_cast<double>(kMaxImageTokens - 2) / ratio + 0.25) - 0.5;
  const double rows = columns * ratio;
  if (columns < 1) return SpanOf(kCell, (kMaxImageTokens - 2) / 2 * kCell);
  if (rows < 1) return SpanOf((kMaxImageTokens - 3) * kCell, kCell);
  const double cell = static_cast<double>(kCell), patch = static_cast<double>(kPatch);
  const double scale = std::min(std::floor(columns) * cell / width, std::floor(rows) * cell / height);
  return SpanOf(static_cast<int64_t>(std::floor(width * scale / patch)) * kPatch,
                static_cast<int64_t>(std::floor(height * scale / patch)) * kPatch);
}

}  // namespace

Result<ImageSpan> PlanImageSpan(int64_t width, int64_t height) {
  for (const int64_t side : {width, height}) {
    if (side < 1 || side > kMaxImageSide) {
      return InvalidArgument(fmt::format("an image of {} x {} pixels", width, height), "image");
    }
  }
  int64_t w = width, h = height;
  if (w * h < kMinPixels) {
    const double scale = std::pow(static_cast<double>(kMinPixels) / static_cast<double>(w * h), 0.5);
    w = static_cast<int64_t>(static_cast<double>(w) * scale);
    h = static_cast<int64_t>(static_cast<double>(h) * scale);
  }
  ImageSpan span = SpanOf(RoundUp(w, kPatch), RoundUp(h, kPatch));
  if (span.num_tokens() > kMaxImageTokens) span = Shrink(static_cast<double>(w), static_cast<double>(h));
  if (span.num_tokens() > kMaxImageTokens || span.width < kPatch || span.height < kPatch) {
    return InvalidArgument(fmt::format("an image of {} x {} pixels cannot be fitted", width, height),
                           "image");
  }
  return span;
}

}  // namespace deepinfer::recipe
