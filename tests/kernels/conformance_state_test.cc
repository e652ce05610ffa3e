// Conformance of the operations on sequence state: window rings, compressed entries, compressor tails, Engram.
#include <cmath>

#include "kernels/op_case.h"
#include "kernels/sequence_data.h"
#include "tensor/quantize.h"

namespace deepinfer::kernels::testing {
namespace {

struct QuantizeWindowCase {
  QuantizeWindowCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        dim(32 * rng.Pick<int64_t>({1, 2, 3, 16})),
        x(Activations(rng, rows, dim, Range::kAny)) {}
  std::string Describe() const { return "dim " + std::to_string(dim); }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<uint8_t> codes(x.size()), scales(x.size() / kQuantGroup);
    for (const auto& batch : batches) {
      const Operand<Bf16> input(TakeRows(x, dim, batch));
      Operand<uint8_t> batch_codes(batch.size() * static_cast<size_t>(dim), uint8_t{0xEE});
      Operand<uint8_t> batch_scales(batch.size() * static_cast<size_t>(dim / kQuantGroup), uint8_t{0xEE});
      WorkspaceLimits limits;
      limits.max_rows = static_cast<int64_t>(batch.size());
      limits.head_dim = dim;
      runner.ops().QuantizeWindow(runner.Context(limits), {limits.max_rows, dim, input.data(),
                                                           batch_codes.data(), batch_scales.data()});
      PutRows(batch_codes, dim, batch, &codes);
      PutRows(batch_scales, dim / kQuantGroup, batch, &scales);
    }
    return {{"codes", Match::kExact, dim, codes}, {"scales", Match::kExact, dim / kQuantGroup, scales}};
  }

  int64_t rows, dim;
  std::vector<Bf16> x;
};

/// Rows: distinct staged positions of several sequences that fall into distinct ring slots.
struct CommitWindowCase {
  CommitWindowCase(Rng& rng, int64_t num_rows)
      : dim(32 * rng.Int(1, 3)), windows(rng, 1 + num_rows / 8, dim, rng.Pick<int64_t>({1, 4, 16, 64})) {
    for (int64_t s = 0; s < windows.count(); ++s) {
      const int64_t last =
          std::min(windows.chunk_rows(s), windows.capacity());  // the newest rows of the chunk
      for (int64_t i = windows.chunk_rows(s) - last; i < windows.chunk_rows(s); ++i) {
        if (static_cast<int64_t>(seq.size()) == num_rows) break;
        seq.push_back(static_cast<int32_t>(s));
        positions.push_back(windows.chunk_begin(s) + static_cast<int32_t>(i));
      }
    }
  }
  std::string Describe() const {
    return std::to_string(seq.size()) + " positions of " + std::to_string(windows.count()) +
           " sequences, dim " + std::to_string(dim);
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    RandomWindows state = windows;
    const std::vector<WindowView> views = state.Views();
    for (const auto& batch : batches) {
      std::vector<int64_t> existing;  // there may be fewer positions than rows were asked for
      for (int64_t row : batch) {
        if (row < static_cast<int64_t>(seq.size())) existing.push_back(row);
      }
      const Operand<int32_t> batch_seq(TakeRows(seq, 1, existing)),
          batch_positions(TakeRows(positions, 1, existing));
      CommitWindowParams p;
      p.rows = static_cast<int64_t>(existing.size());
      p.dim = dim;
      p.seq = batch_seq.data();
      p.positions = batch_positions.data();
      p.sequences = views;
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.head_dim = dim;
      runner.ops().CommitWindow(runner.Context(limits), p);
    }
    return {{"rings", Match::kExact, dim, state.RingBytes()}};
  }

  /// Every committed slot holds the staged row, every other slot what it held.
  void CheckFormula(const Outputs& outputs) const {
    RandomWindows state = windows;
    for (size_t i = 0; i < seq.size(); ++i) {
      const WindowView view = state.Views()[static_cast<size_t>(seq[i])];
      const int64_t row = positions[i] - view.chunk_begin, slot = positions[i] % view.capacity;
      for (int64_t c = 0; c < dim; ++c) view.codes[slot * dim + c] = view.chunk_codes[row * dim + c];
      for (int64_t g = 0; g < dim / 32; ++g)
        view.scales[slot * (dim / 32) + g] = view.chunk_scales[row * (dim / 32) + g];
    }
    ASSERT_EQ(std::get<std::vector<uint8_t>>(outputs[0].values), state.RingBytes());
  }

