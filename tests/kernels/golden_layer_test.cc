// Every operation of a TINY layer, fed with its recorded inputs: the prefill of the 33-token prompt and one decode step after it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/golden_model.h"
#include "tensor/quantize.h"

namespace deepinfer::kernels::testing {
namespace {

using tiny::Limits;

/// The rows of one recorded forward pass.
struct RecordedPass {
  std::string prefix;
  std::vector<int32_t> positions;
  int64_t rows() const { return static_cast<int64_t>(positions.size()); }
  bool is_decode() const { return positions.front() > 0; }
  std::string Name(int64_t layer, const std::string& suffix) const {
    return prefix + ".layers." + std::to_string(layer) + "." + suffix;
  }
};

std::vector<RecordedPass> Passes() {
  RecordedPass prefill{"p33", std::vector<int32_t>(tiny::kPrompt)};
  std::iota(prefill.positions.begin(), prefill.positions.end(), 0);
  return {prefill, {"p33.decode", {static_cast<int32_t>(tiny::kPrompt)}}};
}

/// Compressed entries of one source after a pass, cut into blocks of a few entries with bytes of other things around them.
class GoldenBlocks {
 public:
  GoldenBlocks(const std::string& codes, const std::string& scales, EntryFormat format, int64_t dim) {
    const GoldenFile& goldens = TinyGoldens();
    const int64_t entries = goldens.Get(codes).shape.at(0);
    const int64_t code_bytes = dim / 2, scale_bytes = goldens.Get(scales).shape.at(1);
    layout_ = {format, dim, 5, 3, 3 + 5 * code_bytes + 2};
    num_entries_ = static_cast<size_t>(entries);
    for (int64_t j = 0; j < entries; ++j) {
      if (j % layout_.entries_per_block == 0) {
        blocks_.emplace_back(static_cast<size_t>(layout_.scales_offset + 5 * scale_bytes), std::byte{0x77});
      }
      std::byte* block = blocks_.back().data();
      const int64_t row = j % layout_.entries_per_block;
      std::copy_n(goldens.Get(codes).bytes.data() + j * code_bytes, code_bytes,
                  block + layout_.codes_offset + row * code_bytes);
      std::copy_n(goldens.Get(scales).bytes.data() + j * scale_bytes, scale_bytes,
                  block + layout_.scales_offset + row * scale_bytes);
    }
    for (std::vector<std::byte>& block : blocks_) pointers_.push_back(block.data());
  }

  const EntryLayout& layout() const { return layout_; }
  BlockTable table() const { return {pointers_.data()}; }
  /// Values of the main-KV entries from `first` on.
  std::vector<Bf16> MainValues(size_t first) const {
    std::vector<Bf16> values;
    for (size_t j = first; j < num_entries_; ++j) {
      const auto per_block = static_cast<size_t>(layout_.entries_per_block);
      const auto* block = reinterpret_cast<const uint8_t*>(blocks_[j / per_block].data());
      const auto row = static_cast<int64_t>(j % per_block);
      std::vector<Bf16> entry(static_cast<size_t>(layout_.dim));
      DequantizeFp4Main(block + layout_.codes_offset + row * layout_.dim / 2,
                        block + layout_.scales_offset + row * layout_.dim / kMainKvGroup, layout_.dim,
                        entry.data());
      values.insert(values.end(), entry.begin(), entry.end());
    }
    return values;
  }
  bool HasSameBytes(const GoldenBlocks& other) const { return blocks_ == other.blocks_; }
  void Clear() {
    for (std::vector<std::byte>& block : blocks_) std::fill(block.begin(), block.end(), std::byte{0x77});
  }

