// The CPU back end: one set of kernels a SIMD target, chosen at run time by name.
//
// Accuracy: what lies between two rounding points of spec model.md §3 is double wherever a last bit of a float could decide a
// rounding to bf16, so that nearly every value equals the reference's bit for bit, on every target:
//   * Operations on rows, hyper-connections, the router, softmax and its sums are double throughout.
//   * Products with FP8 and FP4 weights are float in blocks of 128 inputs and double over the blocks. The few sums that then lie
//     so near the middle of two bf16 values that the error could decide are computed again in double (RepairNearTies), and so are
//     the attention scores whose p does, and the maximum score, on which all p of a block depend.
//   * Float only: weighted sums of keys over runs of 16 slots, and linears whose result stays float.
//
// Canonical order of additions, per target with N float lanes (avx512 16, avx2 8, sse4 and neon 4, scalar 1). It depends on the
// operands of one output only, never on rows, chunks, threads or on where the output lies:
//   * Dot products in float (linears, experts, attention scores, index scores): in a block of 128 inputs, each step of 2N adds the N
//     even ones, then the N odd ones, lane by lane to one vector accumulator (fused multiply-add on avx2 and avx512, product then
//     sum elsewhere); then lanes are halved to four (l + (l + N/2)), and (l0 + l2) + (l1 + l3) is added to the double sum of the
//     blocks before it. Missing inputs at the end count as zeros. Dot products in double: the same lanes, one sum for all inputs.
//   * Sums over a row (RMS norms, Engram): one accumulator of even and one of odd inputs, ascending; even + odd; then lanes.
//   * Softmax denominators: a block of 64 slots in lanes, ascending; then lanes; then sum = sum * alpha + block.
//   * Weighted sums of keys: each channel adds p[s] * key[s] over runs of 16 slots in float, ascending, and the runs to a double
//     that was multiplied by alpha when the maximum rose.
//   * Streams, heads of the indexer, experts and the tokens of a compressor group: ascending, starting from zero.
// Integer and quantiser results equal tensor/quantize.h bit for bit.
// Fixed bounds: 16 residual streams, 64 experts a token, groups of 128 tokens in the compressor; the inner width of experts is a
// multiple of 32. Weights stay packed: eight rows by 512 inputs are expanded at a time and used for all rows of a unit of work.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "kernels/ops.h"

namespace deepinfer::kernels {

/// Targets that this processor can run, best first: of "avx512", "avx2", "sse4", "neon", "scalar".
std::vector<std::string_view> CpuTargets();

/// The operations of one of CpuTargets(); null for any other name.
std::unique_ptr<const Ops> MakeCpuOps(std::string_view target);

}  // namespace deepinfer::kernels
