#include "scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "scheduler/event_log.h"
#include "scheduler/scheduler_impl.h"

namespace deepinfer::scheduler {

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCapacity: return "capacity";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kDeadline: return "deadline";
    case FinishReason::kError: return "error";
  }
  return "unknown";
}

std::string_view SequencePhaseName(SequencePhase phase) {
  switch (phase) {
    case SequencePhase::kWaiting: return "waiting";
    case SequencePhase::kParked: return "parked";
    case SequencePhase::kAwaitingPrompt: return "awaiting_prompt";
    case SequencePhase::kForking: return "forking";
    case SequencePhase::kPrefill: return "prefill";
    case SequencePhase::kDecode: return "decode";
    case SequencePhase::kEnding: return "ending";
  }
  return "unknown";
}

Result<std::unique_ptr<Scheduler>> Scheduler::Create(const SchedulerConfig& config, cache::StateCache* cache,
                                                     const cache::CacheConfig& cache_config) {
  DEEPINFER_RETURN_IF_ERROR(config.Validate());
  if (config.max_sequences > cache_config.max_sequences || config.Slots() > cache_config.max_sequences) {
    return InvalidArgument(fmt::format("the cache holds {} sequences, {} slots are wanted",
                                       cache_config.max_sequences, config.Slots()),
                           "max_sequences");
  }
  if (config.ReservedPositions() > cache_config.max_rollback) {
    return InvalidArgument(
        fmt::format("2 * (draft_tokens + 1) = {} rows may be taken back, the rings hold {}",
                    config.ReservedPositions(), cache_config.max_rollback),
        "draft_tokens");
  }
  return std::unique_ptr<Scheduler>(new Scheduler(std::make_unique<Impl>(config, cache, cache_config)));
}

Scheduler::Scheduler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Scheduler::~Scheduler() = default;

void Scheduler::RecordTo(std::string* log) {
  log_ = log;
  if (log_ != nullptr) *log_ += ConfigLine(impl_->config_);
}

Result<SequenceId> Scheduler::Submit(Request request, int64_t now_us) {
  if (log_ != nullptr) *log_ += SubmitLine(request, now_us);
  return impl_->Submit(std::move(request), now_us);
}
bool Scheduler::Cancel(RequestId request) {
  if (log_ != nullptr) *log_ += CancelLine(request);
  return impl_->Cancel(request, FinishReason::kCancelled);
}
bool Scheduler::Finish(SequenceId sequence, FinishReason reason) {
  if (log_ != nullptr) *log_ += FinishLine(sequence, reason);
  return impl_->FinishOne(sequence, reason);
}
bool Scheduler::Preempt(SequenceId sequence) {
  if (log_ != nullptr) *log_ += PreemptLine(sequence);
  return impl_->Preempt(sequence);
}
StepPlan Scheduler::Plan(int64_t now_us) {
  StepPlan plan = impl_->Plan(now_us);
  if (log_ != nullptr) *log_ += PlanLine(now_us, plan);
  return plan;
}
std::vector<SamplingRow> Scheduler::SamplingRows(StepId step) const { return impl_->SamplingRows(step); }
Status Scheduler::Commit(const StepResult& result, int64_t now_us) {
  if (log_ != nullptr) *log_ += CommitLine(result, now_us);
  return impl_->Commit(result, now_us);
}
Status Scheduler::Fail(StepId step) {
  if (log_ != nullptr) *log_ += FailLine(step);
  return impl_->Fail(step);
}
std::vector<Finished> Scheduler::TakeFinished() { return std::exchange(impl_->finished_, {}); }
Result<SequenceInfo> Scheduler::Info(SequenceId sequence) const { return impl_->Info(sequence); }
const SchedulerConfig& Scheduler::config() const { return impl_->config_; }
int64_t Scheduler::num_running() const { return impl_->num_running_; }
int64_t Scheduler::num_waiting() const { return impl_->num_live_ - impl_->num_running_; }
int64_t Scheduler::num_steps_in_flight() const { return static_cast<int64_t>(impl_->in_flight_.size()); }
const SchedulerCounters& Scheduler::counters() const { return impl_->counters_; }
int64_t Scheduler::NextDeadline() const {
  return impl_->deadlines_.empty() ? kNoDeadline : impl_->deadlines_.begin()->first;
}
Status Scheduler::Audit() const { return impl_->Audit(); }
Status Scheduler::AuditIdle() const { return impl_->AuditIdle(); }

