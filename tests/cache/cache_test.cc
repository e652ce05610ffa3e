// Rules of the state cache, one by one, with the numbers of the released model.
#include "cache/cache.h"

#include <memory>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/allocation_count.h"

namespace deepinfer::cache {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBlockBytes = 113'920;
constexpr int64_t kRingBytes = 40 * 140 * 528;  // windows of 128 + 12 rows
constexpr int64_t kTailBytes = 3 * 16 * 2 * 512 * 4;
constexpr int64_t kDraftBytes = 3 * 140 * 528;

CacheConfig Released(int64_t units) {
  CacheConfig config;
  config.pool_bytes = units * kBlockBytes;
  config.block_bytes = kBlockBytes;
  config.state_bytes = kRingBytes + kTailBytes;
  config.snapshot_bytes = 20 * 128 * 528;
  config.max_sequences = 64;
  config.max_snapshots = 8;
  return config;
}

std::unique_ptr<StateCache> Make(const CacheConfig& config) {
  return std::move(StateCache::Create(config)).value();
}

std::vector<int32_t> Ids(int64_t count, int32_t first = 0) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

/// A cache whose requests need few words.
struct Fixture {
  explicit Fixture(const CacheConfig& config) : cache(Make(config)) {}
  ~Fixture() {
    const Status audit = cache->Audit();
    EXPECT_TRUE(audit.ok()) << audit.ToString();
  }

