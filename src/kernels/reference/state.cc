// Sequence state: window KV, compressed entries, compressor pooling (spec: model.md §8.2-8.4).
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/dot.h"
#include "kernels/reference/functions.h"
#include "kernels/reference/state_rows.h"

namespace deepinfer::kernels::reference {

// spec: model.md §8.2
void QuantizeWindow(const OpContext& ctx, const QuantizeWindowParams& p) {
  ForEachRow(ctx, p.rows, [&p](int64_t t) {
    QuantizeFp8(p.x + t * p.dim, p.dim, p.codes + t * p.dim, p.scales + t * (p.dim / kQuantGroup));
  });
}

// spec: model.md §8.2, window[i mod capacity]
void CommitWindow(const OpContext& ctx, const CommitWindowParams& p) {
  const int64_t groups = p.dim / kQuantGroup;
  ForEachRow(ctx, p.rows, [&p, groups](int64_t t) {
    const WindowView& window = p.sequences[static_cast<size_t>(p.seq[t])];
    const int64_t row = p.positions[t] - window.chunk_begin;
    const int64_t slot = p.positions[t] % window.capacity;
    std::copy_n(window.chunk_codes + row * p.dim, p.dim, window.codes + slot * p.dim);
    std::copy_n(window.chunk_scales + row * groups, groups, window.scales + slot * groups);
  });
}

// spec: model.md §8.4
void WriteEntries(const OpContext& ctx, const WriteEntriesParams& p) {
  ForEachRow(ctx, p.rows, [&p](int64_t t) {
    const EntryRow row = LocateEntry(p.layout, p.sequences[static_cast<size_t>(p.seq[t])], p.entries[t]);
    const Bf16* x = p.x + t * p.layout.dim;
    if (p.layout.format == EntryFormat::kFp4Main) {
      QuantizeFp4Main(x, p.layout.dim, row.codes, row.scales);
    } else {
      QuantizeFp4Index(x, p.layout.dim, row.codes, row.scales);
    }
  });
}

// spec: model.md §8.3
void CompressorPool(const OpContext& ctx, const CompressorPoolParams& p) {
  ForEachRow(ctx, p.groups, [&p](int64_t g) {
    const TailView& tail = p.sequences[static_cast<size_t>(p.seq[g])];
    std::vector<const float*> content, gate;
    for (int64_t i = 0; i < p.ratio; ++i) {
      const int64_t token = p.ratio * p.entries[g] + i;
      const bool in_chunk = token >= tail.chunk_begin;
      const int64_t row = in_chunk ? token - tail.chunk_begin : token % tail.capacity;
      content.push_back((in_chunk ? tail.chunk_content : tail.content) + row * p.dim);
      gate.push_back((in_chunk ? tail.chunk_gate : tail.gate) + row * p.dim);
    }
    for (int64_t c = 0; c < p.dim; ++c) {
      double max = -INFINITY, weights = 0, sum = 0;
      for (const float* row : gate) max = std::max(max, static_cast<double>(row[c]));
      for (const float* row : gate) weights += std::exp(row[c] - max);
      for (size_t i = 0; i < gate.size(); ++i) sum += std::exp(gate[i][c] - max) / weights * content[i][c];
      p.latent[g * p.dim + c] = ToBf16(sum);
    }
  });
}

// spec: model.md §8.3, the fp32 rows of an open group
void CommitTail(const OpContext& ctx, const CommitTailParams& p) {
  ForEachRow(ctx, p.rows, [&p](int64_t t) {
    const TailView& tail = p.sequences[static_cast<size_t>(p.seq[t])];
    const int64_t row = p.positions[t] - tail.chunk_begin;
    const int64_t slot = p.positions[t] % tail.capacity;
    std::copy_n(tail.chunk_content + row * p.dim, p.dim, tail.content + slot * p.dim);
    std::copy_n(tail.chunk_gate + row * p.dim, p.dim, tail.gate + slot * p.dim);
  });
}

}  // namespace deepinfer::kernels::reference
