// Tokenizer files: whatever the bytes, loading ends with a tokenizer or an error; a tokenizer encodes and decodes every text
// back to itself.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = deepinfer::Tokenizer::FromJson(text);
  if (!tokenizer.ok()) {
    Require(!tokenizer.status().message().empty());
    return 0;
  }
  // The file itself is a text with all of its tokens in it.
  for (const bool added_tokens : {false, true}) {
    deepinfer::EncodeOptions options;
    options.added_tokens = added_tokens;
    const auto ids = (*tokenizer)->Encode(text, options);
    Require(ids.ok() && (*tokenizer)->Decode(*ids) == text);
  }
  for (int32_t id = 0; id < (*tokenizer)->vocab_size(); ++id) {
    Require(!(*tokenizer)->TokenBytes(id).empty());
    Require((*tokenizer)->TokenToId((*tokenizer)->TokenString(id)) == id);
  }
  return 0;
}
