#include "kernels/reference/dot.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "tensor/quantize.h"

namespace deepinfer::kernels::reference {
namespace {

constexpr int64_t kLanes = 16;        // output features that the inner loop sums at once
constexpr int64_t kTilesPerTask = 4;  // tiles that share one expansion of an input row
constexpr int64_t kTask = kLanes * kTilesPerTask;

/// Value of W[o, k .. k + n) for one output feature, `k` a multiple of 32 and n <= 32.  spec: model.md §4.1, §4.5, §4.6
void ExpandGroup(const WeightView& w, int64_t o, int64_t k, int64_t n, double* out) {
  const int64_t at = o * w.in_features + k;
  switch (w.format) {
    case WeightFormat::kBf16:
      for (int64_t i = 0; i < n; ++i) out[i] = ToDouble(static_cast<const Bf16*>(w.data)[at + i]);
      return;
    case WeightFormat::kFp32:
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<const float*>(w.data)[at + i];
      return;
    case WeightFormat::kFp8Tile32: {
      const int64_t scale_columns = (w.in_features + kQuantGroup - 1) / kQuantGroup;
      const double scale = E8m0ToFloat(w.scales[o / kQuantGroup * scale_columns + k / kQuantGroup]);
      for (int64_t i = 0; i < n; ++i)
        out[i] = E4m3ToFloat(static_cast<const uint8_t*>(w.data)[at + i]) * scale;
      return;
    }
    case WeightFormat::kFp4Row32: {
      const double scale = E8m0ToFloat(w.scales[o * (w.in_features / kQuantGroup) + k / kQuantGroup]);
      const uint8_t* packed = static_cast<const uint8_t*>(w.data) + at / 2;
      for (int64_t i = 0; i < n; ++i) {
        const int code =
            i % 2 == 0 ? packed[i / 2] & 15 : packed[i / 2] >> 4;  // even element in the low nibble
        out[i] = E2m1ToFloat(static_cast<uint8_t>(code)) * scale;
      }
      return;
    }
  }
}

/// Weight rows [first, first + count) as doubles [K][kLanes], zero in the lanes beyond `count`.
void ExpandTile(const WeightView& w, int64_t first, int64_t count, double* tile) {
  std::array<double, kQuantGroup> group;
  for (int64_t k = 0; k < w.in_features; ++k)
    std::fill(tile + k * kLanes + count, tile + (k + 1) * kLanes, 0.0);
  for (int64_t lane = 0; lane < count; ++lane) {
    for (int64_t k = 0; k < w.in_features; k += kQuantGroup) {
      const int64_t n = std::min<int64_t>(kQuantGroup, w.in_features - k);
      ExpandGroup(w, first + lane, k, n, group.data());
      for (int64_t i = 0; i < n; ++i) tile[(k + i) * kLanes + lane] = group[static_cast<size_t>(i)];
    }
  }
}

void TileDots(const double* x, const double* tile, int64_t k_size, double* out) {
  double sums[kLanes] = {};
  for (int64_t k = 0; k < k_size; ++k) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += x[k] * tile[k * kLanes + lane];
  }
  std::copy(sums, sums + kLanes, out);
}

/// Output features [begin, begin + count), count <= kTask, of all rows.
void TaskDots(const RowsView& x, const WeightView& w, int64_t begin, int64_t count, const DotSink& sink) {
  const int64_t k_size = w.in_features;
  const int64_t tiles = (count + kLanes - 1) / kLanes;
  const auto expanded =
      std::make_unique_for_overwrite<double[]>(static_cast<size_t>(tiles * k_size * kLanes));
  for (int64_t i = 0; i < tiles; ++i) {
    ExpandTile(w, begin + i * kLanes, std::min(kLanes, count - i * kLanes),
               expanded.get() + i * k_size * kLanes);
  }
  std::vector<double> input(static_cast<size_t>(k_size));
  std::array<double, kTask> out;
  for (int64_t row = 0; row < x.rows; ++row) {
    ToDoubles(x.data + row * x.stride, k_size, input.data());
    for (int64_t i = 0; i < tiles; ++i) {
      TileDots(input.data(), expanded.get() + i * k_size * kLanes, k_size, out.data() + i * kLanes);
    }
    sink(row, begin, std::span<const double>(out.data(), static_cast<size_t>(count)));
  }
}

}  // namespace

void WeightDots(const OpContext& ctx, const RowsView& x, const WeightView& weight, int64_t out_begin,
                int64_t out_end, const DotSink& sink) {
  if (x.rows == 0) return;
  const int64_t tasks = (out_end - out_begin + kTask - 1) / kTask;
  ForEachRow(ctx, tasks, [&](int64_t task) {
    const int64_t begin = out_begin + task * kTask;
    TaskDots(x, weight, begin, std::min(kTask, out_end - begin), sink);
  });
}

double Dot(const double* a, const double* b, int64_t n) {
  constexpr int64_t kSums = 8;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int64_t lane = 0; lane < kSums; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < n; ++i) sums[i % kSums] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

void ToDoubles(const Bf16* x, int64_t n, double* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = ToDouble(x[i]);
}

}  // namespace deepinfer::kernels::reference
