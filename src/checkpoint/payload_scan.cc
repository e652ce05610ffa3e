#include "checkpoint/payload_scan.h"

#include <algorithm>
#include <cstring>

namespace deepinfer {
namespace {

/// Elements of the type T, stored one after another at any alignment, for which `is_bad` holds.
template <class T, class Predicate>
uint64_t CountElements(std::span<const std::byte> bytes, Predicate is_bad) {
  uint64_t count = 0;
  for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof(T));
    count += is_bad(value) ? 1 : 0;
  }
  return count;
}

/// Whole elements of a type whose codes are all numbers count as none.
uint64_t CountNotFinite(StorageDtype dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case StorageDtype::kBf16:
      return CountElements<uint16_t>(bytes, [](uint16_t v) { return (v & 0x7F80) == 0x7F80; });
    case StorageDtype::kF32:
      return CountElements<uint32_t>(bytes, [](uint32_t v) { return (v & 0x7F800000) == 0x7F800000; });
    case StorageDtype::kF8E4M3:
      return CountElements<uint8_t>(bytes, [](uint8_t v) { return (v & 0x7F) == 0x7F; });
    case StorageDtype::kF8E8M0: return CountElements<uint8_t>(bytes, [](uint8_t v) { return v == 0xFF; });
    default: return 0;
  }
}

}  // namespace

PayloadScan::PayloadScan(const Checkpoint& checkpoint, int shard) {
  for (size_t i = 0; i < checkpoint.num_tensors(); ++i) {
    const TensorInfo tensor = checkpoint.tensor(i);
    if (tensor.shard == shard && tensor.num_bytes > 0) tensors_.push_back(tensor);
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.file_offset < b.file_offset; });
}

uint64_t PayloadScan::Count(const TensorInfo& tensor, std::span<const std::byte> bytes) {
  const auto width = static_cast<size_t>(std::max(StorageDtypeBits(tensor.dtype) / 8, 1));
  uint64_t count = 0;
  if (carried_ > 0) {
    const size_t taken = std::min(width - carried_, bytes.size());
    std::copy_n(bytes.begin(), taken, carry_.begin() + static_cast<std::ptrdiff_t>(carried_));
    carried_ += taken;
    bytes = bytes.subspan(taken);
    if (carried_ < width) return 0;
    count += CountNotFinite(tensor.dtype, std::span(carry_).first(width));
    carried_ = 0;
  }
  count += CountNotFinite(tensor.dtype, bytes);
  const std::span<const std::byte> rest = bytes.last(bytes.size() % width);
  std::copy(rest.begin(), rest.end(), carry_.begin());
  carried_ = rest.size();
  return count;
}

void PayloadScan::Add(std::span<const std::byte> bytes) {
  const uint64_t end = offset_ + bytes.size();
  for (; current_ < tensors_.size() && tensors_[current_].file_offset < end; ++current_) {
    const TensorInfo& tensor = tensors_[current_];
    const uint64_t tensor_end = tensor.file_offset + tensor.num_bytes;
    const uint64_t from = std::max(tensor.file_offset, offset_), to = std::min(tensor_end, end);
    const uint64_t count = Count(tensor, bytes.subspan(from - offset_, to - from));
    if (count > 0) {
      const bool known = !found_.empty() && found_.back().tensor == tensor.name;
      if (!known) found_.push_back({.tensor = std::string(tensor.name), .count = 0});
      found_.back().count += count;
    }
    if (tensor_end > end) break;
    carried_ = 0;
  }
  offset_ = end;
}

}  // namespace deepinfer
