#include <utility>

#include "base/json.h"
#include "checkpoint/config.h"

namespace deepinfer {
namespace {

template <typename T>
json::Value List(const std::vector<T>& items) {
  json::Array array;
  for (const T item : items) array.emplace_back(item);
  return array;
}

json::Value Optional(const std::optional<double>& value) {
  return value.has_value() ? json::Value(*value) : json::Value(nullptr);
}

json::Value Quantization(const ModelConfig& c) {
  json::Object q;
  q.emplace_back("quant_method", c.quant_method);
  q.emplace_back("activation_scheme", c.activation_scheme);
  q.emplace_back("weight_block_size", List(c.weight_block_size));
  q.emplace_back("scale_fmt", c.scale_fmt);
  q.emplace_back("expert_dtype", c.expert_dtype);
  return q;
}

json::Value RopeScaling(const ModelConfig& c) {
  json::Object r;
  r.emplace_back("rope_type", "yarn");
  r.emplace_back("factor", c.rope_factor);
  r.emplace_back("original_max_position_embeddings", c.original_max_position_embeddings);
  r.emplace_back("beta_fast", c.beta_fast);
  r.emplace_back("beta_slow", c.beta_slow);
  return r;
}

json::Value Vision(const VisionConfig& v) {
  json::Object o;
  o.emplace_back("model_type", "deepseek_v41_vision");
  o.emplace_back("num_hidden_layers", v.num_hidden_layers);
  o.emplace_back("hidden_size", v.hidden_size);
  o.emplace_back("num_attention_heads", v.num_attention_heads);
  o.emplace_back("intermediate_size", v.intermediate_size);
  o.emplace_back("patch_size", v.patch_size);
  o.emplace_back("rope_theta", v.rope_theta);
  o.emplace_back("downsample_ratio", v.downsample_ratio);
  o.emplace_back("max_image_tokens", v.max_image_tokens);
  o.emplace_back("min_pixels", v.min_pixels);
  o.emplace_back("max_wh_ratio", Optional(v.max_wh_ratio));
  return o;
}

/// The keys of the text part; `flat` chooses the spelling and leaves out what the flat form has no name for.
void AppendText(const ModelConfig& c, bool flat, json::Object* out) {
  const auto put = [&](const char* hub, const char* flat_name, json::Value value) {
    const char* name = flat ? flat_name : hub;
    if (name != nullptr) out->emplace_back(name, std::move(value));
  };
  const auto same = [&](const char* name, json::Value value) { put(name, name, std::move(value)); };
  same("vocab_size", c.vocab_size);
  put("hidden_size", "dim", c.hidden_size);
  put("moe_intermediate_size", "moe_inter_dim", c.moe_intermediate_size);
  put("num_hidden_layers", "n_layers", c.num_hidden_layers);
  put("num_attention_heads", "n_heads", c.num_attention_heads);
  put("num_key_value_heads", nullptr, 1);
  same("head_dim", c.head_dim);
  put("qk_rope_head_dim", "rope_head_dim", c.qk_rope_head_dim);
  same("q_lora_rank", c.q_lora_rank);
  same("o_lora_rank", c.o_lora_rank);
  same("o_groups", c.o_groups);
  put("hidden_act", nullptr, "silu");
  same("swiglu_limit", c.swiglu_limit);
  put("rms_norm_eps", "norm_eps", c.rms_norm_eps);
  put("attention_bias", nullptr, false);
  put("tie_word_embeddings", nullptr, false);
  put("max_position_embeddings", nullptr, c.max_position_embeddings);
  same("rope_theta", c.rope_theta);
  same("compress_rope_theta", c.compress_rope_theta);
  put("rope_scaling", nullptr, RopeScaling(c));
  put(nullptr, "rope_factor", c.rope_factor);
  put(nullptr, "original_seq_len", c.original_max_position_embeddings);
  put(nullptr, "beta_fast", c.beta_fast);
  put(nullptr, "beta_slow", c.beta_slow);
  same("n_routed_experts", c.n_routed_experts);
  same("n_shared_experts", c.n_shared_experts);
  put("num_experts_per_tok", "n_activated_experts", c.num_experts_per_tok);
  put("scoring_func", "score_func", "sqrtsoftplus");
  put("topk_method", nullptr, "noaux_tc");
  same("norm_topk_prob", c.norm_topk_prob);
  put("routed_scaling_factor", "route_scale", c.routed_scaling_factor);
  same("gate_temp", c.gate_temp);
  put("sliding_window", "window_size", c.sliding_window);
  same("compress_ratios", List(c.compress_ratios));
  put("kv_source_layer_ids", "kv_source_layers", List(c.kv_source_layer_ids));
  put("index_source_layer_ids", "index_source_layers", List(c.index_source_layer_ids));
  same("index_n_heads", c.index_n_heads);
  same("index_head_dim", c.index_head_dim);
  same("index_topk", c.index_topk);
  put("candidate_source_layer_id", "candidate_source_layer", c.candidate_source_layer_id);
  same("candidate_topk_blocks", c.candidate_topk_blocks);
  same("candidate_block_size", c.candidate_block_size);
  same("hc_mult", c.hc_mult);
  same("hc_sinkhorn_iters", c.hc_sinkhorn_iters);
  same("hc_eps", c.hc_eps);
  same("engram_layer_ids", List(c.engram_layer_ids));
  same("engram_num_embeddings", List(c.engram_num_embeddings));
  same("engram_max_ngram_size", c.engram_max_ngram_size);
  same("engram_vocab_size", c.engram_vocab_size);
  same("engram_n_heads", c.engram_n_heads);
  same("engram_head_dim", c.engram_head_dim);
  put("engram_pad_token_id", "engram_pad_id", c.engram_pad_token_id);
  same("engram_compressed_vocab_size", c.engram_compressed_vocab_size);
  put("num_nextn_predict_layers", "n_mtp_layers", c.num_nextn_predict_layers);
  same("dspark_block_size", c.dspark_block_size);
  same("dspark_noise_token_id", c.dspark_noise_token_id);
  same("dspark_target_layer_ids", List(c.dspark_target_layer_ids));
  same("dspark_markov_rank", c.dspark_markov_rank);
  same("dspark_n_routed_experts", c.dspark_n_routed_experts);
  put("dspark_num_experts_per_tok", "dspark_n_activated_experts", c.dspark_num_experts_per_tok);
}

}  // namespace

std::string SerializeConfig(const ModelConfig& config) {
  json::Object root;
  root.emplace_back("architectures", json::Array{"DeepseekV41ForCausalLM"});
  root.emplace_back("model_type", "deepseek_v41");
  root.emplace_back("dtype", "bfloat16");
  root.emplace_back("bos_token_id", config.bos_token_id);
  root.emplace_back("eos_token_id", config.eos_token_id);
  root.emplace_back("pad_token_id", config.pad_token_id);
  root.emplace_back("image_token_id", config.image_token_id);
  root.emplace_back("tie_word_embeddings", false);
  root.emplace_back("quantization_config", Quantization(config));
  json::Object text;
  text.emplace_back("model_type", "deepseek_v41_text");
  AppendText(config, /*flat=*/false, &text);
  root.emplace_back("text_config", std::move(text));
  if (config.vision.has_value()) root.emplace_back("vision_config", Vision(*config.vision));
  return json::Serialize(root, 2) + "\n";
}

std::string SerializeFlatConfig(const ModelConfig& config) {
  json::Object root;
  AppendText(config, /*flat=*/true, &root);
  root.emplace_back("dtype", "fp8");
  root.emplace_back("scale_fmt", config.scale_fmt);
  root.emplace_back("expert_dtype", config.expert_dtype);
  if (config.vision.has_value()) {
    const VisionConfig& v = *config.vision;
    root.emplace_back("vision_n_layers", v.num_hidden_layers);
    root.emplace_back("vision_dim", v.hidden_size);
    root.emplace_back("vision_n_heads", v.num_attention_heads);
    root.emplace_back("vision_inter_dim", v.intermediate_size);
    root.emplace_back("vision_patch_size", v.patch_size);
    root.emplace_back("vision_rope_theta", v.rope_theta);
    root.emplace_back("vision_downsample_ratio", v.downsample_ratio);
    root.emplace_back("vision_max_n_token", v.max_image_tokens);
    root.emplace_back("vision_min_pixels", v.min_pixels);
    root.emplace_back("vision_max_wh_ratio", Optional(v.max_wh_ratio));
  } else {
    root.emplace_back("vision_n_layers", 0);
  }
  return json::Serialize(root, 2) + "\n";
}

}  // namespace deepinfer
