#include "checkpoint/inventory.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/checked.h"

namespace deepinfer {
namespace {

constexpr uint64_t kScaleBlock = 32;
// Room for the released model twice over; keeps a small hostile config from asking for much memory.
constexpr size_t kMaxListed = 200'000;

uint64_t U(int64_t value) { return static_cast<uint64_t>(value); }

/// Walks the formulas of checkpoint.md §4 with one reused name buffer.
class Lister {
 public:
  Lister(const ModelConfig& config, const std::function<void(const ExpectedTensor&)>& visit)
      : c_(config), visit_(visit) {}

  void Run() {
    Bf16("embed.weight", WeightClass::kEmbed, {U(c_.vocab_size), U(c_.hidden_size)});
    for (int layer = 0; layer < c_.num_hidden_layers; ++layer) Layer(layer);
    Bf16("norm.weight", WeightClass::kHead, {U(c_.hidden_size)});
    Bf16("head.weight", WeightClass::kHead, {U(c_.vocab_size), U(c_.hidden_size)});
    for (int stage = 0; stage < c_.num_nextn_predict_layers; ++stage) DraftStage(stage);
    if (c_.vision.has_value()) Vision(*c_.vision);
  }

 private:
  using Shape = std::initializer_list<uint64_t>;

  void Put(std::string_view suffix, StorageDtype dtype, WeightClass weight_class, Shape shape,
           bool expert = false) {
    name_.resize(prefix_);
    name_ += suffix;
    visit_({name_, dtype, std::span(shape.begin(), shape.size()), weight_class, expert});
  }
  void Bf16(std::string_view suffix, WeightClass weight_class, Shape shape) {
    Put(suffix, StorageDtype::kBf16, weight_class, shape);
  }
  void F32(std::string_view suffix, WeightClass weight_class, Shape shape) {
    Put(suffix, StorageDtype::kF32, weight_class, shape);
  }
  /// E4M3 weight with one scale per 32 x 32 block.
  void Fp8(const std::string& stem, WeightClass weight_class, uint64_t out, uint64_t in) {
    Put(stem + ".weight", StorageDtype::kF8E4M3, weight_class, {out, in});
    Put(stem + ".scale", StorageDtype::kF8E8M0, weight_class,
        {CeilDiv(out, kScaleBlock), CeilDiv(in, kScaleBlock)});
  }
  /// Packed FP4 weight with one scale per row and 32 inputs.
  void Fp4(const std::string& stem, WeightClass weight_class, uint64_t out, uint64_t in) {
    Put(stem + ".weight", StorageDtype::kI8, weight_class, {out, in / 2}, true);
    Put(stem + ".scale", StorageDtype::kF8E8M0, weight_class, {out, in / kScaleBlock}, true);
  }
  void SetPrefix(std::string prefix) {
    name_ = std::move(prefix);
    prefix_ = name_.size();
  }

