// Conformance of the operations on single rows: embedding, norm, quantisers, rotary embedding, head weights.
#include "kernels/op_case.h"

namespace deepinfer::kernels::testing {
namespace {

struct EmbedCase {
  EmbedCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        hidden(rng.Pick<int64_t>({1, 5, 32, 33, 100, 256})),
        streams(rng.Int(1, 4)),
        vocab(rng.Int(1, 50)),
        has_images(rng.Chance(0.5)),
        table(NormalBf16(rng, vocab * hidden)),
        given(NormalBf16(rng, 7 * hidden)) {
    for (int64_t t = 0; t < rows; ++t) {
      ids.push_back(static_cast<int32_t>(rng.Int(0, vocab - 1)));
      given_row.push_back(rng.Chance(0.5) ? -1 : static_cast<int32_t>(rng.Int(0, 6)));
    }
  }
  std::string Describe() const {
    return "hidden " + std::to_string(hidden) + ", streams " + std::to_string(streams);
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<Bf16> out(static_cast<size_t>(rows * streams * hidden));
    const Operand<Bf16> table_copy(table), given_copy(given);
    for (const auto& batch : batches) {
      const Operand<int32_t> batch_ids(TakeRows(ids, 1, batch)), batch_given(TakeRows(given_row, 1, batch));
      Operand<Bf16> result(batch.size() * static_cast<size_t>(streams * hidden), kUnwrittenBf16);
      EmbedParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.hidden = hidden;
      p.hc_mult = streams;
      p.ids = batch_ids.data();
      p.table = table_copy.data();
      p.given_row = has_images ? batch_given.data() : nullptr;
      p.given = has_images ? given_copy.data() : nullptr;
      p.streams = result.data();
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.hidden_size = hidden;
      limits.hc_mult = streams;
      runner.ops().Embed(runner.Context(limits), p);
      PutRows(result, streams * hidden, batch, &out);
    }
    return {{"streams", Match::kExact, streams * hidden, out}};
  }

  void CheckFormula(const Outputs& outputs) const {
    const auto& out = std::get<std::vector<Bf16>>(outputs[0].values);
    for (int64_t i = 0; i < rows * streams * hidden; ++i) {
      const auto t = static_cast<size_t>(i / (streams * hidden));
      const bool is_image = has_images && given_row[t] >= 0;
      const Bf16 want = is_image ? given[static_cast<size_t>(given_row[t] * hidden + i % hidden)]
                                 : table[static_cast<size_t>(ids[t] * hidden + i % hidden)];
      ASSERT_EQ(out[static_cast<size_t>(i)], want) << "element " << i;
    }
  }

  int64_t rows, hidden, streams, vocab;
  bool has_images;
  std::vector<Bf16> table, given;
  std::vector<int32_t> ids, given_row;
};

struct RmsNormCase {
  RmsNormCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        dim(rng.Pick<int64_t>({1, 2, 3, 8, 31, 32, 33, 64, 100, 257, 512})),
        eps(rng.Pick({1e-20f, 1e-6f})),
        in_place(rng.Chance(0.5)),
        x(Activations(rng, rows, dim, Range::kSquarable)),
        weight(NormalBf16(rng, dim)) {}
  std::string Describe() const { return "dim " + std::to_string(dim); }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<Bf16> out(x.size());
    const Operand<Bf16> weight_copy(weight);
    for (const auto& batch : batches) {
      Operand<Bf16> input(TakeRows(x, dim, batch));
      Operand<Bf16> result(batch.size() * static_cast<size_t>(dim), kUnwrittenBf16);
      RmsNormParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.dim = dim;
      p.x = input.data();
      p.weight = weight_copy.data();
      p.eps = eps;
      p.y = in_place ? input.data() : result.data();
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.hidden_size = dim;
      runner.ops().RmsNorm(runner.Context(limits), p);
      PutRows(in_place ? input : result, dim, batch, &out);
    }
    return {{"y", Match::kExact, dim, out}};
  }

