// A sequence model without a network: the bytes of every row are hashes of what the row depends on, so that any stale, torn, swapped or
// wrongly resumed state is seen at once (spec: serving.md §3.12).
//
// Three window layers: x[0] is a hash of id and position, x[l + 1] of x[l] of all rows in the window. A global entry holds the hash of the whole
// prefix (`tag`) and a hash of x[3] (`value`), which depends on the windows and thus on where a replay began.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cache/cache.h"

namespace deepinfer::cache {

inline constexpr int64_t kLayers = 3;

struct ModelShape {
  int64_t block = 8;
  int64_t window = 8;
  int64_t rollback = 4;
  int64_t ring() const { return window + rollback; }
};

struct Entry {
  uint64_t tag = 0;
  uint64_t value = 0;
  bool operator==(const Entry&) const = default;
};

struct RingRow {
  uint64_t tag = 0;
  std::array<uint64_t, kLayers> x{};
  bool operator==(const RingRow&) const = default;
};

struct ModelRow {
  int32_t id = 0;
  RingRow ring;
  uint64_t value = 0;
};

/// What a sequence's rows must be, computed from ids alone.
struct Expected {
  uint64_t root = 0;
  std::vector<ContentSpan> spans;
  int64_t prompt = 0;
  int64_t hit = 0;             // entries below were computed by others
  int64_t first_row = 0;       // lowest row that the rings hold
  int64_t right_from = 0;      // rows from here on must have the expected windows
  bool exact = true;           // entries below `hit` have the expected values as well
  bool values_known = true;    // false after a snapshot of unknown history
  std::vector<ModelRow> rows;  // 0 .. length - 1
};

/// Appends the row of `id` as a run from `expected.first_row` on (0 for an exact sequence) would compute it.
void AppendRow(const ModelShape& shape, int32_t id, Expected* expected);

/// The device: memory of the pool and a queue of work that lags behind the plan.
class HashExecutor {
 public:
  struct Sabotage {
    int skip_kind = -1;         // CopyList::Kind that is not executed
    bool ignore_floor = false;  // rows below the write floor are written
    bool swap_copies = false;   // copies run in reverse order
    bool wide_window = false;   // replays read ring rows below their start
  };

  HashExecutor(const ModelShape& shape, const StateCache& cache, Sabotage sabotage);

  void Enqueue(const CopyList& copies);
  /// Feeds `rows`, beginning at position `first`; `view` and `expected` are taken as they are now.
  void Enqueue(const SequenceView& view, std::shared_ptr<const Expected> expected, int64_t first,
               std::vector<ModelRow> rows);
  /// Executes all but the newest `keep` pieces of work.
  void Drain(size_t keep);

  uint64_t wrong() const { return wrong_; }
  const std::string& first_error() const { return first_error_; }
  uint64_t entries_read() const { return entries_read_; }

 private:
  struct Step {
    std::vector<uint32_t> units;
    uint32_t slot = 0;
    int64_t write_floor = 0;
    std::shared_ptr<const Expected> expected;
    int64_t first = 0;
    std::vector<ModelRow> rows;
  };
  struct Work {
    CopyList copies;
    Step step;
  };
  void Run(const CopyList& copies);
  void Run(const Step& step);
  void CheckEntries(const Step& step);
  ModelRow Compute(const Step& step, int64_t position, const ModelRow& expected);
  RingRow& Ring(uint32_t slot, int64_t position);
  Entry& EntryAt(const std::vector<uint32_t>& units, int64_t position);
  void Wrong(const std::string& what);

  ModelShape shape_;
  int64_t slot_units_;
  Sabotage sabotage_;
  std::vector<Entry> entries_;    // block of each unit
  std::vector<RingRow> rings_;    // of each slot
  std::vector<RingRow> streams_;  // a window of rows at the first unit of each snapshot
  std::deque<Work> queue_;
  uint64_t wrong_ = 0;
  uint64_t entries_read_ = 0;
  std::string first_error_;
};

}  // namespace deepinfer::cache
