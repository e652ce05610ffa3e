// Products with packed weights and what follows them at once: rounding, SwiGLU, sums over experts.
#include "kernels/cpu/kernel_table.h"
#include "tensor/quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/product_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/decode-inl.h"
#include "kernels/cpu/dot-inl.h"
#include "kernels/cpu/quantize-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::kernels::HWY_NAMESPACE {
namespace {

/// Inputs [k0, k0 + k) of one weight row in pair order.
void ExpandRow(const WeightView& weight, int64_t row, int64_t k0, int64_t k, float* out) {
  const int64_t in = weight.in_features;
  const auto* bytes = static_cast<const uint8_t*>(weight.data);
  const int64_t scale_columns = (in + kQuantGroup - 1) / kQuantGroup;
  switch (weight.format) {
    case WeightFormat::kBf16:
      return DecodeBf16Row(static_cast<const Bf16*>(weight.data) + row * in + k0, k, out);
    case WeightFormat::kFp32:
      return DecodeFp32Row(static_cast<const float*>(weight.data) + row * in + k0, k, out);
    case WeightFormat::kFp8Tile32:
      return DecodeFp8Row(bytes + row * in + k0,
                          weight.scales + row / kQuantGroup * scale_columns + k0 / kQuantGroup, k, out);
    case WeightFormat::kFp4Row32:
      return DecodeFp4Row(bytes + (row * in + k0) / 2, weight.scales + row * scale_columns + k0 / kQuantGroup,
                          k, out);
  }
}

// ------------------------------------------------------------------------------------------------- few rows

/// 32 inputs of the rows against one group of 32 weights of each column; additions as in DotStep.
template <int kRows, int kColumns>
HWY_INLINE void DotGroup(const Bf16* const* x, int64_t i, const Pair (&w)[kColumns][kGroupPairs],
                         VF (&acc)[kRows][kColumns]) {
#pragma GCC unroll 16
  for (int j = 0; j < kGroupPairs; ++j) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const Pair v = LoadPair(x[r] + i + j * kPair);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) acc[r][c] = hn::MulAdd(w[c][j].even, v.even, acc[r][c]);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) acc[r][c] = hn::MulAdd(w[c][j].odd, v.odd, acc[r][c]);
    }
  }
}

/// Four packed weight rows over one block of kSumBlock inputs (k a multiple of 32), expanded in registers only.
template <WeightFormat kFormat, int kRows>
HWY_INLINE void DirectBlock(const ProductArgs& a, int64_t row, int64_t k0, int64_t k, double* sums) {
  constexpr int kColumns = 4;
  constexpr bool kFp4 = kFormat == WeightFormat::kFp4Row32;
  const int64_t in = a.weight.in_features, scale_columns = in / kQuantGroup;
  const auto* bytes = static_cast<const uint8_t*>(a.weight.data);
  // 1. Where the rows begin; rows beyond the last repeat it, their sums are not used.
  const uint8_t* codes[kColumns];
  const uint8_t* scales[kColumns];
  for (int64_t c = 0; c < kColumns; ++c) {
    const int64_t o = HWY_MIN(row + c, a.out_begin + a.out_count - 1);
    codes[c] = bytes + (kFp4 ? (o * in + k0) / 2 : o * in + k0);
    scales[c] = a.weight.scales + (kFp4 ? o : o / kQuantGroup) * scale_columns + k0 / kQuantGroup;
  }
  const Bf16* x[kRows];
  for (int r = 0; r < kRows; ++r) x[r] = a.x.Row(r) + k0;
  // 2. Group by group.
  VF acc[kRows][kColumns];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) acc[r][c] = Zero();
  }
  for (int64_t i = 0; i < k; i += kQuantGroup) {
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      Pair w[1][kGroupPairs];
      const uint8_t scale = scales[c][i / kQuantGroup];
      if constexpr (kFp4) {
        Fp4Group(codes[c] + i / 2, scale, w[0]);
      } else {
        Fp8Group(codes[c] + i, scale, w[0]);
      }
      VF column[kRows][1];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) column[r][0] = acc[r][c];
      DotGroup<kRows, 1>(x, i, w, column);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) acc[r][c] = column[r][0];
    }
  }
  // 3. Lanes.
  for (int r = 0; r < kRows; ++r)
    AddSums4(acc[r][0], acc[r][1], acc[r][2], acc[r][3], sums + r * kFeatureTile);
}