  int64_t dim;
  RandomWindows windows;
  std::vector<int32_t> seq, positions;
};

template <EntryFormat kFormat>
struct WriteEntriesCase {
  WriteEntriesCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        dim(32 * rng.Pick<int64_t>({1, 2, 4})),
        sequences(rng.Int(1, 4)),
        state(rng, kFormat, dim, sequences, 2 * rows + 5),
        x(Activations(rng, rows, dim, Range::kAny)) {
    const std::vector<int32_t> places = rng.DistinctShuffled(rows, sequences * (2 * rows + 5));
    for (int32_t place : places) {
      seq.push_back(place % static_cast<int32_t>(sequences));
      entries.push_back(place / static_cast<int32_t>(sequences));
    }
    // The scale of the main form saturates at 448: keep amax/6 inside.
    for (Bf16& v : x) v = ToBf16(std::clamp(ToFloat(v), -2688.0f, 2688.0f));
  }
  std::string Describe() const {
    return "dim " + std::to_string(dim) + ", " + std::to_string(state.layout().entries_per_block) +
           " entries a block";
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    RandomEntries copy = state;
    const std::vector<BlockTable> tables = copy.Tables();
    for (const auto& batch : batches) {
      const Operand<Bf16> input(TakeRows(x, dim, batch));
      const Operand<int32_t> batch_seq(TakeRows(seq, 1, batch)), batch_entries(TakeRows(entries, 1, batch));
      WriteEntriesParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.x = input.data();
      p.seq = batch_seq.data();
      p.entries = batch_entries.data();
      p.layout = copy.layout();
      p.sequences = tables;
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      (kFormat == EntryFormat::kFp4Main ? limits.head_dim : limits.index_head_dim) = dim;
      runner.ops().WriteEntries(runner.Context(limits), p);
    }
    return {{"blocks", Match::kExact, 1, copy.AllBytes()}};
  }

  int64_t rows, dim, sequences;
  RandomEntries state;
  std::vector<Bf16> x;
  std::vector<int32_t> seq, entries;
};

/// Content and gate rings of several sequences with chunks that begin anywhere inside a group.
struct RandomTails {
  RandomTails(Rng& rng, int64_t sequences, int64_t dim, int64_t ratio) : capacity(ratio + rng.Int(0, 13)) {
    for (int64_t s = 0; s < sequences; ++s) {
      chunk_begin.push_back(static_cast<int32_t>(rng.Int(0, 40)));
      chunk_rows.push_back(rng.Int(ratio, 12));
      for (int side = 0; side < 2; ++side) {
        rings.push_back(NormalFloats(rng, capacity * dim, 3));
        chunks.push_back(NormalFloats(rng, chunk_rows.back() * dim, rng.Chance(0.2) ? 100 : 3));
      }
    }
  }
  std::vector<TailView> Views() {
    std::vector<TailView> views;
    for (size_t s = 0; s < chunk_begin.size(); ++s) {
      views.push_back({rings[2 * s].data(), rings[2 * s + 1].data(), capacity, chunk_begin[s],
                       chunks[2 * s].data(), chunks[2 * s + 1].data()});
    }
    return views;
  }
  int64_t capacity;
  std::vector<int32_t> chunk_begin;
  std::vector<int64_t> chunk_rows;
  std::vector<std::vector<float>> rings, chunks;  // content, gate of each sequence
};

struct CompressorPoolCase {
  CompressorPoolCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        dim(rng.Pick<int64_t>({1, 8, 33, 64})),
        ratio(rng.Int(1, 4)),
        tails(rng, rng.Int(1, 4), dim, ratio) {
    for (int64_t g = 0; g < rows; ++g) {
      // Any group that ends inside the chunk; it may begin in the ring.
      const auto s = static_cast<size_t>(rng.Int(0, static_cast<int64_t>(tails.chunk_begin.size()) - 1));
      const int64_t first = tails.chunk_begin[s] / ratio,
                    last = (tails.chunk_begin[s] + tails.chunk_rows[s]) / ratio - 1;
      seq.push_back(static_cast<int32_t>(s));
      entries.push_back(static_cast<int32_t>(rng.Int(first, std::max(first, last))));
    }
  }
  std::string Describe() const { return "dim " + std::to_string(dim) + ", ratio " + std::to_string(ratio); }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    RandomTails state = tails;
    const std::vector<TailView> views = state.Views();
    std::vector<Bf16> latents(static_cast<size_t>(rows * dim));
    for (const auto& batch : batches) {
      const Operand<int32_t> batch_seq(TakeRows(seq, 1, batch)), batch_entries(TakeRows(entries, 1, batch));
      Operand<Bf16> result(batch.size() * static_cast<size_t>(dim), kUnwrittenBf16);
      CompressorPoolParams p;
      p.groups = static_cast<int64_t>(batch.size());
      p.dim = dim;
      p.ratio = ratio;
      p.seq = batch_seq.data();
      p.entries = batch_entries.data();
      p.sequences = views;
      p.latent = result.data();
      WorkspaceLimits limits;
      limits.max_rows = p.groups * ratio;
      limits.head_dim = dim;
      runner.ops().CompressorPool(runner.Context(limits), p);
      PutRows(result, dim, batch, &latents);
    }
    return {{"latents", Match::kExact, dim, latents}};
  }

