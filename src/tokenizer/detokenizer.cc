#include "tokenizer/detokenizer.h"

#include "tokenizer/unicode.h"

namespace deepinfer {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

/// Appends the characters of `bytes` to `out` and returns the unfinished character at the end.
std::string_view AppendRepaired(std::string_view bytes, std::string* out) {
  while (!bytes.empty()) {
    // Whole valid stretches at once; almost every text is one.
    const size_t bad = unicode::FindInvalidUtf8(bytes);
    *out += bytes.substr(0, bad);
    if (bad == std::string_view::npos) return {};
    bytes.remove_prefix(bad);
    const unicode::Utf8Sequence next = unicode::NextUtf8(bytes);
    if (next.kind == unicode::Utf8Kind::kIncomplete) break;
    unicode::AppendUtf8(kReplacement, out);
    bytes.remove_prefix(next.length);
  }
  return bytes;
}

}  // namespace

void Utf8Repairer::Append(std::string_view bytes, std::string* text) {
  // The held character first: it takes bytes until it is whole or broken.
  while (num_pending_ > 0 && !bytes.empty()) {
    pending_[num_pending_++] = bytes.front();
    const std::string_view tail = AppendRepaired({pending_, num_pending_}, text);
    if (tail.size() == num_pending_) {  // still unfinished
      bytes.remove_prefix(1);
      continue;
    }
    // Whole or broken; the byte itself may begin the next one.
    num_pending_ = 0;
    bytes.remove_prefix(1);
    for (const char c : tail) pending_[num_pending_++] = c;
  }
  for (const char c : AppendRepaired(bytes, text)) pending_[num_pending_++] = c;
}

void Utf8Repairer::Finish(std::string* text) {
  if (num_pending_ > 0) unicode::AppendUtf8(kReplacement, text);
  num_pending_ = 0;
}

std::string Detokenizer::Push(std::span<const int32_t> ids) {
  std::string text;
  for (const int32_t id : ids) repairer_.Append(tokenizer_->TokenBytes(id), &text);
  return text;
}

std::string Detokenizer::Finish() {
  std::string text;
  repairer_.Finish(&text);
  return text;
}

std::string DecodeText(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::string text;
  Utf8Repairer repairer;
  for (const int32_t id : ids) repairer.Append(tokenizer.TokenBytes(id), &text);
  repairer.Finish(&text);
  return text;
}

}  // namespace deepinfer
