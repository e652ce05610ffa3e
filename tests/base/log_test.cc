#include "base/log.h"

#include <gtest/gtest.h>

namespace deepinfer {
namespace {

std::string Capture(LogLevel level) {
  const LogLevel before = GetLogLevel();
  SetLogLevel(level);
  testing::internal::CaptureStderr();
  LogWarning("low memory");
  LogInfo("loaded");
  LogVerbose("detail");
  SetLogLevel(before);
  return testing::internal::GetCapturedStderr();
}

TEST(Log, LevelsDecideWhatIsSaid) {
  EXPECT_EQ(Capture(LogLevel::kQuiet), "");
  EXPECT_EQ(Capture(LogLevel::kWarning), "deepinfer: warning: low memory\n");
  EXPECT_EQ(Capture(LogLevel::kInfo), "deepinfer: warning: low memory\ndeepinfer: loaded\n");
  EXPECT_EQ(Capture(LogLevel::kVerbose),
            "deepinfer: warning: low memory\ndeepinfer: loaded\ndeepinfer: detail\n");
}

TEST(Log, ControlCharactersDoNotReachTheTerminal) {
  testing::internal::CaptureStderr();
  LogWarning("name \x1b[31m é\ttab");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "deepinfer: warning: name \\x1b[31m é\ttab\n");
}

}  // namespace
}  // namespace deepinfer
