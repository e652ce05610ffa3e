// Sequences that wait for admission: priority with ageing, near deadlines, then users in turn. Internal to the module.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "scheduler/config.h"
#include "scheduler/request.h"

namespace deepinfer::scheduler {

using UserId = uint32_t;

/// Order of the head: the highest priority level; in it sequences whose deadline is near, the nearest first; then the user that has
/// received the least work since it became active (start-time fair queueing), and of that user the oldest. Every operation costs
/// O(log n) amortised.
class WaitingQueue {
 public:
  explicit WaitingQueue(const SchedulerConfig& config)
      : aging_us_(config.aging_us), urgent_us_(config.urgent_us) {}

  /// Counts a live sequence of the user; a user that was idle starts level with those being served: idling earns no credit.
  UserId Acquire(const std::string& user);
  void Release(UserId user);
  /// Adds work done for the user, in rows.
  void Charge(UserId user, int64_t rows) { users_[user].work += rows; }

  struct Item {
    SequenceId sequence = 0;
    UserId user = 0;
    int priority = 0;
    int64_t deadline_us = kNoDeadline;
    int64_t since_us = 0;  // ageing counts from here
    uint64_t order =
        0;  // submission order, kept by a preempted sequence: it comes back to the front of its user's line
  };
  void Push(const Item& item, int64_t now_us);
  /// False when it does not wait here.
  bool Remove(SequenceId sequence);
  /// The next to admit. It stays until Remove.
  std::optional<SequenceId> Head(int64_t now_us);

  /// Of all that wait, without what ageing added; lower than any when nothing waits.
  int HighestPriority() const {
    return priorities_.empty() ? std::numeric_limits<int>::min() : priorities_.begin()->first;
  }

  size_t size() const { return entries_.size(); }
  size_t num_users() const { return users_by_name_.size(); }
  /// The level a waiting sequence has reached by ageing; for tests.
  int LevelOf(SequenceId sequence) const { return entries_.at(sequence).level; }

 private:
  struct User {
    std::string name;
    int64_t work = 0;
    int32_t live = 0;
  };
  struct Entry {
    Item item;
    int level = 0;
    bool urgent = false;
    int64_t promote_at = kNoDeadline;
    int64_t urgent_at = kNoDeadline;
  };
  using Line = std::set<std::pair<uint64_t, SequenceId>>;  // by order
  struct Level {
    std::set<std::pair<int64_t, SequenceId>> urgent;  // by deadline
    std::map<UserId, Line> lines;
    /// Users by work as it was when they were put here. Work only grows, so the first whose figure is still true is the least.
    std::set<std::pair<int64_t, UserId>> turns;
    std::unordered_map<UserId, int64_t> turn_of;
  };

  void Insert(const Entry& entry);
  void Erase(const Entry& entry);
  void Advance(int64_t now_us);
  SequenceId LeastServed(Level* level);
  void DropIdleUsers();

  int64_t aging_us_;
  int64_t urgent_us_;
  int64_t served_ = 0;  // work of the user whose head was last given out: where newcomers start
  std::map<int, Level, std::greater<int>> levels_;
  std::map<int, size_t, std::greater<int>> priorities_;  // how many wait with each
  std::unordered_map<SequenceId, Entry> entries_;
  std::set<std::pair<int64_t, SequenceId>> promotions_;
  std::set<std::pair<int64_t, SequenceId>> urgencies_;
  std::vector<User> users_;
  std::vector<UserId> free_users_;
  std::unordered_map<std::string, UserId> users_by_name_;
  std::set<std::pair<int64_t, UserId>>
      idle_;  // without live sequences, by work: remembered while ahead of `served_`
};

}  // namespace deepinfer::scheduler