template <WeightFormat kFormat, int kRows>
void DirectProduct(const ProductArgs& a) {
  for (int64_t first = 0; first < a.out_count; first += 4) {
    for (int64_t k0 = 0; k0 < a.weight.in_features; k0 += kSumBlock) {
      const int64_t k = HWY_MIN(a.weight.in_features - k0, kSumBlock);
      DirectBlock<kFormat, kRows>(a, a.out_begin + first, k0, k, a.sums + first);
    }
  }
}

/// One or two rows against packed weights; false when the call needs the general way.
bool TryDirectProduct(const ProductArgs& a) {
  if (a.wide || a.rows > 2 || a.weight.in_features % kQuantGroup != 0) return false;
  switch (a.weight.format) {
    case WeightFormat::kFp4Row32:
      a.rows == 1 ? DirectProduct<WeightFormat::kFp4Row32, 1>(a)
                  : DirectProduct<WeightFormat::kFp4Row32, 2>(a);
      return true;
    case WeightFormat::kFp8Tile32:
      a.rows == 1 ? DirectProduct<WeightFormat::kFp8Tile32, 1>(a)
                  : DirectProduct<WeightFormat::kFp8Tile32, 2>(a);
      return true;
    default: return false;
  }
}

// ------------------------------------------------------------------------------------------------- near ties

/// What float lanes may be wrong by, relative to the largest sum of a row: several times what is seen.
constexpr float kFloatSumError = 0x1p-21f;

/// x row r . weight row out_begin + c, in double. Uses the first row of the panel.
double ExactSum(const ProductArgs& a, int64_t r, int64_t c) {
  double sum = 0;
  for (int64_t k0 = 0; k0 < a.weight.in_features; k0 += kKBlock) {
    const int64_t k = HWY_MIN(a.weight.in_features - k0, kKBlock);
    ExpandRow(a.weight, a.out_begin + c, k0, k, a.panel);
    sum += DotWide(a.x.Row(r) + k0, a.panel, k);
  }
  return sum;
}

/// Computes again, in double, the sums whose rounding to bf16 the error of float lanes could decide: about one in a thousand.
/// So the rounded products equal those of the reference on every target.
void RepairNearTies(const ProductArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    double* sums = a.sums + r * kFeatureTile;
    VF largest = Zero();
    for (int64_t c = 0; c < kFeatureTile; c += kLanes) {
      largest = hn::Max(largest, hn::Abs(Narrow(LoadWide(sums + c))));
    }
    const VF tolerance = Set(MaxLanes(largest) * kFloatSumError);
    for (int64_t c = 0; c < a.out_count; c += kLanes) {
      const auto near = NearTie(Narrow(LoadWide(sums + c)), tolerance);
      if (HWY_LIKELY(hn::AllFalse(DF(), near))) continue;
      alignas(64) float flags[kLanes];
      hn::Store(hn::IfThenElseZero(near, Set(1.0f)), DF(), flags);
      for (int64_t l = 0; l < HWY_MIN(kLanes, a.out_count - c); ++l) {
        if (flags[l] != 0) sums[c + l] = ExactSum(a, r, c + l);
      }
    }
  }
}

// ------------------------------------------------------------------------------------------------- many rows

void Products(const ProductArgs& a) {
  const int64_t in = a.weight.in_features;
  std::memset(a.sums, 0, static_cast<size_t>(a.rows * kFeatureTile) * sizeof(double));
  if (TryDirectProduct(a)) return;
  // The inputs of one K block of all rows stay in the second-level cache over the panels.
  for (int64_t k0 = 0; k0 < in; k0 += kKBlock) {
    const int64_t k = HWY_MIN(in - k0, kKBlock);
    for (int64_t first = 0; first < a.out_count; first += kPanel) {
      // 1. Expand up to kPanel weight rows; rows that do not exist repeat the last one, their sums are never read.
      const int64_t count = HWY_MIN(a.out_count - first, kPanel);
      for (int64_t c = 0; c < kPanel; ++c) {
        float* row = a.panel + c * kKBlock;
        if (c < count) {
          ExpandRow(a.weight, a.out_begin + first + c, k0, k, row);
        } else {
          std::memcpy(row, row - kKBlock, kKBlock * sizeof(float));
        }
      }
      // 2. All rows against the panel.
      (a.wide ? DotRowsWide : DotRows)(a.x, a.rows, k0, k, a.panel, kKBlock, a.sums + first, kFeatureTile);
    }
  }
}

void Product(const ProductArgs& a) {
  Products(a);
  if (a.to_bf16 && !a.wide) RepairNearTies(a);
}

