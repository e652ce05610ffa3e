// Invariants 9, 13-16 and 18-20 of spec: model.md §14: what depends on what. TINY's lists are full from 18 tokens on and its candidate
// pool bites from 17 on, so that 140 tokens exercise selection, pool and ring wrap.
#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "model/edited_checkpoint.h"
#include "model/recorder.h"
#include "model/state_image.h"
#include "model/target_ops.h"
#include "support/golden_file.h"

namespace deepinfer::testing {
namespace {

using model::AttentionMode;
using model::ChunkOutput;
using model::LogitsWanted;
using model::PrefillMode;
using model::Sequence;

constexpr int64_t kVocab = 512, kHidden = 256, kStreams = 4, kTopK = 8, kPoolBlocks = 4, kBlock = 4,
                  kLength = 140;

class StructureInvariants : public ::testing::TestWithParam<std::string> {
 protected:
  TestModel& Tiny() { return testing::Tiny(GetParam()); }
  TestModel Edited(const EditedCheckpoint& checkpoint) {
    return TestModel::LoadDir(checkpoint.dir(), GetParam(), 1);
  }

  /// A pass over the whole prompt under the recorder.
  static ChunkOutput Observe(TestModel& model, std::span<const int32_t> ids, Recorder* recorder) {
    return model.Feed(model.NewSequence().get(), ids, LogitsWanted::kAll, PrefillMode::kFull, 0, 0, recorder);
  }

