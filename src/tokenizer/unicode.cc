#include "tokenizer/unicode.h"

#include <algorithm>
#include <map>

namespace deepinfer::unicode {
namespace {

constexpr char32_t kNumCodePoints = 0x110000;

// Hangul syllables decompose by arithmetic (Unicode, section 3.12).
constexpr char32_t kHangulFirst = 0xAC00, kHangulCount = 11172;
constexpr char32_t kLeadFirst = 0x1100, kVowelFirst = 0x1161, kTailFirst = 0x11A7;
constexpr char32_t kVowelCount = 21, kTailCount = 28;

bool InCjkSplit(char32_t c) { return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF); }

uint8_t CombiningClass(char32_t c) {
  const auto ranges = CombiningRanges();
  const auto it = std::upper_bound(ranges.begin(), ranges.end(), c,
                                   [](char32_t value, const CombiningRange& r) { return value < r.first; });
  if (it == ranges.begin()) return 0;
  return c <= std::prev(it)->last ? std::prev(it)->value : 0;
}

void AppendDecomposed(char32_t c, std::u32string* out) {
  if (c >= kHangulFirst && c < kHangulFirst + kHangulCount) {
    const char32_t index = c - kHangulFirst;
    out->push_back(kLeadFirst + index / (kVowelCount * kTailCount));
    out->push_back(kVowelFirst + index % (kVowelCount * kTailCount) / kTailCount);
    if (index % kTailCount != 0) out->push_back(kTailFirst + index % kTailCount);
    return;
  }
  const auto table = Decompositions();
  const auto it = std::lower_bound(table.begin(), table.end(), c, [](const Decomposition& d, char32_t value) {
    return d.code_point < value;
  });
  if (it == table.end() || it->code_point != c) {
    out->push_back(c);
    return;
  }
  const auto pool = DecompositionPool().subspan(it->offset, it->length);
  out->append(pool.begin(), pool.end());
}

}  // namespace

std::u32string ToCodePoints(std::string_view utf8) {
  std::u32string out;
  out.reserve(utf8.size());
  while (!utf8.empty()) {
    const Utf8Sequence next = NextUtf8(utf8);
    out.push_back(next.code_point);
    utf8.remove_prefix(next.length);
  }
  return out;
}

const CharTable& CharTable::Get() {
  static const CharTable table;
  return table;
}

CharTable::CharTable() {
  std::basic_string<uint8_t> flat(kNumCodePoints, static_cast<uint8_t>(CharClass::kOther));
  for (const ClassRange& range : ClassRanges()) {
    std::fill(flat.begin() + range.first, flat.begin() + range.last + 1, static_cast<uint8_t>(range.value));
  }
  for (char32_t c = 0x3040; c <= 0x9FA5; ++c) {
    if (InCjkSplit(c)) flat[c] |= kCjkBit;
  }
  std::map<std::basic_string<uint8_t>, char32_t> known;
  for (char32_t block = 0; block < kNumCodePoints >> 8; ++block) {
    auto content = flat.substr(block << 8, 256);
    const auto [it, added] = known.emplace(std::move(content), static_cast<char32_t>(blocks_.size()));
    if (added) blocks_ += it->first;
    block_of_.push_back(it->second);
  }
}

std::u32string CompatibilityDecompose(std::u32string_view text) {
  std::u32string out;
  for (const char32_t c : text) AppendDecomposed(c, &out);
  // Canonical order: runs of non-starters sorted by combining class, stable.
  for (size_t begin = 0; begin < out.size();) {
    if (CombiningClass(out[begin]) == 0) {
      ++begin;
      continue;
    }
    size_t end = begin + 1;
    while (end < out.size() && CombiningClass(out[end]) != 0) ++end;
    std::stable_sort(out.begin() + static_cast<ptrdiff_t>(begin), out.begin() + static_cast<ptrdiff_t>(end),
                     [](char32_t a, char32_t b) { return CombiningClass(a) < CombiningClass(b); });
    begin = end;
  }
  return out;
}

char32_t ToLower(char32_t c) {
  const auto pairs = LowerCasePairs();
  const auto it = std::lower_bound(pairs.begin(), pairs.end(), c,
                                   [](const CasePair& p, char32_t value) { return p.upper < value; });
  return it != pairs.end() && it->upper == c ? it->lower : c;
}

}  // namespace deepinfer::unicode
