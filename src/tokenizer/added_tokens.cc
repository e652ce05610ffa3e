#include "tokenizer/added_tokens.h"

#include <algorithm>

namespace deepinfer {
namespace {

constexpr int32_t kNoNode = -1;

auto LowerBound(const std::vector<std::pair<uint8_t, int32_t>>& next, uint8_t byte) {
  return std::lower_bound(next.begin(), next.end(), byte,
                          [](const auto& edge, uint8_t b) { return edge.first < b; });
}

}  // namespace

int32_t AddedTokenSet::Step(int32_t node, uint8_t byte) const {
  const auto& next = nodes_[static_cast<size_t>(node)].next;
  const auto it = LowerBound(next, byte);
  return it != next.end() && it->first == byte ? it->second : kNoNode;
}

void AddedTokenSet::Insert(std::string_view content, int32_t id) {
  starts_[static_cast<uint8_t>(content[0])] = true;
  int32_t node = 0;
  for (const char c : content) {
    const auto byte = static_cast<uint8_t>(c);
    int32_t child = Step(node, byte);
    if (child == kNoNode) {
      child = static_cast<int32_t>(nodes_.size());
      auto& next = nodes_[static_cast<size_t>(node)].next;
      next.insert(LowerBound(next, byte), {byte, child});
      nodes_.emplace_back();
    }
    node = child;
  }
  nodes_[static_cast<size_t>(node)].id = id;
}

std::optional<AddedTokenSet::Match> AddedTokenSet::Find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_[static_cast<uint8_t>(text[begin])]) continue;
    std::optional<Match> longest;
    int32_t node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      node = Step(node, static_cast<uint8_t>(text[at]));
      if (node == kNoNode) break;
      const int32_t id = nodes_[static_cast<size_t>(node)].id;
      if (id >= 0) longest = Match{begin, at + 1, id};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

}  // namespace deepinfer
