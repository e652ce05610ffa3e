#include "cache/cache.h"

#include <bit>
#include <limits>

#include <fmt/format.h>

#include "base/checked.h"
#include "cache/cache_impl.h"

namespace deepinfer::cache {
namespace {

// Indices are 32-bit numbers, and snapshots share their range with blocks.
constexpr int64_t kMaxUnits = int64_t{1} << 30;

Status CheckRange(const char* field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return OkStatus();
  return InvalidArgument(fmt::format("{} is not in {} .. {}", value, low, high), field);
}

Status CheckConfig(const CacheConfig& config) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMaxRows = 1 << 20;
  DEEPINFER_RETURN_IF_ERROR(CheckRange("pool_bytes", config.pool_bytes, 1, kMax));
  DEEPINFER_RETURN_IF_ERROR(CheckRange("block_bytes", config.block_bytes, 1, kMax));
  DEEPINFER_RETURN_IF_ERROR(CheckRange("state_bytes", config.state_bytes, 1, config.pool_bytes));
  DEEPINFER_RETURN_IF_ERROR(CheckRange("snapshot_bytes", config.snapshot_bytes, 0, config.pool_bytes));
  // A block's items and spans have 16-bit lengths.
  DEEPINFER_RETURN_IF_ERROR(CheckRange("block_tokens", config.block_tokens, 1, kMaxSpanLength - 1));
  DEEPINFER_RETURN_IF_ERROR(CheckRange("window", config.window, 1, kMaxRows));
  DEEPINFER_RETURN_IF_ERROR(CheckRange("max_rollback", config.max_rollback, 0, kMaxRows));
  DEEPINFER_RETURN_IF_ERROR(
      CheckRange("exact_replay", config.exact_replay, config.window, int64_t{kMaxRows} * 1024));
  DEEPINFER_RETURN_IF_ERROR(CheckRange("max_sequences", config.max_sequences, 1, 1 << 20));
  DEEPINFER_RETURN_IF_ERROR(CheckRange("max_snapshots", config.max_snapshots, 0, kMaxUnits));
  return CheckRange("snapshot_ttl", config.snapshot_ttl, 0, kMax / 2);
}

}  // namespace

StateCache::Impl::Impl(CacheConfig config, Geometry geometry)
    : config_(std::move(config)),
      geometry_(geometry),
      pool_(geometry.extents, geometry.slot_units, config_.padding_extent ? 1 : 0),
      index_(pool_.units(), config_.block_tokens),
      lru_(static_cast<size_t>(pool_.units()) + static_cast<size_t>(config_.max_snapshots)),
      sequences_(static_cast<size_t>(config_.max_sequences)),
      leader_buckets_(std::bit_ceil(static_cast<size_t>(config_.max_sequences) * 2), kNoIndex),
      snapshots_(static_cast<size_t>(config_.max_snapshots)),
      snapshot_units_(snapshots_.size() * geometry.snapshot_units),
      snapshots_by_age_(snapshots_.size()) {
  free_sequences_.reserve(sequences_.size());
  for (auto i = static_cast<uint32_t>(sequences_.size()); i-- > 0;) free_sequences_.push_back(i);
  free_snapshots_.reserve(snapshots_.size());
  for (auto i = static_cast<uint32_t>(snapshots_.size()); i-- > 0;) free_snapshots_.push_back(i);
}