Scheduler::Impl::Impl(const SchedulerConfig& config, cache::StateCache* cache,
                      const cache::CacheConfig& cache_config)
    : config_(config), cache_(cache), cache_config_(cache_config), queue_(config) {
  for (int32_t slot = 0; slot < config.Slots(); ++slot) free_slots_.insert(free_slots_.end(), slot);
}

void Scheduler::Impl::Expect(Status status) {
  if (!status.ok() && defect_.ok()) defect_ = std::move(status);
}

int64_t Scheduler::Impl::UnitsFor(int64_t positions) const {
  return cache_->slot_units() + CeilDiv(positions, cache_config_.block_tokens);
}

Status Scheduler::Impl::CheckRequest(const Request& request) const {
  if (request.id == 0 || requests_.contains(request.id)) {
    return InvalidArgument("must be greater than 0 and not the id of a live request", "id");
  }
  if (request.priority < -kMaxPriority || request.priority > kMaxPriority) {
    return InvalidArgument(
        fmt::format("must be in [{}, {}], not {}", -kMaxPriority, kMaxPriority, request.priority),
        "priority");
  }
  if (request.max_tokens < 0) return InvalidArgument("must not be negative", "max_tokens");
  const int64_t least_output = request.max_tokens > 0 ? 1 : 0;
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt < 1 || prompt > config_.context_limit - least_output) {
    return InvalidArgument(
        fmt::format("must have 1 to {} tokens, not {}", config_.context_limit - least_output, prompt),
        "prompt");
  }
  if (std::ranges::any_of(request.prompt, [](int32_t id) { return id < 0; })) {
    return InvalidArgument("token ids must not be negative", "prompt");
  }
  const int most_samples = request.max_tokens > 0 ? config_.max_sequences : 1;
  if (request.num_samples < 1 || request.num_samples > most_samples) {
    return InvalidArgument(fmt::format("must be in [1, {}], not {}", most_samples, request.num_samples),
                           "num_samples");
  }
  if (request.max_drafts < 0) return InvalidArgument("must not be negative", "max_drafts");
  if (request.keep_tokens != 0 && request.keep_tokens < cache_config_.window) {
    return InvalidArgument(fmt::format("must be 0 or at least the window of {} rows, not {}",
                                       cache_config_.window, request.keep_tokens),
                           "keep_tokens");
  }
  int64_t end = 0;
  for (const cache::ContentSpan& span : request.content_spans) {
    if (span.begin < end || span.length < 1 || span.length > cache::kMaxSpanLength ||
        span.begin > prompt - span.length) {
      return InvalidArgument("spans must be ascending, disjoint and inside the prompt", "content_spans");
    }
    end = span.begin + span.length;
  }
  return OkStatus();
}

Result<SequenceId> Scheduler::Impl::Submit(Request request, int64_t now_us) {
  now_us_ = std::max(now_us_, now_us);
  DEEPINFER_RETURN_IF_ERROR(CheckRequest(request));
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t units = UnitsFor(prompt + config_.ReservedPositions());
  const int64_t total = cache_->total_units() - cache_->usage().padding;
  if (units > total) {
    return ResourceExhausted(
        fmt::format(
            "a prompt of {} tokens needs {} units of memory (state {}, {} tokens each), the pool has {}",
            prompt, units, cache_->slot_units(), cache_config_.block_tokens, total),
        "prompt");
  }
  if (num_live_ - num_running_ + request.num_samples > config_.max_waiting) {
    return ResourceExhausted(fmt::format("{} sequences wait already", config_.max_waiting), "max_waiting");
  }
  auto shared = std::make_shared<RequestState>();
  shared->user = queue_.Acquire(request.user);
  shared->prompt_length = prompt;
  shared->length_limit = prompt + std::min(request.max_tokens, config_.context_limit - prompt);
  if (request.deadline_us != kNoDeadline) deadlines_.insert({request.deadline_us, request.id});
  shared->request = std::move(request);
  const SequenceId first = next_sequence_;
  for (int sample = 0; sample < shared->request.num_samples; ++sample) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = next_sequence_++;
    sequence->sample_index = sample;
    sequence->shared = shared;
    sequence->order = next_order_++;
    sequence->since_us = now_us_;
    sequence->phase = SequencePhase::kAwaitingPrompt;
    shared->live.push_back(sequence.get());
    sequences_.emplace(sequence->id, std::move(sequence));
  }
  requests_.emplace(shared->request.id, shared);
  num_live_ += shared->request.num_samples;
  ++counters_.requests;
  PromoteSample(shared);
  return first;
}

