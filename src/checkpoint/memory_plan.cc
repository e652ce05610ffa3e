#include "checkpoint/memory_plan.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/checked.h"

namespace deepinfer {
namespace {

constexpr int64_t kPartAlignment = 128;
constexpr int64_t kMaxBytes = int64_t{1} << 60;

struct DeviceName {
  std::string_view name;
  uint64_t mebibytes;  // as the driver reports
};
constexpr std::array<DeviceName, 5> kDevices = {
    {{"h200", 143771}, {"h100", 81559}, {"h800", 81559}, {"h20", 97871}, {"b200", 183359}}};

/// The four parts of one source's entries in a block: main codes, main scales, index codes, index scales (bytes an entry).
std::array<int64_t, 4> EntryParts(const ModelConfig& c) {
  return {c.head_dim / 2, c.head_dim / 16, c.index_head_dim / 2, c.index_head_dim / 32};
}

std::string Gib(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f GiB", static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0));
  return text;
}

/// Product, held below a bound that still adds up in 63 bits: what large requests ask for must not wrap around.
uint64_t BoundedProduct(uint64_t a, uint64_t b) {
  constexpr auto kBound = static_cast<uint64_t>(kMaxBytes);
  return std::min(CheckedMul(a, b).value_or(kBound), kBound);
}

Status InRange(int64_t value, int64_t low, int64_t high, std::string_view field) {
  if (value >= low && value <= high) return OkStatus();
  return InvalidArgument(
      std::to_string(value) + " is not within " + std::to_string(low) + " … " + std::to_string(high),
      std::string(field));
}

Status CheckRequest(const ModelConfig& config, const PlanRequest& r) {
  DEEPINFER_RETURN_IF_ERROR(InRange(r.num_devices, 0, 4096, "gpus"));
  if (r.num_devices > 0) {
    DEEPINFER_RETURN_IF_ERROR(
        InRange(static_cast<int64_t>(std::min<uint64_t>(r.device_bytes, INT64_MAX)), 1, kMaxBytes, "gpu"));
  }
  if (r.host_bytes.has_value()) {
    DEEPINFER_RETURN_IF_ERROR(InRange(static_cast<int64_t>(std::min<uint64_t>(*r.host_bytes, INT64_MAX)), 1,
                                      kMaxBytes, "host-memory"));
  }
  if (!(r.utilisation > 0 && r.utilisation <= 1))
    return InvalidArgument("must be above 0 and at most 1", "utilisation");
  DEEPINFER_RETURN_IF_ERROR(InRange(r.context, 1, config.max_position_embeddings, "context"));
  DEEPINFER_RETURN_IF_ERROR(InRange(r.sequences, 1, 10'000'000, "sequences"));
  return InRange(r.draft, -1, std::max(config.dspark_block_size, 0), "draft");
}

/// One placement tried out.
class Planner {
 public:
  Planner(const ModelConfig& config, const PlanRequest& request, const InventoryTotals& totals)
      : c_(config), r_(request), totals_(totals), draft_(request.draft != 0 && config.has_draft()) {
    dense_ = totals_.of(WeightClass::kLayers).bytes + totals_.of(WeightClass::kEmbed).bytes +
             totals_.of(WeightClass::kHead).bytes + totals_.of(WeightClass::kVision).bytes;
    if (draft_) dense_ += totals_.of(WeightClass::kDraft).bytes - totals_.draft_experts.bytes;
  }

  bool draft() const { return draft_; }
  uint64_t dense() const { return dense_; }
  uint64_t engram_tables() const { return totals_.of(WeightClass::kEngramTables).bytes; }

  /// Routed experts of the fullest of `devices` devices: whole experts, spread evenly.
  uint64_t Experts(uint64_t devices) const {
    const auto share = [devices](uint64_t bytes, int experts) {
      return experts == 0 ? 0
                          : bytes / static_cast<uint64_t>(experts) *
                                CeilDiv<uint64_t>(static_cast<uint64_t>(experts), devices);
    };
    const uint64_t draft = draft_ ? share(totals_.draft_experts.bytes, c_.dspark_n_routed_experts) : 0;
    return share(totals_.of(WeightClass::kRoutedExperts).bytes, c_.n_routed_experts) + draft;
  }

