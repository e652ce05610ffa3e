// Operations on single rows: norms, quantisers, rotation, hyper-connections, pooling, the Engram gate.
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

HWY_INLINE float InverseRoot(float x) { return 1.0f / hn::GetLane(hn::Sqrt(Set(x))); }

/// Even and odd values in one accumulator each, ascending, then even + odd, then lanes.
float SumSquares(const Bf16* x, int64_t dim) {
  VF even = Zero(), odd = Zero();
  ForSteps(dim, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    const Pair v = LoadPairN(x + i, count);
    even = hn::MulAdd(v.even, v.even, even);
    odd = hn::MulAdd(v.odd, v.odd, odd);
  });
  return SumLanes(hn::Add(even, odd));
}

void RmsNorm(const Bf16* x, const Bf16* weight, int64_t dim, float eps, Bf16* y) {
  const VF inverse = Set(InverseRoot(SumSquares(x, dim) / static_cast<float>(dim) + eps));
  ForSteps(dim, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    const Pair v = LoadPairN(x + i, count);
    const Pair w = LoadPairN(weight + i, count);
    StorePairN(hn::Mul(w.even, hn::Mul(v.even, inverse)), hn::Mul(w.odd, hn::Mul(v.odd, inverse)), y + i,
               count);
  });
}

void FakeQuantize(const Bf16* x, int64_t dim, QuantScheme scheme, Bf16* y) {
  for (int64_t i = 0; i < dim; i += kQuantGroup) FakeQuantizeGroup(x + i, scheme, y + i);
}

void Rope(Bf16* x, const float* cos, const float* sin, int64_t num_freqs, bool inverse) {
  ForSteps(num_freqs, kLanes, [&](int64_t i, int64_t count) HWY_ATTR {
    const Pair v = LoadPairN(x + 2 * i, 2 * count);
    const VF c = LoadFloatsN(cos + i, count);
    const VF s = inverse ? hn::Neg(LoadFloatsN(sin + i, count)) : LoadFloatsN(sin + i, count);
    const VF real = hn::Sub(hn::Mul(v.even, c), hn::Mul(v.odd, s));
    const VF imaginary = hn::Add(hn::Mul(v.even, s), hn::Mul(v.odd, c));
    StorePairN(real, imaginary, x + 2 * i, 2 * count);
  });
}

// ------------------------------------------------------------------------------------------------- hyper-connections

constexpr int64_t kMaxStreams = 16;

/// One value of N rows: element `index` of rows [row, row + count) of a [*, width] matrix; lanes beyond repeat the last row.
HWY_INLINE VF GatherColumn(const float* matrix, int64_t width, int64_t row, int64_t count, int64_t index) {
  alignas(64) float buffer[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) buffer[l] = matrix[(row + HWY_MIN(l, count - 1)) * width + index];
  return hn::Load(DF(), buffer);
}

HWY_INLINE void ScatterColumn(VF v, float* matrix, int64_t width, int64_t row, int64_t count, int64_t index) {
  alignas(64) float buffer[kLanes];
  hn::Store(v, DF(), buffer);
  for (int64_t l = 0; l < count; ++l) matrix[(row + l) * width + index] = buffer[l];
}

/// Divides each group of n values by its sum + eps; value i of group g stands at g * outer + i * inner.
HWY_INLINE void NormalizeGroups(VF* values, int64_t n, int64_t outer, int64_t inner, VF eps) {
  for (int64_t g = 0; g < n; ++g) {
    VF* group = values + g * outer;
    VF sum = group[0];
    for (int64_t i = 1; i < n; ++i) sum = hn::Add(sum, group[i * inner]);
    sum = hn::Add(sum, eps);
    for (int64_t i = 0; i < n; ++i) group[i * inner] = hn::Div(group[i * inner], sum);
  }
}

