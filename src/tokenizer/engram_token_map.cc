#include "tokenizer/engram_token_map.h"

#include <algorithm>
#include <unordered_map>

#include "base/file.h"
#include "base/sha256.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/unicode.h"

namespace deepinfer {
namespace {

using unicode::CharClass;

constexpr char32_t kReplacement = 0xFFFD;
constexpr int64_t kMaxVocabSize = int64_t{1} << 24;  // bounds what a configuration makes us read

std::string LittleEndian(std::span<const int32_t> ids) {
  std::string bytes;
  bytes.reserve(ids.size() * 4);
  for (const int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<char>(static_cast<uint32_t>(id) >> shift));
  }
  return bytes;
}

std::vector<int32_t> FromLittleEndian(std::string_view bytes) {
  std::vector<int32_t> ids;
  ids.reserve(bytes.size() / 4);
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    uint32_t value = 0;
    for (size_t k = 0; k < 4; ++k)
      value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i + k])) << (8 * k);
    ids.push_back(static_cast<int32_t>(value));
  }
  return ids;
}

/// Replaces each run of space, tab, CR and LF by one space.
std::u32string CollapseSpaces(std::u32string_view text) {
  std::u32string out;
  bool in_run = false;
  for (const char32_t c : text) {
    const bool is_space = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (!is_space) out.push_back(c);
    if (is_space && !in_run) out.push_back(' ');
    in_run = is_space;
  }
  return out;
}

std::u32string_view StripWhiteSpace(std::u32string_view text) {
  const auto& table = unicode::CharTable::Get();
  const auto is_space = [&](char32_t c) { return table.Class(c) == CharClass::kSpace; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string EngramKey(const Tokenizer& tokenizer, int32_t id) {
  const std::string text = DecodeText(tokenizer, {&id, 1});
  std::string replacement;
  unicode::AppendUtf8(kReplacement, &replacement);
  if (text.find(replacement) != std::string::npos) return tokenizer.TokenString(id);
  const std::string normalized = NormalizeForEngram(text);
  return normalized.empty() ? text : normalized;
}

}  // namespace

std::string NormalizeForEngram(std::string_view utf8) {
  const auto& table = unicode::CharTable::Get();
  std::u32string text = unicode::CompatibilityDecompose(unicode::ToCodePoints(utf8));  // NFKC, then NFD
  std::erase_if(text, [&](char32_t c) { return table.Class(c) == CharClass::kMark; });
  for (char32_t& c : text) c = unicode::ToLower(c);
  text = CollapseSpaces(text);
  // A single space is a token of its own and survives the stripping.
  const std::u32string_view kept = text == U" " ? std::u32string_view(text) : StripWhiteSpace(text);
  std::string out;
  for (const char32_t c : kept) unicode::AppendUtf8(c, &out);
  return out;
}

std::vector<int32_t> ComputeEngramClasses(const Tokenizer& tokenizer) {
  std::unordered_map<std::string, int32_t> class_of;
  std::vector<int32_t> ids;
  ids.reserve(static_cast<size_t>(tokenizer.vocab_size()));
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const auto next = static_cast<int32_t>(class_of.size());
    ids.push_back(class_of.emplace(EngramKey(tokenizer, id), next).first->second);
  }
  return ids;
}

Result<EngramTokenMap> EngramTokenMap::LoadSidecar(const std::string& path, int64_t vocab_size,
                                                   int64_t num_classes) {
  if (vocab_size <= 0 || vocab_size > kMaxVocabSize) {
    return DataLoss("must be from 1 to " + std::to_string(kMaxVocabSize), "vocab_size");
  }
  const auto expected = static_cast<size_t>(vocab_size) * 4;
  // One byte more than expected is enough to see that a file is too long.
  Result<std::string> bytes = ReadFile(path, expected + 1, StatusCode::kDataLoss);
  if (!bytes.ok() && bytes.status().code() != StatusCode::kDataLoss) return std::move(bytes).status();
  if (!bytes.ok() || bytes->size() != expected) {
    return DataLoss("must have 4 bytes for each of the " + std::to_string(vocab_size) + " tokens", path);
  }
  return FromIds(FromLittleEndian(*bytes), num_classes, path);
}

Result<EngramTokenMap> EngramTokenMap::Derive(const Tokenizer& tokenizer, int64_t vocab_size,
                                              int64_t num_classes) {
  if (tokenizer.vocab_size() != vocab_size) {
    return DataLoss("the tokenizer has " + std::to_string(tokenizer.vocab_size()) + " tokens, the model " +
                        std::to_string(vocab_size),
                    "vocab_size");
  }
  return FromIds(ComputeEngramClasses(tokenizer), num_classes, "engram token map");
}

Result<EngramTokenMap> EngramTokenMap::FromIds(std::vector<int32_t> ids, int64_t num_classes,
                                               const std::string& where) {
  int64_t largest = -1;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= static_cast<int64_t>(ids.size())) {
      return DataLoss(
          "token " + std::to_string(i) + " has the impossible compressed id " + std::to_string(ids[i]),
          where);
    }
    largest = std::max<int64_t>(largest, ids[i]);
  }
  if (largest + 1 != num_classes) {
    return DataLoss("has " + std::to_string(largest + 1) +
                        " compressed ids, but engram_compressed_vocab_size is " + std::to_string(num_classes),
                    where);
  }
  std::vector<bool> used(static_cast<size_t>(num_classes));
  for (const int32_t id : ids) used[static_cast<size_t>(id)] = true;
  if (const auto unused = std::find(used.begin(), used.end(), false); unused != used.end()) {
    return DataLoss("no token has the compressed id " + std::to_string(unused - used.begin()), where);
  }
  EngramTokenMap map;
  map.digest_ = ToHex(Sha256Of(LittleEndian(ids)));
  const bool released_sizes = ids.size() == kReleasedVocabSize && num_classes == kReleasedEngramClasses;
  if (released_sizes && map.digest_ != kReleasedEngramMapDigest) {
    return DataLoss("differs from the table of the released model (SHA-256 " + map.digest_ + ")", where);
  }
  map.ids_ = std::move(ids);
  map.num_classes_ = static_cast<int32_t>(num_classes);
  return map;
}

}  // namespace deepinfer
