// Checked integer arithmetic for sizes that come from outside.
#pragma once

#include <concepts>
#include <optional>

namespace deepinfer {

/// a + b, or nothing when it overflows.
template <std::integral T>
constexpr std::optional<T> CheckedAdd(T a, T b) {
  T out;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

/// a * b, or nothing when it overflows.
template <std::integral T>
constexpr std::optional<T> CheckedMul(T a, T b) {
  T out;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

/// Smallest multiple of `unit` that is not below `value` (no overflow check; for sizes already bounded).
template <std::integral T>
constexpr T RoundUp(T value, T unit) {
  return (value + unit - 1) / unit * unit;
}

template <std::integral T>
constexpr T CeilDiv(T a, T b) {
  return (a + b - 1) / b;
}

}  // namespace deepinfer