/// The first sample that still waits for the prompt computes it itself.
void Scheduler::Impl::PromoteSample(const std::shared_ptr<RequestState>& shared) {
  for (Sequence* sample : shared->live) {
    if (sample->phase != SequencePhase::kAwaitingPrompt) continue;
    if (sample->in_flight > 0) return;  // its first token is being drawn
    sample->ids = shared->request.prompt;
    Enqueue(sample);
    return;
  }
}

Sequence* Scheduler::Impl::Find(SequenceId sequence) const {
  const auto found = sequences_.find(sequence);
  return found == sequences_.end() ? nullptr : found->second.get();
}

void Scheduler::Impl::Enqueue(Sequence* sequence) {
  sequence->phase = SequencePhase::kWaiting;
  queue_.Push({.sequence = sequence->id,
               .user = sequence->shared->user,
               .priority = sequence->shared->request.priority,
               .deadline_us = sequence->shared->request.deadline_us,
               .since_us = sequence->since_us,
               .order = sequence->order},
              now_us_);
}

bool Scheduler::Impl::Cancel(RequestId request, FinishReason reason) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return false;
  // The last sample first: none of them then takes over the prompt of an earlier one.
  const std::shared_ptr<RequestState> shared = found->second;
  while (!shared->live.empty()) End(shared->live.back(), reason);
  return true;
}

bool Scheduler::Impl::FinishOne(SequenceId id, FinishReason reason) {
  Sequence* sequence = Find(id);
  if (sequence == nullptr || sequence->phase == SequencePhase::kEnding) return false;
  End(sequence, reason);
  return true;
}

bool Scheduler::Impl::Preempt(SequenceId id) {
  Sequence* sequence = Find(id);
  if (sequence == nullptr || !sequence->running() || sequence->preempting) return false;
  StartPreemption(sequence);
  return true;
}

void Scheduler::Impl::DetachWaiting(Sequence* sequence) {
  switch (sequence->phase) {
    case SequencePhase::kWaiting: queue_.Remove(sequence->id); break;
    case SequencePhase::kForking: std::erase(forking_, sequence); break;
    case SequencePhase::kParked:
      for (auto leader = parked_.begin(); leader != parked_.end(); ++leader) {
        if (std::erase_if(leader->second, [&](const auto& entry) { return entry.second == sequence; }) == 0) {
          continue;
        }
        if (leader->second.empty()) parked_.erase(leader);
        break;
      }
      break;
    default: break;
  }
}

void Scheduler::Impl::End(Sequence* sequence, FinishReason reason) {
  const std::shared_ptr<RequestState> shared = sequence->shared;
  DetachWaiting(sequence);
  const bool computed_prompt = sequence->phase != SequencePhase::kAwaitingPrompt;
  if (sequence->running()) {
    --num_running_;
    if (sequence->in_flight > 0 && !sequence->preempting) ++num_leaving_;
    if (sequence->in_flight == 0 && sequence->preempting) --num_leaving_;
  }
  sequence->phase = SequencePhase::kEnding;
  --num_live_;
  finished_.push_back({shared->request.id, sequence->id, sequence->sample_index, reason});
  ++counters_.finished[static_cast<size_t>(reason)];
  std::erase(shared->live, sequence);
  if (shared->live.empty()) {
    if (shared->request.deadline_us != kNoDeadline) {
      deadlines_.erase({shared->request.deadline_us, shared->request.id});
    }
    requests_.erase(shared->request.id);
    queue_.Release(shared->user);
  }
  if (reason == FinishReason::kError && sequence->in_flight == 0 &&
      sequence->state != cache::SequenceId::kNone) {
    ReleaseState(sequence, cache::ReleaseMode::kDiscard);
  }
  Settle(sequence);
  if (computed_prompt) PromoteSample(shared);
}

