#include "recipe/json_document.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <string>

#include <fmt/format.h>
#include <simdjson.h>

#include "base/byte_scan.h"
#include "tokenizer/unicode.h"

namespace deepinfer::recipe {
namespace {

using internal::JsonNode;
using json::Type;

constexpr int kMaxDepth = 127;
constexpr size_t kMaxBytes = INT32_MAX;
constexpr size_t kMaxNodes = (size_t{1} << 28) - 1;  // width of JsonNode::span

/// The first character in [at, end) that ends a plain stretch of a string (a quote, a backslash or a control character), or `end`.
const char* FindStop(const char* at, const char* end) {
  return at +
         FindByte(
             std::string_view(at, static_cast<size_t>(end - at)), 0,
             [](ByteVector b) { return ((b < uint8_t{0x20}) | (b == uint8_t{'"'})) | (b == uint8_t{'\\'}); },
             [](uint8_t b) { return b < 0x20 || b == '"' || b == '\\'; });
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// Whether a number of valid spelling that is no ordinary double is too large rather than too small: the place of its
/// first digit that counts is in front of the decimal point.
bool IsHuge(std::string_view spelling) {
  int64_t place = 0;  // decimal places of the first non-zero digit, in front of the point positive
  bool seen = false, behind_point = false;
  size_t at = spelling[0] == '-' ? 1 : 0;
  for (; at < spelling.size() && (IsDigit(spelling[at]) || spelling[at] == '.'); ++at) {
    if (spelling[at] == '.') {
      behind_point = true;
      continue;
    }
    seen = seen || spelling[at] != '0';
    if (seen && !behind_point) ++place;
    if (!seen && behind_point) --place;
  }
  if (at == spelling.size()) return place > 0;
  ++at;  // the letter of the exponent
  const bool negative = spelling[at] == '-';
  if (negative || spelling[at] == '+') ++at;
  constexpr int64_t kSaturated = std::numeric_limits<int64_t>::max() / 20;
  int64_t exponent = 0;
  for (; at < spelling.size(); ++at) exponent = std::min(exponent * 10 + (spelling[at] - '0'), kSaturated);
  return place + (negative ? -exponent : exponent) > 0;
}

/// The nearest double; nothing when it is beyond the range. Numbers too small are zero.
std::optional<double> ParseDouble(std::string_view spelling) {
  double value = 0;
  const auto result = std::from_chars(spelling.data(), spelling.data() + spelling.size(), value);
  if (result.ec == std::errc() && std::isfinite(value)) return value;
  if (IsHuge(spelling)) return std::nullopt;
  return spelling[0] == '-' ? -0.0 : 0.0;
}

template <typename Integer>
bool ParseInteger(std::string_view digits, Integer* out) {
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), *out);
  return result.ec == std::errc() && result.ptr == digits.data() + digits.size();
}

Type TypeOfInteger(std::string_view spelling) {
  if (spelling == "-0") return Type::kDouble;
  int64_t number;
  if (spelling.size() < 19 || ParseInteger(spelling, &number)) return Type::kInt;
  uint64_t large;
  return spelling[0] != '-' && ParseInteger(spelling, &large) ? Type::kUint : Type::kDouble;
}

}  // namespace

/// One parse: a scan over the text without recursion that appends nodes to the document.
class JsonReader {
 public:
  JsonReader(std::string_view text, const JsonLimits& limits)
      : begin_(text.data()),
        at_(text.data()),
        end_(text.data() + text.size()),
        max_depth_(std::clamp(limits.max_depth, 0, kMaxDepth)),
        max_nodes_(std::min(limits.max_values, kMaxNodes)) {}

  Result<JsonDocument> Run() {
    if (!ReadAll()) return std::move(error_);
    return std::move(document_);
  }

 private:
  bool Fail(std::string_view reason) {
    error_ = InvalidArgument(fmt::format("invalid JSON: {}", reason), fmt::format("byte {}", at_ - begin_));
    return false;
  }

