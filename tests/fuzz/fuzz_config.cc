// What ParseConfig accepts must be valid, must read back equal, and all arithmetic on it must stay in range.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "checkpoint/config.h"
#include "checkpoint/engram_constants.h"
#include "checkpoint/memory_plan.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace deepinfer;
  const auto config = ParseConfig(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!config.ok()) return 0;
  Require(Validate(*config).ok());
  const auto again = ParseConfig(SerializeConfig(*config));
  Require(again.ok() && *again == *config);
  Require(ComputeEngramConstants(*config).ok());
  Require(KvBytesPerToken(*config) >= 0 && KvBlockBytes(*config) >= KvBytesPerToken(*config));
  Require(SequenceStateBytes(*config, true) >= SequenceStateBytes(*config, false));
  // Listing a million tensors takes too long to do it for every input.
  const int64_t experts = int64_t{config->num_hidden_layers} * config->n_routed_experts;
  if (experts > 10'000 || config->num_nextn_predict_layers * config->dspark_n_routed_experts > 10'000)
    return 0;
  PlanRequest request;
  request.num_devices = 1;
  request.device_bytes = uint64_t{1} << 37;
  request.context = config->max_position_embeddings;
  const auto plan = PlanMemory(*config, request);
  Require(plan.ok());
  Require(plan->bytes == plan->totals.all.bytes);
  return 0;
}
