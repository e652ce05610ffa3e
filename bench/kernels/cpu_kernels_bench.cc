// Speed of the CPU kernels on shapes of the released model ("real") and of the demo model ("demo").
//   cpu_kernels_bench [--threads=N] [--target=NAME] [google-benchmark options]
// Counters: weight_bytes_per_second counts packed weights and scales once a call; flops counts two a multiply-add.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_ops.h"

namespace deepinfer::kernels {
namespace {

std::unique_ptr<ThreadPool> pool;
std::unique_ptr<const Ops> ops;

struct Shape {
  const char* name;
  int64_t hidden, intermediate, experts, k, heads, dim, window, topk, index_heads, index_dim;
};
constexpr Shape kReal = {"real", 5120, 2304, 48, 6,  64,
                         512,    128,  512,  32, 128};  // 48 of the 384 experts: enough to leave caches
constexpr Shape kDemo = {"demo", 256, 128, 8, 2, 8, 64, 64, 64, 4, 64};

/// Random bytes whose E8M0 and E4M3 interpretations are finite and of ordinary size.
class RandomBytes {
 public:
  std::vector<uint8_t> Codes(int64_t n) { return Bytes(n, 0, 0x77); }  // no NaN, also as E4M3
  std::vector<uint8_t> Scales(int64_t n) { return Bytes(n, 118, 122); }
  std::vector<Bf16> Values(int64_t n) {
    std::vector<Bf16> v(static_cast<size_t>(n));
    std::normal_distribution<float> normal;
    for (Bf16& x : v) x = ToBf16(normal(engine_));
    return v;
  }
  std::vector<float> Floats(int64_t n) {
    std::vector<float> v(static_cast<size_t>(n));
    std::normal_distribution<float> normal;
    for (float& x : v) x = normal(engine_);
    return v;
  }

