#include "checkpoint/synthetic.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/inventory.h"
#include "checkpoint/synthetic_tokenizer.h"
#include "tensor/dtype.h"

namespace deepinfer {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

uint64_t HashName(std::string_view name) {  // FNV-1a
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ULL;
  return hash;
}

uint64_t SplitMix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// Uniform in [-1, 1).
float Symmetric(uint64_t bits) { return static_cast<float>(bits >> 40) * 0x1p-23F - 1.0F; }

/// Close to a normal distribution with deviation 1: four 16-bit uniforms.
float Normal(uint64_t bits) {
  float sum = -2.0F;
  for (int i = 0; i < 4; ++i) sum += static_cast<float>((bits >> (16 * i)) & 0xFFFF) * 0x1p-16F;
  return sum * 1.7320508F;
}

bool EndsWith(std::string_view name, std::string_view suffix) { return name.ends_with(suffix); }

/// A real value for BF16 and F32 tensors, by what the tensor is for.
float RealValue(std::string_view name, uint64_t inputs, uint64_t bits) {
  if (EndsWith(name, "attn_sink")) return Normal(bits);
  if (EndsWith(name, "gate.bias_vl")) return 0.5F + 0.2F * Symmetric(bits);
  if (EndsWith(name, "bias")) return 0.05F * Symmetric(bits);
  if (name.find(".hc_") != std::string_view::npos) {
    if (EndsWith(name, "_scale")) return 0.1F + 0.01F * Symmetric(bits);
    if (EndsWith(name, "_base")) return 0.05F * Symmetric(bits);
  }
  const bool norm = name.find("norm") != std::string_view::npos || EndsWith(name, "engram.q_weight") ||
                    EndsWith(name, "engram.k_weight");
  if (norm) return 1.0F + 0.1F * Symmetric(bits);
  if (name.find("embed.weight") != std::string_view::npos || name.starts_with("image_"))
    return 0.2F * Symmetric(bits);
  return std::sqrt(3.0F / static_cast<float>(inputs)) * Symmetric(bits);
}

uint8_t E4m3Code(bool engram_row, uint64_t bits) {
  const auto sign = static_cast<uint8_t>((bits & 1) << 7);
  const uint64_t draw = bits >> 8;
  if (engram_row) return static_cast<uint8_t>(sign | (0x28 + draw % 0x19));        // 0.25 … 2
  if (((bits >> 1) & 15) == 0) return static_cast<uint8_t>(sign | (draw % 0x7F));  // any finite value
  return static_cast<uint8_t>(sign | (draw % 0x41));                               // 0 … 2
}

struct ShardName {
  int number;
  int count;
  std::string ToString() const {
    const auto five = [](int n) { return std::to_string(100000 + n).substr(1); };
    return "model-" + five(number + 1) + "-of-" + five(count) + ".safetensors";
  }
};

int NumberAfter(std::string_view name, std::string_view prefix) {
  int value = 0;
  for (size_t i = prefix.size(); i < name.size() && name[i] >= '0' && name[i] <= '9'; ++i)
    value = value * 10 + (name[i] - '0');
  return value;
}

/// Sort key of the shard of a tensor; equal keys share a shard.
int ShardKey(const ModelConfig& config, SyntheticOptions::Layout layout, std::string_view name) {
  if (layout == SyntheticOptions::Layout::kSingleFile) return 0;
  const bool by_layer = layout == SyntheticOptions::Layout::kReleased;
  const int layers = config.num_hidden_layers;
  const WeightClass weight_class = ClassifyTensor(name);
  if (weight_class == WeightClass::kVision) return 0;
  if (weight_class == WeightClass::kEmbed) return 1;
  if (weight_class == WeightClass::kHead) return 2 + layers;
  if (weight_class == WeightClass::kDraft) return 2 + layers + (by_layer ? 1 + NumberAfter(name, "mtp.") : 0);
  const int layer = NumberAfter(name, "layers.");
  if (name.find(".engram.") != std::string_view::npos) return 100 + 2 * layers + (by_layer ? layer : 0);
  return 2 + (by_layer ? layer : 0);
}

Status WriteTensor(SafetensorsWriter& writer, const TensorSpec& spec) {
  const uint64_t element_bytes = static_cast<uint64_t>(StorageDtypeBits(spec.dtype)) / 8;
  const uint64_t elements = spec.num_bytes() / element_bytes;
  std::vector<std::byte> chunk;
  for (uint64_t first = 0; first < elements;) {
    const uint64_t count = std::min<uint64_t>(elements - first, kChunkBytes / element_bytes);
    chunk.resize(count * element_bytes);
    FillSyntheticTensor(spec.name, spec.dtype, spec.shape, first, chunk);
    DEEPINFER_RETURN_IF_ERROR(writer.Append(chunk));
    first += count;
  }
  return OkStatus();
}

Status WriteShard(const std::string& path, std::span<const TensorSpec> specs,
                  const SyntheticOptions& options) {
  if (options.sparse) return WriteSparseSafetensors(path, specs, options.write);
  DEEPINFER_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(path, specs, options.write));
  for (const TensorSpec& spec : specs) DEEPINFER_RETURN_IF_ERROR(WriteTensor(writer, spec));
  return writer.Finish();
}

