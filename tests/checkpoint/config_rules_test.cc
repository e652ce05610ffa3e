// Every rule of model.md §1.3, §15 and checkpoint.md §3: one violation each, and the key that is blamed.
#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "checkpoint/config.h"
#include "checkpoint/synthetic.h"

namespace deepinfer {
namespace {

struct Violation {
  const char* what;
  const char* where;
  std::function<void(ModelConfig&)> apply;
};

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInf = std::numeric_limits<double>::infinity();

void ExpectAllRefused(const std::vector<Violation>& violations) {
  for (const Violation& v : violations) {
    ModelConfig config = SyntheticConfig();
    ASSERT_TRUE(Validate(config).ok());
    v.apply(config);
    const Status status = Validate(config);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << v.what;
    EXPECT_EQ(status.where(), v.where) << v.what << ": " << status.ToString();
    EXPECT_FALSE(ParseConfig(SerializeConfig(config)).ok()) << v.what;
  }
}

TEST(ConfigRules, Ratios) {
  ExpectAllRefused({
      {"too short", "compress_ratios", [](ModelConfig& c) { c.compress_ratios.resize(7); }},
      {"between the two lengths", "compress_ratios", [](ModelConfig& c) { c.compress_ratios.resize(9); }},
      {"too long", "compress_ratios", [](ModelConfig& c) { c.compress_ratios.resize(12); }},
      {"ratio 3", "compress_ratios", [](ModelConfig& c) { c.compress_ratios[2] = 3; }},
      {"negative ratio", "compress_ratios", [](ModelConfig& c) { c.compress_ratios[2] = -1; }},
      {"draft entry not 0", "compress_ratios", [](ModelConfig& c) { c.compress_ratios[8] = 1; }},
      {"ratio differs from the KV source", "compress_ratios",
       [](ModelConfig& c) { c.compress_ratios[3] = 1; }},
  });
}

TEST(ConfigRules, Sources) {
  ExpectAllRefused({
      {"KV sources not increasing", "kv_source_layer_ids",
       [](ModelConfig& c) { c.kv_source_layer_ids = {4, 2}; }},
      {"KV source twice", "kv_source_layer_ids", [](ModelConfig& c) { c.kv_source_layer_ids = {2, 2, 4}; }},
      {"KV source out of range", "kv_source_layer_ids",
       [](ModelConfig& c) { c.kv_source_layer_ids = {2, 4, 8}; }},
      {"KV source negative", "kv_source_layer_ids",
       [](ModelConfig& c) { c.kv_source_layer_ids = {-1, 2, 4}; }},
      {"KV source with ratio 0", "kv_source_layer_ids",
       [](ModelConfig& c) { c.kv_source_layer_ids = {1, 2, 4}; }},
      {"KV source without indexer", "index_source_layer_ids",
       [](ModelConfig& c) { c.index_source_layer_ids = {2, 6}; }},
      {"index sources not increasing", "index_source_layer_ids",
       [](ModelConfig& c) { c.index_source_layer_ids = {2, 6, 4}; }},
      {"index source out of range", "index_source_layer_ids",
       [](ModelConfig& c) { c.index_source_layer_ids = {2, 4, 9}; }},
      {"index source with ratio 0", "index_source_layer_ids",
       [](ModelConfig& c) { c.index_source_layer_ids = {0, 2, 4}; }},
      {"no KV source below a layer", "kv_source_layer_ids",
       [](ModelConfig& c) {
         c.kv_source_layer_ids = {4};
         c.index_source_layer_ids = {4};
       }},
      {"no sources at all", "kv_source_layer_ids",
       [](ModelConfig& c) {
         c.kv_source_layer_ids.clear();
         c.index_source_layer_ids.clear();
         c.candidate_source_layer_id = -1;
       }},
  });
}

TEST(ConfigRules, WindowOnlyModelNeedsNoSources) {
  ModelConfig c = SyntheticConfig();
  c.compress_ratios.assign(11, 0);
  c.kv_source_layer_ids.clear();
  c.index_source_layer_ids.clear();
  EXPECT_EQ(Validate(c).where(), "candidate_source_layer_id");
  c.candidate_source_layer_id = -1;
  EXPECT_TRUE(Validate(c).ok()) << Validate(c).ToString();
}

TEST(ConfigRules, IndexerAndCandidates) {
  ExpectAllRefused({
      {"candidate source is no KV source", "candidate_source_layer_id",
       [](ModelConfig& c) { c.candidate_source_layer_id = 6; }},
      {"candidate source out of range", "candidate_source_layer_id",
       [](ModelConfig& c) { c.candidate_source_layer_id = 99; }},
      {"pool below index_topk", "candidate_topk_blocks", [](ModelConfig& c) { c.candidate_topk_blocks = 2; }},
      {"no blocks", "candidate_topk_blocks", [](ModelConfig& c) { c.candidate_topk_blocks = 0; }},
      {"empty blocks", "candidate_block_size", [](ModelConfig& c) { c.candidate_block_size = 0; }},
      {"index_topk 0", "index_topk", [](ModelConfig& c) { c.index_topk = 0; }},
      {"index_topk huge", "index_topk", [](ModelConfig& c) { c.index_topk = int64_t{1} << 40; }},
      {"no index heads", "index_n_heads", [](ModelConfig& c) { c.index_n_heads = 0; }},
      {"index_head_dim no multiple of 32", "index_head_dim", [](ModelConfig& c) { c.index_head_dim = 48; }},
      {"rope wider than the index head", "qk_rope_head_dim", [](ModelConfig& c) { c.qk_rope_head_dim = 34; }},
  });
  ModelConfig edge = SyntheticConfig();  // (3 - 1) * 4 + 1 = 9 >= 8
  edge.candidate_topk_blocks = 3;
  EXPECT_TRUE(Validate(edge).ok());
}

TEST(ConfigRules, Attention) {
  ExpectAllRefused({
      {"heads not divisible by groups", "num_attention_heads", [](ModelConfig& c) { c.o_groups = 3; }},
      {"no heads", "num_attention_heads", [](ModelConfig& c) { c.num_attention_heads = 0; }},
      {"more groups than heads", "o_groups", [](ModelConfig& c) { c.o_groups = 8; }},
      {"no groups", "o_groups", [](ModelConfig& c) { c.o_groups = 0; }},
      {"odd rope dimension", "qk_rope_head_dim", [](ModelConfig& c) { c.qk_rope_head_dim = 15; }},
      {"rope dimension 0", "qk_rope_head_dim", [](ModelConfig& c) { c.qk_rope_head_dim = 0; }},
      {"rope wider than the head", "qk_rope_head_dim", [](ModelConfig& c) { c.qk_rope_head_dim = 66; }},
      {"head_dim no multiple of 32", "head_dim", [](ModelConfig& c) { c.head_dim = 72; }},
      {"head_dim 0", "head_dim", [](ModelConfig& c) { c.head_dim = 0; }},
      {"q_lora_rank no multiple of 32", "q_lora_rank", [](ModelConfig& c) { c.q_lora_rank = 72; }},
      {"o_groups * o_lora_rank no multiple of 32", "o_lora_rank", [](ModelConfig& c) { c.o_lora_rank = 40; }},
      {"o_lora_rank 0", "o_lora_rank", [](ModelConfig& c) { c.o_lora_rank = 0; }},
      {"no window", "sliding_window", [](ModelConfig& c) { c.sliding_window = 0; }},
      {"rope_theta 0", "rope_theta", [](ModelConfig& c) { c.rope_theta = 0; }},
      {"compress_rope_theta below 1", "compress_rope_theta",
       [](ModelConfig& c) { c.compress_rope_theta = 0.5; }},
      {"rope factor below 1", "rope_scaling.factor", [](ModelConfig& c) { c.rope_factor = 0.5; }},
      {"no original positions", "rope_scaling.original_max_position_embeddings",
       [](ModelConfig& c) { c.original_max_position_embeddings = 0; }},
      {"beta_slow 0", "rope_scaling.beta_slow", [](ModelConfig& c) { c.beta_slow = 0; }},
      {"beta_fast below beta_slow", "rope_scaling.beta_fast", [](ModelConfig& c) { c.beta_fast = 0.5; }},
  });
}

TEST(ConfigRules, SizesAndIds) {
  ExpectAllRefused({
      {"vocab_size 0", "vocab_size", [](ModelConfig& c) { c.vocab_size = 0; }},
      {"vocab_size huge", "vocab_size", [](ModelConfig& c) { c.vocab_size = int64_t{1} << 40; }},
      {"hidden_size no multiple of 32", "hidden_size", [](ModelConfig& c) { c.hidden_size = 130; }},
      {"hidden_size negative", "hidden_size", [](ModelConfig& c) { c.hidden_size = -128; }},
      {"hidden_size huge", "hidden_size", [](ModelConfig& c) { c.hidden_size = int64_t{1} << 62; }},
      {"moe_intermediate_size no multiple of 32", "moe_intermediate_size",
       [](ModelConfig& c) { c.moe_intermediate_size = 72; }},
      {"no layers", "num_hidden_layers", [](ModelConfig& c) { c.num_hidden_layers = 0; }},
      {"many layers", "num_hidden_layers", [](ModelConfig& c) { c.num_hidden_layers = 1 << 30; }},
      {"no positions", "max_position_embeddings", [](ModelConfig& c) { c.max_position_embeddings = 0; }},
      {"bos outside", "bos_token_id", [](ModelConfig& c) { c.bos_token_id = 512; }},
      {"eos outside", "eos_token_id", [](ModelConfig& c) { c.eos_token_id = -1; }},
      {"pad outside", "pad_token_id", [](ModelConfig& c) { c.pad_token_id = 512; }},
      {"image token outside", "image_token_id", [](ModelConfig& c) { c.image_token_id = 512; }},
      {"eps 0", "rms_norm_eps", [](ModelConfig& c) { c.rms_norm_eps = 0; }},
      {"eps negative", "rms_norm_eps", [](ModelConfig& c) { c.rms_norm_eps = -1e-6; }},
      {"clamp 0", "swiglu_limit", [](ModelConfig& c) { c.swiglu_limit = 0; }},
  });
}

TEST(ConfigRules, Experts) {
  ExpectAllRefused({
      {"two shared experts", "n_shared_experts", [](ModelConfig& c) { c.n_shared_experts = 2; }},
      {"no shared expert", "n_shared_experts", [](ModelConfig& c) { c.n_shared_experts = 0; }},
      {"no experts", "n_routed_experts", [](ModelConfig& c) { c.n_routed_experts = 0; }},
      {"more chosen than there are", "num_experts_per_tok",
       [](ModelConfig& c) { c.num_experts_per_tok = 9; }},
      {"none chosen", "num_experts_per_tok", [](ModelConfig& c) { c.num_experts_per_tok = 0; }},
      {"scaling 0", "routed_scaling_factor", [](ModelConfig& c) { c.routed_scaling_factor = 0; }},
      {"temperature 0", "gate_temp", [](ModelConfig& c) { c.gate_temp = 0; }},
      {"no streams", "hc_mult", [](ModelConfig& c) { c.hc_mult = 0; }},
      {"many streams", "hc_mult", [](ModelConfig& c) { c.hc_mult = 1000; }},
      {"no Sinkhorn steps", "hc_sinkhorn_iters", [](ModelConfig& c) { c.hc_sinkhorn_iters = 0; }},
      {"hc_eps 0", "hc_eps", [](ModelConfig& c) { c.hc_eps = 0; }},
      {"a million tensors", "n_routed_experts",
       [](ModelConfig& c) {
         c.num_hidden_layers = 500;
         c.n_routed_experts = 4096;
         c.compress_ratios.assign(503, 0);
         std::fill(c.compress_ratios.begin() + 2, c.compress_ratios.begin() + 4, 2);
         std::fill(c.compress_ratios.begin() + 4, c.compress_ratios.begin() + 500, 1);
       }},
  });
}

TEST(ConfigRules, Engram) {
  ExpectAllRefused({
      {"prime sum differs from the rows", "engram_num_embeddings",
       [](ModelConfig& c) { c.engram_num_embeddings = {630, 835}; }},
      {"swapped tables", "engram_num_embeddings",
       [](ModelConfig& c) { c.engram_num_embeddings = {834, 630}; }},
      {"one table short", "engram_num_embeddings", [](ModelConfig& c) { c.engram_num_embeddings = {630}; }},
      {"layers not increasing", "engram_layer_ids", [](ModelConfig& c) { c.engram_layer_ids = {2, 1}; }},
      {"layer out of range", "engram_layer_ids", [](ModelConfig& c) { c.engram_layer_ids = {1, 8}; }},
      {"n-grams of 1", "engram_max_ngram_size", [](ModelConfig& c) { c.engram_max_ngram_size = 1; }},
      {"long n-grams", "engram_max_ngram_size", [](ModelConfig& c) { c.engram_max_ngram_size = 1 << 30; }},
      {"no hash heads", "engram_n_heads", [](ModelConfig& c) { c.engram_n_heads = 0; }},
      {"many hash heads", "engram_n_heads", [](ModelConfig& c) { c.engram_n_heads = 1 << 30; }},
      {"row width no multiple of 32", "engram_head_dim", [](ModelConfig& c) { c.engram_head_dim = 40; }},
      {"search start 0", "engram_vocab_size", [](ModelConfig& c) { c.engram_vocab_size = 0; }},
      {"pad outside", "engram_pad_token_id", [](ModelConfig& c) { c.engram_pad_token_id = 512; }},
      {"more classes than tokens", "engram_compressed_vocab_size",
       [](ModelConfig& c) { c.engram_compressed_vocab_size = 513; }},
      {"no classes", "engram_compressed_vocab_size",
       [](ModelConfig& c) { c.engram_compressed_vocab_size = 0; }},
  });
}

TEST(ConfigRules, Draft) {
  ExpectAllRefused({
      {"negative stages", "num_nextn_predict_layers",
       [](ModelConfig& c) { c.num_nextn_predict_layers = -1; }},
      {"many stages", "num_nextn_predict_layers", [](ModelConfig& c) { c.num_nextn_predict_layers = 17; }},
      {"block 0", "dspark_block_size", [](ModelConfig& c) { c.dspark_block_size = 0; }},
      {"noise outside", "dspark_noise_token_id", [](ModelConfig& c) { c.dspark_noise_token_id = 512; }},
      {"no taps", "dspark_target_layer_ids", [](ModelConfig& c) { c.dspark_target_layer_ids.clear(); }},
      {"tap out of range", "dspark_target_layer_ids",
       [](ModelConfig& c) { c.dspark_target_layer_ids = {5, 6, 8}; }},
      {"tap twice", "dspark_target_layer_ids", [](ModelConfig& c) { c.dspark_target_layer_ids = {5, 5, 7}; }},
      {"rank 0", "dspark_markov_rank", [](ModelConfig& c) { c.dspark_markov_rank = 0; }},
      {"no experts", "dspark_n_routed_experts", [](ModelConfig& c) { c.dspark_n_routed_experts = 0; }},
      {"more chosen than there are", "dspark_num_experts_per_tok",
       [](ModelConfig& c) { c.dspark_num_experts_per_tok = 5; }},
  });
}

TEST(ConfigRules, Quantisation) {
  ExpectAllRefused({
      {"other method", "quant_method", [](ModelConfig& c) { c.quant_method = "awq"; }},
      {"static activations", "activation_scheme", [](ModelConfig& c) { c.activation_scheme = "static"; }},
      {"fp32 scales", "scale_fmt", [](ModelConfig& c) { c.scale_fmt = "float"; }},
      {"fp8 experts", "expert_dtype", [](ModelConfig& c) { c.expert_dtype = "fp8"; }},
      {"blocks of 128", "weight_block_size", [](ModelConfig& c) { c.weight_block_size = {128, 128}; }},
      {"one dimension", "weight_block_size", [](ModelConfig& c) { c.weight_block_size = {32}; }},
  });
}

TEST(ConfigRules, Vision) {
  ExpectAllRefused({
      {"no image token", "image_token_id", [](ModelConfig& c) { c.image_token_id = -1; }},
      {"many layers", "vision_config.num_hidden_layers",
       [](ModelConfig& c) { c.vision->num_hidden_layers = 513; }},
      {"no heads", "vision_config.num_attention_heads",
       [](ModelConfig& c) { c.vision->num_attention_heads = 0; }},
      {"heads do not divide", "vision_config.hidden_size",
       [](ModelConfig& c) { c.vision->num_attention_heads = 3; }},
      {"no inner width", "vision_config.intermediate_size",
       [](ModelConfig& c) { c.vision->intermediate_size = 0; }},
      {"patch 0", "vision_config.patch_size", [](ModelConfig& c) { c.vision->patch_size = 0; }},
      {"patch huge", "vision_config.patch_size", [](ModelConfig& c) { c.vision->patch_size = 1 << 30; }},
      {"theta 0", "vision_config.rope_theta", [](ModelConfig& c) { c.vision->rope_theta = 0; }},
      {"ratio 0", "vision_config.downsample_ratio", [](ModelConfig& c) { c.vision->downsample_ratio = 0; }},
      {"few tokens", "vision_config.max_image_tokens",
       [](ModelConfig& c) { c.vision->max_image_tokens = 3; }},
      {"no pixels", "vision_config.min_pixels", [](ModelConfig& c) { c.vision->min_pixels = 0; }},
      {"negative ratio of sides", "vision_config.max_wh_ratio",
       [](ModelConfig& c) { c.vision->max_wh_ratio = -1.0; }},
  });
}

TEST(ConfigRules, NumbersThatAreNone) {
  for (const double bad : {kNan, kInf, -kInf}) {
    for (double ModelConfig::* field :
         {&ModelConfig::rope_theta, &ModelConfig::compress_rope_theta, &ModelConfig::rope_factor,
          &ModelConfig::beta_fast, &ModelConfig::beta_slow, &ModelConfig::routed_scaling_factor,
          &ModelConfig::gate_temp, &ModelConfig::swiglu_limit, &ModelConfig::rms_norm_eps,
          &ModelConfig::hc_eps}) {
      ModelConfig config = SyntheticConfig();
      config.*field = bad;
      EXPECT_FALSE(Validate(config).ok());
    }
  }
}

}  // namespace
}  // namespace deepinfer
