// Random operations against the hash model: no operation order may ever show a wrong byte (spec: serving.md S7, S8, S9).
// DEEPINFER_CACHE_OPERATIONS sets the number of operations of each run: 10^5 by default, 10^7 for the long check.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/hash_model.h"

namespace deepinfer::cache {
namespace {

int64_t Operations() {
  const char* text = std::getenv("DEEPINFER_CACHE_OPERATIONS");
  return text == nullptr ? 100'000 : std::atoll(text);
}

/// Four bits of the real key: most look-ups meet blocks of other content.
class WeakHasher final : public BlockHasher {
 public:
  Digest BlockKey(const Digest& parent, std::span<const int32_t> ids,
                  std::span<const BlockItem> items) override {
    Digest key{};
    key[0] = strong_.BlockKey(parent, ids, items)[0] & 15;
    return key;
  }

 private:
  Sha256BlockHasher strong_;
};

struct Options {
  uint32_t seed = 1;
  int64_t operations = 0;
  bool weak_hash = false;
  bool exact_decode = true;
  HashExecutor::Sabotage sabotage;
};

class RandomRun {
 public:
  explicit RandomRun(const Options& options) : options_(options), random_(options.seed) {
    CacheConfig config;
    config.block_bytes = 100;
    config.state_bytes = 570;  // 6 units
    config.snapshot_bytes = 250;
    config.pool_bytes = 240 * 100 + 50;
    config.block_tokens = shape_.block;
    config.window = shape_.window;
    config.max_rollback = shape_.rollback;
    config.exact_replay = kLayers * shape_.window;
    config.max_sequences = 16;
    config.max_snapshots = 12;
    config.snapshot_ttl = 400;
    config.padding_extent = true;
    config.exact_decode = options.exact_decode;
    if (options.weak_hash) config.hasher = std::make_shared<WeakHasher>();
    cache_ = std::move(StateCache::Create(config)).value();
    executor_ = std::make_unique<HashExecutor>(shape_, *cache_, options.sabotage);
    for (int i = 0; i < 12; ++i) {
      Text text;
      for (int64_t n = Below(160) + 20; n > 0; --n) text.ids.push_back(static_cast<int32_t>(Below(5)));
      // Half of the documents begin like the one before.
      if (i % 2 == 1)
        std::copy_n(texts_.back().ids.begin(), std::min<size_t>(20, text.ids.size()), text.ids.begin());
      if (i % 3 == 0) text.spans = {Span(3, 9), Span(15, Below(12) + 1)};
      texts_.push_back(text);
    }
  }

  void Run() {
    for (int64_t i = 0; i < options_.operations && !::testing::Test::HasFatalFailure(); ++i) {
      Step();
      cache_->AdvanceTime(i);
      executor_->Drain(static_cast<size_t>(Below(4)));
      if (i % 64 == 0) {
        const Status audit = cache_->Audit();
        ASSERT_TRUE(audit.ok()) << "after operation " << i << ": " << audit.ToString();
      }
    }
    while (!running_.empty()) Release(0);
    while (!pins_.empty()) Unpin();
    executor_->Drain(0);
    const Status audit = cache_->AuditIdle();
    ASSERT_TRUE(audit.ok()) << audit.ToString();
    cache_->DropCached();
    const Usage usage = cache_->usage();
    ASSERT_EQ(usage.free + usage.padding, usage.total);
    ASSERT_TRUE(cache_->AuditIdle().ok());
  }

  const HashExecutor& executor() const { return *executor_; }
  const CacheCounters& counters() const { return cache_->counters(); }
  struct Happened {
    uint64_t admissions = 0, forks = 0, rollbacks = 0, snapshots = 0, refused = 0, rejected_rows = 0,
             pins = 0, leaders = 0;
  };
  const Happened& happened() const { return happened_; }

