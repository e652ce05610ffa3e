#include "cli/line_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

#include "base/file.h"
#include "cli/interrupt.h"

namespace deepinfer::cli {
namespace {

constexpr size_t kChunk = size_t{1} << 18;

// -1 with kCancelled in `status` when an interrupt woke the call.
ssize_t ReadSome(int fd, char* out, size_t size, const std::string& name, Status* status) {
  for (;;) {
    if (Interrupted()) {
      *status = Cancelled();
      return -1;
    }
    const ssize_t n = ::read(fd, out, size);
    if (n >= 0) return n;
    if (errno == EINTR) continue;
    *status = SystemError(errno, "read", name);
    return -1;
  }
}

}  // namespace

LineReader::LineReader(FileDescriptor fd, std::string name, size_t max_line_bytes)
    : fd_(std::move(fd)), name_(std::move(name)), max_line_bytes_(max_line_bytes) {}

Result<bool> LineReader::Fill() {
  buffer_.erase(0, at_);
  at_ = 0;
  const size_t size = buffer_.size();
  buffer_.resize(size + kChunk);
  Status status;
  const ssize_t n = ReadSome(fd_.get(), buffer_.data() + size, kChunk, name_, &status);
  buffer_.resize(size + static_cast<size_t>(n < 0 ? 0 : n));
  if (n < 0) return status;
  return n > 0;
}

Result<bool> LineReader::Next(Line* line) {
  *line = Line{.text = {}, .number = number_, .too_long = false, .ended = false};
  size_t searched = 0;
  for (;;) {
    const size_t end = buffer_.find('\n', at_ + searched);
    const size_t length = (end == std::string::npos ? buffer_.size() : end) - at_;
    if (length > max_line_bytes_) line->too_long = true;
    if (end != std::string::npos) {
      if (!line->too_long) line->text.assign(buffer_, at_, length);
      at_ = end + 1;
      line->ended = true;
      ++number_;
      return true;
    }
    searched = length;
    if (line->too_long) {
      at_ = buffer_.size();
      searched = 0;
    }
    DEEPINFER_ASSIGN_OR_RETURN(const bool more, Fill());
    if (more) continue;
    if (buffer_.empty() && !line->too_long) return false;
    line->text.swap(buffer_);
    if (line->too_long) line->text.clear();
    buffer_.clear();
    at_ = 0;
    ++number_;
    return true;
  }
}

Result<LineReader> OpenLines(const std::string& path, size_t max_line_bytes) {
  if (path == "-") return LineReader(FileDescriptor(::dup(STDIN_FILENO)), "standard input", max_line_bytes);
  uint64_t size = 0;
  DEEPINFER_ASSIGN_OR_RETURN(FileDescriptor fd, OpenRegularFile(path, &size));
  return LineReader(std::move(fd), path, max_line_bytes);
}

bool IsBlank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

Result<InputScan> ScanInput(const std::string& path) {
  uint64_t size = 0;
  DEEPINFER_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenRegularFile(path, &size));
  Sha256 hash;
  InputScan scan;
  std::string chunk(kChunk, '\0');
  bool content = false;  // of the present line
  for (;;) {
    Status status;
    const ssize_t n = ReadSome(fd.get(), chunk.data(), chunk.size(), path, &status);
    if (n < 0) return status;
    if (n == 0) break;
    const std::string_view part(chunk.data(), static_cast<size_t>(n));
    hash.Update(part);
    for (const char c : part) {
      if (c == '\n') {
        scan.num_lines += content ? 1 : 0;
        content = false;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        content = true;
      }
    }
  }
  scan.num_lines += content ? 1 : 0;
  scan.digest = hash.Finish();
  return scan;
}

Result<std::string> ReadTextInput(const std::string& path, size_t max_bytes) {
  if (path != "-") return ReadFile(path, max_bytes);
  std::string text;
  for (;;) {
    const size_t size = text.size();
    if (size > max_bytes)
      return ResourceExhausted(fmt::format("more than {} bytes", max_bytes), "standard input");
    text.resize(size + kChunk);
    Status status;
    const ssize_t n = ReadSome(STDIN_FILENO, text.data() + size, kChunk, "standard input", &status);
    text.resize(size + static_cast<size_t>(n < 0 ? 0 : n));
    if (n < 0) return status;
    if (n == 0) return text;
  }
}

}  // namespace deepinfer::cli
