// Blocks and the prefix index over them (spec: serving.md §3.3).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "cache/block_key.h"
#include "cache/cache.h"
#include "cache/index_list.h"

namespace deepinfer::cache {

/// A block of global KV, wherever its unit is. Published blocks are the nodes of a forest: parent = the block before it.
struct Block {
  uint32_t unit = 0;
  uint32_t refs = 0;   // page tables and pins
  uint32_t depth = 0;  // index in every page table that holds it
  bool published = false;
  Exactness exactness = Exactness::kExact;
  // Published blocks only:
  uint32_t parent = kNoIndex;  // kNoIndex: first block, then parent_key is the root key
  uint32_t children = 0;
  uint32_t snapshot = kNoIndex;  // windows at the block's end
  uint32_t bucket_next = kNoIndex;
  uint32_t bucket_previous = kNoIndex;
  Digest key{};
  Digest parent_key{};
  std::vector<BlockItem> items;
};

/// What makes two blocks the same. `ids` is one block's worth.
struct BlockContent {
  uint32_t parent = kNoIndex;
  Digest parent_key{};
  Digest key{};
  std::span<const int32_t> ids = {};
  std::span<const BlockItem> items = {};
};

/// Records of all blocks and a hash table over the published ones. Two blocks of equal content and different exactness may coexist.
class BlockIndex {
 public:
  BlockIndex(uint32_t capacity, int64_t block_tokens);

  /// A private block. Needs fewer than `capacity` blocks.
  uint32_t New(uint32_t depth);
  /// Of a block that is not published.
  void Delete(uint32_t block);

  Block& operator[](uint32_t block) { return blocks_[block]; }
  const Block& operator[](uint32_t block) const { return blocks_[block]; }
  std::span<int32_t> Ids(uint32_t block) {
    return {ids_.get() + static_cast<size_t>(block) * block_tokens_, block_tokens_};
  }
  std::span<const int32_t> Ids(uint32_t block) const {
    return {ids_.get() + static_cast<size_t>(block) * block_tokens_, block_tokens_};
  }

  /// The published block with this content and exactness, or kNoIndex. The key only leads there: parent, ids and items are compared.
  uint32_t Find(const BlockContent& content, Exactness exactness);
  /// `content.ids` are the block's own already.
  void Publish(uint32_t block, const BlockContent& content, Exactness exactness);
  /// Of a block without children.
  void Unpublish(uint32_t block);

  uint32_t capacity() const { return static_cast<uint32_t>(blocks_.size()); }
  bool InUse(uint32_t block) const { return in_use_[block]; }
  uint32_t used() const { return used_; }
  uint64_t collisions() const { return collisions_; }

  /// Hash table, parents and child counts agree. Errors: kInternal.
  Status Audit() const;

 private:
  uint32_t BucketOf(const Digest& key) const;

  size_t block_tokens_;
  std::vector<Block> blocks_;
  std::unique_ptr<int32_t[]> ids_;  // not touched before use
  std::vector<bool> in_use_;
  std::vector<uint32_t> free_;  // stack
  uint32_t used_ = 0;
  std::vector<uint32_t> buckets_;  // power of two
  uint64_t collisions_ = 0;
};

}  // namespace deepinfer::cache
