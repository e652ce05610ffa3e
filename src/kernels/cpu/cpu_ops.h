// The CPU back end: one set of kernels a SIMD target, chosen at run time by name.
//
// Canonical order of additions, per target with N float lanes (avx512 16, avx2 8, sse4 and neon 4, scalar 1). It depends on the
// operands of one output only, never on rows, chunks, threads or on where the output lies:
//   * Dot products (linears, experts, router, hyper-connection mixes, attention scores, index scores): inputs in blocks of 512.
//     In a block, each step of 2N inputs adds the N even ones, then the N odd ones, lane by lane to one vector accumulator (fused
//     multiply-add on avx2 and avx512, product then sum elsewhere); then lanes are halved to four (l + (l + N/2)), and
//     (l0 + l2) + (l1 + l3) is added to the sum of the blocks before it. Missing inputs at the end count as zeros.
//   * Sums over a row (RMS norms, Engram): one accumulator of even and one of odd inputs, ascending; even + odd; lanes as above.
//   * Softmax denominators: a block of 64 slots in lanes, ascending; lanes as above; then sum = sum * alpha + block.
//   * Weighted sums of keys: each channel starts from acc * alpha and adds p[s] * key[s] for the slots s of the block, ascending.
//   * Streams, heads of the indexer, experts and the tokens of a compressor group: ascending, starting from zero.
// Between the rounding points of spec model.md §3 all arithmetic is float; integer and quantiser results equal tensor/quantize.h
// bit for bit. Products of bf16 values are exact in float, so that whether a target fuses shows with float weights only.
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
