// Window snapshots (spec: serving.md §3.4.3).
#include <algorithm>

#include <fmt/format.h>

#include "cache/cache_impl.h"

namespace deepinfer::cache {
namespace {

SnapshotId IdOf(const SnapshotRecord& snapshot, uint32_t index) {
  return static_cast<SnapshotId>((uint64_t{snapshot.generation} << 32) | (index + 1));
}

}  // namespace

std::span<uint32_t> StateCache::Impl::SnapshotUnits(uint32_t snapshot) {
  return std::span(snapshot_units_)
      .subspan(size_t{snapshot} * geometry_.snapshot_units, geometry_.snapshot_units);
}

std::span<const uint32_t> StateCache::Impl::SnapshotUnits(uint32_t snapshot) const {
  return std::span(snapshot_units_)
      .subspan(size_t{snapshot} * geometry_.snapshot_units, geometry_.snapshot_units);
}

StateCache::SnapshotPoints StateCache::Impl::PointsOf(const Prompt& prompt) const {
  const auto length = static_cast<int64_t>(prompt.ids.size());
  const auto edge_at_or_below = [&](int64_t position) {
    return std::max<int64_t>(0, position / config_.block_tokens * config_.block_tokens);
  };
  return {.again = edge_at_or_below(length - prompt.decoder_tail), .longer = edge_at_or_below(length - 1)};
}

Result<SnapshotId> StateCache::Impl::SaveSnapshot(SequenceId id, int64_t position, CopyList* copies) {
  const uint32_t index = IndexOf(id);
  if (index == kNoIndex) return InvalidArgument("no such sequence", "sequence");
  SequenceRecord& sequence = sequences_[index];
  const bool rows_are_right =
      sequence.windows_from == 0 || position - config_.window >= sequence.windows_from;
  if (position <= 0 || position % config_.block_tokens != 0 || position > sequence.length ||
      sequence.furthest - position > config_.max_rollback || !rows_are_right) {
    return InvalidArgument(
        fmt::format("the rings do not hold the windows at {}: {} rows are committed, {} were written, "
                    "windows are usable from row {}",
                    position, sequence.length, sequence.furthest, sequence.windows_from),
        "position");
  }
  const auto depth = static_cast<size_t>(position / config_.block_tokens - 1);
  const bool published = depth < sequence.sealed();
  const bool attached = published ? sequence.nodes[depth] != kNoIndex
                                  : sequence.nodes.empty() || sequence.nodes.back() != kNoIndex;
  if (snapshots_.empty() || sequence.policy == CachePolicy::kOff || !attached ||
      sequence.pending_snapshot != kNoIndex || Available() < geometry_.snapshot_units) {
    return SnapshotId::kNone;
  }
  const Exactness exactness = ClassAt(sequence, position);
  if (published) {
    const uint32_t existing = index_[sequence.nodes[depth]].snapshot;
    if (existing != kNoIndex && snapshots_[existing].exactness <= exactness) return SnapshotId::kNone;
    if (existing != kNoIndex) EvictSnapshot(existing);
  }
  if (free_snapshots_.empty()) EvictSnapshot(snapshots_by_age_.front());
  while (pool_.free_units() < geometry_.snapshot_units) EvictOne();

  const uint32_t snapshot = free_snapshots_.back();
  free_snapshots_.pop_back();
  SnapshotRecord& record = snapshots_[snapshot];
  record = {.live = true,
            .generation = record.generation + 1,
            .block = published ? sequence.nodes[depth] : kNoIndex,
            .sequence = published ? kNoIndex : index,
            .position = position,
            .exactness = exactness,
            .expiry = now_ + config_.snapshot_ttl};
  for (uint32_t& unit : SnapshotUnits(snapshot))
    unit = pool_.TakeUnit({UnitOwner::Kind::kSnapshot, snapshot});
  (published ? index_[sequence.nodes[depth]].snapshot : sequence.pending_snapshot) = snapshot;
  ++live_snapshots_;
  lru_.PushBack(LruOfSnapshot(snapshot));
  snapshots_by_age_.PushBack(snapshot);
  AppendSnapshotCopy(CopyList::Kind::kSave, sequence.slot, snapshot, copies);
  return IdOf(record, snapshot);
}

// The unit numbers go into the list, since the snapshot may move or be evicted before the copy runs.
void StateCache::Impl::AppendSnapshotCopy(CopyList::Kind kind, uint32_t slot, uint32_t snapshot,
                                          CopyList* copies) const {
  const std::span<const uint32_t> units = SnapshotUnits(snapshot);
  const bool save = kind == CopyList::Kind::kSave;
  copies->copies.push_back({.kind = kind,
                            .from = save ? slot : 0,
                            .to = save ? 0 : slot,
                            .position = snapshots_[snapshot].position,
                            .first_unit = static_cast<uint32_t>(copies->units.size()),
                            .unit_count = static_cast<uint32_t>(units.size())});
  copies->units.insert(copies->units.end(), units.begin(), units.end());
}

// The block that the snapshot waited for is published, or an equal one was already.
void StateCache::Impl::AttachPending(SequenceRecord& sequence, int64_t position, uint32_t node) {
  const uint32_t snapshot = sequence.pending_snapshot;
  if (snapshot == kNoIndex || snapshots_[snapshot].position != position) return;
  const uint32_t existing = index_[node].snapshot;
  if (existing != kNoIndex && snapshots_[existing].exactness <= snapshots_[snapshot].exactness) {
    RemoveSnapshot(snapshot);
    return;
  }
  if (existing != kNoIndex) EvictSnapshot(existing);
  sequence.pending_snapshot = kNoIndex;
  snapshots_[snapshot].sequence = kNoIndex;
  snapshots_[snapshot].block = node;
  index_[node].snapshot = snapshot;
}

void StateCache::Impl::RemoveSnapshot(uint32_t snapshot) {
  SnapshotRecord& record = snapshots_[snapshot];
  if (record.block != kNoIndex) index_[record.block].snapshot = kNoIndex;
  if (record.sequence != kNoIndex) sequences_[record.sequence].pending_snapshot = kNoIndex;
  for (const uint32_t unit : SnapshotUnits(snapshot)) pool_.GiveUnit(unit);
  lru_.Remove(LruOfSnapshot(snapshot));
  snapshots_by_age_.Remove(snapshot);
  record.live = false;
  free_snapshots_.push_back(snapshot);
  --live_snapshots_;
}

void StateCache::Impl::EvictSnapshot(uint32_t snapshot) {
  RemoveSnapshot(snapshot);
  ++counters_.evicted_snapshots;
}

void StateCache::Impl::TouchSnapshot(uint32_t snapshot) {
  lru_.Remove(LruOfSnapshot(snapshot));
  lru_.PushBack(LruOfSnapshot(snapshot));
}

void StateCache::Impl::DropSnapshot(SnapshotId id) {
  const auto value = static_cast<uint64_t>(id);
  const uint64_t index = (value & 0xFFFF'FFFF) - 1;
  if (value == 0 || index >= snapshots_.size()) return;
  const SnapshotRecord& record = snapshots_[index];
  if (record.live && record.generation == value >> 32) RemoveSnapshot(static_cast<uint32_t>(index));
}

void StateCache::Impl::AdvanceTime(int64_t now) {
  now_ = std::max(now_, now);
  if (config_.snapshot_ttl == 0) return;
  while (!snapshots_by_age_.empty() && snapshots_[snapshots_by_age_.front()].expiry <= now_) {
    EvictSnapshot(snapshots_by_age_.front());
  }
}

}  // namespace deepinfer::cache
