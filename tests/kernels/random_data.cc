#include "kernels/random_data.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/quantize.h"

namespace deepinfer::kernels::testing {

int64_t Rng::Int(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(engine_);
}
bool Rng::Chance(double probability) { return Uniform(0, 1) < probability; }
double Rng::Uniform(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(engine_);
}
double Rng::Normal() { return std::normal_distribution<double>()(engine_); }

std::vector<int32_t> Rng::DistinctShuffled(int64_t count, int64_t bound) {
  std::vector<int32_t> all(static_cast<size_t>(bound));
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), engine_);
  all.resize(static_cast<size_t>(count));
  return all;
}

std::vector<int32_t> Rng::Distinct(int64_t count, int64_t bound) {
  std::vector<int32_t> chosen = DistinctShuffled(count, bound);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

namespace {

void FillRow(Rng& rng, Range range, Bf16* row, int64_t dim) {
  const double scale = std::ldexp(1.0, static_cast<int>(rng.Int(-6, 4)));
  for (int64_t i = 0; i < dim; ++i) row[i] = ToBf16(rng.Normal() * scale);
  switch (rng.Int(0, 9)) {
    case 0:  // a zero row
      std::fill(row, row + dim, Bf16{});
      break;
    case 1:  // signed zeros between values
      for (int64_t i = 0; i < dim; ++i) {
        if (rng.Chance(0.5)) row[i] = rng.Chance(0.5) ? Bf16{0x8000} : Bf16{};
      }
      break;
    case 2:  // subnormal numbers
      for (int64_t i = 0; i < dim; ++i)
        row[i] = Bf16{static_cast<uint16_t>(rng.Int(0, 0x7F) | (rng.Chance(0.5) ? 0x8000 : 0))};
      break;
    case 3:  // one outlier
      if (range != Range::kModerate) row[rng.Int(0, dim - 1)] = ToBf16(range == Range::kAny ? 2.5e38 : -1e15);
      break;
    case 4:  // the ends of the E4M3 range and values just above
      for (int64_t i = 0; i < dim; ++i) row[i] = ToBf16(rng.Pick({448.0, -448.0, 450.0, 440.0, 0.0, 1.0}));
      break;
    case 5:  // small integers: sums are exact in any order
      for (int64_t i = 0; i < dim; ++i) row[i] = ToBf16(static_cast<double>(rng.Int(-8, 8)));
      break;
    default: break;
  }
}

}  // namespace

std::vector<Bf16> Activations(Rng& rng, int64_t rows, int64_t dim, Range range) {
  std::vector<Bf16> x(static_cast<size_t>(rows * dim));
  for (int64_t t = 0; t < rows; ++t) FillRow(rng, range, x.data() + t * dim, dim);
  return x;
}

std::vector<Bf16> NormalBf16(Rng& rng, int64_t count, double scale) {
  std::vector<Bf16> x(static_cast<size_t>(count));
  for (Bf16& v : x) v = ToBf16(rng.Normal() * scale);
  return x;
}

std::vector<float> NormalFloats(Rng& rng, int64_t count, double scale) {
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) v = static_cast<float>(rng.Normal() * scale);
  return x;
}

RandomWeight::RandomWeight(Rng& rng, WeightFormat format, int64_t out_features, int64_t in_features)
    : format_(format), out_features_(out_features), in_features_(in_features) {
  const int64_t count = out_features * in_features;
  const double deviation = 1.0 / std::sqrt(static_cast<double>(in_features));
  if (format == WeightFormat::kBf16) bf16_ = NormalBf16(rng, count, deviation);
  if (format == WeightFormat::kFp32) fp32_ = NormalFloats(rng, count, deviation);
  const int64_t groups = (in_features + kQuantGroup - 1) / kQuantGroup;
  if (format == WeightFormat::kFp8Tile32) {
    codes_.resize(static_cast<size_t>(count + 1));
    for (uint8_t& code : codes_) {
      do {
        code = static_cast<uint8_t>(rng.Int(0, 255));
      } while ((code & 0x7F) == 0x7F);  // NaN
    }
    scales_.resize(static_cast<size_t>((out_features + kQuantGroup - 1) / kQuantGroup * groups));
    for (uint8_t& scale : scales_) scale = static_cast<uint8_t>(rng.Int(116, 122));
  }
  if (format == WeightFormat::kFp4Row32) {
    codes_.resize(static_cast<size_t>(count / 2 + 1));
    for (uint8_t& code : codes_) code = static_cast<uint8_t>(rng.Int(0, 255));
    scales_.resize(static_cast<size_t>(out_features * groups));
    for (uint8_t& scale : scales_) scale = static_cast<uint8_t>(rng.Int(118, 125));
  }
}

WeightView RandomWeight::view() const {
  WeightView view{format_, nullptr, scales_.data(), out_features_, in_features_};
  if (format_ == WeightFormat::kBf16) {
    view.data = bf16_.data();
  } else if (format_ == WeightFormat::kFp32) {
    view.data = fp32_.data();
  } else {
    view.data = codes_.data() + 1;
  }
  return view;
}

void RandomWeight::CopyRow(int64_t from, int64_t to) {
  const auto copy = [from, to](auto& values, int64_t row, int64_t begin) {
    std::copy_n(values.begin() + begin + from * row, row, values.begin() + begin + to * row);
  };
  if (format_ == WeightFormat::kBf16) copy(bf16_, in_features_, 0);
  if (format_ == WeightFormat::kFp32) copy(fp32_, in_features_, 0);
  if (format_ == WeightFormat::kFp4Row32) {
    copy(codes_, in_features_ / 2, 1);
    copy(scales_, in_features_ / kQuantGroup, 0);
  }
}

double RandomWeight::Value(int64_t o, int64_t k) const {
  const auto at = static_cast<size_t>(o * in_features_ + k);
  const auto groups = static_cast<size_t>((in_features_ + kQuantGroup - 1) / kQuantGroup);
  const auto group = static_cast<size_t>(k / kQuantGroup);
  switch (format_) {
    case WeightFormat::kBf16: return ToFloat(bf16_[at]);
    case WeightFormat::kFp32: return fp32_[at];
    case WeightFormat::kFp8Tile32: {
      const uint8_t code = codes_[at + 1];
      const int exponent = (code >> 3) & 15, mantissa = code & 7;
      const double magnitude =
          exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
      return std::ldexp(code >= 128 ? -magnitude : magnitude,
                        scales_[static_cast<size_t>(o / kQuantGroup) * groups + group] - 127);
    }
    case WeightFormat::kFp4Row32: {
      constexpr double kValues[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
      const int code = k % 2 == 0 ? codes_[at / 2 + 1] % 16 : codes_[at / 2 + 1] / 16;
      const double magnitude = kValues[code % 8];
      return std::ldexp(code >= 8 ? -magnitude : magnitude,
                        scales_[static_cast<size_t>(o) * groups + group] - 127);
    }
  }
  return 0;
}

}  // namespace deepinfer::kernels::testing
