// Status and Result: how every module reports a failure that input, files, devices or memory can cause.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace deepinfer {

/// Kinds of failure. The command line maps them to exit codes (spec: cli.md §1).
enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument,    // wrong usage: option, request field               -> exit 2
  kNotFound,           // a named file or item does not exist              -> exit 3
  kIo,                 // reading or writing failed                        -> exit 3
  kResourceExhausted,  // memory, disk or a limit                          -> exit 3
  kUnavailable,        // a device or feature this machine lacks           -> exit 3
  kDataLoss,           // a model or another input file is unsound         -> exit 4
  kCancelled,          // interrupted                                      -> exit 130
  kInternal,           // a defect of ours                                 -> exit 3
};

/// Stable snake_case name of a code, e.g. "invalid_argument" (the `code` of JSON errors).
std::string_view StatusCodeName(StatusCode code);

/// Success, or a code with one sentence and the place (field, tensor or file) that it is about.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message, std::string where = {})
      : code_(code), message_(std::move(message)), where_(std::move(where)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  /// What is wrong, a sentence without a final full stop.
  const std::string& message() const { return message_; }
  /// The field, tensor, file or option concerned; may be empty.
  const std::string& where() const { return where_; }
  /// What the user can do; may be empty (printed as `try: …`).
  const std::string& hint() const { return hint_; }
  Status&& WithHint(std::string hint) && {
    hint_ = std::move(hint);
    return std::move(*this);
  }
  /// Prefixes `where` with an outer place: "file: field".
  Status&& Within(std::string_view outer) && {
    where_ = where_.empty() ? std::string(outer) : std::string(outer) + ": " + where_;
    return std::move(*this);
  }
  /// "WHAT (WHERE)".
  std::string ToString() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
  std::string where_;
  std::string hint_;
};

inline Status OkStatus() { return {}; }
inline Status InvalidArgument(std::string m, std::string where = {}) {
  return {StatusCode::kInvalidArgument, std::move(m), std::move(where)};
}
inline Status NotFound(std::string m, std::string where = {}) {
  return {StatusCode::kNotFound, std::move(m), std::move(where)};
}
inline Status IoError(std::string m, std::string where = {}) {
  return {StatusCode::kIo, std::move(m), std::move(where)};
}
inline Status ResourceExhausted(std::string m, std::string where = {}) {
  return {StatusCode::kResourceExhausted, std::move(m), std::move(where)};
}
inline Status Unavailable(std::string m, std::string where = {}) {
  return {StatusCode::kUnavailable, std::move(m), std::move(where)};
}
inline Status DataLoss(std::string m, std::string where = {}) {
  return {StatusCode::kDataLoss, std::move(m), std::move(where)};
}
inline Status Cancelled(std::string m = "interrupted") { return {StatusCode::kCancelled, std::move(m)}; }
inline Status Internal(std::string m, std::string where = {}) {
  return {StatusCode::kInternal, std::move(m), std::move(where)};
}

/// A value, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<1>, std::move(value)) {}         // NOLINT: implicit by design
  Result(Status status) : state_(std::in_place_index<0>, std::move(status)) {}  // NOLINT: implicit by design

  bool ok() const { return state_.index() == 1; }
  /// OkStatus when there is a value.
  Status status() const& { return ok() ? OkStatus() : std::get<0>(state_); }
  Status status() && { return ok() ? OkStatus() : std::get<0>(std::move(state_)); }
  T& value() & { return std::get<1>(state_); }
  const T& value() const& { return std::get<1>(state_); }
  T&& value() && { return std::get<1>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<Status, T> state_;
};

}  // namespace deepinfer

#define DEEPINFER_CONCAT_INNER(a, b) a##b
#define DEEPINFER_CONCAT(a, b) DEEPINFER_CONCAT_INNER(a, b)

/// Returns the Status of `expr` from the enclosing function when it is not ok.
#define DEEPINFER_RETURN_IF_ERROR(expr)                  \
  do {                                                   \
    ::deepinfer::Status deepinfer_status = (expr);       \
    if (!deepinfer_status.ok()) return deepinfer_status; \
  } while (false)

/// `DEEPINFER_ASSIGN_OR_RETURN(auto x, Compute());`
#define DEEPINFER_ASSIGN_OR_RETURN(lhs, expr) \
  DEEPINFER_ASSIGN_OR_RETURN_IMPL(DEEPINFER_CONCAT(deepinfer_result_, __LINE__), lhs, expr)
#define DEEPINFER_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                                    \
  if (!result.ok()) return std::move(result).status();     \
  lhs = std::move(result).value()
