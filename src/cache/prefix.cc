// Look-ups in the prefix index, and publishing into it.
#include <algorithm>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "cache/cache_impl.h"

namespace deepinfer::cache {

Status StateCache::Impl::CheckPrompt(const Prompt& prompt) const {
  if (prompt.ids.empty()) return InvalidArgument("a prompt has at least one id", "prompt.ids");
  if (prompt.decoder_tail < 1) {
    return InvalidArgument(fmt::format("{} is not positive", prompt.decoder_tail), "prompt.decoder_tail");
  }
  int64_t end = 0;
  for (size_t i = 0; i < prompt.spans.size(); ++i) {
    const ContentSpan& span = prompt.spans[i];
    const auto length = static_cast<int64_t>(prompt.ids.size());
    if (span.length < 1 || span.length > kMaxSpanLength || span.begin < end ||
        span.begin > length - span.length) {
      return InvalidArgument(
          fmt::format("[{}, +{}) is empty, longer than {}, out of order or outside the prompt", span.begin,
                      span.length, kMaxSpanLength),
          fmt::format("prompt.spans[{}]", i));
    }
    end = span.begin + span.length;
  }
  return OkStatus();
}

std::span<const BlockItem> StateCache::Impl::ItemsOf(std::span<const ContentSpan> spans, int64_t block) {
  items_.clear();
  const int64_t begin = block * config_.block_tokens;
  const int64_t end = begin + config_.block_tokens;
  auto span =
      std::ranges::partition_point(spans, [&](const ContentSpan& s) { return s.begin + s.length <= begin; });
  for (; span != spans.end() && span->begin < end; ++span) {
    const int64_t first = std::max(span->begin, begin);
    const int64_t last = std::min(span->begin + span->length, end);
    items_.push_back({.kind = span->kind,
                      .offset = static_cast<uint16_t>(first - span->begin),
                      .length = static_cast<uint16_t>(last - first),
                      .content = span->content});
  }
  return items_;
}

// Follows the prompt through the index. Where blocks of both classes exist, the exact one is taken.
void StateCache::Impl::Walk(const Prompt& prompt, int64_t max_blocks) {
  path_.clear();
  path_missed_ = false;
  if (prompt.policy == CachePolicy::kOff) return;
  BlockContent content{.parent = kNoIndex, .parent_key = prompt.root};
  const auto tokens = static_cast<size_t>(config_.block_tokens);
  for (int64_t block = 0; block < max_blocks; ++block) {
    content.ids = prompt.ids.subspan(static_cast<size_t>(block) * tokens, tokens);
    content.items = ItemsOf(prompt.spans, block);
    content.key = config_.hasher->BlockKey(content.parent_key, content.ids, content.items);
    uint32_t found = index_.Find(content, Exactness::kExact);
    if (found == kNoIndex && prompt.policy == CachePolicy::kDeepseek) {
      found = index_.Find(content, Exactness::kApproximate);
    }
    if (found == kNoIndex) {
      path_missed_ = true;
      missed_key_ = content.key;
      return;
    }
    path_.push_back({found, content.key});
    content.parent = found;
    content.parent_key = content.key;
  }
}

PrefixHit StateCache::Impl::UsableHit(const Prompt& prompt, bool snapshots) const {
  PrefixHit hit;
  hit.tokens = static_cast<int64_t>(path_.size()) * config_.block_tokens;
  const int64_t last_position = static_cast<int64_t>(prompt.ids.size()) - prompt.decoder_tail;
  for (size_t i = 0; i < path_.size(); ++i) {
    const Block& block = index_[path_[i].block];
    if (block.exactness == Exactness::kApproximate) hit.exactness = Exactness::kApproximate;
    const int64_t position = static_cast<int64_t>(i + 1) * config_.block_tokens;
    if (!snapshots || block.snapshot == kNoIndex || position > last_position) continue;
    const Exactness exactness = snapshots_[block.snapshot].exactness;
    if (prompt.policy == CachePolicy::kStrict && exactness == Exactness::kApproximate) continue;
    hit.windows = {.snapshot = block.snapshot, .position = position, .exactness = exactness};
  }
  return hit;
}

Result<Resume> StateCache::Impl::Probe(const Prompt& prompt) {
  DEEPINFER_RETURN_IF_ERROR(CheckPrompt(prompt));
  Walk(prompt, (static_cast<int64_t>(prompt.ids.size()) - 1) / config_.block_tokens);
  Resume resume = PlanResume(config_, prompt, UsableHit(prompt, true)).resume;
  FindLeader(prompt, &resume);
  return resume;
}

uint32_t StateCache::Impl::LeaderBucket(const Digest& key) const {
  uint32_t head = 0;
  std::memcpy(&head, key.data(), sizeof head);
  return head & static_cast<uint32_t>(leader_buckets_.size() - 1);
}

// After a Walk that ended at a missing block: who is about to publish it?
void StateCache::Impl::FindLeader(const Prompt& prompt, Resume* resume) const {
  if (!path_missed_) return;
  const size_t depth = path_.size();
  const auto tokens = static_cast<size_t>(config_.block_tokens);
  for (uint32_t i = leader_buckets_[LeaderBucket(missed_key_)]; i != kNoIndex;
       i = sequences_[i].leader_next) {
    const SequenceRecord& leader = sequences_[i];
    const uint32_t parent = depth == 0 ? kNoIndex : path_.back().block;
    if (leader.next_key != missed_key_ || leader.sealed() != depth) continue;
    if ((depth == 0 ? kNoIndex : leader.nodes.back()) != parent ||
        (depth == 0 && leader.chain_key != prompt.root))
      continue;
    if (prompt.policy == CachePolicy::kStrict && leader.exactness == Exactness::kApproximate) continue;
    const auto [mine, theirs] = std::ranges::mismatch(prompt.ids.subspan(depth * tokens),
                                                      std::span(leader.prompt).subspan(depth * tokens));
    int64_t common = mine - prompt.ids.begin();
    // Up to the first span that is not the same.
    const auto [my_span, their_span] =
        std::ranges::mismatch(prompt.spans, leader.spans, [](const ContentSpan& a, const ContentSpan& b) {
          return a.kind == b.kind && a.begin == b.begin && a.length == b.length && a.content == b.content;
        });
    if (my_span != prompt.spans.end()) common = std::min(common, my_span->begin);
    if (their_span != leader.spans.end()) common = std::min(common, their_span->begin);
    // A prompt's last row is never a hit.
    common = std::min(common, static_cast<int64_t>(prompt.ids.size()) - 1) / config_.block_tokens *
             config_.block_tokens;
    if (common <= static_cast<int64_t>(depth * tokens) || common <= resume->leader_tokens) continue;
    resume->leader = IdOf(leader, i);
    resume->leader_tokens = common;
  }
}

Exactness StateCache::Impl::ClassAt(const SequenceRecord& sequence, int64_t end) const {
  return end <= sequence.prompt_length() || config_.exact_decode ? sequence.exactness
                                                                 : Exactness::kApproximate;
}

void StateCache::Impl::SealUpTo(uint32_t index, int64_t limit) {
  SequenceRecord& sequence = sequences_[index];
  while (static_cast<int64_t>(sequence.sealed() + 1) * config_.block_tokens <= limit) Seal(index);
}

// Makes the sequence's next full block immutable and, when its policy wants that, findable.
void StateCache::Impl::Seal(uint32_t index) {
  SequenceRecord& sequence = sequences_[index];
  const size_t depth = sequence.sealed();
  const uint32_t own = sequence.blocks[depth];
  const uint32_t parent = depth == 0 ? kNoIndex : sequence.nodes.back();
  const int64_t end = static_cast<int64_t>(depth + 1) * config_.block_tokens;
  const Exactness exactness = ClassAt(sequence, end);
  const bool attached = sequence.policy != CachePolicy::kOff && (depth == 0 || parent != kNoIndex);
  if (!attached || (sequence.policy == CachePolicy::kStrict && exactness == Exactness::kApproximate)) {
    StopLeading(index);
    sequence.nodes.push_back(kNoIndex);
    return;
  }
  BlockContent content{.parent = parent, .parent_key = sequence.chain_key, .ids = index_.Ids(own)};
  content.items = ItemsOf(sequence.spans, static_cast<int64_t>(depth));
  content.key = sequence.leads ? sequence.next_key
                               : config_.hasher->BlockKey(content.parent_key, content.ids, content.items);
  StopLeading(index);
  uint32_t equal = index_.Find(content, Exactness::kExact);
  if (equal == kNoIndex && exactness == Exactness::kApproximate) equal = index_.Find(content, exactness);
  if (equal != kNoIndex) {
    AdoptEqual(sequence, equal, exactness);
  } else {
    index_.Publish(own, content, exactness);
    sequence.nodes.push_back(own);
    ++counters_.published;
  }
  sequence.chain_key = content.key;
  AttachPending(sequence, end, sequence.nodes.back());
  Lead(index);
}

// Two exact blocks of equal content have equal bytes, so one is enough. An approximate sequence goes on reading what it computed itself:
// what others publish must not change its numbers.
void StateCache::Impl::AdoptEqual(SequenceRecord& sequence, uint32_t node, Exactness exactness) {
  const size_t depth = sequence.sealed();
  Ref(node);
  sequence.nodes.push_back(node);
  if (exactness == Exactness::kApproximate) return;
  Unref(sequence.blocks[depth]);
  sequence.blocks[depth] = node;
  sequence.units[depth] = index_[node].unit;
  ++sequence.table_version;
  ++counters_.deduplicated;
}

// Announces the next block when the prompt already tells its ids.
void StateCache::Impl::Lead(uint32_t index) {
  SequenceRecord& sequence = sequences_[index];
  const auto tokens = static_cast<size_t>(config_.block_tokens);
  const size_t depth = sequence.sealed();
  if (sequence.policy == CachePolicy::kOff || (depth > 0 && sequence.nodes.back() == kNoIndex) ||
      (depth + 1) * tokens > sequence.prompt.size()) {
    return;
  }
  sequence.next_key =
      config_.hasher->BlockKey(sequence.chain_key, std::span(sequence.prompt).subspan(depth * tokens, tokens),
                               ItemsOf(sequence.spans, static_cast<int64_t>(depth)));
  uint32_t& front = leader_buckets_[LeaderBucket(sequence.next_key)];
  sequence.leads = true;
  sequence.leader_next = front;
  sequence.leader_previous = kNoIndex;
  if (front != kNoIndex) sequences_[front].leader_previous = index;
  front = index;
}

void StateCache::Impl::StopLeading(uint32_t index) {
  SequenceRecord& sequence = sequences_[index];
  if (!sequence.leads) return;
  sequence.leads = false;
  (sequence.leader_previous == kNoIndex ? leader_buckets_[LeaderBucket(sequence.next_key)]
                                        : sequences_[sequence.leader_previous].leader_next) =
      sequence.leader_next;
  if (sequence.leader_next != kNoIndex)
    sequences_[sequence.leader_next].leader_previous = sequence.leader_previous;
}

Result<PinId> StateCache::Impl::PinPrefix(const Prompt& prompt) {
  DEEPINFER_RETURN_IF_ERROR(CheckPrompt(prompt));
  Walk(prompt, static_cast<int64_t>(prompt.ids.size()) / config_.block_tokens);
  if (path_.empty()) return PinId::kNone;
  for (const PathStep& step : path_) Ref(step.block);
  pins_.emplace(++last_pin_, path_.back().block);
  return static_cast<PinId>(last_pin_);
}

Status StateCache::Impl::Unpin(PinId id) {
  const auto pin = pins_.find(static_cast<uint64_t>(id));
  if (pin == pins_.end()) return InvalidArgument("no such pin", "pin");
  uint32_t block = pin->second;
  pins_.erase(pin);
  while (block != kNoIndex) {
    const uint32_t parent = index_[block].parent;
    Unref(block);
    block = parent;
  }
  return OkStatus();
}

}  // namespace deepinfer::cache
