#include "tensor/aligned_buffer.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "base/checked.h"

namespace deepinfer {

Result<AlignedBuffer> AlignedBuffer::Allocate(size_t size) {
  AlignedBuffer buffer;
  if (size == 0) return buffer;
  if (size > SIZE_MAX - kAlignment)
    return ResourceExhausted("a buffer of " + std::to_string(size) + " bytes is too large");
  void* memory = std::aligned_alloc(kAlignment, RoundUp(size, kAlignment));
  if (memory == nullptr)
    return ResourceExhausted("out of memory for a buffer of " + std::to_string(size) + " bytes");
  std::memset(memory, 0, size);
  buffer.data_ = static_cast<std::byte*>(memory);
  buffer.size_ = size;
  return buffer;
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  if (this != &other) {
    std::free(data_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

AlignedBuffer::~AlignedBuffer() { std::free(data_); }

}  // namespace deepinfer