  void SkipBlanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }

  /// Whether the next character that is no blank is `c`; it is consumed then.
  bool Take(char c) {
    SkipBlanks();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  bool ReadAll() {
    do {
      if (!ReadValue()) return false;
      // A container that just opened waits for its first value; after anything else, close what ends here.
      if (opened_) continue;
      if (!CloseOrContinue()) return false;
    } while (depth_ > 0);
    SkipBlanks();
    return at_ == end_ || Fail("text after the value");
  }

  /// Consumes closing brackets, and the comma (with the next key) when another value follows.
  bool CloseOrContinue() {
    while (depth_ > 0) {
      const Open& open = open_[depth_ - 1];
      JsonNode& node = document_.nodes_[open.node];
      ++node.size;
      if (Take(',')) return open.is_object ? ReadKey() : true;
      if (!Take(open.is_object ? '}' : ']')) {
        return Fail(open.is_object ? "',' or '}' expected" : "',' or ']' expected");
      }
      Close();
    }
    return true;
  }

  void Close() {
    JsonNode& node = document_.nodes_[open_[--depth_].node];
    node.span = static_cast<uint32_t>(document_.nodes_.size() - open_[depth_].node) & kMaxNodes;
  }

  bool ReadKey() {
    SkipBlanks();
    if (at_ == end_ || *at_ != '"') return Fail("a key in quotes expected");
    if (!ReadString()) return false;
    return Take(':') || Fail("':' expected");
  }

  bool ReadValue() {
    opened_ = false;
    SkipBlanks();
    if (at_ == end_) return Fail("the text ends where a value is expected");
    switch (*at_) {
      case '"': return ReadString();
      case '{': return OpenContainer(true);
      case '[': return OpenContainer(false);
      case 't': return ReadWord("true", Type::kBool);
      case 'f': return ReadWord("false", Type::kBool);
      case 'n': return ReadWord("null", Type::kNull);
      default: return ReadNumber();
    }
  }

  bool Add(Type type, const char* text, size_t size) {
    auto& nodes = document_.nodes_;
    if (nodes.size() >= max_nodes_) {
      error_ = ResourceExhausted(fmt::format("JSON of more than {} values", max_nodes_));
      return false;
    }
    nodes.push_back({text, static_cast<uint32_t>(size), static_cast<uint32_t>(type) & 15U, 1});
    return true;
  }

  bool OpenContainer(bool is_object) {
    if (depth_ >= max_depth_) return Fail(fmt::format("nested deeper than {} levels", max_depth_));
    const size_t node = document_.nodes_.size();
    if (!Add(is_object ? Type::kObject : Type::kArray, nullptr, 0)) return false;
    ++at_;
    if (Take(is_object ? '}' : ']')) return true;
    open_[depth_++] = {node, is_object};
    opened_ = true;
    return is_object ? ReadKey() : true;
  }

  bool ReadWord(std::string_view word, Type type) {
    if (std::string_view(at_, static_cast<size_t>(end_ - at_)).substr(0, word.size()) != word) {
      return Fail("not a value");
    }
    at_ += word.size();
    return Add(type, nullptr, word == "true" ? 1 : 0);
  }

  bool ReadNumber() {
    const char* const first = at_;
    const auto skip_digits = [this] {
      const char* const from = at_;
      while (at_ != end_ && IsDigit(*at_)) ++at_;
      return at_ != from;
    };
    if (at_ != end_ && *at_ == '-') ++at_;
    if (at_ == end_ || !IsDigit(*at_)) return Fail("not a value");
    if (*at_ == '0') {
      ++at_;
    } else {
      skip_digits();
    }
    bool is_integer = true;
    if (at_ != end_ && *at_ == '.') {
      is_integer = false;
      ++at_;
      if (!skip_digits()) return Fail("a digit expected");
    }
    if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
      is_integer = false;
      ++at_;
      if (at_ != end_ && (*at_ == '+' || *at_ == '-')) ++at_;
      if (!skip_digits()) return Fail("a digit expected");
    }
    const std::string_view spelling(first, static_cast<size_t>(at_ - first));
    const Type type = is_integer ? TypeOfInteger(spelling) : Type::kDouble;
    if (type == Type::kDouble && !ParseDouble(spelling)) {
      at_ = first;
      return Fail("number out of range");
    }
    return Add(type, first, spelling.size());
  }

  /// At the opening quote.
  bool ReadString() {
    const char* const first = ++at_;
    at_ = FindStop(at_, end_);
    if (at_ != end_ && *at_ == '"') {
      return Add(Type::kString, first, static_cast<size_t>(at_++ - first));
    }
    return ReadEscapedString(first);
  }

  /// Goes on at the end of the plain stretch, which is no quote, of the string that begins at `first`.
  bool ReadEscapedString(const char* first) {
    // What follows cannot need more than the rest of the text: no escape is shorter than its character.
    if (document_.unescaped_ == nullptr) {
      document_.unescaped_ = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(end_ - first));
      out_ = document_.unescaped_.get();
    }
    const char* const begin = out_;
    Copy(first);
    while (true) {
      if (at_ == end_) return Fail("the text ends inside a string");
      if (*at_ == '"') break;
      if (*at_ != '\\') return Fail("control character in a string");
      if (!ReadEscape()) return false;
      if (at_ != end_ && *at_ == '\\') continue;
      const char* const plain = at_;
      at_ = FindStop(at_, end_);
      Copy(plain);
    }
    ++at_;
    return Add(Type::kString, begin, static_cast<size_t>(out_ - begin));
  }

  void Copy(const char* from) {
    const auto size = static_cast<size_t>(at_ - from);
    std::memcpy(out_, from, size);
    out_ += size;
  }

  bool ReadEscape() {
    if (end_ - at_ < 2) return Fail("the text ends inside a string");
    switch (at_[1]) {
      case '"': *out_++ = '"'; break;
      case '\\': *out_++ = '\\'; break;
      case '/': *out_++ = '/'; break;
      case 'b': *out_++ = '\b'; break;
      case 'f': *out_++ = '\f'; break;
      case 'n': *out_++ = '\n'; break;
      case 'r': *out_++ = '\r'; break;
      case 't': *out_++ = '\t'; break;
      case 'u': return ReadUnicodeEscape();
      default: return Fail("unknown escape");
    }
    at_ += 2;
    return true;
  }

  /// The number of a `\uXXXX` at `at`, or -1.
  int HexEscape(const char* at) const {
    if (end_ - at < 6 || at[0] != '\\' || at[1] != 'u') return -1;
    int code = 0;
    for (int i = 2; i < 6; ++i) {
      const int digit = HexDigit(at[i]);
      if (digit < 0) return -1;
      code = code << 4 | digit;
    }
    return code;
  }

  bool ReadUnicodeEscape() {
    const int first = HexEscape(at_);
    if (first < 0) return Fail("four hexadecimal digits expected");
    auto code = static_cast<uint32_t>(first);
    size_t length = 6;
    if (code >= 0xD800 && code < 0xE000) {
      const int second = code < 0xDC00 ? HexEscape(at_ + 6) : -1;
      if (second < 0xDC00 || second >= 0xE000) return Fail("half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (static_cast<uint32_t>(second) - 0xDC00);
      length = 12;
    }
    at_ += length;
    AppendCodePoint(code);
    return true;
  }

  void AppendCodePoint(uint32_t code) {
    const auto put = [this](uint32_t byte) { *out_++ = static_cast<char>(byte); };
    const auto tail = [](uint32_t bits) { return 0x80 | (bits & 0x3F); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
      put(0xC0 | code >> 6);
    } else {
      if (code < 0x10000) {
        put(0xE0 | code >> 12);
      } else {
        put(0xF0 | code >> 18);
        put(tail(code >> 12));
      }
      put(tail(code >> 6));
    }
    put(tail(code));
  }

  struct Open {
    size_t node;
    bool is_object;
  };

  const char* const begin_;
  const char* at_;
  const char* const end_;
  const int max_depth_;
  const size_t max_nodes_;
  std::array<Open, kMaxDepth> open_;  // the containers not yet closed, outermost first
  int depth_ = 0;
  bool opened_ = false;  // the last value is a container whose first value comes next
  char* out_ = nullptr;  // free part of the document's `unescaped_`
  JsonDocument document_;
  Status error_;
};

