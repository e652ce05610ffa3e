// A client's JSON as a read-only tree: strings are views, objects keep their order, every value is checked.
// Made for request bodies, which are long strings with little around them (spec: recipe.md §3.4, §7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace deepinfer::recipe {

/// Limits applied while reading, before anything of that size is allocated.
struct JsonLimits {
  size_t max_bytes = size_t{64} << 20;  // never more than 2^31 - 1
  int max_depth = 127;                  // open arrays and objects; at most 127
  size_t max_values = 2'000'000;        // scalars, arrays, objects and keys together, 16 bytes of memory each
};

namespace internal {

/// One value or key, in the order of the text; the content of a container follows it.
struct JsonNode {
  const char* text;    // a string's characters without escapes, a number's spelling
  uint32_t size;       // bytes of `text`; number of elements or members of a container
  uint32_t type : 4;   // json::Type
  uint32_t span : 28;  // nodes from here to the next value, content included
};

}  // namespace internal

/// A value inside a JsonDocument, of the size of a pointer. Valid as long as the document.
class JsonView {
 public:
  class ElementIterator;
  class MemberIterator;
  template <typename Iterator>
  struct Range {
    Iterator first, last;
    Iterator begin() const { return first; }
    Iterator end() const { return last; }
  };
  using Member = std::pair<std::string_view, JsonView>;

  explicit JsonView(const internal::JsonNode* node) : node_(node) {}

  /// kInt and kUint for integers of 64 bits, kDouble for every other number: larger integers, fractions, and `-0`, which
  /// is -0.0 (spec: recipe.md §3.4).
  json::Type type() const { return static_cast<json::Type>(node_->type); }
  bool is_null() const { return type() == json::Type::kNull; }
  bool is_bool() const { return type() == json::Type::kBool; }
  bool is_string() const { return type() == json::Type::kString; }
  bool is_array() const { return type() == json::Type::kArray; }
  bool is_object() const { return type() == json::Type::kObject; }
  bool is_integer() const { return type() == json::Type::kInt || type() == json::Type::kUint; }
  bool is_number() const { return is_integer() || type() == json::Type::kDouble; }

  /// Accessors: the caller has checked the type.
  bool AsBool() const { return node_->size != 0; }
  /// UTF-8 without escapes.
  std::string_view AsString() const { return {node_->text, node_->size}; }
  /// Any number as the nearest double, which is finite.
  double AsDouble() const;
  /// A number as the client spelled it.
  std::string_view NumberText() const { return {node_->text, node_->size}; }
  /// False when the value is no integer (`1.0` is none) or does not fit.
  bool GetInt64(int64_t* out) const;
  bool GetUint64(uint64_t* out) const;

  /// Number of elements of an array or members of an object, duplicates counted; 0 for a scalar.
  size_t size() const { return is_array() || is_object() ? node_->size : 0; }
  /// Elements in order; none when this is no array.
  inline Range<ElementIterator> elements() const;
  /// Members in the order of the text, duplicates included; none when this is no object.
  inline Range<MemberIterator> members() const;
  /// Members with every key once: the last value at the place of the first (spec: recipe.md §3.6).
  std::vector<Member> UniqueMembers() const;
  /// The last member with this key; nothing when there is none or this is no object. Linear in the number of members.
  std::optional<JsonView> Find(std::string_view key) const;

  /// A copy of the value, with unique members.
  json::Value ToValue() const;

 private:
  const internal::JsonNode* node_;
};

class JsonView::ElementIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = JsonView;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = JsonView;

  explicit ElementIterator(const internal::JsonNode* at) : at_(at) {}
  JsonView operator*() const { return JsonView(at_); }
  ElementIterator& operator++() {
    at_ += at_->span;
    return *this;
  }
  bool operator==(const ElementIterator&) const = default;

 private:
  const internal::JsonNode* at_;
};

class JsonView::MemberIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Member;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = Member;

  explicit MemberIterator(const internal::JsonNode* at) : at_(at) {}
  Member operator*() const { return {std::string_view(at_->text, at_->size), JsonView(at_ + 1)}; }
  MemberIterator& operator++() {
    at_ += 1 + at_[1].span;
    return *this;
  }
  bool operator==(const MemberIterator&) const = default;

 private:
  const internal::JsonNode* at_;
};

inline JsonView::Range<JsonView::ElementIterator> JsonView::elements() const {
  const auto* end = node_ + node_->span;
  return {ElementIterator(is_array() ? node_ + 1 : end), ElementIterator(end)};
}

inline JsonView::Range<JsonView::MemberIterator> JsonView::members() const {
  const auto* end = node_ + node_->span;
  return {MemberIterator(is_object() ? node_ + 1 : end), MemberIterator(end)};
}

/// A parsed text. Immutable, may be moved (views stay valid).
class JsonDocument {
 public:
  /// Reads strict RFC 8259 in UTF-8. Strings without escapes are views of `text`, which must outlive the document; the
  /// others are kept in the document. Duplicate keys are allowed.
  /// Errors: kInvalidArgument with the byte offset for text that is no JSON, is nested deeper than the limit, holds half
  /// of a surrogate pair or a number beyond the range of a double; kResourceExhausted over another limit.
  static Result<JsonDocument> Parse(std::string_view text, const JsonLimits& limits = {});

  JsonView root() const { return JsonView(nodes_.data()); }

 private:
  friend class JsonReader;
  JsonDocument() = default;

  std::vector<internal::JsonNode> nodes_;
  std::unique_ptr<char[]> unescaped_;
};

}  // namespace deepinfer::recipe
