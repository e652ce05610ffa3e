#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/checked.h"
#include "base/cpu_count.h"

namespace deepinfer {
namespace {

constexpr int kSpinRounds =
    1000;  // some tens of microseconds: longer than the serial part between two operations

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
  // A worker sleeps on its own ticket, so that a loop of few pieces wakes few threads.
  struct alignas(64) Worker {
    std::atomic<uint32_t> ticket{0};
  };

  // The current loop: written by the caller before it raises the tickets, read only by workers whose ticket it raises.
  const std::function<void(int64_t, int64_t, int)>* body = nullptr;
  int64_t count = 0;
  int64_t piece = 0;
  bool stop = false;

  alignas(64) std::atomic<uint32_t> pending{0};
  std::mutex caller_mutex;
  bool spin = false;
  std::vector<Worker> workers;
  std::vector<std::jthread> threads;

  explicit State(size_t num_workers) : workers(num_workers) {}

  void RunPiece(int thread) const {
    const int64_t begin = piece * thread;
    (*body)(begin, std::min(count, begin + piece), thread);
  }

  void WorkerMain(int thread) {
    std::atomic<uint32_t>& ticket = workers[static_cast<size_t>(thread - 1)].ticket;
    for (uint32_t seen = 0;; ++seen) {
      WaitForChange(ticket, seen, spin);
      if (stop) return;
      RunPiece(thread);
      if (pending.fetch_sub(1) == 1) pending.notify_one();
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
  state_->stop = true;
  state_->Wake(state_->threads.size());
  state_->threads.clear();  // joins
}

int ThreadPool::num_threads() const { return static_cast<int>(state_->threads.size()) + 1; }

void ThreadPool::ParallelFor(int64_t count, int64_t grain,
                             const std::function<void(int64_t begin, int64_t end, int thread)>& body) {
  if (count <= 0) return;
  const int64_t threads = num_threads();
  const int64_t piece = std::max({grain, CeilDiv(count, threads), int64_t{1}});
  if (piece >= count) {
    body(0, count, 0);
    return;
  }
  State& state = *state_;
  const std::lock_guard lock(state.caller_mutex);
  const auto helpers = static_cast<uint32_t>(CeilDiv(count, piece) - 1);
  state.body = &body;
  state.count = count;
  state.piece = piece;
  state.pending.store(helpers);
  state.Wake(helpers);
  state.RunPiece(0);
  for (uint32_t left = state.pending.load(); left != 0; left = state.pending.load()) {
    WaitForChange(state.pending, left, state.spin);
  }
}

}  // namespace deepinfer