Result<JsonDocument> JsonDocument::Parse(std::string_view text, const JsonLimits& limits) {
  if (const size_t max = std::min(limits.max_bytes, kMaxBytes); text.size() > max) {
    return ResourceExhausted(fmt::format("JSON text of {} bytes exceeds the limit of {}", text.size(), max));
  }
  if (!simdjson::validate_utf8(text.data(), text.size())) {
    return InvalidArgument("invalid JSON: not UTF-8", fmt::format("byte {}", unicode::FindInvalidUtf8(text)));
  }
  try {
    return JsonReader(text, limits).Run();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("not enough memory to parse JSON");
  }
}

double JsonView::AsDouble() const { return *ParseDouble(NumberText()); }

bool JsonView::GetInt64(int64_t* out) const {
  return type() == Type::kInt && ParseInteger(NumberText(), out);
}

bool JsonView::GetUint64(uint64_t* out) const {
  return is_integer() && node_->text[0] != '-' && ParseInteger(NumberText(), out);
}

std::optional<JsonView> JsonView::Find(std::string_view key) const {
  std::optional<JsonView> found;
  for (const auto& [name, value] : members()) {
    if (name == key) found = value;
  }
  return found;
}

// Sorting keeps many keys at O(n log n), which no choice of keys can spoil.
std::vector<JsonView::Member> JsonView::UniqueMembers() const {
  std::vector<Member> unique;
  unique.reserve(size());
  for (const auto& member : members()) unique.push_back(member);
  if (unique.size() < 2) return unique;
  std::vector<uint32_t> order(unique.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return unique[a].first < unique[b].first; });
  std::vector<bool> is_first(unique.size(), true);
  for (size_t i = 0, first = 0; i < order.size(); ++i) {
    if (unique[order[i]].first != unique[order[first]].first) first = i;
    if (i == first) continue;
    unique[order[first]].second = unique[order[i]].second;
    is_first[order[i]] = false;
  }
  size_t kept = 0;
  for (size_t i = 0; i < unique.size(); ++i) {
    if (is_first[i]) unique[kept++] = unique[i];
  }
  unique.erase(unique.begin() + static_cast<ptrdiff_t>(kept), unique.end());
  return unique;
}

json::Value JsonView::ToValue() const {
  switch (type()) {
    case Type::kNull: return nullptr;
    case Type::kBool: return AsBool();
    case Type::kInt: {
      int64_t number = 0;
      GetInt64(&number);
      return number;
    }
    case Type::kUint: {
      uint64_t number = 0;
      GetUint64(&number);
      return number;
    }
    case Type::kDouble: return AsDouble();
    case Type::kString: return AsString();
    case Type::kArray: {
      json::Array array;
      array.reserve(size());
      for (const JsonView element : elements()) array.push_back(element.ToValue());
      return array;
    }
    case Type::kObject: break;
  }
  json::Object object;
  const auto unique = UniqueMembers();
  object.reserve(unique.size());
  for (const auto& [key, value] : unique) object.emplace_back(key, value.ToValue());
  return object;
}

}  // namespace deepinfer::recipe
