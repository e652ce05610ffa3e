#include "cache/hash_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace deepinfer::cache {
namespace {

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E37'79B9'7F4A'7C15 + b;
  x = (x ^ (x >> 32)) * 0xD6E8'FEB8'6659'FD93;
  x = (x ^ (x >> 29)) * 0xBF58'476D'1CE4'E5B9;
  return x ^ (x >> 32);
}

// An image position contributes the image's content and its place inside it.
uint64_t Content(const Expected& expected, int64_t position, int32_t id) {
  uint64_t content = static_cast<uint64_t>(id);
  for (const ContentSpan& span : expected.spans) {
    if (position < span.begin || position >= span.begin + span.length) continue;
    uint64_t head = 0;
    std::memcpy(&head, span.content.data(), sizeof head);
    content = Mix(Mix(content, head), static_cast<uint64_t>(position - span.begin) + span.kind * 1000u);
  }
  return content;
}

template <typename Window>
ModelRow ComputeRow(const ModelShape& shape, int32_t id, uint64_t tag, uint64_t content, int64_t position,
                    int64_t first_row, const Window& window) {
  ModelRow row{.id = id, .ring = {.tag = tag, .x = {}}, .value = 0};
  uint64_t x = Mix(content, static_cast<uint64_t>(position));
  const int64_t low = std::max(first_row, position - shape.window + 1);
  for (size_t layer = 0; layer < kLayers; ++layer) {
    row.ring.x[layer] = x;
    for (int64_t p = low; p < position; ++p) x = Mix(x, window(p).x[layer]);
  }
  row.value = Mix(x, 1);
  return row;
}

}  // namespace

void AppendRow(const ModelShape& shape, int32_t id, Expected* expected) {
  const auto position = static_cast<int64_t>(expected->rows.size());
  const uint64_t content = Content(*expected, position, id);
  const uint64_t before = position == 0 ? expected->root : expected->rows.back().ring.tag;
  const int64_t first = expected->exact ? 0 : expected->first_row;
  expected->rows.push_back(
      ComputeRow(shape, id, Mix(before, content), content, position, std::min(first, position),
                 [&](int64_t p) -> const RingRow& { return expected->rows[static_cast<size_t>(p)].ring; }));
}

HashExecutor::HashExecutor(const ModelShape& shape, const StateCache& cache, Sabotage sabotage)
    : shape_(shape),
      slot_units_(cache.slot_units()),
      sabotage_(sabotage),
      entries_(static_cast<size_t>(cache.total_units() * shape.block)),
      rings_(static_cast<size_t>(cache.total_units() / cache.slot_units() * shape.ring())),
      streams_(static_cast<size_t>(cache.total_units() * shape.window)) {}

void HashExecutor::Enqueue(const CopyList& copies) {
  if (!copies.copies.empty()) queue_.push_back({.copies = copies, .step = {}});
}

void HashExecutor::Enqueue(const SequenceView& view, std::shared_ptr<const Expected> expected, int64_t first,
                           std::vector<ModelRow> rows) {
  queue_.push_back({.copies = {},
                    .step = {.units = {view.units.begin(), view.units.end()},
                             .slot = view.slot,
                             .write_floor = view.write_floor,
                             .expected = std::move(expected),
                             .first = first,
                             .rows = std::move(rows)}});
}

void HashExecutor::Drain(size_t keep) {
  while (queue_.size() > keep) {
    const Work work = std::move(queue_.front());
    queue_.pop_front();
    Run(work.copies);
    if (work.step.expected != nullptr) Run(work.step);
  }
}

