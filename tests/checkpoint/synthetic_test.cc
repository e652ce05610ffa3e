// The generator itself (checkpoint.md §10): variants, values, tokenizer.
#include "checkpoint/synthetic.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/inventory.h"
#include "checkpoint/synthetic_tokenizer.h"
#include "temp_dir.h"
#include "tensor/dtype.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;
using testing::ReadText;
using testing::TempDir;

TEST(Synthetic, ConfigurationIsThatOfTheSpecification) {
  const ModelConfig c = SyntheticConfig();
  EXPECT_TRUE(Validate(c).ok()) << Validate(c).ToString();
  EXPECT_EQ(c.rms_norm_eps, 1e-20);
  EXPECT_EQ(c.routed_scaling_factor, 1.5);
  EXPECT_EQ(c.engram_num_embeddings, (std::vector<int64_t>{630, 834}));
}

TEST(Synthetic, LayoutsMirrorThePublishedShards) {
  std::map<int, std::set<WeightClass>> parts;
  for (const SyntheticTensor& t : SyntheticTensors(SyntheticConfig(), SyntheticOptions::Layout::kParts)) {
    parts[t.shard].insert(ClassifyTensor(t.spec.name));
  }
  ASSERT_EQ(parts.size(), 5u);
  EXPECT_EQ(parts[0], std::set{WeightClass::kVision});
  EXPECT_EQ(parts[1], std::set{WeightClass::kEmbed});
  EXPECT_EQ(parts[3], (std::set{WeightClass::kHead, WeightClass::kDraft}));
  EXPECT_TRUE(parts[4].contains(WeightClass::kEngramTables));

  std::map<int, uint64_t> bytes;
  for (const SyntheticTensor& t : SyntheticTensors(ReleasedConfig(), SyntheticOptions::Layout::kReleased))
    bytes[t.shard] += t.spec.num_bytes();
  ASSERT_EQ(bytes.size(), 48u);
  EXPECT_EQ(bytes[0], 970'536'960u);
  EXPECT_EQ(bytes[1], 1'323'827'200u);
  EXPECT_EQ(bytes[2], 7'389'500'888u);
  EXPECT_EQ(bytes[42], 1'323'837'440u);
  EXPECT_EQ(bytes[43], 2'652'643'800u);
  EXPECT_EQ(bytes[45], 2'706'317'272u);
  EXPECT_EQ(bytes[46], 101'535'150'272u);
  EXPECT_EQ(bytes[47], 101'537'925'968u);
}

TEST(Synthetic, FlatConfigOpensToo) {
  const TempDir dir;
  SyntheticOptions options;
  options.flat_config = true;
  ModelConfig config = SyntheticConfig();
  config.vision.reset();
  ASSERT_TRUE(WriteSyntheticCheckpoint(dir.path(), config, options).ok());
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  EXPECT_TRUE(CheckInventory(**checkpoint).sound());
}

TEST(Synthetic, ValuesDependOnTheNameOnly) {
  const std::vector<uint64_t> shape = {64, 128};
  std::vector<std::byte> whole(64 * 128);
  FillSyntheticTensor("layers.0.attn.wq_a.weight", StorageDtype::kF8E4M3, shape, 0, whole);
  std::vector<std::byte> piece(100);
  FillSyntheticTensor("layers.0.attn.wq_a.weight", StorageDtype::kF8E4M3, shape, 1000, piece);
  EXPECT_EQ(std::memcmp(piece.data(), whole.data() + 1000, 100), 0);
  std::vector<std::byte> other(whole.size());
  FillSyntheticTensor("layers.1.attn.wq_a.weight", StorageDtype::kF8E4M3, shape, 0, other);
  EXPECT_NE(whole, other);
}

TEST(Synthetic, CodesAreWithinTheirRanges) {
  std::vector<std::byte> bytes(100'000);
  const std::vector<uint64_t> shape = {100'000};
  FillSyntheticTensor("layers.0.attn.wq_a.scale", StorageDtype::kF8E8M0, shape, 0, bytes);
  std::set<int> scales;
  for (const std::byte b : bytes) scales.insert(static_cast<int>(b));
  EXPECT_EQ(scales, (std::set{124, 125, 126, 127, 128, 129, 130}));

  FillSyntheticTensor("layers.0.attn.wq_a.weight", StorageDtype::kF8E4M3, shape, 0, bytes);
  int large = 0;
  for (const std::byte b : bytes) {
    EXPECT_NE(static_cast<int>(b) & 0x7F, 0x7F);
    large += std::abs(E4m3ToFloat(static_cast<uint8_t>(b))) > 2 ? 1 : 0;
  }
  EXPECT_GT(large, 1000);
  EXPECT_LT(large, 10'000);

  FillSyntheticTensor("layers.1.engram.embed.weight", StorageDtype::kF8E4M3, shape, 0, bytes);
  for (const std::byte b : bytes) EXPECT_GE(std::abs(E4m3ToFloat(static_cast<uint8_t>(b))), 0.25F);
}

float Mean(std::string_view name, float* deviation = nullptr) {
  std::vector<float> values(4096);
  FillSyntheticTensor(name, StorageDtype::kF32, std::vector<uint64_t>{4096}, 0,
                      std::as_writable_bytes(std::span(values)));
  double sum = 0;
  double squares = 0;
  for (const float v : values) {
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  const double mean = sum / 4096;
  if (deviation != nullptr) *deviation = static_cast<float>(std::sqrt(squares / 4096 - mean * mean));
  return static_cast<float>(mean);
}

TEST(Synthetic, RealValuesSuitTheirTensors) {
  float deviation = 0;
  EXPECT_NEAR(Mean("layers.0.attn.attn_sink", &deviation), 0, 0.1);
  EXPECT_NEAR(deviation, 1, 0.1);
  EXPECT_NEAR(Mean("layers.0.ffn.gate.bias"), 0, 0.01);
  EXPECT_NEAR(Mean("layers.0.ffn.gate.bias_vl"), 0.5, 0.02);
  EXPECT_NEAR(Mean("layers.0.hc_attn_scale"), 0.1, 0.005);
  EXPECT_NEAR(Mean("layers.0.hc_ffn_base"), 0, 0.01);
  EXPECT_NEAR(Mean("layers.0.attn_norm.weight"), 1, 0.01);
  EXPECT_NEAR(Mean("layers.1.engram.q_weight"), 1, 0.01);
}

// --- Tokenizer -----------------------------------------------------------------------------------------------------------------

json::Value Tokenizer() { return json::Parse(SyntheticTokenizerJson()).value(); }

TEST(SyntheticTokenizer, IdsCoverTheVocabulary) {
  const json::Value root = Tokenizer();
  std::map<int64_t, std::string> tokens;
  for (const auto& [token, id] : root.Find("model")->Find("vocab")->AsObject()) {
    int64_t value = -1;
    ASSERT_TRUE(id.GetInt64(&value));
    EXPECT_TRUE(tokens.emplace(value, token).second);
  }
  EXPECT_EQ(tokens.size(), 480u);
  for (const json::Value& added : root.Find("added_tokens")->AsArray()) {
    int64_t value = -1;
    ASSERT_TRUE(added.Find("id")->GetInt64(&value));
    tokens[value] = added.Find("content")->AsString();
  }
  EXPECT_EQ(tokens.size(), 512u);
  EXPECT_EQ(tokens.begin()->first, 0);
  EXPECT_EQ(tokens.rbegin()->first, 511);
  const std::map<int64_t, std::string> known = {{0, "<｜begin▁of▁sentence｜>"},
                                                {3, "!"},
                                                {67, "a"},
                                                {201, "Ċ"},
                                                {223, "Ġ"},
                                                {258, "Ń"},
                                                {480, "<｜System｜>"},
                                                {481, "<｜User｜>"},
                                                {482, "<｜Assistant｜>"},
                                                {483, "<think>"},
                                                {484, "</think>"},
                                                {485, "｜DSML｜"},
                                                {486, "<｜latest_reminder｜>"},
                                                {487, "<｜action｜>"},
                                                {492, "<｜read_url｜>"},
                                                {493, "<|EOT|>"},
                                                {494, "<｜deepseek_image｜>"},
                                                {495, "<|place_holder_mm_span_0001|>"}};
  for (const auto& [id, token] : known) EXPECT_EQ(tokens[id], token) << id;
}

TEST(SyntheticTokenizer, EveryMergeIsOfEarlierTokens) {
  const json::Value root = Tokenizer();
  const json::Value& model = *root.Find("model");
  const json::Array& merges = model.Find("merges")->AsArray();
  ASSERT_EQ(merges.size(), 221u);
  for (size_t i = 0; i < merges.size(); ++i) {
    const std::string& text = merges[i].AsString();
    const size_t blank = text.find(' ');
    const std::string left = text.substr(0, blank);
    const std::string right = text.substr(blank + 1);
    int64_t id = -1;
    ASSERT_TRUE(model.Find("vocab")->Find(left + right)->GetInt64(&id));
    EXPECT_EQ(id, static_cast<int64_t>(259 + i));
    for (const std::string& part : {left, right}) {
      int64_t part_id = -1;
      ASSERT_TRUE(model.Find("vocab")->Find(part)->GetInt64(&part_id));
      EXPECT_LT(part_id, id);
    }
  }
}

TEST(SyntheticTokenizer, FlagsAreThoseOfTheReleasedTokens) {
  const json::Value tokenizer = Tokenizer();
  for (const json::Value& added : tokenizer.Find("added_tokens")->AsArray()) {
    const std::string& content = added.Find("content")->AsString();
    if (content == "<｜System｜>") {
      EXPECT_FALSE(added.Find("special")->AsBool());
      EXPECT_TRUE(added.Find("normalized")->AsBool());
    }
    if (content == "<｜deepseek_image｜>") {
      EXPECT_FALSE(added.Find("special")->AsBool());
      EXPECT_FALSE(added.Find("normalized")->AsBool());
    }
    if (content == "<|EOT|>" || content.starts_with("<|place_holder")) {
      EXPECT_TRUE(added.Find("special")->AsBool());
    }
    EXPECT_FALSE(added.Find("lstrip")->AsBool());
  }
}

TEST(SyntheticTokenizer, MapFollowsTheRules) {
  const std::vector<int32_t> map = SyntheticTokenMap();
  ASSERT_EQ(map.size(), 512u);
  EXPECT_EQ(map[0], 0);
  EXPECT_EQ(map[2], 2);
  EXPECT_EQ(map[3], 3);
  EXPECT_EQ(map[67], map[35]);    // a, A
  EXPECT_EQ(map[223], map[201]);  // blank, line feed
  EXPECT_EQ(map[223], map[200]);  // tab
  EXPECT_NE(map[223], map[202]);  // vertical tab is stripped to nothing and keeps its text
  int32_t next = 0;               // classes are numbered in the order of their first token
  for (const int32_t value : map) {
    EXPECT_LE(value, next);
    next = std::max(next, value + 1);
  }
  EXPECT_EQ(next, SyntheticConfig().engram_compressed_vocab_size);
  for (size_t id = 480; id < 512; ++id) EXPECT_EQ(map[id], next - 512 + static_cast<int32_t>(id));
}

TEST(SyntheticTokenizer, FilesAreWritten) {
  const TempDir dir;
  SyntheticOptions options;
  options.tokenizer = true;
  ASSERT_TRUE(WriteSyntheticCheckpoint(dir.path(), SyntheticConfig(), options).ok());
  EXPECT_EQ(ReadText(dir / "tokenizer.json"), SyntheticTokenizerJson());
  EXPECT_EQ(fs::file_size(dir / "engram_token_map.i32"), 2048u);
  EXPECT_TRUE(json::Parse(ReadText(dir / "tokenizer_config.json")).ok());
}

}  // namespace
}  // namespace deepinfer
