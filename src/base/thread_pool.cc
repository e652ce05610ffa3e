#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "base/checked.h"
#include "base/cpu_count.h"

namespace deepinfer {
namespace {

// Some tens of microseconds: longer than the serial part between two operations.
constexpr int kSpinRounds = 1000;

// Enough for a thread that starts late, or that loses its processor, to cost little; few enough to pay for claiming them.
constexpr int64_t kPiecesPerThread = 4;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns when `word` no longer holds `old`: spins first, since the next loop usually starts at once, then sleeps.
void WaitForChange(const std::atomic<uint32_t>& word, uint32_t old, bool spin) {
  if (spin) {
    for (int i = 0; i < kSpinRounds; ++i) {
      if (word.load(std::memory_order_acquire) != old) return;
      Pause();
    }
  }
  word.wait(old, std::memory_order_acquire);
}

}  // namespace

struct ThreadPool::State {
  using Body = FunctionRef<void(int64_t, int64_t, int)>;

  // A worker sleeps on its own ticket, so that a loop of few pieces wakes few threads.
  struct alignas(64) Worker {
    std::atomic<uint32_t> ticket{0};
  };

  // The present loop. Written only while no piece is claimed, read only by whoever has claimed one.
  const Body* body = nullptr;
  int64_t count = 0;
  int64_t piece = 0;
  int64_t num_pieces = 0;

  // Number of the loop (upper half) and how many of its pieces nobody has claimed yet (lower half). One word, so that a worker that
  // wakes when its loop is over can neither take a piece of it nor mistake the next one's fields for its own.
  alignas(64) std::atomic<uint64_t> unclaimed{0};
  // Pieces that are not done; the caller sleeps on it.
  alignas(64) std::atomic<uint32_t> pending{0};
  std::atomic<bool> busy{false};  // some caller's loop is in the pool
  std::atomic<bool> stop{false};
  bool spin = false;
  std::vector<Worker> workers;
  std::vector<std::jthread> threads;

  explicit State(size_t num_workers) : workers(num_workers) {}

  // Claims and runs pieces until none is left.
  void RunPieces(int thread) {
    uint64_t seen = unclaimed.load(std::memory_order_acquire);
    while (static_cast<uint32_t>(seen) != 0) {
      if (!unclaimed.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel)) continue;
      const int64_t begin = piece * (num_pieces - static_cast<uint32_t>(seen));
      (*body)(begin, std::min(count, begin + piece), thread);
      if (pending.fetch_sub(1, std::memory_order_acq_rel) == 1) pending.notify_one();
      seen = unclaimed.load(std::memory_order_acquire);
    }
  }

  void WorkerMain(int thread) {
    std::atomic<uint32_t>& ticket = workers[static_cast<size_t>(thread - 1)].ticket;
    for (uint32_t seen = 0;;) {
      WaitForChange(ticket, seen, spin);
      seen = ticket.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_acquire)) return;
      RunPieces(thread);
    }
  }

  void Wake(size_t num_workers) {
    for (size_t i = 0; i < num_workers; ++i) {
      workers[i].ticket.fetch_add(1);
      workers[i].ticket.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int num_threads) {
  const int available = AvailableCpus();
  if (num_threads <= 0) num_threads = available;
  state_ = std::make_unique<State>(static_cast<size_t>(num_threads - 1));
  // A spinning thread would only take the processor from one that has work when there are more threads than processors.
  state_->spin = num_threads <= available;
  for (int thread = 1; thread < num_threads; ++thread) {
    try {
      state_->threads.emplace_back([state = state_.get(), thread] { state->WorkerMain(thread); });
    } catch (const std::system_error&) {
      break;  // a limit on threads: work with those that there are
    }
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true);
  state_->Wake(state_->threads.size());
  state_->threads.clear();  // joins
}

int ThreadPool::num_threads() const { return static_cast<int>(state_->threads.size()) + 1; }

void ThreadPool::ParallelFor(int64_t count, int64_t grain,
                             FunctionRef<void(int64_t begin, int64_t end, int thread)> body) {
  if (count <= 0) return;
  const int64_t threads = num_threads();
  const int64_t piece = std::max({grain, CeilDiv(count, threads * kPiecesPerThread), int64_t{1}});
  State& state = *state_;
  // Waiting for the other loop could be waiting for ourselves, when that one's body has called us.
  if (threads == 1 || piece >= count || state.busy.exchange(true, std::memory_order_acquire)) {
    body(0, count, 0);
    return;
  }
  state.body = &body;
  state.count = count;
  state.piece = piece;
  state.num_pieces = CeilDiv(count, piece);
  state.pending.store(static_cast<uint32_t>(state.num_pieces), std::memory_order_relaxed);
  const uint64_t loop = (state.unclaimed.load(std::memory_order_relaxed) >> 32) + 1;
  state.unclaimed.store(loop << 32 | static_cast<uint64_t>(state.num_pieces), std::memory_order_release);
  state.Wake(static_cast<size_t>(std::min(threads, state.num_pieces) - 1));
  state.RunPieces(0);
  for (uint32_t left = state.pending.load(std::memory_order_acquire); left != 0;
       left = state.pending.load(std::memory_order_acquire)) {
    WaitForChange(state.pending, left, state.spin);
  }
  state.busy.store(false, std::memory_order_release);
}

}  // namespace deepinfer