Status WriteTokenizer(const std::string& dir) {
  DEEPINFER_RETURN_IF_ERROR(WriteFileAtomic(dir + "/tokenizer.json", SyntheticTokenizerJson()));
  DEEPINFER_RETURN_IF_ERROR(WriteFileAtomic(dir + "/tokenizer_config.json", SyntheticTokenizerConfigJson()));
  std::string bytes;
  for (const int32_t value : SyntheticTokenMap()) {
    for (int k = 0; k < 4; ++k) bytes += static_cast<char>(value >> (8 * k));
  }
  return WriteFileAtomic(dir + "/engram_token_map.i32", bytes);
}

}  // namespace

ModelConfig SyntheticConfig() {
  ModelConfig c = ReleasedConfig();
  c.image_token_id = 494;
  c.vocab_size = 512;
  c.hidden_size = 128;
  c.moe_intermediate_size = 64;
  c.num_hidden_layers = 8;
  c.max_position_embeddings = 4096;
  c.num_attention_heads = 4;
  c.head_dim = 64;
  c.qk_rope_head_dim = 16;
  c.q_lora_rank = 64;
  c.o_lora_rank = 32;
  c.o_groups = 2;
  c.sliding_window = 8;
  c.compress_ratios = {0, 0, 2, 2, 1, 1, 1, 1, 0, 0, 0};
  c.kv_source_layer_ids = {2, 4};
  c.index_source_layer_ids = {2, 4, 6};
  c.index_n_heads = 4;
  c.index_head_dim = 32;
  c.index_topk = 8;
  c.candidate_source_layer_id = 4;
  c.candidate_topk_blocks = 4;
  c.candidate_block_size = 4;
  c.n_routed_experts = 8;
  c.num_experts_per_tok = 2;
  c.engram_layer_ids = {1, 2};
  c.engram_num_embeddings = {630, 834};
  c.engram_vocab_size = 97;
  c.engram_n_heads = 2;
  c.engram_head_dim = 32;
  const std::vector<int32_t> map = SyntheticTokenMap();
  c.engram_compressed_vocab_size = 1 + *std::max_element(map.begin(), map.end());
  c.dspark_noise_token_id = 480;
  c.dspark_target_layer_ids = {5, 6, 7};
  c.dspark_markov_rank = 32;
  c.dspark_n_routed_experts = 4;
  c.dspark_num_experts_per_tok = 2;
  c.vision->num_hidden_layers = 2;
  c.vision->hidden_size = 64;
  c.vision->num_attention_heads = 2;
  c.vision->intermediate_size = 96;
  c.vision->patch_size = 4;
  c.vision->max_image_tokens = 64;
  c.vision->min_pixels = 144;
  return c;
}

