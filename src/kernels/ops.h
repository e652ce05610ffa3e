// Every operation of the model: one parameter struct and one function each (spec: design.md §4). `model` calls nothing else;
// back ends (`reference/`, `cpu/`, later GPUs) implement `Ops`.
//
// Symbols
//   T   rows of a call (ragged: rows of many sequences after each other)      D   hidden_size
//   n   hc_mult, residual streams                                              H   attention heads, d head_dim
//   R   rotated channels (the last R of a head), F = R/2 frequencies           h   index heads, di index_head_dim
//   E   routed experts, k experts (or entries) chosen                          V   vocabulary
//
// Rules that hold for every operation
//   * Rows are independent: the bits of row t depend on row t's operands and on its own sequence only, never on T, on the other
//     rows, on where a chunk begins or on the number of threads. Each back end documents its order of additions (its header).
//   * Rounding points are those of spec: model.md §3: between two of them `reference` computes in double; how near
//     others come is written in their header.
//   * T = 0 is allowed everywhere. Pointers may be unaligned for bytes; Bf16, float and integers have their natural alignment.
//   * Operand and result must not overlap unless the struct says "in place".
//   * No operation allocates (except `reference`, the oracle): scratch memory is `OpContext::workspace`, sized by WorkspaceBytes.
//   * Positions are absolute, 0-based. `seq[t]` indexes the `sequences` array of the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/thread_pool.h"
#include "tensor/dtype.h"

