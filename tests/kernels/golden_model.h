// The TINY checkpoint and its goldens as operands of single operations, for tests that feed an operation its recorded input.
#pragma once

#include <string>
#include <vector>

#include "kernels/op_runner.h"
#include "support/golden_file.h"

namespace deepinfer::kernels::testing {

using deepinfer::testing::Comparison;
using deepinfer::testing::GoldenFile;
using deepinfer::testing::GoldenTensor;

/// Shape of TINY (spec: model.md §15).
namespace tiny {
inline constexpr int64_t kLayers = 10, kVocab = 512, kHidden = 256, kIntermediate = 64, kHeads = 4,
                         kHeadDim = 64, kFreqs = 8;
inline constexpr int64_t kQueryRank = 64, kGroups = 2, kOutputRank = 64, kWindow = 16, kIndexHeads = 4,
                         kIndexDim = 32;
inline constexpr int64_t kTopK = 8, kCandidateBlocks = 4, kCandidateBlock = 4, kExperts = 8,
                         kExpertsPerToken = 2;
inline constexpr int64_t kStreams = 4, kEngramColumns = 6, kEngramWidth = 32, kPrompt = 33;
inline constexpr float kEps = 1e-20f;
/// 0 for window-only layers.
int64_t Ratio(int64_t layer);
int64_t KvSource(int64_t layer);
int64_t IndexSource(int64_t layer);
/// Limits that cover every operation of TINY on `rows` rows.
WorkspaceLimits Limits(int64_t rows);
}  // namespace tiny

/// Weight NAME.weight with NAME.scale of the TINY checkpoint, in the format that its dtype says.
WeightView TinyWeight(const std::string& name);
std::span<const Bf16> TinyBf16(const std::string& name);
std::span<const float> TinyFloat(const std::string& name);
ExpertWeights TinyExpert(const std::string& name);

const GoldenFile& TinyGoldens();

/// Compares with a golden: bit for bit for the reference, by the golden's tolerance class for others.
void ExpectGolden(const OpRunner& runner, const std::string& name, std::span<const Bf16> got);
void ExpectGolden(const OpRunner& runner, const std::string& name, std::span<const float> got);
void ExpectGolden(const OpRunner& runner, const std::string& name, std::span<const int32_t> got);
void ExpectGolden(const OpRunner& runner, const std::string& name, std::span<const uint8_t> got);

/// Operations as functions of vectors. Row counts follow from the sizes.
class TinyOps {
 public:
  explicit TinyOps(OpRunner* runner) : runner_(runner) {}

  std::vector<Bf16> Quantize(std::span<const Bf16> x, int64_t dim, QuantScheme scheme);
  std::vector<Bf16> Linear(std::span<const Bf16> x, const WeightView& weight, int64_t groups = 1);
  std::vector<float> LinearF32(std::span<const Bf16> x, const WeightView& weight);
  /// FP8 or FP4 linear: the input is put on the FP8 grid first.
  std::vector<Bf16> QuantizedLinear(std::span<const Bf16> x, const WeightView& weight);
  std::vector<Bf16> Norm(std::span<const Bf16> x, std::span<const Bf16> weight);
  std::vector<Bf16> Collapse(std::span<const Bf16> streams, std::span<const float> pre);
  std::vector<Bf16> Expand(std::span<const Bf16> y, std::span<const Bf16> streams,
                           std::span<const float> post, std::span<const float> comb);
  /// Rotated in place at these positions with the frequencies of a layer of this ratio.
  void Rotate(std::vector<Bf16>* x, int64_t heads, int64_t dim, const std::vector<int32_t>& positions,
              int64_t ratio, bool inverse = false);

 private:
  OpRunner* runner_;
};

}  // namespace deepinfer::kernels::testing