  /// Against the softmax written without a maximum, token by token from a map of all known rows.
  void CheckFormula(const Outputs& outputs) const {
    const auto& latents = std::get<std::vector<Bf16>>(outputs[0].values);
    for (int64_t g = 0; g < rows; ++g) {
      const auto s = static_cast<size_t>(seq[static_cast<size_t>(g)]);
      for (int64_t c = 0; c < dim; ++c) {
        double top = 0, bottom = 0, magnitude = 0;
        for (int64_t token = entries[static_cast<size_t>(g)] * ratio;
             token < (entries[static_cast<size_t>(g)] + 1) * ratio; ++token) {
          const bool staged = token >= tails.chunk_begin[s];
          const auto& content = staged ? tails.chunks[2 * s] : tails.rings[2 * s];
          const auto& gate = staged ? tails.chunks[2 * s + 1] : tails.rings[2 * s + 1];
          const int64_t row = staged ? token - tails.chunk_begin[s] : token % tails.capacity;
          const double weight = std::exp(static_cast<double>(gate[static_cast<size_t>(row * dim + c)]));
          top += weight * content[static_cast<size_t>(row * dim + c)];
          bottom += weight;
          magnitude = std::max(magnitude,
                               std::fabs(static_cast<double>(content[static_cast<size_t>(row * dim + c)])));
        }
        const double want = top / bottom;
        ASSERT_NEAR(ToFloat(latents[static_cast<size_t>(g * dim + c)]), want,
                    0.004 * std::fabs(want) + 1e-5 * magnitude);
      }
    }
  }

  int64_t rows, dim, ratio;
  RandomTails tails;
  std::vector<int32_t> seq, entries;
};

struct CommitTailCase {
  CommitTailCase(Rng& rng, int64_t num_rows)
      : dim(rng.Pick<int64_t>({1, 33, 64})), tails(rng, 1 + num_rows / 4, dim, rng.Int(1, 4)) {
    for (size_t s = 0; s < tails.chunk_begin.size(); ++s) {
      const int64_t last = std::min(tails.chunk_rows[s], tails.capacity);
      for (int64_t i = tails.chunk_rows[s] - last; i < tails.chunk_rows[s]; ++i) {
        if (static_cast<int64_t>(seq.size()) == num_rows) break;
        seq.push_back(static_cast<int32_t>(s));
        positions.push_back(tails.chunk_begin[s] + static_cast<int32_t>(i));
      }
    }
  }
  std::string Describe() const {
    return "dim " + std::to_string(dim) + ", " + std::to_string(seq.size()) + " positions";
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    RandomTails state = tails;
    const std::vector<TailView> views = state.Views();
    for (const auto& batch : batches) {
      std::vector<int64_t> existing;
      for (int64_t row : batch) {
        if (row < static_cast<int64_t>(seq.size())) existing.push_back(row);
      }
      const Operand<int32_t> batch_seq(TakeRows(seq, 1, existing)),
          batch_positions(TakeRows(positions, 1, existing));
      CommitTailParams p;
      p.rows = static_cast<int64_t>(existing.size());
      p.dim = dim;
      p.seq = batch_seq.data();
      p.positions = batch_positions.data();
      p.sequences = views;
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.head_dim = dim;
      runner.ops().CommitTail(runner.Context(limits), p);
    }
    Outputs outputs;
    for (const std::vector<float>& ring : state.rings) outputs.push_back({"ring", Match::kExact, dim, ring});
    return outputs;
  }

