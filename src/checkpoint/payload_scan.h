// Looks for stored codes that are no finite number while a shard is read front to back. Internal to the checkpoint module.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/inspect.h"

namespace deepinfer {

class PayloadScan {
 public:
  PayloadScan(const Checkpoint& checkpoint, int shard);

  /// The next bytes of the file, from its first one on.
  void Add(std::span<const std::byte> bytes);
  /// What was found, tensor by tensor.
  std::vector<NotFinite> Take() { return std::move(found_); }

 private:
  /// The next bytes of `tensor`, cut anywhere.
  uint64_t Count(const TensorInfo& tensor, std::span<const std::byte> bytes);

  std::vector<TensorInfo> tensors_;   // by offset
  size_t current_ = 0;                // first tensor that is not over
  uint64_t offset_ = 0;               // of the next byte of the file
  std::array<std::byte, 8> carry_{};  // begin of an element that the last piece cut
  size_t carried_ = 0;
  std::vector<NotFinite> found_;
};

}  // namespace deepinfer
