// Text pipeline on arbitrary bytes: the detokenizer gives valid UTF-8 that does not depend on where the tokens end, and text
// that is valid survives encoding, whatever parts of it are trusted.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

std::shared_ptr<const deepinfer::Tokenizer> DemoTokenizer() {
  static const auto tokenizer = [] {
    auto loaded = deepinfer::Tokenizer::Load(DEEPINFER_TEST_DATA "/demo-model/tokenizer.json");
    if (!loaded.ok()) std::fprintf(stderr, "%s\n", loaded.status().ToString().c_str());
    Require(loaded.ok());
    return *loaded;
  }();
  return tokenizer;
}

/// Bytes as the ids of the single-byte tokens, in groups of at most `step`.
void CheckDetokenizer(std::string_view bytes, size_t step) {
  const auto tokenizer = DemoTokenizer();
  std::vector<int32_t> ids;
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    ids.push_back(byte <= 32    ? byte + 191
                  : byte <= 126 ? byte - 30
                  : byte <= 160 ? byte + 97
                  : byte <= 172 ? byte - 64
                  : byte == 173 ? 258
                                : byte - 65);
  }
  Require(tokenizer->Decode(ids) == bytes);
  const std::string whole = deepinfer::DecodeText(*tokenizer, ids);
  Require(deepinfer::unicode::FindInvalidUtf8(whole) == std::string_view::npos);
  deepinfer::Detokenizer detokenizer(tokenizer);
  std::string text;
  for (size_t at = 0; at < ids.size(); at += step) {
    text += detokenizer.Push(std::span(ids).subspan(at, std::min(step, ids.size() - at)));
    Require(detokenizer.num_pending_bytes() <= 3);
    Require(deepinfer::unicode::FindInvalidUtf8(text) == std::string_view::npos);
  }
  Require(text + detokenizer.Finish() == whole);
  const size_t bad = deepinfer::unicode::FindInvalidUtf8(bytes);
  Require((bad == std::string_view::npos) == (whole == bytes));
}

void CheckEncoder(std::string_view text, size_t cut, bool first_trusted) {
  const auto tokenizer = DemoTokenizer();
  const bool valid = deepinfer::unicode::FindInvalidUtf8(text) == std::string_view::npos;
  const std::vector<deepinfer::TextRun> runs = {{text.substr(0, cut), first_trusted},
                                                {text.substr(cut), !first_trusted}};
  const auto ids = tokenizer->EncodeRuns(runs);
  Require(ids.ok() == valid);
  if (!valid) return;
  Require(tokenizer->Decode(*ids) == text);
  // No control token reaches into the part of the client.
  const size_t trusted_begin = first_trusted ? 0 : cut, trusted_end = first_trusted ? cut : text.size();
  const auto offsets = tokenizer->TokenOffsets(*ids);
  for (size_t i = 0; i < ids->size(); ++i) {
    if (!tokenizer->IsAdded((*ids)[i])) continue;
    Require(offsets[i].first >= trusted_begin && offsets[i].second <= trusted_end);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  CheckDetokenizer(text, data[0] % 5 + size_t{1});
  CheckEncoder(text, data[1] % (text.size() + 1), (data[0] & 0x80) != 0);
  return 0;
}
