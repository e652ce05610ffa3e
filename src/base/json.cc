#include "base/json.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <new>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace deepinfer::json {
namespace {

// Feeds the lexer and shows how far it has read, so that our own errors carry an offset as well.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }
  bool operator!=(const Cursor& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

// "[json.exception.parse_error.101] parse error at line 1, column 2: WHAT; last read: 'TOKEN'" -> "WHAT". The token is
// left out since it may be as long as the text.
std::string Reason(std::string_view what) {
  const size_t last_read = what.find("; last read");
  const size_t column = what.find("column ");
  const size_t start = column == std::string_view::npos ? column : what.find(": ", column);
  if (start != std::string_view::npos && start < last_read) {
    what = what.substr(start + 2, last_read == std::string_view::npos ? last_read : last_read - start - 2);
  }
  return std::string(what.substr(0, 160));
}

// Builds the tree from the events of the lexer. Every callback returns false to stop; `status()` then says why.
class Builder {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  Builder(std::string_view text, const ParseLimits& limits)
      : limits_(limits), begin_(text.data()), reached_(text.data()) {}

  const char** reached() { return &reached_; }
  const Status& status() const { return status_; }
  Value TakeRoot() { return std::move(root_); }

  bool null() { return Add(Value()); }
  bool boolean(bool v) { return Add(Value(v)); }
  bool number_integer(number_integer_t v) { return Add(Value(int64_t{v})); }
  bool number_unsigned(number_unsigned_t v) { return Add(Value(uint64_t{v})); }
  bool number_float(number_float_t v, const string_t& token) {
    // The lexer turns integers that do not fit into 64 bits into floating point numbers; a rounded id is worse than none.
    if (token.find_first_of(".eE") == string_t::npos) return Fail("integer does not fit into 64 bits");
    return Add(Value(v));
  }
  bool string(string_t& v) { return Add(Value(std::move(v))); }
  bool binary(binary_t&) { return Fail("binary value"); }

  bool start_object(size_t) { return Open(Value(Object())); }
  bool key(string_t& name) {
    open_.back().AsObject().emplace_back(std::move(name), Value());
    return true;
  }
  bool end_object() { return KeysAreUnique(open_.back().AsObject()) && Close(); }
  bool start_array(size_t) { return Open(Value(Array())); }
  bool end_array() { return Close(); }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) {
    status_ = DataLoss(fmt::format("invalid JSON: {}", Reason(error.what())),
                       fmt::format("byte {}", position == 0 ? 0 : position - 1));
    return false;
  }

 private:
  bool Fail(std::string_view reason) {
    status_ = DataLoss(fmt::format("invalid JSON: {}", reason), fmt::format("byte {}", reached_ - begin_));
    return false;
  }

  bool Count() {
    if (++num_values_ <= limits_.max_values) return true;
    return Fail(fmt::format("more than {} values", limits_.max_values));
  }

  bool Add(Value value) {
    if (!Count()) return false;
    Place(std::move(value));
    return true;
  }

  void Place(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_array()) {
      open_.back().AsArray().push_back(std::move(value));
    } else {
      open_.back().AsObject().back().second = std::move(value);
    }
  }

  bool Open(Value container) {
    if (!Count()) return false;
    if (open_.size() >= static_cast<size_t>(std::max(limits_.max_depth, 0))) {
      return Fail(fmt::format("nested deeper than {} levels", limits_.max_depth));
    }
    open_.push_back(std::move(container));
    return true;
  }

  bool Close() {
    Value done = std::move(open_.back());
    open_.pop_back();
    Place(std::move(done));
    return true;
  }

  // Sorting keeps hostile headers of many keys at O(n log n), which no choice of keys can spoil as it could a hash table.
  bool KeysAreUnique(const Object& object) {
    if (object.size() < 2) return true;
    std::vector<std::string_view> keys;
    keys.reserve(object.size());
    for (const auto& member : object) keys.emplace_back(member.first);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice == keys.end()) return true;
    std::string quoted;
    AppendQuoted(twice->substr(0, 80), &quoted);
    return Fail(fmt::format("duplicate key {}", quoted));
  }

  const ParseLimits limits_;
  const char* begin_;
  const char* reached_;
  size_t num_values_ = 0;
  std::vector<Value> open_;  // containers not yet closed, outermost first
  Value root_;
  Status status_;
};

