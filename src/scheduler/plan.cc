// Which rows a step has.
#include <algorithm>
#include <tuple>

#include "base/checked.h"
#include "scheduler/scheduler_impl.h"

namespace deepinfer::scheduler {

StepPlan Scheduler::Impl::Plan(int64_t now_us) {
  now_us_ = std::max(now_us_, now_us);
  if (in_flight_.size() >= static_cast<size_t>(config_.max_steps_in_flight)) return {};
  cache_->AdvanceTime(now_us_);
  ExpireDeadlines();
  StepPlan plan;
  plan.copies = std::exchange(carried_, {});
  ForkSamples(&plan);
  SaveWindows(&plan);
  std::vector<DecodeRow> rows;
  CollectDecodeRows(&rows);
  Admit(&plan);
  DropPreempted(&rows);  // for the sake of a higher priority

  const bool prompts = std::ranges::any_of(admitted_, [&](const Sequence* s) { return PromptCanRun(*s); });
  FitDecodeRows(&rows, config_.max_rows_per_step - (prompts ? config_.min_prompt_rows : 0));
  plan.id = next_step_;
  plan.sequences.reserve(rows.size() + 1);
  InFlight step{.id = next_step_};
  step.flights.reserve(rows.size() + 1);
  for (const DecodeRow& row : rows) AddDecodeRow(row, &plan, &step);
  if (prompts) AddPromptRows(PromptBudget(plan.num_decode_rows), &plan, &step);
  if (plan.sequences.empty()) {
    carried_ = std::move(plan.copies);
    return {};
  }
  step.num_decode_rows = plan.num_decode_rows;
  step.num_prompt_rows = plan.num_prompt_rows;
  ++next_step_;
  ++counters_.steps;
  counters_.mixed_steps += plan.num_decode_rows > 0 && plan.num_prompt_rows > 0;
  counters_.decode_rows += static_cast<uint64_t>(plan.num_decode_rows);
  counters_.prompt_rows += static_cast<uint64_t>(plan.num_prompt_rows);
  in_flight_.push_back(std::move(step));
  return plan;
}

void Scheduler::Impl::CollectDecodeRows(std::vector<DecodeRow>* rows) {
  rows->reserve(admitted_.size());
  for (size_t i = 0; i < admitted_.size();) {
    Sequence* sequence = admitted_[i];
    const int64_t left = sequence->limit() - sequence->known() - sequence->pending_min;
    if (sequence->phase == SequencePhase::kDecode && !sequence->preempting && left > 0) {
      int32_t drafts = static_cast<int32_t>(
          std::min<int64_t>({config_.draft_tokens, sequence->shared->request.max_drafts, left - 1}));
      if (ReserveForDecode(sequence, &drafts)) rows->push_back({sequence, drafts});
    }
    // Relieving memory may have taken one sequence out, this one or another: the next one then stands here.
    if (i < admitted_.size() && admitted_[i] == sequence) ++i;
  }
  DropPreempted(rows);
}

void Scheduler::Impl::DropPreempted(std::vector<DecodeRow>* rows) {
  std::erase_if(*rows, [](const DecodeRow& row) {
    return row.sequence->phase != SequencePhase::kDecode || row.sequence->preempting;
  });
}

/// Blocks for the step in flight and the next one. While they cannot be had, what was reserved before is used up, without drafts at the end.
bool Scheduler::Impl::ReserveForDecode(Sequence* sequence, int32_t* num_drafts) {
  const int64_t wanted = sequence->known() + config_.ReservedPositions();
  if (sequence->reserved >= wanted) return true;
  const auto reserve = [&] {
    if (!cache_->Reserve(sequence->state, wanted).ok()) return false;
    // Whole blocks, but never beyond what the sequence was admitted for.
    sequence->reserved = std::min(RoundUp(wanted, cache_config_.block_tokens),
                                  sequence->limit() + config_.ReservedPositions());
    return true;
  };
  if (reserve()) return true;
  const int64_t have = sequence->reserved - sequence->known() - sequence->pending_max;
  const SequenceId id = sequence->id;
  RelievePressure(sequence, have < 0);
  if (Find(id) == nullptr || sequence->phase != SequencePhase::kDecode || sequence->preempting) return false;
  if (reserve()) return true;
  *num_drafts = static_cast<int32_t>(std::min<int64_t>(*num_drafts, have));
  return have >= 0;
}

void Scheduler::Impl::RelievePressure(Sequence* in_need, bool hard) {
  if (num_leaving_ > 0) return;  // memory is on its way
  Sequence* victim = Victim(std::numeric_limits<int>::max());
  if (victim == in_need && num_running_ == 1) {
    if (hard && in_need->in_flight == 0) End(in_need, FinishReason::kCapacity);
    return;
  }
  StartPreemption(victim);
}

/// Fewer drafts first; then the sequences that have waited longest take turns.
void Scheduler::Impl::FitDecodeRows(std::vector<DecodeRow>* rows, int64_t budget) const {
  int64_t total = 0;
  for (const DecodeRow& row : *rows) total += 1 + row.num_drafts;
  if (total <= budget) return;
  const int64_t count = static_cast<int64_t>(rows->size());
  const int32_t most_drafts = static_cast<int32_t>(std::max<int64_t>(0, budget / count - 1));
  for (DecodeRow& row : *rows) row.num_drafts = std::min(row.num_drafts, most_drafts);
  if (count <= budget) return;
  const auto by_turn = [](const DecodeRow& a, const DecodeRow& b) {
    return std::tie(a.sequence->last_step, a.sequence->admit_order) <
           std::tie(b.sequence->last_step, b.sequence->admit_order);
  };
  std::nth_element(rows->begin(), rows->begin() + budget, rows->end(), by_turn);
  rows->resize(static_cast<size_t>(budget));
  std::ranges::sort(*rows, {}, [](const DecodeRow& row) { return row.sequence->admit_order; });
}

int64_t Scheduler::Impl::PromptBudget(int64_t decode_rows) const {
  const int64_t left = config_.max_rows_per_step - decode_rows;
  const bool decoding = std::ranges::any_of(
      admitted_, [](const Sequence* s) { return s->phase == SequencePhase::kDecode && !s->preempting; });
  if (!decoding) return left;
  int64_t beside = config_.PromptRowsBesideDecode();
  if (config_.decode_stall_us > 0) {
    beside = std::min(beside, cost_.PromptRowsWithin(config_.decode_stall_us, beside));
    beside = std::max<int64_t>(beside, config_.min_prompt_rows);
  }
  return std::min(left, beside);
}

bool Scheduler::Impl::PromptCanRun(const Sequence& sequence) const {
  if (sequence.phase != SequencePhase::kPrefill || sequence.preempting) return false;
  // The rings are saved before later rows overwrite them.
  const bool saving = sequence.planned == sequence.points.again || sequence.planned == sequence.points.longer;
  return !saving || sequence.planned == 0;
}

/// Where a chunk that begins at `planned` must end: at the points of snapshots, and where the cut of a shortened prefill was made.
int64_t Scheduler::Impl::NextCut(const Sequence& sequence) const {
  int64_t cut = sequence.run_end;
  for (const int64_t point : {sequence.points.again, sequence.points.longer}) {
    if (point > sequence.planned) cut = std::min(cut, point);
  }
  if (sequence.shared->request.prefill_mode == PrefillMode::kBoundedReplay &&
      sequence.planned < sequence.prompt_length()) {
    cut = std::min(cut, sequence.prompt_length());
  }
  return cut;
}

SequenceStep Scheduler::Impl::StepOf(const Sequence& sequence, const StepPlan& plan) const {
  SequenceStep out;
  out.request = sequence.shared->request.id;
  out.sequence = sequence.id;
  out.state = sequence.state;
  out.sample_index = sequence.sample_index;
  out.slot = sequence.slot;
  out.first_row = static_cast<int32_t>(plan.input_ids.size());
  out.seed = sequence.shared->request.seed;
  out.constrained = sequence.shared->request.constrained;
  out.approximate = sequence.approximate;
  return out;
}

void Scheduler::Impl::AddDecodeRow(const DecodeRow& row, StepPlan* plan, InFlight* step) {
  Sequence* sequence = row.sequence;
  SequenceStep out = StepOf(*sequence, *plan);
  out.phase = Phase::kDecode;
  out.num_rows = 1 + row.num_drafts;
  out.num_drafts = row.num_drafts;
  out.first_position = sequence->known() + sequence->pending_min - 1;
  out.position_slack = static_cast<int32_t>(sequence->pending_max - sequence->pending_min);
  out.token_source = sequence->pending_max > 0 ? sequence->last_sampling_step : 0;
  out.sample = true;
  plan->input_ids.push_back(out.token_source == 0 ? sequence->ids.back() : -1);
  plan->input_ids.insert(plan->input_ids.end(), static_cast<size_t>(row.num_drafts), -1);
  plan->num_decode_rows += out.num_rows;
  plan->sequences.push_back(out);

  step->flights.push_back({.sequence = sequence,
                           .phase = Phase::kDecode,
                           .begin = out.first_position,
                           .num_rows = out.num_rows,
                           .num_drafts = out.num_drafts,
                           .sample = true});
  ++sequence->in_flight;
  sequence->pending_min += 1;
  sequence->pending_max += out.num_rows;
  sequence->last_step = step->id;
  sequence->last_sampling_step = step->id;
  queue_.Charge(sequence->shared->user, out.num_rows);
}

/// The first sequence of the highest priority gets the rows that are promised, then the shortest rests of each priority come first:
/// a short prompt is not held up by long ones, and the longest one still moves in every step.
void Scheduler::Impl::AddPromptRows(int64_t budget, StepPlan* plan, InFlight* step) {
  struct Share {
    Sequence* sequence;
    int64_t left;
    int64_t rows;
  };
  std::vector<Share> shares;
  for (Sequence* sequence : admitted_) {
    if (PromptCanRun(*sequence)) shares.push_back({sequence, sequence->run_end - sequence->planned, 0});
  }
  const auto give = [&](Share* share, int64_t most) {
    const int64_t room = NextCut(*share->sequence) - share->sequence->planned - share->rows;
    const int64_t rows = std::min({room, budget, most});
    share->rows += rows;
    budget -= rows;
  };
  const auto first = std::ranges::min_element(shares, {}, [](const Share& s) {
    return std::tuple(-s.sequence->admit_level, s.sequence->admit_order);
  });
  give(&*first, config_.min_prompt_rows);
  std::ranges::sort(shares, {}, [](const Share& s) {
    return std::tuple(-s.sequence->admit_level, s.left, s.sequence->admit_order);
  });
  for (Share& share : shares) give(&share, budget);
  for (const Share& share : shares) {
    if (share.rows > 0) AddChunk(share.sequence, share.rows, plan, step);
  }
}

void Scheduler::Impl::AddChunk(Sequence* sequence, int64_t num_rows, StepPlan* plan, InFlight* step) {
  const Request& request = sequence->shared->request;
  const int64_t begin = sequence->planned;
  const bool bounded = request.prefill_mode == PrefillMode::kBoundedReplay;
  const bool beyond_cut = bounded && begin >= sequence->prompt_length();
  SequenceStep out = StepOf(*sequence, *plan);
  out.phase = Phase::kPrefill;
  out.num_rows = static_cast<int32_t>(num_rows);
  out.first_position = begin;
  out.prefill_mode = beyond_cut ? PrefillMode::kFull : request.prefill_mode;
  out.run_end = bounded && !beyond_cut ? sequence->prompt_length() : sequence->run_end;
  out.keep_tokens = bounded ? sequence->prompt_length() - sequence->decoder_begin : 0;
  out.decoder_begin = sequence->decoder_begin;
  out.resume = sequence->resume.mode;
  out.run_begin = sequence->resume.start;
  out.write_floor = sequence->resume.hit;
  out.first_chunk = begin == sequence->resume.start;
  out.recompute = sequence->preemptions > 0;
  const auto ids = sequence->ids.begin() + begin;
  plan->input_ids.insert(plan->input_ids.end(), ids, ids + num_rows);
  plan->num_prompt_rows += out.num_rows;

  Flight flight{.sequence = sequence, .phase = Phase::kPrefill, .begin = begin, .num_rows = out.num_rows};
  ++counters_.prompt_chunks;
  ++sequence->in_flight;
  sequence->planned += num_rows;
  sequence->last_step = step->id;
  if (sequence->planned == sequence->run_end) {
    ++counters_.prompts;
    sequence->phase = SequencePhase::kDecode;
    out.sample = flight.sample = sequence->known() < sequence->limit();
  }
  if (out.sample) {
    sequence->pending_min += 1;
    sequence->pending_max += 1;
    sequence->last_sampling_step = step->id;
    for (Sequence* sample : sequence->shared->live) {
      if (sample->phase != SequencePhase::kAwaitingPrompt) continue;
      ++sample->in_flight;
      flight.samples.push_back(sample);
    }
    out.num_samples = 1 + static_cast<int32_t>(flight.samples.size());
  }
  plan->sequences.push_back(out);
  step->flights.push_back(std::move(flight));
  if (out.recompute) {
    counters_.recomputed_rows += static_cast<uint64_t>(num_rows);
  } else {
    queue_.Charge(sequence->shared->user, num_rows);
  }
}

}  // namespace deepinfer::scheduler