namespace deepinfer::kernels {

/// What a call runs on: threads and scratch memory (128-byte aligned).
struct OpContext {
  ThreadPool* pool = nullptr;
  std::span<std::byte> workspace;
};

/// Largest shapes that an Ops object will be called with; sizes the workspace.
struct WorkspaceLimits {
  int64_t max_rows = 0;          // T of any call
  int64_t hidden_size = 0;       // D
  int64_t hc_mult = 0;           // n
  int64_t max_in_features = 0;   // widest K of any linear (groups included)
  int64_t max_out_features = 0;  // widest N of any linear
  int64_t moe_intermediate_size = 0;
  int64_t num_experts = 0;        // E
  int64_t experts_per_token = 0;  // k
  int64_t num_heads = 0, head_dim = 0;
  int64_t max_list = 0;  // longest key list: window + index_topk
  int64_t index_heads = 0, index_head_dim = 0;
  int64_t max_entries = 0;  // most score columns of any row
};

// ---------------------------------------------------------------------------------------------------------------------
// Weights
// ---------------------------------------------------------------------------------------------------------------------

enum class WeightFormat : uint8_t {
  kBf16,       // data Bf16 [N, K]
  kFp32,       // data float [N, K]
  kFp8Tile32,  // data E4M3 [N, K], scales E8M0 [ceil(N/32), ceil(K/32)]       (spec: checkpoint.md §5.2)
  kFp4Row32,   // data packed E2M1 [N, K/2], scales E8M0 [N, K/32]             (spec: checkpoint.md §5.3)
};

/// A weight matrix [N = out_features, K = in_features], row-major, as stored; never expanded in memory.
struct WeightView {
  WeightFormat format = WeightFormat::kBf16;
  const void* data = nullptr;
  const uint8_t* scales = nullptr;
  int64_t out_features = 0;
  int64_t in_features = 0;
};

// ---------------------------------------------------------------------------------------------------------------------
// Rows, normalisation, linears
// ---------------------------------------------------------------------------------------------------------------------

/// streams[t][0..n-1] = embedding row of ids[t], or given[given_row[t]] where given_row[t] >= 0 (image rows).  spec: model.md §6
struct EmbedParams {
  int64_t rows = 0, hidden = 0, hc_mult = 0;
  const int32_t* ids = nullptr;        // [T], each in [0, V)
  const Bf16* table = nullptr;         // [V, D]
  const int32_t* given_row = nullptr;  // [T] or null
  const Bf16* given = nullptr;         // [*, D]
  Bf16* streams = nullptr;             // out [T, n, D]
};

/// y = bf16(w * (x * rsqrt(mean(x^2) + eps))).  spec: model.md §5.1
struct RmsNormParams {
  int64_t rows = 0, dim = 0;
  const Bf16* x = nullptr;       // [T, dim]
  const Bf16* weight = nullptr;  // [dim]
  float eps = 0;
  Bf16* y = nullptr;  // out [T, dim]; may be x
};

enum class QuantScheme : uint8_t { kFp8Act, kFp4Index };

/// y = the values code * scale of x's quantisation in groups of 32 (exact in bf16).  spec: model.md §4.3, §4.4
struct FakeQuantizeParams {
  int64_t rows = 0, dim = 0;  // dim % 32 == 0
  QuantScheme scheme = QuantScheme::kFp8Act;
  const Bf16* x = nullptr;  // [T, dim]
  Bf16* y = nullptr;        // out [T, dim]; may be x
};

/// y[t, o] = sum_k x[t, k] * W[o, k], rounded once to bf16 (`y`) or kept as float (`y_f32`); exactly one of them is set.
/// The input of FP8 and FP4 products has been put on the FP8 grid before (FakeQuantize), which makes this the product of
/// spec: model.md §4.5, §4.6. With groups = G the weight is block-diagonal: output features [g*N/G, (g+1)*N/G) read the g-th K of
/// the G*K inputs (attention output, spec: model.md §8.9).
struct LinearParams {
  int64_t rows = 0;
  int64_t groups = 1;
  const Bf16* x = nullptr;  // [T, G*K]
  WeightView weight;        // [N, K], N % G == 0
  Bf16* y = nullptr;        // out [T, N]
  float* y_f32 = nullptr;   // out [T, N]
  /// y_f32 only: the sums are rounded correctly, because what follows rounds to bf16. Logits do without.
  bool correctly_rounded = false;
};

// ---------------------------------------------------------------------------------------------------------------------
// Rotary embedding
// ---------------------------------------------------------------------------------------------------------------------

/// cos and sin of the fp32 angle fp32(position) * freqs[i], evaluated in double, rounded to float.  spec: model.md §5.2
struct RopeTablesParams {
  int64_t rows = 0, num_freqs = 0;
  const int32_t* positions = nullptr;  // [T]
  const float* freqs = nullptr;        // [F]
  float* cos = nullptr;                // out [T, F]
  float* sin = nullptr;                // out [T, F]
};

/// Rotates the last R = 2F channels of every head, adjacent pairs as complex numbers; inverse uses -sin.  spec: model.md §5.3
struct RopeParams {
  int64_t rows = 0, heads = 1, dim = 0, num_freqs = 0;
  const float* cos = nullptr;  // [T, F]
  const float* sin = nullptr;  // [T, F]
  bool inverse = false;
  Bf16* x = nullptr;  // in place [T, heads, dim]
};

// ---------------------------------------------------------------------------------------------------------------------
// Hyper-connections
// ---------------------------------------------------------------------------------------------------------------------

/// Mixing weights of one site.  spec: model.md §7.1. comb's first index is the source stream, the second the destination.
struct HcMixesParams {
  int64_t rows = 0, hc_mult = 0, hidden = 0;
  int sinkhorn_iters = 0;
  float hc_eps = 0, norm_eps = 0;
  const Bf16* streams = nullptr;  // [T, n, D]
  const float* fn = nullptr;      // [n(n+2), n*D]
  const float* scale = nullptr;   // [3]
  const float* base = nullptr;    // [n(n+2)]
  float* pre = nullptr;           // out [T, n]
  float* post = nullptr;          // out [T, n]
  float* comb = nullptr;          // out [T, n, n]
};

/// y = bf16(sum_k pre[k] * streams[k]).  spec: model.md §7.2
struct HcCollapseParams {
  int64_t rows = 0, hc_mult = 0, hidden = 0;
  const Bf16* streams = nullptr;  // [T, n, D]
  const float* pre = nullptr;     // [T, n]
  Bf16* y = nullptr;              // out [T, D]
};

/// out[k] = bf16(post[k]*y + sum_j comb[j][k]*streams[j]).  spec: model.md §7.2
struct HcExpandParams {
  int64_t rows = 0, hc_mult = 0, hidden = 0;
  const Bf16* y = nullptr;        // [T, D]
  const Bf16* streams = nullptr;  // [T, n, D]
  const float* post = nullptr;    // [T, n]
  const float* comb = nullptr;    // [T, n, n]
  Bf16* out = nullptr;            // out [T, n, D]; may be streams
};

/// y = bf16(mean over the n streams): a DSpark tap.  spec: model.md §6
struct StreamMeanParams {
  int64_t rows = 0, hc_mult = 0, hidden = 0;
  const Bf16* streams = nullptr;  // [T, n, D]
  Bf16* y = nullptr;              // out [T, D]
};

// ---------------------------------------------------------------------------------------------------------------------
// Sequence state seen by kernels (packed rows: 528 / 288 / 68 bytes in the released model, spec: model.md §11)
// ---------------------------------------------------------------------------------------------------------------------

/// One layer's window KV of one sequence. The row of position p is staged row p - chunk_begin when p >= chunk_begin, else ring slot
/// p mod capacity. Positions below `first` do not exist.
struct WindowView {
  uint8_t* codes = nullptr;   // ring, E4M3 [capacity, d]
  uint8_t* scales = nullptr;  // ring, E8M0 [capacity, d/32]
  int64_t capacity = 0;
  int32_t first = 0;
  int32_t chunk_begin = 0;                // position of the first staged row
  const uint8_t* chunk_codes = nullptr;   // [rows, d]
  const uint8_t* chunk_scales = nullptr;  // [rows, d/32]
};

enum class EntryFormat : uint8_t {
  kFp4Main,   // packed E2M1 [d/2] + E4M3 scales [d/16]
  kFp4Index,  // packed E2M1 [di/2] + E8M0 scales [di/32]
};

/// Where the compressed entries of one source stand inside a global-KV block; equal for all blocks and sequences.
struct EntryLayout {
  EntryFormat format = EntryFormat::kFp4Main;
  int64_t dim = 0;                // d or di
  int64_t entries_per_block = 1;  // block tokens / ratio
  int64_t codes_offset = 0;       // bytes from the block's begin to code row 0; rows follow each other
  int64_t scales_offset = 0;
};

/// Blocks of one sequence: entry j lies in blocks[j / entries_per_block].
struct BlockTable {
  std::byte* const* blocks = nullptr;
};

/// x -> staged packed rows of the window ring.  spec: model.md §8.2
struct QuantizeWindowParams {
  int64_t rows = 0, dim = 0;
  const Bf16* x = nullptr;    // [T, d], rotated
  uint8_t* codes = nullptr;   // out [T, d]
  uint8_t* scales = nullptr;  // out [T, d/32]
};

/// Copies the staged row of each given position into its ring slot. Rows of one sequence have distinct slots.
struct CommitWindowParams {
  int64_t rows = 0, dim = 0;
  const int32_t* seq = nullptr;        // [T]
  const int32_t* positions = nullptr;  // [T], each >= chunk_begin of its sequence
  std::span<const WindowView> sequences;
};

/// Quantises x and writes each row as entry `entries[t]` of sequence `seq[t]`.  spec: model.md §8.4
struct WriteEntriesParams {
  int64_t rows = 0;
  const Bf16* x = nullptr;           // [T, dim]
  const int32_t* seq = nullptr;      // [T]
  const int32_t* entries = nullptr;  // [T]
  EntryLayout layout;
  std::span<const BlockTable> sequences;
};

/// Compressor inputs of one sequence: content and gate rows of recent tokens. Token p is chunk row p - chunk_begin when
/// p >= chunk_begin, else tail slot p mod capacity.
struct TailView {
  float* content = nullptr;  // ring [capacity, d]
  float* gate = nullptr;     // ring [capacity, d]
  int64_t capacity = 0;
  int32_t chunk_begin = 0;
  const float* chunk_content = nullptr;  // [rows, d]
  const float* chunk_gate = nullptr;     // [rows, d]
};

/// latent = bf16(sum over the group's r tokens of softmax(gate) * content), channel-wise.  spec: model.md §8.3
struct CompressorPoolParams {
  int64_t groups = 0, dim = 0, ratio = 0;
  const int32_t* seq = nullptr;      // [groups]
  const int32_t* entries = nullptr;  // [groups] group j: tokens r*j .. r*j + r-1
  std::span<const TailView> sequences;
  Bf16* latent = nullptr;  // out [groups, d]
};

/// Copies chunk rows into the tail ring.
struct CommitTailParams {
  int64_t rows = 0, dim = 0;
  const int32_t* seq = nullptr;        // [T]
  const int32_t* positions = nullptr;  // [T]
  std::span<const TailView> sequences;
};

// ---------------------------------------------------------------------------------------------------------------------
// Indexer
// ---------------------------------------------------------------------------------------------------------------------

enum class ScoreRounding : uint8_t {
  kReference,  // dot, product with w and sum each rounded to bf16 (default everywhere; spec: open-questions.md 3)
  kFp32,
};

/// w = bf16(w * factor): second rounding of the head weights.  spec: model.md §8.6 [corrected]
struct ScaleParams {
  int64_t count = 0;
  double factor = 1;
  Bf16* x = nullptr;  // in place [count]
};

/// scores[t, c] = sum_h relu(q[t,h] . key) * w[t,h] for the entry that column c stands for, -inf when it is not visible.
/// Without candidates column c is entry c, c < columns. With candidates column c is entry
/// candidates[t][c / B] * B + c % B, -inf where the list has -1.  spec: model.md §8.6
struct IndexerScoresParams {
  int64_t rows = 0, heads = 0, dim = 0;
  int64_t columns = 0;      // score columns of every row; with candidates: max_candidates * candidate_block
  int64_t row_stride = 0;   // floats between rows of scores, >= columns
  const Bf16* q = nullptr;  // [T, h, di], on the FP4 grid
  const Bf16* w = nullptr;  // [T, h]
  const int32_t* seq = nullptr;      // [T]
  const int32_t* visible = nullptr;  // [T] n_vis
  EntryLayout layout;                // kFp4Index
  std::span<const BlockTable> sequences;
  const int32_t* candidates = nullptr;  // [T, max_candidates] block ids ascending, -1 padded; or null
  int64_t max_candidates = 0, candidate_block = 0;
  ScoreRounding rounding = ScoreRounding::kReference;
  float* scores = nullptr;  // out [T, row_stride]
};

/// The min(k, columns) best entries of each row that are visible and have a score above -inf, ties to the lower entry, then
/// ascending, -1 padded. +0 and -0 are equal. Columns stand for entries as in IndexerScores.  spec: model.md §8.7
struct SelectTopKParams {
  int64_t rows = 0, columns = 0, row_stride = 0, k = 0;
  const float* scores = nullptr;        // [T, row_stride]
  const int32_t* visible = nullptr;     // [T]
  const int32_t* candidates = nullptr;  // as above or null
  int64_t max_candidates = 0, candidate_block = 0;
  int32_t* topk = nullptr;  // out [T, k]
};

/// The min(max_candidates, blocks) best blocks of B consecutive entries by their best score, the newest visible one always among
/// them, blocks without a score above -inf never; ties to the lower block; ascending, -1 padded.  spec: model.md §8.7
struct SelectCandidatesParams {
  int64_t rows = 0, columns = 0, row_stride = 0;
  int64_t max_candidates = 0, candidate_block = 0;
  const float* scores = nullptr;     // [T, row_stride]
  const int32_t* visible = nullptr;  // [T]
  int32_t* candidates = nullptr;     // out [T, max_candidates]
};

// ---------------------------------------------------------------------------------------------------------------------
// Attention
// ---------------------------------------------------------------------------------------------------------------------

/// Window and compressed entries of one sequence, K = V.
struct AttentionSequence {
  WindowView window;
  BlockTable entries;
};

/// Sparse attention with sink.  spec: model.md §8.8. The key list of row t is canonical: window positions
/// max(first, p-W+1) .. p ascending, then the entries topk[t] ascending; blocks of 64 slots from the start of that list; online
/// softmax in that order; P rounded to bf16 against the running maximum of its block for the PV product only. A row with an
/// empty list gives 0.
struct SparseAttentionParams {
  int64_t rows = 0, heads = 0, dim = 0;
  int64_t window = 0;                  // W
  int64_t k = 0;                       // width of topk; 0 = window only
  const Bf16* q = nullptr;             // [T, H, d], rotated
  const int32_t* positions = nullptr;  // [T]
  const int32_t* seq = nullptr;        // [T]
  const int32_t* topk = nullptr;       // [T, k], -1 padded
  EntryLayout layout;                  // kFp4Main
  std::span<const AttentionSequence> sequences;
  const float* sink = nullptr;  // [H]
  float scale = 0;              // d^-0.5
  Bf16* out = nullptr;          // out [T, H, d]
};

/// The same attention over explicit bf16 rows: row t attends kv[slots[t][s]] for s = 0 .. S-1 in that order; a slot of -1 holds its
/// place in the partition into blocks of 64 and contributes nothing.
struct SlotAttentionParams {
  int64_t rows = 0, heads = 0, dim = 0, num_slots = 0;
  const Bf16* q = nullptr;         // [T, H, d]
  const Bf16* kv = nullptr;        // [*, d]
  const int32_t* slots = nullptr;  // [T, S]
  const float* sink = nullptr;     // [H]
  float scale = 0;
  Bf16* out = nullptr;  // out [T, H, d]
};

// ---------------------------------------------------------------------------------------------------------------------
// Mixture of experts
// ---------------------------------------------------------------------------------------------------------------------

/// s = sqrt(softplus(x . W^T / gate_temp)); the k best of s + bias (bias_vl where is_image), ties to the lower expert, best first;
/// weights = s / (sum + 1e-20) * route_scale.  spec: model.md §9
struct MoeRouteParams {
  int64_t rows = 0, hidden = 0, num_experts = 0, k = 0;
  float gate_temp = 1, route_scale = 1;
  bool normalize = true;
  const Bf16* x = nullptr;            // [T, D]
  WeightView gate;                    // [E, D] kBf16
  const float* bias = nullptr;        // [E]
  const float* bias_vl = nullptr;     // [E]
  const uint8_t* is_image = nullptr;  // [T] or null
  float* scores = nullptr;            // out [T, E]
  int32_t* topk_ids = nullptr;        // out [T, k]
  float* topk_weights = nullptr;      // out [T, k]
};

struct ExpertWeights {
  WeightView w1, w3, w2;  // gate [I, D], up [I, D], down [D, I]
};

/// y = bf16(sum over the row's experts in ascending id of y_e, then + shared): SwiGLU with clamps, the routing weight before w2, the
/// product of w1/w3 rounded to bf16, the SwiGLU result rounded to bf16 and put on the FP8 grid.  spec: model.md §9
struct MoeExpertsParams {
  int64_t rows = 0, hidden = 0, intermediate = 0, k = 0;
  float swiglu_limit = 0;                  // 0 = no clamp
  const Bf16* x = nullptr;                 // [T, D], on the FP8 grid
  const int32_t* topk_ids = nullptr;       // [T, k]
  const float* topk_weights = nullptr;     // [T, k]
  std::span<const ExpertWeights> experts;  // [E]
  ExpertWeights shared;
  Bf16* shared_out = nullptr;  // out [T, D] or null: bf16 output of the shared expert
  Bf16* y = nullptr;           // out [T, D]
};

// ---------------------------------------------------------------------------------------------------------------------
// Engram
// ---------------------------------------------------------------------------------------------------------------------

/// out[t] = concat over the columns of the table rows (code * scale, exact in bf16).  spec: model.md §10.4
struct EngramGatherParams {
  int64_t rows = 0, columns = 0, width = 0, table_rows = 0;
  const int64_t* row_ids = nullptr;  // [T, columns], each in [0, table_rows)
  const uint8_t* codes = nullptr;    // E4M3 [table_rows, width]
  const uint8_t* scales = nullptr;   // E8M0 [table_rows, width/32]
  Bf16* out = nullptr;               // out [T, columns * width]
};

/// Gated addition of the looked-up value to every stream.  spec: model.md §10.4
struct EngramGateParams {
  int64_t rows = 0, hc_mult = 0, hidden = 0;
  float norm_eps = 0;
  const Bf16* kv = nullptr;           // [T, (n+1)*D]: keys of the n streams, then the value
  const Bf16* q_weight = nullptr;     // [n, D]
  const Bf16* k_weight = nullptr;     // [n, D]
  const uint8_t* is_image = nullptr;  // [T] or null; such rows stay as they are (gate 0)
  Bf16* streams = nullptr;            // in place [T, n, D]
  float* gate = nullptr;              // out [T, n] or null
};

// ---------------------------------------------------------------------------------------------------------------------

/// One back end. Objects are immutable and may be used from several threads with different contexts.
class Ops {
 public:
  virtual ~Ops() = default;

