#pragma once

#include "warpverbs/device/status.hpp"

namespace warpverbs::inline v0_2::device {

/// A clock that counts from 0 while its reader runs: of the time between two reads, at most kLongestStepNs.
///
/// A limit that the library sets itself is measured by it, so that a program that is stopped (SIGSTOP, a
/// debugger, a paused container or VM) does not find its limits passed when it continues.
template <arch::Arch A>
class RunClock {
 public:
  static constexpr uint64_t kLongestStepNs = 100'000'000;  // a busy machine suspends a thread for less

  WARPVERBS_DEVICE RunClock() : last_read_(A::NowNs()) {}

  WARPVERBS_DEVICE uint64_t NowNs() {
    const uint64_t now = A::NowNs();
    const uint64_t step = now - last_read_;
    last_read_ = now;
    return run_ns_ += step < kLongestStepNs ? step : kLongestStepNs;
  }

 private:
  uint64_t last_read_;
  uint64_t run_ns_ = 0;
};

/// One wait: call Next() after each poll that found nothing.
///
/// @tparam Clock  measures the deadline: A's clock, or RunClock for a limit that the library sets itself
template <arch::Arch A, class Clock = A>
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
      if (clock_.NowNs() >= limit_.deadline_ns) return Code::kTimeout;
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
  Clock clock_;
  uint32_t rounds_ = 0;
  bool check_due_;
};

/// Calls `poll(check_due)` until it returns anything but kPending or the limit ends the wait. The waits
/// of the data path are this loop, but for those of a poster for others, in the two QueueState.
template <arch::Arch A, class Poll>
WARPVERBS_DEVICE Code WaitUntil(const WaitLimit& limit, Poll poll) {
  for (Waiter<A> waiter(limit);;) {
    Code code = poll(waiter.CheckDue());
    if (code != Code::kPending) return code;
    code = waiter.Next();
    if (code != Code::kPending) return code;
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
