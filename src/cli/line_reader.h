// Lines of a file or stream, with a limit on their length.
#pragma once

#include <cstdint>
#include <string>

#include "base/os.h"
#include "base/sha256.h"
#include "base/status.h"

namespace deepinfer::cli {

/// One line without its line end.
struct Line {
  std::string text;    // empty when too_long
  int64_t number = 0;  // 0-based, blank lines counted
  bool too_long = false;
  bool ended = false;  // a line end followed; false only for the last line of a file
};

/// Reads line by line; a line over the limit is skipped without being held in memory.
class LineReader {
 public:
  LineReader(FileDescriptor fd, std::string name, size_t max_line_bytes);

  /// False at the end of the input. Errors: kIo; kCancelled when an interrupt arrived while waiting for input.
  Result<bool> Next(Line* line);

 private:
  Result<bool> Fill();
  FileDescriptor fd_;
  std::string name_;
  size_t max_line_bytes_;
  std::string buffer_;
  size_t at_ = 0;
  int64_t number_ = 0;
};

/// Lines of a file, or of standard input for "-". Errors: kNotFound, kIo.
Result<LineReader> OpenLines(const std::string& path, size_t max_line_bytes);

/// Whether a line holds nothing but white space of JSON.
bool IsBlank(std::string_view text);

/// The whole input looked at once.
struct InputScan {
  Sha256Digest digest{};
  int64_t num_lines = 0;  // not blank
};
/// Errors: kNotFound, kIo, kCancelled.
Result<InputScan> ScanInput(const std::string& path);

/// Reads everything from standard input ("-") or a file of at most `max_bytes`. Errors: kNotFound, kIo, kResourceExhausted, kCancelled.
Result<std::string> ReadTextInput(const std::string& path, size_t max_bytes);

}  // namespace deepinfer::cli
