#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/engram_constants.h"

namespace deepinfer {
namespace {

// Quantisation groups are 32 wide everywhere (model.md §0.9).
constexpr int64_t kScaleBlock = 32;

Status Broken(std::string rule, std::string_view key) { return DataLoss(std::move(rule), std::string(key)); }

Status InRange(int64_t value, int64_t low, int64_t high, std::string_view key) {
  if (value >= low && value <= high) return OkStatus();
  return Broken(
      std::to_string(value) + " is not within " + std::to_string(low) + " … " + std::to_string(high), key);
}

/// Finite and within [low, high]; NaN fails.
Status NumberInRange(double value, double low, double high, std::string_view key) {
  if (value >= low && value <= high) return OkStatus();
  return Broken("the number is out of its range", key);
}

Status PositiveUpTo(double value, double high, std::string_view key) {
  if (value > 0 && value <= high) return OkStatus();
  return Broken("the number must be positive and at most " + std::to_string(high), key);
}

Status MultipleOf(int64_t value, int64_t unit, std::string_view key) {
  if (value % unit == 0) return OkStatus();
  return Broken(std::to_string(value) + " is not a multiple of " + std::to_string(unit), key);
}

Status IncreasingWithin(const std::vector<int>& list, int end, std::string_view key) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] < 0 || list[i] >= end)
      return Broken("layer " + std::to_string(list[i]) + " does not exist", key);
    if (i > 0 && list[i] <= list[i - 1]) return Broken("the list must be strictly increasing", key);
  }
  return OkStatus();
}

Status ValidateSizes(const ModelConfig& c) {
  DEEPINFER_RETURN_IF_ERROR(InRange(c.vocab_size, 1, int64_t{1} << 22, "vocab_size"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.hidden_size, kScaleBlock, 1 << 16, "hidden_size"));
  DEEPINFER_RETURN_IF_ERROR(MultipleOf(c.hidden_size, kScaleBlock, "hidden_size"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.moe_intermediate_size, kScaleBlock, 1 << 16, "moe_intermediate_size"));
  DEEPINFER_RETURN_IF_ERROR(MultipleOf(c.moe_intermediate_size, kScaleBlock, "moe_intermediate_size"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.num_hidden_layers, 1, 512, "num_hidden_layers"));
  DEEPINFER_RETURN_IF_ERROR(
      InRange(c.max_position_embeddings, 1, int64_t{1} << 27, "max_position_embeddings"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.sliding_window, 1, 1 << 16, "sliding_window"));
  DEEPINFER_RETURN_IF_ERROR(PositiveUpTo(c.rms_norm_eps, 1, "rms_norm_eps"));
  DEEPINFER_RETURN_IF_ERROR(PositiveUpTo(c.swiglu_limit, 1e6, "swiglu_limit"));
  const int last_id = static_cast<int>(c.vocab_size) - 1;
  DEEPINFER_RETURN_IF_ERROR(InRange(c.bos_token_id, 0, last_id, "bos_token_id"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.eos_token_id, 0, last_id, "eos_token_id"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.pad_token_id, 0, last_id, "pad_token_id"));
  return InRange(c.image_token_id, -1, last_id, "image_token_id");
}

Status ValidateAttention(const ModelConfig& c) {
  DEEPINFER_RETURN_IF_ERROR(InRange(c.num_attention_heads, 1, 1024, "num_attention_heads"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.head_dim, kScaleBlock, 4096, "head_dim"));
  DEEPINFER_RETURN_IF_ERROR(MultipleOf(c.head_dim, kScaleBlock, "head_dim"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.qk_rope_head_dim, 2, c.head_dim, "qk_rope_head_dim"));
  DEEPINFER_RETURN_IF_ERROR(MultipleOf(c.qk_rope_head_dim, 2, "qk_rope_head_dim"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.q_lora_rank, kScaleBlock, 1 << 16, "q_lora_rank"));
  DEEPINFER_RETURN_IF_ERROR(MultipleOf(c.q_lora_rank, kScaleBlock, "q_lora_rank"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.o_lora_rank, 1, 1 << 14, "o_lora_rank"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.o_groups, 1, c.num_attention_heads, "o_groups"));
  DEEPINFER_RETURN_IF_ERROR(MultipleOf(c.num_attention_heads, c.o_groups, "num_attention_heads"));
  // Inputs of wo_a (one group's heads) and of wo_b (all groups' latents).
  DEEPINFER_RETURN_IF_ERROR(
      MultipleOf(c.num_attention_heads / c.o_groups * c.head_dim, kScaleBlock, "o_groups"));
  DEEPINFER_RETURN_IF_ERROR(MultipleOf(c.o_lora_rank * c.o_groups, kScaleBlock, "o_lora_rank"));
  DEEPINFER_RETURN_IF_ERROR(NumberInRange(c.rope_theta, 2, 1e12, "rope_theta"));
  DEEPINFER_RETURN_IF_ERROR(NumberInRange(c.compress_rope_theta, 2, 1e12, "compress_rope_theta"));
  DEEPINFER_RETURN_IF_ERROR(NumberInRange(c.rope_factor, 1, 1e6, "rope_scaling.factor"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.original_max_position_embeddings, 1, int64_t{1} << 27,
                                    "rope_scaling.original_max_position_embeddings"));
  DEEPINFER_RETURN_IF_ERROR(PositiveUpTo(c.beta_slow, 1e6, "rope_scaling.beta_slow"));
  return NumberInRange(c.beta_fast, c.beta_slow, 1e6, "rope_scaling.beta_fast");
}

