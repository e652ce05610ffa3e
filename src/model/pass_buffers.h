// Scratch memory of forward passes, allocated once for the largest pass.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "checkpoint/config.h"
#include "kernels/ops.h"
#include "tensor/aligned_buffer.h"

namespace deepinfer::model {

/// A typed array inside an AlignedBuffer of its own.
template <typename T>
class Array {
 public:
  Status Allocate(int64_t count) {
    DEEPINFER_ASSIGN_OR_RETURN(buffer_, AlignedBuffer::Allocate(static_cast<size_t>(count) * sizeof(T)));
    return OkStatus();
  }
  T* data() { return buffer_.as<T>(); }
  T& operator[](int64_t i) { return data()[i]; }

 private:
  AlignedBuffer buffer_;
};

/// T = max_rows; other symbols as in kernels/ops.h.
struct PassBuffers {
  // Rows: what each active row is.
  Array<int32_t> ids, positions, seq, given_row;  // [T]
  Array<uint8_t> is_image;                        // [T]
  Array<float> cos[2], sin[2];                    // [T, F]: ratio 0, ratio > 0

  // Streams and hyper-connections.
  Array<Bf16> streams;                       // [T, n, D]
  Array<float> pre_in, pre, post, comb;      // [T, n], [T, n, n]
  Array<Bf16> collapsed, x, x_grid, y, tap;  // [T, D]

  // Attention.
  Array<Bf16> qr, q_latent_grid, low_rank;                // [T, q_lora], [T, q_lora], [T, G*o_lora]
  Array<Bf16> q, heads;                                   // [T, H*d]
  Array<Bf16> kv;                                         // [T, d]
  Array<uint8_t> window_codes, window_scales;             // [T, d], [T, d/32]
  Array<int32_t> tail_seq, tail_position;                 // [T]
  Array<float> content, gate;                             // [T, d]
  Array<Bf16> latent, entry_rows, index_keys;             // [T, d], [T, d], [T, di]
  Array<int32_t> entry_seq, entry_index, entry_position;  // [T]
  Array<float> entry_cos, entry_sin;                      // [T, F]
  Array<Bf16> index_q, head_weights;                      // [T, h*di], [T, h]
  Array<int32_t> visible;                                 // [T]
  Array<float> scores;                                    // score_floats
  Array<int32_t> topk, candidates;                        // [T, k], [T, max_candidates]
  int64_t score_floats = 0;

  // Experts and Engram.
  Array<float> route_scores, topk_weights;  // [T, E], [T, k]
  Array<int32_t> topk_ids;                  // [T, k]
  Array<Bf16> shared;                       // [T, D], observers only
  Array<int64_t> engram_row_ids;            // [T, columns]
  Array<Bf16> engram_rows, engram_kv;       // [T, columns*width], [T, (n+1)*D]
  Array<float> engram_gate;                 // [T, n]

  AlignedBuffer workspace;

  /// Errors: kResourceExhausted.
  Status Allocate(const ModelConfig& config, int64_t max_rows, const kernels::Ops& ops);
};

/// Floats of one tile of index scores (the scores of a pass are made and used tile by tile).
inline constexpr int64_t kScoreTileFloats = int64_t{4} << 20;

}  // namespace deepinfer::model
