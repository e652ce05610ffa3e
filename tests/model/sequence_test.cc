// Invariant 23 of spec: model.md §14 (rollback), sharing of blocks between sequences, and what wrong input does: nothing.
#include <limits>

#include <gtest/gtest.h>

#include "model/edited_checkpoint.h"
#include "model/state_image.h"

namespace deepinfer::testing {
namespace {

using model::Chunk;
using model::ChunkOutput;
using model::kMaxRollback;
using model::LogitsWanted;
using model::PrefillMode;
using model::Sequence;

constexpr int64_t kVocab = 512, kWindow = 16;

class SequenceTest : public ::testing::TestWithParam<std::string> {
 protected:
  TestModel& Tiny() { return testing::Tiny(GetParam()); }
  StateImage State(const Sequence& sequence) { return TakeState(*Tiny().backbone, sequence); }
  std::vector<float> Feed(Sequence* sequence, std::span<const int32_t> ids, int64_t size) {
    return FeedInChunks(Tiny(), sequence, ids, size);
  }
  std::unique_ptr<Sequence> Prefilled(int64_t length, PrefillMode mode = PrefillMode::kFull) {
    auto sequence = Tiny().NewSequence();
    FeedInChunks(Tiny(), sequence.get(), std::span(ids_).first(static_cast<size_t>(length)), length, mode);
    sequence->SealPrompt();
    return sequence;
  }

