// The goldens of both tiny checkpoints through the production backbone (spec: model.md §14, goldens' manifests). The reference kernels
// must give every bit; other kernels the tolerance class of each tensor when fed recorded inputs, and the end-to-end rules.
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
        strictness_(target == "reference" ? Strictness::kBits : Strictness::kTolerance) {}

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
    GoldenObserver observer = Observer("image");
    Logits("image.logits", model_.Run(chunk, false, &observer), "p33", Fed::kOwn);
  }

  void PrefixHit() {
    const std::span<const int32_t> ids = Input<int32_t>("prefix_hit.ids");
    constexpr int64_t kHit = 77;
    auto donor = model_.NewSequence();
    model_.Feed(donor.get(), ids, LogitsWanted::kNone);
    auto sequence = Check(Sequence::FromPrefix(*donor, kHit));
    const ChunkOutput out =
        model_.Feed(sequence.get(), ids.subspan(kHit - model_.backbone->config().sliding_window));
    Logits("prefix_hit.logits", out, "p131", Fed::kOwn);
    State("prefix_hit.state", *sequence, "p131", Fed::kOwn);
  }

  const GoldenFile& file() const { return file_; }

 private:
  enum class Fed { kOwn, kRecorded };

  /// An input: used as it is, and so accounted for.
  template <typename T>
  std::span<const T> Input(const std::string& name) {
    file_.MarkCompared(name);
    if constexpr (std::is_same_v<T, int32_t>) return file_.Ints(name);
    if constexpr (std::is_same_v<T, uint8_t>) return file_.Bytes(name);
    if constexpr (std::is_same_v<T, Bf16>) return file_.Bf16s(name);
  }

  bool exact() const { return strictness_ == Strictness::kBits; }
  GoldenObserver Observer(const std::string& prefix) {
    return GoldenObserver(file_, prefix, strictness_, !exact());
  }

  void RunPrompt(const std::string& p) {
    SCOPED_TRACE(p);
    const std::span<const int32_t> ids = Input<int32_t>(p + ".ids");
    // 1. With recorded inputs (or, for the oracle, simply observed): every module.
    auto sequence = model_.NewSequence();
    model::Chunk chunk;
    chunk.sequence = sequence.get();
    chunk.ids = ids;
    chunk.logits = LogitsWanted::kAll;
    GoldenObserver observer = Observer(p);
    ChunkOutput out = model_.Run(chunk, true, &observer);
    Taps(p, out);
    const bool recorded = file_.Has(p + ".layers.0.attn.input") && file_.Has(p + ".layers.4.attn.input");
    if (recorded) State(p + ".state", *sequence, p, Fed::kRecorded);
    if (file_.Has(p + ".decode.ids")) Decode(p, *sequence);
    // 2. End to end.
    if (!exact()) {
      sequence = model_.NewSequence();
      out = model_.Feed(sequence.get(), ids);
    }
    Logits(p + ".logits", out, p, Fed::kOwn);
    if (!recorded) State(p + ".state", *sequence, p, Fed::kOwn);
    if (file_.Has(p + ".decode.ids")) {
      EXPECT_EQ(ArgMax(LastRow(out)), file_.Ints(p + ".decode.ids")[0]);
    }
    Greedy(p, sequence.get(), LastRow(out), p);
    if (ids.size() > 100) Truncated(p, ids);
  }

  void Taps(const std::string& p, const ChunkOutput& out) {
    const std::vector<int>& layers = model_.backbone->config().dspark_target_layer_ids;
    for (size_t i = 0; i < layers.size(); ++i) {
      const std::string name = p + ".tap." + std::to_string(layers[i]);
      if (file_.Has(name)) ExpectGolden(file_, name, out.taps[i], strictness_);
    }
  }

  /// One decode step after a prompt of recorded inputs, with recorded inputs.
  void Decode(const std::string& p, const Sequence& after_prompt) {
    const std::span<const int32_t> ids = Input<int32_t>(p + ".decode.ids");
    auto sequence = Check(after_prompt.Clone());
    GoldenObserver observer = Observer(p + ".decode");
    const ChunkOutput step =
        model_.Feed(sequence.get(), ids, LogitsWanted::kAll, PrefillMode::kFull, 0, 0, &observer);
    Logits(p + ".decode.logits", step, p, Fed::kRecorded);
    State(p + ".decode.state", *sequence, p, Fed::kRecorded);
  }

  void Truncated(const std::string& p, std::span<const int32_t> ids) {
    const int64_t keep = model_.backbone->config().sliding_window + 4;
    auto halo = model_.NewSequence();
    Logits(p + ".exact_halo.logits",
           model_.Feed(halo.get(), ids, LogitsWanted::kAll, PrefillMode::kExactHalo), p, Fed::kOwn);
    auto replay = model_.NewSequence();
    const ChunkOutput out =
        model_.Feed(replay.get(), ids, LogitsWanted::kAll, PrefillMode::kBoundedReplay, 0, keep);
    Logits(p + ".bounded_replay.logits", out, p, Fed::kOwn);
    State(p + ".bounded_replay.state", *replay, p, Fed::kOwn);
    Greedy(p + ".bounded_replay", replay.get(), LastRow(out), p);
  }

  static std::vector<float> LastRow(const ChunkOutput& out) {
    const size_t vocab = out.logits.size() / static_cast<size_t>(out.rows);
    return {out.logits.end() - static_cast<ptrdiff_t>(vocab), out.logits.end()};
  }

  /// Greedy text, teacher-forced for kernels that may differ in the last bits.
  void Greedy(const std::string& p, Sequence* sequence, std::vector<float> logits,
              const std::string& noise_of) {
    const std::span<const int32_t> tokens = Input<int32_t>(p + ".greedy.tokens");
    const size_t vocab = logits.size();
    std::vector<float> rows, margins;
    for (size_t step = 0; step < tokens.size(); ++step) {
      rows.insert(rows.end(), logits.begin(), logits.end());
      const int32_t best = ArgMax(logits);
      std::vector<float> others = logits;
      others.erase(others.begin() + best);
      margins.push_back(logits[static_cast<size_t>(best)] - *std::max_element(others.begin(), others.end()));
      if (best != tokens[step]) {
        const std::span<const float> golden = file_.Floats(p + ".greedy.logits").subspan(step * vocab, vocab);
        const float margin = golden[static_cast<size_t>(tokens[step])] - golden[static_cast<size_t>(best)];
        EXPECT_FALSE(exact()) << p << " step " << step;
        EXPECT_LT(margin, 4 * *file_.Noise(noise_of, "max_abs")) << p << " step " << step;
      }
      if (step + 1 < tokens.size()) logits = LastRow(model_.Feed(sequence, tokens.subspan(step, 1)));
    }
    CompareLogits(p + ".greedy.logits", rows, noise_of);
    if (!file_.Has(p + ".greedy.margin")) return;
    if (exact()) {
      ExpectGolden(file_, p + ".greedy.margin", margins, strictness_);
    } else {
      file_.MarkCompared(p + ".greedy.margin");  // used above, through the logits it was made from
    }
  }

  void Logits(const std::string& name, const ChunkOutput& out, const std::string& noise_of, Fed fed) {
    std::vector<float> logits = out.logits;
    const size_t wanted = file_.Floats(name).size();
    ASSERT_GE(logits.size(), wanted) << name;
    logits.erase(logits.begin(), logits.end() - static_cast<ptrdiff_t>(wanted));
    if (exact() || fed == Fed::kRecorded) return ExpectGolden(file_, name, logits, strictness_);
    CompareLogits(name, logits, noise_of);
  }

  /// Mean KL(golden || test) over the rows <= max(10 x noise.kl_mean, 2e-3).
  void CompareLogits(const std::string& name, std::span<const float> got, const std::string& noise_of) {
    if (exact()) return ExpectGolden(file_, name, got, strictness_);
    const std::span<const float> want = file_.Floats(name);
    file_.MarkCompared(name);
    ASSERT_EQ(got.size(), want.size()) << name;
    EXPECT_LE(MeanKl(want, got), std::max(10 * *file_.Noise(noise_of, "kl_mean"), 2e-3)) << name;
  }

  double MeanKl(std::span<const float> want, std::span<const float> got) const {
    const size_t vocab = static_cast<size_t>(model_.backbone->config().vocab_size),
                 rows = want.size() / vocab;
    double kl = 0;
    for (size_t r = 0; r < rows; ++r) kl += Kl(want.subspan(r * vocab, vocab), got.subspan(r * vocab, vocab));
    return kl / static_cast<double>(rows);
  }

  static double LogSum(std::span<const float> x) {
    const double top = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (float v : x) sum += std::exp(v - top);
    return top + std::log(sum);
  }

  static double Kl(std::span<const float> p, std::span<const float> q) {
    const double zp = LogSum(p), zq = LogSum(q);
    double kl = 0;
    for (size_t i = 0; i < p.size(); ++i) kl += std::exp(p[i] - zp) * ((p[i] - zp) - (q[i] - zq));
    return kl;
  }

  void State(const std::string& prefix, const Sequence& sequence, const std::string& noise_of, Fed fed) {
    const ModelConfig& c = model_.backbone->config();
    if (!file_.Has(prefix + ".engram_history")) return;
    for (int layer = 0; layer < c.num_hidden_layers; ++layer) {
      const std::string name = prefix + ".ring." + std::to_string(layer);
      const Sequence::RingImage ring = sequence.Ring(layer);
      ExpectGoldenExact(file_, name + ".valid", ring.valid);
      StateBytes(name, ring.codes, ring.scales, noise_of, "ring", fed);
    }
    for (size_t s = 0; s < c.kv_source_layer_ids.size(); ++s) {
      const std::string layer = std::to_string(c.kv_source_layer_ids[s]);
      for (const char* kind : {"main", "index"}) {
        const Sequence::EntryImage image = kind[0] == 'm' ? sequence.MainEntries(static_cast<int>(s))
                                                          : sequence.IndexEntries(static_cast<int>(s));
        const std::string name = prefix + "." + kind + "." + layer;
        ASSERT_EQ(file_.Has(name + ".codes"), image.count > 0) << name;
        if (image.count > 0) StateBytes(name, image.codes, image.scales, noise_of, kind, fed);
      }
      const Sequence::TailImage tail = sequence.Tail(static_cast<int>(s));
      const std::string name = prefix + ".tail." + layer;
      ASSERT_EQ(file_.Has(name + ".content"), !tail.content.empty()) << name;
      if (tail.content.empty()) continue;
      if (exact() || fed == Fed::kRecorded) {
        ExpectGolden(file_, name + ".content", tail.content, strictness_);
        ExpectGolden(file_, name + ".gate", tail.gate, strictness_);
      } else {
        ExpectGolden(file_, name + ".content", tail.content, Strictness::kDrift);
        ExpectGolden(file_, name + ".gate", tail.gate, Strictness::kDrift);
      }
    }
    const std::span<const int32_t> ids = sequence.compressed_ids();
    ExpectGoldenExact(file_, prefix + ".engram_history", ids.last(std::min<size_t>(3, ids.size())));
  }

  /// Code bytes: equal for the oracle, within 0.2 % with recorded inputs, within the noise rule end to end.
  void StateBytes(const std::string& name, std::span<const uint8_t> codes, std::span<const uint8_t> scales,
                  const std::string& noise_of, const std::string& kind, Fed fed) {
    if (exact()) {
      ExpectGoldenExact(file_, name + ".codes", codes);
      ExpectGoldenExact(file_, name + ".scales", scales);
      return;
    }
    const std::span<const uint8_t> want = file_.Bytes(name + ".codes");
    file_.MarkCompared(name + ".codes");
    file_.MarkCompared(name + ".scales");
    ASSERT_EQ(codes.size(), want.size()) << name;
    ASSERT_EQ(scales.size(), file_.Bytes(name + ".scales").size()) << name;
    int64_t differing = 0;
    for (size_t i = 0; i < want.size(); ++i) differing += codes[i] != want[i];
    const double share = static_cast<double>(differing) / static_cast<double>(want.size());
    const double own = std::max(5 * *file_.Noise(noise_of, "state_mismatch." + kind), 0.01);
    EXPECT_LE(share, fed == Fed::kRecorded ? 0.002 : own) << name;
  }

  GoldenFile file_;
  TestModel model_;
  Strictness strictness_;
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