  /// Table rows of the fullest device.
  uint64_t EngramShare(uint64_t devices) const {
    const auto row_bytes = static_cast<uint64_t>(c_.engram_head_dim + c_.engram_head_dim / 32);
    uint64_t bytes = 0;
    for (const int64_t rows : c_.engram_num_embeddings)
      bytes += CeilDiv(static_cast<uint64_t>(rows), devices) * row_bytes;
    return bytes;
  }

  uint64_t SequenceBytes(int64_t context) const {
    const int64_t blocks = CeilDiv(context, kKvBlockTokens);
    return static_cast<uint64_t>(blocks * KvBlockBytes(c_) + SequenceStateBytes(c_, draft_));
  }

  /// Logits in fp32 of the rows that a sequence adds to a step.
  uint64_t LogitsBytes() const {
    const int64_t draft_rows = !draft_ ? 0 : r_.draft < 0 ? c_.dspark_block_size : r_.draft;
    return static_cast<uint64_t>((1 + draft_rows) * c_.vocab_size * 4);
  }

  /// Activations of one pass: two copies of the streams, queries and attention outputs, output latents, the tokens' expert inputs,
  /// inner activations and outputs, all in bf16.
  uint64_t ActivationBytes() const {
    const int64_t per_row =
        2 * c_.hc_mult * c_.hidden_size + 2 * c_.num_attention_heads * c_.head_dim +
        c_.o_groups * c_.o_lora_rank +
        (c_.num_experts_per_tok + 1) * (2 * c_.hidden_size + 3 * c_.moe_intermediate_size);
    return static_cast<uint64_t>(kPlannedRows * per_row * 2);
  }

  /// Fills rows for one placement; true when everything fits.
  bool Try(EngramPlacement placement, MemoryPlan* plan) const {
    plan->engram = placement;
    plan->mapped_weights = false;
    plan->host = HostRow();
    plan->devices.clear();
    if (r_.num_devices == 0) return TryHostOnly(placement, plan);

    const auto devices = static_cast<uint64_t>(r_.num_devices);
    const auto sequences = CeilDiv<uint64_t>(static_cast<uint64_t>(r_.sequences), devices);
    PlanRow row;
    row.total = r_.device_bytes;
    row.usable = Usable(r_.device_bytes);
    row.weights = dense_ + Experts(devices);
    row.engram = placement == EngramPlacement::kDevice ? EngramShare(devices) : 0;
    row.kv = BoundedProduct(sequences, SequenceBytes(r_.context));
    row.workspace = ActivationBytes() + BoundedProduct(sequences, LogitsBytes());
    plan->devices.assign(devices, row);
    if (placement == EngramPlacement::kHost) plan->host.engram = engram_tables();
    return row.free() >= 0 && (!r_.host_bytes.has_value() || plan->host.free() >= 0);
  }

  /// Sequences that fit beside the weights, for one context length.
  int64_t MaxSequences(const MemoryPlan& plan, int64_t context) const {
    PlanRow row = plan.devices.empty() ? plan.host : plan.devices.front();
    if (plan.devices.empty() && !r_.host_bytes.has_value()) return 0;
    row.kv = 0;
    row.workspace = ActivationBytes();
    const bool host_fits = plan.devices.empty() || !r_.host_bytes.has_value() || plan.host.free() >= 0;
    if (row.free() < 0 || !host_fits) return 0;
    const auto each = static_cast<int64_t>(SequenceBytes(context) + LogitsBytes());
    return row.free() / each * std::max(r_.num_devices, 1);
  }

 private:
  uint64_t Usable(uint64_t bytes) const {
    return static_cast<uint64_t>(static_cast<double>(bytes) * r_.utilisation);
  }

  PlanRow HostRow() const {
    PlanRow row;
    row.total = r_.host_bytes.value_or(0);
    row.usable = Usable(row.total);
    return row;
  }

