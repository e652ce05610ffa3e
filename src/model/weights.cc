#include "model/weights.h"

#include <algorithm>
#include <string>

#include "base/checked.h"
#include "tensor/quantize.h"

namespace deepinfer::model {

using kernels::WeightFormat;
using kernels::WeightView;

/// Finds tensors by name, checks dtype and shape, copies dense ones. The first error is kept and ends the load.
class WeightLoader {
 public:
  WeightLoader(Weights* weights, const Weights::Progress& progress)
      : weights_(*weights),
        checkpoint_(*weights->checkpoint_),
        config_(checkpoint_.config()),
        progress_(progress) {}

  Status Run() {
    const int64_t vocab = config_.vocab_size, hidden = config_.hidden_size;
    CountBytes();
    weights_.embed = Bf16Tensor("embed.weight", {vocab, hidden});
    weights_.norm = Bf16Tensor("norm.weight", {hidden});
    weights_.head = Bf16Matrix("head.weight", vocab, hidden);
    weights_.layers.resize(static_cast<size_t>(config_.num_hidden_layers));
    for (int layer = 0; layer < config_.num_hidden_layers && status_.ok(); ++layer) {
      prefix_ = "layers." + std::to_string(layer) + ".";
      LoadLayer(layer, &weights_.layers[static_cast<size_t>(layer)]);
    }
    if (status_.ok()) status_ = checkpoint_.CheckMaps();
    return std::move(status_);
  }

 private:
  enum class Residency { kDense, kMapped };

  void LoadLayer(int layer, LayerWeights* w) {
    const int64_t hidden = config_.hidden_size, experts = config_.n_routed_experts;
    w->attn_norm = Bf16Tensor("attn_norm.weight", {hidden});
    w->ffn_norm = Bf16Tensor("ffn_norm.weight", {hidden});
    w->hc_attn = Hc("hc_attn_");
    w->hc_ffn = Hc("hc_ffn_");
    LoadAttention(layer, &w->attn);
    w->gate = Bf16Matrix("ffn.gate.weight", experts, hidden);
    w->gate_bias = FloatTensor("ffn.gate.bias", {experts});
    w->gate_bias_vl = FloatTensor("ffn.gate.bias_vl", {experts});
    w->shared = Expert("ffn.shared_experts.", WeightFormat::kFp8Tile32, Residency::kDense);
    for (int64_t e = 0; e < experts && status_.ok(); ++e) {
      w->experts.push_back(
          Expert("ffn.experts." + std::to_string(e) + ".", WeightFormat::kFp4Row32, Residency::kMapped));
    }
    if (config_.engram_index(layer) >= 0) LoadEngram(layer, &w->engram);
  }

  void LoadAttention(int layer, AttentionWeights* w) {
    const int64_t hidden = config_.hidden_size, heads = config_.num_attention_heads, d = config_.head_dim;
    const int64_t low_rank = config_.o_groups * config_.o_lora_rank;
    w->wq_a = Fp8Matrix("attn.wq_a", config_.q_lora_rank, hidden);
    w->q_norm = Bf16Tensor("attn.q_norm.weight", {config_.q_lora_rank});
    w->wq_b = Fp8Matrix("attn.wq_b", heads * d, config_.q_lora_rank);
    w->wkv = Fp8Matrix("attn.wkv", d, hidden);
    w->kv_norm = Bf16Tensor("attn.kv_norm.weight", {d});
    w->sink = FloatTensor("attn.attn_sink", {heads});
    w->wo_a = Fp8Matrix("attn.wo_a", low_rank, heads * d / config_.o_groups);
    w->wo_b = Fp8Matrix("attn.wo_b", hidden, low_rank);
    const bool source = config_.is_kv_source(layer);
    if (source) {
      w->compressor.wkv = Bf16Matrix("attn.compressor.wkv.weight", d, hidden);
      if (config_.compress_ratio(layer) > 1)
        w->compressor.wgate = Bf16Matrix("attn.compressor.wgate.weight", d, hidden);
      w->compressor.norm = Bf16Tensor("attn.compressor.norm.weight", {d});
      w->indexer.wk = Bf16Matrix("attn.indexer.wk.weight", config_.index_head_dim, d);
      w->indexer.k_norm = Bf16Tensor("attn.indexer.k_norm.weight", {config_.index_head_dim});
    }
    if (config_.is_index_source(layer)) {
      w->indexer.wq_b =
          Fp8Matrix("attn.indexer.wq_b", config_.index_n_heads * config_.index_head_dim, config_.q_lora_rank);
      w->indexer.weights_proj = Bf16Matrix("attn.indexer.weights_proj.weight", config_.index_n_heads, hidden);
    }
  }

  void LoadEngram(int layer, EngramWeights* w) {
    const int64_t n = config_.hc_mult, hidden = config_.hidden_size, width = config_.engram_head_dim;
    w->table_rows = config_.engram_num_embeddings[static_cast<size_t>(config_.engram_index(layer))];
    w->codes = Mapped("engram.embed.weight", StorageDtype::kF8E4M3, {w->table_rows, width});
    w->scales = Mapped("engram.embed.scale", StorageDtype::kF8E8M0, {w->table_rows, width / kQuantGroup});
    w->wkv = Fp8Matrix("engram.wkv", (n + 1) * hidden, config_.engram_columns() * width);
    w->q_weight = Bf16Tensor("engram.q_weight", {n, hidden});
    w->k_weight = Bf16Tensor("engram.k_weight", {n, hidden});
  }

  HcWeights Hc(const std::string& name) {
    const int64_t n = config_.hc_mult, mixes = n * (n + 2);
    return {FloatTensor(name + "fn", {mixes, n * config_.hidden_size}), FloatTensor(name + "base", {mixes}),
            FloatTensor(name + "scale", {3})};
  }