 private:
  struct Text {
    std::vector<int32_t> ids;
    std::vector<ContentSpan> spans;
  };
  struct Running {
    SequenceId id = SequenceId::kNone;
    std::vector<int32_t> prompt;
    std::shared_ptr<Expected> expected;
    int64_t length = 0;
    int64_t furthest = 0;
    int64_t max_length = 0;
  };

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  ContentSpan Span(int64_t begin, int64_t length) {
    ContentSpan span{.kind = static_cast<uint8_t>(Below(2)), .begin = begin, .length = length, .content = {}};
    span.content[0] = static_cast<uint8_t>(Below(3));
    return span;
  }

  void Step() {
    const int64_t dice = Below(100);
    if (running_.empty() || dice < 14) return Admit();
    const auto which = static_cast<size_t>(Below(static_cast<int64_t>(running_.size())));
    if (dice < 72) return Extend(which);
    if (dice < 79) return Rollback(which);
    if (dice < 84) return Fork(which);
    if (dice < 95) return Release(which);
    if (dice < 98) return Below(2) == 0 ? Pin() : Unpin();
    if (Below(40) == 0) cache_->DropCached();
  }

  void Admit() {
    Text text = texts_[static_cast<size_t>(Below(static_cast<int64_t>(texts_.size())))];
    // Half of the prompts end on or beside a block's edge.
    const auto size = static_cast<int64_t>(text.ids.size());
    int64_t length = Below(size) + 1;
    if (Below(2) == 0)
      length = std::clamp<int64_t>(length / shape_.block * shape_.block + Below(3) - 1, 1, size);
    text.ids.resize(static_cast<size_t>(length));
    std::erase_if(text.spans, [&](const ContentSpan& s) { return s.begin + s.length > length; });
    for (int64_t n = Below(3) == 0 ? Below(20) : 0; n > 0; --n)
      text.ids.push_back(static_cast<int32_t>(Below(5)));
    length = static_cast<int64_t>(text.ids.size());

    Prompt prompt{.ids = text.ids, .spans = text.spans};
    prompt.root[0] = static_cast<uint8_t>(Below(2));
    const int64_t policy = Below(10);
    prompt.policy = policy == 0  ? CachePolicy::kOff
                    : policy < 5 ? CachePolicy::kStrict
                                 : CachePolicy::kDeepseek;
    const int64_t tails[] = {1, shape_.window + shape_.rollback, 3 * shape_.window, length};
    prompt.decoder_tail = std::max<int64_t>(1, tails[Below(4)]);
    const int64_t max_length = length + 40;
    const Result<Resume> probe = cache_->Probe(prompt);
    ASSERT_TRUE(probe.ok());
    if (probe->leader != SequenceId::kNone) {
      ++happened_.leaders;
      ASSERT_TRUE(cache_->View(probe->leader).ok());
    }
    CopyList copies;
    const int64_t reserve = Below(length + 12);
    const Usage usage = cache_->usage();
    const Result<Admission> admission = cache_->Admit(prompt, reserve, max_length, &copies);
    if (!admission.ok()) {
      // Only for want of memory, wherever the free units lie: no static split.
      const int64_t blocks = (std::max(reserve, length) + shape_.block - 1) / shape_.block;
      ASSERT_TRUE(usage.sequences == 16 || usage.available() < cache_->slot_units() + blocks);
      return Refused(admission.status());
    }
    executor_->Enqueue(copies);
    ++happened_.admissions;
    if (probe->mode != ResumeMode::kSnapshot) {
      ASSERT_EQ(probe->start, admission->resume.start);
    }
    CheckResume(prompt, admission->resume);
    Running sequence{.id = admission->sequence,
                     .prompt = text.ids,
                     .expected = std::make_shared<Expected>(),
                     .length = admission->resume.start,
                     .furthest = admission->resume.start,
                     .max_length = max_length};
    Expect(prompt, admission->resume, sequence.expected.get());
    running_.push_back(std::move(sequence));
  }

