// Searching text for the next of a few bytes, 16 at a time. Portable: GCC's vector types, no intrinsics.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace deepinfer {

using ByteVector = uint8_t __attribute__((vector_size(16)));

/// Index from `begin` on of the first byte for which `byte_matches(uint8_t)` holds, else text.size(). `vector_matches(ByteVector)` is
/// the same predicate on 16 bytes: a vector whose matching lanes are all ones, the others zero.
template <typename VectorPredicate, typename BytePredicate>
size_t FindByte(std::string_view text, size_t begin, VectorPredicate vector_matches,
                BytePredicate byte_matches) {
  size_t at = begin;
  if constexpr (std::endian::native == std::endian::little) {
    for (; text.size() - at >= sizeof(ByteVector); at += sizeof(ByteVector)) {
      ByteVector bytes;
      std::memcpy(&bytes, text.data() + at, sizeof(bytes));
      const auto lanes = vector_matches(bytes);
      uint64_t halves[2];
      std::memcpy(halves, &lanes, sizeof(halves));
      if (halves[0] != 0) return at + static_cast<size_t>(std::countr_zero(halves[0])) / 8;
      if (halves[1] != 0) return at + 8 + static_cast<size_t>(std::countr_zero(halves[1])) / 8;
    }
  }
  while (at < text.size() && !byte_matches(static_cast<uint8_t>(text[at]))) ++at;
  return at;
}

/// A set of bytes to look for.
class ByteSet {
 public:
  void Add(char c) {
    const auto byte = static_cast<uint8_t>(c);
    if (member_[byte]) return;
    member_[byte] = true;
    // Lanes without a byte of their own repeat the first one.
    if (count_ == 0) needles_.fill(byte);
    if (count_ < needles_.size()) needles_[count_] = byte;
    ++count_;
  }
  bool Contains(char c) const { return member_[static_cast<uint8_t>(c)]; }

  /// Index from `begin` on of the first member in `text`, else text.size().
  size_t Find(std::string_view text, size_t begin) const {
    if (count_ == 0) return text.size();
    const auto is_member = [this](uint8_t byte) { return member_[byte]; };
    if (count_ > needles_.size()) {
      while (begin < text.size() && !is_member(static_cast<uint8_t>(text[begin]))) ++begin;
      return begin;
    }
    const auto [a, b, c, d] = needles_;
    return FindByte(
        text, begin,
        [=](ByteVector bytes) { return ((bytes == a) | (bytes == b)) | ((bytes == c) | (bytes == d)); },
        is_member);
  }

 private:
  std::array<bool, 256> member_{};
  std::array<uint8_t, 4> needles_{};
  size_t count_ = 0;
};

}  // namespace deepinfer