Result<Value> ParseChecked(std::string_view text, const ParseLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return DataLoss(
        fmt::format("JSON text of {} bytes exceeds the limit of {}", text.size(), limits.max_bytes));
  }
  // The lexer skips a byte order mark and takes a NUL byte for the end of the text; RFC 8259 allows neither.
  if (text.starts_with("\xEF\xBB\xBF")) return DataLoss("invalid JSON: byte order mark", "byte 0");
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return DataLoss("invalid JSON: NUL byte", fmt::format("byte {}", nul));
  }
  Builder builder(text, limits);
  const Cursor begin(text.data(), builder.reached());
  const Cursor end(text.data() + text.size(), builder.reached());
  if (nlohmann::json::sax_parse(begin, end, &builder)) return builder.TakeRoot();
  if (!builder.status().ok()) return builder.status();
  return DataLoss("invalid JSON");
}

}  // namespace

Result<Value> Parse(std::string_view text, const ParseLimits& limits) {
  try {
    return ParseChecked(text, limits);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("not enough memory to parse JSON");
  } catch (const std::exception& error) {
    return Internal(fmt::format("JSON parser: {}", error.what()));
  }
}

Value::Value(uint64_t v) {
  if (v <= static_cast<uint64_t>(INT64_MAX)) {
    data_ = static_cast<int64_t>(v);
  } else {
    data_ = v;
  }
}

Type Value::type() const {
  struct Visitor {
    Type operator()(std::monostate) const { return Type::kNull; }
    Type operator()(bool) const { return Type::kBool; }
    Type operator()(int64_t) const { return Type::kInt; }
    Type operator()(uint64_t) const { return Type::kUint; }
    Type operator()(double) const { return Type::kDouble; }
    Type operator()(FloatBits) const { return Type::kDouble; }
    Type operator()(const std::string&) const { return Type::kString; }
    Type operator()(const Array&) const { return Type::kArray; }
    Type operator()(const Object&) const { return Type::kObject; }
  };
  return std::visit(Visitor(), data_);
}

double Value::AsDouble() const {
  if (const auto* v = std::get_if<int64_t>(&data_)) return static_cast<double>(*v);
  if (const auto* v = std::get_if<uint64_t>(&data_)) return static_cast<double>(*v);
  if (const auto* v = std::get_if<FloatBits>(&data_)) return static_cast<double>(v->v);
  return std::get<double>(data_);
}

bool Value::GetInt64(int64_t* out) const {
  const auto* v = std::get_if<int64_t>(&data_);
  if (v == nullptr) return false;
  *out = *v;
  return true;
}

bool Value::GetUint64(uint64_t* out) const {
  if (const auto* big = std::get_if<uint64_t>(&data_)) {
    *out = *big;
    return true;
  }
  const auto* v = std::get_if<int64_t>(&data_);
  if (v == nullptr || *v < 0) return false;
  *out = static_cast<uint64_t>(*v);
  return true;
}

const Value* Value::Find(std::string_view key) const {
  const auto* object = std::get_if<Object>(&data_);
  if (object == nullptr) return nullptr;
  for (const auto& [name, value] : *object) {
    if (name == key) return &value;
  }
  return nullptr;
}

Value& Value::Set(std::string key, Value value) {
  if (is_null()) data_ = Object();
  Object& object = AsObject();
  for (auto& [name, old] : object) {
    if (name == key) return old = std::move(value);
  }
  return object.emplace_back(std::move(key), std::move(value)).second;
}

Value& Value::Append(Value value) {
  if (is_null()) data_ = Array();
  return AsArray().emplace_back(std::move(value));
}

}  // namespace deepinfer::json
