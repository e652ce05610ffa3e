// Runs operations of one implementation with its own threads and a workspace of exactly the size it asks for.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/thread_pool.h"
#include "kernels/implementations.h"
#include "kernels/ops.h"
#include "tensor/aligned_buffer.h"

namespace deepinfer::kernels::testing {

class OpRunner {
 public:
  /// `threads` = 0: no pool at all, everything runs inline.
  explicit OpRunner(const std::string& implementation, int threads = 0);
  ~OpRunner();
  OpRunner(const OpRunner&) = delete;
  OpRunner& operator=(const OpRunner&) = delete;

  const Ops& ops() const { return ops_; }
  /// A context with a workspace for exactly these limits, filled with a pattern that is no zero. Valid until the next call.
  const OpContext& Context(const WorkspaceLimits& limits);

 private:
  void CheckGuard();

  const Ops& ops_;
  std::unique_ptr<ThreadPool> pool_;
  AlignedBuffer memory_;
  OpContext context_;
};

}  // namespace deepinfer::kernels::testing