void FillSyntheticTensor(std::string_view name, StorageDtype dtype, std::span<const uint64_t> shape,
                         uint64_t first, std::span<std::byte> out) {
  const uint64_t seed = HashName(name);
  const uint64_t inputs = shape.empty() ? 1 : shape.back();
  const bool engram_row = ClassifyTensor(name) == WeightClass::kEngramTables;
  const size_t element_bytes = static_cast<size_t>(StorageDtypeBits(dtype)) / 8;
  for (size_t i = 0; i * element_bytes < out.size(); ++i) {
    const uint64_t bits = SplitMix64(seed + first + i);
    std::byte* target = out.data() + i * element_bytes;
    if (dtype == StorageDtype::kF32) {
      const float value = RealValue(name, inputs, bits);
      std::memcpy(target, &value, sizeof(value));
    } else if (dtype == StorageDtype::kBf16) {
      const Bf16 value = ToBf16(RealValue(name, inputs, bits));
      std::memcpy(target, &value, sizeof(value));
    } else if (dtype == StorageDtype::kF8E8M0) {
      *target = static_cast<std::byte>(124 + (bits >> 8) % 7);
    } else if (dtype == StorageDtype::kF8E4M3) {
      *target = static_cast<std::byte>(E4m3Code(engram_row, bits));
    } else {
      *target = static_cast<std::byte>(bits >> 8);
    }
  }
}

std::vector<SyntheticTensor> SyntheticTensors(const ModelConfig& config, SyntheticOptions::Layout layout) {
  std::vector<std::pair<int, TensorSpec>> keyed;
  ForEachExpectedTensor(config, [&](const ExpectedTensor& t) {
    keyed.emplace_back(ShardKey(config, layout, t.name),
                       TensorSpec{std::string(t.name), t.dtype, {t.shape.begin(), t.shape.end()}});
  });
  std::map<int, int> shard_of;
  for (const auto& [key, spec] : keyed) shard_of[key] = 0;
  int next = 0;
  for (auto& [key, shard] : shard_of) shard = next++;
  std::vector<SyntheticTensor> tensors;
  tensors.reserve(keyed.size());
  for (auto& [key, spec] : keyed) tensors.push_back({std::move(spec), shard_of[key]});
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const SyntheticTensor& a, const SyntheticTensor& b) { return a.shard < b.shard; });
  return tensors;
}

Status WriteSyntheticCheckpoint(const std::string& dir, const ModelConfig& config,
                                const SyntheticOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return IoError("cannot create the folder: " + error.message(), dir);
  const std::string text = options.flat_config ? SerializeFlatConfig(config) : SerializeConfig(config);
  DEEPINFER_RETURN_IF_ERROR(WriteFileAtomic(dir + "/config.json", text));
  if (options.tokenizer) DEEPINFER_RETURN_IF_ERROR(WriteTokenizer(dir));

  std::vector<SyntheticTensor> tensors = SyntheticTensors(config, options.layout);
  if (options.edit) options.edit(tensors);
  std::map<int, std::vector<TensorSpec>> shards;
  for (SyntheticTensor& tensor : tensors) shards[tensor.shard].push_back(std::move(tensor.spec));

  json::Object weight_map;
  uint64_t total = 0;
  const int count = shards.empty() ? 0 : shards.rbegin()->first + 1;
  for (const auto& [number, specs] : shards) {
    const bool single = options.layout == SyntheticOptions::Layout::kSingleFile;
    const std::string name = single ? "model.safetensors" : ShardName{number, count}.ToString();
    DEEPINFER_RETURN_IF_ERROR(WriteShard(dir + "/" + name, specs, options));
    for (const TensorSpec& spec : specs) {
      weight_map.emplace_back(spec.name, name);
      total += spec.num_bytes();
    }
  }
  if (options.layout == SyntheticOptions::Layout::kSingleFile) return OkStatus();
  json::Object root;
  root.emplace_back("metadata", json::Object{{"total_size", total}});
  root.emplace_back("weight_map", std::move(weight_map));
  return WriteFileAtomic(dir + "/model.safetensors.index.json", json::Serialize(root, 2) + "\n");
}

}  // namespace deepinfer