void Scheduler::Impl::Settle(Sequence* sequence) {
  if (sequence->in_flight > 0) return;
  if (sequence->phase == SequencePhase::kEnding) {
    if (sequence->state != cache::SequenceId::kNone) ReleaseState(sequence, cache::ReleaseMode::kKeep);
    sequences_.erase(sequence->id);
  } else if (sequence->preempting) {
    --num_leaving_;
    Requeue(sequence);
  }
}

void Scheduler::Impl::ReleaseState(Sequence* sequence, cache::ReleaseMode mode) {
  const cache::SequenceId state = std::exchange(sequence->state, cache::SequenceId::kNone);
  by_state_.erase(state);
  std::erase(admitted_, sequence);
  free_slots_.insert(std::exchange(sequence->slot, -1));
  Expect(cache_->Release(state, mode));
  WakeParked(state, std::numeric_limits<int64_t>::max());
}

void Scheduler::Impl::StartPreemption(Sequence* sequence) {
  ++sequence->preemptions;
  ++counters_.preemptions;
  if (sequence->in_flight == 0) {
    Requeue(sequence);
  } else {
    sequence->preempting = true;
    ++num_leaving_;
  }
}

void Scheduler::Impl::Requeue(Sequence* sequence) {
  ReleaseState(sequence, cache::ReleaseMode::kKeep);
  --num_running_;
  sequence->preempting = false;
  // Ageing starts anew: a sequence that was taken out for a higher priority must not come back before it.
  sequence->since_us = now_us_;
  Enqueue(sequence);
}

void Scheduler::Impl::WakeParked(cache::SequenceId leader, int64_t published) {
  const auto found = parked_.find(leader);
  if (found == parked_.end()) return;
  auto& waiting = found->second;
  while (!waiting.empty() && waiting.begin()->first <= published) {
    Enqueue(waiting.begin()->second);
    waiting.erase(waiting.begin());
  }
  if (waiting.empty()) parked_.erase(found);
}

std::vector<SamplingRow> Scheduler::Impl::SamplingRows(StepId step) const {
  std::vector<SamplingRow> rows;
  const auto found = std::ranges::find(in_flight_, step, &InFlight::id);
  if (found == in_flight_.end()) return rows;
  for (size_t i = 0; i < found->flights.size(); ++i) {
    const Flight& flight = found->flights[i];
    if (!flight.sample) continue;
    const auto add = [&](const Sequence& sequence, int64_t position, int32_t slot) {
      if (sequence.phase == SequencePhase::kEnding) return;
      const Request& request = sequence.shared->request;
      rows.push_back({sequence.id, static_cast<int32_t>(i), slot, sequence.sample_index, position,
                      request.seed, request.constrained});
    };
    add(*flight.sequence, flight.sequence->known(), flight.sequence->slot);
    for (const Sequence* sample : flight.samples) add(*sample, sample->prompt_length(), -1);
  }
  return rows;
}

Result<SequenceInfo> Scheduler::Impl::Info(SequenceId id) const {
  const Sequence* sequence = Find(id);
  if (sequence == nullptr) return NotFound("no such live sequence", "sequence");
  return SequenceInfo{.request = sequence->shared->request.id,
                      .sample_index = sequence->sample_index,
                      .phase = sequence->phase,
                      .state = sequence->state,
                      .prompt_length = sequence->prompt_length(),
                      .ids = sequence->ids,
                      .remaining = sequence->limit() - std::max(sequence->known(), sequence->prompt_length()),
                      .preemptions = sequence->preemptions,
                      .approximate = sequence->approximate};
}

}  // namespace deepinfer::scheduler
