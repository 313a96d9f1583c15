#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "immediate_data.hpp"
#include "notification_order.hpp"
#include "request.hpp"

namespace warpverbs::inline v0_2::transport {

/// The receiving half of a transport: matches notifications with waits, both in their order, and keeps
/// notifications until there is a wait for them. Not thread-safe.
class Inbox {
 public:
  /// Takes a notification that is available, or waits for one until the deadline.
  void Wait(PendingHandler pending, Clock::time_point deadline, std::vector<Finished>& finished);

  /// Takes a part of a notified write that has arrived.
  ///
  /// @return  false: no peer of this library sends this part now
  bool OnPart(const ImmediateData& part, std::vector<Finished>& finished);

  /// Completes the waits whose deadline has passed.
  ///
  /// @return  time of the next deadline
  Clock::time_point Expire(Clock::time_point now, std::vector<Finished>& finished);

  /// Completes all waits. Available notifications stay.
  void Drop(const Status& status, std::vector<Finished>& finished);

  uint64_t available() const { return available_; }

 private:
  struct Entry : ListNode<Entry>, DeadlineNode<Entry> {
    PendingHandler pending{};
  };

  void Complete(Entry& entry, const Status& status, std::vector<Finished>& finished);

  NotificationOrder order_;
  uint64_t available_ = 0;
  Pool<Entry> pool_;
  IntrusiveList<Entry> entries_;
  Deadlines<Entry> deadlines_;
};

}  // namespace warpverbs::inline v0_2::transport
