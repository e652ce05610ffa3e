#include "engine/memory_check.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/file.h"
#include "checkpoint/memory_plan.h"

namespace deepinfer {
namespace {

constexpr int64_t kPlannedContext = 8192;

std::string Size(uint64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1 << 20);
  return mebibytes < 1024 ? fmt::format("{:.2f} MiB", mebibytes)
                          : fmt::format("{:.2f} GiB", mebibytes / 1024);
}

/// Routed experts that a token goes through, all layers.
uint64_t ExpertBytesPerToken(const ModelConfig& config, const MemoryPlan& plan) {
  if (config.n_routed_experts <= 0) return 0;
  return plan.totals.of(WeightClass::kRoutedExperts).bytes / static_cast<uint64_t>(config.n_routed_experts) *
         static_cast<uint64_t>(config.num_experts_per_tok);
}

/// Engram rows that a token looks up, all layers: codes and scales.
uint64_t EngramBytesPerToken(const ModelConfig& config) {
  const int64_t row = config.engram_head_dim + config.engram_head_dim / 32;
  return config.engram_layer_ids.size() * static_cast<uint64_t>(config.engram_columns() * row);
}

}  // namespace

Result<std::string> CheckMemory(const ModelConfig& config, std::optional<uint64_t> host_bytes) {
  if (!host_bytes) return std::string();
  PlanRequest request;
  request.host_bytes = host_bytes;
  request.context = std::min<int64_t>(kPlannedContext, config.max_position_embeddings);
  request.draft = 0;
  DEEPINFER_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(config, request));
  if (!plan.fits) {
    return ResourceExhausted(fmt::format("the model does not fit in memory: {}", plan.reason))
        .WithHint("deepinfer plan, which shows what it needs");
  }
  const bool engram_mapped =
      plan.engram == EngramPlacement::kDisk && plan.totals.of(WeightClass::kEngramTables).bytes > 0;
  if (!plan.mapped_weights && !engram_mapped) return std::string();
  uint64_t bytes = engram_mapped ? EngramBytesPerToken(config) : 0;
  if (plan.mapped_weights) bytes += ExpertBytesPerToken(config, plan);
  const std::string_view what = !plan.mapped_weights ? "Engram tables stay"
                                : engram_mapped      ? "routed experts and Engram tables stay"
                                                     : "routed experts stay";
  return fmt::format(
      "the model is larger than the memory: {} memory-mapped, and every token reads up to {} of them from "
      "the "
      "files ({})",
      what, Size(bytes), plan.reason);
}

std::optional<uint64_t> HostMemoryBytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return std::nullopt;
  uint64_t bytes = static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {  // "max" is no number
    const Result<std::string> text = ReadFile(path, 4096);
    uint64_t limit = 0;
    if (text.ok() && std::from_chars(text->data(), text->data() + text->size(), limit).ec == std::errc() &&
        limit > 0)
      bytes = std::min(bytes, limit);
  }
  return bytes;
}

}  // namespace deepinfer
