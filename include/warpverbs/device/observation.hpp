#pragma once

#include <concepts>
#include <cstdint>

/// What the posters of a send queue count and trace. The host reads it: Endpoint::Counters(),
/// Endpoint::Trace().
namespace warpverbs::inline v0_2::device {

/// Nothing is counted, at no cost.
struct Unobserved {};

/// A SendQueue counts in its own registers, which adds no access of memory to a post. It adds its counts to
/// those of the queue when it ends, after 1,024 posts, and in a wait if it has not done so for 1 ms: at most
/// 14 atomic additions.
struct Counted {};

/// Counts, and stores the time of each step of a post in the ring of EndpointConfig::trace_slots: two to four
/// stores of 16 bytes for each post, and one for each wait. A poster owns the places of its slots, so there
/// is no atomic operation.
struct Traced {};

/// Unobserved, Counted or Traced.
template <class T>
concept Observing = std::same_as<T, Unobserved> || std::same_as<T, Counted> || std::same_as<T, Traced>;

/// Why a poster waits.
enum class Stall : uint8_t {
  kFull,        ///< the queue has no free slots
  kTurn,        ///< earlier posters of a shared queue have not published theirs
  kCompletion,  ///< the post that a wait names is not complete
};
inline constexpr uint32_t kStallCauses = 3;

/// The waits for one cause. A wait that goes on counts as far as it has gone.
struct StallCounters {
  uint64_t count;  ///< waits that did not end at the first look; posts that were refused with kFull
  uint64_t total_ns;
  uint64_t longest_ns;
};

/// The counts of a send queue since the endpoint's creation; a reset changes none.
struct QueueCounters {
  uint64_t posts;   ///< posts, lists and batches that were published; a call of a warp or block counts once
  uint64_t wqebbs;  ///< their slots
  uint64_t doorbells;  ///< doorbells that were rung
  uint64_t elided;     ///< posts that left their doorbell to a later poster
  uint64_t polls;      ///< looks for completions, by waits, tests, and posts without free slots
  StallCounters stalls[kStallCauses];  ///< waits, indexed by Stall
};

/// The steps of a post. Each has its own part of the ring of events.
enum class TraceKind : uint8_t {
  kPost,      ///< the call began; `value` is its slots
  kFull,      ///< a wait for free slots; `value` is its duration
  kTurn,      ///< a wait for earlier posters; `value` is its duration
  kDoorbell,  ///< the post was published; `value` is 1 if by a doorbell of its own, 0 if it was left to a
              ///< later poster
  kWait,      ///< a wait that ended without the completion; `value` is its duration
  kDone,      ///< a wait until the completion; `value` is its duration
};
inline constexpr uint32_t kTraceKinds = 6;

/// A step of a post. Events of kind k are at `slots * k + index % slots` in the ring.
struct TraceEvent {
  uint64_t time_ns;  ///< beginning of the step, by the poster's NowNs(); 0: no event
  uint32_t value;    ///< durations in ns, at most 2^32 - 1
  uint32_t index;    ///< ticket of the post
};

/// The ring of events of a queue.
struct TraceRing {
  TraceEvent* events;  ///< kTraceKinds * slots; nullptr: there is no ring
  uint64_t slots;      ///< a power of two
};

}  // namespace warpverbs::inline v0_2::device
