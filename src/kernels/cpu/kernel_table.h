// The SIMD bodies of the CPU back end, compiled once a target. Ordinary code (ops_*.cc) splits the work, walks lists and carves
// the workspace; everything that adds floating-point numbers lies behind this table.
//
// "Pair order": SIMD code reads bf16 values two to a 32-bit lane, so 2N consecutive values become one vector of the N even ones and
// one of the N odd ones (N = float lanes of the target). Float tiles made by these kernels keep that order: value 2N*j + 2l stands
// at 2N*j + l and value 2N*j + 2l + 1 at 2N*j + N + l. Rows of a tile are padded with zeros to a multiple of kTileAlign.
#pragma once

#include <cstdint>

#include "kernels/ops.h"
#include "tensor/dtype.h"

namespace deepinfer::kernels {

inline constexpr int64_t kKBlock = 512;    // inputs of a weight row that are expanded together
inline constexpr int64_t kSumBlock = 128;  // inputs whose products are added in float lanes, then to a double
inline constexpr int64_t kSlotRun = 16;    // slots whose weighted keys are added in float, then to a double
inline constexpr int64_t kPanel = 8;       // output features expanded together
inline constexpr int64_t kFeatureTile =
    32;  // output features of one unit of work (a whole FP8 group of the next product)
inline constexpr int64_t kRowTile = 96;    // rows of one unit of work
inline constexpr int64_t kTileAlign = 32;  // >= 2N of every target
inline constexpr int64_t kSlotBlock = 64;  // key slots of one softmax block (spec: model.md §8.8)
inline constexpr int64_t kHeadTile = 16;   // heads that share a decoded key block
inline constexpr int64_t kEntryTile = 32;  // index keys decoded together

/// Rows of bf16 inputs: row i is base + index[i] * stride, index[i] = i when null.
struct RowSource {
  const Bf16* base = nullptr;
  int64_t stride = 0;
  const int32_t* index = nullptr;
  const Bf16* Row(int64_t i) const { return base + (index == nullptr ? i : index[i]) * stride; }
};

/// sums[r * kFeatureTile + c] = x row r . weight row (out_begin + c), c < out_count.
struct ProductArgs {
  bool wide = false;     // products and sums in double throughout (DotRowsWide)
  bool to_bf16 = false;  // sums near a tie of the rounding to bf16 are computed again in double
  RowSource x;
  int64_t rows = 0;  // <= kRowTile
  WeightView weight;
  int64_t out_begin = 0;
  int64_t out_count = 0;   // <= kFeatureTile
  float* panel = nullptr;  // scratch [kPanel, kKBlock]
  double* sums = nullptr;  // out [rows, kFeatureTile]
};

/// sums[r * sums_stride + c] += x row r . tile row c; rows of the tile in pair order.
struct TileDotArgs {
  RowSource x;
  int64_t rows = 0;
  const float* tile = nullptr;
  int64_t tile_stride = 0;
  int64_t columns = 0;  // multiple of 8 rows are read: the tile must hold them
  int64_t k = 0;
  double* sums = nullptr;
  int64_t sums_stride = 0;
};

struct SwigluTileArgs {
  const double* gate = nullptr;  // [rows, kFeatureTile]
  const double* up = nullptr;    // [rows, kFeatureTile]
  int64_t rows = 0;
  float limit = 0;                 // 0 = no clamp
  const float* weights = nullptr;  // [rows] routing weights, null = 1
  Bf16* out = nullptr;             // kFeatureTile values a row
  int64_t out_stride = 0;
};

struct HcEpilogueArgs {
  int64_t rows = 0, hc_mult = 0;
  int sinkhorn_iters = 0;
  float hc_eps = 0;
  const double* mixes = nullptr;  // [rows, n(n+2)] fn . v
  const double* rms = nullptr;    // [rows] rsqrt(mean(v^2) + eps)
  const float* scale = nullptr;   // [3]
  const float* base = nullptr;    // [n(n+2)]
  float* pre = nullptr;
  float* post = nullptr;
  float* comb = nullptr;
};

/// One key of an attention list or of the indexer.
struct KeySlot {
  enum Kind : uint8_t { kNone, kFp8, kFp4Main, kFp4Index, kBf16 };
  const void* data = nullptr;
  const uint8_t* scales = nullptr;
  Kind kind = kNone;
};

/// Running softmax of up to kHeadTile heads of one row.
struct AttendState {
  const Bf16* q = nullptr;  // [heads, dim]
  int64_t heads = 0, dim = 0;
  int64_t tile_stride = 0;  // dim rounded up to kTileAlign
  float scale = 0;
  float* tile = nullptr;     // [kSlotBlock, tile_stride] decoded keys, pair order
  double* scores = nullptr;  // [kHeadTile, kSlotBlock]
  double* max = nullptr;     // [kHeadTile]
  double* sum = nullptr;     // [kHeadTile] denominators, the sink once attend_finish ran
  double* acc = nullptr;     // [kHeadTile, tile_stride], pair order
  float* p = nullptr;        // [kHeadTile, kSlotBlock] of the block at hand
  double* alpha = nullptr;   // [kHeadTile] what the block at hand multiplied the sums before it by
  int32_t* ties = nullptr;   // [kHeadTile * dim] head * dim + channel of the outputs near a tie
};

/// scores of `rows` rows against one tile of keys, from the dots of every head.
struct ScoreTileArgs {
  const double* dots = nullptr;  // [heads, kEntryTile] of one row
  const Bf16* w = nullptr;       // [heads]
  int64_t heads = 0;
  ScoreRounding rounding = ScoreRounding::kReference;
  float* scores = nullptr;  // out [kEntryTile]
};

struct KernelTable {
  // Products (product_kernels.cc).
  void (*product)(const ProductArgs& a);
  void (*tile_dot)(const TileDotArgs& a);
  void (*store_tile)(const double* sums, int64_t rows, int64_t columns, Bf16* y, float* y_f32,
                     int64_t stride);
  void (*swiglu_tile)(const SwigluTileArgs& a);
  /// y = bf16(sum of parts in order, then + last).
  void (*sum_rows)(const Bf16* const* parts, int64_t num_parts, const Bf16* last, int64_t dim, Bf16* y);
  /// y[i] = sqrt(softplus(x[i] / temp)).
  void (*sqrt_softplus)(const double* x, int64_t count, float temp, float* y);

