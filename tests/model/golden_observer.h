// Compares the tensors of a forward pass with recorded ones.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/backbone.h"
#include "support/golden_file.h"

namespace deepinfer::testing {

enum class Strictness {
  kBits,  // every bit equal: the reference kernels
  kTolerance,  // the manifest's tolerance class of each tensor, which presumes that its module was fed recorded inputs
  kDrift,  // its module's input was not recorded, so no class applies. The relative L2 distance must stay below kMaxDrift: about
           // three times what one flipped bit of an attention output became by the last layer
};
inline constexpr double kMaxDrift = 0.02;

/// Compares one tensor under its class; a failure is reported to GoogleTest with the tensor's name. Marks it as compared.
void ExpectGolden(const GoldenFile& file, const std::string& name, std::span<const Bf16> got,
                  Strictness strictness);
void ExpectGolden(const GoldenFile& file, const std::string& name, std::span<const float> got,
                  Strictness strictness);
void ExpectGoldenExact(const GoldenFile& file, const std::string& name, std::span<const int32_t> got);
void ExpectGoldenExact(const GoldenFile& file, const std::string& name, std::span<const uint8_t> got);

/// Compares every observed tensor PREFIX.NAME that the file has. With `inject` it then overwrites the tensor with the recorded one, so that
/// each module is fed its recorded input and differences do not add up.
class GoldenObserver : public model::Observer {
 public:
  GoldenObserver(const GoldenFile& file, std::string prefix, Strictness strictness, bool inject)
      : file_(file), prefix_(std::move(prefix)), strictness_(strictness), inject_(inject) {}

  void OnBf16(const std::string& name, std::span<Bf16> data, std::span<const int64_t> shape) override;
  void OnFloat(const std::string& name, std::span<float> data, std::span<const int64_t> shape) override;
  void OnInt32(const std::string& name, std::span<int32_t> data, std::span<const int64_t> shape) override;
  void OnInt64(const std::string& name, std::span<int64_t> data, std::span<const int64_t> shape) override;

 private:
  /// How a tensor of this pass can be held to its golden.
  Strictness StrictnessOf(const std::string& name) const;
  void CompareTopK(const std::string& key, std::span<int32_t> data, int64_t rows, Strictness strictness);
  void CompareCandidates(const std::string& key, std::span<int32_t> data, int64_t rows,
                         Strictness strictness);
  void CompareExperts(const std::string& key, std::span<int32_t> data, int64_t rows, Strictness strictness);

  const GoldenFile& file_;
  std::string prefix_;
  Strictness strictness_;
  bool inject_;
};

}  // namespace deepinfer::testing
