// SHA-256 (FIPS 180-4) for digests of files and headers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace deepinfer {

using Sha256Digest = std::array<uint8_t, 32>;

/// Incremental hash. Move-only; after Finish only Reset and destruction are allowed.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&& other) noexcept;
  Sha256& operator=(Sha256&& other) noexcept;
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  ~Sha256();

  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text);
  Sha256Digest Finish();
  /// Begins another message with the same object.
  void Reset();

 private:
  void* context_;  // EVP_MD_CTX; OpenSSL's headers stay inside sha256.cc
};

Sha256Digest Sha256Of(std::string_view text);

/// 64 lower-case hexadecimal digits.
std::string ToHex(const Sha256Digest& digest);

}  // namespace deepinfer