Result<std::unique_ptr<StateCache>> StateCache::Create(const CacheConfig& config) {
  DEEPINFER_RETURN_IF_ERROR(CheckConfig(config));
  const int64_t slot_units = CeilDiv(config.state_bytes, config.block_bytes);
  const int64_t snapshot_units =
      config.snapshot_bytes == 0 ? 0 : CeilDiv(config.snapshot_bytes, config.block_bytes);
  const int64_t units = config.pool_bytes / config.block_bytes;
  if (units > kMaxUnits) {
    return InvalidArgument(fmt::format("{} bytes are more than {} blocks", config.pool_bytes, kMaxUnits),
                           "pool_bytes");
  }
  const int64_t extents = units / slot_units;
  // One sequence needs a slot and a block, which lies in another extent.
  const int64_t least = config.padding_extent ? 3 : 2;
  if (extents < least) {
    return ResourceExhausted(
        fmt::format("{} bytes hold {} state slots of {} bytes; one sequence with its blocks needs {}",
                    config.pool_bytes, extents, slot_units * config.block_bytes, least),
        "pool_bytes");
  }
  CacheConfig own = config;
  if (own.hasher == nullptr) own.hasher = std::make_shared<Sha256BlockHasher>();
  // More snapshots than fit would only take memory for their records.
  own.max_snapshots = snapshot_units == 0 ? 0 : std::min(own.max_snapshots, units / snapshot_units);
  const Impl::Geometry geometry{.extents = static_cast<uint32_t>(extents),
                                .slot_units = static_cast<uint32_t>(slot_units),
                                .snapshot_units = static_cast<uint32_t>(snapshot_units)};
  return std::unique_ptr<StateCache>(new StateCache(std::make_unique<Impl>(std::move(own), geometry)));
}

StateCache::StateCache(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StateCache::~StateCache() = default;

int64_t StateCache::unit_bytes() const { return impl_->config().block_bytes; }
int64_t StateCache::slot_bytes() const { return slot_units() * unit_bytes(); }
int64_t StateCache::slot_units() const { return impl_->geometry().slot_units; }
int64_t StateCache::total_units() const { return int64_t{impl_->geometry().extents} * slot_units(); }
int64_t StateCache::snapshot_units() const { return impl_->geometry().snapshot_units; }

Result<Resume> StateCache::Probe(const Prompt& prompt) { return impl_->Probe(prompt); }
Result<Admission> StateCache::Admit(const Prompt& prompt, int64_t reserve, int64_t max_length,
                                    CopyList* copies) {
  return impl_->Admit(prompt, reserve, max_length, copies);
}
Status StateCache::Reserve(SequenceId sequence, int64_t end) { return impl_->Reserve(sequence, end); }
Status StateCache::Commit(SequenceId sequence, std::span<const int32_t> ids, int64_t written_end) {
  return impl_->Commit(sequence, ids, written_end);
}
Status StateCache::Commit(SequenceId sequence, std::span<const int32_t> ids) {
  return impl_->Commit(sequence, ids, impl_->CommittedLength(sequence) + static_cast<int64_t>(ids.size()));
}
Status StateCache::Rollback(SequenceId sequence, int64_t count) { return impl_->Rollback(sequence, count); }
Result<SequenceId> StateCache::Fork(SequenceId sequence, CopyList* copies) {
  return impl_->Fork(sequence, copies);
}
Status StateCache::Release(SequenceId sequence, ReleaseMode mode) { return impl_->Release(sequence, mode); }
Result<SequenceView> StateCache::View(SequenceId sequence) const { return impl_->View(sequence); }

StateCache::SnapshotPoints StateCache::PointsOf(const Prompt& prompt) const {
  return impl_->PointsOf(prompt);
}
Result<SnapshotId> StateCache::SaveSnapshot(SequenceId sequence, int64_t position, CopyList* copies) {
  return impl_->SaveSnapshot(sequence, position, copies);
}
void StateCache::DropSnapshot(SnapshotId snapshot) { impl_->DropSnapshot(snapshot); }

Result<PinId> StateCache::PinPrefix(const Prompt& prompt) { return impl_->PinPrefix(prompt); }
Status StateCache::Unpin(PinId pin) { return impl_->Unpin(pin); }
void StateCache::AdvanceTime(int64_t now) { impl_->AdvanceTime(now); }
void StateCache::DropCached() { impl_->DropCached(); }

Usage StateCache::usage() const { return impl_->GetUsage(); }
const CacheCounters& StateCache::counters() const { return impl_->counters(); }
Status StateCache::Audit() const { return impl_->Audit(); }
Status StateCache::AuditIdle() const { return impl_->AuditIdle(); }

}  // namespace deepinfer::cache
