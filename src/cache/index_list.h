// A doubly linked list over the indices 0 .. n - 1 that takes no memory after its creation.
#pragma once

#include <cstdint>
#include <vector>

namespace deepinfer::cache {

inline constexpr uint32_t kNoIndex = 0xFFFF'FFFF;

/// Every index is in the list at most once. All operations O(1).
class IndexList {
 public:
  explicit IndexList(size_t count) : links_(count) {}

  bool empty() const { return front_ == kNoIndex; }
  uint32_t front() const { return front_; }
  uint32_t Next(uint32_t index) const { return links_[index].next; }
  bool Contains(uint32_t index) const { return links_[index].linked; }

  void PushBack(uint32_t index) {
    links_[index] = {.previous = back_, .next = kNoIndex, .linked = true};
    (back_ == kNoIndex ? front_ : links_[back_].next) = index;
    back_ = index;
  }
  void Remove(uint32_t index) {
    const Link link = links_[index];
    (link.previous == kNoIndex ? front_ : links_[link.previous].next) = link.next;
    (link.next == kNoIndex ? back_ : links_[link.next].previous) = link.previous;
    links_[index] = {};
  }

 private:
  struct Link {
    uint32_t previous = kNoIndex;
    uint32_t next = kNoIndex;
    bool linked = false;
  };
  std::vector<Link> links_;
  uint32_t front_ = kNoIndex;
  uint32_t back_ = kNoIndex;
};

}  // namespace deepinfer::cache