  void CheckResume(const Prompt& prompt, const Resume& resume) {
    const auto length = static_cast<int64_t>(prompt.ids.size());
    ASSERT_LT(resume.hit, length);
    ASSERT_EQ(resume.hit % shape_.block, 0);
    ASSERT_LE(resume.start, std::max<int64_t>(0, length - prompt.decoder_tail));
    if (prompt.policy == CachePolicy::kOff) {
      ASSERT_EQ(resume.mode, ResumeMode::kCold);
    }
    if (prompt.policy == CachePolicy::kStrict) {
      ASSERT_NE(resume.mode, ResumeMode::kBoundedReplay);
      ASSERT_EQ(resume.exactness, Exactness::kExact);
    }
    if (resume.mode == ResumeMode::kCold) {
      ASSERT_EQ(resume.hit + resume.start, 0);
    }
    if (resume.mode != ResumeMode::kCold) {
      ASSERT_GT(resume.hit, shape_.window);
    }
  }

  void Expect(const Prompt& prompt, const Resume& resume, Expected* expected) {
    const auto length = static_cast<int64_t>(prompt.ids.size());
    expected->root = prompt.root[0] + 1u;
    expected->spans.assign(prompt.spans.begin(), prompt.spans.end());
    expected->prompt = length;
    expected->hit = resume.hit;
    expected->exact = resume.exactness == Exactness::kExact;
    expected->first_row = resume.mode == ResumeMode::kSnapshot
                              ? std::max<int64_t>(0, resume.start - shape_.window)
                              : resume.start;
    expected->right_from = resume.start;
    // Rows of an approximate sequence follow from its first one, unless its windows are somebody else's.
    expected->values_known = resume.mode == ResumeMode::kBoundedReplay || expected->exact;
    if (resume.mode == ResumeMode::kExactReplay && resume.start > 0) {
      expected->right_from = std::min(resume.hit, length - prompt.decoder_tail) - shape_.window;
      if (!expected->exact) expected->values_known = false;
    }
    for (int64_t i = 0; i < resume.start; ++i)
      AppendRow(shape_, prompt.ids[static_cast<size_t>(i)], expected);
  }

  void Refused(const Status& status) {
    ASSERT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
    ++happened_.refused;
    if (!running_.empty()) Release(static_cast<size_t>(Below(static_cast<int64_t>(running_.size()))));
  }

  void Extend(size_t which) {
    Running& sequence = running_[which];
    const auto prompt = static_cast<int64_t>(sequence.prompt.size());
    int64_t count = 0;
    int64_t rejected = 0;
    if (sequence.length < prompt) {
      count = std::min(prompt - sequence.length, Below(3) == 0 ? Below(8) + 1 : Below(60) + 1);
      // Chunks end at block edges now and then, where snapshots can be taken.
      if (Below(2) == 0) {
        const int64_t edge = (sequence.length + count) / shape_.block * shape_.block;
        if (edge > sequence.length) count = edge - sequence.length;
      }
    } else {
      count = Below(3) + 1;
      rejected = Below(2) == 0 ? Below(shape_.rollback + 1) : 0;
    }
    const int64_t end = sequence.length + count + rejected;
    if (end > sequence.max_length) return Release(which);
    const Status reserved = cache_->Reserve(sequence.id, end);
    if (!reserved.ok()) return Refused(reserved);

    const int64_t first = sequence.length;
    std::vector<int32_t> ids;
    for (int64_t p = first; p < first + count; ++p) {
      ids.push_back(p < prompt ? sequence.prompt[static_cast<size_t>(p)] : static_cast<int32_t>(Below(3)));
    }
    // Rejected drafts are computed behind the rows that stay, and forgotten.
    for (const int32_t id : ids) AppendRow(shape_, id, sequence.expected.get());
    for (int64_t i = 0; i < rejected; ++i)
      AppendRow(shape_, static_cast<int32_t>(Below(5)), sequence.expected.get());
    std::vector<ModelRow> rows(sequence.expected->rows.begin() + first, sequence.expected->rows.end());
    sequence.expected->rows.resize(static_cast<size_t>(first + count));
    executor_->Enqueue(*cache_->View(sequence.id), sequence.expected, first, std::move(rows));
    happened_.rejected_rows += static_cast<uint64_t>(rejected);

    const Status committed = cache_->Commit(sequence.id, ids, end);
    ASSERT_TRUE(committed.ok()) << committed.ToString();
    sequence.length += count;
    sequence.furthest = std::max(sequence.furthest, end);
    ASSERT_EQ(cache_->View(sequence.id)->length, sequence.length);
    if (Below(3) != 0) Save(sequence);
  }

