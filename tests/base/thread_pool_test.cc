#include "base/thread_pool.h"

#include <atomic>
#include <map>
#include <mutex>
#include <thread>
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

TEST(ThreadPool, PiecesRespectGrainAndSplitIsFixed) {
  ThreadPool pool(4);
  const auto split = [&](int64_t count, int64_t grain) {
    std::mutex mutex;
    std::map<int, std::pair<int64_t, int64_t>> pieces;
    pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end, int thread) {
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(pieces.emplace(thread, std::pair(begin, end)).second);
    });
    return pieces;
  };
  const std::map<int, std::pair<int64_t, int64_t>> expected = {
      {0, {0, 25}}, {1, {25, 50}}, {2, {50, 75}}, {3, {75, 100}}};
  for (int i = 0; i < 50; ++i) EXPECT_EQ(split(100, 1), expected);
  EXPECT_EQ(split(100, 40).size(), 3U);
  EXPECT_EQ(split(100, 40).at(2), std::pair(int64_t{80}, int64_t{100}));
  EXPECT_EQ(split(100, 100).size(), 1U);
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
    pool.ParallelFor(64, 1 + round % 40, [&](int64_t begin, int64_t end, int) {
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
