// A fork-join pool for data-parallel loops. Who computes what never influences results: the pieces of a loop depend on its size
// and on the number of threads only, and every element of an output is computed by exactly one piece (spec: design.md §2).
#pragma once

#include <cstdint>
#include <memory>

#include "base/function_ref.h"

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
  /// `grain` elements (but the last) and are taken by whichever thread is free, several by one thread, so that a thread that gets
  /// no processor holds up nothing that it has not begun. `thread` is in [0, num_threads()), and no two pieces of a loop run under
  /// the same one at the same time. May be called from several threads and from a body: a loop that meets another one in the pool
  /// runs on its caller alone. `body` must not throw. Allocates nothing.
  void ParallelFor(int64_t count, int64_t grain,
                   FunctionRef<void(int64_t begin, int64_t end, int thread)> body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deepinfer