  /// The tensors that every block has (§4.2).
  void Block(int experts, WeightClass dense, WeightClass routed) {
    const uint64_t hidden = U(c_.hidden_size);
    const uint64_t width = U(c_.num_attention_heads) * U(c_.head_dim);
    const uint64_t latent = U(c_.o_groups) * U(c_.o_lora_rank);
    const uint64_t inner = U(c_.moe_intermediate_size);
    Bf16("attn_norm.weight", dense, {hidden});
    Bf16("ffn_norm.weight", dense, {hidden});
    Fp8("attn.wq_a", dense, U(c_.q_lora_rank), hidden);
    Bf16("attn.q_norm.weight", dense, {U(c_.q_lora_rank)});
    Fp8("attn.wq_b", dense, width, U(c_.q_lora_rank));
    Fp8("attn.wkv", dense, U(c_.head_dim), hidden);
    Bf16("attn.kv_norm.weight", dense, {U(c_.head_dim)});
    Fp8("attn.wo_a", dense, latent, width / U(c_.o_groups));
    Fp8("attn.wo_b", dense, hidden, latent);
    F32("attn.attn_sink", dense, {U(c_.num_attention_heads)});
    const uint64_t streams = U(c_.hc_mult);
    const uint64_t mixes = streams * (2 + streams);  // pre, post and the square combination
    for (const char* site : {"hc_attn", "hc_ffn"}) {
      const std::string stem(site);
      F32(stem + "_fn", dense, {mixes, streams * hidden});
      F32(stem + "_base", dense, {mixes});
      F32(stem + "_scale", dense, {3});
    }
    Bf16("ffn.gate.weight", dense, {U(experts), hidden});
    F32("ffn.gate.bias", dense, {U(experts)});
    F32("ffn.gate.bias_vl", dense, {U(experts)});
    Fp8("ffn.shared_experts.w1", dense, inner, hidden);
    Fp8("ffn.shared_experts.w2", dense, hidden, inner);
    Fp8("ffn.shared_experts.w3", dense, inner, hidden);
    for (int e = 0; e < experts; ++e) {
      const std::string stem = "ffn.experts." + std::to_string(e);
      Fp4(stem + ".w1", routed, inner, hidden);
      Fp4(stem + ".w2", routed, hidden, inner);
      Fp4(stem + ".w3", routed, inner, hidden);
    }
  }

  void Layer(int layer) {
    constexpr WeightClass kDense = WeightClass::kLayers;
    SetPrefix("layers." + std::to_string(layer) + ".");
    Block(c_.n_routed_experts, kDense, WeightClass::kRoutedExperts);
    const uint64_t hidden = U(c_.hidden_size);
    if (c_.is_kv_source(layer)) {
      Bf16("attn.compressor.wkv.weight", kDense, {U(c_.head_dim), hidden});
      if (c_.compress_ratio(layer) > 1)
        Bf16("attn.compressor.wgate.weight", kDense, {U(c_.head_dim), hidden});
      Bf16("attn.compressor.norm.weight", kDense, {U(c_.head_dim)});
      Bf16("attn.indexer.wk.weight", kDense, {U(c_.index_head_dim), U(c_.head_dim)});
      Bf16("attn.indexer.k_norm.weight", kDense, {U(c_.index_head_dim)});
    }
    if (c_.is_index_source(layer)) {
      Fp8("attn.indexer.wq_b", kDense, U(c_.index_n_heads) * U(c_.index_head_dim), U(c_.q_lora_rank));
      Bf16("attn.indexer.weights_proj.weight", kDense, {U(c_.index_n_heads), hidden});
    }
    if (const int index = c_.engram_index(layer); index >= 0) {
      const uint64_t rows = U(c_.engram_num_embeddings[static_cast<size_t>(index)]);
      const uint64_t width = U(c_.engram_head_dim);
      const uint64_t streams = U(c_.hc_mult);
      Put("engram.embed.weight", StorageDtype::kF8E4M3, WeightClass::kEngramTables, {rows, width});
      Put("engram.embed.scale", StorageDtype::kF8E8M0, WeightClass::kEngramTables,
          {rows, width / kScaleBlock});
      Fp8("engram.wkv", kDense, (streams + 1) * hidden, U(c_.engram_columns()) * width);
      Bf16("engram.q_weight", kDense, {streams, hidden});
      Bf16("engram.k_weight", kDense, {streams, hidden});
    }
    SetPrefix("");
  }

  void DraftStage(int stage) {
    constexpr WeightClass kDraft = WeightClass::kDraft;
    const uint64_t hidden = U(c_.hidden_size);
    const uint64_t rank = U(c_.dspark_markov_rank);
    SetPrefix("mtp." + std::to_string(stage) + ".");
    Block(c_.dspark_n_routed_experts, kDraft, kDraft);
    if (stage == 0) {
      Fp8("main_proj", kDraft, hidden, c_.dspark_target_layer_ids.size() * hidden);
      Bf16("main_norm.weight", kDraft, {hidden});
    }
    if (stage == c_.num_nextn_predict_layers - 1) {
      Bf16("norm.weight", kDraft, {hidden});
      Bf16("markov_head.embed.weight", kDraft, {U(c_.vocab_size), rank});
      Bf16("markov_head.head.weight", kDraft, {U(c_.vocab_size), rank});
      Bf16("confidence_head.proj.weight", kDraft, {1, hidden + rank});
    }
    SetPrefix("");
  }

