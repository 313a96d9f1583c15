#pragma once

#include <cstdint>

#include "warpverbs/arch/arch.hpp"
#include "warpverbs/device/memory.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/device/status.hpp"

/// Jobs that the host passes to posters, and their results. All pointers refer to memory that both reach.
/// Times are in ns of the poster's clock.
namespace warpverbs::perf {

enum class Verb : uint8_t { kWrite, kRead, kSend, kFetchAdd, kCompareSwap };

/// The messages of one queue pair: `slots` neighbouring places at both ends, used in turn.
struct Flow {
  device::QueueView queue;
  device::LocalMemory local;    ///< the first slot; `bytes` is the size of a message
  device::RemoteMemory remote;  ///< the first slot at the peer
  uint64_t stride;              ///< distance between neighbouring slots, in bytes
  uint32_t slots;
};

/// The outcome of a launch.
struct LaunchResult {
  static constexpr uint64_t kFailed = 1, kStopped = 2;

  uint64_t abort;  ///< not 0: all threads stop, because one failed (kFailed) or the host says so (kStopped)
  device::Status status;
  uint32_t flow;  ///< the flow that failed
};

/// The times of a poster's first post and of its last completion.
struct Span {
  uint64_t begin_ns, end_ns;
};

/// Messages to post in one launch.
struct StreamJob {
  const Flow* flows;
  uint32_t flow_count;
  uint32_t count;     ///< messages of each flow
  uint32_t batch;     ///< messages of each thread per doorbell
  uint32_t cq_mod;    ///< interval between signaled messages; the last one is signaled, too
  uint32_t tx_depth;  ///< maximum of outstanding messages per flow
  uint32_t posters;   ///< threads, warps or blocks that post to each flow
  uint64_t timeout_ns;
  uint64_t* posted_ns;     ///< post time of message k of flow f, at f * count + k; nullptr: not recorded
  uint64_t* completed_ns;  ///< completion times, likewise; messages that share a completion have the same
  Span* spans;             ///< one per poster, at flow * posters + poster
  LaunchResult* result;
};

/// Messages to receive in one launch.
struct ReceiveFlow {
  device::ReceiveQueueView queue;
  device::LocalMemory local;  ///< the first slot; `bytes` is the size of a slot
  uint64_t stride;
  uint32_t slots;
};
struct ReceiveJob {
  const ReceiveFlow* flows;
  uint32_t flow_count;
  uint32_t count;  ///< messages of each flow
  uint64_t timeout_ns;
  LaunchResult* result;
};

/// Bytes of two slots behind the control segment, the remote address and the inline header.
inline constexpr uint32_t kMaxInlineBytes = 92;

/// Messages to exchange one at a time in one launch.
struct LatencyJob {
  Flow flow;                          ///< a flow of one slot
  device::ReceiveQueueView receives;  ///< the receive queue of a send test
  device::LocalMemory landing;        ///< the memory that the peer writes or sends to
  uint32_t count;
  uint32_t inline_bytes;  ///< maximum size of inlined messages
  bool answers;           ///< whether this side begins by waiting
  uint8_t first_mark;     ///< last byte of the first message; increases by one per message
  uint64_t timeout_ns;
  uint64_t* stamps_ns;  ///< count + 1 times: before each message, and after the last
  LaunchResult* result;
};

/// Records how a thread ended. The first failure is kept, and stops all other threads.
template <arch::Arch A>
WARPVERBS_DEVICE void RecordResult(LaunchResult& result, const device::Status& status, uint32_t flow) {
  if (status.ok() || A::CompareSwap(&result.abort, 0, LaunchResult::kFailed) != 0) return;
  result.status = status;
  result.flow = flow;
}

/// A poster that never blocks checks the abort word this often: the word is in host memory.
inline constexpr uint32_t kStepsBetweenChecks = 4096;

/// Bounds the time without progress.
template <arch::Arch A>
class IdleTimeout {
 public:
  WARPVERBS_DEVICE IdleTimeout(uint64_t timeout_ns, const uint64_t* abort)
      : timeout_ns_(timeout_ns), abort_(abort) {}

  /// Call after a poll with progress. Returns kPending, or kAborted when the abort word is set.
  WARPVERBS_DEVICE device::Code OnProgress() {
    rounds_ = 0;
    const bool check = ++moves_ % kStepsBetweenChecks == 0;
    return check && A::Load(abort_) != 0 ? device::Code::kAborted : device::Code::kPending;
  }

  /// Returns whether this round makes the expensive checks: each costs more than a poll.
  WARPVERBS_DEVICE bool CheckDue() const { return rounds_ % kRounds == kRounds - 1; }

  /// Call after a poll without progress. Pauses and returns kPending, or the reason to stop.
  WARPVERBS_DEVICE device::Code OnIdle() {
    if (rounds_ == 0) since_ns_ = A::NowNs();
    if (CheckDue()) {
      if (A::Load(abort_) != 0) return device::Code::kAborted;
      if (A::NowNs() - since_ns_ > timeout_ns_) return device::Code::kTimeout;
    }
    A::Pause(rounds_++);
    return device::Code::kPending;
  }

 private:
  static constexpr uint32_t kRounds = 64;

  uint64_t timeout_ns_;
  const uint64_t* abort_;
  uint64_t since_ns_ = 0;
  uint32_t rounds_ = 0, moves_ = 0;
};

}  // namespace warpverbs::perf
