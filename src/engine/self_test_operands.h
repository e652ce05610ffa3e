// Generated operands and the comparison of two back ends. Internal to the self-test.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "engine/self_test.h"
#include "kernels/ops.h"
#include "tensor/aligned_buffer.h"
#include "tensor/dtype.h"

namespace deepinfer::self_test {

using kernels::OpContext;
using kernels::Ops;
using kernels::WeightFormat;
using kernels::WeightView;

/// Shapes of one round of the test.
struct Shape {
  int64_t rows, hidden, out, heads, head_dim, experts;
};

/// How near results must be. Back ends add in another order, so one rounding step of a result may go the other way.
enum class Nearness : uint8_t { kExact, kBf16, kFp32 };

/// Results of an operation as numbers.
using Numbers = std::vector<double>;

/// Operands made from a fixed seed: the same for both implementations.
class Operands {
 public:
  std::vector<Bf16> Bf16s(int64_t count, double scale = 1) {
    std::vector<Bf16> out(static_cast<size_t>(count));
    for (Bf16& v : out) v = ToBf16(normal_(engine_) * scale);
    return out;
  }
  std::vector<float> Floats(int64_t count, double scale = 1) {
    std::vector<float> out(static_cast<size_t>(count));
    for (float& v : out) v = static_cast<float>(normal_(engine_) * scale);
    return out;
  }
  std::vector<uint8_t> Codes(int64_t count, int low, int high) {
    std::vector<uint8_t> out(static_cast<size_t>(count));
    for (uint8_t& v : out) {
      // 0x7f and 0xff are the NaN codes of E4M3.
      do v = static_cast<uint8_t>(std::uniform_int_distribution<int>(low, high)(engine_));
      while ((v & 0x7f) == 0x7f);
    }
    return out;
  }

 private:
  std::mt19937_64 engine_{20261130};
  std::normal_distribution<double> normal_;
};

/// A weight that owns its bytes, with values of about K^-0.5.
struct Weight {
  Weight(Operands& make, WeightFormat format_in, int64_t n, int64_t k)
      : format(format_in), out_features(n), in_features(k) {
    const double scale = 1 / std::sqrt(static_cast<double>(k));
    if (format == WeightFormat::kBf16) bf16 = make.Bf16s(n * k, scale);
    if (format == WeightFormat::kFp32) fp32 = make.Floats(n * k, scale);
    if (format == WeightFormat::kFp8Tile32) {
      codes = make.Codes(n * k, 0, 255);
      scales = make.Codes((n + 31) / 32 * ((k + 31) / 32), 114, 118);
    }
    if (format == WeightFormat::kFp4Row32) {
      codes = make.Codes(n * k / 2, 0, 254);
      scales = make.Codes(n * (k / 32), 120, 124);
    }
  }
  WeightView view() const {
    const void* data = format == WeightFormat::kBf16   ? static_cast<const void*>(bf16.data())
                       : format == WeightFormat::kFp32 ? static_cast<const void*>(fp32.data())
                                                       : codes.data();
    return {format, data, scales.data(), out_features, in_features};
  }
  WeightFormat format;
  int64_t out_features, in_features;
  std::vector<Bf16> bf16;
  std::vector<float> fp32;
  std::vector<uint8_t> codes, scales;
};

template <typename T>
void Append(const std::vector<T>& values, Numbers* out) {
  for (const T value : values) {
    if constexpr (std::is_same_v<T, Bf16>) {
      out->push_back(static_cast<double>(ToFloat(value)));
    } else {
      out->push_back(static_cast<double>(value));
    }
  }
}

/// What is wrong with `got`; empty when it is near enough.
std::string Difference(const Numbers& got, const Numbers& want, Nearness nearness);

class Tester {
 public:
  Tester(const Ops& tested, const Ops& oracle, ThreadPool* pool, AlignedBuffer workspace)
      : tested_(tested), oracle_(oracle), pool_(pool), workspace_(std::move(workspace)) {}

  using Body = std::function<Numbers(const Ops&, const OpContext&)>;
  void Compare(std::string name, Nearness nearness, const Body& body) {
    const OpContext context{.pool = pool_, .workspace = workspace_.bytes()};
    const Numbers want = body(oracle_, context);
    items_.push_back(
        {.operation = std::move(name), .problem = Difference(body(tested_, context), want, nearness)});
  }
  std::vector<SelfTestItem> Take() { return std::move(items_); }

 private:
  const Ops& tested_;
  const Ops& oracle_;
  ThreadPool* pool_;
  AlignedBuffer workspace_;
  std::vector<SelfTestItem> items_;
};

/// Embedding, window ring, entries, indexer, sparse attention and compressor: what reads and writes the state of a sequence.
void TestState(const Shape& shape, Operands& make, Tester* tester);

}  // namespace deepinfer::self_test
