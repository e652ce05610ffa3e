// Small wrappers of system calls shared by the files of this module.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace deepinfer {

/// Closes a file descriptor at the end of the scope.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor();

  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// Status of a failed system call: "cannot ACTION: REASON" (PATH); the code follows from `error` (an errno value).
Status SystemError(int error, std::string_view action, const std::string& path);

/// Opens a regular file for reading; anything else is refused without blocking. `*size` is its present size.
Result<FileDescriptor> OpenRegularFile(const std::string& path, uint64_t* size);

}  // namespace deepinfer
