// The goldens of both tiny checkpoints through the production backbone (spec: model.md §14, goldens' manifests). The reference kernels
// must give every bit, and so must the CPU kernels but for the last digits of logits, which they do not round correctly.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "model/golden_observer.h"
#include "model/model_fixture.h"
#include "support/golden_file.h"

namespace deepinfer::testing {
namespace {

using model::ChunkOutput;
using model::LogitsWanted;
using model::PrefillMode;
using model::Sequence;

/// One checkpoint with its goldens under one kernel target.
class GoldenRun {
 public:
  GoldenRun(const std::string& name, const std::string& target)
      : file_(GoldenFile::Load(std::string(DEEPINFER_TEST_DATA) + "/goldens", name + "_goldens")),
        model_(TestModel::Load("goldens/" + name, target)),
        is_reference_(target == "reference") {}

  void Prompts() {
    for (const std::string& name : file_.Names()) {
      if (name.ends_with(".ids") && name.starts_with("p") && name.find('.') == name.size() - 4 &&
          name != "prefix_hit.ids") {
        RunPrompt(name.substr(0, name.size() - 4));
      }
    }
  }

  void Image() {
    const std::span<const uint8_t> mask = Input<uint8_t>("image.mask");
    model::Chunk chunk;
    auto sequence = model_.NewSequence();
    chunk.sequence = sequence.get();
    chunk.ids = Input<int32_t>("image.ids");
    chunk.is_image = mask;
    chunk.embeds = Input<Bf16>("image.embeds");
    chunk.logits = LogitsWanted::kAll;
    GoldenObserver observer(file_, "image");
    Logits("image.logits", model_.Run(chunk, false, &observer));
  }

  void PrefixHit() {
    const std::span<const int32_t> ids = Input<int32_t>("prefix_hit.ids");
    constexpr int64_t kHit = 77;
    auto donor = model_.NewSequence();
    model_.Feed(donor.get(), ids, LogitsWanted::kNone);
    auto sequence = Check(Sequence::FromPrefix(*donor, kHit));
    const ChunkOutput out =
        model_.Feed(sequence.get(), ids.subspan(kHit - model_.backbone->config().sliding_window));
    Logits("prefix_hit.logits", out);
    State("prefix_hit.state", *sequence);
  }

  const GoldenFile& file() const { return file_; }

 private:
  /// An input: used as it is, and so accounted for.
  template <typename T>
  std::span<const T> Input(const std::string& name) {
    file_.MarkCompared(name);
    if constexpr (std::is_same_v<T, int32_t>) return file_.Ints(name);
    if constexpr (std::is_same_v<T, uint8_t>) return file_.Bytes(name);
    if constexpr (std::is_same_v<T, Bf16>) return file_.Bf16s(name);
  }

  void RunPrompt(const std::string& p) {
    SCOPED_TRACE(p);
    const std::span<const int32_t> ids = Input<int32_t>(p + ".ids");
    auto sequence = model_.NewSequence();
    model::Chunk chunk;
    chunk.sequence = sequence.get();
    chunk.ids = ids;
    chunk.logits = LogitsWanted::kAll;
    GoldenObserver observer(file_, p);
    const ChunkOutput out = model_.Run(chunk, true, &observer);
    Taps(p, out);
    Logits(p + ".logits", out);
    State(p + ".state", *sequence);
    if (file_.Has(p + ".decode.ids")) {
      EXPECT_EQ(ArgMax(LastRow(out)), file_.Ints(p + ".decode.ids")[0]);
      Decode(p, *sequence);
    }
    Greedy(p, sequence.get(), LastRow(out));
    if (ids.size() > 100) Truncated(p, ids);
  }

  void Taps(const std::string& p, const ChunkOutput& out) {
    const std::vector<int>& layers = model_.backbone->config().dspark_target_layer_ids;
    for (size_t i = 0; i < layers.size(); ++i) {
      const std::string name = p + ".tap." + std::to_string(layers[i]);
      if (file_.Has(name)) ExpectGolden(file_, name, out.taps[i]);
    }
  }

  /// One decode step after the prompt.
  void Decode(const std::string& p, const Sequence& after_prompt) {
    const std::span<const int32_t> ids = Input<int32_t>(p + ".decode.ids");
    auto sequence = Check(after_prompt.Clone());
    GoldenObserver observer(file_, p + ".decode");
    const ChunkOutput step =
        model_.Feed(sequence.get(), ids, LogitsWanted::kAll, PrefillMode::kFull, 0, 0, &observer);
    Logits(p + ".decode.logits", step);
    State(p + ".decode.state", *sequence);
  }

  void Truncated(const std::string& p, std::span<const int32_t> ids) {
    const int64_t keep = model_.backbone->config().sliding_window + 4;
    auto halo = model_.NewSequence();
    Logits(p + ".exact_halo.logits",
           model_.Feed(halo.get(), ids, LogitsWanted::kAll, PrefillMode::kExactHalo));
    auto replay = model_.NewSequence();
    const ChunkOutput out =
        model_.Feed(replay.get(), ids, LogitsWanted::kAll, PrefillMode::kBoundedReplay, 0, keep);
    Logits(p + ".bounded_replay.logits", out);
    State(p + ".bounded_replay.state", *replay);
    Greedy(p + ".bounded_replay", replay.get(), LastRow(out));
  }

