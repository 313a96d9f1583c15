#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "core/qp.hpp"
#include "core/timers.hpp"
#include "wire/packet_sink.hpp"

namespace softhca {

/// Shortest acknowledge timeout, whatever the queue pair's: the peer is a thread that may have to wait for a
/// processor, and a scheduler tick may take 4 ms.
inline constexpr uint64_t kMinAckTimeoutNs = 4'000'000;

/// Longest time without progress in which timeouts are not counted because the peer's engine cannot run: a
/// peer that is stopped for good must not keep its peers forever.
inline constexpr uint64_t kLongestStallNs = 60'000'000'000;

/// Retry timer and retry counts of a reliable connection's requester.
class RetryTimer {
 public:
  /// @param attributes  the queue pair's attributes; must outlive the timer
  explicit RetryTimer(const QpAttributes& attributes) : attributes_(attributes) {}

  bool IsIdle() const { return state_ == State::kIdle; }
  /// Returns whether the timer pauses after an RNR NAK.
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
  /// Takes time in which this thread could not run off the wait for a response, and off the time in which
  /// timeouts are excused.
  void Delay(uint64_t ns) {
    if (stall_) stall_->since_ns += ns;
    if (state_ == State::kWaiting && due_ns_ != UINT64_MAX) due_ns_ += ns;
  }
  enum class Timeout : uint8_t {
    kExcused,           ///< not counted: the packets wait at the peer
    kExcusedAndResent,  ///< not counted, but to be sent again: a packet may be lost, and the peer too busy to
                        ///< ask for it
    kCounted,
  };
  /// Decides whether a timeout counts. It does not if the peer's engine is stopped, or has not slept since
  /// the last one, so that it may have frames to handle still. At the first one this is unknown, so an engine
  /// that is busy is excused once. After the 2nd, 4th, 8th and so on excused timeout packets are sent again:
  /// rarely, for a peer that has too much to do already.
  ///
  /// @param stalled_at  see PacketSink::PeerStalledAt()
  Timeout OnTimeout(std::optional<uint64_t> stalled_at, uint64_t now_ns) {
    if (!stalled_at) return Timeout::kCounted;
    if (!stall_) stall_ = Stall{.since_ns = now_ns};
    if (now_ns - stall_->since_ns >= kLongestStallNs) return Timeout::kCounted;
    if (*stalled_at == kStoppedPeer) return Timeout::kExcused;
    const bool has_slept = stall_->slept.value_or(*stalled_at) != *stalled_at;
    stall_->slept = stalled_at;
    if (has_slept) return Timeout::kCounted;
    const uint32_t excused = ++stall_->excused;
    return excused > 1 && std::has_single_bit(excused) ? Timeout::kExcusedAndResent : Timeout::kExcused;
  }
  /// Returns whether a timeout since the last progress found the peer's engine stopped or awake.
  bool HasStalled() const { return stall_.has_value(); }
  /// Begins the time in which timeouts are excused again: the peer owes nothing.
  void ForgetStall() { stall_.reset(); }
  /// Starts the pause that an RNR NAK asks for. The peer is alive, so the count of other retries is reset.
  ///
  /// @return  false if the RNR retries are used up
  bool PauseForRnr(uint8_t timer, uint64_t now_ns) {
    if (attributes_.rnr_retry != kRnrRetryForever && rnr_retries_++ >= attributes_.rnr_retry) return false;
    retries_ = 0;
    stall_.reset();
    state_ = State::kPausing;
    due_ns_ = now_ns + RnrTimerNs(timer);
    return true;
  }

  /// @return  false if the retries are used up
  bool CountRetry() { return retries_++ < attributes_.retry_count; }
  /// Resets all counts: the peer has acknowledged something.
  void OnProgress() {
    retries_ = rnr_retries_ = 0;
    stall_.reset();
  }

 private:
  enum class State : uint8_t { kIdle, kWaiting, kPausing };

  /// The peer's engine, from the first timeout that found it stopped or awake.
  struct Stall {
    uint64_t since_ns = 0;
    std::optional<uint64_t> slept{};  ///< how often it had slept when it was last awake
    uint32_t excused = 0;             ///< timeouts at which it was awake
  };

  const QpAttributes& attributes_;
  State state_ = State::kIdle;
  uint64_t due_ns_ = 0;
  std::optional<Stall> stall_;
  uint8_t retries_ = 0, rnr_retries_ = 0;
};

}  // namespace softhca
