// The C++ side of compare_hf.py: answers length-prefixed requests on standard input with the engine's own results.
//
// usage: tokenizer_encode_tool classes              prints the class byte of every code point
//        tokenizer_encode_tool run TOKENIZER.json   answers requests until the end of the input
//
// request: one byte for the kind, a little-endian uint32 length, that many bytes. The kinds:
//   0  text, ordinary characters only   -> ids
//   1  text with added tokens           -> ids
//   2  ids as little-endian int32       -> text
// answer: a little-endian uint32 length and that many bytes; length 0xFFFFFFFF for a refused text.
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

namespace deepinfer {
namespace {

constexpr uint32_t kRefused = 0xFFFFFFFF;

void WriteAnswer(const void* data, size_t size) {
  const auto length = static_cast<uint32_t>(size);
  std::fwrite(&length, sizeof(length), 1, stdout);
  std::fwrite(data, 1, size, stdout);
}

void AnswerEncode(const Tokenizer& tokenizer, const std::string& text, bool added_tokens) {
  EncodeOptions options;
  options.added_tokens = added_tokens;
  const Result<std::vector<int32_t>> ids = tokenizer.Encode(text, options);
  // Every encoding must give the text back; a violation is reported like a refusal, which the script takes as an error.
  if (!ids.ok() || tokenizer.Decode(*ids) != text) {
    std::fwrite(&kRefused, sizeof(kRefused), 1, stdout);
    return;
  }
  WriteAnswer(ids->data(), ids->size() * sizeof(int32_t));
}

void AnswerDecode(const std::shared_ptr<const Tokenizer>& tokenizer, const std::string& body) {
  std::vector<int32_t> ids(body.size() / sizeof(int32_t));
  std::memcpy(ids.data(), body.data(), ids.size() * sizeof(int32_t));
  Detokenizer detokenizer(tokenizer);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.Push(id);
  text += detokenizer.Finish();
  WriteAnswer(text.data(), text.size());
}

int Run(const char* path) {
  const auto tokenizer = Tokenizer::Load(path);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.status().ToString().c_str());
    return 1;
  }
  for (int kind = std::getchar(); kind != EOF; kind = std::getchar()) {
    uint32_t length = 0;
    if (std::fread(&length, sizeof(length), 1, stdin) != 1) return 1;
    std::string body(length, '\0');
    if (std::fread(body.data(), 1, length, stdin) != length) return 1;
    if (kind == 2) {
      AnswerDecode(*tokenizer, body);
    } else {
      AnswerEncode(**tokenizer, body, kind == 1);
    }
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}

int PrintClasses() {
  const auto& table = unicode::CharTable::Get();
  for (char32_t c = 0; c < 0x110000; ++c) std::putchar(static_cast<int>(table.Class(c)));
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace deepinfer

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "classes") == 0) return deepinfer::PrintClasses();
  if (argc == 3 && std::strcmp(argv[1], "run") == 0) return deepinfer::Run(argv[2]);
  std::fprintf(stderr, "usage: %s classes | run TOKENIZER.json\n", argv[0]);
  return 2;
}
