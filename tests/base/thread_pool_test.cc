#include "base/thread_pool.h"

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "base/cpu_count.h"

namespace deepinfer {
namespace {

TEST(ThreadPool, EveryElementIsVisitedOnce) {
  for (int num_threads : {1, 2, 3, 8}) {
    ThreadPool pool(num_threads);
    ASSERT_EQ(pool.num_threads(), num_threads);
    for (int64_t count : {0, 1, 2, 7, 8, 9, 100, 1001}) {
      for (int64_t grain : {0, 1, 3, 64, 5000}) {
        std::vector<int> visits(static_cast<size_t>(count));
        pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
        });
        for (int v : visits) ASSERT_EQ(v, 1);
      }
    }
  }
}

TEST(ThreadPool, PiecesDependOnSizeGrainAndThreadsOnly) {
  ThreadPool pool(4);
  const auto split = [&](int64_t count, int64_t grain) {
    std::mutex mutex;
    std::map<int64_t, int64_t> pieces;
    pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end, int thread) {
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(pieces.emplace(begin, end).second);
      EXPECT_TRUE(thread >= 0 && thread < 4);
    });
    return pieces;
  };
  const std::map<int64_t, int64_t> whole = split(160, 1);
  EXPECT_EQ(whole.size(), 16U);  // several for each thread
  for (int i = 0; i < 50; ++i) EXPECT_EQ(split(160, 1), whole);
  EXPECT_EQ(split(100, 40), (std::map<int64_t, int64_t>{{0, 40}, {40, 80}, {80, 100}}));
  EXPECT_EQ(split(100, 100).size(), 1U);
  // As many pieces as threads: each is a single element, which callers use as a slot.
  EXPECT_EQ(split(4, 1).size(), 4U);
}

// A thread that is held up keeps the piece it has, no other: a processor may be taken away at any instant.
TEST(ThreadPool, AThreadThatIsHeldUpHoldsUpOnePiece) {
  for (int num_threads : {2, 3}) {
    ThreadPool pool(num_threads);
    constexpr int64_t kCount = 800;
    std::atomic<int64_t> done{0};
    std::atomic<int64_t> done_meanwhile{0};
    pool.ParallelFor(kCount, 1, [&](int64_t begin, int64_t end, int) {
      if (begin == 0) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (done.load() < kCount - end && std::chrono::steady_clock::now() < deadline)
          std::this_thread::yield();
        done_meanwhile = done.load();
      }
      done += end - begin;
    });
    EXPECT_GE(done_meanwhile.load(), kCount * 3 / 4) << num_threads << " threads";
    EXPECT_EQ(done.load(), kCount);
  }
}

TEST(ThreadPool, NoTwoPiecesOfALoopShareAThread) {
  ThreadPool pool(4);
  std::array<std::atomic<int>, 4> running{};
  for (int round = 0; round < 300; ++round) {
    pool.ParallelFor(64, 1, [&](int64_t, int64_t, int thread) {
      EXPECT_EQ(running[static_cast<size_t>(thread)].fetch_add(1), 0);
      std::this_thread::yield();
      running[static_cast<size_t>(thread)].fetch_sub(1);
    });
  }
}

TEST(ThreadPool, LoopsMayBeNested) {
  ThreadPool outer(3), other(2);
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 100; ++round) {
    outer.ParallelFor(12, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        outer.ParallelFor(10, 1, [&](int64_t from, int64_t to, int) { sum += to - from; });
        // The way back to the first pool from another one's thread must not wait for it either.
        other.ParallelFor(4, 1, [&](int64_t from, int64_t to, int) {
          outer.ParallelFor(to - from, 1, [&](int64_t a, int64_t b, int) { sum += b - a; });
        });
      }
    });
  }
  EXPECT_EQ(sum.load(), 100 * 12 * (10 + 4));
}

TEST(ThreadPool, TakesACallableThatCannotBeCopied) {
  ThreadPool pool(2);
  std::atomic<int64_t> sum{0};
  const auto body = [one = std::make_unique<int64_t>(1), &sum](int64_t begin, int64_t end, int) {
    sum += *one * (end - begin);
  };
  pool.ParallelFor(100, 1, body);
  EXPECT_EQ(sum.load(), 100);
  static_assert(std::is_trivially_copyable_v<FunctionRef<void(int64_t, int64_t, int)>>);
}

TEST(ThreadPool, OneThreadRunsInline) {
  ThreadPool pool(1);
  const std::thread::id caller = std::this_thread::get_id();
  pool.ParallelFor(10, 1, [&](int64_t begin, int64_t end, int thread) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 10);
    EXPECT_EQ(thread, 0);
  });
}

TEST(ThreadPool, ManyShortLoopsSeeEachOthersWrites) {
  ThreadPool pool(4);
  std::vector<int64_t> values(64, 0);
  for (int round = 0; round < 5000; ++round) {
    pool.ParallelFor(64, round % 3 == 0 ? 0 : 1 + round % 40, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] += i;
    });
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<int64_t>(i) * (round + 1));
  }
}

TEST(ThreadPool, CallersMayShareAPool) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  std::vector<std::jthread> callers;
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        pool.ParallelFor(30, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
      }
    });
  }
  callers.clear();
  EXPECT_EQ(sum.load(), 3 * 200 * 30);
}

TEST(ThreadPool, DefaultIsWhatTheProcessMayUse) {
  EXPECT_GE(AvailableCpus(), 1);
  EXPECT_EQ(ThreadPool().num_threads(), AvailableCpus());
  for (int i = 0; i < 50; ++i) ThreadPool unused(3);
}

}  // namespace
}  // namespace deepinfer
