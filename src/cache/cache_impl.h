// Inside of StateCache: the pool of units, the block index, sequences, snapshots, and one list of everything evictable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "cache/block_index.h"
#include "cache/cache.h"
#include "cache/index_list.h"
#include "cache/resume.h"
#include "cache/unit_pool.h"

namespace deepinfer::cache {

struct SequenceRecord {
  bool live = false;
  uint32_t generation = 0;
  uint32_t slot = 0;
  CachePolicy policy = CachePolicy::kOff;
  Exactness exactness = Exactness::kExact;

  // Page table, three views of the same rows.
  std::vector<uint32_t> blocks;  // what the sequence reads and writes
  std::vector<uint32_t> units;   // where they are
  // Per sealed block its node in the index: the block itself; an equal one of another sequence, held as well; or kNoIndex when nothing is
  // published any more. Holding a node means holding its parent, which is what keeps cached chains closed.
  std::vector<uint32_t> nodes;
  uint64_t table_version = 1;

  std::vector<int32_t> prompt;
  std::vector<ContentSpan> spans;
  int64_t length = 0;
  int64_t furthest = 0;  // one past the furthest row ever written
  int64_t write_floor = 0;
  int64_t start = 0;
  int64_t max_length = 0;
  int64_t windows_from = 0;  // rows from here on have usable windows

  Digest chain_key{};  // of the last sealed block, or the root
  Digest next_key{};   // of the next block, when it lies in the prompt
  bool leads = false;  // next_key is in the table of leaders
  uint32_t leader_next = kNoIndex;
  uint32_t leader_previous = kNoIndex;
  uint32_t pending_snapshot = kNoIndex;  // saved before its block was published

  size_t sealed() const { return nodes.size(); }
  int64_t prompt_length() const { return static_cast<int64_t>(prompt.size()); }
};

inline SequenceId IdOf(const SequenceRecord& sequence, uint32_t index) {
  return static_cast<SequenceId>((uint64_t{sequence.generation} << 32) | (index + 1));
}

struct SnapshotRecord {
  bool live = false;
  uint32_t generation = 0;
  uint32_t block = kNoIndex;     // the published block that it belongs to, or
  uint32_t sequence = kNoIndex;  // the sequence that will publish it
  int64_t position = 0;
  Exactness exactness = Exactness::kExact;
  int64_t expiry = 0;
};

class StateCache::Impl {
 public:
  struct Geometry {
    uint32_t extents = 0;
    uint32_t slot_units = 0;
    uint32_t snapshot_units = 0;
  };
  Impl(CacheConfig config, Geometry geometry);

  Result<Resume> Probe(const Prompt& prompt);
  Result<Admission> Admit(const Prompt& prompt, int64_t reserve, int64_t max_length, CopyList* copies);
  Status Reserve(SequenceId id, int64_t end);
  Status Commit(SequenceId id, std::span<const int32_t> ids, int64_t written_end);
  Status Rollback(SequenceId id, int64_t count);
  Result<SequenceId> Fork(SequenceId id, CopyList* copies);
  Status Release(SequenceId id, ReleaseMode mode);
  Result<SequenceView> View(SequenceId id) const;
  SnapshotPoints PointsOf(const Prompt& prompt) const;
  Result<SnapshotId> SaveSnapshot(SequenceId id, int64_t position, CopyList* copies);
  void DropSnapshot(SnapshotId id);
  Result<PinId> PinPrefix(const Prompt& prompt);
  Status Unpin(PinId id);
  void AdvanceTime(int64_t now);
  void DropCached();
  Usage GetUsage() const;
  Status Audit() const;
  Status AuditIdle() const;

  const CacheConfig& config() const { return config_; }
  const Geometry& geometry() const { return geometry_; }
  const CacheCounters& counters() {
    counters_.collisions = index_.collisions();
    return counters_;
  }
  int64_t CommittedLength(SequenceId id) const;

