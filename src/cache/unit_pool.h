// Units and extents: which part of the pool belongs to whom.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "cache/index_list.h"

namespace deepinfer::cache {

struct UnitOwner {
  enum class Kind : uint8_t { kFree, kPadding, kState, kBlock, kSnapshot };
  Kind kind = Kind::kFree;
  uint32_t index = 0;  // of the sequence, block or snapshot

  bool operator==(const UnitOwner&) const = default;
};

/// Extents of `extent_units` units each. An extent is a state slot, or its units are used one by one. Single units come from the extent
/// with the fewest free ones, so that whole extents stay or become free. O(extent_units / 64) at most an operation.
class UnitPool {
 public:
  UnitPool(uint32_t extents, uint32_t extent_units, uint32_t padding_extents);

  uint32_t extents() const { return static_cast<uint32_t>(free_in_extent_.size()); }
  uint32_t extent_units() const { return extent_units_; }
  uint32_t units() const { return static_cast<uint32_t>(owners_.size()); }
  uint32_t free_units() const { return free_units_; }
  const UnitOwner& owner(uint32_t unit) const { return owners_[unit]; }

  /// Needs free_units() > 0.
  uint32_t TakeUnit(UnitOwner owner);
  void GiveUnit(uint32_t unit);

  /// An extent without any used unit, or kNoIndex.
  uint32_t TakeFreeExtent(uint32_t sequence);
  /// The extent with the most free units leaves the pool of single units; needs free_units() > 0. The caller moves its used units
  /// elsewhere with TakeUnit and then calls FinishDrain.
  uint32_t BeginDrain();
  void FinishDrain(uint32_t extent, uint32_t sequence);
  void GiveExtent(uint32_t extent);

  /// Free lists, counts and owners agree. Errors: kInternal.
  Status Audit() const;

 private:
  static constexpr uint32_t kNotListed = kNoIndex;
  uint32_t LowestBucket() const;   // of those with 1 .. extent_units free units; 0: none
  uint32_t HighestBucket() const;  // 0: none
  void List(uint32_t extent);
  void Unlist(uint32_t extent);
  void FillFreeList(uint32_t extent);
  void SetOwners(uint32_t extent, UnitOwner owner);

  uint32_t extent_units_;
  uint32_t free_units_ = 0;
  std::vector<UnitOwner> owners_;     // by unit
  std::vector<uint32_t> next_free_;   // by unit: within its extent
  std::vector<uint32_t> first_free_;  // by extent
  std::vector<uint32_t>
      free_in_extent_;  // by extent; kNotListed for slots, padding and an extent that is being drained
  // Extents that lend single units, in one list for each number of free units.
  std::vector<uint32_t> bucket_front_;
  std::vector<uint32_t> bucket_next_;
  std::vector<uint32_t> bucket_previous_;
  std::vector<uint64_t> bucket_used_;  // bit f: bucket f is not empty
};

}  // namespace deepinfer::cache
