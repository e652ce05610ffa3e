// Finding added tokens in text (spec: checkpoint.md §8.4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace deepinfer {

/// A set of token strings, searched leftmost-longest. Immutable once filled, so safe from several threads.
class AddedTokenSet {
 public:
  struct Match {
    size_t begin, end;  // bytes of the text
    int32_t id;
  };

  AddedTokenSet() : nodes_(1) {}
  /// `content` must not be empty.
  void Insert(std::string_view content, int32_t id);
  bool empty() const { return nodes_.size() == 1; }
  /// The leftmost match at or after `from`, of those the longest. Time: text length times the longest token string.
  std::optional<Match> Find(std::string_view text, size_t from) const;

 private:
  struct Node {
    int32_t id = -1;                                // of the token that ends here
    std::vector<std::pair<uint8_t, int32_t>> next;  // byte -> node, sorted
  };
  int32_t Step(int32_t node, uint8_t byte) const;

  std::vector<Node> nodes_;
  std::array<bool, 256> starts_{};  // first bytes of all tokens
};

}  // namespace deepinfer