 private:
  // memory.cc: units, eviction, moves.
  int64_t Available() const;
  uint32_t TakeSlot(uint32_t sequence, CopyList* copies);
  void MoveUnit(uint32_t from, CopyList* copies);
  void EvictOne();
  uint32_t NewBlock(uint32_t depth);
  void FreeBlock(uint32_t block);
  void Ref(uint32_t block);
  void Unref(uint32_t block);
  void EvictBlock(uint32_t block);

  // prefix.cc: look-ups and publishing.
  Status CheckPrompt(const Prompt& prompt) const;
  void Walk(const Prompt& prompt, int64_t max_blocks);
  PrefixHit UsableHit(const Prompt& prompt, bool snapshots) const;
  void FindLeader(const Prompt& prompt, Resume* resume) const;
  void SealUpTo(uint32_t index, int64_t limit);
  void Seal(uint32_t index);
  void AdoptEqual(SequenceRecord& sequence, uint32_t node, Exactness exactness);
  void Lead(uint32_t index);
  void StopLeading(uint32_t index);
  std::span<const BlockItem> ItemsOf(std::span<const ContentSpan> spans, int64_t block);
  Exactness ClassAt(const SequenceRecord& sequence, int64_t end) const;
  uint32_t LeaderBucket(const Digest& key) const;

  // snapshots.cc
  void RemoveSnapshot(uint32_t snapshot);
  void EvictSnapshot(uint32_t snapshot);
  void TouchSnapshot(uint32_t snapshot);
  void AttachPending(SequenceRecord& sequence, int64_t position, uint32_t node);
  std::span<uint32_t> SnapshotUnits(uint32_t snapshot);
  std::span<const uint32_t> SnapshotUnits(uint32_t snapshot) const;
  uint32_t LruOfSnapshot(uint32_t snapshot) const { return index_.capacity() + snapshot; }
  void AppendSnapshotCopy(CopyList::Kind kind, uint32_t slot, uint32_t snapshot, CopyList* copies) const;

  // sequences.cc
  uint32_t IndexOf(SequenceId id) const;  // kNoIndex when unknown
  uint32_t NewSequence(int64_t max_length);
  void StartSequence(uint32_t index, const Prompt& prompt, const ResumePlan& plan);
  void Extend(SequenceRecord& sequence, size_t blocks);
  int64_t BlocksFor(int64_t tokens) const {
    return (tokens + config_.block_tokens - 1) / config_.block_tokens;
  }

  // audit.cc
  Status AuditReferences() const;
  Status AuditSequences() const;
  Status AuditUnits() const;
  Status AuditEvictable() const;
  Status AuditSnapshots() const;
  Status AuditLeaders() const;

  CacheConfig config_;
  Geometry geometry_;
  UnitPool pool_;
  BlockIndex index_;
  /// Evictable things, least recently used first: published blocks without references, then (offset by the capacity) snapshots. A child
  /// is always before its parent: whoever held the child held the parent and let go of it later.
  IndexList lru_;
  int64_t cached_blocks_ = 0;
  int64_t now_ = 0;

  std::vector<SequenceRecord> sequences_;
  std::vector<uint32_t> free_sequences_;
  std::vector<uint32_t> leader_buckets_;

  std::vector<SnapshotRecord> snapshots_;
  std::vector<uint32_t> snapshot_units_;  // snapshot_units each
  std::vector<uint32_t> free_snapshots_;
  IndexList snapshots_by_age_;
  int64_t live_snapshots_ = 0;

  std::map<uint64_t, uint32_t> pins_;  // id -> deepest block
  uint64_t last_pin_ = 0;

  // Result of the last Walk.
  struct PathStep {
    uint32_t block = 0;
    Digest key{};
  };
  std::vector<PathStep> path_;
  bool path_missed_ = false;  // ended because nothing was published, not because of its bound
  Digest missed_key_{};
  std::vector<BlockItem> items_;  // scratch of ItemsOf
  CacheCounters counters_;
};

}  // namespace deepinfer::cache
