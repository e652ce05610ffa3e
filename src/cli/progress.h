// A status line on the terminal of standard error; on a pipe, and with --quiet, nothing at all.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace deepinfer::cli {

/// One line that is rewritten in place, at most ten times a second. Thread-safe.
class StatusLine {
 public:
  StatusLine();
  ~StatusLine() { Clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  bool enabled() const { return enabled_; }
  void Show(std::string_view text);
  /// Removes the line, so that other output does not mix with it.
  void Clear();

 private:
  std::mutex mutex_;
  bool enabled_;
  bool visible_ = false;
  std::chrono::steady_clock::time_point last_{};
};

/// "loading 3.1 of 7.2 GB, 1.9 GB/s, 3s left".
class LoadMeter {
 public:
  void Update(uint64_t bytes_done, uint64_t bytes_total);
  void Clear() { line_.Clear(); }

 private:
  StatusLine line_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// "12 of 40 done, 310 tokens/s in, 92 tokens/s out, 1m02s left". Totals of 0 are unknown and left out.
class BatchMeter {
 public:
  BatchMeter(int64_t done_before, int64_t total)
      : done_before_(done_before), done_(done_before), total_(total) {}
  void Add(int64_t prompt_tokens, int64_t output_tokens);
  /// Tokens of the answer in progress, shown but not counted as done.
  void Tick(int64_t output_tokens_so_far);
  void Clear() { line_.Clear(); }
  /// The same figures as a sentence, for the end.
  std::string Summary() const;

 private:
  double Seconds() const;
  std::string Text(int64_t extra_tokens) const;
  StatusLine line_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int64_t done_before_, done_, total_;
  int64_t prompt_tokens_ = 0, output_tokens_ = 0;
};

}  // namespace deepinfer::cli
