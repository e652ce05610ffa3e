// Proofs that the bookkeeping agrees with itself.
#include <fmt/format.h>

#include "scheduler/scheduler_impl.h"

namespace deepinfer::scheduler {
namespace {

Status Disagree(std::string what) { return Internal(std::move(what), "scheduler audit"); }

}  // namespace

Status Scheduler::Impl::Audit() const {
  DEEPINFER_RETURN_IF_ERROR(defect_);
  std::unordered_map<const Sequence*, int32_t> in_flight;
  for (const InFlight& step : in_flight_) {
    for (const Flight& flight : step.flights) {
      ++in_flight[flight.sequence];
      for (const Sequence* sample : flight.samples) ++in_flight[sample];
    }
  }
  int64_t live = 0, running = 0, waiting = 0, parked = 0, forking = 0, with_state = 0, leaving = 0;
  std::set<int32_t> slots = free_slots_;
  for (const auto& [id, owned] : sequences_) {
    const Sequence& s = *owned;
    const auto flown = in_flight.find(&s);
    if (s.in_flight != (flown == in_flight.end() ? 0 : flown->second)) {
      return Disagree(fmt::format("sequence {} counts {} steps in flight", id, s.in_flight));
    }
    live += s.phase != SequencePhase::kEnding;
    running += s.running();
    waiting += s.phase == SequencePhase::kWaiting;
    parked += s.phase == SequencePhase::kParked;
    forking += s.phase == SequencePhase::kForking;
    if (s.phase == SequencePhase::kEnding && s.in_flight == 0) {
      return Disagree(fmt::format("sequence {} has ended and is still here", id));
    }
    const bool has_state = s.state != cache::SequenceId::kNone;
    if (has_state != (s.slot >= 0) || (s.running() && !has_state) ||
        (!s.running() && s.phase != SequencePhase::kEnding && has_state)) {
      return Disagree(
          fmt::format("sequence {} in phase {} has slot {}", id, SequencePhaseName(s.phase), s.slot));
    }
    if (!has_state) continue;
    ++with_state;
    leaving += s.preempting || s.phase == SequencePhase::kEnding;
    if (!slots.insert(s.slot).second) return Disagree(fmt::format("slot {} is taken twice", s.slot));
    const Result<cache::SequenceView> view = cache_->View(s.state);
    if (!view.ok()) return view.status();
    if (s.phase == SequencePhase::kEnding) continue;
    if (view->length != s.computed || view->reserved < s.reserved) {
      return Disagree(fmt::format("sequence {} has {} rows and {} reserved, the cache {} and {}", id,
                                  s.computed, s.reserved, view->length, view->reserved));
    }
    if (s.known() + s.pending_max > s.reserved + 1) {
      return Disagree(fmt::format("sequence {} may write row {} of {} reserved", id,
                                  s.known() + s.pending_max - 1, s.reserved));
    }
  }
  int64_t parked_entries = 0;
  for (const auto& [leader, entries] : parked_) {
    if (!by_state_.contains(leader)) return Disagree("a sequence waits for a leader that is gone");
    parked_entries += static_cast<int64_t>(entries.size());
  }
  if (live != num_live_ || running != num_running_ || leaving != num_leaving_ ||
      waiting != static_cast<int64_t>(queue_.size()) || parked != parked_entries ||
      forking != static_cast<int64_t>(forking_.size()) ||
      with_state != static_cast<int64_t>(admitted_.size()) || admitted_.size() != by_state_.size() ||
      static_cast<int32_t>(slots.size()) != config_.Slots() || cache_->usage().sequences != with_state) {
    return Disagree(
        fmt::format("{} live, {} running, {} leaving, {} waiting, {} parked, {} forking, {} with state", live,
                    running, leaving, waiting, parked, forking, with_state));
  }
  return OkStatus();
}

Status Scheduler::Impl::AuditIdle() const {
  DEEPINFER_RETURN_IF_ERROR(Audit());
  if (!sequences_.empty() || !requests_.empty() || !deadlines_.empty() || !in_flight_.empty() ||
      free_slots_.size() != static_cast<size_t>(config_.Slots())) {
    return Disagree(fmt::format("{} sequences, {} requests, {} deadlines, {} steps, {} free slots are left",
                                sequences_.size(), requests_.size(), deadlines_.size(), in_flight_.size(),
                                free_slots_.size()));
  }
  return OkStatus();
}

}  // namespace deepinfer::scheduler
