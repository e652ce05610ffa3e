// Invariants 10-12 of spec: model.md §14: how a prompt is cut, what runs beside it and on how many threads never changes a bit.
#include <algorithm>
#include <memory>
#include <numeric>

#include <gtest/gtest.h>

#include "model/state_image.h"
#include "model/target_ops.h"

namespace deepinfer::testing {
namespace {

using model::Chunk;
using model::ChunkOutput;
using model::LogitsWanted;
using model::PrefillMode;
using model::Sequence;

constexpr int64_t kVocab = 512, kHidden = 256;
// Small chunks cost a pass each: they get a prompt that crosses one block border (128 tokens), large ones a prompt that crosses two.
constexpr int64_t kShort = 140, kLong = 300;

class ChunkingInvariants : public ::testing::TestWithParam<std::string> {
 protected:
  TestModel& Tiny() { return testing::Tiny(GetParam()); }

  void ExpectChunksAgree(PrefillMode mode, int64_t keep) {
    for (const auto& [length, sizes] :
         {std::pair(kShort, std::vector<int64_t>{2, 3, 7}), {kLong, {64, 127, 128, 129}}}) {
      const std::span<const int32_t> ids = std::span(ids_).first(static_cast<size_t>(length));
      const Outcome whole = FeedInChunks(Tiny(), ids, length, mode, keep);
      ASSERT_TRUE(AllFinite(whole.logits));
      for (int64_t size : sizes) {
        const Outcome cut = FeedInChunks(Tiny(), ids, size, mode, keep);
        EXPECT_EQ(FirstDifferingRow(cut.logits, whole.logits, kVocab), -1) << "chunks of " << size;
        EXPECT_EQ(Difference(cut.state, whole.state), "") << "chunks of " << size;
      }
    }
  }

