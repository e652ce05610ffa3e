#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <string>

#include <fmt/format.h>

namespace deepinfer {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::mutex g_write_mutex;

// A message may quote names from a hostile file; control characters must not reach the terminal.
void AppendPrintable(std::string_view message, std::string* out) {
  for (char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) {
      *out += fmt::format("\\x{:02x}", byte);
    } else {
      *out += c;
    }
  }
}

void Write(LogLevel level, std::string_view prefix, std::string_view message) {
  if (g_level.load(std::memory_order_relaxed) < level) return;
  std::string line(prefix);
  AppendPrintable(message, &line);
  line += '\n';
  const std::lock_guard lock(g_write_mutex);
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // nobody can be told that standard error is gone
    rest.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

void SetLogLevel(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }
LogLevel GetLogLevel() { return g_level.load(std::memory_order_relaxed); }

void LogWarning(std::string_view message) { Write(LogLevel::kWarning, "deepinfer: warning: ", message); }
void LogInfo(std::string_view message) { Write(LogLevel::kInfo, "deepinfer: ", message); }
void LogVerbose(std::string_view message) { Write(LogLevel::kVerbose, "deepinfer: ", message); }

}  // namespace deepinfer
