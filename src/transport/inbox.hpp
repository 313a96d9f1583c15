#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "announcement.hpp"
#include "notification_order.hpp"
#include "request.hpp"

namespace warpverbs::transport {

/// The receiving half of a transport: each notification goes to one who waits, in the order of both, and is
/// kept while nobody does. Not thread-safe.
class Inbox {
 public:
  /// Waits for a notification until a time, or takes one that is here.
  void Wait(Waiter waiter, Clock::time_point deadline, std::vector<Finished>& finished);

  /// @return  false: no peer of this library announces this now
  bool Take(const Announcement& part, std::vector<Finished>& finished);

  /// Answers those whose time is up.
  ///
  /// @return  when to look again
  Clock::time_point Expire(Clock::time_point now, std::vector<Finished>& finished);

  /// Answers all who wait. Notifications that are here stay.
  void Drop(const Status& status, std::vector<Finished>& finished);

  uint64_t available() const { return available_; }

 private:
  struct Entry : ListNode<Entry>, DeadlineNode<Entry> {
    Waiter waiter{};
  };

  void Answer(Entry& entry, const Status& status, std::vector<Finished>& finished);

  NotificationOrder order_;
  uint64_t available_ = 0;
  Pool<Entry> pool_;
  IntrusiveList<Entry> entries_;
  Deadlines<Entry> deadlines_;
};

}  // namespace warpverbs::transport