  void Vision(const VisionConfig& v) {
    constexpr WeightClass kVision = WeightClass::kVision;
    const uint64_t dim = U(v.hidden_size);
    const uint64_t hidden = U(c_.hidden_size);
    const uint64_t inner = U(v.intermediate_size);
    const uint64_t cells = U(v.downsample_ratio) * U(v.downsample_ratio);
    Bf16("vision.patch_embed.proj.weight", kVision, {dim, 3 * U(v.patch_size) * U(v.patch_size)});
    Bf16("vision.patch_embed.proj.bias", kVision, {dim});
    for (int b = 0; b < v.num_hidden_layers; ++b) {
      SetPrefix("vision.blocks." + std::to_string(b) + ".");
      Bf16("norm1.weight", kVision, {dim});
      Bf16("norm2.weight", kVision, {dim});
      Bf16("attn.wqkv.weight", kVision, {3 * dim, dim});
      Bf16("attn.wqkv.bias", kVision, {3 * dim});
      Bf16("attn.wo.weight", kVision, {dim, dim});
      Bf16("attn.wo.bias", kVision, {dim});
      Bf16("mlp.w1.weight", kVision, {2 * inner, dim});
      Bf16("mlp.w2.weight", kVision, {dim, inner});
    }
    SetPrefix("");
    Bf16("vision.norm.weight", kVision, {dim});
    Bf16("aligner.w1.weight", kVision, {hidden, cells * dim});
    Bf16("aligner.w1.bias", kVision, {hidden});
    Bf16("aligner.w2.weight", kVision, {hidden, hidden});
    Bf16("aligner.w2.bias", kVision, {hidden});
    Bf16("image_start", kVision, {hidden});
    Bf16("image_end", kVision, {hidden});
    Bf16("image_newline", kVision, {hidden});
  }

  const ModelConfig& c_;
  const std::function<void(const ExpectedTensor&)>& visit_;
  std::string name_;
  size_t prefix_ = 0;
};

/// Marks which present tensors a configuration accounts for.
class Comparison {
 public:
  Comparison(const Checkpoint& checkpoint, const InventoryOptions& options)
      : checkpoint_(checkpoint), options_(options), claimed_(checkpoint.num_tensors(), false) {}

  InventoryReport Run() {
    ForEachExpectedTensor(checkpoint_.config(), [this](const ExpectedTensor& tensor) { Claim(tensor); });
    for (size_t i = 0; i < claimed_.size(); ++i) {
      if (claimed_[i]) continue;
      const std::string_view name = checkpoint_.tensor(i).name;
      if (!IsOptional(ClassifyTensor(name))) report_.unexpected.emplace_back(name);
    }
    std::sort(report_.missing.begin(), report_.missing.end());
    std::sort(report_.mismatched.begin(), report_.mismatched.end(),
              [](const TensorMismatch& a, const TensorMismatch& b) { return a.name < b.name; });
    return std::move(report_);
  }

 private:
  bool IsOptional(WeightClass c) const {
    return (c == WeightClass::kDraft && !options_.draft) || (c == WeightClass::kVision && !options_.vision);
  }

  bool SameDtype(StorageDtype expected, StorageDtype found) const {
    if (expected == found) return true;
    const bool byte_code = expected == StorageDtype::kI8 || expected == StorageDtype::kF8E8M0;
    return options_.accept_u8 && byte_code && found == StorageDtype::kU8;
  }

