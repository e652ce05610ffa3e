#include "checkpoint/config.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/json.h"
#include "checkpoint/config_reader.h"

namespace deepinfer {
namespace {

using Need = ConfigReader::Need;

// The values that the flat form has no name for.
constexpr int64_t kReleasedMaxPositions = 1048576;
constexpr int kReleasedImageToken = 129264;

/// The objects of a config.json; null where the file has none.
struct Sections {
  const json::Value* root = nullptr;
  const json::Value* text = nullptr;
  const json::Value* rope = nullptr;
  const json::Value* quantization = nullptr;
  const json::Value* vision = nullptr;
};

int IndexOf(const std::vector<int>& list, int value) {
  const auto it = std::find(list.begin(), list.end(), value);
  return it == list.end() ? -1 : static_cast<int>(it - list.begin());
}

const json::Value* FindSection(ConfigReader& reader, const json::Value* outer, const json::Value* inner,
                               std::string_view key) {
  const json::Value* section = reader.Find({{inner, key}, {outer, key}});
  if (section != nullptr && !section->is_object()) {
    reader.Fail("not an object", key);
    return nullptr;
  }
  return section;
}

/// Reads one text key under its hub and flat name, nested or not.
template <typename T>
void Text(ConfigReader& reader, const Sections& s, std::string_view hub, std::string_view flat, Need need,
          T* out) {
  reader.Get({{s.text, hub}, {s.root, hub}, {s.text, flat}, {s.root, flat}}, need, out);
}

template <typename T>
void Text(ConfigReader& reader, const Sections& s, std::string_view name, Need need, T* out) {
  reader.Get({{s.text, name}, {s.root, name}}, need, out);
}

void ReadFixedKeys(ConfigReader& reader, const Sections& s) {
  reader.Expect({{s.root, "model_type"}}, "deepseek_v41");
  reader.Expect({{s.text, "num_key_value_heads"}, {s.root, "num_key_value_heads"}}, 1);
  reader.Expect(
      {{s.text, "scoring_func"}, {s.root, "scoring_func"}, {s.text, "score_func"}, {s.root, "score_func"}},
      "sqrtsoftplus");
  reader.Expect({{s.text, "topk_method"}, {s.root, "topk_method"}}, "noaux_tc");
  reader.Expect({{s.text, "hidden_act"}, {s.root, "hidden_act"}}, "silu");
  reader.Expect({{s.text, "attention_bias"}, {s.root, "attention_bias"}}, false);
  reader.Expect({{s.text, "tie_word_embeddings"}, {s.root, "tie_word_embeddings"}}, false);
  reader.Expect({{s.rope, "rope_type"}, {s.rope, "type"}}, "yarn");
}

void ReadSizes(ConfigReader& reader, const Sections& s, ModelConfig* c) {
  Text(reader, s, "vocab_size", Need::kRequired, &c->vocab_size);
  Text(reader, s, "hidden_size", "dim", Need::kRequired, &c->hidden_size);
  Text(reader, s, "moe_intermediate_size", "moe_inter_dim", Need::kRequired, &c->moe_intermediate_size);
  Text(reader, s, "num_hidden_layers", "n_layers", Need::kRequired, &c->num_hidden_layers);
  c->max_position_embeddings = kReleasedMaxPositions;
  Text(reader, s, "max_position_embeddings", Need::kOptional, &c->max_position_embeddings);

  Text(reader, s, "num_attention_heads", "n_heads", Need::kRequired, &c->num_attention_heads);
  Text(reader, s, "head_dim", Need::kRequired, &c->head_dim);
  Text(reader, s, "qk_rope_head_dim", "rope_head_dim", Need::kRequired, &c->qk_rope_head_dim);
  Text(reader, s, "q_lora_rank", Need::kRequired, &c->q_lora_rank);
  Text(reader, s, "o_lora_rank", Need::kRequired, &c->o_lora_rank);
  Text(reader, s, "o_groups", Need::kRequired, &c->o_groups);
  Text(reader, s, "sliding_window", "window_size", Need::kRequired, &c->sliding_window);
  Text(reader, s, "swiglu_limit", Need::kRequired, &c->swiglu_limit);
  Text(reader, s, "rms_norm_eps", "norm_eps", Need::kRequired, &c->rms_norm_eps);

  Text(reader, s, "bos_token_id", Need::kOptional, &c->bos_token_id);
  Text(reader, s, "eos_token_id", Need::kOptional, &c->eos_token_id);
  Text(reader, s, "pad_token_id", Need::kOptional, &c->pad_token_id);
  c->image_token_id = c->vocab_size > kReleasedImageToken ? kReleasedImageToken : -1;
  Text(reader, s, "image_token_id", Need::kOptional, &c->image_token_id);
}

void ReadRope(ConfigReader& reader, const Sections& s, ModelConfig* c) {
  Text(reader, s, "rope_theta", Need::kRequired, &c->rope_theta);
  Text(reader, s, "compress_rope_theta", Need::kRequired, &c->compress_rope_theta);
  reader.Get({{s.rope, "factor"}, {s.text, "rope_factor"}, {s.root, "rope_factor"}}, Need::kRequired,
             &c->rope_factor);
  reader.Get({{s.rope, "original_max_position_embeddings"},
              {s.text, "original_seq_len"},
              {s.root, "original_seq_len"}},
             Need::kRequired, &c->original_max_position_embeddings);
  reader.Get({{s.rope, "beta_fast"}, {s.text, "beta_fast"}, {s.root, "beta_fast"}}, Need::kOptional,
             &c->beta_fast);
  reader.Get({{s.rope, "beta_slow"}, {s.text, "beta_slow"}, {s.root, "beta_slow"}}, Need::kOptional,
             &c->beta_slow);
}

void ReadSparseAttention(ConfigReader& reader, const Sections& s, ModelConfig* c) {
  Text(reader, s, "compress_ratios", Need::kRequired, &c->compress_ratios);
  Text(reader, s, "kv_source_layer_ids", "kv_source_layers", Need::kRequired, &c->kv_source_layer_ids);
  Text(reader, s, "index_source_layer_ids", "index_source_layers", Need::kRequired,
       &c->index_source_layer_ids);
  const Need index = c->index_source_layer_ids.empty() ? Need::kOptional : Need::kRequired;
  Text(reader, s, "index_n_heads", index, &c->index_n_heads);
  Text(reader, s, "index_head_dim", index, &c->index_head_dim);
  Text(reader, s, "index_topk", index, &c->index_topk);
  Text(reader, s, "candidate_source_layer_id", "candidate_source_layer", Need::kOptional,
       &c->candidate_source_layer_id);
  c->candidate_source_layer_id = std::max(c->candidate_source_layer_id, -1);
  const Need candidate = c->candidate_source_layer_id < 0 ? Need::kOptional : Need::kRequired;
  Text(reader, s, "candidate_topk_blocks", candidate, &c->candidate_topk_blocks);
  Text(reader, s, "candidate_block_size", candidate, &c->candidate_block_size);
}

void ReadExpertsAndStreams(ConfigReader& reader, const Sections& s, ModelConfig* c) {
  Text(reader, s, "n_routed_experts", Need::kRequired, &c->n_routed_experts);
  Text(reader, s, "n_shared_experts", Need::kOptional, &c->n_shared_experts);
  Text(reader, s, "num_experts_per_tok", "n_activated_experts", Need::kRequired, &c->num_experts_per_tok);
  Text(reader, s, "routed_scaling_factor", "route_scale", Need::kRequired, &c->routed_scaling_factor);
  Text(reader, s, "norm_topk_prob", Need::kOptional, &c->norm_topk_prob);
  Text(reader, s, "gate_temp", Need::kOptional, &c->gate_temp);
  Text(reader, s, "hc_mult", Need::kRequired, &c->hc_mult);
  Text(reader, s, "hc_sinkhorn_iters", Need::kRequired, &c->hc_sinkhorn_iters);
  Text(reader, s, "hc_eps", Need::kRequired, &c->hc_eps);
}

void ReadEngram(ConfigReader& reader, const Sections& s, ModelConfig* c) {
  Text(reader, s, "engram_layer_ids", Need::kOptional, &c->engram_layer_ids);
  const Need need = c->has_engram() ? Need::kRequired : Need::kOptional;
  Text(reader, s, "engram_num_embeddings", need, &c->engram_num_embeddings);
  Text(reader, s, "engram_max_ngram_size", need, &c->engram_max_ngram_size);
  Text(reader, s, "engram_vocab_size", need, &c->engram_vocab_size);
  Text(reader, s, "engram_n_heads", need, &c->engram_n_heads);
  Text(reader, s, "engram_head_dim", need, &c->engram_head_dim);
  Text(reader, s, "engram_pad_token_id", "engram_pad_id", Need::kOptional, &c->engram_pad_token_id);
  Text(reader, s, "engram_compressed_vocab_size", need, &c->engram_compressed_vocab_size);
}

void ReadDraft(ConfigReader& reader, const Sections& s, ModelConfig* c) {
  Text(reader, s, "num_nextn_predict_layers", "n_mtp_layers", Need::kOptional, &c->num_nextn_predict_layers);
  const Need need = c->has_draft() ? Need::kRequired : Need::kOptional;
  Text(reader, s, "dspark_block_size", need, &c->dspark_block_size);
  Text(reader, s, "dspark_noise_token_id", need, &c->dspark_noise_token_id);
  Text(reader, s, "dspark_target_layer_ids", need, &c->dspark_target_layer_ids);
  Text(reader, s, "dspark_markov_rank", need, &c->dspark_markov_rank);
  Text(reader, s, "dspark_n_routed_experts", need, &c->dspark_n_routed_experts);
  Text(reader, s, "dspark_num_experts_per_tok", "dspark_n_activated_experts", need,
       &c->dspark_num_experts_per_tok);
}

void ReadQuantization(ConfigReader& reader, const Sections& s, ModelConfig* c) {
  const auto get = [&](std::string_view key, auto* out) {
    reader.Get({{s.quantization, key}, {s.text, key}, {s.root, key}}, Need::kOptional, out);
  };
  get("quant_method", &c->quant_method);
  get("activation_scheme", &c->activation_scheme);
  get("scale_fmt", &c->scale_fmt);
  get("expert_dtype", &c->expert_dtype);
  get("weight_block_size", &c->weight_block_size);
}

/// The flat names stand at the top level with the prefix `vision_`.
void ReadVision(ConfigReader& reader, const Sections& s, ModelConfig* c) {
  VisionConfig v;
  reader.Get({{s.vision, "num_hidden_layers"}, {s.root, "vision_n_layers"}}, Need::kOptional,
             &v.num_hidden_layers);
  if (v.num_hidden_layers == 0) return;  // also the reference's way to say "no vision"
  reader.Expect({{s.vision, "model_type"}}, "deepseek_v41_vision");
  reader.Get({{s.vision, "hidden_size"}, {s.root, "vision_dim"}}, Need::kRequired, &v.hidden_size);
  reader.Get({{s.vision, "num_attention_heads"}, {s.root, "vision_n_heads"}}, Need::kRequired,
             &v.num_attention_heads);
  reader.Get({{s.vision, "intermediate_size"}, {s.root, "vision_inter_dim"}}, Need::kRequired,
             &v.intermediate_size);
  reader.Get({{s.vision, "patch_size"}, {s.root, "vision_patch_size"}}, Need::kRequired, &v.patch_size);
  reader.Get({{s.vision, "rope_theta"}, {s.root, "vision_rope_theta"}}, Need::kOptional, &v.rope_theta);
  reader.Get({{s.vision, "downsample_ratio"}, {s.root, "vision_downsample_ratio"}}, Need::kRequired,
             &v.downsample_ratio);
  reader.Get({{s.vision, "max_image_tokens"}, {s.vision, "max_num_tokens"}, {s.root, "vision_max_n_token"}},
             Need::kRequired, &v.max_image_tokens);
  reader.Get({{s.vision, "min_pixels"}, {s.root, "vision_min_pixels"}}, Need::kRequired, &v.min_pixels);
  double ratio = 0;
  reader.Get({{s.vision, "max_wh_ratio"}, {s.root, "vision_max_wh_ratio"}}, Need::kOptional, &ratio);
  if (ratio != 0) v.max_wh_ratio = ratio;
  c->vision = v;
}

}  // namespace

int ModelConfig::engram_index(int layer) const { return IndexOf(engram_layer_ids, layer); }
bool ModelConfig::is_kv_source(int layer) const { return IndexOf(kv_source_layer_ids, layer) >= 0; }
bool ModelConfig::is_index_source(int layer) const { return IndexOf(index_source_layer_ids, layer) >= 0; }

Result<ModelConfig> ParseConfig(std::string_view text) {
  const json::ParseLimits limits{.max_bytes = size_t{1} << 20, .max_depth = 16, .max_values = 100'000};
  DEEPINFER_ASSIGN_OR_RETURN(const json::Value root, json::Parse(text, limits));
  if (!root.is_object()) return DataLoss("the configuration is not a JSON object");

  ConfigReader reader;
  Sections s;
  s.root = &root;
  s.text = FindSection(reader, &root, nullptr, "text_config");
  s.rope = FindSection(reader, &root, s.text, "rope_scaling");
  s.quantization = FindSection(reader, &root, s.text, "quantization_config");
  s.vision = FindSection(reader, &root, nullptr, "vision_config");

  ModelConfig config;
  ReadFixedKeys(reader, s);
  ReadSizes(reader, s, &config);
  ReadRope(reader, s, &config);
  ReadSparseAttention(reader, s, &config);
  ReadExpertsAndStreams(reader, s, &config);
  ReadEngram(reader, s, &config);
  ReadDraft(reader, s, &config);
  ReadQuantization(reader, s, &config);
  ReadVision(reader, s, &config);
  DEEPINFER_RETURN_IF_ERROR(reader.status());
  DEEPINFER_RETURN_IF_ERROR(Validate(config));
  config.compress_ratios.resize(
      static_cast<size_t>(config.num_hidden_layers + config.num_nextn_predict_layers), 0);
  return config;
}

ModelConfig ReleasedConfig() {
  ModelConfig c;
  c.image_token_id = kReleasedImageToken;
  c.vocab_size = 129280;
  c.hidden_size = 5120;
  c.moe_intermediate_size = 2304;
  c.num_hidden_layers = 40;
  c.max_position_embeddings = kReleasedMaxPositions;
  c.num_attention_heads = 64;
  c.head_dim = 512;
  c.qk_rope_head_dim = 64;
  c.q_lora_rank = 1280;
  c.o_lora_rank = 1024;
  c.o_groups = 8;
  c.sliding_window = 128;
  c.rope_factor = 16;
  c.original_max_position_embeddings = 65536;
  c.compress_ratios.assign(43, 0);
  std::fill(c.compress_ratios.begin() + 2, c.compress_ratios.begin() + 20, 2);
  std::fill(c.compress_ratios.begin() + 20, c.compress_ratios.begin() + 40, 1);
  c.kv_source_layer_ids = {2, 8, 14, 20};
  c.index_source_layer_ids = {2, 8, 14, 20, 24, 28, 32, 36};
  c.index_n_heads = 32;
  c.index_head_dim = 128;
  c.index_topk = 512;
  c.candidate_source_layer_id = 20;
  c.candidate_topk_blocks = 2048;
  c.candidate_block_size = 8;
  c.n_routed_experts = 384;
  c.num_experts_per_tok = 6;
  c.routed_scaling_factor = 1.5;
  c.swiglu_limit = 10;
  c.rms_norm_eps = 1e-20;
  c.hc_mult = 4;
  c.hc_sinkhorn_iters = 20;
  c.hc_eps = 1e-6;
  c.engram_layer_ids = {1, 14};
  c.engram_num_embeddings = {384006168, 384016682};
  c.engram_max_ngram_size = 4;
  c.engram_vocab_size = 16000000;
  c.engram_n_heads = 8;
  c.engram_head_dim = 256;
  c.engram_compressed_vocab_size = 99092;
  c.num_nextn_predict_layers = 3;
  c.dspark_block_size = 5;
  c.dspark_noise_token_id = 128799;
  c.dspark_target_layer_ids = {37, 38, 39};
  c.dspark_markov_rank = 256;
  c.dspark_n_routed_experts = 128;
  c.dspark_num_experts_per_tok = 3;
  c.vision = VisionConfig{.num_hidden_layers = 32,
                          .hidden_size = 1024,
                          .num_attention_heads = 16,
                          .intermediate_size = 2816,
                          .patch_size = 14,
                          .downsample_ratio = 3,
                          .max_image_tokens = 1024,
                          .min_pixels = 295936,
                          .max_wh_ratio = std::nullopt};
  return c;
}

}  // namespace deepinfer