  const std::vector<int32_t> ids_ = Prompt(kLong, kVocab, 10);
};

TEST_P(ChunkingInvariants, Invariant10_ChunkedPrefillIsOneShotPrefill) {
  ExpectChunksAgree(PrefillMode::kFull, 0);
}

TEST_P(ChunkingInvariants, Invariant10_ChunkedExactHaloIsOneShot) {
  ExpectChunksAgree(PrefillMode::kExactHalo, 0);
}

TEST_P(ChunkingInvariants, Invariant10_ChunkedBoundedReplayIsOneShot) {
  ExpectChunksAgree(PrefillMode::kBoundedReplay, 0);
  ExpectChunksAgree(PrefillMode::kBoundedReplay, 16);
}

TEST_P(ChunkingInvariants, Invariant10_ChunksOfUnequalSizes) {
  const Outcome whole = FeedInChunks(Tiny(), ids_, kLong);
  auto sequence = Tiny().NewSequence();
  std::vector<float> logits;
  size_t at = 0;
  for (size_t size : {1, 130, 2, 61, 5, 40, 1, 1, 59}) {
    const ChunkOutput out = Tiny().Feed(sequence.get(), std::span(ids_).subspan(at, size));
    logits.insert(logits.end(), out.logits.begin(), out.logits.end());
    at += size;
  }
  ASSERT_EQ(at, static_cast<size_t>(kLong));
  EXPECT_EQ(FirstDifferingRow(logits, whole.logits, kVocab), -1);
  EXPECT_EQ(Difference(TakeState(*Tiny().backbone, *sequence), whole.state), "");
}

TEST_P(ChunkingInvariants, Invariant11_StepByStepIsPrefill) {
  const std::span<const int32_t> ids = std::span(ids_).first(kShort);
  for (PrefillMode mode : {PrefillMode::kFull, PrefillMode::kExactHalo, PrefillMode::kBoundedReplay}) {
    const Outcome whole = FeedInChunks(Tiny(), ids, kShort, mode);
    const Outcome steps = FeedInChunks(Tiny(), ids, 1, mode);
    EXPECT_EQ(FirstDifferingRow(steps.logits, whole.logits, kVocab), -1) << PrefillModeName(mode);
    EXPECT_EQ(Difference(steps.state, whole.state), "") << PrefillModeName(mode);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Batches
// ---------------------------------------------------------------------------------------------------------------------

/// A sequence in the middle of its life and the rows it feeds next.
struct Participant {
  std::string name;
  std::vector<int32_t> ids;  // everything it will have taken in
  size_t before = 0;         // rows taken in beforehand
  size_t rows = 0;           // rows of the common pass
  PrefillMode mode = PrefillMode::kFull;
  LogitsWanted logits = LogitsWanted::kAll;
  std::vector<uint8_t> is_image = {};
  std::vector<Bf16> embeds = {};

  std::unique_ptr<Sequence> Start(TestModel& model) const {
    auto sequence = model.NewSequence();
    if (before > 0) {
      model.Feed(sequence.get(), std::span(ids).first(before), LogitsWanted::kNone, mode,
                 static_cast<int64_t>(ids.size()));
    }
    return sequence;
  }
  Chunk Next(Sequence* sequence) const {
    Chunk chunk;
    chunk.sequence = sequence;
    chunk.ids = std::span(ids).subspan(before, rows);
    chunk.logits = logits;
    chunk.mode = mode;
    chunk.prompt_length = static_cast<int64_t>(ids.size());
    chunk.is_image = is_image;
    chunk.embeds = embeds;
    return chunk;
  }
};

/// Mixed prefill and decode: lengths, modes and wishes of all kinds.
std::vector<Participant> MixedBatch() {
  const auto ids = [](int64_t length, uint64_t seed) { return Prompt(length, kVocab, seed); };
  std::vector<Participant> batch = {
      {"short prompt", ids(5, 21), 0, 5},
      {"decode step", ids(61, 22), 60, 1},
      {"whole prompt, exact halo", ids(150, 23), 0, 150, PrefillMode::kExactHalo, LogitsWanted::kLast},
      {"middle of a long prompt that needs no decoder rows", ids(200, 24), 31, 40,
       PrefillMode::kBoundedReplay},
      {"end of a prompt in bounded replay", ids(90, 25), 33, 57, PrefillMode::kBoundedReplay},
      {"decode step past a block border", ids(129, 26), 128, 1},
      {"verification of six rows", ids(47, 27), 41, 6},
      {"prompt without logits", ids(20, 28), 0, 20, PrefillMode::kFull, LogitsWanted::kNone},
      {"middle of an exact-halo prompt", ids(120, 29), 20, 47, PrefillMode::kExactHalo},
      {"first token", ids(1, 30), 0, 1},
  };
  Participant image{"prompt with an image", ids(30, 31), 0, 30};
  image.is_image.assign(30, 0);
  std::fill(image.is_image.begin() + 7, image.is_image.begin() + 19, uint8_t{1});
  image.embeds = Random(31).Bf16s(30 * kHidden, 0.1f);
  batch.insert(batch.begin() + 4, image);
  // A second one, with its image elsewhere: what an earlier pass left about image rows must not fit by chance.
  Participant other{"prompt with two images", ids(30, 32), 0, 30};
  other.is_image.assign(30, 0);
  for (int row : {2, 3, 4, 11, 12, 27, 28, 29}) other.is_image[row] = 1;
  other.embeds = Random(32).Bf16s(30 * kHidden, 0.1f);
  batch.insert(batch.begin() + 7, other);
  return batch;
}

TEST_P(ChunkingInvariants, Invariant12_ASequenceDoesNotSeeItsBatch) {
  const std::vector<Participant> batch = MixedBatch();
  std::vector<std::unique_ptr<Sequence>> alone, together;
  std::vector<ChunkOutput> expected;
  for (const Participant& p : batch) {
    alone.push_back(p.Start(Tiny()));
    together.push_back(Check(alone.back()->Clone()));
    expected.push_back(Tiny().Run(p.Next(alone.back().get()), true));
  }
  // In this order and in reverse.
  std::vector<size_t> forward(batch.size());
  std::iota(forward.begin(), forward.end(), size_t{0});
  const std::vector<size_t> reverse(forward.rbegin(), forward.rend());
  for (const std::vector<size_t>& order : {forward, reverse}) {
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<Chunk> chunks;
    for (size_t i : order) {
      sequences.push_back(Check(together[i]->Clone()));
      chunks.push_back(batch[i].Next(sequences.back().get()));
    }
    std::vector<ChunkOutput> outputs(chunks.size());
    Check(Tiny().backbone->Forward(chunks, outputs, true));
    for (size_t i = 0; i < order.size(); ++i) {
      SCOPED_TRACE(batch[order[i]].name);
      const ChunkOutput& want = expected[order[i]];
      EXPECT_EQ(outputs[i].rows, want.rows);
      EXPECT_TRUE(SameBits(outputs[i].logits, want.logits));
      ASSERT_EQ(outputs[i].taps.size(), want.taps.size());
      for (size_t tap = 0; tap < want.taps.size(); ++tap)
        EXPECT_TRUE(SameBits(outputs[i].taps[tap], want.taps[tap])) << tap;
      EXPECT_EQ(Difference(TakeState(*Tiny().backbone, *sequences[i]),
                           TakeState(*Tiny().backbone, *alone[order[i]])),
                "");
    }
  }
}

TEST_P(ChunkingInvariants, Invariant12_TheLastRowIsThatOfAllRows) {
  const std::span<const int32_t> ids = std::span(ids_).first(33);
  const ChunkOutput all = Tiny().Feed(Tiny().NewSequence().get(), ids, LogitsWanted::kAll);
  const ChunkOutput last = Tiny().Feed(Tiny().NewSequence().get(), ids, LogitsWanted::kLast);
  ASSERT_EQ(last.rows, 1);
  EXPECT_TRUE(SameBits(last.logits, std::span(all.logits).last(kVocab)));
}

TEST_P(ChunkingInvariants, Invariant12_RowsThatComeOut) {
  // kAll gives every row that runs through the last layer, kLast one, and a prompt's middle none.
  const auto rows = [this](PrefillMode mode, size_t before, size_t count, LogitsWanted wanted) {
    const Participant p{"", ids_, before, count, mode, wanted};
    auto sequence = p.Start(Tiny());
    const ChunkOutput out = Tiny().Run(p.Next(sequence.get()));
    EXPECT_EQ(out.logits.size(), static_cast<size_t>(out.rows * kVocab));
    return out.rows;
  };
  EXPECT_EQ(rows(PrefillMode::kFull, 0, 50, LogitsWanted::kAll), 50);
  EXPECT_EQ(rows(PrefillMode::kFull, 0, 50, LogitsWanted::kLast), 1);
  EXPECT_EQ(rows(PrefillMode::kFull, 0, 50, LogitsWanted::kNone), 0);
  EXPECT_EQ(rows(PrefillMode::kExactHalo, 0, kLong, LogitsWanted::kAll), 1);
  EXPECT_EQ(rows(PrefillMode::kExactHalo, 0, 50, LogitsWanted::kLast), 0);
  EXPECT_EQ(rows(PrefillMode::kBoundedReplay, 0, kLong, LogitsWanted::kAll), 28);
  EXPECT_EQ(rows(PrefillMode::kBoundedReplay, 0, 280, LogitsWanted::kAll), 8);
  EXPECT_EQ(rows(PrefillMode::kBoundedReplay, 290, 10, LogitsWanted::kAll), 10);
}

TEST_P(ChunkingInvariants, Invariant12_ThreadsAndPassSizesDoNotMatter) {
  const std::span<const int32_t> ids = std::span(ids_).first(kShort);
  const Outcome expected = FeedInChunks(Tiny(), ids, kShort);
  for (const auto& [threads, max_rows] : {std::pair(2, 140), {3, 150}, {1, 1024}}) {
    TestModel model = TestModel::Load("goldens/tiny", GetParam(), threads, max_rows);
    for (int64_t size : {kShort, int64_t{37}}) {
      const Outcome got = FeedInChunks(model, ids, size);
      EXPECT_TRUE(SameBits(got.logits, expected.logits))
          << threads << " threads, passes of " << max_rows << ", chunks of " << size;
      EXPECT_EQ(Difference(got.state, expected.state), "") << threads << " threads, passes of " << max_rows;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ChunkingInvariants, ::testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace deepinfer::testing
