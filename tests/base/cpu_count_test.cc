#include "base/cpu_count.h"

#include <sched.h>

#include <gtest/gtest.h>

namespace deepinfer {
namespace {

TEST(CpuCount, ReadsCpuMax) {
  EXPECT_EQ(CpusFromCpuMax("max 100000\n"), 0);
  EXPECT_EQ(CpusFromCpuMax("200000 100000\n"), 2);
  EXPECT_EQ(CpusFromCpuMax("150000 100000\n"), 2);
  EXPECT_EQ(CpusFromCpuMax("1000 100000\n"), 1);
  EXPECT_EQ(CpusFromCpuMax("9223372036854775807 1\n"), 1 << 20);
  EXPECT_EQ(CpusFromCpuMax("100000 0\n"), 0);
  EXPECT_EQ(CpusFromCpuMax("-5 10\n"), 0);
  EXPECT_EQ(CpusFromCpuMax(""), 0);
}

TEST(CpuCount, RespectsTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(AvailableCpus(), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace deepinfer
