#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/os.h"

namespace deepinfer {
namespace {

constexpr size_t kMinReadBytes = 64 << 10;

template <typename Call>
auto RetryOnEintr(Call call) {
  while (true) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

// Does not trust the size that the file claims: it is 0 under /proc, and the file may grow while it is read.
Result<std::string> ReadAll(int fd, uint64_t claimed_size, size_t max_bytes, StatusCode too_large_code,
                            const std::string& path) {
  const auto too_large = [&] {
    return Status(too_large_code, fmt::format("the file is larger than the limit of {} bytes", max_bytes),
                  path);
  };
  if (claimed_size > max_bytes) return too_large();
  std::string content;
  size_t size = 0;
  while (true) {
    if (size == content.size()) {
      const size_t wanted = std::max({size * 2, static_cast<size_t>(claimed_size) + 1, kMinReadBytes});
      content.resize(std::min(wanted, max_bytes == SIZE_MAX ? max_bytes : max_bytes + 1));
    }
    const ssize_t n = RetryOnEintr([&] { return ::read(fd, content.data() + size, content.size() - size); });
    if (n < 0) return SystemError(errno, "read the file", path);
    if (n == 0) break;
    size += static_cast<size_t>(n);
    if (size > max_bytes) return too_large();
  }
  content.resize(size);
  return content;
}

Status WriteAll(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t n = RetryOnEintr([&] { return ::write(fd, content.data(), content.size()); });
    if (n < 0) return SystemError(errno, "write the file", path);
    content.remove_prefix(static_cast<size_t>(n));
  }
  return OkStatus();
}

// The file that a chain of symbolic links names, so that writing replaces the content and not the link.
std::string ResolveLinks(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return path;
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return path;
  std::string out(resolved);
  std::free(resolved);
  return out;
}

// Errors name `path`, which is what the caller knows.
Status WriteTemporary(const std::string& temporary, const mode_t* mode, std::string_view content,
                      const std::string& path) {
  FileDescriptor fd(RetryOnEintr(
      [&] { return ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666); }));
  if (fd.get() < 0) return SystemError(errno, "create the file", path);
  if (mode != nullptr && ::fchmod(fd.get(), *mode) != 0) return SystemError(errno, "set the mode of", path);
  DEEPINFER_RETURN_IF_ERROR(WriteAll(fd.get(), content, path));
  if (RetryOnEintr([&] { return ::fsync(fd.get()); }) != 0) return SystemError(errno, "sync the file", path);
  if (::close(fd.Release()) != 0 && errno != EINTR) return SystemError(errno, "close the file", path);
  return OkStatus();
}

}  // namespace

Status SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const FileDescriptor fd(
      RetryOnEintr([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (fd.get() < 0) return SystemError(errno, "open the folder", folder);
  if (RetryOnEintr([&] { return ::fsync(fd.get()); }) != 0 && errno != EINVAL) {
    return SystemError(errno, "sync the folder", folder);
  }
  return OkStatus();
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Status SystemError(int error, std::string_view action, const std::string& path) {
  const char* reason = ::strerrordesc_np(error);
  std::string message = fmt::format("cannot {}: {}", action, reason == nullptr ? "unknown error" : reason);
  switch (error) {
    case ENOENT:
    case ENOTDIR: return NotFound(std::move(message), path);
    case ENOMEM:
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE: return ResourceExhausted(std::move(message), path);
    default: return IoError(std::move(message), path);
  }
}

Result<FileDescriptor> OpenRegularFile(const std::string& path, uint64_t* size) {
  if (path.find('\0') != std::string::npos) return NotFound("the file name contains a NUL byte");
  // Without O_NONBLOCK, opening a FIFO would wait for a writer; it changes nothing for regular files.
  FileDescriptor fd(
      RetryOnEintr([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); }));
  if (fd.get() < 0) return SystemError(errno, "open the file", path);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return SystemError(errno, "examine the file", path);
  if (S_ISDIR(info.st_mode)) return IoError("this is a folder, not a file", path);
  if (!S_ISREG(info.st_mode)) return IoError("this is not a regular file", path);
  *size = static_cast<uint64_t>(info.st_size);
  return fd;
}

Result<std::string> ReadFile(const std::string& path, size_t max_bytes, StatusCode too_large) {
  uint64_t size = 0;
  DEEPINFER_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenRegularFile(path, &size));
  try {
    return ReadAll(fd.get(), size, max_bytes, too_large, path);
  } catch (const std::exception&) {  // bad_alloc, or length_error for an absurd claimed size
    return ResourceExhausted("not enough memory to read the file", path);
  }
}

Status WriteFileAtomic(const std::string& path, std::string_view content) {
  if (path.find('\0') != std::string::npos) return InvalidArgument("the file name contains a NUL byte");
  const std::string target = ResolveLinks(path);
  struct stat info;
  const bool exists = ::stat(target.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) return IoError("this is not a regular file", path);
  const mode_t mode = exists ? info.st_mode & 07777 : 0;

  static std::atomic<uint64_t> counter{0};
  const std::string temporary = fmt::format("{}.tmp-{}-{}", target, ::getpid(), counter.fetch_add(1));
  Status status = WriteTemporary(temporary, exists ? &mode : nullptr, content, path);
  if (status.ok() && ::rename(temporary.c_str(), target.c_str()) != 0) {
    status = SystemError(errno, "replace the file", path);
  }
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  return SyncFolderOf(target);
}

Result<RandomAccessFile> RandomAccessFile::Open(const std::string& path) {
  uint64_t size = 0;
  DEEPINFER_ASSIGN_OR_RETURN(FileDescriptor fd, OpenRegularFile(path, &size));
  return RandomAccessFile(fd.Release(), size, path);
}

RandomAccessFile::RandomAccessFile(RandomAccessFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)) {}

RandomAccessFile& RandomAccessFile::operator=(RandomAccessFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

RandomAccessFile::~RandomAccessFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status RandomAccessFile::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    if (offset > static_cast<uint64_t>(INT64_MAX) - out.size())
      return DataLoss("read beyond the end of the file", path_);
    const ssize_t n =
        RetryOnEintr([&] { return ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset)); });
    if (n < 0) return SystemError(errno, "read the file", path_);
    if (n == 0) return DataLoss(fmt::format("the file was cut: nothing at byte {}", offset), path_);
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return OkStatus();
}

}  // namespace deepinfer