 private:
  EntryLayout layout_;
  size_t num_entries_ = 0;
  std::vector<std::vector<std::byte>> blocks_;
  std::vector<std::byte*> pointers_;
};

GoldenBlocks SourceBlocks(const RecordedPass& pass, int64_t source, EntryFormat format) {
  const bool is_main = format == EntryFormat::kFp4Main;
  const std::string name = pass.prefix + ".state." + (is_main ? "main." : "index.") + std::to_string(source);
  return {name + ".codes", name + ".scales", format, is_main ? tiny::kHeadDim : tiny::kIndexDim};
}

class GoldenLayer : public ::testing::TestWithParam<std::string> {
 protected:
  void CheckMixes(const RecordedPass& pass, int64_t layer, const std::string& site,
                  const std::string& streams);
  void CheckLatents(const RecordedPass& pass, int64_t source);
  void CheckScores(const RecordedPass& pass, int64_t layer);
  void CheckSelection(const RecordedPass& pass, int64_t layer);
  void CheckHeads(const RecordedPass& pass, int64_t layer);
  void CheckMoe(const RecordedPass& pass, int64_t layer);

  static std::span<const Bf16> Recorded(const RecordedPass& pass, int64_t layer, const std::string& suffix) {
    return TinyGoldens().Bf16s(pass.Name(layer, suffix));
  }
  static std::span<const float> RecordedF32(const RecordedPass& pass, int64_t layer,
                                            const std::string& suffix) {
    return TinyGoldens().Floats(pass.Name(layer, suffix));
  }
  static std::string Weight(int64_t layer, const std::string& suffix) {
    return "layers." + std::to_string(layer) + "." + suffix;
  }
  static std::vector<int32_t> Visible(const RecordedPass& pass, int64_t layer) {
    std::vector<int32_t> visible;
    for (int32_t p : pass.positions) visible.push_back((p + 1) / static_cast<int32_t>(tiny::Ratio(layer)));
    return visible;
  }

