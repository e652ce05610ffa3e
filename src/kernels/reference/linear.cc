// Linears (spec: model.md §4.5-4.7, §8.9).
#include "kernels/reference/dot.h"
#include "kernels/reference/functions.h"

namespace deepinfer::kernels::reference {

void Linear(const OpContext& ctx, const LinearParams& p) {
  const int64_t outputs = p.weight.out_features;
  const DotSink store = [&p, outputs](int64_t row, int64_t first, std::span<const double> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t at = static_cast<size_t>(row * outputs + first) + i;
      if (p.y != nullptr) {
        p.y[at] = ToBf16(values[i]);
      } else {
        p.y_f32[at] = static_cast<float>(values[i]);
      }
    }
  };
  const int64_t per_group = outputs / p.groups;
  for (int64_t g = 0; g < p.groups; ++g) {
    const RowsView x{p.x + g * p.weight.in_features, p.rows, p.groups * p.weight.in_features};
    WeightDots(ctx, x, p.weight, g * per_group, (g + 1) * per_group, store);
  }
}

}  // namespace deepinfer::kernels::reference