  const std::vector<int32_t> ids_ = Prompt(kLength, kVocab, 9);
};

int32_t VisibleEntries(int64_t position, int ratio) { return static_cast<int32_t>((position + 1) / ratio); }

/// Entries of row t's list.
std::vector<int32_t> ListOf(const std::vector<int32_t>& topk, int64_t t) {
  std::vector<int32_t> list;
  for (int64_t i = t * kTopK; i < (t + 1) * kTopK; ++i) {
    if (topk[static_cast<size_t>(i)] >= 0) list.push_back(topk[static_cast<size_t>(i)]);
  }
  return list;
}

std::set<int32_t> PoolOf(const std::vector<int32_t>& candidates, int64_t t) {
  std::set<int32_t> blocks(candidates.begin() + t * kPoolBlocks, candidates.begin() + (t + 1) * kPoolBlocks);
  blocks.erase(-1);
  return blocks;
}

TEST_P(StructureInvariants, ObserversChangeNothing) {
  Recorder recorder;
  const ChunkOutput observed = Observe(Tiny(), ids_, &recorder);
  EXPECT_TRUE(SameBits(observed.logits, FeedInChunks(Tiny(), ids_, kLength).logits));
}

TEST_P(StructureInvariants, Invariant09_Causality) {
  const Outcome original = FeedInChunks(Tiny(), ids_, kLength);
  for (size_t changed : {size_t{0}, size_t{1}, size_t{67}, size_t{128}, static_cast<size_t>(kLength - 1)}) {
    std::vector<int32_t> ids = ids_;
    ids[changed] = (ids[changed] + 101) % kVocab;
    const Outcome other = FeedInChunks(Tiny(), ids, kLength);
    EXPECT_EQ(FirstDifferingRow(original.logits, other.logits, kVocab), static_cast<int64_t>(changed));
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Lists
// ---------------------------------------------------------------------------------------------------------------------

/// Attention of a layer over the list of `index_layer` by SlotAttention of the reference, which knows no layer plan.
std::vector<Bf16> HeadsOverList(const model::Backbone& backbone, const Recorder& seen, int layer,
                                int index_layer, int source_layer) {
  const ModelConfig& c = backbone.config();
  const int64_t rows = kLength, d = c.head_dim, slots_a_row = c.sliding_window + kTopK;
  std::vector<Bf16> kv = seen.bf16s.at(LayerTensor(layer, "attn.window_kv"));
  std::vector<int32_t> slots(static_cast<size_t>(rows * slots_a_row), -1);
  if (source_layer >= 0) {
    const std::vector<Bf16>& main = seen.bf16s.at(LayerTensor(source_layer, "attn.main_kv"));
    kv.insert(kv.end(), main.begin(), main.end());
  }
  for (int64_t t = 0; t < rows; ++t) {
    int32_t* slot = slots.data() + t * slots_a_row;
    for (int64_t p = std::max<int64_t>(0, t - c.sliding_window + 1); p <= t; ++p)
      *slot++ = static_cast<int32_t>(p);
    if (index_layer < 0) continue;
    for (int32_t entry : ListOf(seen.ints.at(LayerTensor(index_layer, "attn.indexer.topk")), t))
      *slot++ = static_cast<int32_t>(rows) + entry;
  }
  const std::vector<Bf16>& q = seen.bf16s.at(LayerTensor(layer, "attn.q"));
  const GoldenFile& weights = GoldenFile::SharedCheckpoint("tiny");
  std::vector<Bf16> out(q.size());
  const TargetOps reference("reference");
  reference->SlotAttention(reference.context,
                           {.rows = rows,
                            .heads = c.num_attention_heads,
                            .dim = d,
                            .num_slots = slots_a_row,
                            .q = q.data(),
                            .kv = kv.data(),
                            .slots = slots.data(),
                            .sink = weights.Floats(LayerTensor(layer, "attn.attn_sink")).data(),
                            .scale = 0.125f,
                            .out = out.data()});
  return out;
}

TEST_P(StructureInvariants, Invariant13_EveryLayerReadsTheListOfItsIndexSource) {
  Recorder seen;
  Observe(Tiny(), ids_, &seen);
  const model::Backbone& backbone = *Tiny().backbone;
  // Modes of spec: model.md §15: layer, its KV source, its index source.
  struct Row {
    int layer, source, index;
  };
  for (const Row& row : {Row{0, -1, -1},
                         {1, 1, 1},
                         {2, 1, 1},
                         {3, 3, 3},
                         {4, 3, 3},
                         {5, 5, 5},
                         {6, 5, 5},
                         {7, 5, 7},
                         {8, 5, 7},
                         {9, 5, 9}}) {
    const std::vector<Bf16>& heads = seen.bf16s.at(LayerTensor(row.layer, "attn.heads"));
    const std::vector<Bf16> expected = HeadsOverList(backbone, seen, row.layer, row.index, row.source);
    if (GetParam() == "reference") {
      EXPECT_TRUE(SameBits(heads, expected)) << "layer " << row.layer;
    } else {
      EXPECT_TRUE(WithinBf16Class(Compare(heads, expected)))
          << "layer " << row.layer << ": " << Compare(heads, expected).ToString();
    }
  }
  // The comparison tells lists apart: layer 8 over the list of layer 5 is another result.
  const std::vector<Bf16> other = HeadsOverList(backbone, seen, 8, 5, 5);
  EXPECT_FALSE(WithinBf16Class(Compare(seen.bf16s.at("layers.8.attn.heads"), other)));
}

TEST_P(StructureInvariants, Invariant13_ReindexWeightsChangeTheirOwnListsOnly) {
  Recorder seen;
  Observe(Tiny(), ids_, &seen);
  EditedCheckpoint checkpoint("goldens/tiny");
  ASSERT_EQ(checkpoint.FlipSigns(
                [](std::string_view name) { return name.starts_with("layers.7.attn.indexer.weights_proj"); }),
            1);
  TestModel edited = Edited(checkpoint);
  // Layers behind it get their recorded input, so that only their own weights can change their lists.
  Recorder other;
  for (int layer : {8, 9}) {
    other.bf16s.Replace(LayerTensor(layer, "attn.input"), seen.bf16s.at(LayerTensor(layer, "attn.input")));
  }
  Observe(edited, ids_, &other);
  for (int layer : {1, 3, 5, 9}) {
    const std::string name = LayerTensor(layer, "attn.indexer.topk");
    EXPECT_EQ(seen.ints.at(name), other.ints.at(name)) << name;
  }
  EXPECT_NE(seen.ints.at("layers.7.attn.indexer.topk"), other.ints.at("layers.7.attn.indexer.topk"));
  EXPECT_EQ(seen.ints.at("layers.5.attn.indexer.candidates"),
            other.ints.at("layers.5.attn.indexer.candidates"));
}

TEST_P(StructureInvariants, Invariant14_FewVisibleEntriesAreAllSelected) {
  Recorder seen;
  Random random(14);
  const auto overwrite_bf16 = [&random](std::span<Bf16> data, std::span<const int64_t>) {
    for (Bf16& v : data) v = ToBf16(random.Normal(2));
  };
  for (int layer : {1, 3, 5, 7, 9}) {
    seen.bf16s.edits[LayerTensor(layer, "attn.indexer.head_weights")] = overwrite_bf16;
  }
  Observe(Tiny(), ids_, &seen);
  for (int layer : {1, 3, 5, 7, 9}) {
    const int ratio = layer < 5 ? 2 : 1;
    const std::vector<int32_t>& topk = seen.ints.at(LayerTensor(layer, "attn.indexer.topk"));
    int real_choices = 0;
    for (int64_t t = 0; t < kLength; ++t) {
      const int32_t visible = VisibleEntries(t, ratio);
      const std::vector<int32_t> list = ListOf(topk, t);
      ASSERT_TRUE(std::is_sorted(list.begin(), list.end())) << "layer " << layer << " row " << t;
      ASSERT_EQ(std::set<int32_t>(list.begin(), list.end()).size(),
                std::min<size_t>(kTopK, static_cast<size_t>(visible)));
      if (list.empty()) continue;
      ASSERT_LT(list.back(), visible) << "layer " << layer << " row " << t;
      real_choices += list.back() - list.front() >= kTopK;
      if (visible <= kTopK) {
        ASSERT_EQ(list.back(), visible - 1);
      }
    }
    EXPECT_GT(real_choices, 50) << "layer " << layer;
  }
}

TEST_P(StructureInvariants, Invariant15_APoolOfAllEntriesChangesNothing) {
  EditedCheckpoint wide("goldens/tiny"), off("goldens/tiny");
  wide.EditConfig([](ModelConfig& c) { c.candidate_topk_blocks = 64; });
  off.EditConfig([](ModelConfig& c) { c.candidate_source_layer_id = -1; });
  TestModel wide_model = Edited(wide), off_model = Edited(off);
  const Outcome without = FeedInChunks(off_model, ids_, kLength);
  EXPECT_TRUE(SameBits(FeedInChunks(wide_model, ids_, kLength).logits, without.logits));
  // TINY's own pool of 16 entries does change the rows that see more.
  const int64_t differing =
      FirstDifferingRow(FeedInChunks(Tiny(), ids_, kLength).logits, without.logits, kVocab);
  EXPECT_GE(differing, kPoolBlocks * kBlock);
}

TEST_P(StructureInvariants, Invariant16_TheNewestBlockIsInEveryPool) {
  // The newest entries get the lowest scores: only the rule can bring their block in.
  Recorder seen;
  std::vector<float> scores;
  seen.floats.edits["layers.5.attn.indexer.scores"] = [&scores](std::span<float> data,
                                                                std::span<const int64_t> shape) {
    for (int64_t t = 0; t < shape[0]; ++t) {
      for (int64_t j = t / kBlock * kBlock; j <= t; ++j) data[static_cast<size_t>(t * shape[1] + j)] = -1e6f;
    }
    scores.assign(data.begin(), data.end());
  };
  Observe(Tiny(), ids_, &seen);
  const std::vector<int32_t>& candidates = seen.ints.at("layers.5.attn.indexer.candidates");
  ASSERT_EQ(scores.size(), static_cast<size_t>(kLength * kLength));
  for (int64_t t = 0; t < kLength; ++t) {
    const std::set<int32_t> pool = PoolOf(candidates, t);
    const int32_t newest = static_cast<int32_t>(t / kBlock);
    ASSERT_EQ(pool.size(), static_cast<size_t>(std::min<int64_t>(kPoolBlocks, newest + 1))) << "row " << t;
    ASSERT_TRUE(pool.contains(newest)) << "row " << t;
    // The others are the best by their best score.
    const auto best = [&](int32_t block) {
      const float* row = scores.data() + t * kLength + block * kBlock;
      return *std::max_element(row, row + kBlock);
    };
    float worst_kept = INFINITY;
    for (int32_t block : pool) worst_kept = block == newest ? worst_kept : std::min(worst_kept, best(block));
    for (int32_t block = 0; block < newest; ++block) {
      if (!pool.contains(block)) {
        ASSERT_LE(best(block), worst_kept) << "row " << t << " block " << block;
      }
    }
  }
  // Reindex layers stay inside; the source itself does not.
  int outside = 0;
  for (int64_t t = 0; t < kLength; ++t) {
    const std::set<int32_t> pool = PoolOf(candidates, t);
    for (int layer : {7, 9}) {
      for (int32_t entry : ListOf(seen.ints.at(LayerTensor(layer, "attn.indexer.topk")), t)) {
        ASSERT_TRUE(pool.contains(entry / kBlock)) << "layer " << layer << " row " << t << " entry " << entry;
      }
    }
    for (int32_t entry : ListOf(seen.ints.at("layers.5.attn.indexer.topk"), t))
      outside += !pool.contains(entry / kBlock);
  }
  EXPECT_GT(outside, 0);
}

// ---------------------------------------------------------------------------------------------------------------------
// Hyper-connections
// ---------------------------------------------------------------------------------------------------------------------

TEST_P(StructureInvariants, Invariant18_TheFirstLayerTakesAnyStream) {
  const std::span<const int32_t> ids = std::span(ids_).first(40);
  const Outcome plain = FeedInChunks(Tiny(), ids, 40);
  for (size_t stream = 0; stream < kStreams; ++stream) {
    Recorder recorder;
    recorder.floats.edits["layers.0.hc.pre_in"] = [stream](std::span<float> pre, std::span<const int64_t>) {
      for (size_t i = 0; i < pre.size(); ++i) pre[i] = i % kStreams == stream ? 1.0f : 0.0f;
    };
    EXPECT_TRUE(SameBits(Observe(Tiny(), ids, &recorder).logits, plain.logits)) << stream;
  }
}

/// Layer tensors of a pass that the hand-over of spec: model.md §7.2 connects.
struct HandOver {
  TargetOps ops;
  const Recorder& seen;
  int64_t rows;

  std::vector<Bf16> Collapse(const std::string& streams, const std::string& pre) const {
    std::vector<Bf16> y(static_cast<size_t>(rows * kHidden));
    ops->HcCollapse(ops.context, {.rows = rows,
                                  .hc_mult = kStreams,
                                  .hidden = kHidden,
                                  .streams = seen.bf16s.at(streams).data(),
                                  .pre = seen.floats.at(pre).data(),
                                  .y = y.data()});
    return y;
  }
  std::vector<Bf16> Norm(const std::vector<Bf16>& x, const std::string& weight) const {
    std::vector<Bf16> y(x.size());
    ops->RmsNorm(ops.context, {.rows = rows,
                               .dim = kHidden,
                               .x = x.data(),
                               .weight = GoldenFile::SharedCheckpoint("tiny").Bf16s(weight).data(),
                               .eps = 1e-20f,
                               .y = y.data()});
    return y;
  }
};

TEST_P(StructureInvariants, Invariant18_SublayersTakeTheWeightsOfTheOneBefore) {
  Recorder seen;
  Observe(Tiny(), std::span(ids_).first(40), &seen);
  const HandOver pass{TargetOps(GetParam()), seen, 40};
  for (int layer = 0; layer < 10; ++layer) {
    const auto name = [layer](const char* n) { return LayerTensor(layer, n); };
    if (layer > 0) {
      EXPECT_TRUE(
          SameBits(seen.floats.at(name("hc.pre_in")), seen.floats.at(LayerTensor(layer - 1, "hc.ffn_pre"))))
          << layer;
    }
    const std::vector<Bf16> attn =
        pass.Norm(pass.Collapse(name("streams_in"), name("hc.pre_in")), name("attn_norm.weight"));
    EXPECT_TRUE(SameBits(seen.bf16s.at(name("attn.input")), attn)) << layer;
    const std::vector<Bf16> ffn =
        pass.Norm(pass.Collapse(name("streams_mid"), name("hc.attn_pre")), name("ffn_norm.weight"));
    EXPECT_TRUE(SameBits(seen.bf16s.at(name("ffn.input")), ffn)) << layer;
    // With the weights of its own site, as V4 has it, the FFN would see something else.
    EXPECT_FALSE(SameBits(pass.Collapse(name("streams_mid"), name("hc.ffn_pre")),
                          pass.Collapse(name("streams_mid"), name("hc.attn_pre"))));
  }
}

TEST_P(StructureInvariants, Invariant18_WithoutDelayTheOutputDiffers) {
  const std::span<const int32_t> ids = std::span(ids_).first(40);
  Recorder plain;
  const ChunkOutput delayed = Observe(Tiny(), ids, &plain);
  // The collapse of each attention site by the weights of that same site.
  Recorder undelayed;
  for (int layer = 1; layer < 10; ++layer) {
    undelayed.floats.Replace(LayerTensor(layer, "hc.pre_in"),
                             plain.floats.at(LayerTensor(layer, "hc.attn_pre")));
  }
  const ChunkOutput other = Observe(Tiny(), ids, &undelayed);
  EXPECT_EQ(FirstDifferingRow(delayed.logits, other.logits, kVocab), 0);
}

// ---------------------------------------------------------------------------------------------------------------------
// Engram
// ---------------------------------------------------------------------------------------------------------------------

TEST_P(StructureInvariants, Invariant19_ZeroValuesLeaveTheStreamsAlone) {
  EditedCheckpoint checkpoint("goldens/tiny");
  for (int layer : {1, 3}) {
    checkpoint.EditTensor(LayerTensor(layer, "engram.wkv.weight"), [](std::span<uint8_t> codes) {
      // The last of the n + 1 parts of the output makes the value.
      std::fill(codes.end() - static_cast<ptrdiff_t>(codes.size() / (kStreams + 1)), codes.end(), uint8_t{0});
    });
  }
  TestModel edited = Edited(checkpoint);
  Recorder off, on;
  Observe(edited, ids_, &off);
  Observe(Tiny(), ids_, &on);
  for (int layer : {1, 3}) {
    const std::vector<Bf16>& before = off.bf16s.at(LayerTensor(layer - 1, "streams_out"));
    const std::vector<Bf16>& after = off.bf16s.at(LayerTensor(layer, "engram.output"));
    EXPECT_EQ(Compare(after, before).max_abs, 0) << layer;  // values: -0 may become +0
    EXPECT_GT(Compare(on.bf16s.at(LayerTensor(layer, "engram.output")),
                      on.bf16s.at(LayerTensor(layer - 1, "streams_out")))
                  .max_abs,
              0);
  }
}

TEST_P(StructureInvariants, Invariant19_ImagePositionsKeepTheirBits) {
  constexpr int64_t kRows = 60;
  std::vector<uint8_t> is_image(kRows);
  for (size_t i = 20; i < 32; ++i) is_image[i] = 1;
  const std::vector<Bf16> embeds = Random(19).Bf16s(kRows * kHidden, 0.1f);
  auto sequence = Tiny().NewSequence();
  model::Chunk chunk;
  chunk.sequence = sequence.get();
  chunk.ids = std::span(ids_).first(kRows);
  chunk.is_image = is_image;
  chunk.embeds = embeds;
  chunk.logits = LogitsWanted::kAll;
  Recorder seen;
  Tiny().Run(chunk, false, &seen);
  const size_t width = kStreams * kHidden;
  for (int layer : {1, 3}) {
    const std::span<const Bf16> before = seen.bf16s.at(LayerTensor(layer - 1, "streams_out"));
    const std::span<const Bf16> after = seen.bf16s.at(LayerTensor(layer, "engram.output"));
    for (size_t t = 0; t < kRows; ++t) {
      EXPECT_EQ(SameBits(after.subspan(t * width, width), before.subspan(t * width, width)), is_image[t] != 0)
          << layer << " row " << t;
    }
  }
  // Image rows take the given embedding in all streams, and no word of theirs enters a hash.
  const std::vector<Bf16>& first = seen.bf16s.at("layers.0.streams_in");
  EXPECT_TRUE(SameBits(std::span(first).subspan(20 * width + kHidden, kHidden),
                       std::span(embeds).subspan(20 * kHidden, kHidden)));
  std::vector<int32_t> other_ids(chunk.ids.begin(), chunk.ids.end());
  for (size_t i = 20; i < 32; ++i) other_ids[i] = static_cast<int32_t>(3 + i);
  auto other = Tiny().NewSequence();
  chunk.sequence = other.get();
  chunk.ids = other_ids;
  Recorder other_seen;
  Tiny().Run(chunk, false, &other_seen);
  EXPECT_EQ(other_seen.longs.at("layers.1.engram.rows"), seen.longs.at("layers.1.engram.rows"));
  EXPECT_EQ(Difference(TakeState(*Tiny().backbone, *sequence), TakeState(*Tiny().backbone, *other)), "");
}

// ---------------------------------------------------------------------------------------------------------------------
// Decoder
// ---------------------------------------------------------------------------------------------------------------------

TEST_P(StructureInvariants, Invariant20_GlobalStateKnowsNoDecoderWeights) {
  EditedCheckpoint checkpoint("goldens/tiny");
  const int edited_tensors = checkpoint.FlipSigns([](std::string_view name) {
    if (name.find("norm") != std::string_view::npos)
      return false;  // two turned signs in a row would undo each other
    for (const char* layer : {"layers.6.", "layers.7.", "layers.8.", "layers.9."}) {
      if (name.starts_with(layer)) return true;
    }
    if (!name.starts_with("layers.5.")) return false;
    // Of the first decoder layer all but what makes entries.
    for (const char* kept : {"attn.compressor.", "attn.indexer.wk"}) {
      if (name.find(kept) != std::string_view::npos) return false;
    }
    return true;
  });
  ASSERT_GT(edited_tensors, 200);
  TestModel edited = Edited(checkpoint);
  const Outcome original = FeedInChunks(Tiny(), ids_, kLength), other = FeedInChunks(edited, ids_, kLength);
  EXPECT_EQ(EntryDifference(original.state, other.state), "");
  EXPECT_EQ(original.state.main.size(), 3u);
  EXPECT_EQ(original.state.main[2].count, kLength);
  EXPECT_EQ(FirstDifferingRow(original.logits, other.logits, kVocab), 0);
  EXPECT_EQ(RingDifference(original.state, other.state), "ring 5 codes");
}

INSTANTIATE_TEST_SUITE_P(All, StructureInvariants, ::testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace deepinfer::testing