  kernels::ExpertWeights Expert(const std::string& name, WeightFormat format, Residency residency) {
    const int64_t hidden = config_.hidden_size, inner = config_.moe_intermediate_size;
    return {Quantized(name + "w1", inner, hidden, format, residency),
            Quantized(name + "w3", inner, hidden, format, residency),
            Quantized(name + "w2", hidden, inner, format, residency)};
  }

  WeightView Fp8Matrix(const std::string& name, int64_t out, int64_t in) {
    return Quantized(name, out, in, WeightFormat::kFp8Tile32, Residency::kDense);
  }

  WeightView Quantized(const std::string& name, int64_t out, int64_t in, WeightFormat format,
                       Residency residency) {
    const bool fp4 = format == WeightFormat::kFp4Row32;
    const StorageDtype dtype = fp4 ? StorageDtype::kI8 : StorageDtype::kF8E4M3;
    const int64_t in_groups = CeilDiv(in, int64_t{kQuantGroup});
    const int64_t scale_rows = fp4 ? out : CeilDiv(out, int64_t{kQuantGroup});
    const int64_t code_columns = fp4 ? in / 2 : in;
    const auto take = residency == Residency::kDense ? &WeightLoader::Dense : &WeightLoader::Mapped;
    const uint8_t* codes = (this->*take)(name + ".weight", dtype, {out, code_columns});
    const uint8_t* scales = (this->*take)(name + ".scale", StorageDtype::kF8E8M0, {scale_rows, in_groups});
    return {format, codes, scales, out, in};
  }

  WeightView Bf16Matrix(const std::string& name, int64_t out, int64_t in) {
    return {WeightFormat::kBf16, Dense(name, StorageDtype::kBf16, {out, in}), nullptr, out, in};
  }
  const Bf16* Bf16Tensor(const std::string& name, std::initializer_list<int64_t> shape) {
    return reinterpret_cast<const Bf16*>(Dense(name, StorageDtype::kBf16, shape));
  }
  const float* FloatTensor(const std::string& name, std::initializer_list<int64_t> shape) {
    return reinterpret_cast<const float*>(Dense(name, StorageDtype::kF32, shape));
  }

  /// The mapped bytes after the checks; null (and status_ set) when there is an error.
  const uint8_t* Mapped(const std::string& name, StorageDtype dtype, std::initializer_list<int64_t> shape) {
    const std::optional<TensorInfo> info = Check(name, dtype, shape);
    if (!info.has_value()) return nullptr;
    Result<TensorRef> ref = checkpoint_.Map(*info);
    if (!ref.ok()) {
      status_ = std::move(ref).status();
      return nullptr;
    }
    return reinterpret_cast<const uint8_t*>(ref->bytes.data());
  }

  /// An aligned copy of the tensor.
  const uint8_t* Dense(const std::string& name, StorageDtype dtype, std::initializer_list<int64_t> shape) {
    const std::optional<TensorInfo> info = Check(name, dtype, shape);
    if (!info.has_value()) return nullptr;
    Result<AlignedBuffer> buffer = AlignedBuffer::Allocate(info->num_bytes);
    if (!buffer.ok()) {
      status_ = std::move(buffer).status().Within(std::string(info->name));
      return nullptr;
    }
    status_ = checkpoint_.Read(*info, 0, buffer->bytes());
    if (!status_.ok()) return nullptr;
    bytes_done_ += info->num_bytes;
    if (progress_) progress_(bytes_done_, bytes_total_);
    weights_.dense_.push_back(std::move(*buffer));
    return reinterpret_cast<const uint8_t*>(weights_.dense_.back().data());
  }

  std::optional<TensorInfo> Check(const std::string& name, StorageDtype dtype,
                                  std::initializer_list<int64_t> shape) {
    if (!status_.ok()) return std::nullopt;
    const std::string full = prefix_ + name;
    std::optional<TensorInfo> info = checkpoint_.FindInfo(full);
    const std::vector<uint64_t> expected(shape.begin(), shape.end());
    if (!info.has_value()) {
      status_ = DataLoss("the checkpoint has no such tensor", full);
    } else if (info->dtype != dtype ||
               !std::equal(expected.begin(), expected.end(), info->shape.begin(), info->shape.end())) {
      status_ = DataLoss("the tensor is " + DescribeTensor(info->dtype, info->shape) + ", expected " +
                             DescribeTensor(dtype, expected),
                         full);
    }
    return status_.ok() ? info : std::nullopt;
  }

  /// Bytes that will be copied: all but mapped tensors and those of other parts (draft, vision).
  void CountBytes() {
    for (size_t i = 0; i < checkpoint_.num_tensors(); ++i) {
      const TensorInfo info = checkpoint_.tensor(i);
      const bool backbone = info.name.starts_with("layers.") || info.name == "embed.weight" ||
                            info.name == "head.weight" || info.name == "norm.weight";
      const bool mapped = info.name.find(".experts.") != std::string_view::npos ||
                          info.name.find(".engram.embed.") != std::string_view::npos;
      if (backbone && !mapped) bytes_total_ += info.num_bytes;
    }
  }

  Weights& weights_;
  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const Weights::Progress& progress_;
  std::string prefix_;
  uint64_t bytes_done_ = 0, bytes_total_ = 0;
  Status status_;
};

Result<std::unique_ptr<Weights>> Weights::Load(std::shared_ptr<Checkpoint> checkpoint,
                                               const Progress& progress) {
  auto weights = std::make_unique<Weights>();
  weights->checkpoint_ = std::move(checkpoint);
  DEEPINFER_RETURN_IF_ERROR(WeightLoader(weights.get(), progress).Run());
  return weights;
}

}  // namespace deepinfer::model
