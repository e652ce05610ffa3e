#include "base/file.h"

#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "base/scratch_folder.h"

namespace deepinfer {
namespace {

TEST(ReadFile, ReadsUpToTheLimit) {
  const ScratchFolder folder;
  const std::string path = folder / "a";
  ASSERT_TRUE(WriteFileAtomic(path, "hello").ok());
  EXPECT_EQ(*ReadFile(path, 5), "hello");
  EXPECT_EQ(*ReadFile(path, SIZE_MAX), "hello");
  EXPECT_EQ(ReadFile(path, 4).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ReadFile(path, 4, StatusCode::kDataLoss).status().code(), StatusCode::kDataLoss);
  ASSERT_TRUE(WriteFileAtomic(path, "").ok());
  EXPECT_EQ(*ReadFile(path, 0), "");
}

TEST(ReadFile, ReadsBigFilesWhole) {
  const ScratchFolder folder;
  std::string content(1'000'003, 'x');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31);
  ASSERT_TRUE(WriteFileAtomic(folder / "a", content).ok());
  EXPECT_EQ(*ReadFile(folder / "a", content.size()), content);
}

TEST(ReadFile, RefusesWhatIsNoFile) {
  const ScratchFolder folder;
  const Result<std::string> missing = ReadFile(folder / "missing", 10);
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().where().find("missing"), std::string::npos);
  EXPECT_EQ(ReadFile(folder / "", 10).status().code(), StatusCode::kIo);
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(ReadFile(folder / "fifo", 10).status().code(), StatusCode::kIo);
  EXPECT_EQ(ReadFile("/dev/zero", 10).status().code(), StatusCode::kIo);
  EXPECT_EQ(ReadFile(std::string("a\0b", 3), 10).status().code(), StatusCode::kNotFound);
}

TEST(ReadFile, DoesNotTrustTheClaimedSize) {
  const Result<std::string> status = ReadFile("/proc/self/status", 1 << 20);  // claims 0 bytes
  ASSERT_TRUE(status.ok());
  EXPECT_NE(status->find("Pid:"), std::string::npos);
  EXPECT_EQ(ReadFile("/proc/self/status", 10).status().code(), StatusCode::kResourceExhausted);
}

TEST(WriteFileAtomic, ReplacesContentAndKeepsTheMode) {
  const ScratchFolder folder;
  const std::string path = folder / "a";
  ASSERT_TRUE(WriteFileAtomic(path, "old").ok());
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  ASSERT_TRUE(WriteFileAtomic(path, "new").ok());
  EXPECT_EQ(*ReadFile(path, 10), "new");
  struct stat info;
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  size_t num_entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / ""))
    num_entries += entry.exists() ? 1 : 0;
  EXPECT_EQ(num_entries, 1U) << "a temporary file was left";
}

TEST(WriteFileAtomic, FollowsLinksAndRefusesOthers) {
  const ScratchFolder folder;
  ASSERT_TRUE(WriteFileAtomic(folder / "a", "old").ok());
  std::filesystem::create_symlink("a", folder / "link");
  ASSERT_TRUE(WriteFileAtomic(folder / "link", "new").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(*ReadFile(folder / "a", 10), "new");
  EXPECT_EQ(WriteFileAtomic("/dev/null", "x").code(), StatusCode::kIo);
  EXPECT_EQ(WriteFileAtomic(folder / "none/a", "x").code(), StatusCode::kNotFound);
  EXPECT_FALSE(WriteFileAtomic(folder / "", "x").ok());
}

TEST(WriteFileAtomic, ErrorsNameTheFileThatWasAskedFor) {
  const ScratchFolder folder;
  const Status status = WriteFileAtomic(folder / "none/a", "x");
  EXPECT_EQ(status.where(), folder / "none/a");
  EXPECT_EQ(SyncFolderOf(folder / "none/a").code(), StatusCode::kNotFound);
  EXPECT_TRUE(SyncFolderOf(folder / "a").ok());
}

TEST(RandomAccessFile, ReadsAtOffsets) {
  const ScratchFolder folder;
  ASSERT_TRUE(WriteFileAtomic(folder / "a", "0123456789").ok());
  Result<RandomAccessFile> opened = RandomAccessFile::Open(folder / "a");
  ASSERT_TRUE(opened.ok());
  RandomAccessFile file = std::move(opened).value();
  EXPECT_EQ(file.size(), 10U);
  std::byte out[4];
  ASSERT_TRUE(file.ReadAt(3, out).ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(out), 4), "3456");
  EXPECT_TRUE(file.ReadAt(10, {}).ok());
  EXPECT_EQ(file.ReadAt(8, out).code(), StatusCode::kDataLoss);
  EXPECT_EQ(file.ReadAt(UINT64_MAX, out).code(), StatusCode::kDataLoss);
  EXPECT_EQ(RandomAccessFile::Open(folder / "b").status().code(), StatusCode::kNotFound);

  RandomAccessFile other = std::move(file);
  EXPECT_TRUE(other.ReadAt(0, out).ok());
}

}  // namespace
}  // namespace deepinfer
