#include "kernels/op_case.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <type_traits>

namespace deepinfer::kernels::testing {
namespace {

double AsDouble(Bf16 v) { return ToFloat(v); }
double AsDouble(float v) { return v; }
double AsDouble(int32_t v) { return v; }
double AsDouble(uint8_t v) { return v; }

double RowRms(const double* row, int64_t n) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += std::isfinite(row[i]) ? row[i] * row[i] : 0;
  return std::sqrt(squares / static_cast<double>(n));
}

/// Largest difference that class `match` allows for one element.
double Allowed(Match match, double reference, double row_rms) {
  return match == Match::kFp32 ? 1e-5 * std::max(std::fabs(reference), row_rms) : 0;
}

template <typename T>
std::vector<double> ToDoubles(const std::vector<T>& values) {
  std::vector<double> out;
  for (T v : values) out.push_back(AsDouble(v));
  return out;
}

std::string Place(const Output& output, size_t i) {
  const auto row_size = static_cast<size_t>(output.row_size);
  return output.name + "[" + std::to_string(i / row_size) + "][" + std::to_string(i % row_size) + "]";
}

void ExpectClose(const Output& got, const Output& reference) {
  const auto to_doubles = [](const auto& values) { return ToDoubles(values); };
  const std::vector<double> a = std::visit(to_doubles, got.values),
                            b = std::visit(to_doubles, reference.values);
  for (size_t i = 0; i < b.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const auto row_begin = static_cast<int64_t>(i) / reference.row_size * reference.row_size;
    const double allowed = Allowed(reference.match, b[i], RowRms(b.data() + row_begin, reference.row_size));
    ASSERT_TRUE(std::fabs(a[i] - b[i]) <= allowed)
        << Place(reference, i) << " is " << a[i] << ", the reference has " << b[i] << ", allowed difference "
        << allowed;
  }
}

void ExpectSameBits(const Output& got, const Output& want, const std::string& what) {
  std::visit(
      [&](const auto& b) {
        const auto& a = std::get<std::remove_cvref_t<decltype(b)>>(got.values);
        ASSERT_EQ(a.size(), b.size());
        for (size_t i = 0; i < b.size(); ++i) {
          ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(b[i])), 0)
              << what << ": " << Place(want, i) << " is " << AsDouble(a[i]) << ", expected "
              << AsDouble(b[i]);
        }
      },
      want.values);
}

}  // namespace

Batches WholeBatch(int64_t rows) {
  std::vector<int64_t> all(static_cast<size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  return {all};
}

Batches SingleRows(int64_t rows) {
  Batches batches;
  for (int64_t row = 0; row < rows; ++row) batches.push_back({row});
  return batches;
}

Batches RandomBatches(Rng& rng, int64_t rows) {
  std::vector<int64_t> all = WholeBatch(rows).front();
  std::shuffle(all.begin(), all.end(), rng.engine());
  Batches batches(1);
  for (int64_t row : all) {
    if (rng.Chance(0.2)) batches.emplace_back();
    batches.back().push_back(row);
  }
  return batches;
}

void ExpectConforms(const Outputs& got, const Outputs& reference) {
  ASSERT_EQ(got.size(), reference.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (reference[i].match == Match::kExact) {
      ExpectSameBits(got[i], reference[i], "against the reference");
    } else {
      ExpectClose(got[i], reference[i]);
    }
  }
}

void ExpectIdentical(const Outputs& got, const Outputs& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ExpectSameBits(got[i], want[i], what);
}

uint64_t BaseSeed() {
  const char* text = std::getenv("DEEPINFER_TEST_SEED");
  return text == nullptr ? 20261130 : std::strtoull(text, nullptr, 10);
}

}  // namespace deepinfer::kernels::testing
