#include "cache/unit_pool.h"

#include <bit>

#include <fmt/format.h>

namespace deepinfer::cache {

UnitPool::UnitPool(uint32_t extents, uint32_t extent_units, uint32_t padding_extents)
    : extent_units_(extent_units),
      owners_(static_cast<size_t>(extents) * extent_units),
      next_free_(owners_.size(), kNoIndex),
      first_free_(extents, kNoIndex),
      free_in_extent_(extents, kNotListed),
      bucket_front_(extent_units + 1, kNoIndex),
      bucket_next_(extents, kNoIndex),
      bucket_previous_(extents, kNoIndex),
      bucket_used_(extent_units / 64 + 1) {
  for (uint32_t extent = extents; extent-- > padding_extents;) FillFreeList(extent);
  for (uint32_t extent = 0; extent < padding_extents; ++extent) {
    SetOwners(extent, {UnitOwner::Kind::kPadding, 0});
  }
}

uint32_t UnitPool::TakeUnit(UnitOwner owner) {
  const uint32_t extent = bucket_front_[LowestBucket()];
  Unlist(extent);
  const uint32_t unit = first_free_[extent];
  first_free_[extent] = next_free_[unit];
  owners_[unit] = owner;
  --free_in_extent_[extent];
  --free_units_;
  List(extent);
  return unit;
}

void UnitPool::GiveUnit(uint32_t unit) {
  const uint32_t extent = unit / extent_units_;
  Unlist(extent);
  next_free_[unit] = first_free_[extent];
  first_free_[extent] = unit;
  owners_[unit] = {};
  ++free_in_extent_[extent];
  ++free_units_;
  List(extent);
}

uint32_t UnitPool::TakeFreeExtent(uint32_t sequence) {
  if (bucket_front_[extent_units_] == kNoIndex) return kNoIndex;
  const uint32_t extent = BeginDrain();
  FinishDrain(extent, sequence);
  return extent;
}

uint32_t UnitPool::BeginDrain() {
  const uint32_t extent = bucket_front_[HighestBucket()];
  Unlist(extent);
  free_units_ -= free_in_extent_[extent];
  free_in_extent_[extent] = kNotListed;
  first_free_[extent] = kNoIndex;
  return extent;
}

void UnitPool::FinishDrain(uint32_t extent, uint32_t sequence) {
  SetOwners(extent, {UnitOwner::Kind::kState, sequence});
}

void UnitPool::GiveExtent(uint32_t extent) { FillFreeList(extent); }

void UnitPool::FillFreeList(uint32_t extent) {
  SetOwners(extent, {});
  const uint32_t begin = extent * extent_units_;
  for (uint32_t unit = begin; unit < begin + extent_units_; ++unit) {
    next_free_[unit] = unit + 1 < begin + extent_units_ ? unit + 1 : kNoIndex;
  }
  first_free_[extent] = begin;
  free_in_extent_[extent] = extent_units_;
  free_units_ += extent_units_;
  List(extent);
}

void UnitPool::SetOwners(uint32_t extent, UnitOwner owner) {
  for (uint32_t i = 0; i < extent_units_; ++i) owners_[extent * extent_units_ + i] = owner;
}

uint32_t UnitPool::LowestBucket() const {
  for (size_t word = 0; word < bucket_used_.size(); ++word) {
    const uint64_t bits = bucket_used_[word];
    if (bits != 0) return static_cast<uint32_t>(word * 64 + static_cast<size_t>(std::countr_zero(bits)));
  }
  return 0;
}

uint32_t UnitPool::HighestBucket() const {
  for (size_t word = bucket_used_.size(); word-- > 0;) {
    const uint64_t bits = bucket_used_[word];
    if (bits != 0) return static_cast<uint32_t>(word * 64 + 63 - static_cast<size_t>(std::countl_zero(bits)));
  }
  return 0;
}

// Extents without a free unit are in no list: bucket 0 stays empty, so that LowestBucket finds a usable one.
void UnitPool::List(uint32_t extent) {
  const uint32_t bucket = free_in_extent_[extent];
  if (bucket == 0) return;
  const uint32_t front = bucket_front_[bucket];
  bucket_next_[extent] = front;
  bucket_previous_[extent] = kNoIndex;
  if (front != kNoIndex) bucket_previous_[front] = extent;
  bucket_front_[bucket] = extent;
  bucket_used_[bucket / 64] |= uint64_t{1} << (bucket % 64);
}

void UnitPool::Unlist(uint32_t extent) {
  const uint32_t bucket = free_in_extent_[extent];
  if (bucket == 0) return;
  const uint32_t next = bucket_next_[extent];
  const uint32_t previous = bucket_previous_[extent];
  (previous == kNoIndex ? bucket_front_[bucket] : bucket_next_[previous]) = next;
  if (next != kNoIndex) bucket_previous_[next] = previous;
  if (bucket_front_[bucket] == kNoIndex) bucket_used_[bucket / 64] &= ~(uint64_t{1} << (bucket % 64));
}

Status UnitPool::Audit() const {
  uint32_t free_total = 0;
  for (uint32_t extent = 0; extent < extents(); ++extent) {
    uint32_t owned_free = 0;
    for (uint32_t i = 0; i < extent_units_; ++i) {
      owned_free += owners_[extent * extent_units_ + i].kind == UnitOwner::Kind::kFree ? 1 : 0;
    }
    uint32_t listed = 0;
    for (uint32_t unit = first_free_[extent]; unit != kNoIndex && listed <= extent_units_;
         unit = next_free_[unit]) {
      ++listed;
      if (unit / extent_units_ != extent || owners_[unit].kind != UnitOwner::Kind::kFree) {
        return Internal(
            fmt::format("unit {} is in the free list of extent {} but is not free there", unit, extent));
      }
    }
    const uint32_t counted = free_in_extent_[extent] == kNotListed ? 0 : free_in_extent_[extent];
    if (listed != owned_free || counted != owned_free) {
      return Internal(fmt::format("extent {}: {} units are free, {} listed, {} counted", extent, owned_free,
                                  listed, counted));
    }
    free_total += owned_free;
  }
  if (free_total != free_units_) {
    return Internal(fmt::format("{} units are free, {} counted", free_total, free_units_));
  }
  uint32_t reachable = 0;
  for (uint32_t bucket = 1; bucket <= extent_units_; ++bucket) {
    for (uint32_t extent = bucket_front_[bucket]; extent != kNoIndex; extent = bucket_next_[extent]) {
      if (free_in_extent_[extent] != bucket) {
        return Internal(fmt::format("extent {} is in the list of {} free units", extent, bucket));
      }
      reachable += bucket;
    }
  }
  if (reachable != free_units_) {
    return Internal(fmt::format("{} units are free, {} of them in reach", free_units_, reachable));
  }
  return OkStatus();
}

}  // namespace deepinfer::cache
