// Memory of everything that sequences keep between steps, as numbers only: which block, which state slot, what to copy.
//
// One pool, no static split (spec: deepinfer.md §4.6, §12.5; serving.md §3.2, §3.4). The pool is an array of *units*; a unit has the size of
// a block of global KV (128 tokens, all sources). A running sequence has
//   - a page table: the units of its blocks, shared with other sequences and with the prefix index by reference count;
//   - one state slot: window rings, compressor tails and draft windows, private. A slot is an *extent*, a run of units long enough for it.
// A window snapshot (the windows of the encoder layers at one position) is a number of scattered units.
// Units become blocks, slots or snapshots as needed: cached blocks and snapshots nobody uses are evicted, least recently used first, and when
// free units lie scattered the blocks of one extent are moved together. A request therefore fails only when memory is really short.
//
// The module has no thread, no clock and no memory of the pool: it hands out indices, and says in a CopyList which bytes the executor has
// to copy. **Order is the whole contract with the executor**: copies and steps run in the order in which they were planned. A unit given
// back in plan n + 1 may be written by step n + 1, while step n still runs before it.
//
// Life of a sequence: Admit (looks up the prefix index) → [Reserve → step → Commit]* → Release. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cache/block_key.h"

namespace deepinfer::cache {

/// All sizes come in as numbers; nothing here knows a model.
struct CacheConfig {
  int64_t pool_bytes = 0;
  int64_t block_bytes = 0;  // one block of global KV: 113,920 in the released model
  int64_t state_bytes =
      0;  // rings of window + max_rollback rows, tails and, when drafting, draft windows of one sequence
  int64_t snapshot_bytes =
      0;  // encoder windows at one position: 1,351,680 in the released model; 0: no snapshots

  int64_t block_tokens = 128;
  int64_t window = 128;       // rows that a replay has to rebuild
  int64_t max_rollback = 12;  // rows that a sequence can drop: 2 * (draft + 1)
  /// Rows before the first wanted one that make a replay exact: encoder layers * window (spec: serving.md §3.4.2 R2).
  int64_t exact_replay = 2560;

  int64_t max_sequences = 256;
  int64_t max_snapshots = 0;
  int64_t snapshot_ttl = 0;  // in the units of AdvanceTime; 0: no expiry
  /// Whether rows of decoding have the bits that a prefill of the same ids gives. If not, generated blocks are approximate.
  bool exact_decode = true;
  /// Sets extent 0 aside for padding rows: unit 0 is then a block, and slot 0 a state, that nobody owns.
  bool padding_extent = false;
  /// Replaces SHA-256. Every hit is verified by token ids, items and parent, so a weak hash costs time only.
  std::shared_ptr<BlockHasher> hasher;
};

/// Identity of a running sequence; never reused.
enum class SequenceId : uint64_t { kNone = 0 };
enum class SnapshotId : uint64_t { kNone = 0 };
enum class PinId : uint64_t { kNone = 0 };

/// Whether rows have the bits of a cold run (spec: serving.md §3.4.4, classes E and A).
enum class Exactness : uint8_t { kExact, kApproximate };

/// How a request may use the prefix index.
enum class CachePolicy : uint8_t {
  kOff,       // neither looks up nor publishes
  kStrict,    // exact blocks only, resumes R0 or R2: the bits of a cold run
  kDeepseek,  // any block, R1 allowed
};

/// How a sequence starts (spec: serving.md §3.4.2).
enum class ResumeMode : uint8_t {
  kCold,           // from position 0, nothing shared
  kSnapshot,       // R0: windows restored from a snapshot
  kBoundedReplay,  // R1: one window before the hit's end is fed again
  kExactReplay,    // R2: so many rows are fed again that all later ones are exact
};

/// What a request asks for. Spans are read during the call only.
struct Prompt {
  std::span<const int32_t> ids = {};        // P >= 1 ids
  std::span<const ContentSpan> spans = {};  // ascending, disjoint, inside the prompt
  Digest root{};  // RootKey of the request's identity (model, numeric class, adapter, salt)
  CachePolicy policy = CachePolicy::kStrict;
  /// T: last rows of the prompt that the decoder layers compute: 140 (bounded_replay), 2,541 (exact_halo), >= P (full).
  int64_t decoder_tail = 1;
};

/// Result of a look-up. With mode kCold all numbers are 0.
struct Resume {
  ResumeMode mode = ResumeMode::kCold;
  /// H: tokens whose blocks are shared; a multiple of block_tokens, below P. Entries that end below H are never written again.
  int64_t hit = 0;
  /// s: the first row to feed. Rows start .. P - 1 are computed, windows see nothing below `start` (kBoundedReplay).
  int64_t start = 0;
  Exactness exactness = Exactness::kExact;
  /// A running sequence that is about to publish the next missing block of this prompt, and the hit that the prompt will have when that
  /// one's prompt is through: waiting for it saves computing these tokens twice (spec: serving.md S22).
  SequenceId leader = SequenceId::kNone;
  int64_t leader_tokens = 0;
};

struct Admission {
  SequenceId sequence = SequenceId::kNone;
  Resume resume;
};

/// Bytes to copy, in this order, before the step that was planned with it. Units and slots are indices into the pool:
/// unit u begins at byte u * unit_bytes(), slot e at byte e * slot_bytes().
struct CopyList {
  enum class Kind : uint8_t {
    kBlock,    // unit `from` -> unit `to`, whole unit
    kState,    // slot `from` -> slot `to`, whole slot
    kSave,     // windows of slot `from` at `position` -> snapshot stream over `units`
    kRestore,  // snapshot stream over `units` -> windows of slot `to`, which then hold rows position - window .. position - 1
  };
  struct Copy {
    Kind kind = Kind::kBlock;
    uint32_t from = 0;
    uint32_t to = 0;
    int64_t position = 0;
    uint32_t first_unit =
        0;  // index into `units`: byte i of the stream is byte i mod unit_bytes of unit i / unit_bytes
    uint32_t unit_count = 0;
  };
  std::vector<Copy> copies;
  std::vector<uint32_t> units;

