// Processor time for the few bounds that the command line promises; other programs on the machine do not count.
#pragma once

#include <ctime>

namespace deepinfer::testing {

/// Sanitizers slow code several times; the bounds are for the program that users run.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr double kSanitizerFactor = 20;
#else
inline constexpr double kSanitizerFactor = 1;
#endif

class CpuTimer {
 public:
  /// Of this process, all threads, since the timer was made.
  double Seconds() const { return static_cast<double>(std::clock() - begin_) / CLOCKS_PER_SEC; }

 private:
  std::clock_t begin_ = std::clock();
};

}  // namespace deepinfer::testing
