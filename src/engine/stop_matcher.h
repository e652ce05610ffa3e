// Finds stop strings in text that arrives in pieces. Internal to the module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace deepinfer {

/// The text ends before the stop string that is complete first, whatever the pieces (of several complete at the same byte the
/// longest counts). Text that may be the begin of a stop string is held back.
class StopMatcher {
 public:
  /// No string may be empty.
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// Takes the next piece; returns what is certain to be before any stop string. Nothing more comes after a match.
  std::string Push(std::string_view piece);
  /// No more text: returns what is held back.
  std::string Finish();
  bool matched() const { return matched_; }

 private:
  size_t HeldLength() const;

  std::vector<std::string> stops_;
  std::string held_;
  bool matched_ = false;
};

}  // namespace deepinfer
