#include "cli/result_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/output.h"

namespace deepinfer::cli {
namespace {

constexpr size_t kMaxIdentityBytes = size_t{1} << 20;
// A power failure may cost this much work; a kill costs nothing, since the page cache survives it.
constexpr auto kSyncInterval = std::chrono::seconds(1);

std::string IdentityPath(const std::string& path) { return path + ".resume"; }

// The first member in which two identities differ, as "KEY was A and is now B".
std::string Difference(const json::Value& before, const json::Value& now) {
  for (const auto& [key, value] : now.AsObject()) {
    const json::Value* old = before.Find(key);
    const std::string a = old == nullptr ? "nothing" : json::Serialize(*old), b = json::Serialize(value);
    if (a != b) return fmt::format("{} was {} and is now {}", key, a, b);
  }
  return "its settings were others";
}

Status OverwriteHint(Status status) {
  return std::move(status).WithHint("another -o, or --overwrite to start again");
}

}  // namespace

Status ResultFile::Failed(int error, std::string_view action) const {
  return SystemError(error, action, path_);
}

Status ResultFile::OpenFile(const std::string& input_path) {
  struct stat present{};
  const bool exists = ::stat(path_.c_str(), &present) == 0;
  struct stat input{};
  if (exists && ::stat(input_path.c_str(), &input) == 0 && input.st_dev == present.st_dev &&
      input.st_ino == present.st_ino) {
    return InvalidArgument("the output is the input", path_).WithHint("another name after -o");
  }
  is_stream_ = exists && !S_ISREG(present.st_mode) && !S_ISDIR(present.st_mode);
  const int flags = is_stream_ ? O_WRONLY | O_NOCTTY : O_RDWR | O_CREAT;
  fd_ = FileDescriptor(::open(path_.c_str(), flags | O_CLOEXEC, 0666));
  if (fd_.get() < 0) return Failed(errno, "open for writing");
  if (is_stream_) return OkStatus();
  if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Unavailable("another run is writing this file", path_)
        .WithHint("wait for it, or another name after -o");
  }
  if (::fstat(fd_.get(), &present) != 0) return Failed(errno, "look at");
  size_ = static_cast<uint64_t>(present.st_size);
  return OkStatus();
}

Status ResultFile::CheckIdentity(const json::Value& identity, bool resumable) const {
  if (!resumable)
    return OverwriteHint(
        InvalidArgument("the file exists, and a run that reads a stream cannot be resumed", path_));
  const Result<std::string> text = ReadFile(IdentityPath(path_), kMaxIdentityBytes);
  if (!text.ok()) {
    return OverwriteHint(InvalidArgument(
        "the file exists and is no output of an earlier run (no " + IdentityPath(path_) + ")", path_));
  }
  const Result<json::Value> before = json::Parse(*text);
  if (!before.ok() || !before->is_object())
    return OverwriteHint(DataLoss("no description of a run", IdentityPath(path_)));
  if (json::Serialize(*before) == json::Serialize(identity)) return OkStatus();
  return OverwriteHint(
      InvalidArgument("the file comes from another run: " + Difference(*before, identity), path_));
}

Result<ResultFile> ResultFile::Open(const std::string& path, const std::string& input_path,
                                    const json::Value& identity, bool resumable, Mode mode) {
  ResultFile file(path);
  if (path == "-") {
    file.is_stream_ = true;
    return file;
  }
  DEEPINFER_RETURN_IF_ERROR(file.OpenFile(input_path));
  if (file.is_stream_) return file;
  if (file.size_ > 0 && mode == Mode::kResume) {
    DEEPINFER_RETURN_IF_ERROR(file.CheckIdentity(identity, resumable));
    return file;
  }
  DEEPINFER_RETURN_IF_ERROR(file.CutTo(0));
  if (resumable) {
    DEEPINFER_RETURN_IF_ERROR(WriteFileAtomic(IdentityPath(path), json::Serialize(identity) + "\n"));
  } else if (::unlink(IdentityPath(path).c_str()) != 0 && errno != ENOENT) {
    // The description of an earlier run must not vouch for the results of this one.
    return IoError("cannot remove: " + std::generic_category().message(errno), IdentityPath(path));
  }
  // A folder that may be written but not read cannot be made durable; a kill loses nothing all the same.
  if (const Status durable = SyncFolderOf(path); !durable.ok()) LogVerbose(durable.ToString());
  return file;
}

Status ResultFile::CutTo(uint64_t size) {
  if (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) return Failed(errno, "shorten");
  size_ = size;
  // The cut must reach the disk before anything that relies on it.
  return ::fsync(fd_.get()) == 0 ? OkStatus() : Failed(errno, "write");
}

Status ResultFile::Append(std::string_view line) {
  std::string text(line);
  text += '\n';
  if (path_ == "-") return WriteStdout(text);
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t n = is_stream_ ? ::write(fd_.get(), rest.data(), rest.size())
                                 : ::pwrite(fd_.get(), rest.data(), rest.size(),
                                            static_cast<off_t>(size_ + text.size() - rest.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EPIPE) ::_exit(0);  // the reader of a pipe has all it wanted
    if (n < 0) {
      const int error = errno;
      if (!is_stream_) [[maybe_unused]]
        const int cut = ::ftruncate(fd_.get(), static_cast<off_t>(size_));
      return Failed(error, "write");
    }
    rest.remove_prefix(static_cast<size_t>(n));
  }
  size_ += text.size();
  const auto now = std::chrono::steady_clock::now();
  if (is_stream_ || now - synced_ < kSyncInterval) return OkStatus();
  synced_ = now;
  return ::fdatasync(fd_.get()) == 0 ? OkStatus() : Failed(errno, "write");
}

Status ResultFile::Finish() {
  if (is_stream_ || path_ == "-") return OkStatus();
  return ::fsync(fd_.get()) == 0 ? OkStatus() : Failed(errno, "write");
}

}  // namespace deepinfer::cli