  void CheckFormula(const Outputs& outputs) const {
    std::vector<std::vector<float>> want = tails.rings;
    for (size_t i = 0; i < seq.size(); ++i) {
      const auto s = static_cast<size_t>(seq[i]);
      for (size_t side = 2 * s; side < 2 * s + 2; ++side) {
        for (int64_t c = 0; c < dim; ++c) {
          want[side][static_cast<size_t>(positions[i] % tails.capacity * dim + c)] =
              tails.chunks[side][static_cast<size_t>((positions[i] - tails.chunk_begin[s]) * dim + c)];
        }
      }
    }
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(std::get<std::vector<float>>(outputs[i].values), want[i]) << "ring " << i;
  }

  int64_t dim;
  RandomTails tails;
  std::vector<int32_t> seq, positions;
};

struct EngramGatherCase {
  EngramGatherCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        columns(rng.Int(1, 6)),
        width(32 * rng.Pick<int64_t>({1, 2, 8})),
        table_rows(rng.Int(1, 60)) {
    codes.push_back(0);  // the table begins at an odd address
    for (int64_t i = 0; i < table_rows * width; ++i) codes.push_back(RandomE4m3(rng));
    for (int64_t i = 0; i < table_rows * width / 32; ++i)
      scales.push_back(static_cast<uint8_t>(rng.Int(90, 160)));
    for (int64_t i = 0; i < rows * columns; ++i) row_ids.push_back(rng.Int(0, table_rows - 1));
  }
  std::string Describe() const { return std::to_string(columns) + " columns of " + std::to_string(width); }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<Bf16> out(static_cast<size_t>(rows * columns * width));
    for (const auto& batch : batches) {
      const Operand<int64_t> ids(TakeRows(row_ids, columns, batch));
      Operand<Bf16> result(batch.size() * static_cast<size_t>(columns * width), kUnwrittenBf16);
      EngramGatherParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.columns = columns;
      p.width = width;
      p.table_rows = table_rows;
      p.row_ids = ids.data();
      p.codes = codes.data() + 1;
      p.scales = scales.data();
      p.out = result.data();
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.max_in_features = columns * width;
      runner.ops().EngramGather(runner.Context(limits), p);
      PutRows(result, columns * width, batch, &out);
    }
    return {{"out", Match::kExact, width, out}};
  }

  int64_t rows, columns, width, table_rows;
  std::vector<uint8_t> codes, scales;
  std::vector<int64_t> row_ids;
};

