#pragma once

#include "warpverbs/device/status.hpp"

namespace warpverbs::inline v0_2::device {

/// One wait: call Next() after each poll that found nothing.
template <arch::Arch A>
class Waiter {
 public:
  /// @param defer_checks  skips clock and abort checks in the first rounds: each costs more than a poll
  WARPVERBS_DEVICE explicit Waiter(const WaitLimit& limit, bool defer_checks = false)
      : limit_(limit), check_due_(!defer_checks) {}

  /// Pauses, then returns kPending to poll again, or the reason to stop.
  WARPVERBS_DEVICE Code Next() {
    if (limit_.deadline_ns == 0) return Code::kTimeout;
    if (check_due_) {
      if (limit_.abort != nullptr && A::Load(limit_.abort) != 0) return Code::kAborted;
      if (A::NowNs() >= limit_.deadline_ns) return Code::kTimeout;
    }
    const bool long_pause = A::Pause(rounds_);
    check_due_ = ++rounds_ % 64 == 0 || long_pause;
    return Code::kPending;
  }

  /// Returns true when expensive checks are due: in the first round, unless deferred, in every 64th, and
  /// after a long pause.
  WARPVERBS_DEVICE bool CheckDue() const { return check_due_; }

 private:
  WaitLimit limit_;
  uint32_t rounds_ = 0;
  bool check_due_;
};

/// Calls `poll(check_due)` until it returns anything but kPending or the limit ends the wait. Every wait of
/// the data path but one is this loop: QueueState hands over by its own.
template <arch::Arch A, class Poll>
WARPVERBS_DEVICE Code WaitUntil(const WaitLimit& limit, Poll poll) {
  for (Waiter<A> waiter(limit);;) {
    Code code = poll(waiter.CheckDue());
    if (code != Code::kPending) return code;
    if ((code = waiter.Next()) != Code::kPending) return code;
  }
}

/// Does the same for a `poll()` that returns a Status.
template <arch::Arch A, class Poll>
WARPVERBS_DEVICE Status WaitForStatus(const WaitLimit& limit, Poll poll) {
  Status status;
  const Code code = WaitUntil<A>(limit, [&](bool) { return (status = poll()).code; });
  return code == status.code ? status : Status{.code = code};
}

}  // namespace warpverbs::inline v0_2::device
