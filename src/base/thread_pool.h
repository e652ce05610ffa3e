// A fork-join pool for data-parallel loops. The split of the work never influences results: every element of an output is
// computed by exactly one task (spec: design.md §2).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace deepinfer {

class ThreadPool {
 public:
  /// `num_threads` counts the calling thread; 0 = one per processor this process may use.
  explicit ThreadPool(int num_threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  /// Runs body(begin, end, thread) over disjoint pieces that cover [0, count); returns when all are done. Pieces hold at least
  /// `grain` elements (but the last). Not reentrant: `body` must not call ParallelFor of the same pool. `body` must not throw.
  void ParallelFor(int64_t count, int64_t grain,
                   const std::function<void(int64_t begin, int64_t end, int thread)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deepinfer
