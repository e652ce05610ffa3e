// The model configuration (`config.json`) and its validity rules (spec: model.md §1, checkpoint.md §3).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace deepinfer {

/// Vision tower and aligner (spec: vision.md §1). Field names are those of `vision_config`.
struct VisionConfig {
  int num_hidden_layers = 0;
  int64_t hidden_size = 0;
  int num_attention_heads = 0;
  int64_t intermediate_size = 0;  // width after the gate: w1 has twice as many rows
  int patch_size = 0;             // pixels a side
  double rope_theta = 10000;
  int downsample_ratio = 0;      // patches a side that become one image token
  int64_t max_image_tokens = 0;  // per image, line breaks and both ends included
  int64_t min_pixels = 0;        // smaller images are enlarged to this area
  std::optional<double> max_wh_ratio;

  bool operator==(const VisionConfig&) const = default;
};

/// Everything the engine reads of a model's configuration. Field names are the hub names; dimensions are int64_t, counts, ids and
/// lengths of lists int. A value made by ParseConfig has passed Validate.
struct ModelConfig {
  // Ids.
  int bos_token_id = 0;
  int eos_token_id = 1;
  int pad_token_id = 2;
  int image_token_id = -1;  // -1: the model has no image token

  // Sizes.
  int64_t vocab_size = 0;               // V, rows of the embedding and the head
  int64_t hidden_size = 0;              // D
  int64_t moe_intermediate_size = 0;    // inner width of every expert, routed and shared
  int num_hidden_layers = 0;            // L, backbone layers
  int64_t max_position_embeddings = 0;  // context limit in tokens

  // Attention.
  int num_attention_heads = 0;   // H
  int64_t head_dim = 0;          // d, keys and values are the same d-vector
  int64_t qk_rope_head_dim = 0;  // rotated tail of d and of index_head_dim
  int64_t q_lora_rank = 0;
  int64_t o_lora_rank = 0;  // per group
  int o_groups = 0;
  int64_t sliding_window = 0;  // W, keys a query sees of its own layer, itself included

  // Rotary embedding; YaRN applies to layers with ratio > 0 only, with base compress_rope_theta.
  double rope_theta = 10000;
  double compress_rope_theta = 160000;
  double rope_factor = 1;
  int64_t original_max_position_embeddings = 0;
  double beta_fast = 32;
  double beta_slow = 1;

  // Compressed KV, indexer and candidate pool.
  std::vector<int>
      compress_ratios;  // num_hidden_layers + num_nextn_predict_layers entries (ParseConfig adds missing draft zeros)
  std::vector<int> kv_source_layer_ids;
  std::vector<int> index_source_layer_ids;
  int index_n_heads = 0;
  int64_t index_head_dim = 0;
  int64_t index_topk = 0;              // compressed entries attended per query
  int candidate_source_layer_id = -1;  // -1: no candidate pool
  int64_t candidate_topk_blocks = 0;
  int64_t candidate_block_size = 0;

  // Mixture of experts.
  int n_routed_experts = 0;
  int n_shared_experts = 1;
  int num_experts_per_tok = 0;
  double routed_scaling_factor = 1;
  bool norm_topk_prob = true;
  double gate_temp = 1;     // scores are divided by it
  double swiglu_limit = 0;  // clamp of both SwiGLU inputs
  double rms_norm_eps = 0;

  // Hyper-connections.
  int hc_mult = 0;  // residual streams
  int hc_sinkhorn_iters = 0;
  double hc_eps = 0;

  // Engram; engram_layer_ids empty = none.
  std::vector<int> engram_layer_ids;
  std::vector<int64_t> engram_num_embeddings;  // table rows per Engram layer
  int engram_max_ngram_size = 0;               // orders 2 … this
  int64_t engram_vocab_size = 0;               // the search for bucket primes starts here
  int engram_n_heads = 0;                      // hash heads per order
  int64_t engram_head_dim = 0;                 // row width
  int engram_pad_token_id = 2;                 // raw id
  int64_t engram_compressed_vocab_size = 0;    // classes of the token map

  // DSpark draft; num_nextn_predict_layers 0 = none.
  int num_nextn_predict_layers = 0;  // stages
  int dspark_block_size = 0;         // draft tokens per round
  int dspark_noise_token_id = 0;
  std::vector<int> dspark_target_layer_ids;  // tapped backbone layers
  int64_t dspark_markov_rank = 0;
  int dspark_n_routed_experts = 0;
  int dspark_num_experts_per_tok = 0;

  // Storage (`quantization_config`): 8-bit weights with one power-of-two scale per block, FP4 routed experts.
  std::string quant_method = "fp8";
  std::string activation_scheme = "dynamic";
  std::string scale_fmt = "ue8m0";
  std::string expert_dtype = "fp4";
  std::vector<int> weight_block_size = {32, 32};

  std::optional<VisionConfig> vision;

  bool operator==(const ModelConfig&) const = default;

  bool has_engram() const { return !engram_layer_ids.empty(); }
  bool has_draft() const { return num_nextn_predict_layers > 0; }
  /// Ratio of a backbone or draft layer (0 … L + stages - 1); a list without draft entries counts as zeros there.
  int compress_ratio(int layer) const {
    return layer < static_cast<int>(compress_ratios.size()) ? compress_ratios[static_cast<size_t>(layer)] : 0;
  }
  /// Position of `layer` in engram_layer_ids, or -1.
  int engram_index(int layer) const;
  bool is_kv_source(int layer) const;
  bool is_index_source(int layer) const;
  /// Looked-up rows per token and Engram layer: (engram_max_ngram_size - 1) * engram_n_heads.
  int engram_columns() const { return (engram_max_ngram_size - 1) * engram_n_heads; }
};

/// Reads a `config.json`: the nested hub form, the flat form of the reference scripts, or a mixture. Names absent from the flat form
/// take the released default. The result has passed Validate. Errors (kDataLoss, `where` = the key): no JSON, a missing or
/// mistyped key, two spellings of one key with different values, a broken rule. Keys it does not know are ignored.
Result<ModelConfig> ParseConfig(std::string_view text);

/// The nested hub form of a configuration; ParseConfig reads it back to an equal value.
std::string SerializeConfig(const ModelConfig& config);

/// The flat form (`inference/config.json`). It has no names for the token ids, max_position_embeddings and hidden_act.
std::string SerializeFlatConfig(const ModelConfig& config);

/// Checks every bound before any arithmetic, then the rules of model.md §1.3 and §15 (divisibility) and checkpoint.md §3, the
/// Engram primes included. Errors: kDataLoss with the key as `where`.
Status Validate(const ModelConfig& config);

/// The configuration of DeepSeek-V4.1-Flash as released (September and 1017).
ModelConfig ReleasedConfig();

/// Most routed experts of one token; kernels keep that many on the stack.
inline constexpr int kMaxExpertsPerToken = 64;

/// Largest number of tensors a configuration may ask for.
inline constexpr int64_t kMaxTensors = 1'000'000;

}  // namespace deepinfer
