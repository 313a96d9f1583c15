#pragma once

#include "warpverbs/device/status.hpp"

namespace warpverbs::inline v0_2::device {

/// One wait: call Next() after each look that found nothing.
template <arch::Arch A>
class Waiter {
 public:
  /// @param patient  the first rounds are not worth a dear look
  WARPVERBS_DEVICE explicit Waiter(const WaitLimit& limit, bool patient = false)
      : limit_(limit), milestone_(!patient) {}

  /// Pauses, then answers kPending to look again, or why to stop.
  ///
  /// The clock and the abort word cost more to read than what is waited for: see IsMilestone().
  WARPVERBS_DEVICE Code Next() {
    if (limit_.deadline_ns == 0) return Code::kTimeout;
    if (milestone_) {
      if (limit_.abort != nullptr && A::Load(limit_.abort) != 0) return Code::kAborted;
      if (A::NowNs() >= limit_.deadline_ns) return Code::kTimeout;
    }
    const bool long_pause = A::Pause(rounds_);
    milestone_ = ++rounds_ % 64 == 0 || long_pause;
    return Code::kPending;
  }

  /// True in the first round of the impatient, in every 64th and after a long pause: for looks that are too
  /// dear for each.
  WARPVERBS_DEVICE bool IsMilestone() const { return milestone_; }

 private:
  WaitLimit limit_;
  uint32_t rounds_ = 0;
  bool milestone_;
};

}  // namespace warpverbs::inline v0_2::device