Status ValidateRatios(const ModelConfig& c) {
  const size_t layers = static_cast<size_t>(c.num_hidden_layers);
  const size_t with_draft = layers + static_cast<size_t>(c.num_nextn_predict_layers);
  if (c.compress_ratios.size() != layers && c.compress_ratios.size() != with_draft) {
    return Broken("the list needs " + std::to_string(with_draft) + " entries, or " + std::to_string(layers) +
                      " without those of the draft",
                  "compress_ratios");
  }
  for (size_t l = 0; l < c.compress_ratios.size(); ++l) {
    DEEPINFER_RETURN_IF_ERROR(InRange(c.compress_ratios[l], 0, l < layers ? 2 : 0, "compress_ratios"));
  }
  return OkStatus();
}

Status ValidateSources(const ModelConfig& c) {
  DEEPINFER_RETURN_IF_ERROR(
      IncreasingWithin(c.kv_source_layer_ids, c.num_hidden_layers, "kv_source_layer_ids"));
  DEEPINFER_RETURN_IF_ERROR(
      IncreasingWithin(c.index_source_layer_ids, c.num_hidden_layers, "index_source_layer_ids"));
  int kv_ratio = 0;  // of the latest KV source at or below the layer
  for (int l = 0; l < c.num_hidden_layers; ++l) {
    const int ratio = c.compress_ratio(l);
    const std::string layer = "layer " + std::to_string(l);
    if (c.is_kv_source(l)) {
      if (ratio == 0)
        return Broken(layer + " has ratio 0 and cannot own compressed KV", "kv_source_layer_ids");
      if (!c.is_index_source(l))
        return Broken("KV source " + layer + " is no index source", "index_source_layer_ids");
      kv_ratio = ratio;
    }
    if (c.is_index_source(l) && ratio == 0) {
      return Broken(layer + " has ratio 0 and cannot run an indexer", "index_source_layer_ids");
    }
    if (ratio > 0 && kv_ratio == 0)
      return Broken(layer + " has no KV source at or below it", "kv_source_layer_ids");
    if (ratio > 0 && kv_ratio != ratio)
      return Broken(layer + " has another ratio than its KV source", "compress_ratios");
  }
  return OkStatus();
}

Status ValidateIndexer(const ModelConfig& c) {
  if (c.index_source_layer_ids.empty()) {
    if (c.candidate_source_layer_id < 0) return OkStatus();
    return Broken("the candidate source is no KV source", "candidate_source_layer_id");
  }
  DEEPINFER_RETURN_IF_ERROR(InRange(c.index_n_heads, 1, 1024, "index_n_heads"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.index_head_dim, kScaleBlock, 4096, "index_head_dim"));
  DEEPINFER_RETURN_IF_ERROR(MultipleOf(c.index_head_dim, kScaleBlock, "index_head_dim"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.qk_rope_head_dim, 2, c.index_head_dim, "qk_rope_head_dim"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.index_topk, 1, 1 << 16, "index_topk"));
  if (c.candidate_source_layer_id < 0) return OkStatus();
  if (!c.is_kv_source(c.candidate_source_layer_id)) {
    return Broken("the candidate source is no KV source", "candidate_source_layer_id");
  }
  DEEPINFER_RETURN_IF_ERROR(InRange(c.candidate_topk_blocks, 1, 1 << 20, "candidate_topk_blocks"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.candidate_block_size, 1, 1 << 12, "candidate_block_size"));
  // The newest block may hold one entry only; the pool must still fill the list (model.md §8.7).
  if ((c.candidate_topk_blocks - 1) * c.candidate_block_size + 1 < c.index_topk) {
    return Broken("the candidate pool can be smaller than index_topk", "candidate_topk_blocks");
  }
  return OkStatus();
}