  void Claim(const ExpectedTensor& expected) {
    const auto index = checkpoint_.FindIndex(expected.name);
    if (!index.has_value()) {
      if (!IsOptional(expected.weight_class) && report_.missing.size() < kMaxListed)
        report_.missing.emplace_back(expected.name);
      return;
    }
    claimed_[*index] = true;
    const TensorInfo found = checkpoint_.tensor(*index);
    if (SameDtype(expected.dtype, found.dtype) &&
        std::equal(expected.shape.begin(), expected.shape.end(), found.shape.begin(), found.shape.end()))
      return;
    report_.mismatched.push_back({std::string(expected.name), DescribeTensor(expected.dtype, expected.shape),
                                  DescribeTensor(found.dtype, found.shape)});
  }

  const Checkpoint& checkpoint_;
  const InventoryOptions& options_;
  std::vector<bool> claimed_;
  InventoryReport report_;
};

bool IsExpertName(std::string_view name) { return name.find(".ffn.experts.") != std::string_view::npos; }

}  // namespace

std::string_view WeightClassName(WeightClass c) {
  constexpr std::array<std::string_view, kNumWeightClasses> kNames = {
      "layers", "routed_experts", "engram_tables", "embed", "head", "vision", "draft"};
  return kNames[static_cast<size_t>(c)];
}

void ForEachExpectedTensor(const ModelConfig& config,
                           const std::function<void(const ExpectedTensor&)>& visit) {
  Lister(config, visit).Run();
}

WeightClass ClassifyTensor(std::string_view name) {
  const auto starts = [name](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; };
  if (starts("mtp.")) return WeightClass::kDraft;
  if (starts("vision.") || starts("aligner.") || starts("image_")) return WeightClass::kVision;
  if (starts("embed.")) return WeightClass::kEmbed;
  if (starts("head.") || starts("norm.")) return WeightClass::kHead;
  if (name.find(".engram.embed.") != std::string_view::npos) return WeightClass::kEngramTables;
  return IsExpertName(name) ? WeightClass::kRoutedExperts : WeightClass::kLayers;
}

void InventoryTotals::Add(WeightClass c, StorageDtype d, uint64_t bytes, bool routed_expert) {
  const auto add = [bytes](ClassTotal& total) {
    ++total.tensors;
    total.bytes += bytes;
  };
  add(all);
  add(by_class[static_cast<size_t>(c)]);
  add(by_dtype[static_cast<size_t>(d)]);
  if (c == WeightClass::kDraft && routed_expert) add(draft_experts);
}

InventoryTotals ExpectedTotals(const ModelConfig& config) {
  InventoryTotals totals;
  ForEachExpectedTensor(config, [&totals](const ExpectedTensor& t) {
    totals.Add(t.weight_class, t.dtype, t.num_bytes(), t.routed_expert);
  });
  return totals;
}

InventoryTotals PresentTotals(const Checkpoint& checkpoint) {
  InventoryTotals totals;
  for (size_t i = 0; i < checkpoint.num_tensors(); ++i) {
    const TensorInfo t = checkpoint.tensor(i);
    totals.Add(ClassifyTensor(t.name), t.dtype, t.num_bytes, IsExpertName(t.name));
  }
  return totals;
}

Status InventoryReport::ToStatus() const {
  if (sound()) return OkStatus();
  constexpr size_t kShown = 3;
  std::string message = std::to_string(missing.size()) + " tensors missing, " +
                        std::to_string(unexpected.size()) + " unexpected, " +
                        std::to_string(mismatched.size()) + " of another dtype or shape";
  for (size_t i = 0; i < std::min(kShown, missing.size()); ++i) message += "; missing " + missing[i];
  for (size_t i = 0; i < std::min(kShown, unexpected.size()); ++i) message += "; unexpected " + unexpected[i];
  for (size_t i = 0; i < std::min(kShown, mismatched.size()); ++i) {
    message +=
        "; " + mismatched[i].name + " is " + mismatched[i].found + " instead of " + mismatched[i].expected;
  }
  return DataLoss(std::move(message));
}

InventoryReport CheckInventory(const Checkpoint& checkpoint, const InventoryOptions& options) {
  return Comparison(checkpoint, options).Run();
}

}  // namespace deepinfer