/// Row-wise softmax + eps, then the remaining column and row passes.
HWY_INLINE void Sinkhorn(VF* comb, int64_t n, int iterations, VF eps) {
  for (int64_t j = 0; j < n; ++j) {
    VF* row = comb + j * n;
    VF max = row[0];
    for (int64_t k = 1; k < n; ++k) max = hn::Max(max, row[k]);
    VF sum = Zero();
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

/// N rows at a time, a row a lane.
void HcEpilogue(const HcEpilogueArgs& a) {
  const int64_t n = a.hc_mult, width = n * (n + 2);
  const VF eps = Set(a.hc_eps);
  for (int64_t row = 0; row < a.rows; row += kLanes) {
    const int64_t count = HWY_MIN(a.rows - row, kLanes);
    const VF rms = GatherColumn(a.rms, 1, row, count, 0);
    const auto mix = [&](int64_t index, int site) HWY_ATTR {
      const VF m = hn::Mul(GatherColumn(a.mixes, width, row, count, index), rms);
      return hn::Add(hn::Mul(m, Set(a.scale[site])), Set(a.base[index]));
    };
    for (int64_t k = 0; k < n; ++k) {
      ScatterColumn(hn::Add(Sigmoid(mix(k, 0)), eps), a.pre, n, row, count, k);
      ScatterColumn(hn::Mul(Set(2.0f), Sigmoid(mix(n + k, 1))), a.post, n, row, count, k);
    }
    VF comb[kMaxStreams * kMaxStreams];
    for (int64_t i = 0; i < n * n; ++i) comb[i] = mix(2 * n + i, 2);
    Sinkhorn(comb, n, a.sinkhorn_iters, eps);
    for (int64_t i = 0; i < n * n; ++i) ScatterColumn(comb[i], a.comb, n * n, row, count, i);
  }
}

void HcCollapse(const Bf16* streams, const float* pre, int64_t hc_mult, int64_t hidden, Bf16* y) {
  ForSteps(hidden, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    Pair sum = {Zero(), Zero()};
    for (int64_t k = 0; k < hc_mult; ++k) {
      const Pair v = LoadPairN(streams + k * hidden + i, count);
      const VF weight = Set(pre[k]);
      sum = {hn::MulAdd(weight, v.even, sum.even), hn::MulAdd(weight, v.odd, sum.odd)};
    }
    StorePairN(sum.even, sum.odd, y + i, count);
  });
}

void HcExpand(const Bf16* y, const Bf16* streams, const float* post, const float* comb, int64_t hc_mult,
              int64_t hidden, Bf16* out) {
  ForSteps(hidden, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    // All streams are read before the first is written: out may be streams.
    Pair source[kMaxStreams];
    for (int64_t j = 0; j < hc_mult; ++j) source[j] = LoadPairN(streams + j * hidden + i, count);
    const Pair v = LoadPairN(y + i, count);
    for (int64_t k = 0; k < hc_mult; ++k) {
      const VF weight = Set(post[k]);
      Pair sum = {hn::Mul(weight, v.even), hn::Mul(weight, v.odd)};
      for (int64_t j = 0; j < hc_mult; ++j) {
        const VF c = Set(comb[j * hc_mult + k]);
        sum = {hn::MulAdd(c, source[j].even, sum.even), hn::MulAdd(c, source[j].odd, sum.odd)};
      }
      StorePairN(sum.even, sum.odd, out + k * hidden + i, count);
    }
  });
}

void StreamMean(const Bf16* streams, int64_t hc_mult, int64_t hidden, Bf16* y) {
  const VF divisor = Set(static_cast<float>(hc_mult));
  ForSteps(hidden, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    Pair sum = LoadPairN(streams + i, count);
    for (int64_t k = 1; k < hc_mult; ++k) {
      const Pair v = LoadPairN(streams + k * hidden + i, count);
      sum = {hn::Add(sum.even, v.even), hn::Add(sum.odd, v.odd)};
    }
    StorePairN(hn::Div(sum.even, divisor), hn::Div(sum.odd, divisor), y + i, count);
  });
}

// ------------------------------------------------------------------------------------------------- compressor, Engram

void CompressorPool(const float* const* content, const float* const* gate, int64_t ratio, int64_t dim,
                    Bf16* latent) {
  ForSteps(dim, kLanes, [&](int64_t i, int64_t count) HWY_ATTR {
    VF max = LoadFloatsN(gate[0] + i, count);
    for (int64_t t = 1; t < ratio; ++t) max = hn::Max(max, LoadFloatsN(gate[t] + i, count));
    VF sum = Zero(), weighted = Zero();
    for (int64_t t = 0; t < ratio; ++t) {
      const VF e = Exp(hn::Sub(LoadFloatsN(gate[t] + i, count), max));
      sum = hn::Add(sum, e);
      weighted = hn::MulAdd(e, LoadFloatsN(content[t] + i, count), weighted);
    }
    StoreNaturalN(hn::Div(weighted, sum), latent + i, count);
  });
}

float EngramGate(Bf16* stream, const Bf16* key, const Bf16* value, const Bf16* q_weight, const Bf16* k_weight,
                 int64_t hidden, float norm_eps) {
  // 1. The scaled product of stream and key. q_weight * k_weight is exact in float.
  VF even = Zero(), odd = Zero();
  ForSteps(hidden, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    const Pair h = LoadPairN(stream + i, count), k = LoadPairN(key + i, count);
    const Pair qw = LoadPairN(q_weight + i, count), kw = LoadPairN(k_weight + i, count);
    even = hn::MulAdd(hn::Mul(h.even, hn::Mul(qw.even, kw.even)), k.even, even);
    odd = hn::MulAdd(hn::Mul(h.odd, hn::Mul(qw.odd, kw.odd)), k.odd, odd);
  });
  const float size = static_cast<float>(hidden);
  const float norms = InverseRoot(SumSquares(stream, hidden) / size + norm_eps) *
                      InverseRoot(SumSquares(key, hidden) / size + norm_eps);
  const VF dot = Set(SumLanes(hn::Add(even, odd)) * norms * InverseRoot(size));
  // 2. The gate: sigmoid of the signed square root.
  const VF root = hn::CopySignToAbs(hn::Sqrt(hn::Max(hn::Abs(dot), Set(1e-6f))), dot);
  const VF gate = Set(hn::GetLane(Sigmoid(root)));
  // 3. stream += gate * value.
  ForSteps(hidden, kPair, [&](int64_t i, int64_t count) HWY_ATTR {
    const Pair h = LoadPairN(stream + i, count), v = LoadPairN(value + i, count);
    StorePairN(hn::MulAdd(gate, v.even, h.even), hn::MulAdd(gate, v.odd, h.odd), stream + i, count);
  });
  return hn::GetLane(gate);
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
