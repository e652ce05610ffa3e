#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace deepinfer {

std::string StopMatcher::Push(std::string_view piece) {
  if (matched_) return {};
  size_t end = held_.size();
  held_ += piece;
  while (end < held_.size()) {
    const std::string_view text = std::string_view(held_).substr(0, ++end);
    size_t longest = 0;
    for (const std::string& stop : stops_) {
      if (text.ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest == 0) continue;
    matched_ = true;
    std::string before(text.substr(0, end - longest));
    held_.clear();
    return before;
  }
  const size_t certain = held_.size() - HeldLength();
  std::string out = held_.substr(0, certain);
  held_.erase(0, certain);
  return out;
}

size_t StopMatcher::HeldLength() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > longest; --length) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, length))) longest = length;
    }
  }
  return longest;
}

std::string StopMatcher::Finish() { return std::exchange(held_, {}); }

}  // namespace deepinfer
