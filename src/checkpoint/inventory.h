// Which tensors a configuration asks for, and how a checkpoint compares (spec: checkpoint.md §4, §6, §11).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"

namespace deepinfer {

/// Classes of checkpoint.md §6.
enum class WeightClass : uint8_t {
  kLayers,         // backbone layers without routed experts and Engram tables
  kRoutedExperts,  // of the backbone layers
  kEngramTables,   // weight and scale of both tables
  kEmbed,          // embed.weight
  kHead,           // head.weight and norm.weight
  kVision,         // vision.*, aligner.* and the three image vectors
  kDraft,          // mtp.*
};
inline constexpr int kNumWeightClasses = 7;
/// Key in JSON output: "layers", "routed_experts", "engram_tables", "embed", "head", "vision", "draft".
std::string_view WeightClassName(WeightClass c);

/// One tensor that a configuration asks for. Views are valid during the visitor's call only.
struct ExpectedTensor {
  std::string_view name;
  StorageDtype dtype = StorageDtype::kU8;
  std::span<const uint64_t> shape;
  WeightClass weight_class = WeightClass::kLayers;
  bool routed_expert = false;  // also for draft experts

  uint64_t num_bytes() const { return *TensorBytes(dtype, shape); }
};

/// Calls `visit` for every tensor, part by part: embedding, layers ascending, final norm and head, draft stages, vision.
/// `config` has passed Validate.
void ForEachExpectedTensor(const ModelConfig& config,
                           const std::function<void(const ExpectedTensor&)>& visit);

/// The class of a tensor by its name alone.
WeightClass ClassifyTensor(std::string_view name);

struct ClassTotal {
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  friend bool operator==(const ClassTotal&, const ClassTotal&) = default;
};

/// Sums over a set of tensors.
struct InventoryTotals {
  ClassTotal all;
  std::array<ClassTotal, kNumWeightClasses> by_class = {};
  std::array<ClassTotal, kNumStorageDtypes> by_dtype = {};
  ClassTotal draft_experts;  // part of kDraft

  const ClassTotal& of(WeightClass c) const { return by_class[static_cast<size_t>(c)]; }
  const ClassTotal& of(StorageDtype d) const { return by_dtype[static_cast<size_t>(d)]; }
  void Add(WeightClass c, StorageDtype d, uint64_t bytes, bool routed_expert);
};

/// What the configuration asks for. `config` has passed Validate.
InventoryTotals ExpectedTotals(const ModelConfig& config);
/// What the checkpoint holds.
InventoryTotals PresentTotals(const Checkpoint& checkpoint);

struct InventoryOptions {
  bool draft = true;       // false: `mtp.*` may be there or not
  bool vision = true;      // false: vision tensors may be there or not
  bool accept_u8 = false;  // U8 in place of I8 and F8_E8M0, as some re-publishers write
};

struct TensorMismatch {
  std::string name;
  std::string expected;  // "F8_E4M3 [1280, 5120]"
  std::string found;
};

/// All differences at once, each list in the order of the names.
struct InventoryReport {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<TensorMismatch> mismatched;

  bool sound() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
  /// Ok, or kDataLoss with the counts and the first few names of each list.
  Status ToStatus() const;
};

/// Compares names, dtypes and shapes. When a configuration that asks for far more tensors than the checkpoint has was put beside it,
/// `missing` is cut after 200,000 names.
InventoryReport CheckInventory(const Checkpoint& checkpoint, const InventoryOptions& options = {});

}  // namespace deepinfer
