// Operations on single rows: norms, quantisers, rotation, hyper-connections, pooling, the Engram gate.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/kernel_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/row_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/quantize-inl.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::kernels::HWY_NAMESPACE {
namespace {

HWY_INLINE double InverseRoot(double x) { return 1.0 / std::sqrt(x); }

/// Even and odd values in one accumulator each, ascending, then even + odd, then lanes.
double SumSquares(const Bf16* x, int64_t dim) {
  WidePair sum = ZeroWidePair();
  ForSteps(dim, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    const WidePair v = LoadWidePairN(x + i, count);
    sum = {MulAdd(v.even, v.even, sum.even), MulAdd(v.odd, v.odd, sum.odd)};
  });
  return SumWide(Add(sum.even, sum.odd));
}

void RmsNorm(const Bf16* x, const Bf16* weight, int64_t dim, float eps, Bf16* y) {
  const Wide inverse = SetWide(InverseRoot(SumSquares(x, dim) / static_cast<double>(dim) + double{eps}));
  ForSteps(dim, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    const WidePair v = LoadWidePairN(x + i, count);
    const WidePair w = LoadWidePairN(weight + i, count);
    StoreWidePairN({Mul(w.even, Mul(v.even, inverse)), Mul(w.odd, Mul(v.odd, inverse))}, y + i, count);
  });
}

void FakeQuantize(const Bf16* x, int64_t dim, QuantScheme scheme, Bf16* y) {
  for (int64_t i = 0; i < dim; i += kQuantGroup) FakeQuantizeGroup(x + i, scheme, y + i);
}

void Rope(Bf16* x, const float* cos, const float* sin, int64_t num_freqs, bool inverse) {
  ForSteps(num_freqs, kLanes, [&](int64_t i, int64_t count) HWY_ATTR {
    const WidePair v = LoadWidePairN(x + 2 * i, 2 * count);
    const Wide c = Widen(LoadFloatsN(cos + i, count));
    const VF signed_sin = inverse ? hn::Neg(LoadFloatsN(sin + i, count)) : LoadFloatsN(sin + i, count);
    const Wide s = Widen(signed_sin);
    const Wide real = Sub(Mul(v.even, c), Mul(v.odd, s));
    const Wide imaginary = Add(Mul(v.even, s), Mul(v.odd, c));
    StoreWidePairN({real, imaginary}, x + 2 * i, 2 * count);
  });
}

// ------------------------------------------------------------------------------------------------- hyper-connections

constexpr int64_t kMaxStreams = 16;

/// A column of rows [row, row + count) of a [*, width] matrix; lanes beyond repeat the last row.
template <class T>
HWY_INLINE VD GatherColumn(const T* matrix, int64_t width, int64_t row, int64_t count, int64_t index) {
  double buffer[kDoubles];
  for (int64_t l = 0; l < kDoubles; ++l) {
    buffer[l] = static_cast<double>(matrix[(row + HWY_MIN(l, count - 1)) * width + index]);
  }
  return hn::LoadU(DD(), buffer);
}

HWY_INLINE void ScatterColumn(VD v, float* matrix, int64_t width, int64_t row, int64_t count, int64_t index) {
  double buffer[kDoubles];
  hn::StoreU(v, DD(), buffer);
  for (int64_t l = 0; l < count; ++l) matrix[(row + l) * width + index] = static_cast<float>(buffer[l]);
}

HWY_INLINE VD SigmoidOf(VD x) {
  const VD one = hn::Set(DD(), 1.0);
  return hn::Div(one, hn::Add(one, Exp(hn::Neg(x))));
}

/// Divides each group of n values by its sum + eps; value i of group g stands at g * outer + i * inner.
HWY_INLINE void NormalizeGroups(VD* values, int64_t n, int64_t outer, int64_t inner, VD eps) {
  for (int64_t g = 0; g < n; ++g) {
    VD* group = values + g * outer;
    VD sum = group[0];
    for (int64_t i = 1; i < n; ++i) sum = hn::Add(sum, group[i * inner]);
    sum = hn::Add(sum, eps);
    for (int64_t i = 0; i < n; ++i) group[i * inner] = hn::Div(group[i * inner], sum);
  }
}

