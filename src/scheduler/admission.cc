// From the queue into the cache: forks of a computed prompt, admission, preemption.
#include <algorithm>

#include "base/checked.h"
#include "scheduler/scheduler_impl.h"

namespace deepinfer::scheduler {

void Scheduler::Impl::ExpireDeadlines() {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_us_) {
    Cancel(deadlines_.begin()->second, FinishReason::kDeadline);
  }
}

void Scheduler::Impl::TakePlace(Sequence* sequence, cache::SequenceId state) {
  sequence->state = state;
  sequence->slot = *free_slots_.begin();
  free_slots_.erase(free_slots_.begin());
  sequence->admit_order = next_order_++;
  sequence->pending_min = 0;
  sequence->pending_max = 0;
  sequence->last_sampling_step = 0;
  admitted_.push_back(sequence);
  by_state_[state] = sequence;
  ++num_running_;
}

/// Further samples take a copy of the first one's state; those that cannot compute the prompt again.
void Scheduler::Impl::ForkSamples(StepPlan* plan) {
  for (Sequence* child : std::exchange(forking_, {})) {
    if (ForkOne(child, plan)) {
      ++counters_.forks;
    } else {
      ++counters_.fork_recomputes;
      Enqueue(child);
    }
  }
}

bool Scheduler::Impl::ForkOne(Sequence* child, StepPlan* plan) {
  const Sequence* parent = Find(child->fork_parent);
  if (parent == nullptr || !parent->running() || parent->computed < parent->prompt_length()) return false;
  if (num_running_ >= config_.max_sequences || free_slots_.empty()) return false;
  const Result<cache::SequenceId> state = cache_->Fork(parent->state, &plan->copies);
  if (!state.ok()) return false;
  // Rows that the parent has committed since belong to its own sample.
  const int64_t surplus = parent->computed - parent->prompt_length();
  if (surplus > 0 && !cache_->Rollback(*state, surplus).ok()) {
    Expect(cache_->Release(*state, cache::ReleaseMode::kDiscard));
    return false;
  }
  TakePlace(child, *state);
  child->phase = SequencePhase::kDecode;
  child->admit_level = parent->admit_level;
  child->approximate = parent->approximate;
  child->reserved = parent->prompt_length();
  child->run_end = parent->prompt_length();
  child->planned = child->run_end;
  child->computed = child->run_end;
  return true;
}

void Scheduler::Impl::SaveWindows(StepPlan* plan) {
  if (!config_.window_snapshots) return;
  for (Sequence* sequence : admitted_) {
    if (!sequence->running() || sequence->preempting) continue;
    for (int64_t* point : {&sequence->points.again, &sequence->points.longer}) {
      if (*point == 0 || sequence->computed != *point || sequence->planned != *point) continue;
      Expect(cache_->SaveSnapshot(sequence->state, *point, &plan->copies).status());
      *point = 0;
    }
  }
}

int64_t Scheduler::Impl::DecoderTail(const Sequence& sequence) const {
  const Request& request = sequence.shared->request;
  switch (request.prefill_mode) {
    case PrefillMode::kFull: return sequence.known();
    case PrefillMode::kExactHalo: return std::min(sequence.known(), config_.exact_halo_rows);
    case PrefillMode::kBoundedReplay: break;
  }
  // The cut belongs to the prompt as it was sent: output that is computed again runs through all layers, as it did before.
  const int64_t keep =
      request.keep_tokens != 0 ? request.keep_tokens : cache_config_.window + config_.ReservedPositions();
  return sequence.known() - std::max<int64_t>(0, sequence.prompt_length() - keep);
}

cache::Prompt Scheduler::Impl::PromptOf(const Sequence& sequence) const {
  const Request& request = sequence.shared->request;
  cache::CachePolicy policy = request.cache_policy;
  // The tokens given out so far came from exact state: a recomputation must not continue from another one.
  if (sequence.preemptions > 0 && !sequence.approximate && policy == cache::CachePolicy::kDeepseek) {
    policy = cache::CachePolicy::kStrict;
  }
  return {.ids = sequence.ids,
          .spans = request.content_spans,
          .root = request.cache_root,
          .policy = policy,
          .decoder_tail = DecoderTail(sequence)};
}

bool Scheduler::Impl::Park(Sequence* sequence, const cache::Resume& probe) {
  const auto leader = by_state_.find(probe.leader);
  if (leader == by_state_.end() || !leader->second->running() || leader->second->preempting) return false;
  const cache::Prompt prompt = PromptOf(*sequence);
  const int64_t hit = std::min(probe.leader_tokens, RoundUp(sequence->known(), cache_config_.block_tokens) -
                                                        cache_config_.block_tokens);
  const int64_t before_tail = std::max<int64_t>(0, sequence->known() - prompt.decoder_tail);
  const int64_t replay =
      prompt.policy == cache::CachePolicy::kStrict ? cache_config_.exact_replay : cache_config_.window;
  const int64_t start = prompt.policy == cache::CachePolicy::kStrict ? std::min(hit, before_tail) - replay
                                                                     : std::min(hit - replay, before_tail);
  if (start - probe.start < config_.single_flight_min_rows) return false;
  if (leader->second->computed >= hit) return false;
  queue_.Remove(sequence->id);
  sequence->phase = SequencePhase::kParked;
  parked_[probe.leader].emplace(hit, sequence);
  ++counters_.parked;
  return true;
}

