#include "cache/block_index.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace deepinfer::cache {

BlockIndex::BlockIndex(uint32_t capacity, int64_t block_tokens)
    : block_tokens_(static_cast<size_t>(block_tokens)),
      blocks_(capacity),
      ids_(std::make_unique_for_overwrite<int32_t[]>(static_cast<size_t>(capacity) * block_tokens_)),
      in_use_(capacity),
      buckets_(std::bit_ceil(static_cast<size_t>(capacity) + 1), kNoIndex) {
  free_.reserve(capacity);
  for (uint32_t block = capacity; block-- > 0;) free_.push_back(block);
}

uint32_t BlockIndex::New(uint32_t depth) {
  const uint32_t id = free_.back();
  free_.pop_back();
  in_use_[id] = true;
  ++used_;
  Block& block = blocks_[id];
  block.refs = 1;
  block.depth = depth;
  block.published = false;
  block.parent = kNoIndex;
  block.children = 0;
  block.snapshot = kNoIndex;
  block.items.clear();
  return id;
}

void BlockIndex::Delete(uint32_t block) {
  in_use_[block] = false;
  --used_;
  free_.push_back(block);
}

uint32_t BlockIndex::BucketOf(const Digest& key) const {
  uint32_t head = 0;
  std::memcpy(&head, key.data(), sizeof head);
  return head & static_cast<uint32_t>(buckets_.size() - 1);
}

uint32_t BlockIndex::Find(const BlockContent& content, Exactness exactness) {
  for (uint32_t id = buckets_[BucketOf(content.key)]; id != kNoIndex; id = blocks_[id].bucket_next) {
    const Block& block = blocks_[id];
    if (block.key != content.key || block.exactness != exactness) continue;
    const bool same_parent = block.parent == content.parent &&
                             (block.parent != kNoIndex || block.parent_key == content.parent_key);
    const bool same_rows =
        std::ranges::equal(Ids(id), content.ids) && std::ranges::equal(block.items, content.items);
    if (same_parent && same_rows) return id;
    // Equal rows behind an exact and behind an approximate parent have the same key without being a collision.
    if (!same_rows) ++collisions_;
  }
  return kNoIndex;
}

void BlockIndex::Publish(uint32_t id, const BlockContent& content, Exactness exactness) {
  Block& block = blocks_[id];
  block.published = true;
  block.exactness = exactness;
  block.parent = content.parent;
  block.parent_key = content.parent_key;
  block.key = content.key;
  block.items.assign(content.items.begin(), content.items.end());
  if (content.parent != kNoIndex) ++blocks_[content.parent].children;
  uint32_t& front = buckets_[BucketOf(content.key)];
  block.bucket_next = front;
  block.bucket_previous = kNoIndex;
  if (front != kNoIndex) blocks_[front].bucket_previous = id;
  front = id;
}

void BlockIndex::Unpublish(uint32_t id) {
  Block& block = blocks_[id];
  block.published = false;
  if (block.parent != kNoIndex) --blocks_[block.parent].children;
  (block.bucket_previous == kNoIndex ? buckets_[BucketOf(block.key)]
                                     : blocks_[block.bucket_previous].bucket_next) = block.bucket_next;
  if (block.bucket_next != kNoIndex) blocks_[block.bucket_next].bucket_previous = block.bucket_previous;
}

Status BlockIndex::Audit() const {
  std::vector<uint32_t> children(blocks_.size());
  std::vector<bool> reached(blocks_.size());
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (uint32_t id = buckets_[bucket]; id != kNoIndex; id = blocks_[id].bucket_next) {
      if (reached[id] || !in_use_[id] || !blocks_[id].published || BucketOf(blocks_[id].key) != bucket) {
        return Internal(fmt::format("block {} is in the index by mistake", id));
      }
      reached[id] = true;
    }
  }
  uint32_t used = 0;
  for (uint32_t id = 0; id < capacity(); ++id) {
    if (!in_use_[id]) continue;
    ++used;
    const Block& block = blocks_[id];
    if (block.published != reached[id]) {
      return Internal(fmt::format("block {} is published but the index does not reach it", id));
    }
    if (!block.published || block.parent == kNoIndex) continue;
    const Block& parent = blocks_[block.parent];
    if (!in_use_[block.parent] || !parent.published || parent.key != block.parent_key ||
        parent.depth + 1 != block.depth) {
      return Internal(fmt::format("block {} has lost its parent {}", id, block.parent));
    }
    if (block.refs > 0 && parent.refs == 0) {
      return Internal(fmt::format("block {} is held but its parent {} is not", id, block.parent));
    }
    ++children[block.parent];
  }
  for (uint32_t id = 0; id < capacity(); ++id) {
    if (in_use_[id] && children[id] != blocks_[id].children) {
      return Internal(
          fmt::format("block {} has {} children, {} counted", id, children[id], blocks_[id].children));
    }
  }
  if (used != used_ || used + free_.size() != blocks_.size()) {
    return Internal(fmt::format("{} blocks are in use, {} counted, {} free", used, used_, free_.size()));
  }
  return OkStatus();
}

}  // namespace deepinfer::cache