  const std::vector<int32_t> ids_ = Prompt(200, kVocab, 23);
  const std::vector<int32_t> dropped_ = Prompt(40, kVocab, 231), kept_ = Prompt(40, kVocab, 232);
};

// ---------------------------------------------------------------------------------------------------------------------
// Rollback
// ---------------------------------------------------------------------------------------------------------------------

TEST_P(SequenceTest, Invariant23_DroppedRowsLeaveNoTrace) {
  // The rings wrap at 28 rows, a block ends at 128, groups are pairs: drops at 60 .. 72 and at 121 .. 133.
  for (int64_t prompt : {60, 121}) {
    const auto start = Prefilled(prompt);
    for (int64_t drop = 1; drop <= kMaxRollback; ++drop) {
      auto never = Check(start->Clone()), sequence = Check(start->Clone());
      Feed(sequence.get(), std::span(dropped_).first(static_cast<size_t>(drop)), drop % 2 == 0 ? 1 : drop);
      ASSERT_TRUE(sequence->Rollback(drop).ok());
      EXPECT_EQ(Difference(State(*sequence), State(*never)), "")
          << "right after dropping " << drop << " after " << prompt;
      const std::span<const int32_t> others = std::span(kept_).first(18);
      EXPECT_TRUE(SameBits(Feed(sequence.get(), others, 5), Feed(never.get(), others, 5)))
          << drop << " after " << prompt;
      EXPECT_EQ(Difference(State(*sequence), State(*never)), "") << drop << " after " << prompt;
    }
  }
}

TEST_P(SequenceTest, Invariant23_DroppingTheLastOfManyRows) {
  // Decode m rows, drop the last d < m of them.
  auto sequence = Prefilled(50), never = Check(sequence->Clone());
  Feed(sequence.get(), std::span(kept_).first(30), 1);
  Feed(never.get(), std::span(kept_).first(30 - kMaxRollback), 1);
  ASSERT_TRUE(sequence->Rollback(kMaxRollback).ok());
  EXPECT_EQ(Difference(State(*sequence), State(*never)), "");
  EXPECT_TRUE(SameBits(Feed(sequence.get(), dropped_, 40), Feed(never.get(), dropped_, 40)));
}

TEST_P(SequenceTest, Invariant23_RoundsOfVerification) {
  // As a draft round does it: six rows, of which 0 .. 5 are dropped, many times over.
  auto sequence = Prefilled(40), never = Check(sequence->Clone());
  for (int64_t round = 0; round < 12; ++round) {
    const size_t accepted = static_cast<size_t>(round * 5 % 6 + 1);
    std::vector<int32_t> rows(ids_.begin() + round * 6, ids_.begin() + round * 6 + 6);
    const std::vector<float> verified = Feed(sequence.get(), rows, 6);
    ASSERT_TRUE(sequence->Rollback(static_cast<int64_t>(6 - accepted)).ok());
    const std::vector<float> expected = Feed(never.get(), std::span(rows).first(accepted), 1);
    ASSERT_TRUE(SameBits(std::span(verified).first(expected.size()), expected)) << "round " << round;
    ASSERT_EQ(Difference(State(*sequence), State(*never)), "") << "round " << round;
  }
}

TEST_P(SequenceTest, Invariant23_RollbackAfterTruncatedPrefills) {
  // A shortened prefill leaves one window in the decoder's rings; rows behind the prompt can be dropped all the same.
  for (PrefillMode mode : {PrefillMode::kExactHalo, PrefillMode::kBoundedReplay}) {
    auto sequence = Prefilled(131, mode), never = Check(sequence->Clone());
    Feed(sequence.get(), std::span(dropped_).first(kMaxRollback), 4);
    ASSERT_TRUE(sequence->Rollback(kMaxRollback).ok());
    EXPECT_TRUE(SameBits(Feed(sequence.get(), kept_, 3), Feed(never.get(), kept_, 40)))
        << PrefillModeName(mode);
    EXPECT_EQ(Difference(State(*sequence), State(*never)), "") << PrefillModeName(mode);
  }
}

TEST_P(SequenceTest, RollbackRefusesWhatItCannotRestore) {
  auto sequence = Prefilled(40);
  Feed(sequence.get(), std::span(kept_).first(30), 30);
  const StateImage before = State(*sequence);
  const auto expect_refused = [&](Sequence* s, int64_t count, const StateImage& state) {
    const Status status = s->Rollback(count);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << count;
    EXPECT_EQ(status.where(), "count");
    EXPECT_EQ(Difference(State(*s), state), "") << count;
  };
  expect_refused(sequence.get(), kMaxRollback + 1, before);
  expect_refused(sequence.get(), -1, before);
  EXPECT_TRUE(sequence->Rollback(0).ok());
  EXPECT_EQ(Difference(State(*sequence), before), "");
  // Into the prompt.
  auto sealed = Prefilled(40);
  expect_refused(sealed.get(), 1, State(*sealed));
  Feed(sealed.get(), std::span(kept_).first(5), 5);
  expect_refused(sealed.get(), 6, State(*sealed));
  EXPECT_TRUE(sealed->Rollback(5).ok());
  EXPECT_EQ(sealed->length(), 40);
}

TEST_P(SequenceTest, TwoRollbacksDropNoMoreThanOne) {
  // The rings hold kMaxRollback rows beyond the window of the furthest row ever taken in: dropping twelve rows twice would leave windows
  // whose slots belong to dropped rows.
  auto sequence = Prefilled(40);
  Feed(sequence.get(), kept_, 40);
  ASSERT_TRUE(sequence->Rollback(kMaxRollback).ok());
  const StateImage before = State(*sequence);
  EXPECT_EQ(sequence->Rollback(1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Difference(State(*sequence), before), "");
  // Once new rows stand in the place of the dropped ones, as many can be dropped again.
  auto never = Prefilled(40);
  Feed(never.get(), std::span(kept_).first(40 - kMaxRollback), 40);
  Feed(sequence.get(), std::span(dropped_).first(5), 5);
  EXPECT_EQ(sequence->Rollback(6).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(sequence->Rollback(5).ok());
  EXPECT_TRUE(SameBits(Feed(sequence.get(), ids_, 200), Feed(never.get(), ids_, 200)));
}

TEST_P(SequenceTest, AnAdoptedPrefixIsAPromptToRollback) {
  // Its entries are never rewritten, so that its rows cannot be replaced by others.
  const auto donor = Prefilled(100);
  auto sequence = Check(Sequence::FromPrefix(*donor, 80));
  Feed(sequence.get(), std::span(ids_).subspan(80 - kWindow, kWindow + 2), 18);
  const StateImage before = State(*sequence);
  EXPECT_EQ(sequence->Rollback(3).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Difference(State(*sequence), before), "");
  EXPECT_TRUE(sequence->Rollback(2).ok());
  EXPECT_EQ(sequence->length(), 80);
}

// ---------------------------------------------------------------------------------------------------------------------
// Sharing
// ---------------------------------------------------------------------------------------------------------------------

TEST_P(SequenceTest, ClonesNeverTouchTheirOrigin) {
  for (int64_t length : {101, 128, 151}) {  // odd: an open group, whose tail a clone needs
    const auto donor = Prefilled(length);
    const StateImage before = State(*donor);
    auto first = Check(donor->Clone()), second = Check(donor->Clone());
    EXPECT_EQ(Difference(State(*first), before), "");
    const std::vector<float> one = Feed(first.get(), kept_, 40);
    EXPECT_EQ(Difference(State(*donor), before), "") << length;
    const std::vector<float> two = Feed(second.get(), dropped_, 7);
    EXPECT_EQ(Difference(State(*donor), before), "") << length;
    // And the origin's going on changes no clone.
    const StateImage of_first = State(*first);
    Feed(donor.get(), dropped_, 7);
    EXPECT_EQ(Difference(State(*first), of_first), "") << length;
    EXPECT_EQ(Difference(State(*donor), State(*second)), "") << length;
    auto alone = Prefilled(length);
    EXPECT_TRUE(SameBits(Feed(alone.get(), kept_, 40), one)) << length;
    EXPECT_EQ(Difference(State(*alone), of_first), "") << length;
  }
}

TEST_P(SequenceTest, ClonesOfRolledBackSequences) {
  // A dropped row's entries lie in a block that the clone shares: the clone's own rows must not go there.
  const auto donor = Prefilled(122);
  Feed(donor.get(), std::span(kept_).first(10), 10);
  auto clone = Check(donor->Clone());
  const StateImage before = State(*donor);
  ASSERT_TRUE(clone->Rollback(10).ok());
  Feed(clone.get(), dropped_, 40);
  EXPECT_EQ(Difference(State(*donor), before), "");
}

TEST_P(SequenceTest, HitsNeverTouchTheirDonorNorItThem) {
  const auto donor = Prefilled(150);
  const StateImage before = State(*donor);
  auto first = Check(Sequence::FromPrefix(*donor, 129)), second = Check(Sequence::FromPrefix(*donor, 129));
  const std::span<const int32_t> replay = std::span(ids_).subspan(129 - kWindow, kWindow);
  Feed(first.get(), replay, 16);
  Feed(second.get(), replay, 16);
  Feed(first.get(), kept_, 40);
  EXPECT_EQ(Difference(State(*donor), before), "");
  const StateImage of_first = State(*first);
  Feed(second.get(), dropped_, 40);
  Feed(donor.get(), dropped_, 40);
  EXPECT_EQ(Difference(State(*first), of_first), "");
}

TEST_P(SequenceTest, FromPrefixRefusesHitsOutOfRange) {
  const auto donor = Prefilled(40);
  const StateImage before = State(*donor);
  for (int64_t hit : {int64_t{-1}, int64_t{0}, kWindow - 1, kWindow, int64_t{41}, int64_t{1} << 40}) {
    const Result<std::unique_ptr<Sequence>> result = Sequence::FromPrefix(*donor, hit);
    ASSERT_FALSE(result.ok()) << hit;
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(result.status().where(), "hit_length");
  }
  EXPECT_TRUE(Sequence::FromPrefix(*donor, kWindow + 1).ok());
  EXPECT_TRUE(Sequence::FromPrefix(*donor, 40).ok());
  EXPECT_EQ(Difference(State(*donor), before), "");
}

// ---------------------------------------------------------------------------------------------------------------------
// Wrong input to Forward
// ---------------------------------------------------------------------------------------------------------------------

/// Passes of up to 64 rows over contexts of up to 60 tokens.
class WrongInput : public ::testing::Test {
 protected:
  WrongInput() {
    checkpoint_.EditConfig([](ModelConfig& c) { c.max_position_embeddings = 60; });
    model_ = TestModel::LoadDir(checkpoint_.dir(), "reference", 1, 64);
    for (auto* sequence : {&good_, &bad_}) {
      *sequence = model_.NewSequence();
      model_.Feed(sequence->get(), std::span(ids_).first(20));
    }
  }

  Chunk ChunkOf(Sequence* sequence, std::span<const int32_t> ids) {
    Chunk chunk;
    chunk.sequence = sequence;
    chunk.ids = ids;
    return chunk;
  }

  /// `chunk` must be refused alone and beside a sound one, before or behind it, and leave everything as it was.
  void ExpectRefused(const Chunk& chunk, const std::string& where) {
    const StateImage before = TakeState(*model_.backbone, *bad_),
                     before_good = TakeState(*model_.backbone, *good_);
    const Chunk sound = ChunkOf(good_.get(), std::span(ids_).first(2));
    for (const std::vector<Chunk>& chunks : {std::vector<Chunk>{chunk}, {sound, chunk}, {chunk, sound}}) {
      std::vector<ChunkOutput> outputs(chunks.size());
      const Status status = model_.backbone->Forward(chunks, outputs);
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_EQ(status.where(), where) << status.ToString();
      EXPECT_FALSE(status.message().empty());
      for (const ChunkOutput& output : outputs) EXPECT_TRUE(output.logits.empty());
      EXPECT_EQ(Difference(TakeState(*model_.backbone, *bad_), before), "");
      EXPECT_EQ(Difference(TakeState(*model_.backbone, *good_), before_good), "");
    }
  }

  const std::vector<int32_t> ids_ = Prompt(70, kVocab, 4);
  EditedCheckpoint checkpoint_{"goldens/tiny"};
  TestModel model_;
  std::unique_ptr<Sequence> good_, bad_;
};

TEST_F(WrongInput, IdsOutOfTheVocabulary) {
  for (int32_t id :
       {-1, 512, 513, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    const std::vector<int32_t> ids = {5, id, 7};
    ExpectRefused(ChunkOf(bad_.get(), ids), "ids");
  }
}

TEST_F(WrongInput, NoRows) { ExpectRefused(ChunkOf(bad_.get(), {}), "ids"); }

TEST_F(WrongInput, NoSequence) { ExpectRefused(ChunkOf(nullptr, std::span(ids_).first(2)), "sequence"); }

TEST_F(WrongInput, BeyondTheContext) {
  ExpectRefused(ChunkOf(bad_.get(), std::span(ids_).first(41)), "ids");
  // The last position is usable.
  EXPECT_EQ(model_.Run(ChunkOf(bad_.get(), std::span(ids_).first(40))).rows, 1);
  ExpectRefused(ChunkOf(bad_.get(), std::span(ids_).first(1)), "ids");
}

TEST_F(WrongInput, MoreRowsThanAPassTakes) {
  auto third = model_.NewSequence();
  const StateImage before = TakeState(*model_.backbone, *bad_),
                   before_third = TakeState(*model_.backbone, *third);
  const std::vector<Chunk> chunks = {ChunkOf(third.get(), std::span(ids_).first(35)),
                                     ChunkOf(bad_.get(), std::span(ids_).first(30))};
  std::vector<ChunkOutput> outputs(2);
  const Status status = model_.backbone->Forward(chunks, outputs);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("65"), std::string::npos) << status.ToString();
  EXPECT_EQ(Difference(TakeState(*model_.backbone, *bad_), before), "");
  EXPECT_EQ(Difference(TakeState(*model_.backbone, *third), before_third), "");
}

TEST_F(WrongInput, TwoChunksOfOneSequence) {
  const StateImage before = TakeState(*model_.backbone, *bad_);
  const std::vector<Chunk> chunks = {ChunkOf(bad_.get(), std::span(ids_).first(3)),
                                     ChunkOf(bad_.get(), std::span(ids_).first(3))};
  std::vector<ChunkOutput> outputs(2);
  const Status status = model_.backbone->Forward(chunks, outputs);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.where(), "sequence");
  EXPECT_EQ(Difference(TakeState(*model_.backbone, *bad_), before), "");
}

TEST_F(WrongInput, OutputsOfAnotherNumber) {
  const StateImage before = TakeState(*model_.backbone, *bad_);
  const Chunk chunk = ChunkOf(bad_.get(), std::span(ids_).first(3));
  std::vector<ChunkOutput> outputs(2);
  EXPECT_EQ(model_.backbone->Forward({&chunk, 1}, outputs).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(model_.backbone->Forward({&chunk, 1}, {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Difference(TakeState(*model_.backbone, *bad_), before), "");
}

TEST_F(WrongInput, PromptShorterThanItsRows) {
  Chunk chunk = ChunkOf(bad_.get(), std::span(ids_).first(5));
  for (PrefillMode mode : {PrefillMode::kFull, PrefillMode::kExactHalo, PrefillMode::kBoundedReplay}) {
    chunk.mode = mode;
    for (int64_t length : {24, 1, -1}) {
      chunk.prompt_length = length;
      ExpectRefused(chunk, "prompt_length");
    }
  }
}

TEST_F(WrongInput, ReplayOfLessThanAWindow) {
  Chunk chunk = ChunkOf(bad_.get(), std::span(ids_).first(5));
  chunk.mode = PrefillMode::kBoundedReplay;
  for (int64_t keep : {kWindow - 1, int64_t{1}, int64_t{-1}}) {
    chunk.keep_tokens = keep;
    ExpectRefused(chunk, "keep_tokens");
  }
}

TEST_F(WrongInput, ImagesWithoutTheirRows) {
  Chunk chunk = ChunkOf(bad_.get(), std::span(ids_).first(5));
  const std::vector<uint8_t> is_image(5, 1), too_few(4, 1);
  const std::vector<Bf16> embeds(5 * 256);
  chunk.is_image = is_image;
  ExpectRefused(chunk, "embeds");
  chunk.embeds = std::span(embeds).first(4 * 256);
  ExpectRefused(chunk, "embeds");
  chunk.embeds = embeds;
  chunk.is_image = too_few;
  ExpectRefused(chunk, "embeds");
}

TEST_F(WrongInput, RefusedPassesLeaveTheModelUsable) {
  const Chunk bad = ChunkOf(bad_.get(), {});
  std::vector<ChunkOutput> outputs(1);
  EXPECT_FALSE(model_.backbone->Forward({&bad, 1}, outputs).ok());
  EXPECT_TRUE(SameBits(model_.Feed(bad_.get(), std::span(ids_).subspan(20, 10)).logits,
                       model_.Feed(good_.get(), std::span(ids_).subspan(20, 10)).logits));
}

INSTANTIATE_TEST_SUITE_P(All, SequenceTest, ::testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace deepinfer::testing
