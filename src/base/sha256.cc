#include "base/sha256.h"

#include <new>
#include <utility>

#include <openssl/evp.h>

namespace deepinfer {
namespace {

EVP_MD_CTX* Context(void* context) { return static_cast<EVP_MD_CTX*>(context); }

// OpenSSL fails here only when it is out of memory.
void CheckMemory(bool ok) {
  if (!ok) throw std::bad_alloc();
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  CheckMemory(context_ != nullptr && EVP_DigestInit_ex(Context(context_), EVP_sha256(), nullptr) == 1);
}

Sha256::Sha256(Sha256&& other) noexcept : context_(std::exchange(other.context_, nullptr)) {}

Sha256& Sha256::operator=(Sha256&& other) noexcept {
  std::swap(context_, other.context_);
  return *this;
}

Sha256::~Sha256() { EVP_MD_CTX_free(Context(context_)); }

void Sha256::Update(std::span<const std::byte> bytes) {
  CheckMemory(EVP_DigestUpdate(Context(context_), bytes.data(), bytes.size()) == 1);
}

void Sha256::Update(std::string_view text) { Update(std::as_bytes(std::span(text))); }

Sha256Digest Sha256::Finish() {
  Sha256Digest digest;
  CheckMemory(EVP_DigestFinal_ex(Context(context_), digest.data(), nullptr) == 1);
  return digest;
}

// Without a type the context keeps the algorithm that it looked up, which would cost more than a short message.
void Sha256::Reset() { CheckMemory(EVP_DigestInit_ex(Context(context_), nullptr, nullptr) == 1); }

Sha256Digest Sha256Of(std::string_view text) {
  Sha256 hash;
  hash.Update(text);
  return hash.Finish();
}

std::string ToHex(const Sha256Digest& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const uint8_t byte : digest) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

}  // namespace deepinfer