  int64_t rows, dim;
  float eps;
  bool in_place;
  std::vector<Bf16> x, weight;
};

struct FakeQuantizeCase {
  FakeQuantizeCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        dim(32 * rng.Pick<int64_t>({1, 2, 3, 5, 16})),
        scheme(rng.Chance(0.5) ? QuantScheme::kFp8Act : QuantScheme::kFp4Index),
        in_place(rng.Chance(0.5)),
        x(Activations(rng, rows, dim, Range::kAny)) {}
  std::string Describe() const {
    return "dim " + std::to_string(dim) + (scheme == QuantScheme::kFp8Act ? ", FP8" : ", FP4 index");
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<Bf16> out(x.size());
    for (const auto& batch : batches) {
      Operand<Bf16> input(TakeRows(x, dim, batch));
      Operand<Bf16> result(batch.size() * static_cast<size_t>(dim), kUnwrittenBf16);
      FakeQuantizeParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.dim = dim;
      p.scheme = scheme;
      p.x = input.data();
      p.y = in_place ? input.data() : result.data();
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.max_in_features = dim;
      runner.ops().FakeQuantize(runner.Context(limits), p);
      PutRows(in_place ? input : result, dim, batch, &out);
    }
    return {{"y", Match::kExact, dim, out}};
  }

  int64_t rows, dim;
  QuantScheme scheme;
  bool in_place;
  std::vector<Bf16> x;
};

struct RopeTablesCase {
  RopeTablesCase(Rng& rng, int64_t num_rows) : rows(num_rows), freqs(rng.Pick<int64_t>({1, 2, 3, 8, 32})) {
    for (int64_t i = 0; i < freqs; ++i) {
      values.push_back(
          static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(freqs))));
    }
    for (int64_t t = 0; t < rows; ++t) {
      positions.push_back(static_cast<int32_t>(rng.Chance(0.3) ? rng.Int(0, 5) : rng.Int(0, (1 << 24) + 3)));
    }
  }
  std::string Describe() const { return std::to_string(freqs) + " frequencies"; }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<float> cos(static_cast<size_t>(rows * freqs)), sin(cos.size());
    for (const auto& batch : batches) {
      const Operand<int32_t> batch_positions(TakeRows(positions, 1, batch));
      Operand<float> batch_cos(batch.size() * values.size(), kUnwrittenFloat), batch_sin = batch_cos;
      RopeTablesParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.num_freqs = freqs;
      p.positions = batch_positions.data();
      p.freqs = values.data();
      p.cos = batch_cos.data();
      p.sin = batch_sin.data();
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.head_dim = 2 * freqs;
      runner.ops().RopeTables(runner.Context(limits), p);
      PutRows(batch_cos, freqs, batch, &cos);
      PutRows(batch_sin, freqs, batch, &sin);
    }
    return {{"cos", Match::kExact, freqs, cos}, {"sin", Match::kExact, freqs, sin}};
  }

  int64_t rows, freqs;
  std::vector<float> values;
  std::vector<int32_t> positions;
};

