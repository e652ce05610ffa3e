// Products of bf16 rows with stored weights, in double, and the loop over independent rows.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/ops.h"

namespace deepinfer::kernels::reference {

inline double ToDouble(Bf16 value) { return static_cast<double>(ToFloat(value)); }

inline double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// body(row) for every row, distributed over the threads of the context.
template <typename Body>
void ForEachRow(const OpContext& ctx, int64_t rows, const Body& body) {
  const auto range = [&body](int64_t begin, int64_t end, int /*thread*/) {
    for (int64_t row = begin; row < end; ++row) body(row);
  };
  if (ctx.pool == nullptr) {
    range(0, rows, 0);
  } else {
    ctx.pool->ParallelFor(rows, 1, range);
  }
}

/// A strided list of bf16 rows.
struct RowsView {
  const Bf16* data = nullptr;
  int64_t rows = 0;
  int64_t stride = 0;
};

/// Receives out[row, first_output .. first_output + values.size()). Calls come from several threads, each element once.
using DotSink = std::function<void(int64_t row, int64_t first_output, std::span<const double> values)>;

/// x . W^T for the output features [out_begin, out_end) of a weight: sums over k ascending, in double.
void WeightDots(const OpContext& ctx, const RowsView& x, const WeightView& weight, int64_t out_begin,
                int64_t out_end, const DotSink& sink);

/// sum_i a[i] * b[i] with eight interleaved partial sums, which are then added pairwise.
double Dot(const double* a, const double* b, int64_t n);

void ToDoubles(const Bf16* x, int64_t n, double* out);

}  // namespace deepinfer::kernels::reference
