// One forward pass: rows of several chunks through all layers. Internal to the module.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/engram_constants.h"
#include "kernels/ops.h"
#include "model/backbone.h"
#include "model/pass_buffers.h"
#include "model/weights.h"

namespace deepinfer::model {

/// What every pass of a backbone shares.
struct BackboneParts {
  ModelConfig config;
  ModelPlan plan;
  std::shared_ptr<const StateLayout> layout;
  std::unique_ptr<Weights> weights;
  std::shared_ptr<const kernels::Ops> ops;
  ThreadPool* pool = nullptr;
  EngramConstants engram;
  std::vector<int32_t> token_map;
  std::vector<float> freqs[2];  // ratio 0, ratio > 0
  kernels::ScoreRounding score_rounding = kernels::ScoreRounding::kReference;
  int64_t max_rows = 0;
  PassBuffers buffers;
  OperationCounts counts;
};

/// Rows of one chunk that are still active: always a suffix of the chunk, standing together in the row arrays.
struct ActiveChunk {
  int64_t begin = 0;  // first row in the arrays
  int32_t first = 0;  // position of that row
  int32_t end = 0;    // one past the chunk's last position
  int64_t rows() const { return end - first; }
};

class ForwardPass {
 public:
  /// The chunks have been validated and their sequences prepared for writing.
  ForwardPass(BackboneParts* parts, std::span<const Chunk> chunks, std::span<ChunkOutput> outputs, bool taps,
              Observer* observer);

  void Run();

 private:
  // forward_pass.cc
  void PrepareRows();
  void EmbedRows();
  void ApplyEngram(int layer);
  void TakeTap(int layer);
  bool RunLayer(int layer);
  void RunFfn(int layer);
  void KeepRowsFrom(const std::vector<int32_t>& first);
  void ComputeLogits();
  void HcMixes(const HcWeights& weights);
  void HcExpand();
  void Collapse(const float* pre, Bf16* out, int64_t rows);

  // forward_attention.cc
  void ProduceEntries(int layer);
  int64_t ListGroups(int64_t ratio);
  void MakeLatents(int layer, int64_t groups);
  void PoolLatents(int layer, int64_t groups);
  void CommitTails();
  void ObserveEntries(int layer, int64_t groups);
  void ProduceWindow(int layer);
  void WindowRows(int layer, int64_t from, int64_t to, int64_t count);
  void CommitWindow(int layer);
  void Attend(int layer);

  // forward_selection.cc
  void SelectEntries(int layer);
  void SelectChunk(int layer, size_t chunk);
  void ScoreAndSelect(int layer, int64_t row, int64_t rows);
  void ListAllVisible(int64_t row, int64_t rows, bool candidates);
  int64_t ScoreTileColumns(int layer, int64_t last_row) const;

  // Small wrappers.
  int64_t rows() const { return rows_; }
  void Linear(const Bf16* x, const kernels::WeightView& weight, Bf16* y, int64_t rows, int64_t groups = 1);
  void LinearF32(const Bf16* x, const kernels::WeightView& weight, float* y, int64_t rows);
  void RmsNorm(const Bf16* x, const Bf16* weight, int64_t dim, Bf16* y, int64_t rows);
  void FakeQuantize(const Bf16* x, int64_t dim, kernels::QuantScheme scheme, Bf16* y, int64_t rows);
  void Rope(Bf16* x, int64_t heads, int64_t dim, const float* cos, const float* sin, int64_t rows,
            bool inverse);

  // Observers: `name` follows "layers.N.".
  void Observe(int layer, const char* name, Bf16* data, std::initializer_list<int64_t> shape);
  void Observe(int layer, const char* name, float* data, std::initializer_list<int64_t> shape);
  void Observe(int layer, const char* name, int32_t* data, std::initializer_list<int64_t> shape);
  void Observe(int layer, const char* name, int64_t* data, std::initializer_list<int64_t> shape);

  BackboneParts& parts_;
  const ModelConfig& config_;
  PassBuffers& b_;
  kernels::OpContext ctx_;
  const kernels::Ops& ops_;
  std::span<const Chunk> chunks_;
  std::span<ChunkOutput> outputs_;
  bool taps_;
  Observer* observer_;

  int64_t rows_ = 0;  // active rows of all chunks
  std::vector<ActiveChunk> active_;
  std::vector<PrefillRanges> ranges_;              // per chunk
  std::vector<int32_t> query_from_, window_from_;  // per chunk, of the current layer
  std::vector<int32_t> window_begin_;              // per chunk: first staged position of the current layer
  std::vector<int64_t> staged_;                    // per chunk: staged row of that position
  std::vector<kernels::WindowView> windows_;
  std::vector<kernels::TailView> tails_;
  std::vector<kernels::BlockTable> blocks_;
  std::vector<kernels::AttentionSequence> attention_;
};

}  // namespace deepinfer::model
