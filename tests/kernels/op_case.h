// The two checks of the conformance suite, over generated cases of one operation.
//
// A case owns the operands of a call with a number of rows and can run the call cut into batches of rows:
//   Case(Rng& rng, int64_t rows);
//   Outputs Run(OpRunner& runner, const Batches& batches) const;   // results of all rows in their original places
//   std::string Describe() const;
//   void CheckFormula(const Outputs&) const;                       // optional: properties that follow from the outputs alone
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/op_runner.h"
#include "kernels/random_data.h"

namespace deepinfer::kernels::testing {

/// How an output compares with the reference's.
enum class Match {
  kExact,  // bit for bit
  kFp32,   // 1e-5 of the value or of the row's rms
  kScore,  // bf16 numbers as float, equal; -inf in the same places; +0 = -0
};

struct Output {
  std::string name;
  Match match = Match::kExact;
  int64_t row_size = 1;
  std::variant<std::vector<Bf16>, std::vector<float>, std::vector<int32_t>, std::vector<uint8_t>> values;
};
using Outputs = std::vector<Output>;

/// Rows of each call, in order; together every row once.
using Batches = std::vector<std::vector<int64_t>>;
Batches WholeBatch(int64_t rows);
Batches SingleRows(int64_t rows);
Batches RandomBatches(Rng& rng, int64_t rows);

template <typename T>
std::vector<T> TakeRows(const std::vector<T>& all, int64_t row_size, const std::vector<int64_t>& rows) {
  std::vector<T> taken;
  for (int64_t row : rows)
    taken.insert(taken.end(), all.begin() + row * row_size, all.begin() + (row + 1) * row_size);
  return taken;
}

/// `stride` elements lie between the rows of `part`, of which the first `row_size` are taken.
template <typename T>
void PutRows(const T* part, int64_t stride, int64_t row_size, const std::vector<int64_t>& rows,
             std::vector<T>* all) {
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(part + static_cast<int64_t>(i) * stride, row_size, all->begin() + rows[i] * row_size);
  }
}

template <typename T>
void PutRows(const Operand<T>& part, int64_t row_size, const std::vector<int64_t>& rows,
             std::vector<T>* all) {
  PutRows(part.data(), row_size, row_size, rows, all);
}

/// What results are filled with before a call.
inline constexpr Bf16 kUnwrittenBf16{0xFFA5};
inline constexpr float kUnwrittenFloat = -1.2345e33f;
inline constexpr int32_t kUnwrittenInt = 0x5A5A5A5A;

void ExpectConforms(const Outputs& got, const Outputs& reference);
void ExpectIdentical(const Outputs& got, const Outputs& want, const std::string& what);

/// First seed of the suite: DEEPINFER_TEST_SEED or a fixed number.
uint64_t BaseSeed();

/// `name`'s results against those of the reference, and against the case's own formula.
template <typename Case>
void CheckConformance(const std::string& name, int repeats = 2) {
  OpRunner runner(name, 2), reference("reference", 2);
  for (int64_t rows : {0, 1, 2, 3, 5, 17, 33, 64, 65}) {
    for (int repeat = 0; repeat < repeats; ++repeat) {
      const uint64_t seed = BaseSeed() + static_cast<uint64_t>(rows * 1000 + repeat);
      Rng rng(seed);
      const Case one(rng, rows);
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(rows) + " rows, " + one.Describe());
      const Outputs got = one.Run(runner, WholeBatch(rows));
      if (name != "reference") ExpectConforms(got, one.Run(reference, WholeBatch(rows)));
      if constexpr (requires { one.CheckFormula(got); }) one.CheckFormula(got);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

/// The bits of a row do not depend on the other rows, on how a call is cut or on the number of threads.
template <typename Case>
void CheckRowInvariance(const std::string& name, int repeats = 2) {
  OpRunner inline_runner(name, 0), one_thread(name, 1), two_threads(name, 2);
  for (int64_t rows : {1, 2, 5, 17, 33, 65}) {
    for (int repeat = 0; repeat < repeats; ++repeat) {
      const uint64_t seed = BaseSeed() + static_cast<uint64_t>(500'000 + rows * 1000 + repeat);
      Rng rng(seed);
      const Case one(rng, rows);
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(rows) + " rows, " + one.Describe());
      const Outputs want = one.Run(one_thread, WholeBatch(rows));
      ExpectIdentical(one.Run(two_threads, WholeBatch(rows)), want, "two threads");
      ExpectIdentical(one.Run(inline_runner, WholeBatch(rows)), want, "no pool");
      ExpectIdentical(one.Run(two_threads, SingleRows(rows)), want, "each row alone");
      ExpectIdentical(one.Run(two_threads, RandomBatches(rng, rows)), want, "shuffled batches");
      if (::testing::Test::HasFailure()) return;
    }
  }
}

/// The fixture of all conformance tests; the parameter is an implementation. Instantiated once, in conformance_main.cc.
class Conformance : public ::testing::TestWithParam<std::string> {};

}  // namespace deepinfer::kernels::testing