struct EngramGateCase {
  EngramGateCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        n(rng.Int(1, 4)),
        hidden(rng.Pick<int64_t>({1, 8, 33, 64, 256})),
        has_images(rng.Chance(0.5)),
        wants_gate(rng.Chance(0.5)),
        streams(Activations(rng, rows, n * hidden, Range::kModerate)),
        kv(Activations(rng, rows, (n + 1) * hidden, Range::kModerate)),
        q_weight(NormalBf16(rng, n * hidden)),
        k_weight(NormalBf16(rng, n * hidden)) {
    for (int64_t t = 0; t < rows; ++t) is_image.push_back(rng.Chance(0.4) ? 1 : 0);
    // Products of subnormal numbers vanish in fp32: the sign of the dot product, and with it the gate, would be left to chance.
    for (std::vector<Bf16>* values : {&streams, &kv}) {
      for (Bf16& v : *values) {
        if (std::fabs(ToFloat(v)) < 1e-30f) v = Bf16{static_cast<uint16_t>(v.bits & 0x8000)};
      }
    }
  }
  std::string Describe() const {
    return std::to_string(n) + " streams of " + std::to_string(hidden) + (has_images ? ", images" : "");
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<Bf16> out(streams.size());
    std::vector<float> gates(wants_gate ? static_cast<size_t>(rows * n) : 0);
    const Operand<Bf16> q_copy(q_weight), k_copy(k_weight);
    for (const auto& batch : batches) {
      Operand<Bf16> values(TakeRows(streams, n * hidden, batch));
      const Operand<Bf16> batch_kv(TakeRows(kv, (n + 1) * hidden, batch));
      const Operand<uint8_t> images(TakeRows(is_image, 1, batch));
      Operand<float> batch_gates(batch.size() * static_cast<size_t>(n), kUnwrittenFloat);
      EngramGateParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.hc_mult = n;
      p.hidden = hidden;
      p.norm_eps = 1e-20f;
      p.kv = batch_kv.data();
      p.q_weight = q_copy.data();
      p.k_weight = k_copy.data();
      p.is_image = has_images ? images.data() : nullptr;
      p.streams = values.data();
      p.gate = wants_gate ? batch_gates.data() : nullptr;
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.hidden_size = hidden;
      limits.hc_mult = n;
      runner.ops().EngramGate(runner.Context(limits), p);
      PutRows(values, n * hidden, batch, &out);
      if (wants_gate) PutRows(batch_gates, n, batch, &gates);
    }
    return {{"streams", Match::kExact, hidden, out}, {"gate", Match::kExact, n, gates}};
  }

  /// Image rows keep every bit, signs of zeros included.
  void CheckFormula(const Outputs& outputs) const {
    const auto& out = std::get<std::vector<Bf16>>(outputs[0].values);
    for (size_t i = 0; i < out.size(); ++i) {
      const bool is_image_row = has_images && is_image[i / static_cast<size_t>(n * hidden)] != 0;
      ASSERT_TRUE(!is_image_row || out[i] == streams[i]) << "element " << i;
    }
  }

  int64_t rows, n, hidden;
  bool has_images, wants_gate;
  std::vector<Bf16> streams, kv, q_weight, k_weight;
  std::vector<uint8_t> is_image;
};

using WriteMain = WriteEntriesCase<EntryFormat::kFp4Main>;
using WriteIndex = WriteEntriesCase<EntryFormat::kFp4Index>;

TEST_P(Conformance, QuantizeWindow) { CheckConformance<QuantizeWindowCase>(GetParam(), 4); }
TEST_P(Conformance, QuantizeWindowRows) { CheckRowInvariance<QuantizeWindowCase>(GetParam()); }
TEST_P(Conformance, CommitWindow) { CheckConformance<CommitWindowCase>(GetParam(), 4); }
TEST_P(Conformance, CommitWindowRows) { CheckRowInvariance<CommitWindowCase>(GetParam()); }
TEST_P(Conformance, WriteMainEntries) { CheckConformance<WriteMain>(GetParam(), 4); }
TEST_P(Conformance, WriteMainEntriesRows) { CheckRowInvariance<WriteMain>(GetParam()); }
TEST_P(Conformance, WriteIndexEntries) { CheckConformance<WriteIndex>(GetParam(), 4); }
TEST_P(Conformance, WriteIndexEntriesRows) { CheckRowInvariance<WriteIndex>(GetParam()); }
TEST_P(Conformance, CompressorPool) { CheckConformance<CompressorPoolCase>(GetParam(), 4); }
TEST_P(Conformance, CompressorPoolRows) { CheckRowInvariance<CompressorPoolCase>(GetParam()); }
TEST_P(Conformance, CommitTail) { CheckConformance<CommitTailCase>(GetParam(), 4); }
TEST_P(Conformance, CommitTailRows) { CheckRowInvariance<CommitTailCase>(GetParam()); }
TEST_P(Conformance, EngramGather) { CheckConformance<EngramGatherCase>(GetParam(), 4); }
TEST_P(Conformance, EngramGatherRows) { CheckRowInvariance<EngramGatherCase>(GetParam()); }
TEST_P(Conformance, EngramGate) { CheckConformance<EngramGateCase>(GetParam(), 6); }
TEST_P(Conformance, EngramGateRows) { CheckRowInvariance<EngramGateCase>(GetParam()); }

}  // namespace
}  // namespace deepinfer::kernels::testing
