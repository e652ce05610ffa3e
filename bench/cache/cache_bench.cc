// Cost of the state cache on the host: look-ups of long prompts, appended rows, blocks, admissions (spec: serving.md S10, S11).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "cache/cache.h"

namespace deepinfer::cache {
namespace {

// Sizes of the released model; the pool is a number, no memory is taken for it.
CacheConfig ReleasedConfig(int64_t units) {
  CacheConfig config;
  config.block_bytes = 113'920;
  config.state_bytes = 3'153'408;
  config.snapshot_bytes = 1'351'680;
  config.pool_bytes = units * config.block_bytes;
  config.max_sequences = 1024;
  config.max_snapshots = 256;
  return config;
}

std::unique_ptr<StateCache> MakeCache(int64_t units) {
  return std::move(StateCache::Create(ReleasedConfig(units))).value();
}

std::vector<int32_t> Ids(int64_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), 7);
  return ids;
}

void Publish(StateCache& cache, const Prompt& prompt) {
  CopyList copies;
  const auto length = static_cast<int64_t>(prompt.ids.size());
  const SequenceId id = cache.Admit(prompt, length, length, &copies).value().sequence;
  if (!cache.Commit(id, prompt.ids).ok() || !cache.Release(id, ReleaseMode::kKeep).ok()) std::abort();
}

// S10: longest-prefix look-up, hashing included. 1,048,576 ids are 8,191 blocks.
void BM_Lookup(benchmark::State& state) {
  const auto cache = MakeCache(10'000);
  const std::vector<int32_t> ids = Ids(state.range(0));
  const Prompt prompt{.ids = ids};
  Publish(*cache, prompt);
  for (auto _ : state) {
    Result<Resume> resume = cache->Probe(prompt);
    if (resume->hit + 128 < state.range(0)) state.SkipWithError("the prompt is not cached");
    benchmark::DoNotOptimize(resume);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Lookup)->Arg(4096)->Arg(32'768)->Arg(1'048'576)->Unit(benchmark::kMicrosecond);

// S10: 128 appended rows, one of them publishing a block: in one commit, as a prefill appends them, and one by one.
void BM_Append128(benchmark::State& state) {
  const auto cache = MakeCache(100'000);
  CopyList copies;
  const std::vector<int32_t> ids = Ids(128);
  const int64_t rows = state.range(0);
  constexpr int64_t kLength = 1 << 20;
  SequenceId id = SequenceId::kNone;
  int64_t length = kLength;
  for (auto _ : state) {
    if (length + 256 >= kLength) {
      state.PauseTiming();
      if (id != SequenceId::kNone && !cache->Release(id, ReleaseMode::kKeep).ok()) std::abort();
      cache->DropCached();
      id = cache->Admit({.ids = std::span(ids).first(1)}, 1, kLength, &copies).value().sequence;
      if (!cache->Commit(id, std::span(ids).first(1)).ok()) std::abort();
      length = 1;
      state.ResumeTiming();
    }
    for (int64_t i = 0; i < 128; i += rows) {
      length += rows;
      const std::span<const int32_t> next =
          std::span(ids).subspan(static_cast<size_t>(i), static_cast<size_t>(rows));
      if (!cache->Reserve(id, length + 12).ok() || !cache->Commit(id, next).ok()) std::abort();
    }
  }
  state.SetItemsProcessed(state.iterations() * 128);
}
BENCHMARK(BM_Append128)->Arg(128)->Arg(1)->Unit(benchmark::kMicrosecond);

// One decode step of B sequences: a row and a reservation each.
void BM_DecodeStep(benchmark::State& state) {
  const auto cache = MakeCache(200'000);
  CopyList copies;
  std::vector<SequenceId> ids;
  constexpr int64_t kLength = 1 << 18;
  int32_t next = 0;
  int64_t length = kLength;
  for (auto _ : state) {
    if (length + 64 >= kLength) {
      state.PauseTiming();
      for (const SequenceId id : ids) {
        if (!cache->Release(id, ReleaseMode::kKeep).ok()) std::abort();
      }
      ids.clear();
      for (int64_t i = 0; i < state.range(0); ++i) {
        ++next;
        ids.push_back(cache->Admit({.ids = std::span(&next, 1)}, 1, kLength, &copies).value().sequence);
        if (!cache->Commit(ids.back(), std::span(&next, 1)).ok()) std::abort();
      }
      copies.Clear();
      length = 1;
      state.ResumeTiming();
    }
    ++length;
    for (const SequenceId id : ids) {
      if (!cache->Reserve(id, length + 12).ok() || !cache->Commit(id, std::span(&next, 1)).ok()) std::abort();
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_DecodeStep)->Arg(64)->Arg(256)->Iterations(20'000)->Unit(benchmark::kMicrosecond);

// S11: taking and giving back blocks; items are blocks, each taken and given back once.
void BM_Blocks(benchmark::State& state) {
  const auto cache = MakeCache(10'000);
  CopyList copies;
  constexpr int64_t kBlocks = 4'000;
  const std::vector<int32_t> ids = Ids(1);
  for (auto _ : state) {
    const SequenceId id = cache->Admit({.ids = ids}, 1, kBlocks * 128, &copies).value().sequence;
    if (!cache->Reserve(id, kBlocks * 128).ok() || !cache->Release(id, ReleaseMode::kDiscard).ok())
      std::abort();
    copies.Clear();
  }
  state.SetItemsProcessed(state.iterations() * kBlocks);
}
BENCHMARK(BM_Blocks);

// The same with a full pool, where every new block evicts an old one and is published itself, hash included.
void BM_PublishEvicting(benchmark::State& state) {
  const auto cache = MakeCache(10'000);
  constexpr int64_t kBlocks = 1'000;
  std::vector<int32_t> ids = Ids(kBlocks * 128);
  for (int i = 0; i < 12; ++i, ++ids[0]) Publish(*cache, {.ids = ids});
  for (auto _ : state) {
    ++ids[0];
    Publish(*cache, {.ids = ids});
  }
  state.SetItemsProcessed(state.iterations() * kBlocks);
}
BENCHMARK(BM_PublishEvicting);

// S11: pinning and letting go of a hit's blocks.
void BM_ForkRelease(benchmark::State& state) {
  const auto cache = MakeCache(10'000);
  CopyList copies;
  const std::vector<int32_t> ids = Ids(state.range(0));
  const Prompt prompt{.ids = ids};
  const SequenceId id = cache->Admit(prompt, state.range(0), state.range(0), &copies).value().sequence;
  if (!cache->Commit(id, ids).ok()) std::abort();
  for (auto _ : state) {
    const SequenceId child = cache->Fork(id, &copies).value();
    if (!cache->Release(child, ReleaseMode::kKeep).ok()) std::abort();
    copies.Clear();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0) / 128);
}
BENCHMARK(BM_ForkRelease)->Arg(128)->Arg(524'288);

}  // namespace
}  // namespace deepinfer::cache

BENCHMARK_MAIN();
