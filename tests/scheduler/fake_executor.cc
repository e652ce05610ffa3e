#include "scheduler/fake_executor.h"

#include <algorithm>

#include <fmt/format.h>

namespace deepinfer::scheduler {
namespace {

uint64_t Mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t PrefixWord(uint64_t previous, int32_t id, int64_t position) {
  return Mix(previous ^
             Mix(static_cast<uint64_t>(id) * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(position)));
}

int32_t DrawToken(uint64_t word, uint64_t seed, int sample_index, int64_t position) {
  const uint64_t key =
      Mix(seed + 1) ^ Mix(static_cast<uint64_t>(sample_index) + 77) ^ Mix(static_cast<uint64_t>(position));
  return static_cast<int32_t>(Mix(word ^ key) % kFakeVocabulary);
}

std::vector<int32_t> ExpectedTokens(std::span<const int32_t> prompt, uint64_t seed, int sample_index,
                                    int64_t count, int32_t stop_modulus) {
  uint64_t word = 0;
  int64_t position = 0;
  for (const int32_t id : prompt) word = PrefixWord(word, id, position++);
  std::vector<int32_t> tokens;
  while (static_cast<int64_t>(tokens.size()) < count) {
    tokens.push_back(DrawToken(word, seed, sample_index, position));
    if (IsStop(tokens.back(), stop_modulus)) break;
    word = PrefixWord(word, tokens.back(), position++);
  }
  return tokens;
}

cache::CacheConfig FakeCacheConfig(int64_t units, int64_t max_sequences) {
  cache::CacheConfig config;
  config.block_tokens = 128;
  config.window = 128;
  config.max_rollback = 12;
  config.exact_replay = 300;
  config.block_bytes = config.block_tokens * 8;
  config.state_bytes = (config.window + config.max_rollback) * 8;
  config.snapshot_bytes = config.window * 8;
  config.pool_bytes = units * config.block_bytes;
  config.max_sequences = max_sequences;
  config.max_snapshots = 16;
  return config;
}

FakeExecutor::FakeExecutor(cache::StateCache* cache, const cache::CacheConfig& config, int32_t slots,
                           std::function<std::vector<int32_t>(SequenceId)> ids_of, Cost cost)
    : cache_(cache),
      config_(config),
      ids_of_(std::move(ids_of)),
      cost_(std::move(cost)),
      memory_(static_cast<size_t>(cache->total_units() * config.block_tokens), 0xdeadULL),
      slots_(static_cast<size_t>(slots)) {}

std::span<uint64_t> FakeExecutor::Unit(uint32_t unit) {
  const size_t words = static_cast<size_t>(config_.block_tokens);
  return std::span(memory_).subspan(unit * words, words);
}

uint64_t& FakeExecutor::Entry(const cache::SequenceView& view, int64_t position) {
  const size_t block = static_cast<size_t>(position / config_.block_tokens);
  if (block >= view.units.size()) {
    static uint64_t nowhere;
    if (fault_.empty()) fault_ = fmt::format("position {} has no block", position);
    return nowhere;
  }
  return Unit(view.units[block])[static_cast<size_t>(position % config_.block_tokens)];
}

uint64_t& FakeExecutor::Ring(const cache::SequenceView& view, int64_t position) {
  const int64_t words = cache_->slot_bytes() / 8;
  const int64_t capacity = config_.window + config_.max_rollback;
  return memory_[static_cast<size_t>(view.slot * words + position % capacity)];
}

void FakeExecutor::Check(bool right, const char* what, const SequenceStep& step, int64_t position) {
  ++words_checked_;
  if (right || !fault_.empty()) return;
  fault_ =
      fmt::format("{}: sequence {}, position {}, run {} .. {}, floor {}, resume {}", what, step.sequence,
                  position, step.run_begin, step.run_end, step.write_floor, static_cast<int>(step.resume));
}

void FakeExecutor::Copy(const cache::CopyList& list) {
  const int64_t slot_words = cache_->slot_bytes() / 8;
  const int64_t capacity = config_.window + config_.max_rollback;
  for (const auto& copy : list.copies) {
    const auto units = list.UnitsOf(copy);
    const auto snapshot = [&](int64_t i) -> uint64_t& {
      return Unit(units[static_cast<size_t>(i / config_.block_tokens)])[static_cast<size_t>(
          i % config_.block_tokens)];
    };
    const auto ring = [&](uint32_t slot, int64_t position) -> uint64_t& {
      return memory_[static_cast<size_t>(slot * slot_words + position % capacity)];
    };
    switch (copy.kind) {
      case cache::CopyList::Kind::kBlock: std::ranges::copy(Unit(copy.from), Unit(copy.to).begin()); break;
      case cache::CopyList::Kind::kState:
        std::copy_n(memory_.begin() + copy.from * slot_words, slot_words,
                    memory_.begin() + copy.to * slot_words);
        break;
      case cache::CopyList::Kind::kSave:
        for (int64_t i = 0; i < config_.window; ++i) {
          snapshot(i) = ring(copy.from, copy.position - config_.window + i);
        }
        break;
      case cache::CopyList::Kind::kRestore:
        for (int64_t i = 0; i < config_.window; ++i) {
          ring(copy.to, copy.position - config_.window + i) = snapshot(i);
        }
        break;
    }
  }
}

const std::vector<uint64_t>& FakeExecutor::Truth(const SequenceStep& step) {
  auto& words = truth_[step.sequence];
  if (words.empty() || step.first_chunk || step.token_source == 0) {
    const std::vector<int32_t> ids = ids_of_(step.sequence);
    for (size_t i = words.size(); i < ids.size(); ++i) {
      words.push_back(PrefixWord(i == 0 ? 0 : words[i - 1], ids[i], static_cast<int64_t>(i)));
    }
  }
  return words;
}

int32_t FakeExecutor::InputId(const StepPlan& plan, const SequenceStep& step, int32_t row,
                              const std::vector<Row>& before) {
  const int32_t id = plan.input_ids[static_cast<size_t>(step.first_row + row)];
  if (id >= 0) return id;
  const SlotState& slot = slots_[static_cast<size_t>(step.slot)];
  if (row == 0) {
    Check(slot.source == step.token_source, "token of another step", step, step.first_position);
    return slot.token;
  }
  // A draft: what the model would draw, or something else now and then.
  const Row& last = before.back();
  const int32_t right = DrawToken(last.word, step.seed, step.sample_index, last.position + 1);
  const bool wrong =
      draft_error_every_ > 0 && Mix(last.word) % static_cast<uint64_t>(draft_error_every_) == 0;
  return wrong ? (right + 1) % kFakeVocabulary : right;
}

void FakeExecutor::RunSequence(const StepPlan& plan, const SequenceStep& step, std::vector<Row>* rows) {
  const auto found = cache_->View(step.state);
  if (!found.ok()) {
    if (fault_.empty()) fault_ = "no view: " + found.status().ToString();
    return;
  }
  const cache::SequenceView& view = *found;
  const std::vector<uint64_t>& truth = Truth(step);
  SlotState& slot = slots_[static_cast<size_t>(step.slot)];
  if (step.token_source == 0) slot.position = step.first_position;
  Check(slot.position >= step.first_position && slot.position <= step.first_position + step.position_slack,
        "position out of the planned range", step, slot.position);
  const int64_t begin = slot.position;
  for (int32_t row = 0; row < step.num_rows; ++row) {
    const int64_t position = begin + row;
    const int32_t id = InputId(plan, step, row, *rows);
    // The row before: from the ring, or at the beginning of a replay from the shared block.
    uint64_t previous = 0;
    const bool replay_begins = step.phase == Phase::kPrefill && position == step.run_begin &&
                               step.resume != cache::ResumeMode::kSnapshot;
    if (position > 0) previous = replay_begins ? Entry(view, position - 1) : Ring(view, position - 1);
    const uint64_t word = PrefixWord(previous, id, position);
    const size_t at = static_cast<size_t>(position);
    if (at < truth.size() && row <= step.num_rows - 1 - step.num_drafts) {
      Check(word == truth[at], "wrong prefix", step, position);
    }
    if (position > 0) {
      const int64_t other = static_cast<int64_t>(Mix(word) % at);
      if (static_cast<size_t>(other) < truth.size()) {
        Check(Entry(view, other) == truth[static_cast<size_t>(other)], "wrong block", step, other);
      }
      const int64_t window_from =
          std::max(step.phase == Phase::kPrefill && step.resume != cache::ResumeMode::kSnapshot
                       ? step.run_begin
                       : position - config_.window + 1,
                   position - config_.window + 1);
      const int64_t seen =
          window_from + static_cast<int64_t>(Mix(word + 1) % static_cast<uint64_t>(config_.window));
      if (seen >= std::max<int64_t>(window_from, 0) && seen < position &&
          static_cast<size_t>(seen) < truth.size() && step.phase == Phase::kPrefill) {
        Check(Ring(view, seen) == truth[static_cast<size_t>(seen)], "wrong window", step, seen);
      }
    }
    Ring(view, position) = word;
    if (step.phase == Phase::kPrefill && position < step.write_floor) {
      Check(Entry(view, position) == word, "shared block differs", step, position);
    } else {
      Entry(view, position) = word;
    }
    rows->push_back({word, id, position});
  }
}

Status FakeExecutor::LaunchForward(const StepPlan& plan) {
  if (launched_.size() >= 2) return Internal("more than two steps launched");
  Copy(plan.copies);
  Launched step{.id = plan.id};
  step.rows.resize(plan.sequences.size());
  for (size_t i = 0; i < plan.sequences.size(); ++i) RunSequence(plan, plan.sequences[i], &step.rows[i]);
  step.duration_us = cost_(plan);
  free_us_ = std::max(free_us_, now_us_) + step.duration_us;
  busy_us_ += step.duration_us;
  step.end_us = free_us_;
  step.result = {.step = plan.id, .duration_us = step.duration_us};
  launched_.push_back(std::move(step));
  return OkStatus();
}

Status FakeExecutor::LaunchSampling(const StepPlan& plan, std::span<const SamplingRow> rows) {
  Launched& step = launched_.back();
  if (step.id != plan.id) return Internal("sampling of a step that was not launched last");
  for (const SamplingRow& row : rows) {
    const SequenceStep& sequence = plan.sequences[static_cast<size_t>(row.plan_index)];
    const std::vector<Row>& computed = step.rows[static_cast<size_t>(row.plan_index)];
    SequenceResult result{.sequence = row.sequence};
    size_t at = computed.size() - 1 - static_cast<size_t>(sequence.num_drafts);
    while (true) {
      const Row& last = computed[at];
      const int32_t token = DrawToken(last.word, row.seed, row.sample_index, last.position + 1);
      if (result.num_tokens == 0)
        Check(row.position == last.position + 1, "position of a draw", sequence, row.position);
      result.tokens[static_cast<size_t>(result.num_tokens++)] = token;
      if (row.slot < 0 || at + 1 >= computed.size() || computed[at + 1].id != token) break;
      ++at;
    }
    if (row.slot >= 0) {
      slots_[static_cast<size_t>(row.slot)] = {result.tokens[static_cast<size_t>(result.num_tokens - 1)],
                                               computed[at].position + 1, plan.id};
    }
    step.result.sequences.push_back(result);
  }
  return OkStatus();
}

Result<StepResult> FakeExecutor::Wait(StepId id) {
  if (launched_.empty() || launched_.front().id != id) return Internal("waiting for a step out of order");
  const Launched step = std::move(launched_.front());
  launched_.pop_front();
  now_us_ = std::max(now_us_, step.end_us);
  return step.result;
}

}  // namespace deepinfer::scheduler