/// Row-wise softmax + eps, then the remaining column and row passes.
HWY_INLINE void Sinkhorn(VD* comb, int64_t n, int iterations, VD eps) {
  for (int64_t j = 0; j < n; ++j) {
    VD* row = comb + j * n;
    VD max = row[0];
    for (int64_t k = 1; k < n; ++k) max = hn::Max(max, row[k]);
    VD sum = hn::Zero(DD());
    for (int64_t k = 0; k < n; ++k) {
      row[k] = Exp(hn::Sub(row[k], max));
      sum = hn::Add(sum, row[k]);
    }
    for (int64_t k = 0; k < n; ++k) row[k] = hn::Add(hn::Div(row[k], sum), eps);
  }
  NormalizeGroups(comb, n, 1, n, eps);
  for (int i = 1; i < iterations; ++i) {
    NormalizeGroups(comb, n, n, 1, eps);
    NormalizeGroups(comb, n, 1, n, eps);
  }
}

/// As many rows at a time as a vector has doubles, a row a lane.
void HcEpilogue(const HcEpilogueArgs& a) {
  const int64_t n = a.hc_mult, width = n * (n + 2);
  const DD d;
  const VD eps = hn::Set(d, double{a.hc_eps});
  for (int64_t row = 0; row < a.rows; row += kDoubles) {
    const int64_t count = HWY_MIN(a.rows - row, kDoubles);
    const VD rms = GatherColumn(a.rms, 1, row, count, 0);
    const auto mix = [&](int64_t index, int site) HWY_ATTR {
      const VD m = hn::Mul(GatherColumn(a.mixes, width, row, count, index), rms);
      return hn::Add(hn::Mul(m, hn::Set(d, double{a.scale[site]})), hn::Set(d, double{a.base[index]}));
    };
    for (int64_t k = 0; k < n; ++k) {
      ScatterColumn(hn::Add(SigmoidOf(mix(k, 0)), eps), a.pre, n, row, count, k);
      ScatterColumn(hn::Mul(hn::Set(d, 2.0), SigmoidOf(mix(n + k, 1))), a.post, n, row, count, k);
    }
    VD comb[kMaxStreams * kMaxStreams];
    for (int64_t i = 0; i < n * n; ++i) comb[i] = mix(2 * n + i, 2);
    Sinkhorn(comb, n, a.sinkhorn_iters, eps);
    for (int64_t i = 0; i < n * n; ++i) ScatterColumn(comb[i], a.comb, n * n, row, count, i);
  }
}

void HcCollapse(const Bf16* streams, const float* pre, int64_t hc_mult, int64_t hidden, Bf16* y) {
  ForSteps(hidden, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    WidePair sum = ZeroWidePair();
    for (int64_t k = 0; k < hc_mult; ++k) {
      const WidePair v = LoadWidePairN(streams + k * hidden + i, count);
      const Wide weight = SetWide(double{pre[k]});
      sum = {MulAdd(weight, v.even, sum.even), MulAdd(weight, v.odd, sum.odd)};
    }
    StoreWidePairN(sum, y + i, count);
  });
}

void HcExpand(const Bf16* y, const Bf16* streams, const float* post, const float* comb, int64_t hc_mult,
              int64_t hidden, Bf16* out) {
  ForSteps(hidden, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    // All streams are read before the first is written: out may be streams.
    WidePair source[kMaxStreams];
    for (int64_t j = 0; j < hc_mult; ++j) source[j] = LoadWidePairN(streams + j * hidden + i, count);
    const WidePair v = LoadWidePairN(y + i, count);
    for (int64_t k = 0; k < hc_mult; ++k) {
      const Wide weight = SetWide(double{post[k]});
      WidePair sum = ZeroWidePair();
      for (int64_t j = 0; j < hc_mult; ++j) {
        const Wide c = SetWide(double{comb[j * hc_mult + k]});
        sum = {MulAdd(c, source[j].even, sum.even), MulAdd(c, source[j].odd, sum.odd)};
      }
      StoreWidePairN({MulAdd(weight, v.even, sum.even), MulAdd(weight, v.odd, sum.odd)}, out + k * hidden + i,
                     count);
    }
  });
}

