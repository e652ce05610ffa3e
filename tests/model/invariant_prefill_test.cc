// Invariants 21 and 22 of spec: model.md §14: prefill modes and prefix hits; and the operation counts of the modes.
#include <algorithm>
#include <cstdio>

#include <gtest/gtest.h>

#include "model/operation_count.h"
#include "model/recorder.h"
#include "model/state_image.h"
#include "support/golden_file.h"

namespace deepinfer::testing {
namespace {

using model::ChunkOutput;
using model::LogitsWanted;
using model::OperationCounts;
using model::PrefillMode;
using model::Sequence;

constexpr int64_t kVocab = 512, kWindow = 16, kDefaultKeep = 28;

class PrefillInvariants : public ::testing::TestWithParam<std::string> {
 protected:
  TestModel& Tiny() { return testing::Tiny(GetParam()); }

  static std::vector<float> LastRow(const std::vector<float>& logits) {
    return {logits.end() - kVocab, logits.end()};
  }

  const std::vector<int32_t> ids_ = Prompt(300, kVocab, 21);
};

TEST_P(PrefillInvariants, Invariant21_ExactHaloIsFullForTheLastTokenAndAllRings) {
  // Below, at and above one window, the halo and a block.
  for (int64_t length : {1, 15, 16, 17, 75, 76, 77, 91, 131, 300}) {
    const std::span<const int32_t> ids = std::span(ids_).first(static_cast<size_t>(length));
    const Outcome full = FeedInChunks(Tiny(), ids, length);
    for (int64_t size : {length, int64_t{47}}) {
      const Outcome halo = FeedInChunks(Tiny(), ids, size, PrefillMode::kExactHalo);
      EXPECT_TRUE(SameBits(LastRow(halo.logits), LastRow(full.logits))) << length << " in chunks of " << size;
      EXPECT_EQ(Difference(halo.state, full.state), "") << length << " in chunks of " << size;
    }
  }
}

TEST_P(PrefillInvariants, Invariant21_DecodingAfterExactHaloIsDecodingAfterFull) {
  auto full = Tiny().NewSequence(), halo = Tiny().NewSequence();
  const std::span<const int32_t> prompt = std::span(ids_).first(131),
                                 answer = std::span(ids_).subspan(131, 40);
  FeedInChunks(Tiny(), full.get(), prompt, 131);
  FeedInChunks(Tiny(), halo.get(), prompt, 131, PrefillMode::kExactHalo);
  EXPECT_TRUE(
      SameBits(FeedInChunks(Tiny(), full.get(), answer, 40), FeedInChunks(Tiny(), halo.get(), answer, 3)));
  EXPECT_EQ(Difference(TakeState(*Tiny().backbone, *full), TakeState(*Tiny().backbone, *halo)), "");
}

TEST_P(PrefillInvariants, Invariant21_BoundedReplayIsFullUpToTheKeptRows) {
  for (const auto& [length, keep] :
       {std::pair<int64_t, int64_t>(kDefaultKeep, 0), {20, 0}, {16, 16}, {50, 60}}) {
    const std::span<const int32_t> ids = std::span(ids_).first(static_cast<size_t>(length));
    const Outcome full = FeedInChunks(Tiny(), ids, length);
    const Outcome replay = FeedInChunks(Tiny(), ids, length, PrefillMode::kBoundedReplay, keep);
    EXPECT_TRUE(SameBits(replay.logits, full.logits)) << length;
    EXPECT_EQ(Difference(replay.state, full.state), "") << length;
  }
}

TEST_P(PrefillInvariants, Invariant21_BoundedReplayBeyondTheKeptRowsIsCloseWithTheSameGlobalState) {
  for (const auto& [length, keep] : {std::pair<int64_t, int64_t>(29, 0), {131, 16}, {300, 0}}) {
    const std::span<const int32_t> ids = std::span(ids_).first(static_cast<size_t>(length));
    const Outcome full = FeedInChunks(Tiny(), ids, length);
    const Outcome replay = FeedInChunks(Tiny(), ids, length, PrefillMode::kBoundedReplay, keep);
    ASSERT_TRUE(AllFinite(replay.logits));
    EXPECT_FALSE(SameBits(LastRow(replay.logits), LastRow(full.logits))) << length;
    EXPECT_EQ(EntryDifference(replay.state, full.state), "") << length;
    // The encoder's rings are those of a full prefill, and every ring holds a whole window of values.
    for (int layer = 0; layer < 10; ++layer) {
      const Sequence::RingImage& ring = replay.state.rings[static_cast<size_t>(layer)];
      if (layer < 5) {
        EXPECT_EQ(ring.codes, full.state.rings[static_cast<size_t>(layer)].codes) << layer;
      }
      EXPECT_EQ(ring.valid, std::vector<uint8_t>(kWindow, 1)) << layer;
    }
    const Comparison difference = Compare(LastRow(replay.logits), LastRow(full.logits));
    EXPECT_LT(difference.max_abs, 6 * difference.rms) << length;
  }
}

TEST_P(PrefillInvariants, Invariant21_ReplayedRowsSeeNothingBeforeTheCut) {
  // The first kept row is its own whole window: decoder layers attend it and the entries of its list alone.
  constexpr int64_t kLength = 131, kKeep = 20, kFirst = kLength - kKeep;
  Recorder seen;
  auto sequence = Tiny().NewSequence();
  Tiny().Feed(sequence.get(), std::span(ids_).first(kLength), LogitsWanted::kAll, PrefillMode::kBoundedReplay,
              0, kKeep, &seen);
  const GoldenFile& weights = GoldenFile::SharedCheckpoint("tiny");
  const std::vector<Bf16>& main = seen.bf16s.at("layers.5.attn.main_kv");
  for (int layer : {5, 6, 7, 8, 9}) {
    const std::vector<int32_t>& topk = seen.ints.at(LayerTensor(layer < 7   ? 5
                                                                : layer < 9 ? 7
                                                                            : 9,
                                                                "attn.indexer.topk"));
    std::vector<Bf16> kv = seen.bf16s.at(LayerTensor(layer, "attn.window_kv"));
    ASSERT_EQ(kv.size(), static_cast<size_t>(kKeep * 64)) << "rows before the cut have no window KV";
    kv.insert(kv.end(), main.begin(), main.end());
    constexpr int64_t kSlots = kWindow + 8;
    std::vector<int32_t> slots(kKeep * kSlots, -1);
    for (int64_t row = 0; row < kKeep; ++row) {
      int32_t* slot = slots.data() + row * kSlots;
      for (int64_t p = std::max<int64_t>(0, row - kWindow + 1); p <= row; ++p)
        *slot++ = static_cast<int32_t>(p);
      for (int64_t i = 0; i < 8; ++i)
        *slot++ = static_cast<int32_t>(kKeep) + topk[static_cast<size_t>(row * 8 + i)];
    }
    const std::vector<Bf16>& q = seen.bf16s.at(LayerTensor(layer, "attn.q"));
    std::vector<Bf16> expected(q.size());
    const auto reference = MakeOps("reference");
    reference->SlotAttention({}, {.rows = kKeep,
                                  .heads = 4,
                                  .dim = 64,
                                  .num_slots = kSlots,
                                  .q = q.data(),
                                  .kv = kv.data(),
                                  .slots = slots.data(),
                                  .sink = weights.Floats(LayerTensor(layer, "attn.attn_sink")).data(),
                                  .scale = 0.125f,
                                  .out = expected.data()});
    const Comparison comparison = Compare(seen.bf16s.at(LayerTensor(layer, "attn.heads")), expected);
    EXPECT_TRUE(WithinBf16Class(comparison))
        << "layer " << layer << " from position " << kFirst << ": " << comparison.ToString();
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Prefix hits
// ---------------------------------------------------------------------------------------------------------------------

TEST_P(PrefillInvariants, Invariant22_ReplayLeavesTheCachedEntriesAlone) {
  auto donor = Tiny().NewSequence();
  FeedInChunks(Tiny(), donor.get(), std::span(ids_).first(200), 200);
  const StateImage before = TakeState(*Tiny().backbone, *donor);
  for (int64_t hit : {17, 64, 77, 128, 129, 145, 200}) {  // odd: a pair of tokens straddles the hit
    auto sequence = Check(Sequence::FromPrefix(*donor, hit));
    ASSERT_EQ(sequence->length(), hit - kWindow);
    auto in_chunks = Check(Sequence::FromPrefix(*donor, hit));
    // Another text behind the hit than the donor's: what belongs to the hit must still be the donor's.
    std::vector<int32_t> ids(ids_.begin() + hit - kWindow, ids_.begin() + hit);
    const std::vector<int32_t> suffix = Prompt(50, kVocab, 220);
    ids.insert(ids.end(), suffix.begin(), suffix.end());
    const std::vector<float> logits =
        FeedInChunks(Tiny(), sequence.get(), ids, static_cast<int64_t>(ids.size()));
    EXPECT_TRUE(AllFinite(logits)) << hit;
    const StateImage after = TakeState(*Tiny().backbone, *sequence);
    for (size_t source = 0; source < 3; ++source) {
      const int64_t kept = hit / (source < 2 ? 2 : 1);
      for (const auto& [mine, donors] : {std::pair(&after.main[source], &before.main[source]),
                                         {&after.index[source], &before.index[source]}}) {
        const auto codes =
            static_cast<ptrdiff_t>(static_cast<int64_t>(mine->codes.size()) / mine->count * kept);
        const auto scales =
            static_cast<ptrdiff_t>(static_cast<int64_t>(mine->scales.size()) / mine->count * kept);
        EXPECT_TRUE(std::equal(mine->codes.begin(), mine->codes.begin() + codes, donors->codes.begin()))
            << hit << " source " << source;
        EXPECT_TRUE(std::equal(mine->scales.begin(), mine->scales.begin() + scales, donors->scales.begin()))
            << hit << " source " << source;
      }
      EXPECT_EQ(after.main[source].count, (hit + 50) / (source < 2 ? 2 : 1));
    }
    EXPECT_EQ(Difference(TakeState(*Tiny().backbone, *donor), before), "") << hit;
    // A hit's replay may come in chunks like any prompt.
    EXPECT_EQ(FirstDifferingRow(FeedInChunks(Tiny(), in_chunks.get(), ids, 7), logits, kVocab), -1) << hit;
    EXPECT_EQ(Difference(TakeState(*Tiny().backbone, *in_chunks), after), "") << hit;
  }
}

TEST_P(PrefillInvariants, Invariant22_RestoredRingsGiveTheColdRun) {
  constexpr int64_t kHit = 77;
  const Outcome cold = FeedInChunks(Tiny(), std::span(ids_).first(150), 150);
  auto prefix = Tiny().NewSequence();
  FeedInChunks(Tiny(), prefix.get(), std::span(ids_).first(kHit), kHit);
  auto resumed = Check(prefix->Clone());  // all state, rings and tails included
  const std::vector<float> logits =
      FeedInChunks(Tiny(), resumed.get(), std::span(ids_).subspan(kHit, 150 - kHit), 150);
  EXPECT_TRUE(SameBits(logits, std::span(cold.logits).subspan(kHit * kVocab)));
  EXPECT_EQ(Difference(TakeState(*Tiny().backbone, *resumed), cold.state), "");
  // Replayed rings are approximate: the same suffix after a replay differs, in the first layer's ring never.
  auto donor = Tiny().NewSequence();
  FeedInChunks(Tiny(), donor.get(), std::span(ids_).first(kHit), kHit);
  auto replayed = Check(Sequence::FromPrefix(*donor, kHit));
  const std::vector<float> other = FeedInChunks(
      Tiny(), replayed.get(), std::span(ids_).subspan(kHit - kWindow, 150 - kHit + kWindow), 150);
  EXPECT_FALSE(SameBits(std::span(other).subspan(kWindow * kVocab), logits));
  EXPECT_EQ(TakeState(*Tiny().backbone, *replayed).rings[0].codes, cold.state.rings[0].codes);
}

INSTANTIATE_TEST_SUITE_P(All, PrefillInvariants, ::testing::ValuesIn(KernelTargets()), TargetName);

// ---------------------------------------------------------------------------------------------------------------------
// Operation counts
// ---------------------------------------------------------------------------------------------------------------------

std::string Describe(const OperationCounts& c) {
  std::string text;
  for (const auto& [name, value] : {std::pair("encoder_rows", c.encoder_rows),
                                    {"decoder_rows", c.decoder_rows},
                                    {"window_rows", c.window_rows},
                                    {"source_rows", c.source_rows},
                                    {"gated_rows", c.gated_rows},
                                    {"entries", c.entries},
                                    {"indexer_rows", c.indexer_rows},
                                    {"score_columns", c.score_columns},
                                    {"attention_slots", c.attention_slots},
                                    {"engram_rows", c.engram_rows},
                                    {"logits_rows", c.logits_rows}}) {
    text += std::string(name) + " " + std::to_string(value) + " ";
  }
  return text;
}

/// The counts of a run of the demo model: 12 layers, window 64, halo 379.
OperationCounts CountRun(TestModel& model, std::span<const int32_t> ids, PrefillMode mode,
                         size_t chunk_size) {
  model.backbone->ResetCounts();
  auto sequence = model.NewSequence();
  for (size_t at = 0; at < ids.size(); at += chunk_size) {
    const std::span<const int32_t> chunk = ids.subspan(at, std::min(chunk_size, ids.size() - at));
    const bool last = at + chunk.size() == ids.size();
    model.Feed(sequence.get(), chunk, last ? LogitsWanted::kLast : LogitsWanted::kNone, mode,
               static_cast<int64_t>(ids.size()));
  }
  return model.backbone->counts();
}

TEST(OperationCount, TinyRunsCountWhatTheFormulaSays) {
  // Below and above the window, the kept rows and the halo; in one pass and in several.
  TestModel& tiny = testing::Tiny("reference");
  const std::vector<int32_t> ids = Prompt(131, kVocab, 5);
  for (size_t length : {1, 16, 20, 77, 131}) {
    for (PrefillMode mode : {PrefillMode::kFull, PrefillMode::kExactHalo, PrefillMode::kBoundedReplay}) {
      const OperationCounts expected =
          CountPrefill(tiny.backbone->config(), mode, static_cast<int64_t>(length));
      for (size_t chunk : {length, size_t{30}}) {
        const OperationCounts got = CountRun(tiny, std::span(ids).first(length), mode, chunk);
        EXPECT_EQ(got, expected) << length << " " << PrefillModeName(mode) << " in chunks of " << chunk
                                 << "\n  run     " << Describe(got) << "\n  formula " << Describe(expected);
      }
    }
  }
}

TEST(OperationCount, RunsCountWhatTheFormulaSays) {
  // The fastest kernels: counts do not depend on them.
  TestModel demo =
      TestModel::Load("demo-model", KernelTargets().size() > 1 ? KernelTargets()[1] : "reference", 1, 1024);
  const ModelConfig& config = demo.backbone->config();
  const std::vector<int32_t> ids = Prompt(2000, config.vocab_size, 3);
  for (size_t length : {5, 63, 64, 65, 130, 378, 379, 400, 700, 2000}) {
    for (PrefillMode mode : {PrefillMode::kFull, PrefillMode::kExactHalo, PrefillMode::kBoundedReplay}) {
      const OperationCounts expected = CountPrefill(config, mode, static_cast<int64_t>(length));
      const OperationCounts got =
          CountRun(demo, std::span(ids).first(length), mode, length > 700 ? 1000 : length);
      EXPECT_EQ(got, expected) << length << " " << PrefillModeName(mode) << "\n  run     " << Describe(got)
                               << "\n  formula " << Describe(expected);
      if (length == 400) {
        EXPECT_EQ(CountRun(demo, std::span(ids).first(length), mode, 150), expected)
            << "in chunks, " << PrefillModeName(mode);
      }
    }
  }
}

TEST(OperationCount, FiguresByHand) {
  // TINY with 20 rows in full: ten layers, windows of 16, entries of two ratio-2 sources and one ratio-1 source, lists of 8.
  const ModelConfig tiny = testing::Tiny("reference").backbone->config();
  const OperationCounts full = CountPrefill(tiny, PrefillMode::kFull, 20);
  EXPECT_EQ(full.encoder_rows, 5 * 20);
  EXPECT_EQ(full.decoder_rows, 5 * 20);
  EXPECT_EQ(full.window_rows, 10 * 20);
  EXPECT_EQ(full.source_rows, 3 * 20);
  EXPECT_EQ(full.gated_rows, 2 * 20);
  EXPECT_EQ(full.entries, 10 + 10 + 20);
  EXPECT_EQ(full.indexer_rows, 5 * 20);
  EXPECT_EQ(full.engram_rows, 2 * 20);
  EXPECT_EQ(full.logits_rows, 1);
  // Window slots of a layer: 1 + 2 + ... + 16, then 4 x 16. Entry slots: min(n, 8) with n = (i + 1) / 2 or i + 1.
  const int64_t window = 136 + 4 * 16, ratio2 = 2 * (1 + 2 + 3 + 4 + 5 + 6 + 7) + 8 * 5, ratio1 = 36 + 12 * 8;
  EXPECT_EQ(full.attention_slots, 10 * window + 4 * ratio2 + 5 * ratio1);
  // Scored are rows that see more than 8: at ratio 2 rows 17 (9), 18 (9), 19 (10); at ratio 1 rows 8 .. 19 (9 .. 20), of which the two
  // Reindex layers score at most a pool of 16 entries: three whole blocks and what exists of the newest.
  const int64_t ratio2_scores = 9 + 9 + 10;
  const int64_t ratio1_scores = (9 + 20) * 12 / 2;
  const int64_t pool_scores =
      9 + 10 + 11 + 12 + 13 + 14 + 15 + 16 + (12 + 1) + (12 + 2) + (12 + 3) + (12 + 4);
  EXPECT_EQ(full.score_columns, 2 * ratio2_scores + ratio1_scores + 2 * pool_scores);

  const OperationCounts halo = CountPrefill(tiny, PrefillMode::kExactHalo, 300);
  // Layer 5 + m takes window rows 76 - 15 m and queries 61 - 15 m of them, the last layer one.
  EXPECT_EQ(halo.window_rows, 5 * 300 + 76 + 61 + 46 + 31 + 16);
  EXPECT_EQ(halo.decoder_rows, 61 + 46 + 31 + 16 + 1);
  EXPECT_EQ(halo.encoder_rows, 5 * 300);
  const OperationCounts replay = CountPrefill(tiny, PrefillMode::kBoundedReplay, 300);
  EXPECT_EQ(replay.decoder_rows, 5 * kDefaultKeep);
  EXPECT_EQ(replay.source_rows, 3 * 300);
}

TEST(OperationCount, Invariant21_TruncatedPrefillHalvesTheWork) {
  const ModelConfig released = ReleasedConfig();
  // One token costs the 16.1 G multiply-adds of the active parameters (spec: model.md §0), attention over one key aside.
  const double token = MultiplyAdds(released, CountPrefill(released, PrefillMode::kFull, 1));
  EXPECT_NEAR(token / 16.1e9, 1, 0.01);
  const double full = MultiplyAdds(released, CountPrefill(released, PrefillMode::kFull, 32768));
  for (PrefillMode mode : {PrefillMode::kExactHalo, PrefillMode::kBoundedReplay}) {
    const double ratio = MultiplyAdds(released, CountPrefill(released, mode, 32768)) / full;
    std::printf("multiply-adds of %s / full at 32768 tokens: %.4f\n",
                std::string(PrefillModeName(mode)).c_str(), ratio);
    EXPECT_LE(ratio, 0.55) << PrefillModeName(mode);
    EXPECT_GE(ratio, 0.45) << PrefillModeName(mode) << ": the encoder alone is about half";
  }
}

}  // namespace
}  // namespace deepinfer::testing