struct RopeCase {
  RopeCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        heads(rng.Int(1, 5)),
        freqs(rng.Pick<int64_t>({1, 2, 3, 8, 16, 32})),
        dim(2 * freqs + rng.Pick<int64_t>({0, 1, 6, 48})),
        inverse(rng.Chance(0.5)),
        x(Activations(rng, rows, heads * dim, Range::kSquarable)) {
    for (int64_t i = 0; i < rows * freqs; ++i) {
      const double angle = rng.Chance(0.1) ? 0 : rng.Uniform(-4, 4);
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  std::string Describe() const {
    return std::to_string(heads) + " heads of " + std::to_string(dim) + ", " + std::to_string(freqs) +
           " frequencies" + (inverse ? ", inverse" : "");
  }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<Bf16> out(x.size());
    for (const auto& batch : batches) {
      Operand<Bf16> values(TakeRows(x, heads * dim, batch));
      const Operand<float> batch_cos(TakeRows(cos, freqs, batch)), batch_sin(TakeRows(sin, freqs, batch));
      RopeParams p;
      p.rows = static_cast<int64_t>(batch.size());
      p.heads = heads;
      p.dim = dim;
      p.num_freqs = freqs;
      p.cos = batch_cos.data();
      p.sin = batch_sin.data();
      p.inverse = inverse;
      p.x = values.data();
      WorkspaceLimits limits;
      limits.max_rows = p.rows;
      limits.num_heads = heads;
      limits.head_dim = dim;
      runner.ops().Rope(runner.Context(limits), p);
      PutRows(values, heads * dim, batch, &out);
    }
    return {{"x", Match::kExact, dim, out}};
  }

  /// Channels before the rotated tail stay as they are, and the length of every pair is kept.
  void CheckFormula(const Outputs& outputs) const {
    const auto& out = std::get<std::vector<Bf16>>(outputs[0].values);
    for (int64_t head = 0; head < rows * heads; ++head) {
      for (int64_t c = 0; c < dim - 2 * freqs; ++c) {
        ASSERT_EQ(out[static_cast<size_t>(head * dim + c)], x[static_cast<size_t>(head * dim + c)])
            << "channel " << c;
      }
      for (int64_t c = dim - 2 * freqs; c < dim; c += 2) {
        const auto at = static_cast<size_t>(head * dim + c);
        const double before = std::hypot(ToFloat(x[at]), ToFloat(x[at + 1]));
        const double after = std::hypot(ToFloat(out[at]), ToFloat(out[at + 1]));
        ASSERT_NEAR(after, before, 0.006 * before + 1e-39) << "pair at channel " << c;
      }
    }
  }

  int64_t rows, heads, freqs, dim;
  bool inverse;
  std::vector<Bf16> x;
  std::vector<float> cos, sin;
};

/// A row of this case is one number.
struct ScaleCase {
  ScaleCase(Rng& rng, int64_t num_rows)
      : rows(num_rows),
        factor(rng.Pick({1.0 / 64, 0.08838834764831845, 1.0, 0.3})),
        x(Activations(rng, rows, 1, Range::kModerate)) {}
  std::string Describe() const { return "factor " + std::to_string(factor); }

  Outputs Run(OpRunner& runner, const Batches& batches) const {
    std::vector<Bf16> out(x.size());
    for (const auto& batch : batches) {
      Operand<Bf16> values(TakeRows(x, 1, batch));
      ScaleParams p;
      p.count = static_cast<int64_t>(batch.size());
      p.factor = factor;
      p.x = values.data();
      WorkspaceLimits limits;
      limits.max_rows = p.count;
      limits.index_heads = 1;
      runner.ops().Scale(runner.Context(limits), p);
      PutRows(values, 1, batch, &out);
    }
    return {{"x", Match::kExact, 1, out}};
  }

  int64_t rows;
  double factor;
  std::vector<Bf16> x;
};

TEST_P(Conformance, Embed) { CheckConformance<EmbedCase>(GetParam()); }
TEST_P(Conformance, EmbedRows) { CheckRowInvariance<EmbedCase>(GetParam()); }
TEST_P(Conformance, RmsNorm) { CheckConformance<RmsNormCase>(GetParam(), 8); }
TEST_P(Conformance, RmsNormRows) { CheckRowInvariance<RmsNormCase>(GetParam()); }
TEST_P(Conformance, FakeQuantize) { CheckConformance<FakeQuantizeCase>(GetParam(), 8); }
TEST_P(Conformance, FakeQuantizeRows) { CheckRowInvariance<FakeQuantizeCase>(GetParam()); }
TEST_P(Conformance, RopeTables) { CheckConformance<RopeTablesCase>(GetParam()); }
TEST_P(Conformance, RopeTablesRows) { CheckRowInvariance<RopeTablesCase>(GetParam()); }
TEST_P(Conformance, Rope) { CheckConformance<RopeCase>(GetParam(), 6); }
TEST_P(Conformance, RopeRows) { CheckRowInvariance<RopeCase>(GetParam()); }
TEST_P(Conformance, Scale) { CheckConformance<ScaleCase>(GetParam(), 4); }
TEST_P(Conformance, ScaleRows) { CheckRowInvariance<ScaleCase>(GetParam()); }

}  // namespace
}  // namespace deepinfer::kernels::testing
