#include "engine/memory_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/memory_plan.h"

namespace deepinfer {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kGib = uint64_t{1} << 30;

/// Memory with which the plan has exactly `wanted` usable: a little more than 10/9 of it.
uint64_t MemoryFor(uint64_t wanted) { return wanted / 9 * 10 + kGib; }

uint64_t WeightBytes(std::initializer_list<WeightClass> classes) {
  const InventoryTotals totals = ExpectedTotals(ReleasedConfig());
  uint64_t bytes = 0;
  for (const WeightClass one : classes) bytes += totals.of(one).bytes;
  return bytes;
}

uint64_t DenseBytes() {
  return WeightBytes({WeightClass::kLayers, WeightClass::kEmbed, WeightClass::kHead, WeightClass::kVision});
}

TEST(MemoryCheck, SilentWhenEverythingFitsOrNothingIsKnown) {
  for (const std::optional<uint64_t> bytes : {std::optional<uint64_t>(), std::optional(4096 * kGib)}) {
    const Result<std::string> note = CheckMemory(ReleasedConfig(), bytes);
    ASSERT_TRUE(note.ok()) << note.status().ToString();
    EXPECT_EQ(*note, "");
  }
}

TEST(MemoryCheck, EngramStaysInTheFilesFirst) {
  const uint64_t experts = WeightBytes({WeightClass::kRoutedExperts});
  const Result<std::string> note =
      CheckMemory(ReleasedConfig(), MemoryFor(DenseBytes() + experts + 4 * kGib));
  ASSERT_TRUE(note.ok()) << note.status().ToString();
  EXPECT_THAT(*note, HasSubstr(": Engram tables stay memory-mapped"));
}

TEST(MemoryCheck, ThenTheExperts) {
  const Result<std::string> note = CheckMemory(ReleasedConfig(), MemoryFor(DenseBytes() + 4 * kGib));
  ASSERT_TRUE(note.ok()) << note.status().ToString();
  EXPECT_THAT(*note, HasSubstr("routed experts and Engram tables stay memory-mapped, and every token reads"));
}

TEST(MemoryCheck, DensePartThatDoesNotFitIsRefusedWithTheArithmetic) {
  const Result<std::string> note = CheckMemory(ReleasedConfig(), kGib);
  ASSERT_FALSE(note.ok());
  EXPECT_EQ(note.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(note.status().message(), HasSubstr("more than 0.90 GiB usable (1.00 GiB in all)"));
}

TEST(MemoryCheck, ThisMachineHasMemory) {
  const std::optional<uint64_t> bytes = HostMemoryBytes();
  ASSERT_TRUE(bytes.has_value());
  EXPECT_GT(*bytes, uint64_t{1} << 26);
}

}  // namespace
}  // namespace deepinfer
