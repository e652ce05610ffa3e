// The output of a batch: always whole lines plus at most one cut line, and resumable after a kill at any instant.
//
// Beside OUT lies OUT.resume, which says what OUT is made from (input digest and settings). The order of writing makes every
// instant safe: OUT is created empty and locked; then OUT.resume is written (durably, by rename); only then the first result. So an
// empty OUT is a fresh start whatever lies beside it, and an OUT with content always has the OUT.resume that belongs to it. An
// OUT.resume stays when the run is complete: the same command then has nothing to do.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/os.h"
#include "base/status.h"

namespace deepinfer::cli {

class ResultFile {
 public:
  enum class Mode : uint8_t {
    kResume,  // continue when OUT has content and belongs to `identity`, refuse when it belongs to something else
    kOverwrite,  // start again
  };

  /// Opens PATH ("-" = standard output; devices and pipes are streams without resume). `identity` describes what the results are
  /// made from; `input_path` must not be the same file. `resumable` false (input from a stream): content of OUT is refused.
  /// Errors: kInvalidArgument (OUT is IN, or holds something else), kIo, kResourceExhausted, kUnavailable (another run writes it).
  static Result<ResultFile> Open(const std::string& path, const std::string& input_path,
                                 const json::Value& identity, bool resumable, Mode mode);

  /// Bytes of whole lines that an earlier run left (after Open).
  uint64_t size() const { return size_; }
  bool is_stream() const { return is_stream_; }
  const std::string& path() const { return path_; }

  /// Cuts what follows the first `size` bytes: the repair of a cut line. Errors: kIo.
  Status CutTo(uint64_t size);

  /// Appends one line (the line end is added). When it cannot be written whole, OUT is cut back to whole lines. Errors:
  /// kResourceExhausted (disk full, file size limit), kIo, naming OUT.
  Status Append(std::string_view line);
  /// Makes everything durable. Errors: as Append.
  Status Finish();

 private:
  explicit ResultFile(std::string path) : path_(std::move(path)) {}
  Status OpenFile(const std::string& input_path);
  Status CheckIdentity(const json::Value& identity, bool resumable) const;
  Status Failed(int error, std::string_view action) const;

  std::string path_;
  FileDescriptor fd_;
  bool is_stream_ = false;
  uint64_t size_ = 0;
  std::chrono::steady_clock::time_point synced_ = std::chrono::steady_clock::now();
};

}  // namespace deepinfer::cli
