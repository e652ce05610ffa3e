// Reading config.json: spellings, types, defaults (checkpoint.md §3).
#include "checkpoint/config.h"

#include <random>

#include <gtest/gtest.h>

#include "checkpoint/synthetic.h"
#include "temp_dir.h"

namespace deepinfer {
namespace {

using testing::ReadText;
using testing::Replaced;

const std::string kTestData = DEEPINFER_TEST_DATA;

std::string Hub() { return SerializeConfig(ReleasedConfig()); }
std::string Flat() { return SerializeFlatConfig(ReleasedConfig()); }

void ExpectRefused(const std::string& json, std::string_view where) {
  const auto config = ParseConfig(json);
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(config.status().where(), where) << config.status().ToString();
}

TEST(Config, ReleasedConfigIsValid) {
  EXPECT_TRUE(Validate(ReleasedConfig()).ok()) << Validate(ReleasedConfig()).ToString();
}

TEST(Config, HubAndFlatFormReadBackEqual) {
  for (const ModelConfig& config : {ReleasedConfig(), SyntheticConfig()}) {
    const auto hub = ParseConfig(SerializeConfig(config));
    ASSERT_TRUE(hub.ok()) << hub.status().ToString();
    EXPECT_EQ(*hub, config);
  }
  const auto flat = ParseConfig(Flat());
  ASSERT_TRUE(flat.ok()) << flat.status().ToString();
  EXPECT_EQ(*flat, ReleasedConfig());  // the names that the flat form lacks take the released values
}

TEST(Config, FlatFormOfASmallModelHasNoImageToken) {
  ModelConfig config = SyntheticConfig();
  config.vision.reset();
  const auto flat = ParseConfig(SerializeFlatConfig(config));
  ASSERT_TRUE(flat.ok()) << flat.status().ToString();
  EXPECT_EQ(flat->image_token_id, -1);
  EXPECT_EQ(flat->max_position_embeddings, 1048576);
}

TEST(Config, GoldenCheckpointsAreRead) {
  for (const char* name : {"/goldens/tiny", "/goldens/tiny_trained", "/demo-model"}) {
    const auto config = ParseConfig(ReadText(kTestData + name + "/config.json"));
    ASSERT_TRUE(config.ok()) << name << config.status().ToString();
    EXPECT_EQ(ParseConfig(SerializeConfig(*config)).value(), *config);
  }
}

TEST(Config, GoldenTinyHasTheValuesOfTheSpecification) {
  const ModelConfig c = ParseConfig(ReadText(kTestData + "/goldens/tiny/config.json")).value();
  EXPECT_EQ(c.hidden_size, 256);
  EXPECT_EQ(c.num_hidden_layers, 10);
  EXPECT_EQ(c.compress_ratios, (std::vector<int>{0, 2, 2, 2, 2, 1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(c.rope_factor, 4);
  EXPECT_EQ(c.original_max_position_embeddings, 64);
  EXPECT_EQ(c.image_token_id, 494);
  EXPECT_FALSE(c.vision.has_value());
  EXPECT_EQ(c.rms_norm_eps, 1e-20);
  EXPECT_EQ(c.engram_num_embeddings, (std::vector<int64_t>{660, 864}));
}

TEST(Config, BothSpellingsWithEqualValuesAreAccepted) {
  const std::string both = Replaced(Hub(), "\"text_config\": {",
                                    R"("dim": 5120, "route_scale": 1.5, "norm_eps": 1e-20, "window_size": 128,
      "vision_dim": 1024, "rope_factor": 16.0, "kv_source_layers": [2, 8, 14, 20], "text_config": {)");
  const auto config = ParseConfig(both);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(*config, ReleasedConfig());
}

// One pair of differing spellings after another.
TEST(Config, DifferentValuesUnderTwoSpellingsAreRefused) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"\"dim\": 4096", "hidden_size"},
      {"\"hidden_size\": 4096", "hidden_size"},
      {"\"moe_inter_dim\": 1", "moe_intermediate_size"},
      {"\"n_layers\": 43", "num_hidden_layers"},
      {"\"n_heads\": 32", "num_attention_heads"},
      {"\"rope_head_dim\": 32", "qk_rope_head_dim"},
      {"\"norm_eps\": 1e-6", "rms_norm_eps"},
      {"\"n_activated_experts\": 8", "num_experts_per_tok"},
      {"\"route_scale\": 2.5", "routed_scaling_factor"},
      {"\"window_size\": 64", "sliding_window"},
      {"\"kv_source_layers\": [2, 8, 14]", "kv_source_layer_ids"},
      {"\"index_source_layers\": [2]", "index_source_layer_ids"},
      {"\"candidate_source_layer\": 14", "candidate_source_layer_id"},
      {"\"engram_pad_id\": 1", "engram_pad_token_id"},
      {"\"n_mtp_layers\": 1", "num_nextn_predict_layers"},
      {"\"dspark_n_activated_experts\": 4", "dspark_num_experts_per_tok"},
      {"\"rope_factor\": 4", "factor"},
      {"\"original_seq_len\": 4096", "original_max_position_embeddings"},
      {"\"beta_fast\": 16", "beta_fast"},
      {"\"beta_slow\": 2", "beta_slow"},
      {"\"score_func\": \"softmax\"", "scoring_func"},
      {"\"expert_dtype\": \"fp8\"", "expert_dtype"},
      {"\"vision_n_layers\": 24", "num_hidden_layers"},
      {"\"vision_dim\": 768", "hidden_size"},
      {"\"vision_n_heads\": 8", "num_attention_heads"},
      {"\"vision_inter_dim\": 1", "intermediate_size"},
      {"\"vision_patch_size\": 16", "patch_size"},
      {"\"vision_rope_theta\": 1", "rope_theta"},
      {"\"vision_downsample_ratio\": 2", "downsample_ratio"},
      {"\"vision_max_n_token\": 1", "max_image_tokens"},
      {"\"vision_min_pixels\": 1", "min_pixels"},
      {"\"compress_ratios\": [0]", "compress_ratios"},
  };
  for (const auto& [text, where] : cases) {
    ExpectRefused(Replaced(Hub(), "\"text_config\": {", std::string(text) + ", \"text_config\": {"), where);
  }
}

TEST(Config, MaxNumTokensIsAnAlias) {
  const std::string renamed = Replaced(Hub(), "\"max_image_tokens\"", "\"max_num_tokens\"");
  EXPECT_EQ(ParseConfig(renamed).value(), ReleasedConfig());
  ExpectRefused(Replaced(Hub(), "\"max_image_tokens\"", "\"max_num_tokens\": 7, \"max_image_tokens\""),
                "max_image_tokens");
}

TEST(Config, TieWordEmbeddingsMayStandInEitherPlace) {
  EXPECT_TRUE(ParseConfig(Replaced(Hub(), "\"tie_word_embeddings\": false,", "")).ok());
  ExpectRefused(Replaced(Hub(), "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true"),
                "tie_word_embeddings");
}

TEST(Config, AbsentGateTempAndNormTopkProbHaveDefaults) {
  std::string text = Replaced(Hub(), "\"gate_temp\": 1.0,", "");
  text = Replaced(text, "\"norm_topk_prob\": true,", "");
  EXPECT_EQ(ParseConfig(text).value(), ReleasedConfig());
}

TEST(Config, RatioListWithoutDraftEntriesIsCompleted) {
  ModelConfig config = ReleasedConfig();
  config.compress_ratios.resize(40);
  EXPECT_TRUE(Validate(config).ok());
  EXPECT_EQ(ParseConfig(SerializeConfig(config)).value(), ReleasedConfig());
}

TEST(Config, NegativeCandidateSourceMeansOff) {
  const auto config =
      ParseConfig(Replaced(Hub(), "\"candidate_source_layer_id\": 20", "\"candidate_source_layer_id\": -7"));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->candidate_source_layer_id, -1);
}

TEST(Config, EngramDraftAndVisionAreOptional) {
  ModelConfig config = SyntheticConfig();
  config.engram_layer_ids.clear();
  config.engram_num_embeddings.clear();
  config.num_nextn_predict_layers = 0;
  config.compress_ratios.resize(8);
  config.vision.reset();
  const auto parsed = ParseConfig(SerializeConfig(config));
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(*parsed, config);
  EXPECT_FALSE(parsed->has_engram());
  EXPECT_FALSE(parsed->has_draft());
  EXPECT_TRUE(ParseConfig(Replaced(SerializeConfig(SyntheticConfig()), "\"num_hidden_layers\": 2,",
                                   "\"num_hidden_layers\": 0,"))
                  .ok());
}

TEST(Config, EveryRequiredKeyIsMissed) {
  for (const char* key : {"vocab_size",
                          "hidden_size",
                          "moe_intermediate_size",
                          "num_hidden_layers",
                          "num_attention_heads",
                          "head_dim",
                          "qk_rope_head_dim",
                          "q_lora_rank",
                          "o_lora_rank",
                          "o_groups",
                          "swiglu_limit",
                          "rms_norm_eps",
                          "rope_theta",
                          "compress_rope_theta",
                          "n_routed_experts",
                          "num_experts_per_tok",
                          "routed_scaling_factor",
                          "sliding_window",
                          "compress_ratios",
                          "kv_source_layer_ids",
                          "index_source_layer_ids",
                          "index_n_heads",
                          "index_head_dim",
                          "index_topk",
                          "candidate_topk_blocks",
                          "candidate_block_size",
                          "hc_mult",
                          "hc_sinkhorn_iters",
                          "hc_eps",
                          "engram_num_embeddings",
                          "engram_max_ngram_size",
                          "engram_vocab_size",
                          "engram_n_heads",
                          "engram_head_dim",
                          "engram_compressed_vocab_size",
                          "dspark_block_size",
                          "dspark_noise_token_id",
                          "dspark_target_layer_ids",
                          "dspark_markov_rank",
                          "dspark_n_routed_experts",
                          "dspark_num_experts_per_tok"}) {
    ExpectRefused(Replaced(Hub(), "\"" + std::string(key) + "\"", "\"unknown_key\""), key);
  }
  ExpectRefused(Replaced(Hub(), "\"factor\"", "\"unknown_key\""), "factor");
}

TEST(Config, WrongTypesAreRefused) {
  ExpectRefused(Replaced(Hub(), "\"vocab_size\": 129280", "\"vocab_size\": 129280.0"), "vocab_size");
  ExpectRefused(Replaced(Hub(), "\"vocab_size\": 129280", "\"vocab_size\": \"129280\""), "vocab_size");
  ExpectRefused(Replaced(Hub(), "\"vocab_size\": 129280", "\"vocab_size\": 18446744073709551615"),
                "vocab_size");
  ExpectRefused(Replaced(Hub(), "\"num_hidden_layers\": 40", "\"num_hidden_layers\": 4294967336"),
                "num_hidden_layers");
  ExpectRefused(Replaced(Hub(), "\"swiglu_limit\": 10.0", "\"swiglu_limit\": true"), "swiglu_limit");
  ExpectRefused(Replaced(Hub(), "\"norm_topk_prob\": true", "\"norm_topk_prob\": 1"), "norm_topk_prob");
  ExpectRefused(Replaced(Hub(), "\"quant_method\": \"fp8\"", "\"quant_method\": 8"), "quant_method");
  ExpectRefused(Replaced(Hub(), "\"text_config\": {", "\"text_config\": 1, \"x\": {"), "text_config");
  ExpectRefused(Replaced(Hub(), "\"compress_ratios\": [", "\"compress_ratios\": 1, \"x\": ["),
                "compress_ratios");
  ExpectRefused(Replaced(Hub(), "\"compress_ratios\": [", "\"compress_ratios\": [null, "), "compress_ratios");
}

TEST(Config, FixedKeysMustHaveTheirValue) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"\"model_type\": \"deepseek_v41\"", "\"model_type\": \"deepseek_v4\""},
      {"\"num_key_value_heads\": 1", "\"num_key_value_heads\": 8"},
      {"\"scoring_func\": \"sqrtsoftplus\"", "\"scoring_func\": \"sigmoid\""},
      {"\"topk_method\": \"noaux_tc\"", "\"topk_method\": \"greedy\""},
      {"\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\""},
      {"\"attention_bias\": false", "\"attention_bias\": true"},
      {"\"rope_type\": \"yarn\"", "\"rope_type\": \"linear\""},
  };
  for (const auto& [from, to] : cases) EXPECT_FALSE(ParseConfig(Replaced(Hub(), from, to)).ok()) << to;
}

