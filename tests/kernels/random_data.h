// Generated operands for the conformance suite. Everything follows from the seed of an Rng.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "tensor/dtype.h"

namespace deepinfer::kernels::testing {

class Rng {
 public:
  explicit Rng(uint64_t seed) : engine_(seed) {}

  /// Uniform integer of [low, high].
  int64_t Int(int64_t low, int64_t high);
  bool Chance(double probability);
  double Uniform(double low, double high);
  double Normal();
  /// One of the listed values.
  template <typename T>
  T Pick(std::initializer_list<T> values) {
    return values.begin()[Int(0, static_cast<int64_t>(values.size()) - 1)];
  }
  /// `count` distinct integers of [0, bound), ascending.
  std::vector<int32_t> Distinct(int64_t count, int64_t bound);
  /// The same in random order.
  std::vector<int32_t> DistinctShuffled(int64_t count, int64_t bound);
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

/// How large activations may get: some operations square them in fp32.
enum class Range { kModerate, kSquarable, kAny };

/// Rows in different styles: normal at many scales, zeros, signed zeros, subnormals, one huge outlier, ±448, small integers.
std::vector<Bf16> Activations(Rng& rng, int64_t rows, int64_t dim, Range range);
/// Rows of standard normal numbers times `scale`.
std::vector<Bf16> NormalBf16(Rng& rng, int64_t count, double scale = 1);
std::vector<float> NormalFloats(Rng& rng, int64_t count, double scale = 1);

/// A weight of any format that owns its bytes.
class RandomWeight {
 public:
  /// Values have a standard deviation of about in_features^-0.5. FP8 and FP4 scales span some binades.
  RandomWeight(Rng& rng, WeightFormat format, int64_t out_features, int64_t in_features);
  RandomWeight(RandomWeight&&) = default;
  RandomWeight& operator=(RandomWeight&&) = default;

  WeightView view() const;
  /// Makes output feature `to` equal to `from` (not for FP8, whose scales are shared).
  void CopyRow(int64_t from, int64_t to);
  /// W[o, k], read independently of the implementations.
  double Value(int64_t o, int64_t k) const;

 private:
  WeightFormat format_;
  int64_t out_features_, in_features_;
  std::vector<Bf16> bf16_;
  std::vector<float> fp32_;
  std::vector<uint8_t> codes_;  // one byte longer than needed: begins at an odd address
  std::vector<uint8_t> scales_;
};

/// An operand in memory of its exact size, so that a sanitizer sees reads behind its end. Every other size begins one element
/// behind an aligned address.
template <typename T>
class Operand {
 public:
  explicit Operand(const std::vector<T>& values) : shift_(values.size() % 2) {
    storage_.reserve(values.size() + shift_);
    storage_.resize(shift_);
    storage_.insert(storage_.end(), values.begin(), values.end());
  }
  Operand(size_t count, T fill) : Operand(std::vector<T>(count, fill)) {}

  T* data() { return storage_.data() + shift_; }
  const T* data() const { return storage_.data() + shift_; }
  std::vector<T> ToVector() const {
    return {storage_.begin() + static_cast<std::ptrdiff_t>(shift_), storage_.end()};
  }

 private:
  size_t shift_;
  std::vector<T> storage_;
};

}  // namespace deepinfer::kernels::testing