Status ValidateExperts(const ModelConfig& c) {
  DEEPINFER_RETURN_IF_ERROR(InRange(c.n_routed_experts, 1, 4096, "n_routed_experts"));
  if (c.n_shared_experts != 1) return Broken("the model has exactly one shared expert", "n_shared_experts");
  DEEPINFER_RETURN_IF_ERROR(InRange(
      c.num_experts_per_tok, 1, std::min(c.n_routed_experts, kMaxExpertsPerToken), "num_experts_per_tok"));
  DEEPINFER_RETURN_IF_ERROR(PositiveUpTo(c.routed_scaling_factor, 1e4, "routed_scaling_factor"));
  DEEPINFER_RETURN_IF_ERROR(PositiveUpTo(c.gate_temp, 1e4, "gate_temp"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.hc_mult, 1, 16, "hc_mult"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.hc_sinkhorn_iters, 1, 1000, "hc_sinkhorn_iters"));
  return PositiveUpTo(c.hc_eps, 1, "hc_eps");
}

Status ValidateEngram(const ModelConfig& c) {
  if (c.engram_num_embeddings.size() != c.engram_layer_ids.size()) {
    return Broken("the list needs one entry per Engram layer", "engram_num_embeddings");
  }
  if (!c.has_engram()) return OkStatus();
  DEEPINFER_RETURN_IF_ERROR(
      InRange(static_cast<int64_t>(c.engram_layer_ids.size()), 1, 16, "engram_layer_ids"));
  DEEPINFER_RETURN_IF_ERROR(IncreasingWithin(c.engram_layer_ids, c.num_hidden_layers, "engram_layer_ids"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.engram_head_dim, kScaleBlock, 4096, "engram_head_dim"));
  DEEPINFER_RETURN_IF_ERROR(MultipleOf(c.engram_head_dim, kScaleBlock, "engram_head_dim"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.engram_pad_token_id, 0, c.vocab_size - 1, "engram_pad_token_id"));
  DEEPINFER_RETURN_IF_ERROR(
      InRange(c.engram_compressed_vocab_size, 1, c.vocab_size, "engram_compressed_vocab_size"));
  DEEPINFER_ASSIGN_OR_RETURN(const EngramConstants constants, ComputeEngramConstants(c));
  for (size_t i = 0; i < constants.layers.size(); ++i) {
    if (constants.layers[i].num_rows == c.engram_num_embeddings[i]) continue;
    return Broken("the table of layer " + std::to_string(c.engram_layer_ids[i]) + " has " +
                      std::to_string(c.engram_num_embeddings[i]) + " rows, its hash primes sum to " +
                      std::to_string(constants.layers[i].num_rows),
                  "engram_num_embeddings");
  }
  return OkStatus();
}

Status ValidateDraft(const ModelConfig& c) {
  if (!c.has_draft()) return OkStatus();
  DEEPINFER_RETURN_IF_ERROR(InRange(c.dspark_block_size, 1, 64, "dspark_block_size"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.dspark_noise_token_id, 0, c.vocab_size - 1, "dspark_noise_token_id"));
  DEEPINFER_RETURN_IF_ERROR(
      InRange(static_cast<int64_t>(c.dspark_target_layer_ids.size()), 1, 16, "dspark_target_layer_ids"));
  DEEPINFER_RETURN_IF_ERROR(
      IncreasingWithin(c.dspark_target_layer_ids, c.num_hidden_layers, "dspark_target_layer_ids"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.dspark_markov_rank, 1, 1 << 16, "dspark_markov_rank"));
  DEEPINFER_RETURN_IF_ERROR(InRange(c.dspark_n_routed_experts, 1, 4096, "dspark_n_routed_experts"));
  return InRange(c.dspark_num_experts_per_tok, 1, std::min(c.dspark_n_routed_experts, kMaxExpertsPerToken),
                 "dspark_num_experts_per_tok");
}

