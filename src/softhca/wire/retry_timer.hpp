#pragma once

#include <algorithm>
#include <cstdint>

#include "core/qp.hpp"
#include "core/timers.hpp"

namespace softhca {

/// The least time that an answer is waited for, whatever the queue pair's timeout: the peer is a thread that
/// may have to wait for a processor, and a scheduler's tick may take 4 ms.
inline constexpr uint64_t kMinAckTimeoutNs = 4'000'000;

/// When a reliable connection's requester tries again, and how often it still may.
class RetryTimer {
 public:
  /// @param attributes  the queue pair's; they stay where they are
  explicit RetryTimer(const QpAttributes& attributes) : attributes_(attributes) {}

  bool IsIdle() const { return state_ == State::kIdle; }
  /// Whether a receiver that is not ready is waited for.
  bool IsPausing() const { return state_ == State::kPausing; }
  bool IsDue(uint64_t now_ns) const { return now_ns >= NextNs(); }
  /// UINT64_MAX: never.
  uint64_t NextNs() const { return IsIdle() ? UINT64_MAX : due_ns_; }

  void Stop() { state_ = State::kIdle; }
  /// Waits for an answer, from now on.
  void AwaitAnswer(uint64_t now_ns) {
    state_ = State::kWaiting;
    const uint8_t code = attributes_.ack_timeout;
    due_ns_ = code == 0 ? UINT64_MAX : now_ns + std::max(AckTimeoutNs(code), kMinAckTimeoutNs);
  }
  /// Waits for a receiver to get ready. It is alive, so the count of other retries starts anew.
  ///
  /// @return  false if that was one retry too many
  bool AwaitReceiver(uint8_t timer, uint64_t now_ns) {
    if (attributes_.rnr_retry != kRnrRetryForever && not_ready_++ >= attributes_.rnr_retry) return false;
    retries_ = 0;
    state_ = State::kPausing;
    due_ns_ = now_ns + RnrTimerNs(timer);
    return true;
  }

  /// @return  false if that was one retry too many
  bool CountRetry() { return retries_++ < attributes_.retry_count; }
  /// Lets all counts start anew: the peer has acknowledged something.
  void OnProgress() { retries_ = not_ready_ = 0; }

 private:
  enum class State : uint8_t { kIdle, kWaiting, kPausing };

  const QpAttributes& attributes_;
  State state_ = State::kIdle;
  uint64_t due_ns_ = 0;
  uint8_t retries_ = 0, not_ready_ = 0;
};

}  // namespace softhca
