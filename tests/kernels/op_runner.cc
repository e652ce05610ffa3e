#include "kernels/op_runner.h"

#include <algorithm>
#include <utility>

#include <gtest/gtest.h>

namespace deepinfer::kernels::testing {
namespace {

constexpr size_t kGuardBytes = 256;
constexpr std::byte kFill{
    0xA5};  // as float -2.9e-16, as bf16 too, as int32 negative: none of them passes for zeroed memory
constexpr std::byte kGuard{0x5C};

}  // namespace

OpRunner::OpRunner(const std::string& implementation, int threads) : ops_(Implementation(implementation)) {
  if (threads > 0) pool_ = std::make_unique<ThreadPool>(threads);
  context_.pool = pool_.get();
}

OpRunner::~OpRunner() { CheckGuard(); }

const OpContext& OpRunner::Context(const WorkspaceLimits& limits) {
  CheckGuard();
  const size_t size = ops_.WorkspaceBytes(limits);
  Result<AlignedBuffer> memory = AlignedBuffer::Allocate(size + kGuardBytes);
  EXPECT_TRUE(memory.ok()) << memory.status().ToString();
  memory_ = *std::move(memory);
  context_.workspace = memory_.bytes().first(size);
  std::fill(context_.workspace.begin(), context_.workspace.end(), kFill);
  std::fill(memory_.bytes().begin() + static_cast<std::ptrdiff_t>(size), memory_.bytes().end(), kGuard);
  return context_;
}

void OpRunner::CheckGuard() {
  const auto guard = memory_.bytes().subspan(context_.workspace.size());
  EXPECT_TRUE(std::all_of(guard.begin(), guard.end(), [](std::byte b) { return b == kGuard; }))
      << ops_.target() << " wrote behind its workspace of " << context_.workspace.size() << " bytes";
}

}  // namespace deepinfer::kernels::testing
