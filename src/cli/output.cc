#include "cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fmt/format.h>

namespace deepinfer::cli {
namespace {

bool IsTerminal(int fd) {
  if (::isatty(fd) != 1) return false;
  const char* term = std::getenv("TERM");
  return term != nullptr && std::strcmp(term, "dumb") != 0;
}

void WriteStderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // nobody is left to be told
    text.remove_prefix(static_cast<size_t>(n));
  }
}

bool Colours() { return std::getenv("NO_COLOR") == nullptr && StdoutIsTerminal(); }

}  // namespace

Status WriteStdout(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EPIPE) ::_exit(0);
    if (n < 0) {
      const StatusCode code = errno == ENOSPC || errno == EFBIG || errno == EDQUOT
                                  ? StatusCode::kResourceExhausted
                                  : StatusCode::kIo;
      return Status(code, fmt::format("cannot write: {}", std::strerror(errno)), "standard output");
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return OkStatus();
}

Status WriteJsonLine(const json::Value& value) { return WriteStdout(json::Serialize(value) + "\n"); }

bool StdoutIsTerminal() {
  static const bool kTerminal = IsTerminal(STDOUT_FILENO);
  return kTerminal;
}

bool StderrIsTerminal() {
  static const bool kTerminal = IsTerminal(STDERR_FILENO);
  return kTerminal;
}

std::string_view DimOn() { return Colours() ? "\x1b[2m" : ""; }
std::string_view DimOff() { return Colours() ? "\x1b[0m" : ""; }

int TerminalWidth() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string Printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

std::string ByteText(double bytes) {
  static constexpr std::array<const char*, 6> kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (std::fabs(bytes) >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{:.{}f} {}", bytes, std::fabs(bytes) < 99.95 ? 1 : 0, kUnits[unit]);
}

std::string DurationText(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

int ExitCode(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk: return 0;
    case StatusCode::kInvalidArgument: return 2;
    case StatusCode::kDataLoss: return 4;
    case StatusCode::kCancelled: return 130;
    case StatusCode::kNotFound:
    case StatusCode::kIo:
    case StatusCode::kResourceExhausted:
    case StatusCode::kUnavailable:
    case StatusCode::kInternal: return 3;
  }
  return 3;
}

json::Value ErrorObject(const Status& status) {
  json::Value error;
  error.Set("code", StatusCodeName(status.code()));
  error.Set("message", status.message());
  error.Set("where", status.where());
  return error;
}

int ReportError(const Status& status, bool as_json) {
  const int code = ExitCode(status);
  if (as_json) {
    json::Value object;
    object.Set("error", ErrorObject(status));
    if (const Status written = WriteJsonLine(object); written.ok()) return code;
  }
  if (status.code() == StatusCode::kCancelled) return code;  // who pressed Ctrl-C needs no message
  std::string text = fmt::format("deepinfer: error: {}\n", Printable(status.ToString()));
  if (!status.hint().empty()) text += fmt::format("try: {}\n", Printable(status.hint()));
  WriteStderr(text);
  return code;
}

}  // namespace deepinfer::cli