 private:
  std::vector<uint8_t> Bytes(int64_t n, int low, int high) {
    std::vector<uint8_t> v(static_cast<size_t>(n));
    std::uniform_int_distribution<int> pick(low, high);
    for (uint8_t& x : v) x = static_cast<uint8_t>(pick(engine_));
    return v;
  }
  std::minstd_rand engine_{1};
};

struct Weight {
  std::vector<uint8_t> data, scales;
  WeightView view;
  Weight(RandomBytes& random, WeightFormat format, int64_t out, int64_t in) {
    switch (format) {
      case WeightFormat::kFp4Row32:
        data = random.Codes(out * in / 2);
        scales = random.Scales(out * in / 32);
        break;
      case WeightFormat::kFp8Tile32:
        data = random.Codes(out * in);
        scales = random.Scales((out + 31) / 32 * (in / 32));
        break;
      default: {
        const std::vector<Bf16> values = random.Values(out * in);
        data.resize(values.size() * sizeof(Bf16));
        std::memcpy(data.data(), values.data(), data.size());
      }
    }
    view = {format, data.data(), scales.data(), out, in};
  }
  double bytes() const { return static_cast<double>(data.size() + scales.size()); }
};

/// Workspace and context for calls of up to `rows` rows.
struct Context {
  std::vector<std::byte> memory;
  OpContext ctx;
  Context(const Shape& s, int64_t rows, int64_t entries = 0) {
    WorkspaceLimits limits;
    limits.max_rows = rows;
    limits.hidden_size = s.hidden;
    limits.hc_mult = 4;
    limits.max_in_features = limits.max_out_features = s.hidden;
    limits.moe_intermediate_size = s.intermediate;
    limits.num_experts = s.experts;
    limits.experts_per_token = s.k;
    limits.num_heads = s.heads;
    limits.head_dim = s.dim;
    limits.max_list = s.window + s.topk;
    limits.index_heads = s.index_heads;
    limits.index_head_dim = s.index_dim;
    limits.max_entries = entries;
    memory.resize(ops->WorkspaceBytes(limits) + 128);
    std::byte* begin = memory.data() + (128 - reinterpret_cast<uintptr_t>(memory.data()) % 128);
    ctx = {pool.get(), {begin, memory.size() - 128}};
  }
};

void SetRates(benchmark::State& state, double bytes, double flops) {
  const auto iterations = static_cast<double>(state.iterations());
  if (bytes > 0)
    state.counters["weight_bytes_per_second"] =
        benchmark::Counter(bytes * iterations, benchmark::Counter::kIsRate);
  state.counters["flops"] = benchmark::Counter(flops * iterations, benchmark::Counter::kIsRate);
}

void BenchLinear(benchmark::State& state, WeightFormat format, int64_t out, int64_t in, int64_t rows) {
  RandomBytes random;
  // Enough copies of the weight to read it from memory, as a forward pass does.
  const int64_t copies = std::max<int64_t>(1, rows > 8 ? 1 : (int64_t{64} << 20) / (out * in));
  std::vector<Weight> weights;
  for (int64_t i = 0; i < copies; ++i) weights.emplace_back(random, format, out, in);
  const std::vector<Bf16> x = random.Values(rows * in);
  std::vector<Bf16> y(static_cast<size_t>(rows * out));
  Context context(kReal, rows);
  size_t next = 0;
  for (auto _ : state) {
    ops->Linear(context.ctx, {.rows = rows, .x = x.data(), .weight = weights[next].view, .y = y.data()});
    next = (next + 1) % weights.size();
  }
  SetRates(state, weights[0].bytes(), 2.0 * static_cast<double>(rows * out * in));
}

void BenchMoe(benchmark::State& state, const Shape& s, int64_t rows) {
  RandomBytes random;
  std::vector<Weight> weights;
  std::vector<ExpertWeights> experts;
  const auto add = [&](WeightFormat format) {
    weights.emplace_back(random, format, s.intermediate, s.hidden);
    weights.emplace_back(random, format, s.intermediate, s.hidden);
    weights.emplace_back(random, format, s.hidden, s.intermediate);
    const size_t n = weights.size();
    return ExpertWeights{weights[n - 3].view, weights[n - 2].view, weights[n - 1].view};
  };
  weights.reserve(static_cast<size_t>(3 * (s.experts + 1)));
  for (int64_t e = 0; e < s.experts; ++e) experts.push_back(add(WeightFormat::kFp4Row32));
  const ExpertWeights shared = add(WeightFormat::kFp8Tile32);
  const std::vector<Bf16> x = random.Values(rows * s.hidden);
  std::vector<Bf16> y(x.size());
  std::vector<int32_t> ids(static_cast<size_t>(rows * s.k));
  std::vector<float> route(ids.size(), 0.25f);
  Context context(s, rows);
  std::minstd_rand engine(7);
  double bytes = 0;
  for (auto _ : state) {
    state.PauseTiming();
    for (int64_t t = 0; t < rows; ++t) {
      const auto first = static_cast<int64_t>(engine() % static_cast<uint32_t>(s.experts));
      for (int64_t j = 0; j < s.k; ++j)
        ids[static_cast<size_t>(t * s.k + j)] = static_cast<int32_t>((first + 7 * j) % s.experts);
    }
    std::vector<bool> used(static_cast<size_t>(s.experts));
    for (int32_t id : ids) used[static_cast<size_t>(id)] = true;
    bytes += 3 * weights.back().bytes();
    for (bool u : used) bytes += u ? 3 * weights.front().bytes() : 0;
    state.ResumeTiming();
    ops->MoeExperts(context.ctx, {.rows = rows,
                                  .hidden = s.hidden,
                                  .intermediate = s.intermediate,
                                  .k = s.k,
                                  .swiglu_limit = 10,
                                  .x = x.data(),
                                  .topk_ids = ids.data(),
                                  .topk_weights = route.data(),
                                  .experts = experts,
                                  .shared = shared,
                                  .y = y.data()});
  }
  SetRates(state, bytes / static_cast<double>(state.iterations()),
           6.0 * static_cast<double>(rows * (s.k + 1) * s.hidden * s.intermediate));
}

/// Rows of one sequence deep in a context: full windows, full lists.
void BenchAttention(benchmark::State& state, const Shape& s, int64_t rows) {
  RandomBytes random;
  const int64_t entries = 4 * s.topk, position = entries;
  const std::vector<Bf16> q = random.Values(rows * s.heads * s.dim);
  std::vector<Bf16> out(q.size());
  const int64_t capacity = s.window + 12, code_bytes = s.dim / 2, scale_bytes = s.dim / 16;
  std::vector<uint8_t> ring = random.Codes(capacity * s.dim),
                       ring_scales = random.Scales(capacity * s.dim / 32);
  std::vector<uint8_t> chunk = random.Codes(rows * s.dim), chunk_scales = random.Scales(rows * s.dim / 32);
  std::vector<uint8_t> block = random.Codes(entries * (code_bytes + scale_bytes));
  std::byte* blocks[] = {reinterpret_cast<std::byte*>(block.data())};
  AttentionSequence sequence;
  sequence.window = {ring.data(),  ring_scales.data(), capacity, 0, static_cast<int32_t>(position),
                     chunk.data(), chunk_scales.data()};
  sequence.entries.blocks = blocks;
  std::vector<int32_t> positions, topk, seq(static_cast<size_t>(rows), 0);
  for (int64_t t = 0; t < rows; ++t) {
    positions.push_back(static_cast<int32_t>(position + t));
    for (int64_t j = 0; j < s.topk; ++j) topk.push_back(static_cast<int32_t>(4 * j + t % 4));
  }
  const std::vector<float> sink = random.Floats(s.heads);
  Context context(s, rows);
  for (auto _ : state) {
    ops->SparseAttention(context.ctx,
                         {.rows = rows,
                          .heads = s.heads,
                          .dim = s.dim,
                          .window = s.window,
                          .k = s.topk,
                          .q = q.data(),
                          .positions = positions.data(),
                          .seq = seq.data(),
                          .topk = topk.data(),
                          .layout = {EntryFormat::kFp4Main, s.dim, entries, 0, entries * code_bytes},
                          .sequences = {&sequence, 1},
                          .sink = sink.data(),
                          .scale = 0.04f,
                          .out = out.data()});
  }
  SetRates(state, 0, 4.0 * static_cast<double>(rows * s.heads * s.dim * (s.window + s.topk)));
}

void BenchIndexer(benchmark::State& state, const Shape& s, int64_t rows, int64_t entries) {
  RandomBytes random;
  const int64_t code_bytes = s.index_dim / 2, scale_bytes = s.index_dim / 32;
  const std::vector<Bf16> q = random.Values(rows * s.index_heads * s.index_dim),
                          w = random.Values(rows * s.index_heads);
  std::vector<uint8_t> block = random.Codes(entries * code_bytes);
  const std::vector<uint8_t> scales = random.Scales(entries * scale_bytes);
  block.insert(block.end(), scales.begin(), scales.end());
  std::byte* blocks[] = {reinterpret_cast<std::byte*>(block.data())};
  const BlockTable table = {blocks};
  const std::vector<int32_t> seq(static_cast<size_t>(rows), 0),
      visible(static_cast<size_t>(rows), static_cast<int32_t>(entries));
  std::vector<float> scores(static_cast<size_t>(rows * entries));
  std::vector<int32_t> topk(static_cast<size_t>(rows * s.topk));
  Context context(s, rows, entries);
  for (auto _ : state) {
    ops->IndexerScores(context.ctx,
                       {.rows = rows,
                        .heads = s.index_heads,
                        .dim = s.index_dim,
                        .columns = entries,
                        .row_stride = entries,
                        .q = q.data(),
                        .w = w.data(),
                        .seq = seq.data(),
                        .visible = visible.data(),
                        .layout = {EntryFormat::kFp4Index, s.index_dim, entries, 0, entries * code_bytes},
                        .sequences = {&table, 1},
                        .scores = scores.data()});
    ops->SelectTopK(context.ctx, {.rows = rows,
                                  .columns = entries,
                                  .row_stride = entries,
                                  .k = s.topk,
                                  .scores = scores.data(),
                                  .visible = visible.data(),
                                  .topk = topk.data()});
  }
  SetRates(state, 0, 2.0 * static_cast<double>(rows * s.index_heads * s.index_dim * entries));
}

void BenchSelect(benchmark::State& state, int64_t columns, int64_t k) {
  RandomBytes random;
  std::vector<float> scores = random.Floats(columns);
  for (float& x : scores) x = ToFloat(ToBf16(x));
  const auto visible = static_cast<int32_t>(columns);
  std::vector<int32_t> topk(static_cast<size_t>(k));
  Context context(kDemo, 1, columns);
  for (auto _ : state) {
    ops->SelectTopK(context.ctx, {.rows = 1,
                                  .columns = columns,
                                  .row_stride = columns,
                                  .k = k,
                                  .scores = scores.data(),
                                  .visible = &visible,
                                  .topk = topk.data()});
  }
  state.SetItemsProcessed(state.iterations() * columns);
}

void BenchHyper(benchmark::State& state, const Shape& s, int64_t rows) {
  RandomBytes random;
  const std::vector<Bf16> streams = random.Values(rows * 4 * s.hidden), y = random.Values(rows * s.hidden);
  const std::vector<float> fn = random.Floats(24 * 4 * s.hidden), scale = {1, 1, 1}, base = random.Floats(24);
  std::vector<float> pre(static_cast<size_t>(rows * 4)), post(pre.size()), comb(pre.size() * 4);
  std::vector<Bf16> out(streams.size()), u(y.size());
  Context context(s, rows);
  for (auto _ : state) {
    ops->HcMixes(context.ctx, {rows, 4, s.hidden, 20, 1e-6f, 1e-20f, streams.data(), fn.data(), scale.data(),
                               base.data(), pre.data(), post.data(), comb.data()});
    ops->HcCollapse(context.ctx, {rows, 4, s.hidden, streams.data(), pre.data(), u.data()});
    ops->HcExpand(context.ctx,
                  {rows, 4, s.hidden, y.data(), streams.data(), post.data(), comb.data(), out.data()});
  }
  state.SetItemsProcessed(state.iterations() * rows);
}

void BenchRows(benchmark::State& state, const Shape& s, int64_t rows) {
  RandomBytes random;
  const std::vector<Bf16> x = random.Values(rows * s.hidden), weight = random.Values(s.hidden);
  std::vector<Bf16> y(x.size());
  Context context(s, rows);
  for (auto _ : state) {
    ops->RmsNorm(context.ctx, {rows, s.hidden, x.data(), weight.data(), 1e-20f, y.data()});
    ops->FakeQuantize(context.ctx, {rows, s.hidden, QuantScheme::kFp8Act, y.data(), y.data()});
  }
  state.SetItemsProcessed(state.iterations() * rows * s.hidden);
}

void RegisterLinears() {
  struct Format {
    const char* name;
    WeightFormat format;
  };
  for (const Format& f : {Format{"fp4", WeightFormat::kFp4Row32}, Format{"fp8", WeightFormat::kFp8Tile32},
                          Format{"bf16", WeightFormat::kBf16}}) {
    for (int64_t rows : {1, 2, 4, 8, 32, 128, 512}) {
      benchmark::RegisterBenchmark(
          (std::string("linear/real/") + f.name + "/rows:" + std::to_string(rows)).c_str(),
          [f, rows](benchmark::State& state) { BenchLinear(state, f.format, 2304, 5120, rows); });
      benchmark::RegisterBenchmark(
          (std::string("linear/demo/") + f.name + "/rows:" + std::to_string(rows)).c_str(),
          [f, rows](benchmark::State& state) { BenchLinear(state, f.format, 512, 128, rows); });
    }
  }
}

void RegisterAll() {
  RegisterLinears();
  for (const Shape* s : {&kReal, &kDemo}) {
    for (int64_t rows : {1, 8, 128, 512}) {
      const auto name = [&](const char* op) {
        return std::string(op) + "/" + s->name + "/rows:" + std::to_string(rows);
      };
      benchmark::RegisterBenchmark(name("moe").c_str(),
                                   [s, rows](benchmark::State& state) { BenchMoe(state, *s, rows); });
      benchmark::RegisterBenchmark(name("attention").c_str(),
                                   [s, rows](benchmark::State& state) { BenchAttention(state, *s, rows); });
      benchmark::RegisterBenchmark(name("index4096").c_str(), [s, rows](benchmark::State& state) {
        BenchIndexer(state, *s, rows, 4096);
      });
      benchmark::RegisterBenchmark(name("hyper").c_str(),
                                   [s, rows](benchmark::State& state) { BenchHyper(state, *s, rows); });
      benchmark::RegisterBenchmark(name("norm_quant").c_str(),
                                   [s, rows](benchmark::State& state) { BenchRows(state, *s, rows); });
    }
  }
  for (int64_t columns : {4096, 65536, 1048576}) {
    benchmark::RegisterBenchmark(("select512/columns:" + std::to_string(columns)).c_str(),
                                 [columns](benchmark::State& state) { BenchSelect(state, columns, 512); });
  }
}

}  // namespace
}  // namespace deepinfer::kernels

int main(int argc, char** argv) {
  using namespace deepinfer;
  using namespace deepinfer::kernels;
  int threads = 1;
  std::string target(CpuTargets().front());
  std::vector<char*> rest = {argv[0]};
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg.starts_with("--threads=")) {
      threads = std::stoi(arg.substr(10));
    } else if (arg.starts_with("--target=")) {
      target = arg.substr(9);
    } else {
      rest.push_back(argv[i]);
    }
  }
  pool = std::make_unique<ThreadPool>(threads);
  ops = MakeCpuOps(target);
  if (ops == nullptr) return 1;
  RegisterAll();
  int count = static_cast<int>(rest.size());
  benchmark::Initialize(&count, rest.data());
  benchmark::RunSpecifiedBenchmarks();
}
