#include "scheduler/waiting_queue.h"

#include <gtest/gtest.h>

namespace deepinfer::scheduler {
namespace {

SchedulerConfig Config() {
  SchedulerConfig config;
  config.aging_us = 1000;
  config.urgent_us = 100;
  return config;
}

/// Takes everything out in order.
std::vector<SequenceId> Order(WaitingQueue* queue, int64_t now_us) {
  std::vector<SequenceId> order;
  while (const auto head = queue->Head(now_us)) {
    order.push_back(*head);
    queue->Remove(*head);
  }
  return order;
}

TEST(WaitingQueue, OneUserIsServedInOrderOfSubmission) {
  WaitingQueue queue(Config());
  const UserId user = queue.Acquire("a");
  queue.Push({.sequence = 12, .user = user, .order = 2}, 0);
  queue.Push({.sequence = 13, .user = user, .order = 3}, 0);
  queue.Push({.sequence = 11, .user = user, .order = 1}, 0);  // a preempted one comes back to the front
  EXPECT_EQ(Order(&queue, 0), (std::vector<SequenceId>{11, 12, 13}));
  EXPECT_EQ(queue.size(), 0U);
  EXPECT_FALSE(queue.Remove(11));
}

TEST(WaitingQueue, HigherPriorityGoesFirst) {
  WaitingQueue queue(Config());
  const UserId user = queue.Acquire("a");
  queue.Push({.sequence = 1, .user = user, .priority = -1, .order = 1}, 0);
  queue.Push({.sequence = 2, .user = user, .priority = 3, .order = 2}, 0);
  queue.Push({.sequence = 3, .user = user, .priority = 0, .order = 3}, 0);
  EXPECT_EQ(Order(&queue, 0), (std::vector<SequenceId>{2, 3, 1}));
}

TEST(WaitingQueue, WaitingRaisesTheLevelUpToTheHighest) {
  WaitingQueue queue(Config());
  const UserId user = queue.Acquire("a");
  queue.Push({.sequence = 1, .user = user, .priority = 0, .order = 1}, 0);
  queue.Push({.sequence = 2, .user = user, .priority = 2, .since_us = 1500, .order = 2}, 1500);
  EXPECT_EQ(*queue.Head(1999), 2U);
  EXPECT_EQ(queue.LevelOf(1), 1);
  // At 2000 both stand at level 2; the older one goes first.
  EXPECT_EQ(*queue.Head(2000), 1U);
  queue.Head(1'000'000);
  EXPECT_EQ(queue.LevelOf(1), kMaxPriority);
  EXPECT_EQ(queue.LevelOf(2), kMaxPriority);
}

TEST(WaitingQueue, NearDeadlinesGoFirstInTheirLevelOnly) {
  WaitingQueue queue(Config());
  const UserId user = queue.Acquire("a");
  queue.Push({.sequence = 1, .user = user, .priority = 1, .order = 1}, 0);
  queue.Push({.sequence = 2, .user = user, .deadline_us = 500, .order = 2}, 0);
  queue.Push({.sequence = 3, .user = user, .order = 3}, 0);
  queue.Push({.sequence = 4, .user = user, .deadline_us = 450, .order = 4}, 0);
  queue.Push({.sequence = 5, .user = user, .order = 0}, 0);
  EXPECT_EQ(*queue.Head(0), 1U);
  queue.Remove(1);
  EXPECT_EQ(*queue.Head(349), 5U);
  EXPECT_EQ(*queue.Head(350), 4U);
  EXPECT_EQ(Order(&queue, 400), (std::vector<SequenceId>{4, 2, 5, 3}));
}

TEST(WaitingQueue, UsersShareByWorkDone) {
  WaitingQueue queue(Config());
  const UserId heavy = queue.Acquire("heavy");
  const UserId light = queue.Acquire("light");
  for (uint64_t i = 0; i < 4; ++i) {
    queue.Push({.sequence = 10 + i, .user = heavy, .order = i}, 0);
    queue.Push({.sequence = 20 + i, .user = light, .order = 10 + i}, 0);
  }
  std::vector<SequenceId> order;
  while (const auto head = queue.Head(0)) {
    order.push_back(*head);
    queue.Remove(*head);
    queue.Charge(*head < 20 ? heavy : light, *head < 20 ? 3000 : 1000);
  }
  EXPECT_EQ(order, (std::vector<SequenceId>{10, 20, 21, 22, 11, 23, 12, 13}));
}

TEST(WaitingQueue, IdlingEarnsNoCreditAndForgivesNoDebt) {
  WaitingQueue queue(Config());
  const UserId busy = queue.Acquire("busy");
  const UserId spender = queue.Acquire("spender");
  queue.Charge(spender, 50'000);
  queue.Release(spender);  // idle, ahead of the others: remembered
  EXPECT_EQ(queue.num_users(), 2U);
  queue.Charge(busy, 10'000);
  queue.Push({.sequence = 1, .user = busy, .order = 1}, 0);
  EXPECT_EQ(*queue.Head(0), 1U);
  // A newcomer starts level with the one being served, not at zero.
  const UserId newcomer = queue.Acquire("newcomer");
  queue.Push({.sequence = 2, .user = newcomer, .order = 2}, 0);
  queue.Charge(newcomer, 1);
  EXPECT_EQ(*queue.Head(0), 1U);
  // The spender comes back with its work still counted.
  EXPECT_EQ(queue.Acquire("spender"), spender);
  queue.Push({.sequence = 3, .user = spender, .order = 0}, 0);
  EXPECT_EQ(Order(&queue, 0), (std::vector<SequenceId>{1, 2, 3}));
}

TEST(WaitingQueue, IdleUsersAreForgottenWhenOthersHaveCaughtUp) {
  WaitingQueue queue(Config());
  for (int i = 0; i < 1000; ++i) {
    const UserId user = queue.Acquire("user " + std::to_string(i));
    queue.Push({.sequence = 1, .user = user, .order = 1}, 0);
    EXPECT_EQ(*queue.Head(0), 1U);
    queue.Remove(1);
    queue.Charge(user, 100);
    queue.Release(user);
  }
  const UserId last = queue.Acquire("last");
  queue.Charge(last, 1'000'000);
  queue.Push({.sequence = 1, .user = last, .order = 1}, 0);
  queue.Head(0);
  EXPECT_EQ(queue.num_users(), 1U);
}

}  // namespace
}  // namespace deepinfer::scheduler
