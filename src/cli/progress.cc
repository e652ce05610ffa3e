#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "cli/output.h"

namespace deepinfer::cli {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A status line that cannot be written is no reason to fail.
void WriteQuietly(std::string_view text) {
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

StatusLine::StatusLine() : enabled_(StderrIsTerminal() && GetLogLevel() >= LogLevel::kInfo) {}

void StatusLine::Show(std::string_view text) {
  if (!enabled_) return;
  const std::lock_guard lock(mutex_);
  constexpr auto kInterval = std::chrono::milliseconds(100);
  const auto now = Clock::now();
  if (visible_ && now - last_ < kInterval) return;
  last_ = now;
  visible_ = true;
  const auto width = static_cast<size_t>(std::max(TerminalWidth() - 1, 10));
  WriteQuietly(fmt::format("\r\x1b[K{}", text.substr(0, width)));
}

void StatusLine::Clear() {
  const std::lock_guard lock(mutex_);
  if (visible_) WriteQuietly("\r\x1b[K");
  visible_ = false;
}

void LoadMeter::Update(uint64_t bytes_done, uint64_t bytes_total) {
  if (!line_.enabled()) return;
  const double seconds = SecondsSince(start_);
  const auto done = static_cast<double>(bytes_done), total = static_cast<double>(bytes_total);
  const double rate = seconds > 0 ? done / seconds : 0;
  std::string text = fmt::format("loading {} of {}", ByteText(done), ByteText(total));
  if (rate > 0)
    text += fmt::format(", {}/s, {} left", ByteText(rate), DurationText(std::max(total - done, 0.0) / rate));
  line_.Show(text);
}

double BatchMeter::Seconds() const { return std::max(SecondsSince(start_), 1e-9); }

void BatchMeter::Add(int64_t prompt_tokens, int64_t output_tokens) {
  ++done_;
  prompt_tokens_ += prompt_tokens;
  output_tokens_ += output_tokens;
  line_.Show(Text(0));
}

void BatchMeter::Tick(int64_t output_tokens_so_far) {
  if (line_.enabled()) line_.Show(Text(output_tokens_so_far));
}

std::string BatchMeter::Text(int64_t extra_tokens) const {
  const double seconds = Seconds();
  std::string text = total_ > 0 ? fmt::format("{} of {} done", done_, total_) : fmt::format("{} done", done_);
  text +=
      fmt::format(", {:.0f} tokens/s in, {:.1f} tokens/s out", static_cast<double>(prompt_tokens_) / seconds,
                  static_cast<double>(output_tokens_ + extra_tokens) / seconds);
  const int64_t done_here = done_ - done_before_;
  if (total_ > 0 && done_here > 0) {
    text += fmt::format(", {} left", DurationText(static_cast<double>(total_ - done_) * seconds /
                                                  static_cast<double>(done_here)));
  }
  return text;
}

std::string BatchMeter::Summary() const {
  return fmt::format("{} lines, {} tokens in, {} tokens out, {}", done_ - done_before_, prompt_tokens_,
                     output_tokens_, DurationText(Seconds()));
}

}  // namespace deepinfer::cli
