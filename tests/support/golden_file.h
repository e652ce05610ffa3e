// Reads golden data: a safetensors file with its manifest, or the shards of a small checkpoint. For tests only: whatever is wrong
// with a file is thrown as std::runtime_error with the file and tensor, which GoogleTest reports as a failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tensor/dtype.h"

namespace deepinfer::testing {

/// One tensor of a golden file. `bytes` is aligned to 16 and lives as long as the GoldenFile.
struct GoldenTensor {
  std::string dtype;  // safetensors name: BF16, F32, I32, U8, BOOL, F8_E4M3, …
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::string tolerance;  // class named by the manifest ("exact", "bf16", …); empty without a manifest
  std::string note;

  int64_t num_elements() const;
  /// Product of all dimensions after the first.
  int64_t row_size() const;
};

class GoldenFile {
 public:
  GoldenFile(GoldenFile&&) = default;
  GoldenFile& operator=(GoldenFile&&) = default;
  GoldenFile(const GoldenFile&) = delete;
  GoldenFile& operator=(const GoldenFile&) = delete;
  ~GoldenFile() = default;

  /// DIR/STEM.safetensors with DIR/STEM.json.
  static GoldenFile Load(const std::string& dir, const std::string& stem);
  /// Every *.safetensors of a checkpoint folder, merged; no manifest.
  static GoldenFile LoadCheckpoint(const std::string& dir);
  /// goldens/STEM of the test data, loaded once per process.
  static const GoldenFile& Shared(const std::string& stem);
  /// goldens/FOLDER (a checkpoint) of the test data, loaded once per process.
  static const GoldenFile& SharedCheckpoint(const std::string& folder);

  bool Has(std::string_view name) const { return tensors_.contains(name); }
  /// Sorted names that begin with `prefix`.
  std::vector<std::string> Names(std::string_view prefix = {}) const;
  const GoldenTensor& Get(std::string_view name) const;

  /// Elements of a tensor; throws unless the stored type matches T (uint8_t reads every one-byte type and BOOL).
  std::span<const Bf16> Bf16s(std::string_view name) const;
  std::span<const float> Floats(std::string_view name) const;
  std::span<const int32_t> Ints(std::string_view name) const;
  std::span<const uint8_t> Bytes(std::string_view name) const;

  /// The whole manifest (null for a checkpoint).
  const json::Value& manifest() const { return manifest_; }
  /// noise.PROMPT.FIGURE of the manifest; a dot inside FIGURE descends ("state_mismatch.ring").
  std::optional<double> Noise(std::string_view prompt, std::string_view figure) const;

  /// Bookkeeping: tests call MarkCompared for what they checked; a last test asks for what nobody looked at.
  void MarkCompared(std::string_view name) const;
  const std::set<std::string, std::less<>>& compared() const { return compared_; }
  std::vector<std::string> NotCompared(std::string_view prefix = {}) const;

 private:
  GoldenFile() = default;
  void AddSafetensors(const std::string& path);
  void AddManifest(const std::string& path);
  template <typename T>
  std::span<const T> Typed(std::string_view name, std::initializer_list<std::string_view> dtypes) const;

  std::string name_;
  std::vector<std::vector<std::byte>> storage_;  // one buffer a tensor: keeps them aligned
  std::map<std::string, GoldenTensor, std::less<>> tensors_;
  json::Value manifest_;
  mutable std::set<std::string, std::less<>> compared_;
};

/// How a result compares with a golden of a tolerance class.
struct Comparison {
  int64_t elements = 0;
  int64_t differing = 0;
  double max_abs = 0;     // largest |a - b|
  double max_excess = 0;  // largest |a - b| / max(1, |b|)
  double rms = 0;         // of the golden
  std::string ToString() const;
};
Comparison Compare(std::span<const Bf16> got, std::span<const Bf16> want);
Comparison Compare(std::span<const float> got, std::span<const float> want);

/// Class "bf16" of the manifests: at most 2 % of the elements differ and none by more than 0.1 rms.
bool WithinBf16Class(const Comparison& c);
/// Class "fp32": |a-b| <= 1e-5 max(1, |b|).
bool WithinFp32Class(const Comparison& c);

}  // namespace deepinfer::testing