  Admission Admit(const Prompt& prompt, int64_t reserve = -1, int64_t extra = 4096) {
    const auto length = static_cast<int64_t>(prompt.ids.size());
    Result<Admission> admission =
        cache->Admit(prompt, reserve < 0 ? length : reserve, length + extra, &copies);
    EXPECT_TRUE(admission.ok()) << admission.status().ToString();
    return admission.ok() ? *admission : Admission{};
  }
  void Feed(SequenceId id, std::span<const int32_t> ids, int64_t drafts = 0) {
    const int64_t end = cache->View(id)->length + static_cast<int64_t>(ids.size());
    ASSERT_TRUE(cache->Reserve(id, end + drafts).ok());
    const Status status = cache->Commit(id, ids, end + drafts);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  /// Runs a prompt from its resume point to its end, saving the snapshots that pay when `snapshots` is set.
  Admission Prefill(const Prompt& prompt, bool snapshots = false) {
    const Admission admission = Admit(prompt);
    const StateCache::SnapshotPoints points = cache->PointsOf(prompt);
    int64_t at = admission.resume.start;
    for (const int64_t stop : {points.again, points.longer, static_cast<int64_t>(prompt.ids.size())}) {
      if (stop <= at) continue;
      Feed(admission.sequence, prompt.ids.subspan(static_cast<size_t>(at), static_cast<size_t>(stop - at)));
      at = stop;
      if (snapshots && stop % 128 == 0) (void)cache->SaveSnapshot(admission.sequence, stop, &copies);
    }
    return admission;
  }
  void Run(const Prompt& prompt, bool snapshots = false) { Keep(Prefill(prompt, snapshots).sequence); }
  void Keep(SequenceId id) { EXPECT_TRUE(cache->Release(id, ReleaseMode::kKeep).ok()); }
  Resume Probe(const Prompt& prompt) { return *cache->Probe(prompt); }

  std::unique_ptr<StateCache> cache;
  CopyList copies;
};

Prompt Deepseek(std::span<const int32_t> ids) {
  return {.ids = ids, .policy = CachePolicy::kDeepseek, .decoder_tail = 140};
}
Prompt Strict(std::span<const int32_t> ids) {
  return {.ids = ids, .policy = CachePolicy::kStrict, .decoder_tail = 140};
}

TEST(StateCache, RefusesImpossibleConfigs) {
  const auto field_of = [](auto change) {
    CacheConfig config = Released(100);
    change(config);
    const auto cache = StateCache::Create(config);
    return cache.ok() ? std::string() : cache.status().where();
  };
  EXPECT_EQ(field_of([](CacheConfig& c) { c.block_bytes = 0; }), "block_bytes");
  EXPECT_EQ(field_of([](CacheConfig& c) { c.pool_bytes = -1; }), "pool_bytes");
  EXPECT_EQ(field_of([](CacheConfig& c) { c.block_bytes = 1, c.pool_bytes = int64_t{1} << 40; }),
            "pool_bytes");
  EXPECT_EQ(field_of([](CacheConfig& c) { c.state_bytes = 0; }), "state_bytes");
  EXPECT_EQ(field_of([](CacheConfig& c) { c.block_tokens = 65'536; }), "block_tokens");
  EXPECT_EQ(field_of([](CacheConfig& c) { c.exact_replay = 127; }), "exact_replay");
  EXPECT_EQ(field_of([](CacheConfig& c) { c.max_sequences = 0; }), "max_sequences");
  EXPECT_EQ(field_of([](CacheConfig& c) { c.snapshot_ttl = -1; }), "snapshot_ttl");
  EXPECT_EQ(field_of([](CacheConfig& c) { c.pool_bytes = 55 * kBlockBytes; }),
            "pool_bytes");  // one slot, no block
  EXPECT_EQ(field_of([](CacheConfig& c) { c.pool_bytes = 56 * kBlockBytes; }), "");
}

// 890 bytes a token and the private windows, from the pool's own accounts, within 2 %.
TEST(StateCache, MemoryOfASequence) {
  for (const int64_t draft : {int64_t{0}, kDraftBytes}) {
    CacheConfig config = Released(20'000);
    config.state_bytes += draft;
    Fixture f(config);
    EXPECT_EQ(f.cache->slot_units(), draft == 0 ? 28 : 30);
    EXPECT_EQ(f.cache->snapshot_units(), 12);
    for (const int64_t tokens : {100, 1'000, 8'192, 100'000, 1'048'576}) {
      const std::vector<int32_t> ids = Ids(tokens);
      const SequenceId id = f.Prefill(Strict(ids)).sequence;
      const Usage usage = f.cache->usage();
      const auto used = static_cast<double>((usage.total - usage.free) * f.cache->unit_bytes());
      const auto expected = static_cast<double>(890 * tokens + config.state_bytes);
      EXPECT_NEAR(used / expected, 1.0, 0.02) << tokens;
      ASSERT_TRUE(f.cache->Release(id, ReleaseMode::kDiscard).ok());
      f.cache->DropCached();
    }
    EXPECT_EQ(f.cache->usage().free, f.cache->total_units());
  }
}

TEST(StateCache, HitsAroundBlockEdges) {
  for (const CachePolicy policy : {CachePolicy::kStrict, CachePolicy::kDeepseek}) {
    // A hit of at most one window is not used; a prompt never counts as cached to its very end.
    struct Case {
      int64_t cached, common, prompt, hit;
    };
    for (const Case& c : {Case{127, 127, 1000, 0}, Case{128, 128, 1000, 0}, Case{129, 129, 1000, 0},
                          Case{256, 256, 1000, 256}, Case{256, 255, 1000, 0}, Case{256, 256, 256, 0},
                          Case{256, 256, 257, 256}, Case{384, 384, 384, 256}, Case{384, 384, 385, 384},
                          Case{383, 383, 383, 256}, Case{1000, 257, 1000, 256}}) {
      Fixture f(Released(200));
      f.Run({.ids = Ids(c.cached), .policy = policy, .decoder_tail = 1});
      std::vector<int32_t> ids = Ids(c.common);
      while (static_cast<int64_t>(ids.size()) < c.prompt) ids.push_back(-1);
      const Prompt prompt{.ids = ids, .policy = policy, .decoder_tail = 1};
      EXPECT_EQ(f.Probe(prompt).hit, c.hit) << c.cached << " " << c.common << " " << c.prompt;
      const Admission admission = f.Prefill(prompt);
      EXPECT_EQ(admission.resume.hit, c.hit);
      EXPECT_EQ(f.cache->View(admission.sequence)->write_floor, c.hit);
      EXPECT_EQ(f.cache->View(admission.sequence)->length, c.prompt);
      EXPECT_LT(admission.resume.start, c.prompt);
    }
  }
}

TEST(StateCache, RepeatOfALongPrompt) {
  const std::vector<int32_t> ids = Ids(4'096);
  {
    // Hit 3,968; one window before it, or the tail of 140 rows.
    Fixture f(Released(200));
    f.Run(Deepseek(ids));
    const Resume resume = f.Probe(Deepseek(ids));
    EXPECT_EQ(resume.mode, ResumeMode::kBoundedReplay);
    EXPECT_EQ(resume.hit, 3'968);
    EXPECT_EQ(resume.start, 3'840);
    EXPECT_LE(4'096 - resume.start, 256 + 128 + 12);
    EXPECT_EQ(resume.exactness, Exactness::kApproximate);
  }
  {
    // A snapshot taken at 128 * floor((P - T) / 128) is exact and as short.
    Fixture f(Released(200));
    f.Run(Strict(ids), true);
    const Resume resume = f.Probe(Strict(ids));
    EXPECT_EQ(resume.mode, ResumeMode::kSnapshot);
    EXPECT_EQ(resume.start, 3'840);
    EXPECT_EQ(resume.exactness, Exactness::kExact);
    f.copies.Clear();
    const Admission admission = f.Admit(Strict(ids));
    ASSERT_EQ(f.copies.copies.size(), 1u);
    EXPECT_EQ(f.copies.copies[0].kind, CopyList::Kind::kRestore);
    EXPECT_EQ(f.copies.copies[0].to, f.cache->View(admission.sequence)->slot);
    EXPECT_EQ(f.copies.copies[0].position, 3'840);
    EXPECT_EQ(f.copies.UnitsOf(f.copies.copies[0]).size(), 12u);
  }
  {
    // Without one: 2,560 rows more, then the same bits.
    Fixture f(Released(200));
    f.Run(Strict(ids));
    const Resume resume = f.Probe(Strict(ids));
    EXPECT_EQ(resume.mode, ResumeMode::kExactReplay);
    EXPECT_EQ(resume.start, 4'096 - 140 - 2'560);
    // With the tail of exact_halo nothing is saved below about 5,100 tokens, but the blocks are shared.
    Prompt halo = Strict(ids);
    halo.decoder_tail = 2'541;
    EXPECT_EQ(f.Probe(halo).start, 0);
    EXPECT_EQ(f.Probe(halo).mode, ResumeMode::kExactReplay);
    halo.decoder_tail = 1 << 20;
    EXPECT_EQ(f.Probe(halo).start, 0);
  }
}

TEST(StateCache, LongerPromptsUseTheLaterSnapshot) {
  Fixture f(Released(300));
  const std::vector<int32_t> ids = Ids(5'000);
  f.Run(Strict(ids), true);
  EXPECT_EQ(f.cache->usage().snapshot_count, 2);
  std::vector<int32_t> longer = ids;
  longer.resize(5'500, -1);
  const Resume resume = f.Probe(Strict(longer));
  EXPECT_EQ(resume.mode, ResumeMode::kSnapshot);
  EXPECT_EQ(resume.start, 4'992);
  longer.resize(5'050);
  EXPECT_EQ(f.Probe(Strict(longer)).start, 4'736);  // the other: 5,050 - 140 = 4,910
}

TEST(StateCache, StrictNeverSeesApproximateBlocks) {
  Fixture f(Released(400));
  std::vector<int32_t> ids = Ids(2'000);
  f.Run(Strict(ids));
  ids.resize(4'000, 7);
  const Admission resumed = f.Prefill(Deepseek(ids));
  EXPECT_EQ(resumed.resume.mode, ResumeMode::kBoundedReplay);
  EXPECT_EQ(resumed.resume.hit, 1'920);
  EXPECT_EQ(f.cache->View(resumed.sequence)->exactness, Exactness::kApproximate);
  f.Keep(resumed.sequence);
  EXPECT_EQ(f.Probe(Deepseek(ids)).hit, 3'968);
  EXPECT_EQ(f.Probe(Strict(ids)).hit, 1'920);
  // Its own exact chain is published beside the other and then preferred by both.
  f.Run(Strict(ids));
  EXPECT_EQ(f.Probe(Strict(ids)).hit, 3'968);
  EXPECT_EQ(f.Probe(Deepseek(ids)).hit, 3'968);
  f.Run(Deepseek(ids));
  EXPECT_EQ(f.Probe(Strict(ids)).exactness, Exactness::kExact);
  Prompt off = Strict(ids);
  off.policy = CachePolicy::kOff;
  EXPECT_EQ(f.Probe(off).mode, ResumeMode::kCold);
}

TEST(StateCache, SnapshotsOfApproximateWindowsAreNotForStrict) {
  Fixture f(Released(400));
  const std::vector<int32_t> ids = Ids(4'096);
  f.Run(Strict(ids));
  // A bounded replay in front of the same exact blocks.
  const Admission approximate = f.Admit(Deepseek(ids));
  ASSERT_EQ(approximate.resume.start, 3'840);
  f.Feed(approximate.sequence, std::span(ids).subspan(3'840, 128));
  ASSERT_NE(*f.cache->SaveSnapshot(approximate.sequence, 3'968, &f.copies), SnapshotId::kNone);
  f.Keep(approximate.sequence);
  std::vector<int32_t> longer = ids;
  longer.resize(4'500, -1);
  EXPECT_EQ(f.Probe(Deepseek(longer)).start, 3'968);
  EXPECT_EQ(f.Probe(Strict(longer)).mode, ResumeMode::kExactReplay);
  // The exact one takes its place.
  const Admission exact = f.Admit(Strict(ids));
  f.Feed(exact.sequence, std::span(ids).subspan(static_cast<size_t>(exact.resume.start),
                                                static_cast<size_t>(3'968 - exact.resume.start)));
  ASSERT_NE(*f.cache->SaveSnapshot(exact.sequence, 3'968, &f.copies), SnapshotId::kNone);
  EXPECT_EQ(f.Probe(Strict(longer)).mode, ResumeMode::kSnapshot);
  EXPECT_EQ(f.cache->usage().snapshot_count, 1);
}

TEST(StateCache, RootsAndImagesSeparate) {
  Fixture f(Released(200));
  const std::vector<int32_t> ids(1'000, 129'264);
  std::vector<ContentSpan> image{{.kind = 1, .begin = 100, .length = 300, .content = {}}};
  Prompt prompt{.ids = ids, .spans = image, .policy = CachePolicy::kDeepseek, .decoder_tail = 140};
  f.Run(prompt);
  EXPECT_EQ(f.Probe(prompt).hit, 896);
  image[0].content[31] = 1;
  EXPECT_EQ(f.Probe(prompt).hit, 0);
  image[0].content[31] = 0;
  image[0].begin = 101;
  EXPECT_EQ(f.Probe(prompt).hit, 0);
  image[0].begin = 100;
  image[0].length = 301;
  EXPECT_EQ(f.Probe(prompt).hit, 384);  // the blocks before the one where the span ends
  image[0].length = 300;
  prompt.root[5] = 1;
  EXPECT_EQ(f.Probe(prompt).hit, 0);
  prompt.root = RootKey({.numeric_class = 2});
  EXPECT_EQ(f.Probe(prompt).hit, 0);
}

TEST(StateCache, BadPromptsNameTheField) {
  Fixture f(Released(100));
  const auto where = [&](const Prompt& prompt) { return f.cache->Probe(prompt).status().where(); };
  const std::vector<int32_t> ids = Ids(100);
  EXPECT_EQ(where({}), "prompt.ids");
  EXPECT_EQ(where({.ids = ids, .decoder_tail = 0}), "prompt.decoder_tail");
  const auto spans = [&](std::vector<ContentSpan> list) { return where({.ids = ids, .spans = list}); };
  EXPECT_EQ(spans({{.begin = 90, .length = 11}}), "prompt.spans[0]");
  EXPECT_EQ(spans({{.begin = -1, .length = 2}}), "prompt.spans[0]");
  EXPECT_EQ(spans({{.begin = 0, .length = 0}}), "prompt.spans[0]");
  EXPECT_EQ(spans({{.begin = 0, .length = 5}, {.begin = 4, .length = 5}}), "prompt.spans[1]");
  EXPECT_EQ(spans({{.begin = 0, .length = INT64_MAX}}), "prompt.spans[0]");
  EXPECT_EQ(f.cache->Admit({.ids = ids}, 0, 99, &f.copies).status().where(), "reserve");
  EXPECT_EQ(f.cache->Admit({.ids = ids}, 101, 100, &f.copies).status().where(), "reserve");
}

TEST(StateCache, CommitChecksRows) {
  Fixture f(Released(100));
  const std::vector<int32_t> ids = Ids(300);
  const SequenceId id = f.Admit(Strict(ids), 256).sequence;
  EXPECT_EQ(f.cache->Commit(id, ids).where(), "written_end");  // 256 reserved
  EXPECT_EQ(f.cache->Commit(id, std::span(ids).subspan(1, 5)).where(), "ids");
  EXPECT_EQ(f.cache->Commit(id, std::span(ids).first(5), 4).where(), "written_end");
  EXPECT_EQ(f.cache->Commit(id, std::span(ids).first(5), 18).where(), "written_end");
  EXPECT_EQ(f.cache->View(id)->length, 0);
  EXPECT_TRUE(f.cache->Commit(id, std::span(ids).first(5), 17).ok());
  EXPECT_EQ(f.cache->Reserve(id, 300 + 4097).where(), "end");
  EXPECT_EQ(f.cache->Commit(SequenceId{77}, ids).where(), "sequence");
  EXPECT_FALSE(f.cache->View(SequenceId::kNone).ok());
  f.Keep(id);
  EXPECT_EQ(f.cache->Release(id, ReleaseMode::kKeep).where(), "sequence");
  EXPECT_NE(f.Admit(Strict(ids)).sequence, id);  // the same slot, another identity
}

TEST(StateCache, RollbackStaysInsideTheRings) {
  Fixture f(Released(100));
  const SequenceId id = f.Prefill(Strict(Ids(120))).sequence;
  EXPECT_FALSE(f.cache->Rollback(id, 1).ok());  // prompt
  f.Feed(id, Ids(30, 1'000));
  EXPECT_FALSE(f.cache->Rollback(id, 13).ok());
  EXPECT_TRUE(f.cache->Rollback(id, 12).ok());
  EXPECT_EQ(f.cache->View(id)->length, 138);
  EXPECT_FALSE(f.cache->Rollback(id, 1).ok());  // the rings hold no more
  f.Feed(id, Ids(2), 6);                        // rejected drafts take room as well: rows up to 146
  EXPECT_FALSE(f.cache->Rollback(id, 7).ok());
  f.Feed(id, Ids(10));
  EXPECT_TRUE(f.cache->Rollback(id, 5).ok());
  EXPECT_FALSE(f.cache->Rollback(id, -1).ok());
  EXPECT_TRUE(f.cache->Rollback(id, 0).ok());
}

TEST(StateCache, GeneratedBlocksAppearWhenNothingCanTakeThemBack) {
  Fixture f(Released(100));
  std::vector<int32_t> ids = Ids(200);
  const SequenceId id = f.Prefill(Strict(ids)).sequence;
  EXPECT_EQ(f.cache->counters().published, 1u);  // the prompt's own at once
  for (int32_t i = 200; i < 267; ++i) {
    f.Feed(id, std::span(&i, 1));
    ids.push_back(i);
  }
  EXPECT_EQ(f.cache->counters().published, 1u);
  const int32_t next = 267;
  f.Feed(id, std::span(&next, 1));  // row 267: block [128, 256) is 12 rows behind
  EXPECT_EQ(f.cache->counters().published, 2u);
  for (int32_t i = 268; i < 384; ++i) f.Feed(id, std::span(&i, 1));
  EXPECT_EQ(f.cache->counters().published, 2u);
  f.Keep(id);  // nothing is taken back any more
  EXPECT_EQ(f.cache->counters().published, 3u);
  const SequenceId discarded = f.Prefill(Strict(Ids(100, 5'000))).sequence;
  f.Feed(discarded, Ids(28, 9));
  EXPECT_TRUE(f.cache->Release(discarded, ReleaseMode::kDiscard).ok());
  EXPECT_EQ(f.cache->counters().published, 3u);
  EXPECT_TRUE(f.cache->AuditIdle().ok());
}

TEST(StateCache, ForkSharesFullBlocksAndCopiesTheRest) {
  Fixture f(Released(200));
  const std::vector<int32_t> ids = Ids(300);
  const SequenceId parent = f.Prefill(Strict(ids)).sequence;
  f.copies.Clear();
  const SequenceId child = *f.cache->Fork(parent, &f.copies);
  const SequenceView a = *f.cache->View(parent);
  const SequenceView b = *f.cache->View(child);
  EXPECT_EQ(a.units[0], b.units[0]);
  EXPECT_EQ(a.units[1], b.units[1]);
  EXPECT_NE(a.units[2], b.units[2]);
  EXPECT_NE(a.slot, b.slot);
  ASSERT_EQ(f.copies.copies.size(), 2u);
  EXPECT_EQ(f.copies.copies[0].kind, CopyList::Kind::kBlock);
  EXPECT_EQ(f.copies.copies[0].from, a.units[2]);
  EXPECT_EQ(f.copies.copies[0].to, b.units[2]);
  EXPECT_EQ(f.copies.copies[1].kind, CopyList::Kind::kState);
  EXPECT_EQ(f.copies.copies[1].from, a.slot);
  EXPECT_EQ(f.copies.copies[1].to, b.slot);
  EXPECT_EQ(f.cache->usage().blocks, 4);
  // Both go on, publish different blocks, and end in any order.
  f.Feed(parent, Ids(100, 10'000));
  f.Feed(child, Ids(100, 20'000));
  f.Keep(parent);
  ASSERT_TRUE(f.cache->Audit().ok());
  f.Keep(child);
  EXPECT_TRUE(f.cache->AuditIdle().ok());
  EXPECT_EQ(f.cache->usage().cached, 4);
}

TEST(StateCache, EqualBlocksOfTwoSequencesBecomeOne) {
  Fixture f(Released(200));
  const std::vector<int32_t> ids = Ids(300);
  const SequenceId first = f.Admit(Strict(ids)).sequence;
  const SequenceId second = f.Admit(Strict(ids)).sequence;
  EXPECT_EQ(f.cache->usage().blocks, 6);
  f.Feed(first, ids);
  const uint64_t version = f.cache->View(second)->table_version;
  f.Feed(second, ids);
  EXPECT_EQ(f.cache->usage().blocks, 4);
  EXPECT_EQ(f.cache->View(first)->units[1], f.cache->View(second)->units[1]);
  EXPECT_NE(f.cache->View(second)->table_version, version);
  EXPECT_EQ(f.cache->counters().deduplicated, 2u);
}

// spec: serving.md S22. Followers wait while the leader computes what they need, then start behind it.
TEST(StateCache, OneOfManyEqualPromptsComputes) {
  Fixture f(Released(2'500));
  const std::vector<int32_t> ids = Ids(16'000);
  std::vector<SequenceId> running;
  int64_t computed = 0;
  int waiting = 32;
  while (waiting > 0 || !running.empty()) {
    while (waiting > 0) {
      const Resume resume = f.Probe(Deepseek(ids));
      if (resume.leader != SequenceId::kNone && resume.leader_tokens > resume.start) {
        EXPECT_EQ(resume.leader, running.front());
        EXPECT_EQ(resume.leader_tokens, 15'872);
        break;
      }
      running.push_back(f.Admit(Deepseek(ids)).sequence);
      --waiting;
    }
    for (const SequenceId id : running) {
      const int64_t length = f.cache->View(id)->length;
      const int64_t count = std::min<int64_t>(500, 16'000 - length);
      f.Feed(id, std::span(ids).subspan(static_cast<size_t>(length), static_cast<size_t>(count)));
      computed += count;
    }
    std::erase_if(running, [&](SequenceId id) {
      if (f.cache->View(id)->length < 16'000) return false;
      f.Keep(id);
      return true;
    });
  }
  // 31 followers replay their hit's last window and the rest of the prompt.
  EXPECT_LE(computed, 16'000 + 31 * 396);
  EXPECT_LE(static_cast<double>(computed), 1.05 * 16'000 + 31 * 256);
}

TEST(StateCache, EvictsTheOldestPrefixFromItsEnd) {
  CacheConfig config = Released(28 * 3);
  config.max_snapshots = 0;
  Fixture f(config);
  const std::vector<int32_t> old_ids = Ids(128 * 20);
  const std::vector<int32_t> new_ids = Ids(128 * 20, 100'000);
  f.Run(Deepseek(old_ids));
  f.Run(Deepseek(new_ids));
  f.Run(Deepseek(std::span(old_ids).first(1'000)));  // touched: its beginning is younger now
  const std::vector<int32_t> probe_old = Ids(128 * 20 + 1);
  std::vector<int32_t> probe_new = new_ids;
  probe_new.push_back(-1);
  EXPECT_EQ(f.Probe(Deepseek(probe_old)).hit, 2'560);
  // A slot and 40 blocks: 24 must go.
  const SequenceId big = f.Admit(Strict(Ids(128 * 40, 500'000))).sequence;
  EXPECT_EQ(f.Probe(Deepseek(probe_old)).hit, 896);  // what was touched
  EXPECT_EQ(f.Probe(Deepseek(probe_new)).hit, 2'560 - 128 * (24 - 13));
  f.Keep(big);
  EXPECT_TRUE(f.cache->AuditIdle().ok());
}

TEST(StateCache, PinsKeepAPrefix) {
  Fixture f(Released(28 * 3));
  const std::vector<int32_t> ids = Ids(1'281);
  EXPECT_EQ(*f.cache->PinPrefix(Deepseek(ids)), PinId::kNone);
  f.Run(Deepseek(ids));
  const PinId pin = *f.cache->PinPrefix(Deepseek(ids));
  EXPECT_EQ(f.cache->usage().blocks, 10);
  f.cache->DropCached();
  EXPECT_EQ(f.Probe(Deepseek(ids)).hit, 1'280);
  EXPECT_FALSE(f.cache->AuditIdle().ok());
  EXPECT_TRUE(f.cache->Unpin(pin).ok());
  EXPECT_EQ(f.cache->Unpin(pin).where(), "pin");
  EXPECT_TRUE(f.cache->AuditIdle().ok());
  f.cache->DropCached();
  EXPECT_EQ(f.Probe(Deepseek(ids)).hit, 0);
}

// No static split: scattered blocks make room for a slot by moving.
TEST(StateCache, BlocksMoveWhenASlotNeedsARun) {
  Fixture f(Released(28 * 6));
  std::vector<SequenceId> ids;
  for (int32_t i = 0; i < 2; ++i)
    ids.push_back(f.Admit(Prompt{.ids = Ids(1, i), .policy = CachePolicy::kOff}, 1).sequence);
  // Block by block in turn, so that every extent holds blocks of both, in all 112 units that are no slots.
  for (int64_t block = 2; block <= 56 / 1; ++block) {
    for (const SequenceId id : ids) {
      ASSERT_TRUE(f.cache->Reserve(id, std::min<int64_t>(block * 128, 4'097)).ok());
    }
  }
  const Usage before = f.cache->usage();
  ASSERT_EQ(before.blocks, 66);
  ASSERT_TRUE(f.cache->Release(ids[0], ReleaseMode::kKeep).ok());
  // 33 blocks of the second sequence are scattered over three extents; five slots' worth of units are not held.
  f.copies.Clear();
  const uint64_t version = f.cache->View(ids[1])->table_version;
  for (int32_t i = 0; i < 3; ++i) {
    Result<Admission> admission =
        f.cache->Admit({.ids = Ids(1, 100 + i), .policy = CachePolicy::kOff}, 1, 10, &f.copies);
    ASSERT_TRUE(admission.ok()) << i << ": " << admission.status().ToString();
  }
  EXPECT_GT(f.cache->counters().moved_units, 0u);
  EXPECT_NE(f.cache->View(ids[1])->table_version, version);
  EXPECT_EQ(f.copies.copies.size(), f.cache->counters().moved_units);
}

TEST(StateCache, RefusalsChangeNothing) {
  Fixture f(Released(28 * 3));
  const std::vector<int32_t> ids = Ids(1'000);
  const SequenceId id = f.Prefill(Deepseek(ids)).sequence;
  const Usage before = f.cache->usage();
  f.copies.Clear();
  const Status admit = f.cache->Admit(Deepseek(Ids(128 * 60, 9'000)), 128 * 60, 10'000, &f.copies).status();
  EXPECT_EQ(admit.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(admit.ToString(), HasSubstr("88 units are needed, 48 can be had"));
  EXPECT_EQ(f.cache->Reserve(id, 128 * 60).code(), StatusCode::kInvalidArgument);
  const SequenceId other = f.Admit(Deepseek(Ids(128 * 20, 50'000))).sequence;
  EXPECT_EQ(f.cache->usage().free, 0);
  EXPECT_EQ(f.cache->Reserve(id, 128 * 9).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(f.cache->Fork(id, &f.copies).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(f.copies.copies.empty());
  EXPECT_TRUE(f.cache->Release(other, ReleaseMode::kDiscard).ok());
  EXPECT_EQ(f.cache->usage().free, before.free);
}

TEST(StateCache, SequencesAreLimited) {
  CacheConfig config = Released(28 * 4);
  config.max_sequences = 1;
  Fixture f(config);
  const SequenceId id = f.Prefill(Strict(Ids(10))).sequence;
  EXPECT_EQ(f.cache->Admit(Strict(Ids(10)), 0, 10, &f.copies).status().where(), "max_sequences");
  EXPECT_EQ(f.cache->Fork(id, &f.copies).status().where(), "max_sequences");
}

TEST(StateCache, SnapshotsExpireAndObeyTheirBudget) {
  CacheConfig config = Released(400);
  config.max_snapshots = 2;
  config.snapshot_ttl = 100;
  Fixture f(config);
  for (int32_t i = 0; i < 3; ++i) {
    f.cache->AdvanceTime(i * 30);
    const std::vector<int32_t> ids = Ids(300, i * 1'000);
    const SequenceId id = f.Admit(Strict(ids)).sequence;
    f.Feed(id, std::span(ids).first(256));
    EXPECT_NE(*f.cache->SaveSnapshot(id, 256, &f.copies), SnapshotId::kNone);
    EXPECT_EQ(*f.cache->SaveSnapshot(id, 256, &f.copies), SnapshotId::kNone);  // it exists
    f.Keep(id);
  }
  EXPECT_EQ(f.cache->usage().snapshot_count, 2);
  f.cache->AdvanceTime(130);
  EXPECT_EQ(f.cache->usage().snapshot_count, 1);
  f.cache->AdvanceTime(20);  // never backwards
  f.cache->AdvanceTime(160);
  EXPECT_EQ(f.cache->usage().snapshot_count, 0);
  EXPECT_EQ(f.cache->usage().cached, 6);  // blocks do not expire
}

TEST(StateCache, SnapshotsNeedTheRowsInTheRings) {
  Fixture f(Released(400));
  const std::vector<int32_t> ids = Ids(2'000);
  const SequenceId id = f.Admit(Strict(ids)).sequence;
  EXPECT_FALSE(f.cache->SaveSnapshot(id, 128, &f.copies).ok());  // not fed yet
  f.Feed(id, std::span(ids).first(268));
  EXPECT_FALSE(f.cache->SaveSnapshot(id, 100, &f.copies).ok());  // no block edge
  EXPECT_FALSE(f.cache->SaveSnapshot(id, 128, &f.copies).ok());  // gone
  EXPECT_TRUE(f.cache->SaveSnapshot(id, 256, &f.copies).ok());   // 12 rows ago
  f.Feed(id, std::span(ids).subspan(268, 129));
  EXPECT_FALSE(f.cache->SaveSnapshot(id, 384, &f.copies).ok());  // 13
  f.Keep(id);
}

TEST(StateCache, SnapshotsWhileDecodingWaitForTheirBlock) {
  Fixture f(Released(400));
  std::vector<int32_t> ids = Ids(250);
  const SequenceId id = f.Prefill(Strict(ids)).sequence;
  for (int32_t i = 250; i < 260; ++i) {
    f.Feed(id, std::span(&i, 1));
    ids.push_back(i);
  }
  ASSERT_NE(*f.cache->SaveSnapshot(id, 256, &f.copies), SnapshotId::kNone);
  ids.resize(600, -1);
  EXPECT_EQ(f.Probe(Strict(ids)).mode, ResumeMode::kCold);  // block [128, 256) can still be taken back
  // Taking back the block's last row takes the snapshot back.
  const SequenceId fork = *f.cache->Fork(id, &f.copies);
  EXPECT_TRUE(f.cache->Rollback(fork, 5).ok());
  EXPECT_EQ(f.cache->usage().snapshot_count, 1);
  f.Keep(fork);
  f.Keep(id);
  const Resume resume = f.Probe(Strict(ids));
  EXPECT_EQ(resume.mode, ResumeMode::kSnapshot);
  EXPECT_EQ(resume.start, 256);

  const SequenceId again = f.Prefill(Strict(Ids(250, 7'000))).sequence;
  f.Feed(again, Ids(8));
  ASSERT_NE(*f.cache->SaveSnapshot(again, 256, &f.copies), SnapshotId::kNone);
  EXPECT_EQ(f.cache->usage().snapshot_count, 2);
  EXPECT_TRUE(f.cache->Rollback(again, 3).ok());
  EXPECT_EQ(f.cache->usage().snapshot_count, 1);
}

TEST(StateCache, PaddingOwnsTheFirstExtent) {
  CacheConfig config = Released(28 * 4);
  config.padding_extent = true;
  Fixture f(config);
  const SequenceId a = f.Prefill(Strict(Ids(128 * 25))).sequence;
  const SequenceView view = *f.cache->View(a);
  EXPECT_NE(view.slot, 0u);
  EXPECT_THAT(view.units, testing::Each(testing::Ge(28u)));
  EXPECT_EQ(f.cache->usage().padding, 28);
}

TEST(StateCache, DecodingAllocatesNothing) {
  Fixture f(Released(2'000));
  std::vector<SequenceId> running;
  for (int32_t i = 0; i < 8; ++i) running.push_back(f.Prefill(Strict(Ids(500, i * 1'000))).sequence);
  const auto decode = [&](int32_t steps) {
    for (int32_t step = 0; step < steps; ++step) {
      for (const SequenceId id : running) f.Feed(id, std::span(&step, 1), 6);
    }
  };
  decode(130);
  const int64_t before = AllocationCount();
  decode(1'000);
  EXPECT_EQ(AllocationCount(), before);
}

}  // namespace
}  // namespace deepinfer::cache