  void Save(const Running& sequence) {
    const int64_t position = sequence.length / shape_.block * shape_.block;
    const bool held = position > 0 && sequence.furthest - position <= shape_.rollback;
    CopyList copies;
    const Result<SnapshotId> snapshot = cache_->SaveSnapshot(sequence.id, position, &copies);
    if (!held) {
      ASSERT_FALSE(snapshot.ok());
    }
    if (!snapshot.ok() || *snapshot == SnapshotId::kNone) return;
    executor_->Enqueue(copies);
    ++happened_.snapshots;
    if (Below(20) == 0) cache_->DropSnapshot(*snapshot);
  }

  void Rollback(size_t which) {
    Running& sequence = running_[which];
    const int64_t count = Below(shape_.rollback + 1);
    const bool allowed = sequence.length - count >= static_cast<int64_t>(sequence.prompt.size()) &&
                         sequence.furthest - (sequence.length - count) <= shape_.rollback;
    executor_->Drain(0);  // steps in the queue refer to the rows that go
    const Status status = cache_->Rollback(sequence.id, count);
    ASSERT_EQ(status.ok(), allowed || count == 0) << status.ToString();
    if (!status.ok() || count == 0) return;
    sequence.length -= count;
    sequence.expected->rows.resize(static_cast<size_t>(sequence.length));
    ++happened_.rollbacks;
  }

  void Fork(size_t which) {
    CopyList copies;
    const Result<SequenceId> child = cache_->Fork(running_[which].id, &copies);
    if (!child.ok()) return Refused(child.status());
    executor_->Enqueue(copies);
    Running copy = running_[which];
    copy.id = *child;
    copy.expected = std::make_shared<Expected>(*copy.expected);
    running_.push_back(std::move(copy));
    ++happened_.forks;
  }

  void Release(size_t which) {
    Running& sequence = running_[which];
    if (Below(4) == 0) {
      // The transcript may come back: the next turn, or a preempted request.
      Text& text = texts_[static_cast<size_t>(Below(static_cast<int64_t>(texts_.size())))];
      const auto length = static_cast<int64_t>(sequence.expected->rows.size());
      if (length > 8 && length < 200) {
        text.ids.clear();
        for (const ModelRow& row : sequence.expected->rows) text.ids.push_back(row.id);
        text.spans = sequence.expected->spans;
        std::erase_if(text.spans, [&](const ContentSpan& s) { return s.begin + s.length > length; });
      }
    }
    const Status status =
        cache_->Release(sequence.id, Below(5) == 0 ? ReleaseMode::kDiscard : ReleaseMode::kKeep);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_FALSE(cache_->View(sequence.id).ok());
    std::swap(running_[which], running_.back());
    running_.pop_back();
  }

  void Pin() {
    const Text& text = texts_[static_cast<size_t>(Below(static_cast<int64_t>(texts_.size())))];
    Prompt prompt{.ids = text.ids, .spans = text.spans, .policy = CachePolicy::kDeepseek};
    const Result<PinId> pin = cache_->PinPrefix(prompt);
    ASSERT_TRUE(pin.ok());
    if (*pin == PinId::kNone) return;
    pins_.push_back(*pin);
    ++happened_.pins;
    if (pins_.size() > 3) Unpin();
  }

