// Running sequences: page tables, rows, forks.
#include <algorithm>

#include <fmt/format.h>

#include "cache/cache_impl.h"

namespace deepinfer::cache {
namespace {

Status UnknownSequence() { return InvalidArgument("no such sequence", "sequence"); }

Status OutOfUnits(int64_t needed, int64_t available) {
  return ResourceExhausted(fmt::format("{} units are needed, {} can be had", needed, available), "kv memory");
}

}  // namespace

uint32_t StateCache::Impl::IndexOf(SequenceId id) const {
  const auto value = static_cast<uint64_t>(id);
  const uint64_t index = (value & 0xFFFF'FFFF) - 1;
  if (value == 0 || index >= sequences_.size()) return kNoIndex;
  const SequenceRecord& sequence = sequences_[index];
  return sequence.live && sequence.generation == value >> 32 ? static_cast<uint32_t>(index) : kNoIndex;
}

int64_t StateCache::Impl::CommittedLength(SequenceId id) const {
  const uint32_t index = IndexOf(id);
  return index == kNoIndex ? 0 : sequences_[index].length;
}

uint32_t StateCache::Impl::NewSequence(int64_t max_length) {
  const uint32_t index = free_sequences_.back();
  free_sequences_.pop_back();
  SequenceRecord& sequence = sequences_[index];
  sequence.live = true;
  ++sequence.generation;
  sequence.table_version = 1;
  sequence.max_length = max_length;
  sequence.pending_snapshot = kNoIndex;
  sequence.leads = false;
  // The pool bounds what a table can ever hold, whatever length a request claims.
  const auto entries = static_cast<size_t>(std::min<int64_t>(BlocksFor(max_length), pool_.units()));
  for (std::vector<uint32_t>* table : {&sequence.blocks, &sequence.units, &sequence.nodes}) {
    table->clear();
    table->reserve(entries);
  }
  return index;
}

void StateCache::Impl::Extend(SequenceRecord& sequence, size_t blocks) {
  while (sequence.blocks.size() < blocks) {
    const uint32_t block = NewBlock(static_cast<uint32_t>(sequence.blocks.size()));
    sequence.blocks.push_back(block);
    sequence.units.push_back(index_[block].unit);
  }
}

Result<Admission> StateCache::Impl::Admit(const Prompt& prompt, int64_t reserve, int64_t max_length,
                                          CopyList* copies) {
  DEEPINFER_RETURN_IF_ERROR(CheckPrompt(prompt));
  const auto length = static_cast<int64_t>(prompt.ids.size());
  if (max_length < length || reserve < 0 || reserve > max_length) {
    return InvalidArgument(
        fmt::format("0 <= reserve ({}) <= max_length ({}) and prompt ({}) <= max_length must hold", reserve,
                    max_length, length),
        "reserve");
  }
  if (free_sequences_.empty()) {
    return ResourceExhausted(fmt::format("{} sequences run already", config_.max_sequences), "max_sequences");
  }
  Walk(prompt, (length - 1) / config_.block_tokens);
  for (const bool snapshots : {true, false}) {
    const PrefixHit hit = UsableHit(prompt, snapshots);
    const ResumePlan plan = PlanResume(config_, prompt, hit);
    const int64_t shared = plan.resume.hit / config_.block_tokens;
    // The hit's blocks and its snapshot stop being evictable.
    int64_t available = Available();
    for (int64_t i = 0; i < shared; ++i)
      available -= index_[path_[static_cast<size_t>(i)].block].refs == 0 ? 1 : 0;
    const bool restores = plan.resume.mode == ResumeMode::kSnapshot;
    if (restores) available -= geometry_.snapshot_units;
    const int64_t needed = geometry_.slot_units + std::max<int64_t>(0, BlocksFor(reserve) - shared);
    if (needed > available) {
      if (restores) continue;
      return OutOfUnits(needed, available);
    }
    const uint32_t index = NewSequence(max_length);
    StartSequence(index, prompt, plan);
    if (restores) lru_.Remove(LruOfSnapshot(hit.windows->snapshot));
    SequenceRecord& sequence = sequences_[index];
    sequence.slot = TakeSlot(index, copies);
    Extend(sequence, static_cast<size_t>(BlocksFor(reserve)));
    if (restores) {
      lru_.PushBack(LruOfSnapshot(hit.windows->snapshot));
      AppendSnapshotCopy(CopyList::Kind::kRestore, sequence.slot, hit.windows->snapshot, copies);
    }
    Lead(index);
    return Admission{IdOf(sequence, index), plan.resume};
  }
  return Internal("the second of two attempts always decides", "admit");
}

// Fills the record and takes hold of the hit's blocks.
void StateCache::Impl::StartSequence(uint32_t index, const Prompt& prompt, const ResumePlan& plan) {
  SequenceRecord& sequence = sequences_[index];
  const Resume& resume = plan.resume;
  sequence.policy = prompt.policy;
  sequence.exactness = resume.exactness;
  sequence.prompt.assign(prompt.ids.begin(), prompt.ids.end());
  sequence.spans.assign(prompt.spans.begin(), prompt.spans.end());
  sequence.length = resume.start;
  sequence.furthest = resume.start;
  sequence.start = resume.start;
  sequence.write_floor = resume.hit;
  sequence.windows_from = plan.windows_from;
  sequence.chain_key = prompt.root;
  const auto shared = static_cast<size_t>(resume.hit / config_.block_tokens);
  for (size_t i = 0; i < shared; ++i) {
    const uint32_t block = path_[i].block;
    Ref(block);
    sequence.blocks.push_back(block);
    sequence.nodes.push_back(block);
    sequence.units.push_back(index_[block].unit);
    sequence.chain_key = path_[i].key;
  }
  if (prompt.policy == CachePolicy::kOff) return;
  ++counters_.lookups;
  counters_.prompt_tokens += prompt.ids.size();
  counters_.hit_tokens += static_cast<uint64_t>(resume.hit);
  counters_.skipped_tokens += static_cast<uint64_t>(resume.start);
  ++counters_.resumes[static_cast<size_t>(resume.mode)];
}

Status StateCache::Impl::Reserve(SequenceId id, int64_t end) {
  const uint32_t index = IndexOf(id);
  if (index == kNoIndex) return UnknownSequence();
  SequenceRecord& sequence = sequences_[index];
  if (end < 0 || end > sequence.max_length) {
    return InvalidArgument(fmt::format("{} is beyond the sequence's max_length {}", end, sequence.max_length),
                           "end");
  }
  const int64_t needed = BlocksFor(end) - static_cast<int64_t>(sequence.blocks.size());
  if (needed <= 0) return OkStatus();
  if (needed > Available()) return OutOfUnits(needed, Available());
  Extend(sequence, static_cast<size_t>(BlocksFor(end)));
  return OkStatus();
}

Status StateCache::Impl::Commit(SequenceId id, std::span<const int32_t> ids, int64_t written_end) {
  const uint32_t index = IndexOf(id);
  if (index == kNoIndex) return UnknownSequence();
  SequenceRecord& sequence = sequences_[index];
  const auto count = static_cast<int64_t>(ids.size());
  const int64_t end = sequence.length + count;
  const int64_t reserved = static_cast<int64_t>(sequence.blocks.size()) * config_.block_tokens;
  if (written_end < end || written_end > end + config_.max_rollback || written_end > reserved) {
    return InvalidArgument(fmt::format("{} is not in {} .. {}, with {} positions reserved", written_end, end,
                                       end + config_.max_rollback, reserved),
                           "written_end");
  }
  const int64_t in_prompt = std::clamp<int64_t>(sequence.prompt_length() - sequence.length, 0, count);
  if (!std::equal(ids.begin(), ids.begin() + in_prompt,
                  sequence.prompt.begin() + std::min(sequence.length, sequence.prompt_length()))) {
    return InvalidArgument("rows of the prompt have other ids than it had at admission", "ids");
  }
  for (int64_t position = sequence.length; position < end;) {
    const int64_t block = position / config_.block_tokens;
    const int64_t offset = position % config_.block_tokens;
    const int64_t run = std::min(config_.block_tokens - offset, end - position);
    // Sealed blocks, those of a hit that is fed again, have the same ids already.
    if (static_cast<size_t>(block) >= sequence.sealed()) {
      std::copy_n(ids.begin() + (position - sequence.length), run,
                  index_.Ids(sequence.blocks[static_cast<size_t>(block)]).begin() + offset);
    }
    position += run;
  }
  sequence.length = end;
  sequence.furthest = std::max(sequence.furthest, written_end);
  SealUpTo(index,
           std::max(std::min(end, sequence.prompt_length()), sequence.furthest - config_.max_rollback));
  return OkStatus();
}

Status StateCache::Impl::Rollback(SequenceId id, int64_t count) {
  const uint32_t index = IndexOf(id);
  if (index == kNoIndex) return UnknownSequence();
  SequenceRecord& sequence = sequences_[index];
  if (count == 0) return OkStatus();
  const int64_t end = sequence.length - count;
  if (count < 0 || count > config_.max_rollback || end < sequence.prompt_length() ||
      sequence.furthest - end > config_.max_rollback) {
    return InvalidArgument(
        fmt::format("{} rows cannot be dropped: the prompt has {}, {} are committed, {} were written, {} "
                    "can be taken back",
                    count, sequence.prompt_length(), sequence.length, sequence.furthest,
                    config_.max_rollback),
        "count");
  }
  sequence.length = end;
  if (sequence.pending_snapshot != kNoIndex && snapshots_[sequence.pending_snapshot].position > end) {
    RemoveSnapshot(sequence.pending_snapshot);
  }
  return OkStatus();
}

Result<SequenceId> StateCache::Impl::Fork(SequenceId id, CopyList* copies) {
  const uint32_t parent_index = IndexOf(id);
  if (parent_index == kNoIndex) return UnknownSequence();
  if (free_sequences_.empty()) {
    return ResourceExhausted(fmt::format("{} sequences run already", config_.max_sequences), "max_sequences");
  }
  const SequenceRecord& parent = sequences_[parent_index];
  const auto used = std::max(static_cast<size_t>(BlocksFor(parent.length)), parent.sealed());
  const int64_t needed = geometry_.slot_units + static_cast<int64_t>(used - parent.sealed());
  if (needed > Available()) return OutOfUnits(needed, Available());

  const uint32_t index = NewSequence(parent.max_length);
  SequenceRecord& child = sequences_[index];
  child.policy = parent.policy;
  child.exactness = parent.exactness;
  child.prompt = parent.prompt;
  child.spans = parent.spans;
  child.length = parent.length;
  child.furthest = parent.furthest;
  child.write_floor = parent.write_floor;
  child.start = parent.start;
  child.windows_from = parent.windows_from;
  child.chain_key = parent.chain_key;
  for (size_t i = 0; i < parent.sealed(); ++i) {
    child.blocks.push_back(parent.blocks[i]);
    child.units.push_back(parent.units[i]);
    child.nodes.push_back(parent.nodes[i]);
    Ref(parent.blocks[i]);
    if (parent.nodes[i] != kNoIndex && parent.nodes[i] != parent.blocks[i]) Ref(parent.nodes[i]);
  }
  child.slot = TakeSlot(index, copies);  // may move blocks of both
  Extend(child, used);
  for (size_t i = parent.sealed(); i < used; ++i) {
    std::ranges::copy(index_.Ids(parent.blocks[i]), index_.Ids(child.blocks[i]).begin());
    copies->copies.push_back({.kind = CopyList::Kind::kBlock, .from = parent.units[i], .to = child.units[i]});
  }
  copies->copies.push_back({.kind = CopyList::Kind::kState, .from = parent.slot, .to = child.slot});
  Lead(index);
  return IdOf(child, index);
}

Status StateCache::Impl::Release(SequenceId id, ReleaseMode mode) {
  const uint32_t index = IndexOf(id);
  if (index == kNoIndex) return UnknownSequence();
  SequenceRecord& sequence = sequences_[index];
  if (mode == ReleaseMode::kKeep) SealUpTo(index, sequence.length);
  StopLeading(index);
  if (sequence.pending_snapshot != kNoIndex) RemoveSnapshot(sequence.pending_snapshot);
  pool_.GiveExtent(sequence.slot);
  // Deepest first: the order in which they will be evicted.
  for (size_t i = sequence.blocks.size(); i-- > 0;) {
    if (i < sequence.sealed() && sequence.nodes[i] != kNoIndex && sequence.nodes[i] != sequence.blocks[i]) {
      Unref(sequence.nodes[i]);
    }
    Unref(sequence.blocks[i]);
  }
  sequence.live = false;
  free_sequences_.push_back(index);
  return OkStatus();
}

Result<SequenceView> StateCache::Impl::View(SequenceId id) const {
  const uint32_t index = IndexOf(id);
  if (index == kNoIndex) return UnknownSequence();
  const SequenceRecord& sequence = sequences_[index];
  return SequenceView{.units = sequence.units,
                      .table_version = sequence.table_version,
                      .slot = sequence.slot,
                      .length = sequence.length,
                      .prompt = sequence.prompt_length(),
                      .write_floor = sequence.write_floor,
                      .start = sequence.start,
                      .reserved = static_cast<int64_t>(sequence.blocks.size()) * config_.block_tokens,
                      .exactness = sequence.exactness};
}

}  // namespace deepinfer::cache