TEST(Config, HostileTextIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{"), std::string("null"), std::string("{}"),
        std::string(100'000, '['), std::string("{\"a\":1,\"a\":2}"), std::string("\xFF")}) {
    EXPECT_FALSE(ParseConfig(text).ok());
  }
  EXPECT_FALSE(ParseConfig("{\"x\":\"" + std::string(2 << 20, 'a') + "\"}").ok());
  EXPECT_FALSE(ParseConfig(Replaced(Hub(), "\"vocab_size\"", "\"vocab_size\": 129280, \"vocab_size\"")).ok());
  std::string longest = "\"engram_layer_ids\": [";
  for (int i = 0; i < 5000; ++i) longest += std::to_string(i) + ",";
  longest.back() = ']';
  EXPECT_FALSE(ParseConfig(Replaced(Hub(), "\"engram_layer_ids\": [", longest + ", \"x\": [")).ok());
}

// Random small models read back equal in both forms; random damage never crashes.
TEST(Config, RandomConfigurationsReadBackEqual) {
  std::mt19937_64 random(11);
  const auto pick = [&random](int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int i = 0; i < 200; ++i) {
    ModelConfig c = SyntheticConfig();
    c.hidden_size = 32 * pick(1, 40);
    c.moe_intermediate_size = 32 * pick(1, 20);
    c.head_dim = 32 * pick(1, 8);
    c.o_groups = 1 << pick(0, 2);
    c.o_lora_rank = 32 * pick(1, 5);
    c.qk_rope_head_dim = 2 * pick(1, 16);
    c.q_lora_rank = 32 * pick(1, 9);
    c.n_routed_experts = pick(2, 30);
    c.num_experts_per_tok = pick(1, 2);
    c.hc_mult = pick(1, 6);
    c.rms_norm_eps = 1e-20 * pick(1, 1000);
    c.rope_factor = 1 + 0.1 * pick(0, 300);
    c.sliding_window = pick(1, 300);
    const int first = pick(0, 3);  // layers below have a window only, then ratio 2, then ratio 1
    const int second = pick(first, 7);
    c.kv_source_layer_ids.clear();
    for (int l = 0; l < 8; ++l) {
      const int ratio = l < first ? 0 : l < second ? 2 : 1;
      c.compress_ratios[static_cast<size_t>(l)] = ratio;
      const bool source = ratio > 0 && (l == first || l == second || pick(0, 3) == 0);
      if (source) c.kv_source_layer_ids.push_back(l);
    }
    c.index_source_layer_ids = c.kv_source_layer_ids;
    c.candidate_source_layer_id = c.kv_source_layer_ids.back();
    ASSERT_TRUE(Validate(c).ok()) << Validate(c).ToString();
    EXPECT_EQ(ParseConfig(SerializeConfig(c)).value(), c);
    EXPECT_TRUE(ParseConfig(SerializeFlatConfig(c)).status().where() ==
                "image_token_id");  // vision without an image token
    std::string damaged = SerializeConfig(c);
    for (int k = 0; k < 3; ++k) damaged[random() % damaged.size()] = static_cast<char>(random());
    static_cast<void>(ParseConfig(damaged).ok());
  }
}

}  // namespace
}  // namespace deepinfer