  // Rows (row_kernels.cc).
  void (*rms_norm)(const Bf16* x, const Bf16* weight, int64_t dim, float eps, Bf16* y);
  void (*fake_quantize)(const Bf16* x, int64_t dim, QuantScheme scheme, Bf16* y);
  void (*rope)(Bf16* x, const float* cos, const float* sin, int64_t num_freqs, bool inverse);
  double (*sum_squares)(const Bf16* x, int64_t dim);
  void (*hc_epilogue)(const HcEpilogueArgs& a);
  void (*hc_collapse)(const Bf16* streams, const float* pre, int64_t hc_mult, int64_t hidden, Bf16* y);
  void (*hc_expand)(const Bf16* y, const Bf16* streams, const float* post, const float* comb, int64_t hc_mult,
                    int64_t hidden, Bf16* out);
  void (*stream_mean)(const Bf16* streams, int64_t hc_mult, int64_t hidden, Bf16* y);
  void (*compressor_pool)(const float* const* content, const float* const* gate, int64_t ratio, int64_t dim,
                          Bf16* latent);
  /// Gate of one stream (returned) and its gated addition; `key` and `value` are rows of D.
  float (*engram_gate)(Bf16* stream, const Bf16* key, const Bf16* value, const Bf16* q_weight,
                       const Bf16* k_weight, int64_t hidden, float norm_eps);

  // Attention (attention_kernels.cc) and indexer (index_kernels.cc).
  void (*decode_keys)(const KeySlot* slots, int64_t count, int64_t dim, float* tile, int64_t tile_stride);
  void (*attend_block)(const AttendState& s, const KeySlot* slots, int64_t count);
  /// Returns the number of outputs so near a tie that the error of the weighted sums could decide their rounding; lists them.
  int64_t (*attend_finish)(const AttendState& s, const float* sink, Bf16* out);
  double (*exact_weights)(const AttendState& s, int64_t head, const KeySlot* slots, int64_t count);
  void (*score_tile)(const ScoreTileArgs& a);
};

/// Each fills its part of the table for a Highway target bit; false when that target was not compiled.
bool FillProductKernels(int64_t target, KernelTable& table);
bool FillRowKernels(int64_t target, KernelTable& table);
bool FillAttentionKernels(int64_t target, KernelTable& table);
bool FillIndexKernels(int64_t target, KernelTable& table);

}  // namespace deepinfer::kernels