void TileDot(const TileDotArgs& a) {
  for (int64_t k0 = 0; k0 < a.k; k0 += kKBlock) {
    const int64_t k = HWY_MIN(a.k - k0, kKBlock);
    for (int64_t first = 0; first < a.columns; first += kPanel) {
      DotRows(a.x, a.rows, k0, k, a.tile + first * a.tile_stride + k0, a.tile_stride, a.sums + first,
              a.sums_stride);
    }
  }
}

void StoreTile(const double* sums, int64_t rows, int64_t columns, Bf16* y, float* y_f32, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = sums + r * kFeatureTile;
    if (y_f32 != nullptr) {
      for (int64_t i = 0; i < columns; ++i) y_f32[r * stride + i] = static_cast<float>(row[i]);
    } else {
      ForSteps(columns, kLanes, [&](int64_t i, int64_t count) HWY_ATTR {
        StoreNaturalN(Narrow(LoadWide(row + i)), y + r * stride + i, count);
      });
    }
  }
}

void SwigluTile(const SwigluTileArgs& a) {
  const VF limit = Set(a.limit), negative = Set(-a.limit);
  for (int64_t r = 0; r < a.rows; ++r) {
    const Wide weight = SetWide(a.weights == nullptr ? 1.0 : static_cast<double>(a.weights[r]));
    Bf16 t[kFeatureTile];
    // 1. Products rounded to bf16, clamps, silu(gate) * up, the routing weight, one rounding.
    for (int64_t i = 0; i < kFeatureTile; i += kLanes) {
      VF gate = RoundBf16(Narrow(LoadWide(a.gate + r * kFeatureTile + i)));
      VF up = RoundBf16(Narrow(LoadWide(a.up + r * kFeatureTile + i)));
      if (a.limit > 0) {
        gate = hn::Min(gate, limit);
        up = hn::Min(hn::Max(up, negative), limit);
      }
      const Wide g = Widen(gate);
      const Wide silu = Mul(g, Sigmoid(g));
      StoreNatural(Narrow(Mul(Mul(silu, Widen(up)), weight)), t + i);
    }
    // 2. The FP8 grid of the next product: the tile is one of its groups.
    FakeQuantizeGroup(t, QuantScheme::kFp8Act, a.out + r * a.out_stride);
  }
}

void SumRows(const Bf16* const* parts, int64_t num_parts, const Bf16* last, int64_t dim, Bf16* y) {
  ForSteps(dim, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    WidePair sum = ZeroWidePair();
    for (int64_t j = 0; j < num_parts; ++j) {
      const WidePair v = LoadWidePairN(parts[j] + i, count);
      sum = {Add(sum.even, v.even), Add(sum.odd, v.odd)};
    }
    const WidePair v = LoadWidePairN(last + i, count);
    StoreWidePairN({Add(sum.even, v.even), Add(sum.odd, v.odd)}, y + i, count);
  });
}

void SqrtSoftplus(const double* x, int64_t count, float temp, float* y) {
  const DD d;
  ForSteps(count, kDoubles, [&](int64_t i, int64_t n) HWY_ATTR {
    double buffer[kDoubles] = {};
    std::memcpy(buffer, x + i, static_cast<size_t>(n) * sizeof(double));
    const VD z = hn::Div(hn::LoadU(d, buffer), hn::Set(d, static_cast<double>(temp)));
    // softplus(z) = max(z, 0) + log1p(exp(-|z|)); the identity above 20 as in the reference.
    const VD soft = hn::Add(hn::Max(z, hn::Zero(d)), Log1pUnit(Exp(hn::Neg(hn::Abs(z)))));
    hn::StoreU(hn::Sqrt(hn::IfThenElse(hn::Gt(z, hn::Set(d, 20.0)), z, soft)), d, buffer);
    for (int64_t l = 0; l < n; ++l) y[i + l] = static_cast<float>(buffer[l]);
  });
}

void Fill(KernelTable& table) {
  table.product = Product;
  table.tile_dot = TileDot;
  table.store_tile = StoreTile;
  table.swiglu_tile = SwigluTile;
  table.sum_rows = SumRows;
  table.sqrt_softplus = SqrtSoftplus;
}

}  // namespace
}  // namespace deepinfer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/targets.h"

namespace deepinfer::kernels {
bool FillProductKernels(int64_t target, KernelTable& table) { DEEPINFER_FILL_TARGETS(target, table); }
}  // namespace deepinfer::kernels
#endif
