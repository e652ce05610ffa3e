#include "tokenizer/detokenizer.h"

#include "tokenizer/unicode.h"

namespace deepinfer {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

/// Appends the characters of `bytes` to `out` and returns the unfinished character at the end.
std::string_view AppendRepaired(std::string_view bytes, std::string* out) {
  while (!bytes.empty()) {
    const unicode::Utf8Sequence next = unicode::NextUtf8(bytes);
    if (next.kind == unicode::Utf8Kind::kIncomplete) break;
    if (next.kind == unicode::Utf8Kind::kValid) {
      *out += bytes.substr(0, next.length);
    } else {
      unicode::AppendUtf8(kReplacement, out);
    }
    bytes.remove_prefix(next.length);
  }
  return bytes;
}

}  // namespace

std::string Detokenizer::Push(std::span<const int32_t> ids) {
  const std::string bytes = std::move(pending_) + tokenizer_->Decode(ids);
  std::string text;
  pending_ = AppendRepaired(bytes, &text);
  return text;
}

std::string Detokenizer::Finish() {
  std::string text;
  if (!pending_.empty()) unicode::AppendUtf8(kReplacement, &text);
  pending_.clear();
  return text;
}

std::string DecodeText(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::string text;
  if (!AppendRepaired(tokenizer.Decode(ids), &text).empty()) unicode::AppendUtf8(kReplacement, &text);
  return text;
}

}  // namespace deepinfer