  std::span<const uint32_t> UnitsOf(const Copy& copy) const {
    return std::span(units).subspan(copy.first_unit, copy.unit_count);
  }
  void Clear() {
    copies.clear();
    units.clear();
  }
};

/// One sequence as the executor needs it. Spans live until the next call that changes the cache.
struct SequenceView {
  std::span<const uint32_t> units;  // page table: block b of the sequence is in units[b]
  uint64_t table_version =
      0;  // changes whenever an entry changes that was there before; appended entries do not count
  uint32_t slot = 0;
  int64_t length =
      0;  // committed rows: positions 0 .. length - 1 are in the state (after a resume: start .. length - 1)
  int64_t prompt = 0;       // P
  int64_t write_floor = 0;  // entries whose last token is below are never written
  int64_t start = 0;        // first row fed
  int64_t reserved = 0;     // positions that have blocks
  Exactness exactness = Exactness::kExact;
};

/// Where the units are. total = padding + states + blocks + cached + snapshots + free.
struct Usage {
  int64_t total = 0;
  int64_t padding = 0;
  int64_t states = 0;     // units inside state slots
  int64_t blocks = 0;     // held by a sequence or a pin
  int64_t cached = 0;     // in the prefix index only: evictable
  int64_t snapshots = 0;  // evictable
  int64_t free = 0;
  int64_t sequences = 0;
  int64_t pins = 0;
  int64_t snapshot_count = 0;

  /// Units that a request can get.
  int64_t available() const { return free + cached + snapshots; }
};

/// Sums since creation.
struct CacheCounters {
  uint64_t lookups = 0;         // admissions that looked up
  uint64_t prompt_tokens = 0;   // of these
  uint64_t hit_tokens = 0;      // Resume::hit of these
  uint64_t skipped_tokens = 0;  // Resume::start of these: rows not computed
  uint64_t resumes[4] = {};     // by ResumeMode
  uint64_t published = 0;
  uint64_t deduplicated = 0;  // own block given up for an equal published one
  uint64_t evicted_blocks = 0;
  uint64_t evicted_snapshots = 0;  // pressure, budget and expiry
  uint64_t moved_units = 0;
  uint64_t collisions = 0;  // equal key, other ids or items
};

enum class ReleaseMode : uint8_t {
  kKeep,  // finished, cancelled between steps or preempted: full blocks of committed rows stay in the index
  kDiscard,  // a step failed: blocks that are not published yet are dropped
};

class StateCache {
 public:
  /// Errors: kInvalidArgument naming the field; kResourceExhausted when the pool cannot hold one sequence with one block.
  static Result<std::unique_ptr<StateCache>> Create(const CacheConfig& config);
  ~StateCache();
  StateCache(const StateCache&) = delete;
  StateCache& operator=(const StateCache&) = delete;

  // --- Geometry -------------------------------------------------------------------------------------------------------------------
  int64_t unit_bytes() const;   // = block_bytes
  int64_t slot_bytes() const;   // slot_units * unit_bytes >= state_bytes
  int64_t slot_units() const;   // units of a state slot
  int64_t total_units() const;  // a multiple of slot_units
  int64_t snapshot_units() const;

  // --- Sequences ------------------------------------------------------------------------------------------------------------------

