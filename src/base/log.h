// Messages for people on standard error: `deepinfer: warning: …`.
#pragma once

#include <string_view>

namespace deepinfer {

enum class LogLevel { kQuiet, kWarning, kInfo, kVerbose };

/// Process-wide; default kInfo. `--quiet` sets kQuiet, `--verbose` sets kVerbose.
void SetLogLevel(LogLevel level);
LogLevel GetLogLevel();

void LogWarning(std::string_view message);
void LogInfo(std::string_view message);
void LogVerbose(std::string_view message);

}  // namespace deepinfer
