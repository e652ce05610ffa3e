#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/scratch_folder.h"

namespace deepinfer {
namespace {

size_t CountNonZero(std::span<const std::byte> bytes) {
  size_t count = 0;
  for (std::byte b : bytes) count += b != std::byte{0} ? 1 : 0;
  return count;
}

TEST(MappedFile, ShowsTheContent) {
  const ScratchFolder folder;
  ASSERT_TRUE(WriteFileAtomic(folder / "a", "hello").ok());
  const auto map = MappedFile::Map(folder / "a");
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>((*map)->bytes().data()), (*map)->bytes().size()),
            "hello");
  EXPECT_TRUE((*map)->Check().ok());
}

TEST(MappedFile, EmptyAndMissingFiles) {
  const ScratchFolder folder;
  ASSERT_TRUE(WriteFileAtomic(folder / "a", "").ok());
  const auto map = MappedFile::Map(folder / "a");
  ASSERT_TRUE(map.ok());
  EXPECT_TRUE((*map)->bytes().empty());
  EXPECT_TRUE((*map)->Check().ok());
  EXPECT_EQ(MappedFile::Map(folder / "b").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::Map(folder / "").status().code(), StatusCode::kIo);
}

TEST(MappedFile, CutFileReadsAsZerosAndIsReported) {
  const ScratchFolder folder;
  constexpr size_t kBytes = 64 * 4096;
  ASSERT_TRUE(WriteFileAtomic(folder / "a", std::string(kBytes, 'x')).ok());
  ASSERT_TRUE(WriteFileAtomic(folder / "b", std::string(kBytes, 'x')).ok());
  const auto cut = MappedFile::Map(folder / "a");
  const auto sound = MappedFile::Map(folder / "b");
  ASSERT_TRUE(cut.ok() && sound.ok());
  ASSERT_EQ(::truncate((folder / "a").c_str(), 4096), 0);
  EXPECT_EQ(CountNonZero((*cut)->bytes()), 4096U);
  EXPECT_EQ(CountNonZero((*sound)->bytes()), kBytes);
  const Status status = (*cut)->Check();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(status.where(), folder / "a");
  EXPECT_TRUE((*sound)->Check().ok());
  // The damage stays known when the file grows again.
  ASSERT_EQ(::truncate((folder / "a").c_str(), kBytes), 0);
  EXPECT_FALSE((*cut)->Check().ok());
}

TEST(MappedFile, CutInsideAPageIsReported) {
  const ScratchFolder folder;
  ASSERT_TRUE(WriteFileAtomic(folder / "a", "hello").ok());
  const auto map = MappedFile::Map(folder / "a");
  ASSERT_TRUE(map.ok());
  ASSERT_EQ(::truncate((folder / "a").c_str(), 2), 0);
  EXPECT_EQ((*map)->Check().code(), StatusCode::kDataLoss);
}

TEST(MappedFile, ManyThreadsMayTouchLostPages) {
  const ScratchFolder folder;
  constexpr size_t kBytes = 256 * 4096;
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(WriteFileAtomic(folder / "a", std::string(kBytes, 'x')).ok());
    const auto map = MappedFile::Map(folder / "a");
    ASSERT_TRUE(map.ok());
    ASSERT_EQ(::truncate((folder / "a").c_str(), 0), 0);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] { EXPECT_EQ(CountNonZero((*map)->bytes()), 0U); });
    }
    threads.clear();
    EXPECT_FALSE((*map)->Check().ok());
  }
}

TEST(MappedFile, SlotsAreUsedAgain) {
  const ScratchFolder folder;
  ASSERT_TRUE(WriteFileAtomic(folder / "a", "hello").ok());
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(MappedFile::Map(folder / "a").ok());
  std::vector<std::shared_ptr<MappedFile>> maps;
  for (int i = 0; i < 200; ++i) {
    auto map = MappedFile::Map(folder / "a");
    ASSERT_TRUE(map.ok());
    maps.push_back(std::move(map).value());
  }
  for (const auto& map : maps) EXPECT_TRUE(map->Check().ok());
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(MappedFileDeathTest, FaultsElsewhereStillEndTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const ScratchFolder folder;
  ASSERT_TRUE(WriteFileAtomic(folder / "a", std::string(8192, 'x')).ok());
  const auto touch_foreign_map = [&] {
    const auto ours = MappedFile::Map(folder / "a");
    const int fd = ::open((folder / "a").c_str(), O_RDONLY);
    const auto* foreign =
        static_cast<const volatile char*>(::mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd, 0));
    if (::truncate((folder / "a").c_str(), 0) == 0) static_cast<void>(foreign[4096]);
  };
  EXPECT_EXIT(touch_foreign_map(), testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT((static_cast<void>(MappedFile::Map(folder / "a")), ::kill(::getpid(), SIGBUS)),
              testing::KilledBySignal(SIGBUS), "");
}
#endif

}  // namespace
}  // namespace deepinfer
