// 48 sparse shards with the released names and shapes: opening, inspecting and planning must not depend on the payload's size.
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include <gtest/gtest.h>

#include "checkpoint/inspect.h"
#include "checkpoint/memory_plan.h"
#include "checkpoint/synthetic.h"
#include "temp_dir.h"

namespace deepinfer {
namespace {

using testing::TempDir;

constexpr int64_t kMaxPeakKib = 300 * 1024;

/// What the child does; its exit status says which expectation failed.
int InspectAndPlan(const std::string& dir) {
  const auto report = InspectFolder(dir);
  if (!report.ok()) return 10;
  if (!report->sound) return 11;
  if (report->tensors != 96'085 || report->bytes != 510'286'023'000) return 12;
  if (report->shards != 48) return 13;
  PlanRequest request;
  request.num_devices = 8;
  request.device_bytes = *ParseDeviceMemory("h200");
  const auto plan = PlanMemory(*report->config, request);
  if (!plan.ok() || !plan->fits) return 14;
  return 0;
}

TEST(CheckpointScale, FortyEightSparseShardsOfTheReleasedModel) {
  const TempDir dir;
  SyntheticOptions options;
  options.layout = SyntheticOptions::Layout::kReleased;
  options.sparse = true;
  // The child writes too, so that this process's own memory is not inherited by the measured one.
  const pid_t writer = ::fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) ::_exit(WriteSyntheticCheckpoint(dir.path(), ReleasedConfig(), options).ok() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(writer, &status, 0), writer);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    FAIL() << "the writer failed: the build tree must lie on a file system with sparse files of 101 GB";
  }

  uint64_t apparent = 0;
  uint64_t on_disk = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    struct stat info;
    ASSERT_EQ(::stat(entry.path().c_str(), &info), 0);
    apparent += static_cast<uint64_t>(info.st_size);
    on_disk += static_cast<uint64_t>(info.st_blocks) * 512;
  }
  EXPECT_GT(apparent, 510'286'023'000u);
  EXPECT_LT(on_disk, uint64_t{64} << 20);

  const auto start = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(InspectAndPlan(dir.path()));
  struct rusage usage;
  ASSERT_EQ(::wait4(child, &status, 0, &usage), child);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_LT(usage.ru_maxrss, kMaxPeakKib);
  std::printf(
      "inspect and plan of 96,085 tensors in 48 shards: %.2f s, peak memory %.1f MB, %.1f MB on disk\n",
      seconds, static_cast<double>(usage.ru_maxrss) * 1024 / 1e6, static_cast<double>(on_disk) / 1e6);
}

}  // namespace
}  // namespace deepinfer
