#pragma once

#include <cstdint>

#include "warpverbs/arch/arch.hpp"
#include "warpverbs/device/memory.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/device/status.hpp"

/// What the host hands to those who post, and what they hand back. All that is pointed to lies where both
/// reach it; times are of the poster's clock, in ns.
namespace warpverbs::perf {

enum class Verb : uint8_t { kWrite, kRead, kSend, kFetchAdd, kCompareSwap };

/// One queue pair's part: `slots` places for messages, side by side on both ends, used in turn.
struct Flow {
  device::QueueView queue;
  device::LocalMemory local;    ///< the first place; `bytes` of a message
  device::RemoteMemory remote;  ///< likewise there
  uint64_t stride;              ///< from place to place, in bytes
  uint32_t slots;
};

/// How a launch ended.
struct Report {
  static constexpr uint64_t kFailed = 1, kStopped = 2;

  uint64_t abort;  ///< not 0: all stop. kFailed: as one has failed; kStopped: as the host says
  device::Status status;
  uint32_t flow;  ///< whose failure that is
};

/// When a poster began, and when it had seen its last completion.
struct Span {
  uint64_t begin_ns, end_ns;
};

/// Messages to post by one launch.
struct StreamJob {
  const Flow* flows;
  uint32_t flow_count;
  uint32_t count;     ///< messages of each flow
  uint32_t batch;     ///< of each thread by one doorbell
  uint32_t cq_mod;    ///< every so many, and the last, ask for a completion
  uint32_t tx_depth;  ///< at most so many of a flow are under way
  uint32_t posters;   ///< threads, warps or blocks that post to each flow
  uint64_t patience_ns;
  uint64_t* posted_ns;     ///< of message k of flow f at f * count + k; nullptr: nobody wants to know
  uint64_t* completed_ns;  ///< likewise; with moderation those of a completion have the same
  Span* spans;             ///< of each flow's posters: at flow * posters + poster
  Report* report;
};

/// Messages to take in by one launch.
struct ReceiveFlow {
  device::ReceiveQueueView queue;
  device::LocalMemory local;  ///< the first place; `bytes` of a place
  uint64_t stride;
  uint32_t slots;
};
struct ReceiveJob {
  const ReceiveFlow* flows;
  uint32_t flow_count;
  uint32_t count;  ///< messages of each flow
  uint64_t patience_ns;
  Report* report;
};

/// Messages one at a time.
struct LatencyJob {
  Flow flow;                          ///< of one place, the message's
  device::ReceiveQueueView receives;  ///< for sends
  device::LocalMemory landing;        ///< the place that the peer writes or sends to
  uint32_t count;
  uint32_t inline_bytes;  ///< messages up to this size travel in the work queue entry
  bool answers;           ///< begins by waiting
  uint8_t first_mark;     ///< the last byte of the first message; the next ones count on
  uint64_t patience_ns;
  uint64_t* stamps_ns;  ///< count + 1: before each message, and after the last
  Report* report;
};

/// Ends a thread's part; the first that failed stops the others.
template <arch::Arch A>
WARPVERBS_DEVICE void Conclude(Report& report, const device::Status& status, uint32_t flow) {
  if (status.ok() || A::CompareSwap(&report.abort, 0, Report::kFailed) != 0) return;
  report.status = status;
  report.flow = flow;
}

/// Who never has to wait looks whether to stop after so many turns: that is dear to look at.
inline constexpr uint32_t kTurnsBetweenLooks = 4096;

/// Waits as long as something comes now and then.
template <arch::Arch A>
class Patience {
 public:
  WARPVERBS_DEVICE Patience(uint64_t patience_ns, const uint64_t* abort)
      : patience_ns_(patience_ns), abort_(abort) {}

  /// After a look that found something: as Idle(), without a pause.
  WARPVERBS_DEVICE device::Code Moved() {
    rounds_ = 0;
    const bool looks = ++moves_ % kTurnsBetweenLooks == 0;
    return looks && A::Load(abort_) != 0 ? device::Code::kAborted : device::Code::kPending;
  }

  /// Whether this round looks at what is dear to look at.
  WARPVERBS_DEVICE bool IsMilestone() const { return rounds_ % kRounds == kRounds - 1; }

  /// Pauses after a look that found nothing: kPending to look again, or why to stop.
  WARPVERBS_DEVICE device::Code Idle() {
    if (rounds_ == 0) since_ns_ = A::NowNs();
    if (IsMilestone()) {
      if (A::Load(abort_) != 0) return device::Code::kAborted;
      if (A::NowNs() - since_ns_ > patience_ns_) return device::Code::kTimeout;
    }
    A::Pause(rounds_++);
    return device::Code::kPending;
  }

 private:
  static constexpr uint32_t kRounds = 64;

  uint64_t patience_ns_;
  const uint64_t* abort_;
  uint64_t since_ns_ = 0;
  uint32_t rounds_ = 0, moves_ = 0;
};

}  // namespace warpverbs::perf
