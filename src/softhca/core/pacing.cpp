#include "core/pacing.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace softhca {
namespace {

constexpr uint64_t kSpinNs = 2'000;
constexpr uint64_t kYieldNs = 2'000'000;
constexpr uint64_t kSlowYieldNs = 50'000;
constexpr uint64_t kFirstYieldPauseNs = 20'000'000;
constexpr uint64_t kLongestYieldPauseNs = 1'000'000'000;

// A doorbell wakes no thread, so a sleep delays it. The delay is at most 1/256 of the pause in the traffic
// before it.
constexpr uint64_t kShortestSleepNs = 30'000;
constexpr uint64_t kIdlePerSleep = 256;

/// Argument of sched_setattr(); the C library declares neither. A short slice lets a waking thread go first.
///
/// @source  Linux v6.12, include/uapi/linux/sched/types.h
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t slice_ns = 0;
  uint64_t deadline = 0;
  uint64_t period = 0;
};

/// @return  nothing if this thread has a scheduling policy other than the default
std::optional<SchedulingAttributes> OwnAttributes() {
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return std::nullopt;
  if (attributes.policy != SCHED_OTHER) return std::nullopt;
  return attributes;
}

/// Lets the calling thread run as soon as it wakes, even if it has recently used half of a processor, as it
/// does in a ping-pong. Needs CAP_SYS_NICE; without it, some messages wait for a scheduler tick.
void PreferRunning() {
  constexpr int32_t kShare = 10;  // nine tenths of a processor shared with a spinning thread
  if (std::optional<SchedulingAttributes> attributes = OwnAttributes()) {
    attributes->nice = std::max(attributes->nice - kShare, -20);
    syscall(SYS_sched_setattr, 0, &*attributes, 0);
  }
}

}  // namespace

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                               std::chrono::nanoseconds(1));
}

void PreferLatency() {
  constexpr unsigned long kTimerSlackNs = 1000;
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  if (std::optional<SchedulingAttributes> attributes = OwnAttributes()) {
    attributes->slice_ns = 100'000;
    syscall(SYS_sched_setattr, 0, &*attributes, 0);
  }
}

void Pacing::Wait(uint64_t now_ns, uint64_t next_ns, Network& network) {
  const uint64_t idle_ns = now_ns - last_work_ns_;
  if (idle_ns < kSpinNs || next_ns <= now_ns) return;
  if (network.Listens()) {
    if (!std::exchange(preferred_, true)) PreferRunning();  // only threads that never yield
  } else if (idle_ns < kYieldNs && now_ns >= yield_from_ns_) {
    return Yield(now_ns);
  }
  const uint64_t sleep_ns = std::clamp(idle_ns / kIdlePerSleep, kShortestSleepNs, kLongestSleepNs);
  network.Wait(std::min(sleep_ns, next_ns - now_ns));
}

void Pacing::Yield(uint64_t now_ns) {
  sched_yield();
  const uint64_t back_ns = NowNs();
  if (back_ns - now_ns < kSlowYieldNs) {
    yield_pause_ns_ = 0;
    return;
  }
  yield_pause_ns_ = std::clamp(2 * yield_pause_ns_, kFirstYieldPauseNs, kLongestYieldPauseNs);
  yield_from_ns_ = back_ns + yield_pause_ns_;
}

}  // namespace softhca