  static std::vector<float> LastRow(const ChunkOutput& out) {
    const size_t vocab = out.logits.size() / static_cast<size_t>(out.rows);
    return {out.logits.end() - static_cast<ptrdiff_t>(vocab), out.logits.end()};
  }

  /// Greedy text: every token, its logits and by how much it led.
  void Greedy(const std::string& p, Sequence* sequence, std::vector<float> logits) {
    const std::span<const int32_t> tokens = Input<int32_t>(p + ".greedy.tokens");
    std::vector<float> rows, margins;
    for (size_t step = 0; step < tokens.size(); ++step) {
      rows.insert(rows.end(), logits.begin(), logits.end());
      const int32_t best = ArgMax(logits);
      std::vector<float> others = logits;
      others.erase(others.begin() + best);
      margins.push_back(logits[static_cast<size_t>(best)] - *std::max_element(others.begin(), others.end()));
      ASSERT_EQ(best, tokens[step]) << p << " step " << step;
      if (step + 1 < tokens.size()) logits = LastRow(model_.Feed(sequence, tokens.subspan(step, 1)));
    }
    ExpectLogits(p + ".greedy.logits", rows);
    if (file_.Has(p + ".greedy.margin")) ExpectLogits(p + ".greedy.margin", margins);
  }

  void Logits(const std::string& name, const ChunkOutput& out) {
    const size_t wanted = file_.Floats(name).size();
    ASSERT_GE(out.logits.size(), wanted) << name;
    ExpectLogits(name, std::span(out.logits).last(wanted));
  }

  /// All bits of the oracle; others sum the head's products in float.
  void ExpectLogits(const std::string& name, std::span<const float> got) {
    if (is_reference_) return ExpectGolden(file_, name, got);
    const Comparison c = Compare(got, file_.Floats(name));
    file_.MarkCompared(name);
    EXPECT_LE(c.max_abs, 1e-5 * std::max(c.rms, 1.0)) << name << ": " << c.ToString();
  }

  void State(const std::string& prefix, const Sequence& sequence) {
    const ModelConfig& c = model_.backbone->config();
    if (!file_.Has(prefix + ".engram_history")) return;
    for (int layer = 0; layer < c.num_hidden_layers; ++layer) {
      const std::string name = prefix + ".ring." + std::to_string(layer);
      const Sequence::RingImage ring = sequence.Ring(layer);
      ExpectGolden(file_, name + ".valid", ring.valid);
      ExpectGolden(file_, name + ".codes", ring.codes);
      ExpectGolden(file_, name + ".scales", ring.scales);
    }
    for (size_t s = 0; s < c.kv_source_layer_ids.size(); ++s) {
      const std::string layer = std::to_string(c.kv_source_layer_ids[s]);
      for (const char* kind : {"main", "index"}) {
        const Sequence::EntryImage image = kind[0] == 'm' ? sequence.MainEntries(static_cast<int>(s))
                                                          : sequence.IndexEntries(static_cast<int>(s));
        const std::string name = prefix + "." + kind + "." + layer;
        ASSERT_EQ(file_.Has(name + ".codes"), image.count > 0) << name;
        if (image.count == 0) continue;
        ExpectGolden(file_, name + ".codes", image.codes);
        ExpectGolden(file_, name + ".scales", image.scales);
      }
      const Sequence::TailImage tail = sequence.Tail(static_cast<int>(s));
      const std::string name = prefix + ".tail." + layer;
      ASSERT_EQ(file_.Has(name + ".content"), !tail.content.empty()) << name;
      if (tail.content.empty()) continue;
      ExpectGolden(file_, name + ".content", tail.content);
      ExpectGolden(file_, name + ".gate", tail.gate);
    }
    const std::span<const int32_t> ids = sequence.compressed_ids();
    ExpectGolden(file_, prefix + ".engram_history", ids.last(std::min<size_t>(3, ids.size())));
  }

  GoldenFile file_;
  TestModel model_;
  bool is_reference_;
};

class Golden : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(Golden, EveryTensor) {
  const auto& [checkpoint, target] = GetParam();
  GoldenRun run(checkpoint, target);
  run.Prompts();
  if (checkpoint == "tiny") {
    run.Image();
    run.PrefixHit();
  }
  // Everything but the unit vectors, which have tests of their own (golden_unit_test.cc and the tests of tensor and kernels).
  std::vector<std::string> missed = run.file().NotCompared();
  std::erase_if(missed, [](const std::string& name) {
    return name.starts_with("unit.") || name.starts_with("quant.");
  });
  EXPECT_TRUE(missed.empty()) << missed.size() << " tensors were not compared, the first is "
                              << missed.front();
  EXPECT_EQ(run.file().Names().size(), checkpoint == "tiny" ? 1185u : 237u);
}

INSTANTIATE_TEST_SUITE_P(All, Golden,
                         ::testing::Combine(::testing::Values("tiny", "tiny_trained"),
                                            ::testing::ValuesIn(KernelTargets())),
                         [](const auto& param) {
                           return std::get<0>(param.param) + "_" + std::get<1>(param.param);
                         });

}  // namespace
}  // namespace deepinfer::testing