  OpRunner runner_{GetParam(), 2};
  TinyOps ops_{&runner_};
};

TEST_P(GoldenLayer, Embed) {
  for (const RecordedPass& pass : Passes()) {
    std::vector<Bf16> streams(static_cast<size_t>(pass.rows() * tiny::kStreams * tiny::kHidden));
    EmbedParams p;
    p.rows = pass.rows();
    p.hidden = tiny::kHidden;
    p.hc_mult = tiny::kStreams;
    p.ids = TinyGoldens().Ints(pass.prefix + ".ids").data();
    p.table = TinyBf16("embed.weight").data();
    p.streams = streams.data();
    runner_.ops().Embed(runner_.Context(Limits(p.rows)), p);
    ExpectGolden(runner_, pass.Name(0, "streams_in"), streams);
  }
}

TEST_P(GoldenLayer, Engram) {
  for (const RecordedPass& pass : Passes()) {
    for (int64_t layer : {1, 3}) {
      const std::span<const int32_t> row_ids = TinyGoldens().Ints(pass.Name(layer, "engram.rows"));
      const std::vector<int64_t> rows(row_ids.begin(), row_ids.end());
      std::vector<Bf16> gathered(rows.size() * tiny::kEngramWidth);
      EngramGatherParams gather;
      gather.rows = pass.rows();
      gather.columns = tiny::kEngramColumns;
      gather.width = tiny::kEngramWidth;
      const WeightView table = TinyWeight(Weight(layer, "engram.embed"));
      gather.table_rows = table.out_features;
      gather.row_ids = rows.data();
      gather.codes = static_cast<const uint8_t*>(table.data);
      gather.scales = table.scales;
      gather.out = gathered.data();
      runner_.ops().EngramGather(runner_.Context(Limits(gather.rows)), gather);
      const std::vector<Bf16> kv = ops_.QuantizedLinear(gathered, TinyWeight(Weight(layer, "engram.wkv")));
      ExpectGolden(runner_, pass.Name(layer, "engram.kv"), kv);

      const std::span<const Bf16> before = Recorded(pass, layer - 1, "streams_out");
      std::vector<Bf16> streams(before.begin(), before.end());
      std::vector<float> gates(static_cast<size_t>(pass.rows() * tiny::kStreams));
      EngramGateParams gate;
      gate.rows = pass.rows();
      gate.hc_mult = tiny::kStreams;
      gate.hidden = tiny::kHidden;
      gate.norm_eps = tiny::kEps;
      gate.kv = Recorded(pass, layer, "engram.kv").data();
      gate.q_weight = TinyBf16(Weight(layer, "engram.q_weight")).data();
      gate.k_weight = TinyBf16(Weight(layer, "engram.k_weight")).data();
      gate.streams = streams.data();
      gate.gate = gates.data();
      runner_.ops().EngramGate(runner_.Context(Limits(gate.rows)), gate);
      ExpectGolden(runner_, pass.Name(layer, "engram.output"), streams);
      ExpectGolden(runner_, pass.Name(layer, "engram.gate"), gates);
    }
  }
}

void GoldenLayer::CheckMixes(const RecordedPass& pass, int64_t layer, const std::string& site,
                             const std::string& streams) {
  const auto rows = static_cast<size_t>(pass.rows());
  std::vector<float> pre(rows * 4), post(rows * 4), comb(rows * 16);
  HcMixesParams p;
  p.rows = pass.rows();
  p.hc_mult = tiny::kStreams;
  p.hidden = tiny::kHidden;
  p.sinkhorn_iters = 20;
  p.hc_eps = 1e-6f;
  p.norm_eps = tiny::kEps;
  p.streams = Recorded(pass, layer, streams).data();
  p.fn = TinyFloat(Weight(layer, "hc_" + site + "_fn")).data();
  p.scale = TinyFloat(Weight(layer, "hc_" + site + "_scale")).data();
  p.base = TinyFloat(Weight(layer, "hc_" + site + "_base")).data();
  p.pre = pre.data();
  p.post = post.data();
  p.comb = comb.data();
  runner_.ops().HcMixes(runner_.Context(Limits(p.rows)), p);
  ExpectGolden(runner_, pass.Name(layer, "hc." + site + "_pre"), pre);
  ExpectGolden(runner_, pass.Name(layer, "hc." + site + "_post"), post);
  ExpectGolden(runner_, pass.Name(layer, "hc." + site + "_comb"), comb);
}

TEST_P(GoldenLayer, HyperConnections) {
  for (const RecordedPass& pass : Passes()) {
    for (int64_t layer = 0; layer < tiny::kLayers; ++layer) {
      CheckMixes(pass, layer, "attn", "streams_in");
      CheckMixes(pass, layer, "ffn", "streams_mid");
      const auto in = Recorded(pass, layer, "streams_in"), mid = Recorded(pass, layer, "streams_mid");
      ExpectGolden(runner_, pass.Name(layer, "attn_collapsed"),
                   ops_.Collapse(in, RecordedF32(pass, layer, "hc.pre_in")));
      ExpectGolden(
          runner_, pass.Name(layer, "streams_mid"),
          ops_.Expand(Recorded(pass, layer, "attn.output"), in, RecordedF32(pass, layer, "hc.attn_post"),
                      RecordedF32(pass, layer, "hc.attn_comb")));
      ExpectGolden(
          runner_, pass.Name(layer, "streams_out"),
          ops_.Expand(Recorded(pass, layer, "ffn.output"), mid, RecordedF32(pass, layer, "hc.ffn_post"),
                      RecordedF32(pass, layer, "hc.ffn_comb")));
      ExpectGolden(
          runner_, pass.Name(layer, "collapsed_out"),
          ops_.Collapse(Recorded(pass, layer, "streams_out"), RecordedF32(pass, layer, "hc.ffn_pre")));
      ExpectGolden(
          runner_, pass.Name(layer, "attn.input"),
          ops_.Norm(Recorded(pass, layer, "attn_collapsed"), TinyBf16(Weight(layer, "attn_norm.weight"))));
      ExpectGolden(runner_, pass.Name(layer, "ffn.input"),
                   ops_.Norm(ops_.Collapse(mid, RecordedF32(pass, layer, "hc.attn_pre")),
                             TinyBf16(Weight(layer, "ffn_norm.weight"))));
    }
  }
}

TEST_P(GoldenLayer, TapsAndHead) {
  const RecordedPass pass = Passes().front();
  for (int64_t layer : {7, 8, 9}) {
    std::vector<Bf16> tap(static_cast<size_t>(pass.rows() * tiny::kHidden));
    StreamMeanParams p;
    p.rows = pass.rows();
    p.hc_mult = tiny::kStreams;
    p.hidden = tiny::kHidden;
    p.streams = Recorded(pass, layer, "streams_in").data();
    p.y = tap.data();
    runner_.ops().StreamMean(runner_.Context(Limits(p.rows)), p);
    ExpectGolden(runner_, "p33.tap." + std::to_string(layer), tap);
  }
  // The class of the logits leaves no room for another rounding before the head: its input comes from the reference.
  OpRunner reference("reference");
  const std::vector<Bf16> normed =
      TinyOps(&reference).Norm(TinyGoldens().Bf16s("p33.final_hidden"), TinyBf16("norm.weight"));
  ExpectGolden(runner_, "p33.logits", ops_.LinearF32(normed, TinyWeight("head")));
}

TEST_P(GoldenLayer, Queries) {
  for (const RecordedPass& pass : Passes()) {
    for (int64_t layer = 0; layer < tiny::kLayers; ++layer) {
      const auto x = Recorded(pass, layer, "attn.input");
      const std::vector<Bf16> qr = ops_.Norm(ops_.QuantizedLinear(x, TinyWeight(Weight(layer, "attn.wq_a"))),
                                             TinyBf16(Weight(layer, "attn.q_norm.weight")));
      ExpectGolden(runner_, pass.Name(layer, "attn.qr"), qr);
      std::vector<Bf16> q =
          ops_.QuantizedLinear(Recorded(pass, layer, "attn.qr"), TinyWeight(Weight(layer, "attn.wq_b")));
      ops_.Rotate(&q, tiny::kHeads, tiny::kHeadDim, pass.positions, tiny::Ratio(layer));
      ExpectGolden(runner_, pass.Name(layer, "attn.q"), q);
      std::vector<Bf16> kv = ops_.Norm(ops_.QuantizedLinear(x, TinyWeight(Weight(layer, "attn.wkv"))),
                                       TinyBf16(Weight(layer, "attn.kv_norm.weight")));
      ops_.Rotate(&kv, 1, tiny::kHeadDim, pass.positions, tiny::Ratio(layer));
      ExpectGolden(runner_, pass.Name(layer, "attn.window_kv"),
                   ops_.Quantize(kv, tiny::kHeadDim, QuantScheme::kFp8Act));
    }
  }
}

/// Latents of the groups that a pass completes, then the entries written from the recorded latents.
void GoldenLayer::CheckLatents(const RecordedPass& pass, int64_t source) {
  const auto x = Recorded(pass, source, "attn.input");
  const auto ratio = static_cast<int32_t>(tiny::Ratio(source));
  std::vector<int32_t> entries, group_positions;
  for (int32_t j = pass.positions.front() / ratio; j < (pass.positions.back() + 1) / ratio; ++j) {
    entries.push_back(j);
    group_positions.push_back(j * ratio);
  }
  const std::vector<int32_t> seq(entries.size(), 0);
  std::vector<Bf16> pooled;
  if (ratio == 1) {
    pooled = ops_.Linear(x, TinyWeight(Weight(source, "attn.compressor.wkv")));
  } else {
    const std::vector<float> content = ops_.LinearF32(x, TinyWeight(Weight(source, "attn.compressor.wkv")));
    const std::vector<float> gate = ops_.LinearF32(x, TinyWeight(Weight(source, "attn.compressor.wgate")));
    TailView tail;
    tail.capacity = 1;
    tail.chunk_begin = pass.positions.front();
    tail.chunk_content = content.data();
    tail.chunk_gate = gate.data();
    std::vector<float> ring_content(tiny::kHeadDim), ring_gate(tiny::kHeadDim);
    if (pass.is_decode()) {
      const std::string name = "p33.state.tail." + std::to_string(source);
      std::ranges::copy(TinyGoldens().Floats(name + ".content"), ring_content.begin());
      std::ranges::copy(TinyGoldens().Floats(name + ".gate"), ring_gate.begin());
    }
    tail.content = ring_content.data();
    tail.gate = ring_gate.data();
    pooled.resize(entries.size() * tiny::kHeadDim);
    CompressorPoolParams p;
    p.groups = static_cast<int64_t>(entries.size());
    p.dim = tiny::kHeadDim;
    p.ratio = ratio;
    p.seq = seq.data();
    p.entries = entries.data();
    p.sequences = {&tail, 1};
    p.latent = pooled.data();
    runner_.ops().CompressorPool(runner_.Context(Limits(pass.rows())), p);
  }
  ExpectGolden(runner_, pass.Name(source, "attn.compressor.latent"),
               ops_.Norm(pooled, TinyBf16(Weight(source, "attn.compressor.norm.weight"))));

  const auto latent = Recorded(pass, source, "attn.compressor.latent");
  std::vector<Bf16> keys = ops_.Norm(ops_.Linear(latent, TinyWeight(Weight(source, "attn.indexer.wk"))),
                                     TinyBf16(Weight(source, "attn.indexer.k_norm.weight")));
  ops_.Rotate(&keys, 1, tiny::kIndexDim, group_positions, ratio);
  ExpectGolden(runner_, pass.Name(source, "attn.index_keys"),
               ops_.Quantize(keys, tiny::kIndexDim, QuantScheme::kFp4Index));
  std::vector<Bf16> main(latent.begin(), latent.end());
  ops_.Rotate(&main, 1, tiny::kHeadDim, group_positions, ratio);

  for (const EntryFormat format : {EntryFormat::kFp4Main, EntryFormat::kFp4Index}) {
    const GoldenBlocks want = SourceBlocks(pass, source, format);
    GoldenBlocks got = SourceBlocks(pass, source, format);
    if (!pass.is_decode()) got.Clear();  // every entry is written anew
    const BlockTable table = got.table();
    WriteEntriesParams p;
    p.rows = static_cast<int64_t>(entries.size());
    p.x = format == EntryFormat::kFp4Main ? main.data() : keys.data();
    p.seq = seq.data();
    p.entries = entries.data();
    p.layout = got.layout();
    p.sequences = {&table, 1};
    runner_.ops().WriteEntries(runner_.Context(Limits(p.rows)), p);
    EXPECT_TRUE(got.HasSameBytes(want)) << pass.prefix << ", source " << source;
    if (format == EntryFormat::kFp4Main) {
      ExpectGolden(runner_, pass.Name(source, "attn.main_kv"),
                   got.MainValues(static_cast<size_t>(entries.front())));
    }
  }
}

TEST_P(GoldenLayer, CompressorAndEntries) {
  for (const RecordedPass& pass : Passes()) {
    for (int64_t source : {1, 3, 5}) CheckLatents(pass, source);
  }
}

void GoldenLayer::CheckScores(const RecordedPass& pass, int64_t layer) {
  std::vector<Bf16> queries =
      ops_.QuantizedLinear(Recorded(pass, layer, "attn.qr"), TinyWeight(Weight(layer, "attn.indexer.wq_b")));
  ops_.Rotate(&queries, tiny::kIndexHeads, tiny::kIndexDim, pass.positions, tiny::Ratio(layer));
  ExpectGolden(runner_, pass.Name(layer, "attn.indexer.queries"),
               ops_.Quantize(queries, tiny::kIndexDim, QuantScheme::kFp4Index));

  std::vector<Bf16> weights = ops_.Linear(Recorded(pass, layer, "attn.input"),
                                          TinyWeight(Weight(layer, "attn.indexer.weights_proj")));
  ScaleParams scale;
  scale.count = static_cast<int64_t>(weights.size());
  scale.factor = 1.0 / std::sqrt(static_cast<double>(tiny::kIndexDim)) /
                 std::sqrt(static_cast<double>(tiny::kIndexHeads));
  scale.x = weights.data();
  runner_.ops().Scale(runner_.Context(Limits(pass.rows())), scale);
  ExpectGolden(runner_, pass.Name(layer, "attn.indexer.head_weights"), weights);

  const GoldenBlocks keys = SourceBlocks(pass, tiny::KvSource(layer), EntryFormat::kFp4Index);
  const BlockTable table = keys.table();
  const std::vector<int32_t> visible = Visible(pass, layer), seq(visible.size(), 0);
  IndexerScoresParams p;
  p.rows = pass.rows();
  p.heads = tiny::kIndexHeads;
  p.dim = tiny::kIndexDim;
  p.columns = p.row_stride = TinyGoldens().Get(pass.Name(layer, "attn.indexer.scores")).shape.at(1);
  p.q = Recorded(pass, layer, "attn.indexer.queries").data();
  p.w = Recorded(pass, layer, "attn.indexer.head_weights").data();
  p.seq = seq.data();
  p.visible = visible.data();
  p.layout = keys.layout();
  p.sequences = {&table, 1};
  std::vector<float> scores(static_cast<size_t>(p.rows * p.columns));
  p.scores = scores.data();
  runner_.ops().IndexerScores(runner_.Context(Limits(p.rows)), p);
  ExpectGolden(runner_, pass.Name(layer, "attn.indexer.scores"), scores);
}

void GoldenLayer::CheckSelection(const RecordedPass& pass, int64_t layer) {
  const std::span<const float> recorded = RecordedF32(pass, layer, "attn.indexer.scores");
  std::vector<float> scores(recorded.begin(), recorded.end());
  const std::vector<int32_t> visible = Visible(pass, layer);
  const int64_t columns = TinyGoldens().Get(pass.Name(layer, "attn.indexer.scores")).shape.at(1);
  if (layer >= 5) {  // the pool of layer 5: checked there, applied to the later sources
    const std::span<const float> source = RecordedF32(pass, 5, "attn.indexer.scores");
    std::vector<int32_t> blocks(static_cast<size_t>(pass.rows() * tiny::kCandidateBlocks));
    SelectCandidatesParams p;
    p.rows = pass.rows();
    p.columns = p.row_stride = columns;
    p.max_candidates = tiny::kCandidateBlocks;
    p.candidate_block = tiny::kCandidateBlock;
    p.scores = source.data();
    p.visible = visible.data();
    p.candidates = blocks.data();
    runner_.ops().SelectCandidates(runner_.Context(Limits(p.rows)), p);
    std::vector<uint8_t> member(scores.size());
    for (size_t i = 0; i < blocks.size(); ++i) {
      const auto row = static_cast<int64_t>(i) / tiny::kCandidateBlocks;
      for (int64_t c = 0; blocks[i] >= 0 && c < tiny::kCandidateBlock; ++c) {
        const int64_t entry = blocks[i] * tiny::kCandidateBlock + c;
        if (entry < columns) member[static_cast<size_t>(row * columns + entry)] = 1;
      }
    }
    if (layer == 5) {
      ExpectGolden(runner_, pass.Name(5, "attn.indexer.candidates"), member);
    } else {
      for (size_t i = 0; i < scores.size(); ++i) {
        if (member[i] == 0) scores[i] = -std::numeric_limits<float>::infinity();
      }
    }
  }
  SelectTopKParams p;
  p.rows = pass.rows();
  p.columns = p.row_stride = columns;
  p.k = tiny::kTopK;
  p.scores = scores.data();
  p.visible = visible.data();
  std::vector<int32_t> topk(static_cast<size_t>(p.rows * p.k));
  p.topk = topk.data();
  runner_.ops().SelectTopK(runner_.Context(Limits(p.rows)), p);
  ExpectGolden(runner_, pass.Name(layer, "attn.indexer.topk"), topk);
}

TEST_P(GoldenLayer, Indexer) {
  for (const RecordedPass& pass : Passes()) {
    for (int64_t layer : {1, 3, 5, 7, 9}) {
      CheckScores(pass, layer);
      CheckSelection(pass, layer);
    }
  }
}

void GoldenLayer::CheckHeads(const RecordedPass& pass, int64_t layer) {
  // Quantising recorded values again may change codes and scales but not the values (spec: model.md §14.1).
  const auto kv = Recorded(pass, layer, "attn.window_kv");
  std::vector<uint8_t> codes(kv.size()), scales(kv.size() / kQuantGroup);
  QuantizeFp8(kv.data(), static_cast<int64_t>(kv.size()), codes.data(), scales.data());
  AttentionSequence sequence;
  sequence.window.capacity = tiny::kWindow;
  sequence.window.chunk_begin = pass.positions.front();
  sequence.window.chunk_codes = codes.data();
  sequence.window.chunk_scales = scales.data();
  const std::string ring = "p33.state.ring." + std::to_string(layer);
  std::vector<uint8_t> ring_codes, ring_scales;
  if (pass.is_decode()) {
    ring_codes.assign(TinyGoldens().Bytes(ring + ".codes").begin(),
                      TinyGoldens().Bytes(ring + ".codes").end());
    ring_scales.assign(TinyGoldens().Bytes(ring + ".scales").begin(),
                       TinyGoldens().Bytes(ring + ".scales").end());
    sequence.window.codes = ring_codes.data();
    sequence.window.scales = ring_scales.data();
  }
  const std::vector<int32_t> seq(pass.positions.size(), 0);
  SparseAttentionParams p;
  p.rows = pass.rows();
  p.heads = tiny::kHeads;
  p.dim = tiny::kHeadDim;
  p.window = tiny::kWindow;
  p.q = Recorded(pass, layer, "attn.q").data();
  p.positions = pass.positions.data();
  p.seq = seq.data();
  const GoldenBlocks entries = SourceBlocks(pass, tiny::KvSource(layer), EntryFormat::kFp4Main);
  p.layout = entries.layout();
  if (tiny::Ratio(layer) > 0) {
    p.k = tiny::kTopK;
    p.topk = TinyGoldens().Ints(pass.Name(tiny::IndexSource(layer), "attn.indexer.topk")).data();
    sequence.entries = entries.table();
  }
  p.sequences = {&sequence, 1};
  p.sink = TinyFloat(Weight(layer, "attn.attn_sink")).data();
  p.scale = 0.125f;
  std::vector<Bf16> heads(static_cast<size_t>(p.rows * p.heads * p.dim));
  p.out = heads.data();
  runner_.ops().SparseAttention(runner_.Context(Limits(p.rows)), p);
  ExpectGolden(runner_, pass.Name(layer, "attn.heads"), heads);
}

TEST_P(GoldenLayer, Attention) {
  for (const RecordedPass& pass : Passes()) {
    for (int64_t layer = 0; layer < tiny::kLayers; ++layer) {
      CheckHeads(pass, layer);
      const auto recorded = Recorded(pass, layer, "attn.heads");
      std::vector<Bf16> heads(recorded.begin(), recorded.end());
      ops_.Rotate(&heads, tiny::kHeads, tiny::kHeadDim, pass.positions, tiny::Ratio(layer), /*inverse=*/true);
      const std::vector<Bf16> low_rank =
          ops_.Linear(heads, TinyWeight(Weight(layer, "attn.wo_a")), tiny::kGroups);
      ExpectGolden(runner_, pass.Name(layer, "attn.output"),
                   ops_.QuantizedLinear(low_rank, TinyWeight(Weight(layer, "attn.wo_b"))));
    }
  }
}

void GoldenLayer::CheckMoe(const RecordedPass& pass, int64_t layer) {
  const auto x = Recorded(pass, layer, "ffn.input");
  const auto rows = static_cast<size_t>(pass.rows());
  std::vector<float> scores(rows * tiny::kExperts), weights(rows * tiny::kExpertsPerToken);
  std::vector<int32_t> ids(weights.size());
  MoeRouteParams route;
  route.rows = pass.rows();
  route.hidden = tiny::kHidden;
  route.num_experts = tiny::kExperts;
  route.k = tiny::kExpertsPerToken;
  route.route_scale = 1.5f;
  route.x = x.data();
  route.gate = TinyWeight(Weight(layer, "ffn.gate"));
  route.bias = TinyFloat(Weight(layer, "ffn.gate.bias")).data();
  route.bias_vl = TinyFloat(Weight(layer, "ffn.gate.bias_vl")).data();
  route.scores = scores.data();
  route.topk_ids = ids.data();
  route.topk_weights = weights.data();
  runner_.ops().MoeRoute(runner_.Context(Limits(route.rows)), route);
  ExpectGolden(runner_, pass.Name(layer, "ffn.gate.scores"), scores);
  ExpectGolden(runner_, pass.Name(layer, "ffn.gate.selected"), ids);
  ExpectGolden(runner_, pass.Name(layer, "ffn.gate.weights"), weights);

  const std::vector<Bf16> quantized = ops_.Quantize(x, tiny::kHidden, QuantScheme::kFp8Act);
  std::vector<ExpertWeights> experts;
  for (int64_t e = 0; e < tiny::kExperts; ++e)
    experts.push_back(TinyExpert(Weight(layer, "ffn.experts." + std::to_string(e))));
  std::vector<Bf16> shared(x.size()), y(x.size());
  MoeExpertsParams p;
  p.rows = pass.rows();
  p.hidden = tiny::kHidden;
  p.intermediate = tiny::kIntermediate;
  p.k = tiny::kExpertsPerToken;
  p.swiglu_limit = 10;
  p.x = quantized.data();
  p.topk_ids = TinyGoldens().Ints(pass.Name(layer, "ffn.gate.selected")).data();
  p.topk_weights = RecordedF32(pass, layer, "ffn.gate.weights").data();
  p.experts = experts;
  p.shared = TinyExpert(Weight(layer, "ffn.shared_experts"));
  p.shared_out = shared.data();
  p.y = y.data();
  runner_.ops().MoeExperts(runner_.Context(Limits(p.rows)), p);
  ExpectGolden(runner_, pass.Name(layer, "ffn.shared"), shared);
  ExpectGolden(runner_, pass.Name(layer, "ffn.output"), y);
}

TEST_P(GoldenLayer, MixtureOfExperts) {
  for (const RecordedPass& pass : Passes()) {
    for (int64_t layer = 0; layer < tiny::kLayers; ++layer) CheckMoe(pass, layer);
  }
}

/// After a complete run: every recorded tensor of the layers was the expected value of something, but for what is input only.
class EveryGoldenCompared : public ::testing::Environment {
 public:
  void TearDown() override {
    const ::testing::UnitTest& run = *::testing::UnitTest::GetInstance();
    if (run.test_to_run_count() != run.total_test_count() || run.failed_test_count() > 0) return;
    for (const std::string prefix : {"p33.layers.", "p33.decode.layers."}) {
      for (const std::string& name : TinyGoldens().NotCompared(prefix)) {
        const bool is_input =
            name.ends_with("hc.pre_in") || name.ends_with("engram.rows") || name.ends_with("streams_in");
        EXPECT_TRUE(is_input) << name << " was compared with nothing";
      }
    }
  }
};

const ::testing::Environment* const kEveryGoldenCompared =
    ::testing::AddGlobalTestEnvironment(new EveryGoldenCompared);  // GoogleTest owns it

INSTANTIATE_TEST_SUITE_P(All, GoldenLayer, ::testing::ValuesIn(ImplementationNames()),
                         [](const auto& param) { return TestSuffix(param.param); });

}  // namespace
}  // namespace deepinfer::kernels::testing
