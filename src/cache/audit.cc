// Proof that nothing leaks: everything is counted again from the tables and compared with what is kept up to date.
#include <vector>

#include <fmt/format.h>

#include "cache/cache_impl.h"

namespace deepinfer::cache {

Usage StateCache::Impl::GetUsage() const {
  Usage usage;
  usage.total = pool_.units();
  usage.padding = config_.padding_extent ? geometry_.slot_units : 0;
  usage.sequences = static_cast<int64_t>(sequences_.size() - free_sequences_.size());
  usage.states = usage.sequences * geometry_.slot_units;
  usage.cached = cached_blocks_;
  usage.blocks = index_.used() - cached_blocks_;
  usage.snapshot_count = live_snapshots_;
  usage.snapshots = live_snapshots_ * geometry_.snapshot_units;
  usage.free = pool_.free_units();
  usage.pins = static_cast<int64_t>(pins_.size());
  return usage;
}

Status StateCache::Impl::Audit() const {
  DEEPINFER_RETURN_IF_ERROR(pool_.Audit());
  DEEPINFER_RETURN_IF_ERROR(index_.Audit());
  DEEPINFER_RETURN_IF_ERROR(AuditSequences());
  DEEPINFER_RETURN_IF_ERROR(AuditReferences());
  DEEPINFER_RETURN_IF_ERROR(AuditUnits());
  DEEPINFER_RETURN_IF_ERROR(AuditSnapshots());
  DEEPINFER_RETURN_IF_ERROR(AuditEvictable());
  DEEPINFER_RETURN_IF_ERROR(AuditLeaders());
  const Usage usage = GetUsage();
  const int64_t sum =
      usage.padding + usage.states + usage.blocks + usage.cached + usage.snapshots + usage.free;
  if (sum != usage.total) return Internal(fmt::format("{} units of {} are accounted for", sum, usage.total));
  return OkStatus();
}

Status StateCache::Impl::AuditIdle() const {
  DEEPINFER_RETURN_IF_ERROR(Audit());
  const Usage usage = GetUsage();
  if (usage.sequences + usage.pins + usage.blocks + usage.states != 0) {
    return Internal(fmt::format("not idle: {} sequences, {} pins, {} blocks held, {} units in slots",
                                usage.sequences, usage.pins, usage.blocks, usage.states));
  }
  return OkStatus();
}

Status StateCache::Impl::AuditSequences() const {
  for (uint32_t i = 0; i < sequences_.size(); ++i) {
    const SequenceRecord& sequence = sequences_[i];
    if (!sequence.live) continue;
    const size_t count = sequence.blocks.size();
    const int64_t sealed_rows = static_cast<int64_t>(sequence.sealed()) * config_.block_tokens;
    const bool lengths_agree = sequence.start <= sequence.length && sequence.length <= sequence.furthest &&
                               BlocksFor(sequence.length) <= static_cast<int64_t>(count) &&
                               sealed_rows <= std::max(sequence.length, sequence.write_floor);
    if (sequence.units.size() != count || sequence.sealed() > count || !lengths_agree) {
      return Internal(fmt::format("sequence {}: table of {} blocks, {} sealed, {} rows committed, {} written",
                                  i, count, sequence.sealed(), sequence.length, sequence.furthest));
    }
    for (size_t depth = 0; depth < count; ++depth) {
      const uint32_t id = sequence.blocks[depth];
      const Block& block = index_[id];
      const bool shared_while_open = depth >= sequence.sealed() && (block.published || block.refs != 1);
      if (!index_.InUse(id) || block.depth != depth || block.unit != sequence.units[depth] ||
          shared_while_open) {
        return Internal(fmt::format("sequence {}: entry {} (block {}) is wrong", i, depth, id));
      }
      if (depth >= sequence.sealed() || sequence.nodes[depth] == kNoIndex) continue;
      const Block& node = index_[sequence.nodes[depth]];
      const uint32_t parent = depth == 0 ? kNoIndex : sequence.nodes[depth - 1];
      if (!node.published || node.parent != parent || node.depth != depth) {
        return Internal(fmt::format("sequence {}: node {} at {} is wrong", i, sequence.nodes[depth], depth));
      }
    }
  }
  return OkStatus();
}

Status StateCache::Impl::AuditReferences() const {
  std::vector<uint32_t> refs(index_.capacity());
  for (const SequenceRecord& sequence : sequences_) {
    if (!sequence.live) continue;
    for (size_t i = 0; i < sequence.blocks.size(); ++i) {
      ++refs[sequence.blocks[i]];
      const uint32_t node = i < sequence.sealed() ? sequence.nodes[i] : kNoIndex;
      if (node != kNoIndex && node != sequence.blocks[i]) ++refs[node];
    }
  }
  for (const auto& [pin, deepest] : pins_) {
    for (uint32_t block = deepest; block != kNoIndex; block = index_[block].parent) ++refs[block];
  }
  for (uint32_t id = 0; id < index_.capacity(); ++id) {
    if (!index_.InUse(id)) {
      if (refs[id] != 0) return Internal(fmt::format("block {} is in a table but not in use", id));
      continue;
    }
    if (refs[id] != index_[id].refs) {
      return Internal(
          fmt::format("block {}: {} references counted, {} in the tables", id, index_[id].refs, refs[id]));
    }
    if (refs[id] == 0 && !index_[id].published) return Internal(fmt::format("block {} leaks", id));
  }
  return OkStatus();
}

Status StateCache::Impl::AuditUnits() const {
  std::vector<UnitOwner> expected(pool_.units());
  const auto claim = [&](uint32_t unit, UnitOwner owner) {
    if (expected[unit].kind != UnitOwner::Kind::kFree) return false;
    expected[unit] = owner;
    return true;
  };
  bool once = true;
  for (uint32_t unit = 0; config_.padding_extent && unit < geometry_.slot_units; ++unit) {
    once = claim(unit, {UnitOwner::Kind::kPadding, 0}) && once;
  }
  for (uint32_t i = 0; i < sequences_.size(); ++i) {
    if (!sequences_[i].live) continue;
    for (uint32_t u = 0; u < geometry_.slot_units; ++u) {
      once = claim(sequences_[i].slot * geometry_.slot_units + u, {UnitOwner::Kind::kState, i}) && once;
    }
  }
  for (uint32_t id = 0; id < index_.capacity(); ++id) {
    if (index_.InUse(id)) once = claim(index_[id].unit, {UnitOwner::Kind::kBlock, id}) && once;
  }
  for (uint32_t i = 0; i < snapshots_.size(); ++i) {
    if (!snapshots_[i].live) continue;
    for (const uint32_t unit : SnapshotUnits(i)) once = claim(unit, {UnitOwner::Kind::kSnapshot, i}) && once;
  }
  if (!once) return Internal("a unit has two owners");
  for (uint32_t unit = 0; unit < pool_.units(); ++unit) {
    if (expected[unit] != pool_.owner(unit))
      return Internal(fmt::format("unit {} has the wrong owner", unit));
  }
  return OkStatus();
}

Status StateCache::Impl::AuditSnapshots() const {
  int64_t live = 0;
  for (uint32_t i = 0; i < snapshots_.size(); ++i) {
    const SnapshotRecord& record = snapshots_[i];
    if (record.live != snapshots_by_age_.Contains(i))
      return Internal(fmt::format("snapshot {} is not listed by age", i));
    if (!record.live) continue;
    ++live;
    const bool of_block = record.block != kNoIndex && index_.InUse(record.block) &&
                          index_[record.block].published && index_[record.block].snapshot == i &&
                          (int64_t{index_[record.block].depth} + 1) * config_.block_tokens == record.position;
    const bool of_sequence = record.sequence != kNoIndex && sequences_[record.sequence].live &&
                             sequences_[record.sequence].pending_snapshot == i;
    if (of_block == of_sequence) return Internal(fmt::format("snapshot {} has no owner or two", i));
  }
  if (live != live_snapshots_ || static_cast<size_t>(live) + free_snapshots_.size() != snapshots_.size()) {
    return Internal(fmt::format("{} snapshots live, {} counted", live, live_snapshots_));
  }
  for (uint32_t id = 0; id < index_.capacity(); ++id) {
    if (!index_.InUse(id) || index_[id].snapshot == kNoIndex) continue;
    if (!snapshots_[index_[id].snapshot].live || snapshots_[index_[id].snapshot].block != id) {
      return Internal(fmt::format("block {} refers to a snapshot that is not its own", id));
    }
  }
  return OkStatus();
}

Status StateCache::Impl::AuditEvictable() const {
  std::vector<uint64_t> place(index_.capacity());  // 0: not in the list
  int64_t blocks = 0;
  uint64_t count = 0;
  for (uint32_t entry = lru_.empty() ? kNoIndex : lru_.front(); entry != kNoIndex; entry = lru_.Next(entry)) {
    ++count;
    if (entry >= index_.capacity()) {
      if (!snapshots_[entry - index_.capacity()].live) return Internal("a dead snapshot is evictable");
      continue;
    }
    ++blocks;
    place[entry] = count;
    if (!index_.InUse(entry) || !index_[entry].published || index_[entry].refs != 0) {
      return Internal(fmt::format("block {} is evictable by mistake", entry));
    }
  }
  if (blocks != cached_blocks_ || count != static_cast<uint64_t>(blocks + live_snapshots_)) {
    return Internal(fmt::format("{} things are evictable: {} blocks, {} counted, {} snapshots", count, blocks,
                                cached_blocks_, live_snapshots_));
  }
  for (uint32_t id = 0; id < index_.capacity(); ++id) {
    if (!index_.InUse(id)) continue;
    const Block& block = index_[id];
    if (block.published && block.refs == 0 && place[id] == 0) {
      return Internal(fmt::format("block {} is held by nobody and not evictable", id));
    }
    if (place[id] != 0 && block.parent != kNoIndex && place[block.parent] != 0 &&
        place[block.parent] < place[id]) {
      return Internal(fmt::format("block {} would be evicted after its parent {}", id, block.parent));
    }
  }
  return OkStatus();
}

Status StateCache::Impl::AuditLeaders() const {
  std::vector<bool> reached(sequences_.size());
  for (size_t bucket = 0; bucket < leader_buckets_.size(); ++bucket) {
    for (uint32_t i = leader_buckets_[bucket]; i != kNoIndex; i = sequences_[i].leader_next) {
      if (reached[i]) return Internal(fmt::format("sequence {} leads twice", i));
      reached[i] = true;
    }
  }
  for (uint32_t i = 0; i < sequences_.size(); ++i) {
    const bool leads = sequences_[i].live && sequences_[i].leads;
    if (leads != reached[i])
      return Internal(fmt::format("sequence {} is no leader, or not in the table of leaders", i));
  }
  return OkStatus();
}

}  // namespace deepinfer::cache