  /// What Admit would do now; changes nothing. O(hit / block_tokens) hashes. Errors: as Admit, without kResourceExhausted.
  Result<Resume> Probe(const Prompt& prompt);

  /// Starts a sequence: looks up the index, takes a slot, shares the hit's blocks and makes blocks for positions 0 .. reserve - 1 (at
  /// least the hit). `max_length` bounds all later positions; Reserve and Commit allocate nothing (the hash of a
  /// published block aside: libcrypto takes and gives back some 100 bytes).
  /// Appends kRestore for ResumeMode::kSnapshot, and kBlock for moves; page tables of *other* sequences may change (table_version).
  /// Errors: kInvalidArgument; kResourceExhausted (nothing has changed): queue or preempt.
  Result<Admission> Admit(const Prompt& prompt, int64_t reserve, int64_t max_length, CopyList* copies);

  /// Makes blocks for all positions below `end` exist. O(new blocks). Errors: kInvalidArgument (end > max_length);
  /// kResourceExhausted: nothing has changed.
  Status Reserve(SequenceId sequence, int64_t end);

  /// Rows length .. length + ids.size() - 1 hold these ids and will not be taken back except by Rollback. `written_end` >= the new length
  /// is one past the last row that the step wrote, rejected drafts included. Publishes blocks: those of the prompt when they are full, later
  /// ones when a rollback cannot reach them any more.
  /// Errors: kInvalidArgument when rows have no blocks, rows of the prompt have other ids, or written_end is more than max_rollback
  /// ahead of the new length.
  Status Commit(SequenceId sequence, std::span<const int32_t> ids, int64_t written_end);
  Status Commit(SequenceId sequence, std::span<const int32_t> ids);  // written_end = the new length

  /// Drops the last `count` committed rows. Blocks stay reserved. Errors: kInvalidArgument when that reaches into the prompt, or
  /// further than max_rollback rows behind the furthest row ever written.
  Status Rollback(SequenceId sequence, int64_t count);

  /// A second sequence with the same rows: full blocks out of a rollback's reach are shared, the others and the slot are copied.
  /// Errors: kInvalidArgument; kResourceExhausted: nothing has changed.
  Result<SequenceId> Fork(SequenceId sequence, CopyList* copies);

  /// Ends a sequence in any phase; its blocks stay cached or become free. Errors: kInvalidArgument for an unknown id.
  Status Release(SequenceId sequence, ReleaseMode mode);

  /// Errors: kInvalidArgument for an unknown id.
  Result<SequenceView> View(SequenceId sequence) const;

  // --- Window snapshots -----------------------------------------------------------------------------------------------------------

  /// Positions of a prompt at which snapshots pay, ascending, 0 where there is none: the last block edge at least decoder_tail rows before
  /// the end (same prompt again), the last one before the end (a longer prompt) (spec: serving.md §3.4.3). Chunks must end there.
  struct SnapshotPoints {
    int64_t again = 0;
    int64_t longer = 0;
  };
  SnapshotPoints PointsOf(const Prompt& prompt) const;

  /// Saves the windows at `position`, a multiple of block_tokens, and appends kSave. Later look-ups find it as soon as the block below is
  /// published. kNone without an error when there is nothing to gain: an equal one exists, the policy is kOff, snapshots are off,
  /// or units are short. Errors: kInvalidArgument unless the rings still hold the rows: position <= length, not more than max_rollback
  /// behind the furthest row written, and all window rows fed or restored (and exact where the sequence is).
  Result<SnapshotId> SaveSnapshot(SequenceId sequence, int64_t position, CopyList* copies);
  /// Forgets one. An id that is evicted already is no error.
  void DropSnapshot(SnapshotId snapshot);

  // --- Cached prefixes ------------------------------------------------------------------------------------------------------------

  /// Keeps the cached blocks of a prompt's beginning from eviction until Unpin. kNone when nothing is cached.
  Result<PinId> PinPrefix(const Prompt& prompt);
  /// Errors: kInvalidArgument for an unknown id.
  Status Unpin(PinId pin);

  /// Moves the logical time, which never runs backwards, and drops expired snapshots.
  void AdvanceTime(int64_t now);
  /// Evicts all that can be evicted.
  void DropCached();

  // --- Accounts -------------------------------------------------------------------------------------------------------------------
  Usage usage() const;
  const CacheCounters& counters() const;
  /// Proves that every unit is accounted for once, and that reference counts, tables, index, lists and counts agree. O(everything).
  /// Errors: kInternal naming the first disagreement.
  Status Audit() const;
  /// Audit, and nothing runs: no sequence, no pin, every unit is free or cached. Errors: kInternal.
  Status AuditIdle() const;

 private:
  class Impl;
  explicit StateCache(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace deepinfer::cache