Status ValidateQuantization(const ModelConfig& c) {
  if (c.quant_method != "fp8") return Broken("this engine supports only \"fp8\"", "quant_method");
  if (c.activation_scheme != "dynamic")
    return Broken("this engine supports only \"dynamic\"", "activation_scheme");
  if (c.scale_fmt != "ue8m0") return Broken("this engine supports only \"ue8m0\"", "scale_fmt");
  if (c.expert_dtype != "fp4") return Broken("this engine supports only \"fp4\"", "expert_dtype");
  if (c.weight_block_size != std::vector<int>{kScaleBlock, kScaleBlock}) {
    return Broken("this engine supports only blocks of 32 x 32", "weight_block_size");
  }
  return OkStatus();
}

Status ValidateVision(const ModelConfig& c) {
  if (!c.vision.has_value()) return OkStatus();
  const VisionConfig& v = *c.vision;
  if (c.image_token_id < 0) return Broken("a model with vision needs an image token", "image_token_id");
  DEEPINFER_RETURN_IF_ERROR(InRange(v.num_hidden_layers, 1, 512, "vision_config.num_hidden_layers"));
  DEEPINFER_RETURN_IF_ERROR(InRange(v.hidden_size, 4, 1 << 16, "vision_config.hidden_size"));
  DEEPINFER_RETURN_IF_ERROR(InRange(v.num_attention_heads, 1, 1024, "vision_config.num_attention_heads"));
  // Two rotated halves (rows and columns) of pairs in every head.
  DEEPINFER_RETURN_IF_ERROR(
      MultipleOf(v.hidden_size, int64_t{4} * v.num_attention_heads, "vision_config.hidden_size"));
  DEEPINFER_RETURN_IF_ERROR(InRange(v.intermediate_size, 1, 1 << 16, "vision_config.intermediate_size"));
  DEEPINFER_RETURN_IF_ERROR(InRange(v.patch_size, 1, 256, "vision_config.patch_size"));
  DEEPINFER_RETURN_IF_ERROR(NumberInRange(v.rope_theta, 2, 1e12, "vision_config.rope_theta"));
  DEEPINFER_RETURN_IF_ERROR(InRange(v.downsample_ratio, 1, 16, "vision_config.downsample_ratio"));
  DEEPINFER_RETURN_IF_ERROR(InRange(v.max_image_tokens, 4, 1 << 20, "vision_config.max_image_tokens"));
  DEEPINFER_RETURN_IF_ERROR(InRange(v.min_pixels, 1, 1 << 30, "vision_config.min_pixels"));
  if (!v.max_wh_ratio.has_value()) return OkStatus();
  return PositiveUpTo(*v.max_wh_ratio, 1e6, "vision_config.max_wh_ratio");
}

/// Six tensors an expert bound the lists that the loader builds.
Status ValidateTensorCount(const ModelConfig& c) {
  const int64_t experts =
      int64_t{c.num_hidden_layers} * c.n_routed_experts +
      (c.has_draft() ? int64_t{c.num_nextn_predict_layers} * c.dspark_n_routed_experts : 0);
  if (experts * 6 <= kMaxTensors) return OkStatus();
  return Broken("the model would have more than " + std::to_string(kMaxTensors) + " tensors",
                "n_routed_experts");
}

}  // namespace

Status Validate(const ModelConfig& config) {
  DEEPINFER_RETURN_IF_ERROR(InRange(config.num_nextn_predict_layers, 0, 16, "num_nextn_predict_layers"));
  DEEPINFER_RETURN_IF_ERROR(ValidateSizes(config));
  DEEPINFER_RETURN_IF_ERROR(ValidateAttention(config));
  DEEPINFER_RETURN_IF_ERROR(ValidateRatios(config));
  DEEPINFER_RETURN_IF_ERROR(ValidateSources(config));
  DEEPINFER_RETURN_IF_ERROR(ValidateIndexer(config));
  DEEPINFER_RETURN_IF_ERROR(ValidateExperts(config));
  DEEPINFER_RETURN_IF_ERROR(ValidateEngram(config));
  DEEPINFER_RETURN_IF_ERROR(ValidateDraft(config));
  DEEPINFER_RETURN_IF_ERROR(ValidateQuantization(config));
  DEEPINFER_RETURN_IF_ERROR(ValidateVision(config));
  return ValidateTensorCount(config);
}

}  // namespace deepinfer
