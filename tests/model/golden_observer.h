// Compares the tensors of a forward pass with recorded ones.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/backbone.h"
#include "support/golden_file.h"

namespace deepinfer::testing {

/// Compares one tensor bit for bit; a failure is reported to GoogleTest with the tensor's name. Marks it as compared.
void ExpectGolden(const GoldenFile& file, const std::string& name, std::span<const Bf16> got);
void ExpectGolden(const GoldenFile& file, const std::string& name, std::span<const float> got);
void ExpectGolden(const GoldenFile& file, const std::string& name, std::span<const int32_t> got);
void ExpectGolden(const GoldenFile& file, const std::string& name, std::span<const uint8_t> got);

/// Compares every observed tensor PREFIX.NAME that the file has.
class GoldenObserver : public model::Observer {
 public:
  GoldenObserver(const GoldenFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  void OnBf16(const std::string& name, std::span<Bf16> data, std::span<const int64_t> shape) override;
  void OnFloat(const std::string& name, std::span<float> data, std::span<const int64_t> shape) override;
  void OnInt32(const std::string& name, std::span<int32_t> data, std::span<const int64_t> shape) override;
  void OnInt64(const std::string& name, std::span<int64_t> data, std::span<const int64_t> shape) override;

 private:
  void CompareTopK(const std::string& key, std::span<int32_t> data, int64_t rows);
  void CompareCandidates(const std::string& key, std::span<int32_t> data, int64_t rows);

  const GoldenFile& file_;
  std::string prefix_;
};

}  // namespace deepinfer::testing