void StreamMean(const Bf16* streams, int64_t hc_mult, int64_t hidden, Bf16* y) {
  const Wide divisor = SetWide(static_cast<double>(hc_mult));
  ForSteps(hidden, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    WidePair sum = ZeroWidePair();
    for (int64_t k = 0; k < hc_mult; ++k) {
      const WidePair v = LoadWidePairN(streams + k * hidden + i, count);
      sum = {Add(sum.even, v.even), Add(sum.odd, v.odd)};
    }
    StoreWidePairN({Div(sum.even, divisor), Div(sum.odd, divisor)}, y + i, count);
  });
}

// ------------------------------------------------------------------------------------------------- compressor, Engram

void CompressorPool(const float* const* content, const float* const* gate, int64_t ratio, int64_t dim,
                    Bf16* latent) {
  ForSteps(dim, kLanes, [&](int64_t i, int64_t count) HWY_ATTR {
    VF max = LoadFloatsN(gate[0] + i, count);
    for (int64_t t = 1; t < ratio; ++t) max = hn::Max(max, LoadFloatsN(gate[t] + i, count));
    Wide sum = SetWide(0.0), weighted = SetWide(0.0);
    for (int64_t t = 0; t < ratio; ++t) {
      const Wide e = Exp(Sub(Widen(LoadFloatsN(gate[t] + i, count)), Widen(max)));
      sum = Add(sum, e);
      weighted = MulAdd(e, Widen(LoadFloatsN(content[t] + i, count)), weighted);
    }
    StoreNaturalN(Narrow(Div(weighted, sum)), latent + i, count);
  });
}

float EngramGate(Bf16* stream, const Bf16* key, const Bf16* value, const Bf16* q_weight, const Bf16* k_weight,
                 int64_t hidden, float norm_eps) {
  // 1. The scaled product of stream and key.
  WidePair sum = ZeroWidePair();
  ForSteps(hidden, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    const WidePair h = LoadWidePairN(stream + i, count), k = LoadWidePairN(key + i, count);
    const WidePair qw = LoadWidePairN(q_weight + i, count), kw = LoadWidePairN(k_weight + i, count);
    sum.even = MulAdd(Mul(h.even, Mul(qw.even, kw.even)), k.even, sum.even);
    sum.odd = MulAdd(Mul(h.odd, Mul(qw.odd, kw.odd)), k.odd, sum.odd);
  });
  const auto size = static_cast<double>(hidden);
  const double norms = InverseRoot(SumSquares(stream, hidden) / size + double{norm_eps}) *
                       InverseRoot(SumSquares(key, hidden) / size + double{norm_eps});
  const double dot = SumWide(Add(sum.even, sum.odd)) * norms * InverseRoot(size);
  // 2. The gate: sigmoid of the signed square root.
  const double root = std::copysign(std::sqrt(std::max(std::fabs(dot), 1e-6)), dot);
  const double gate = hn::GetLane(SigmoidOf(hn::Set(DD(), root)));
  // 3. stream += gate * value.
  const Wide factor = SetWide(gate);
  ForSteps(hidden, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    const WidePair h = LoadWidePairN(stream + i, count), v = LoadWidePairN(value + i, count);
    StoreWidePairN({MulAdd(factor, v.even, h.even), MulAdd(factor, v.odd, h.odd)}, stream + i, count);
  });
  return static_cast<float>(gate);
}

void Fill(KernelTable& table) {
  table.rms_norm = RmsNorm;
  table.fake_quantize = FakeQuantize;
  table.rope = Rope;
  table.sum_squares = SumSquares;
  table.hc_epilogue = HcEpilogue;
  table.hc_collapse = HcCollapse;
  table.hc_expand = HcExpand;
  table.stream_mean = StreamMean;
  table.compressor_pool = CompressorPool;
  table.engram_gate = EngramGate;
}

}  // namespace
}  // namespace deepinfer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/targets.h"

namespace deepinfer::kernels {
bool FillRowKernels(int64_t target, KernelTable& table) { DEEPINFER_FILL_TARGETS(target, table); }
}  // namespace deepinfer::kernels
#endif
