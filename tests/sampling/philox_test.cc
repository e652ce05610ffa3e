#include "sampling/philox.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "sampling/sampling.h"

namespace deepinfer::sampling {
namespace {

double FromWords(uint32_t low, uint32_t high) {
  const uint64_t bits = static_cast<uint64_t>(high) << 32 | low;
  return (static_cast<double>(bits >> 12) + 0.5) / 4503599627370496.0;
}

// Published known answers (Random123, kat_vectors).
TEST(Philox, KnownAnswers) {
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CounterRng, IsAFunctionOfOneBlock) {
  EXPECT_EQ(CounterRng(0, 0, Purpose::kToken).Uniform(0, 0), FromWords(0x6627e8d5, 0xe169c58d));
  EXPECT_EQ(CounterRng(0, 0, Purpose::kToken).Uniform(0, 1), FromWords(0xbc57ac4c, 0x9b00dbd8));
  const auto block = Philox4x32({0xcafef00d, 4, 77, 0x03000001}, {0x89abcdef, 0x01234567});
  EXPECT_EQ(CounterRng(0x0123456789abcdef, 77, Purpose::kResidual).Uniform(0x1cafef00d, 9),
            FromWords(block[2], block[3]));
}

TEST(CounterRng, EveryCoordinateMatters) {
  std::set<double> values;
  int count = 0;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, ~uint64_t{0}}) {
    for (const uint32_t stream : {0U, 1U, ~0U}) {
      for (const Purpose purpose :
           {Purpose::kToken, Purpose::kDraft, Purpose::kAcceptance, Purpose::kResidual}) {
        for (const uint64_t position :
             {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, (uint64_t{1} << 55) + 1}) {
          for (const uint32_t index : {0U, 1U, 2U, 129279U}) {
            values.insert(CounterRng(seed, stream, purpose).Uniform(position, index));
            ++count;
          }
        }
      }
    }
  }
  EXPECT_EQ(values.size(), static_cast<size_t>(count));
}

TEST(CounterRng, UniformIsInsideTheOpenInterval) {
  const CounterRng rng(42, 0, Purpose::kToken);
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double u = rng.Uniform(static_cast<uint64_t>(i / 100), static_cast<uint32_t>(i % 100));
    ASSERT_GT(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kCount));
}

TEST(CounterRng, GumbelBoundHolds) {
  EXPECT_TRUE(std::isfinite(CounterRng::MaxGumbel()));
  EXPECT_NEAR(CounterRng::MaxGumbel(), 53 * std::log(2.0), 1e-9);
  const CounterRng rng(7, 3, Purpose::kToken);
  double sum = 0;
  for (uint32_t i = 0; i < 100000; ++i) {
    const double g = rng.Gumbel(5, i);
    ASSERT_LE(g, CounterRng::MaxGumbel());
    sum += g;
  }
  EXPECT_NEAR(sum / 100000, 0.5772156649, 5 * std::sqrt(1.6449340668 / 100000));
}

}  // namespace
}  // namespace deepinfer::sampling
