#pragma once

#include "warpverbs/arch/arch.hpp"

/// How threads share a queue, and how they make a call together.
namespace warpverbs::inline v0_2::device {

/// One thread or warp posts: the end of the queue is in registers.
struct Exclusive {};

/// Any threads post, each with its own SendQueue.
struct Shared {};

/// Any threads post, as with Shared, and all posters of the queue must be of this kind: a poster lets the
/// next one ring right after its own doorbell, without waiting until that is on its way.
///
/// It assumes that the doorbells of two posters still reach the NIC in order, although no memory model says
/// so: the later one rings at least a fence later. If the assumption fails, the NIC sees an old doorbell
/// last, and may not execute the newest WQEs until the next post. docs/performance.md has the gain; off
/// unless you name it.
struct RelaxedShared : Shared {};

/// Any threads post, for a queue that many warps of different blocks share: posters hand nothing over to each
/// other, so several times as many posts go out a second. A lone poster is somewhat slower than with Shared.
///
/// The host creates the queue for such posters (EndpointConfig::contended), and all are of this kind. At
/// least four times in a round of the queue, a post or Batch waits until all earlier ones are written, and
/// others behind it wait for that: so a poster that holds a batch open must not wait for another poster, and
/// should submit soon. docs/performance.md has the gain.
struct Contended {};

/// Exclusive, Shared, RelaxedShared or Contended.
template <class T>
concept Sharing = std::is_same_v<T, Exclusive> || std::is_same_v<T, Shared> ||
    std::is_same_v<T, RelaxedShared> || std::is_same_v<T, Contended>;

// Threads that call together bring one operation each and get one ticket each. They share the reservation,
// the release and the doorbell.

/// Each thread calls on its own.
struct Thread {};

/// The lanes of a warp that are in `lanes` make every call together, for one queue, in any order with other
/// lanes. Where lanes run in lockstep (AMD), only one such group of a warp may post at a time.
struct Warp {
  /// @param mask  lanes of the caller's warp, including the caller: 0xffffffff for all 32, or
  ///              A::ActiveLanes() for the active ones
  WARPVERBS_HOST_DEVICE constexpr explicit Warp(arch::LaneMask mask) : lanes(mask) {}
  arch::LaneMask lanes;
};

/// All threads of a block call together; a post sends what any of them has written. If the block has more
/// operations than the queue has slots, its warps post one after the other.
///
/// Several warps cannot keep the end of a queue in registers, so the queue is Shared.
struct Block : Warp {
  using Warp::Warp;
};

/// Thread, Warp or Block.
template <class T>
concept Cooperation = std::is_same_v<T, Thread> || std::is_same_v<T, Warp> || std::is_same_v<T, Block>;

}  // namespace warpverbs::inline v0_2::device
