// Owned memory for weights, state and workspaces.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace deepinfer {

/// Zeroed bytes aligned to 128 (the alignment of all parts of a state block). Move-only.
class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 128;

  AlignedBuffer() = default;
  /// Errors: kResourceExhausted with the size.
  static Result<AlignedBuffer> Allocate(size_t size);
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  ~AlignedBuffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() { return {data_, size_}; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace deepinfer