void HashExecutor::Run(const CopyList& list) {
  std::vector<CopyList::Copy> copies = list.copies;
  if (sabotage_.swap_copies) std::ranges::reverse(copies);
  const auto ring = static_cast<size_t>(shape_.ring());
  const auto block = static_cast<size_t>(shape_.block);
  for (const CopyList::Copy& copy : copies) {
    if (static_cast<int>(copy.kind) == sabotage_.skip_kind) continue;
    switch (copy.kind) {
      case CopyList::Kind::kBlock:
        std::copy_n(entries_.begin() + static_cast<int64_t>(copy.from * block), block,
                    entries_.begin() + static_cast<int64_t>(copy.to * block));
        std::copy_n(streams_.begin() + int64_t{copy.from} * shape_.window, shape_.window,
                    streams_.begin() + int64_t{copy.to} * shape_.window);
        break;
      case CopyList::Kind::kState:
        std::copy_n(rings_.begin() + static_cast<int64_t>(copy.from * ring), ring,
                    rings_.begin() + static_cast<int64_t>(copy.to * ring));
        break;
      case CopyList::Kind::kSave:
      case CopyList::Kind::kRestore:
        // Row r of the stream lies in unit r mod unit_count, so that every unit counts.
        for (int64_t r = 0; r < shape_.window; ++r) {
          const uint32_t unit = list.UnitsOf(copy)[static_cast<size_t>(r) % copy.unit_count];
          RingRow& stored = streams_[static_cast<size_t>(unit * shape_.window + r)];
          const int64_t position = copy.position - shape_.window + r;
          if (copy.kind == CopyList::Kind::kSave) {
            stored = Ring(copy.from, position);
          } else {
            Ring(copy.to, position) = stored;
          }
        }
        break;
    }
  }
}

RingRow& HashExecutor::Ring(uint32_t slot, int64_t position) {
  const int64_t ring = shape_.ring();
  // Positions below 0 appear in a window that is wider than the prefix.
  return rings_[static_cast<size_t>(slot * ring + ((position % ring) + ring) % ring)];
}

Entry& HashExecutor::EntryAt(const std::vector<uint32_t>& units, int64_t position) {
  return entries_[static_cast<size_t>(units[static_cast<size_t>(position / shape_.block)] * shape_.block +
                                      position % shape_.block)];
}

void HashExecutor::Wrong(const std::string& what) {
  if (wrong_++ == 0) first_error_ = what;
}

// Every entry that the first row may read.
void HashExecutor::CheckEntries(const Step& step) {
  const Expected& expected = *step.expected;
  const int64_t end = std::max(step.first, expected.hit);
  for (int64_t p = 0; p < end; ++p) {
    const Entry& entry = EntryAt(step.units, p);
    // Ids below the hit's end that are not fed yet are checked when they are.
    if (p >= static_cast<int64_t>(expected.rows.size())) break;
    const ModelRow& row = expected.rows[static_cast<size_t>(p)];
    const bool check_value = expected.exact || (p >= expected.hit && expected.values_known);
    if (entry.tag != row.ring.tag || (check_value && entry.value != row.value)) {
      Wrong(fmt::format("entry {} of a sequence with hit {} and {} rows", p, expected.hit, step.first));
      return;
    }
  }
  entries_read_ += static_cast<uint64_t>(end);
}

ModelRow HashExecutor::Compute(const Step& step, int64_t position, const ModelRow& expected) {
  const Expected& sequence = *step.expected;
  const int64_t first_row = sabotage_.wide_window ? 0 : sequence.first_row;
  for (int64_t p = std::max(sequence.first_row, position - shape_.window + 1); p < position; ++p) {
    const uint64_t tag = p < step.first ? sequence.rows[static_cast<size_t>(p)].ring.tag
                                        : step.rows[static_cast<size_t>(p - step.first)].ring.tag;
    if (Ring(step.slot, p).tag != tag) Wrong(fmt::format("ring row {} read by row {}", p, position));
  }
  return ComputeRow(shape_, expected.id, expected.ring.tag, Content(sequence, position, expected.id),
                    position, std::min(first_row, position),
                    [&](int64_t p) -> const RingRow& { return Ring(step.slot, p); });
}

void HashExecutor::Run(const Step& step) {
  CheckEntries(step);
  const Expected& expected = *step.expected;
  for (size_t i = 0; i < step.rows.size(); ++i) {
    const int64_t position = step.first + static_cast<int64_t>(i);
    const ModelRow row = Compute(step, position, step.rows[i]);
    Ring(step.slot, position) = row.ring;
    const bool known = expected.exact || expected.values_known;
    if (known && position >= expected.right_from && row.ring != step.rows[i].ring) {
      Wrong(fmt::format("windows of row {}", position));
    }
    if (position < step.write_floor && !sabotage_.ignore_floor) continue;
    if (known && position >= step.write_floor && row.value != step.rows[i].value) {
      Wrong(fmt::format("value of row {} with floor {}", position, step.write_floor));
    }
    EntryAt(step.units, position) = {.tag = row.ring.tag, .value = row.value};
  }
}

}  // namespace deepinfer::cache
