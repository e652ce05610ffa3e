// Taking in the results of a step.
#include <algorithm>

#include <fmt/format.h>

#include "scheduler/scheduler_impl.h"

namespace deepinfer::scheduler {

Status Scheduler::Impl::MatchResults(const StepResult& result,
                                     std::vector<const SequenceResult*>* matched) const {
  size_t next = 0;
  const auto match = [&](const Sequence& sequence, int32_t num_drafts) -> Status {
    const bool live = sequence.phase != SequencePhase::kEnding;
    const bool here = next < result.sequences.size() && result.sequences[next].sequence == sequence.id;
    if (!here && live) {
      return InvalidArgument(fmt::format("step {} has no result for sequence {}", result.step, sequence.id),
                             "sequences");
    }
    matched->push_back(here && live ? &result.sequences[next] : nullptr);
    if (!here) return OkStatus();
    const SequenceResult& entry = result.sequences[next++];
    if (entry.num_tokens < 1 || entry.num_tokens > num_drafts + 1 ||
        std::any_of(entry.tokens.begin(), entry.tokens.begin() + entry.num_tokens,
                    [](int32_t id) { return id < 0; })) {
      return InvalidArgument(
          fmt::format("sequence {} must get 1 to {} token ids", sequence.id, num_drafts + 1), "num_tokens");
    }
    return OkStatus();
  };
  for (const Flight& flight : in_flight_.front().flights) {
    if (!flight.sample) continue;
    DEEPINFER_RETURN_IF_ERROR(match(*flight.sequence, flight.num_drafts));
    for (const Sequence* sample : flight.samples) DEEPINFER_RETURN_IF_ERROR(match(*sample, 0));
  }
  if (next != result.sequences.size()) {
    return InvalidArgument(
        fmt::format("step {} has a result for sequence {}, which it does not sample, or twice", result.step,
                    result.sequences[next].sequence),
        "sequences");
  }
  return OkStatus();
}

Status Scheduler::Impl::Commit(const StepResult& result, int64_t now_us) {
  if (in_flight_.empty() || in_flight_.front().id != result.step) {
    return InvalidArgument(fmt::format("step {} is not the oldest in flight", result.step), "step");
  }
  std::vector<const SequenceResult*> matched;
  DEEPINFER_RETURN_IF_ERROR(MatchResults(result, &matched));
  now_us_ = std::max(now_us_, now_us);
  const InFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  cost_.Observe(result.duration_us, step.num_decode_rows, step.num_prompt_rows);
  size_t next = 0;
  for (const Flight& flight : step.flights) {
    const size_t draws = flight.sample ? 1 + flight.samples.size() : 0;
    CommitFlight(flight, std::span(matched).subspan(next, draws));
    next += draws;
  }
  return OkStatus();
}

void Scheduler::Impl::CommitFlight(const Flight& flight, std::span<const SequenceResult* const> results) {
  Sequence* sequence = flight.sequence;
  --sequence->in_flight;
  if (flight.sample) {
    sequence->pending_min -= 1;
    sequence->pending_max -= 1 + flight.num_drafts;
  }
  if (sequence->phase == SequencePhase::kEnding) {
    counters_.dropped_rows += static_cast<uint64_t>(flight.num_rows);
  } else if (flight.phase == Phase::kPrefill) {
    CommitPrompt(flight);
  }
  for (size_t i = 0; i < flight.samples.size(); ++i) {
    Sequence* sample = flight.samples[i];
    --sample->in_flight;
    if (results[i + 1] != nullptr) {
      CommitFirstToken(sample, *sequence, *results[i + 1]);
    } else {
      Settle(sample);
    }
  }
  if (sequence->phase == SequencePhase::kEnding) {
    if (sequence->in_flight == 0 && sequence->state != cache::SequenceId::kNone) --num_leaving_;
    Settle(sequence);
    return;
  }
  if (flight.sample) {
    CommitTokens(flight, *results[0]);
    return;
  }
  if (sequence->computed == sequence->limit()) {
    End(sequence, FinishReason::kLength);  // nothing was to be sampled
    return;
  }
  Settle(sequence);
}

void Scheduler::Impl::CommitPrompt(const Flight& flight) {
  Sequence* sequence = flight.sequence;
  const auto ids = std::span<const int32_t>(sequence->ids)
                       .subspan(static_cast<size_t>(flight.begin), static_cast<size_t>(flight.num_rows));
  Expect(cache_->Commit(sequence->state, ids));
  sequence->computed = flight.begin + flight.num_rows;
  WakeParked(sequence->state, sequence->computed);
}

/// Appends the tokens of a sequence's own draw and commits the rows that they made certain.
void Scheduler::Impl::CommitTokens(const Flight& flight, const SequenceResult& result) {
  Sequence* sequence = flight.sequence;
  const int64_t room = sequence->limit() - sequence->known();
  const int64_t count = std::min<int64_t>(result.num_tokens, room);
  sequence->ids.insert(sequence->ids.end(), result.tokens.begin(), result.tokens.begin() + count);
  counters_.generated_tokens += static_cast<uint64_t>(count);
  if (flight.phase == Phase::kDecode) {
    // The row of the token before, then one row for each accepted draft; the last token has no row yet.
    const auto ids = std::span<const int32_t>(sequence->ids)
                         .subspan(static_cast<size_t>(sequence->computed), static_cast<size_t>(count));
    Expect(cache_->Commit(sequence->state, ids, sequence->computed + flight.num_rows));
    sequence->computed += count;
  }
  EndIfDone(sequence, result);
}

void Scheduler::Impl::CommitFirstToken(Sequence* sample, const Sequence& parent,
                                       const SequenceResult& result) {
  sample->ids = sample->shared->request.prompt;
  sample->ids.push_back(result.tokens[0]);
  sample->fork_parent = parent.id;
  sample->phase = SequencePhase::kForking;
  forking_.push_back(sample);
  ++counters_.generated_tokens;
  EndIfDone(sample, result);
}

void Scheduler::Impl::EndIfDone(Sequence* sequence, const SequenceResult& result) {
  if (result.finish.has_value()) {
    End(sequence, *result.finish);
  } else if (sequence->known() >= sequence->limit()) {
    End(sequence, FinishReason::kLength);
  } else {
    Settle(sequence);
  }
}

Status Scheduler::Impl::Fail(StepId id) {
  if (in_flight_.empty() || in_flight_.front().id != id) {
    return InvalidArgument(fmt::format("step {} is not the oldest in flight", id), "step");
  }
  const InFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  const auto drop = [&](Sequence* sequence) {
    --sequence->in_flight;
    if (sequence->phase != SequencePhase::kEnding) {
      End(sequence, FinishReason::kError);
      return;
    }
    if (sequence->in_flight == 0 && sequence->state != cache::SequenceId::kNone) --num_leaving_;
    Settle(sequence);
  };
  for (const Flight& flight : step.flights) {
    if (flight.sample) {
      flight.sequence->pending_min -= 1;
      flight.sequence->pending_max -= 1 + flight.num_drafts;
    }
    for (Sequence* sample : flight.samples) drop(sample);
    drop(flight.sequence);
  }
  return OkStatus();
}

}  // namespace deepinfer::scheduler
