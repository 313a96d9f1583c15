#pragma once

#include <algorithm>
#include <cstdint>

#include "core/qp.hpp"
#include "core/timers.hpp"

namespace softhca {

/// Shortest acknowledge timeout, whatever the queue pair's: the peer is a thread that may have to wait for a
/// processor, and a scheduler tick may take 4 ms.
inline constexpr uint64_t kMinAckTimeoutNs = 4'000'000;

/// Retry timer and retry counts of a reliable connection's requester.
class RetryTimer {
 public:
  /// @param attributes  the queue pair's attributes; must outlive the timer
  explicit RetryTimer(const QpAttributes& attributes) : attributes_(attributes) {}

  bool IsIdle() const { return state_ == State::kIdle; }
  /// Returns whether the timer waits for a receiver that was not ready.
  bool IsPausing() const { return state_ == State::kPausing; }
  bool IsDue(uint64_t now_ns) const { return now_ns >= NextNs(); }
  /// Returns when the timer is due; UINT64_MAX: never.
  uint64_t NextNs() const { return IsIdle() ? UINT64_MAX : due_ns_; }

  void Stop() { state_ = State::kIdle; }
  /// Starts to wait for a response.
  void AwaitResponse(uint64_t now_ns) {
    state_ = State::kWaiting;
    const uint8_t code = attributes_.ack_timeout;
    due_ns_ = code == 0 ? UINT64_MAX : now_ns + std::max(AckTimeoutNs(code), kMinAckTimeoutNs);
  }
  /// Starts to wait for a receiver that was not ready. The peer is alive, so the count of other retries is
  /// reset.
  ///
  /// @return  false if the RNR retries are used up
  bool AwaitReceiver(uint8_t timer, uint64_t now_ns) {
    if (attributes_.rnr_retry != kRnrRetryForever && not_ready_++ >= attributes_.rnr_retry) return false;
    retries_ = 0;
    state_ = State::kPausing;
    due_ns_ = now_ns + RnrTimerNs(timer);
    return true;
  }

  /// @return  false if the retries are used up
  bool CountRetry() { return retries_++ < attributes_.retry_count; }
  /// Resets all counts: the peer has acknowledged something.
  void OnProgress() { retries_ = not_ready_ = 0; }

 private:
  enum class State : uint8_t { kIdle, kWaiting, kPausing };

  const QpAttributes& attributes_;
  State state_ = State::kIdle;
  uint64_t due_ns_ = 0;
  uint8_t retries_ = 0, not_ready_ = 0;
};

}  // namespace softhca
