// Units: taking, evicting, moving.
#include "cache/cache_impl.h"

namespace deepinfer::cache {

int64_t StateCache::Impl::Available() const {
  return static_cast<int64_t>(pool_.free_units()) + cached_blocks_ +
         live_snapshots_ * geometry_.snapshot_units;
}

// With as many free units as a slot has, anywhere, the extent that has most of them can be emptied into the others.
uint32_t StateCache::Impl::TakeSlot(uint32_t sequence, CopyList* copies) {
  while (pool_.free_units() < geometry_.slot_units) EvictOne();
  const uint32_t free_extent = pool_.TakeFreeExtent(sequence);
  if (free_extent != kNoIndex) return free_extent;
  const uint32_t extent = pool_.BeginDrain();
  for (uint32_t i = 0; i < geometry_.slot_units; ++i) {
    const uint32_t unit = extent * geometry_.slot_units + i;
    if (pool_.owner(unit).kind != UnitOwner::Kind::kFree) MoveUnit(unit, copies);
  }
  pool_.FinishDrain(extent, sequence);
  return extent;
}

void StateCache::Impl::MoveUnit(uint32_t from, CopyList* copies) {
  const UnitOwner owner = pool_.owner(from);
  const uint32_t to = pool_.TakeUnit(owner);
  copies->copies.push_back({.kind = CopyList::Kind::kBlock, .from = from, .to = to});
  ++counters_.moved_units;
  if (owner.kind == UnitOwner::Kind::kSnapshot) {
    for (uint32_t& unit : SnapshotUnits(owner.index)) {
      if (unit == from) unit = to;
    }
    return;
  }
  Block& block = index_[owner.index];
  block.unit = to;
  if (block.refs == 0) return;
  // All tables hold a block at the same index.
  for (SequenceRecord& sequence : sequences_) {
    if (!sequence.live || sequence.blocks.size() <= block.depth ||
        sequence.blocks[block.depth] != owner.index)
      continue;
    sequence.units[block.depth] = to;
    ++sequence.table_version;
  }
}

void StateCache::Impl::EvictOne() {
  const uint32_t oldest = lru_.front();
  if (oldest >= index_.capacity()) {
    EvictSnapshot(oldest - index_.capacity());
  } else {
    EvictBlock(oldest);
  }
}

void StateCache::Impl::EvictBlock(uint32_t block) {
  if (index_[block].snapshot != kNoIndex) EvictSnapshot(index_[block].snapshot);
  lru_.Remove(block);
  --cached_blocks_;
  ++counters_.evicted_blocks;
  index_.Unpublish(block);
  FreeBlock(block);
}

uint32_t StateCache::Impl::NewBlock(uint32_t depth) {
  while (pool_.free_units() == 0) EvictOne();
  const uint32_t block = index_.New(depth);
  index_[block].unit = pool_.TakeUnit({UnitOwner::Kind::kBlock, block});
  return block;
}

void StateCache::Impl::FreeBlock(uint32_t block) {
  pool_.GiveUnit(index_[block].unit);
  index_.Delete(block);
}

void StateCache::Impl::Ref(uint32_t block) {
  if (index_[block].refs++ > 0) return;
  lru_.Remove(block);
  --cached_blocks_;
}

void StateCache::Impl::Unref(uint32_t block) {
  if (--index_[block].refs > 0) return;
  if (index_[block].published) {
    if (const uint32_t snapshot = index_[block].snapshot; snapshot != kNoIndex) TouchSnapshot(snapshot);
    lru_.PushBack(block);
    ++cached_blocks_;
  } else {
    FreeBlock(block);
  }
}

void StateCache::Impl::DropCached() {
  while (!lru_.empty()) EvictOne();
}

}  // namespace deepinfer::cache
