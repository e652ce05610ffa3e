#include "scheduler/waiting_queue.h"

#include <algorithm>

namespace deepinfer::scheduler {

UserId WaitingQueue::Acquire(const std::string& user) {
  auto found = users_by_name_.find(user);
  if (found == users_by_name_.end()) {
    UserId id = static_cast<UserId>(users_.size());
    if (free_users_.empty()) {
      users_.emplace_back();
    } else {
      id = free_users_.back();
      free_users_.pop_back();
    }
    users_[id] = {user, served_, 0};
    found = users_by_name_.emplace(user, id).first;
  }
  User& entry = users_[found->second];
  if (entry.live == 0) {
    idle_.erase({entry.work, found->second});
    entry.work = std::max(entry.work, served_);
  }
  ++entry.live;
  return found->second;
}

void WaitingQueue::Release(UserId user) {
  if (--users_[user].live == 0) {
    idle_.insert({users_[user].work, user});
    DropIdleUsers();
  }
}

void WaitingQueue::DropIdleUsers() {
  while (!idle_.empty() && idle_.begin()->first <= served_) {
    const UserId user = idle_.begin()->second;
    idle_.erase(idle_.begin());
    users_by_name_.erase(users_[user].name);
    users_[user] = {};
    free_users_.push_back(user);
  }
}

void WaitingQueue::Push(const Item& item, int64_t now_us) {
  Entry entry{.item = item, .level = item.priority};
  if (aging_us_ > 0) {
    const int64_t steps = std::max<int64_t>(0, now_us - item.since_us) / aging_us_;
    entry.level = static_cast<int>(std::min<int64_t>(kMaxPriority, item.priority + steps));
    if (entry.level < kMaxPriority) entry.promote_at = item.since_us + (steps + 1) * aging_us_;
  }
  if (item.deadline_us != kNoDeadline) {
    entry.urgent = item.deadline_us - urgent_us_ <= now_us;
    if (!entry.urgent) entry.urgent_at = item.deadline_us - urgent_us_;
  }
  Insert(entry);
  ++priorities_[item.priority];
}

void WaitingQueue::Insert(const Entry& entry) {
  const SequenceId id = entry.item.sequence;
  Level& level = levels_[entry.level];
  if (entry.urgent) {
    level.urgent.insert({entry.item.deadline_us, id});
  } else {
    level.lines[entry.item.user].insert({entry.item.order, id});
    if (level.turn_of.emplace(entry.item.user, users_[entry.item.user].work).second) {
      level.turns.insert({users_[entry.item.user].work, entry.item.user});
    }
  }
  if (entry.promote_at != kNoDeadline) promotions_.insert({entry.promote_at, id});
  if (entry.urgent_at != kNoDeadline) urgencies_.insert({entry.urgent_at, id});
  entries_.insert_or_assign(id, entry);
}

void WaitingQueue::Erase(const Entry& entry) {
  const SequenceId id = entry.item.sequence;
  const auto found = levels_.find(entry.level);
  Level& level = found->second;
  if (entry.urgent) {
    level.urgent.erase({entry.item.deadline_us, id});
  } else {
    const auto line = level.lines.find(entry.item.user);
    line->second.erase({entry.item.order, id});
    if (line->second.empty()) {
      level.lines.erase(line);
      const auto turn = level.turn_of.find(entry.item.user);
      level.turns.erase({turn->second, entry.item.user});
      level.turn_of.erase(turn);
    }
  }
  if (level.urgent.empty() && level.lines.empty()) levels_.erase(found);
  if (entry.promote_at != kNoDeadline) promotions_.erase({entry.promote_at, id});
  if (entry.urgent_at != kNoDeadline) urgencies_.erase({entry.urgent_at, id});
}

bool WaitingQueue::Remove(SequenceId sequence) {
  const auto found = entries_.find(sequence);
  if (found == entries_.end()) return false;
  Erase(found->second);
  const auto priority = priorities_.find(found->second.item.priority);
  if (--priority->second == 0) priorities_.erase(priority);
  entries_.erase(found);
  return true;
}

void WaitingQueue::Advance(int64_t now_us) {
  while (!promotions_.empty() && promotions_.begin()->first <= now_us) {
    Entry entry = entries_.at(promotions_.begin()->second);
    Erase(entry);
    ++entry.level;
    entry.promote_at = entry.level < kMaxPriority ? entry.promote_at + aging_us_ : kNoDeadline;
    Insert(entry);
  }
  while (!urgencies_.empty() && urgencies_.begin()->first <= now_us) {
    Entry entry = entries_.at(urgencies_.begin()->second);
    Erase(entry);
    entry.urgent = true;
    entry.urgent_at = kNoDeadline;
    Insert(entry);
  }
}

SequenceId WaitingQueue::LeastServed(Level* level) {
  while (true) {
    const auto [work, user] = *level->turns.begin();
    if (users_[user].work == work) {
      served_ = std::max(served_, work);
      DropIdleUsers();
      return level->lines.at(user).begin()->second;
    }
    level->turns.erase(level->turns.begin());
    level->turns.insert({users_[user].work, user});
    level->turn_of[user] = users_[user].work;
  }
}

std::optional<SequenceId> WaitingQueue::Head(int64_t now_us) {
  Advance(now_us);
  if (levels_.empty()) return std::nullopt;
  Level& level = levels_.begin()->second;
  if (!level.urgent.empty()) return level.urgent.begin()->second;
  return LeastServed(&level);
}

}  // namespace deepinfer::scheduler
