// Writes safetensors files, streaming (spec: checkpoint.md §7). Used by generators and tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "checkpoint/safetensors.h"

namespace deepinfer {

struct TensorSpec {
  std::string name;
  StorageDtype dtype = StorageDtype::kU8;
  std::vector<uint64_t> shape;

  /// Zero when the shape overflows.
  uint64_t num_bytes() const { return TensorBytes(dtype, shape).value_or(0); }
};

struct SafetensorsWriteOptions {
  std::vector<std::pair<std::string, std::string>> metadata;
  /// Blanks are added until (data start) mod `alignment` = `remainder`; the reference library uses 8 and 0.
  uint64_t alignment = 8;
  uint64_t remainder = 0;
  uint64_t extra_padding = 0;  // further blanks, before aligning
};

/// The length field and the JSON with its padding: everything before the data. Tensors get their offsets in the given order.
std::string BuildSafetensorsHeader(std::span<const TensorSpec> tensors,
                                   const SafetensorsWriteOptions& options = {});

/// Writes one file: header first, then the payloads in the given order, in pieces of any size.
class SafetensorsWriter {
 public:
  /// Errors: kIo, kInvalidArgument (a shape overflows).
  static Result<SafetensorsWriter> Create(const std::string& path, std::span<const TensorSpec> tensors,
                                          const SafetensorsWriteOptions& options = {});

  /// Errors: kIo, kInvalidArgument (more than the tensors need).
  Status Append(std::span<const std::byte> bytes);
  /// Closes the file. Errors: kIo, kInvalidArgument (payload incomplete).
  Status Finish();

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  SafetensorsWriter() = default;
  std::unique_ptr<std::FILE, Closer> file_;
  std::string path_;
  uint64_t remaining_ = 0;
};

/// A file with a real header and a hole as payload: right sizes, hardly any disk space, all zeros. Errors: kIo, kInvalidArgument.
Status WriteSparseSafetensors(const std::string& path, std::span<const TensorSpec> tensors,
                              const SafetensorsWriteOptions& options = {});

}  // namespace deepinfer