  void Unpin() {
    if (pins_.empty()) return;
    ASSERT_TRUE(cache_->Unpin(pins_.front()).ok());
    pins_.erase(pins_.begin());
  }

  Options options_;
  ModelShape shape_;
  std::mt19937_64 random_;
  std::unique_ptr<StateCache> cache_;
  std::unique_ptr<HashExecutor> executor_;
  std::vector<Text> texts_;
  std::vector<Running> running_;
  std::vector<PinId> pins_;
  Happened happened_;
};

std::string Summary(const RandomRun& run) {
  const CacheCounters& c = run.counters();
  const RandomRun::Happened& h = run.happened();
  return fmt::format(
      "admissions {} (cold {}, R0 {}, R1 {}, R2 {}), forks {}, rollbacks {}, rejected rows {}, snapshots {}, "
      "refused {}, pins {}, "
      "leaders {}, published {}, deduplicated {}, evicted {} blocks and {} snapshots, moved {} units, "
      "collisions {}, entries read {}",
      h.admissions, c.resumes[0], c.resumes[1], c.resumes[2], c.resumes[3], h.forks, h.rollbacks,
      h.rejected_rows, h.snapshots, h.refused, h.pins, h.leaders, c.published, c.deduplicated,
      c.evicted_blocks, c.evicted_snapshots, c.moved_units, c.collisions, run.executor().entries_read());
}

void ExpectNothingWrong(const Options& options) {
  RandomRun run(options);
  run.Run();
  std::printf("seed %u: %s\n", options.seed, Summary(run).c_str());
  EXPECT_EQ(run.executor().wrong(), 0u) << run.executor().first_error();
  const CacheCounters& counters = run.counters();
  const RandomRun::Happened& happened = run.happened();
  for (const uint64_t count : counters.resumes) EXPECT_GT(count, 0u);
  EXPECT_THAT((std::vector{counters.deduplicated, counters.evicted_blocks, counters.evicted_snapshots,
                           counters.moved_units, happened.forks, happened.rollbacks, happened.snapshots,
                           happened.refused, happened.pins, happened.leaders}),
              testing::Each(testing::Gt(static_cast<uint64_t>(options.operations / 2'000))));
}

TEST(RandomOperations, NoWrongBytes) {
  for (const uint32_t seed : {1u, 2u, 3u})
    ExpectNothingWrong({.seed = seed, .operations = Operations(), .sabotage = {}});
}

TEST(RandomOperations, DecodeOfOtherBits) {
  ExpectNothingWrong({.seed = 4, .operations = Operations(), .exact_decode = false, .sabotage = {}});
}

// The keys only lead to candidates: with 16 different keys in all the results are as right.
TEST(RandomOperations, CollidingKeys) {
  const Options options{.seed = 5, .operations = Operations(), .weak_hash = true, .sabotage = {}};
  ExpectNothingWrong(options);
}

// What the model is there to see, it sees.
TEST(RandomOperations, EveryBrokenExecutorIsCaught) {
  const HashExecutor::Sabotage sabotages[] = {{.skip_kind = static_cast<int>(CopyList::Kind::kBlock)},
                                              {.skip_kind = static_cast<int>(CopyList::Kind::kState)},
                                              {.skip_kind = static_cast<int>(CopyList::Kind::kSave)},
                                              {.skip_kind = static_cast<int>(CopyList::Kind::kRestore)},
                                              {.ignore_floor = true},
                                              {.swap_copies = true},
                                              {.wide_window = true}};
  for (size_t i = 0; i < std::size(sabotages); ++i) {
    RandomRun run({.seed = 6, .operations = 20'000, .sabotage = sabotages[i]});
    run.Run();
    EXPECT_GT(run.executor().wrong(), 0u) << "sabotage " << i;
  }
}

}  // namespace
}  // namespace deepinfer::cache