/// Keeps one block for each running sequence to grow into, or a sixteenth of the pool: fresh prompts must not cause preemptions.
bool Scheduler::Impl::HasRoomFor(const Sequence& sequence, int64_t hit) const {
  if (num_running_ == 0) return true;
  const int64_t growth = std::min(num_running_, cache_->total_units() / 16);
  return cache_->usage().available() >=
         UnitsFor(sequence.known() + config_.ReservedPositions() - hit) + growth;
}

Scheduler::Impl::AdmitOutcome Scheduler::Impl::AdmitOne(Sequence* sequence, StepPlan* plan) {
  if (UnitsFor(sequence->known() + config_.ReservedPositions()) >
      cache_->total_units() - cache_->usage().padding) {
    End(sequence, FinishReason::kCapacity);  // preempted when it had nearly outgrown the pool
    return AdmitOutcome::kEnded;
  }
  const cache::Prompt prompt = PromptOf(*sequence);
  cache::Resume probe;
  if (prompt.policy != cache::CachePolicy::kOff) {
    const Result<cache::Resume> found = cache_->Probe(prompt);
    if (found.ok()) probe = *found;
    if (Park(sequence, probe)) return AdmitOutcome::kParked;
  }
  if (!HasRoomFor(*sequence, probe.hit)) return AdmitOutcome::kBlocked;
  const Result<cache::Admission> admission =
      cache_->Admit(prompt, sequence->known() + config_.ReservedPositions(),
                    sequence->limit() + config_.ReservedPositions(), &plan->copies);
  if (!admission.ok()) {
    if (admission.status().code() == StatusCode::kResourceExhausted) return AdmitOutcome::kBlocked;
    End(sequence, FinishReason::kError);
    return AdmitOutcome::kEnded;
  }
  sequence->admit_level = queue_.LevelOf(sequence->id);
  queue_.Remove(sequence->id);
  StartRun(sequence, *admission);
  return AdmitOutcome::kAdmitted;
}

void Scheduler::Impl::StartRun(Sequence* sequence, const cache::Admission& admission) {
  TakePlace(sequence, admission.sequence);
  const cache::Resume& resume = admission.resume;
  const bool approximate = resume.exactness == cache::Exactness::kApproximate;
  if (sequence->preemptions == 0) {
    counters_.prompt_tokens += static_cast<uint64_t>(sequence->known());
    counters_.hit_tokens += static_cast<uint64_t>(resume.hit);
  } else if (sequence->approximate || approximate) {
    ++counters_.inexact_recomputes;
  }
  sequence->phase = SequencePhase::kPrefill;
  sequence->resume = resume;
  sequence->approximate = approximate;
  sequence->reserved = sequence->known() + config_.ReservedPositions();
  sequence->run_end = sequence->known();
  sequence->decoder_begin = sequence->known() - DecoderTail(*sequence);
  sequence->planned = resume.start;
  sequence->computed = resume.start;
  sequence->points = {};
  if (!config_.window_snapshots || sequence->shared->request.cache_policy == cache::CachePolicy::kOff) return;
  // Windows are right when a whole window was fed, after an exact replay so much later that they are exact.
  int64_t right_from = resume.start + cache_config_.window;
  if (resume.mode == cache::ResumeMode::kExactReplay) right_from = resume.start + cache_config_.exact_replay;
  if (resume.mode == cache::ResumeMode::kSnapshot || resume.start == 0) right_from = resume.start + 1;
  sequence->points = cache_->PointsOf(PromptOf(*sequence));
  for (int64_t* point : {&sequence->points.again, &sequence->points.longer}) {
    if (*point < right_from) *point = 0;
  }
}

/// The running sequence of the lowest level under `below_level`, of these the one admitted last: the oldest always gets through.
Sequence* Scheduler::Impl::Victim(int below_level) const {
  Sequence* victim = nullptr;
  for (Sequence* sequence : admitted_) {
    if (!sequence->running() || sequence->preempting || sequence->admit_level >= below_level) continue;
    if (victim == nullptr || sequence->admit_level < victim->admit_level ||
        (sequence->admit_level == victim->admit_level && sequence->admit_order > victim->admit_order)) {
      victim = sequence;
    }
  }
  return victim;
}

/// Makes room for a waiting sequence of a higher priority. True when a place came free at once.
bool Scheduler::Impl::PreemptFor(const Sequence& waiting) {
  if (num_leaving_ > 0) return false;  // room is on its way
  Sequence* victim = Victim(waiting.shared->request.priority);
  if (victim == nullptr) return false;
  const bool at_once = victim->in_flight == 0;
  StartPreemption(victim);
  return at_once;
}

void Scheduler::Impl::Admit(StepPlan* plan) {
  while (true) {
    // Asking for the head puts its users in order, which is not worth it when nobody could come in.
    const bool full = num_running_ >= config_.max_sequences || free_slots_.empty();
    if (full && (num_leaving_ > 0 || Victim(queue_.HighestPriority()) == nullptr)) return;
    const std::optional<SequenceId> head = queue_.Head(now_us_);
    if (!head.has_value()) return;
    Sequence* sequence = Find(*head);
    if (!full) {
      const bool tried = blocked_.sequence == sequence->id && num_running_ > 0 &&
                         cache_->usage().available() <= blocked_.available &&
                         num_running_ >= blocked_.running;
      if (!tried && AdmitOne(sequence, plan) != AdmitOutcome::kBlocked) continue;
      blocked_ = {sequence->id, cache_->usage().available(), num_running_};
    }
    if (!PreemptFor(*sequence)) return;
  }
}

}  // namespace deepinfer::scheduler