  /// Kernel target as in `--cpu-target`: "reference", "scalar", "avx2", …
  virtual std::string_view target() const = 0;
  /// Scratch bytes that every call within `limits` gets by with.
  virtual size_t WorkspaceBytes(const WorkspaceLimits& limits) const = 0;

  virtual void Embed(const OpContext& ctx, const EmbedParams& p) const = 0;
  virtual void RmsNorm(const OpContext& ctx, const RmsNormParams& p) const = 0;
  virtual void FakeQuantize(const OpContext& ctx, const FakeQuantizeParams& p) const = 0;
  virtual void Linear(const OpContext& ctx, const LinearParams& p) const = 0;
  virtual void RopeTables(const OpContext& ctx, const RopeTablesParams& p) const = 0;
  virtual void Rope(const OpContext& ctx, const RopeParams& p) const = 0;
  virtual void HcMixes(const OpContext& ctx, const HcMixesParams& p) const = 0;
  virtual void HcCollapse(const OpContext& ctx, const HcCollapseParams& p) const = 0;
  virtual void HcExpand(const OpContext& ctx, const HcExpandParams& p) const = 0;
  virtual void StreamMean(const OpContext& ctx, const StreamMeanParams& p) const = 0;
  virtual void QuantizeWindow(const OpContext& ctx, const QuantizeWindowParams& p) const = 0;
  virtual void CommitWindow(const OpContext& ctx, const CommitWindowParams& p) const = 0;
  virtual void WriteEntries(const OpContext& ctx, const WriteEntriesParams& p) const = 0;
  virtual void CompressorPool(const OpContext& ctx, const CompressorPoolParams& p) const = 0;
  virtual void CommitTail(const OpContext& ctx, const CommitTailParams& p) const = 0;
  virtual void Scale(const OpContext& ctx, const ScaleParams& p) const = 0;
  virtual void IndexerScores(const OpContext& ctx, const IndexerScoresParams& p) const = 0;
  virtual void SelectTopK(const OpContext& ctx, const SelectTopKParams& p) const = 0;
  virtual void SelectCandidates(const OpContext& ctx, const SelectCandidatesParams& p) const = 0;
  virtual void SparseAttention(const OpContext& ctx, const SparseAttentionParams& p) const = 0;
  virtual void SlotAttention(const OpContext& ctx, const SlotAttentionParams& p) const = 0;
  virtual void MoeRoute(const OpContext& ctx, const MoeRouteParams& p) const = 0;
  virtual void MoeExperts(const OpContext& ctx, const MoeExpertsParams& p) const = 0;
  virtual void EngramGather(const OpContext& ctx, const EngramGatherParams& p) const = 0;
  virtual void EngramGate(const OpContext& ctx, const EngramGateParams& p) const = 0;
};

}  // namespace deepinfer::kernels
