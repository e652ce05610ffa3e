// Does a model fit: pure arithmetic from the configuration and a description of the machine, before any weight is read
// (spec: cli.md "plan", deepinfer.md §4.9, model.md §11, serving.md §3.2).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/config.h"
#include "checkpoint/inventory.h"

namespace deepinfer {

/// Tokens of a block of global KV.
inline constexpr int64_t kKvBlockTokens = 128;
/// Rows that a window ring keeps beyond the window, so that this many can be dropped again.
inline constexpr int64_t kRollbackRows = 12;
/// Open compressor rows kept per source, with room for the same rollback.
inline constexpr int64_t kTailRows = 16;
/// Rows of one forward pass that the workspace estimate assumes.
inline constexpr int64_t kPlannedRows = 2048;

/// Bytes of global KV per token, all sources, without padding: 890 for the released model. Rounded up.
int64_t KvBytesPerToken(const ModelConfig& config);
/// Bytes of one block of kKvBlockTokens tokens, every part padded to 128 bytes: 113,920 for the released model.
int64_t KvBlockBytes(const ModelConfig& config);
/// Fixed bytes of a sequence: window rings of window + 12 rows in all layers and, with `draft`, in all draft stages, and the
/// compressor tails of 16 rows per source with ratio 2.
int64_t SequenceStateBytes(const ModelConfig& config, bool draft);

/// Where the Engram tables live.
enum class EngramPlacement : uint8_t {
  kAuto,    // the first of the following that fits
  kDevice,  // spread over the devices
  kHost,    // one copy in host memory
  kDisk,    // rows are read from the checkpoint's files
};
std::string_view EngramPlacementName(EngramPlacement placement);
/// Errors: kInvalidArgument listing the names.
Result<EngramPlacement> ParseEngramPlacement(std::string_view name);

/// Memory of a device by its name ("h200": 143,771 MiB, as the driver reports) or as a number with an optional KiB, MiB, GiB, TiB,
/// KB, MB, GB or TB. Errors: kInvalidArgument listing the known names.
Result<uint64_t> ParseDeviceMemory(std::string_view text);

struct PlanRequest {
  int num_devices = 0;  // 0: everything runs on the host's processors
  uint64_t device_bytes = 0;
  double utilisation = 0.9;            // share of a device's and of the host's memory that may be used
  std::optional<uint64_t> host_bytes;  // nothing: not checked
  EngramPlacement engram = EngramPlacement::kAuto;
  int64_t context = 8192;  // tokens per sequence
  int64_t sequences = 1;   // at the same time, over all devices
  int draft = -1;  // draft tokens per step; 0 = no draft, its weights stay out; -1 = the model's block size
};

/// One device or the host, in bytes. `total` and `usable` are 0 when the memory is not known.
struct PlanRow {
  uint64_t total = 0;
  uint64_t usable = 0;
  uint64_t weights = 0;  // without Engram tables
  uint64_t engram = 0;
  uint64_t kv = 0;         // global KV and sequence state
  uint64_t workspace = 0;  // estimate: activations of kPlannedRows rows, logits of all sequences

  uint64_t used() const { return weights + engram + kv + workspace; }
  int64_t free() const { return static_cast<int64_t>(usable) - static_cast<int64_t>(used()); }
};

struct MemoryPlan {
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  InventoryTotals totals;
  int64_t per_token_bytes = 0;
  int64_t per_sequence_bytes = 0;
  EngramPlacement engram = EngramPlacement::kDevice;  // as chosen
  std::vector<PlanRow> devices;
  PlanRow host;
  bool fits = false;
  bool mapped_weights = false;  // without devices: routed experts and Engram are mapped from the files
  std::string verdict;          // "fits", "fits with …", "does not fit"
  std::string reason;           // the arithmetic, in GiB
  std::map<int64_t, int64_t>
      max_sequences_at;  // context in tokens -> sequences at the same time; 0 when not even the weights fit
};

/// Layout: every device has the dense part and its own sequences; routed experts (and Engram tables, when on the devices) are spread.
/// `config` has passed Validate. Errors: kInvalidArgument naming the field out of range.
Result<MemoryPlan> PlanMemory(const ModelConfig& config, const PlanRequest& request);

}  // namespace deepinfer
