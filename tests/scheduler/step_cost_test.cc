#include "scheduler/step_cost.h"

#include <limits>

#include <gtest/gtest.h>

namespace deepinfer::scheduler {
namespace {

TEST(StepCost, FallsBackUntilAPromptStepWasSeen) {
  StepCost cost;
  EXPECT_EQ(cost.PromptRowsWithin(10'000, 123), 123);
  cost.Observe(5000, 8, 0);
  EXPECT_EQ(cost.PromptRowsWithin(10'000, 123), 123);
}

TEST(StepCost, LearnsALinearCost) {
  StepCost cost;
  for (int i = 0; i < 20; ++i) {
    cost.Observe(5000, 8, 0);
    cost.Observe(5000 + 100 * 20, 8, 100);
  }
  EXPECT_EQ(cost.decode_step_us(), 5000);
  EXPECT_EQ(cost.prompt_row_ns(), 20'000);
  EXPECT_EQ(cost.PromptRowsWithin(10'000, 1), 250);
  EXPECT_EQ(cost.PromptRowsWithin(4'000, 1), 0);
}

TEST(StepCost, RisesFastAndFallsSlowly) {
  StepCost cost;
  cost.Observe(1000, 1, 0);
  cost.Observe(3000, 1, 0);
  EXPECT_EQ(cost.decode_step_us(), 2000);
  cost.Observe(1000, 1, 0);
  EXPECT_EQ(cost.decode_step_us(), 1875);
}

TEST(StepCost, AbsurdDurationsDoNotOverflow) {
  StepCost cost;
  cost.Observe(std::numeric_limits<int64_t>::max(), 1, 0);
  cost.Observe(std::numeric_limits<int64_t>::max(), 1, 1);
  cost.Observe(-5, 1, 1);
  cost.Observe(0, 0, 0);
  EXPECT_GE(cost.decode_step_us(), 0);
  EXPECT_GE(cost.PromptRowsWithin(std::numeric_limits<int64_t>::max(), 0), 0);
}

}  // namespace
}  // namespace deepinfer::scheduler