  bool TryHostOnly(EngramPlacement placement, MemoryPlan* plan) const {
    PlanRow& host = plan->host;
    const auto sequences = static_cast<uint64_t>(r_.sequences);
    host.weights = dense_ + Experts(1);
    host.engram = placement == EngramPlacement::kDisk ? 0 : engram_tables();
    host.kv = BoundedProduct(sequences, SequenceBytes(r_.context));
    host.workspace = ActivationBytes() + BoundedProduct(sequences, LogitsBytes());
    if (!r_.host_bytes.has_value() || host.free() >= 0) return true;
    if (placement != EngramPlacement::kDisk) return false;
    // The last resort: what can be mapped from the files is; only the dense part must stay in memory.
    host.weights = dense_;
    plan->mapped_weights = true;
    return host.free() >= 0;
  }

  const ModelConfig& c_;
  const PlanRequest& r_;
  const InventoryTotals& totals_;
  bool draft_;
  uint64_t dense_ = 0;
};

std::string RowArithmetic(const PlanRow& row) {
  std::string text = "weights " + Gib(row.weights);
  if (row.engram > 0) text += " + Engram " + Gib(row.engram);
  text += " + caches " + Gib(row.kv) + " + workspace " + Gib(row.workspace) + " = " + Gib(row.used());
  if (row.total == 0) return text;
  return text + (row.free() >= 0 ? " of " : ", more than ") + Gib(row.usable) + " usable (" + Gib(row.total) +
         " in all)";
}

void Explain(const PlanRequest& request, const Planner& planner, MemoryPlan* plan) {
  if (plan->devices.empty()) {
    plan->reason = "host: " + RowArithmetic(plan->host);
  } else {
    plan->reason = "each of " + std::to_string(plan->devices.size()) +
                   " devices: " + RowArithmetic(plan->devices.front());
    if (plan->engram == EngramPlacement::kHost) {
      plan->reason += "; host: Engram " + Gib(plan->host.engram);
      if (request.host_bytes.has_value()) {
        plan->reason +=
            (plan->host.free() >= 0 ? " of " : ", more than ") + Gib(plan->host.usable) + " usable";
      }
    }
  }
  if (plan->mapped_weights) {
    plan->reason += "; routed experts " + Gib(planner.Experts(1)) + " stay in the files";
  }
  if (plan->engram == EngramPlacement::kDisk && planner.engram_tables() > 0) {
    plan->reason += "; Engram " + Gib(planner.engram_tables()) + " stays on disk";
  }
  if (!plan->fits) {
    plan->verdict = "does not fit";
  } else if (plan->mapped_weights) {
    plan->verdict = "fits with routed experts and Engram memory-mapped";
  } else if (planner.engram_tables() == 0 || plan->engram == EngramPlacement::kDevice) {
    plan->verdict = "fits";
  } else if (plan->engram == EngramPlacement::kHost) {
    plan->verdict = plan->devices.empty() ? "fits" : "fits with Engram in host memory";
  } else {
    plan->verdict = "fits with Engram on disk";
  }
}

std::vector<EngramPlacement> Candidates(const PlanRequest& request) {
  if (request.engram != EngramPlacement::kAuto) return {request.engram};
  if (request.num_devices == 0) return {EngramPlacement::kHost, EngramPlacement::kDisk};
  return {EngramPlacement::kDevice, EngramPlacement::kHost, EngramPlacement::kDisk};
}

}  // namespace

int64_t KvBytesPerToken(const ModelConfig& config) {
  int64_t per_block = 0;
  for (const int source : config.kv_source_layer_ids) {
    for (const int64_t part : EntryParts(config))
      per_block += part * (kKvBlockTokens / config.compress_ratio(source));
  }
  return CeilDiv(per_block, kKvBlockTokens);
}

int64_t KvBlockBytes(const ModelConfig& config) {
  int64_t bytes = 0;
  for (const int source : config.kv_source_layer_ids) {
    const int64_t entries = kKvBlockTokens / config.compress_ratio(source);
    for (const int64_t part : EntryParts(config)) bytes += RoundUp(part * entries, kPartAlignment);
  }
  return bytes;
}

int64_t SequenceStateBytes(const ModelConfig& config, bool draft) {
  const int64_t rings = config.num_hidden_layers + (draft ? config.num_nextn_predict_layers : 0);
  const int64_t row = config.head_dim + config.head_dim / 32;
  int64_t tails = 0;
  for (const int source : config.kv_source_layer_ids) {
    if (config.compress_ratio(source) > 1) tails += kTailRows * 2 * config.head_dim * 4;
  }
  return rings * (config.sliding_window + kRollbackRows) * row + tails;
}

std::string_view EngramPlacementName(EngramPlacement placement) {
  constexpr std::array<std::string_view, 4> kNames = {"auto", "device", "host", "disk"};
  return kNames[static_cast<size_t>(placement)];
}

Result<EngramPlacement> ParseEngramPlacement(std::string_view name) {
  for (const auto placement :
       {EngramPlacement::kAuto, EngramPlacement::kDevice, EngramPlacement::kHost, EngramPlacement::kDisk}) {
    if (EngramPlacementName(placement) == name) return placement;
  }
  return InvalidArgument("must be auto, device, host or disk", "engram");
}

Result<uint64_t> ParseDeviceMemory(std::string_view text) {
  std::string known;
  for (const DeviceName& device : kDevices) {
    if (device.name == text) return device.mebibytes << 20;
    known += std::string(device.name) + ", ";
  }
  const Status unknown = InvalidArgument(
      "must be " + known + "or a number of bytes with an optional KiB, MiB, GiB, TiB, KB, MB, GB or TB",
      std::string(text.substr(0, 40)));
  uint64_t value = 0;
  size_t digits = 0;
  for (; digits < text.size() && digits < 18 && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    value = value * 10 + static_cast<uint64_t>(text[digits] - '0');
  }
  const std::string_view unit = text.substr(digits);
  constexpr std::array<std::pair<std::string_view, uint64_t>, 10> kUnits = {
      {{"", 1},
       {"B", 1},
       {"KiB", uint64_t{1} << 10},
       {"MiB", uint64_t{1} << 20},
       {"GiB", uint64_t{1} << 30},
       {"TiB", uint64_t{1} << 40},
       {"KB", 1000},
       {"MB", 1000 * 1000},
       {"GB", 1000 * 1000 * 1000},
       {"TB", uint64_t{1000} * 1000 * 1000 * 1000}}};
  const auto it =
      std::find_if(kUnits.begin(), kUnits.end(), [unit](const auto& u) { return u.first == unit; });
  if (digits == 0 || it == kUnits.end()) return unknown;
  const auto bytes = CheckedMul(value, it->second);
  if (!bytes.has_value() || *bytes == 0 || *bytes > static_cast<uint64_t>(kMaxBytes)) return unknown;
  return *bytes;
}

Result<MemoryPlan> PlanMemory(const ModelConfig& config, const PlanRequest& request) {
  DEEPINFER_RETURN_IF_ERROR(CheckRequest(config, request));
  MemoryPlan plan;
  plan.totals = ExpectedTotals(config);
  plan.tensors = plan.totals.all.tensors;
  plan.bytes = plan.totals.all.bytes;
  const Planner planner(config, request, plan.totals);
  plan.per_token_bytes = KvBytesPerToken(config);
  plan.per_sequence_bytes = SequenceStateBytes(config, planner.draft());
  for (const EngramPlacement placement : Candidates(request)) {
    plan.fits = planner.Try(placement, &plan);
    if (plan.fits) break;
  }
  Explain(request, planner, &plan);
  for (const int64_t context :
       {int64_t{8192}, int64_t{32768}, int64_t{131072}, int64_t{1048576}, request.context}) {
    if (context > config.max_position_embeddings) continue;
    plan.max_sequences_at[context] = planner.MaxSequences(plan, context);
  }
  return plan;
}

}  // namespace deepinfer
