// Files: bounded reads, positional reads, guarded memory maps, durable writes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace deepinfer {

/// Reads a whole file of at most `max_bytes`. Errors: kNotFound, kIo (also for directories), `too_large` for a larger one (kDataLoss
/// suits files with a format that allows no such size), kResourceExhausted without the memory.
Result<std::string> ReadFile(const std::string& path, size_t max_bytes,
                             StatusCode too_large = StatusCode::kResourceExhausted);

/// Writes a file so that after a crash either the old or the new content is there (temporary file, fsync, rename).
Status WriteFileAtomic(const std::string& path, std::string_view content);

/// Makes a new name in the folder of `path` itself durable. Ok on file systems that cannot sync a folder. Errors: kNotFound, kIo.
Status SyncFolderOf(const std::string& path);

/// An open file for positional reads; closes itself.
class RandomAccessFile {
 public:
  static Result<RandomAccessFile> Open(const std::string& path);
  RandomAccessFile(RandomAccessFile&& other) noexcept;
  RandomAccessFile& operator=(RandomAccessFile&& other) noexcept;
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;
  ~RandomAccessFile();

  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  int fd() const { return fd_; }
  /// Fills `out` from `offset`; a short file is kDataLoss ("the file was cut").
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const;

 private:
  RandomAccessFile(int fd, uint64_t size, std::string path) : fd_(fd), size_(size), path_(std::move(path)) {}
  int fd_ = -1;
  uint64_t size_ = 0;
  std::string path_;
};

/// A read-only map of a whole file. When the file is cut while mapped, touching a lost page does not end the process: the
/// process-wide SIGBUS handler puts a page of zeros there and marks the map as damaged; callers test `Check()` after reading.
class MappedFile {
 public:
  static Result<std::shared_ptr<MappedFile>> Map(const std::string& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  /// Ok, or kDataLoss naming the file when a page was lost since it was mapped.
  Status Check() const;

 private:
  MappedFile(const std::byte* data, size_t size, int slot, std::string path)
      : data_(data), size_(size), slot_(slot), path_(std::move(path)) {}
  const std::byte* data_;
  size_t size_;
  int slot_;  // index into the handler's table of maps
  std::string path_;
};

}  // namespace deepinfer
