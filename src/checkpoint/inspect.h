// What `inspect` shows: soundness, digest, statistics, verification (spec: cli.md "inspect", checkpoint.md §11). The command line prints
// these structures.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/inventory.h"

namespace deepinfer {

struct InspectReport {
  std::string format;  // "safetensors"
  int shards = 0;
  std::optional<ModelConfig> config;  // when it could be read
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  InventoryTotals totals;             // of what is present
  InventoryReport inventory;          // empty when the folder could not be opened
  std::vector<std::string> problems;  // other faults, among them what kept the folder from being opened
  std::string hint;                   // what to do about them; may be empty
  bool sound = false;
  std::string digest;  // hexadecimal SHA-256 of configuration, index and headers; empty when not opened
};

/// Reads configuration, index and headers. An unsound folder is a report with sound = false, not an error. Errors: kNotFound (no
/// such folder or no config.json), kIo and kResourceExhausted (the environment's).
Result<InspectReport> InspectFolder(const std::string& dir, const OpenOptions& options = {},
                                    const InventoryOptions& inventory = {});

/// The same for an open checkpoint.
InspectReport Inspect(const Checkpoint& checkpoint, const InventoryOptions& inventory = {});

/// Whether `name` matches a pattern with `*` (any characters) and `?` (one character).
bool MatchesGlob(std::string_view pattern, std::string_view name);

/// Positions of the tensors whose names match, in the order of the names.
std::vector<size_t> SelectTensors(const Checkpoint& checkpoint, std::string_view glob);

/// Figures of one tensor after decoding: packed FP4 and E4M3 values times their block scale.
struct TensorStats {
  uint64_t elements = 0;
  uint64_t nan = 0;  // left out of the other figures
  double min = 0;    // min, max and mean are 0 when there is no number
  double max = 0;
  double mean = 0;
};

/// Reads a tensor once, in pieces of about 1 MiB. Errors: kInvalidArgument (a dtype without decoder), kIo, kDataLoss.
Result<TensorStats> ComputeTensorStats(const Checkpoint& checkpoint, const TensorInfo& tensor);

struct VerifiedFile {
  std::string name;
  uint64_t bytes = 0;
  std::string sha256;    // empty when the file could not be read
  std::string expected;  // empty without a manifest
  std::string problem;   // empty when all is well
  bool ok() const { return problem.empty(); }
};

/// Elements of a tensor whose stored code is no finite number: NaN codes of E4M3 and E8M0, NaN and infinity of BF16 and F32.
struct NotFinite {
  std::string tensor;
  uint64_t count = 0;
};

struct VerifyReport {
  std::vector<VerifiedFile> files;
  std::vector<NotFinite> not_finite;  // in the order of the shards and of the offsets
  bool sound = true;
};

/// Called with bytes read so far and in all; returning false ends the work with kCancelled.
using VerifyProgress = std::function<bool(uint64_t done, uint64_t total)>;

/// Reads every file completely and looks for stored codes that are no finite number. `manifest` holds lines as `sha256sum` writes
/// them, with names relative to the folder; without it configuration, index and shards are read and their digests reported. Shards
/// that a manifest leaves out are read for their codes alone. Errors: kDataLoss (not such a manifest), kCancelled.
Result<VerifyReport> VerifyFiles(const Checkpoint& checkpoint, const std::optional<std::string>& manifest,
                                 const VerifyProgress& progress = nullptr);

}  // namespace deepinfer
