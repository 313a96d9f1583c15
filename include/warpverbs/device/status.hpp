#pragma once

#include <cstdint>

#include "warpverbs/arch/arch.hpp"

/// What a call of the data path says. Nothing here throws, prints or traps.
namespace warpverbs::device {

enum class Code : uint8_t {
  kOk,
  kPending,  ///< not complete yet
  kFull,     ///< no free slot, and the caller did not want to wait for one. Nothing was posted
  kTimeout,  ///< the deadline passed
  kAborted,  ///< the abort word was set
  kError,    ///< the queue pair has failed; the syndrome says why, if it is not 0. Lasting
};

struct Status {
  Code code = Code::kOk;
  /// mlx5::Syndrome; 0 without kError, or where a poster gave up its turn: see SendQueue.
  uint8_t syndrome = 0;
  uint8_t vendor_syndrome = 0;
  uint16_t wqe_index = 0;  ///< of the first failed WQE that was seen

  WARPVERBS_HOST_DEVICE constexpr bool ok() const { return code == Code::kOk; }
};

/// Names a posted WQE: its index modulo 2^32. Good until 2^31 more are posted to its queue.
struct Ticket {
  uint32_t index;
};

/// What posting gives: the ticket counts only where the status is kOk.
struct Posted {
  Status status;
  Ticket ticket;
};

/// When to stop waiting. By default at once.
struct Limit {
  uint64_t deadline_ns = 0;         ///< in the arch's NowNs()
  const uint64_t* abort = nullptr;  ///< stop too when this word is not 0
};

/// One wait: call Next() after each look that found nothing.
template <arch::Arch A>
class Waiter {
 public:
  WARPVERBS_DEVICE explicit Waiter(const Limit& limit) : limit_(limit) {}

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

  /// True in the first round, in every 64th and after a long pause: for looks that are too dear for each.
  WARPVERBS_DEVICE bool IsMilestone() const { return milestone_; }

 private:
  Limit limit_;
  uint32_t rounds_ = 0;
  bool milestone_ = true;
};

}  // namespace warpverbs::device
