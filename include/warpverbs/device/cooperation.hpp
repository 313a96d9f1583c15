#pragma once

#include "warpverbs/arch/arch.hpp"

/// Who may post to a queue while a SendQueue lives, and who makes a call of it together.
namespace warpverbs::inline v0_2::device {

/// One thread or warp posts: the end of the queue lives in registers.
struct Exclusive {};

/// Any threads post, each with its own SendQueue.
struct Shared {};

/// As Shared, and all posters of the queue must be of this kind: a poster passes its turn on right after its
/// doorbell, without waiting until that is on its way.
///
/// Assumes that the doorbells of two posters reach the NIC in the order of their turns all the same, though
/// no memory model says so: the later one rings at least a fence later. What it would break if it were wrong:
/// a doorbell that comes late is an old one, so the NIC may not hear of the newest WQEs until somebody posts
/// again. What it saves is in docs/performance.md; off unless you name it.
struct RelaxedShared : Shared {};

// Those who call together bring an operation each and get a ticket each; they share the reservation, the
// release and the doorbell.

/// Every thread for itself.
struct Thread {};

/// The lanes of a warp that are in `lanes`: all of them make every call together, of one queue, in any order
/// with other lanes. Where lanes run in lockstep (AMD), only one such team of a warp may post at a time.
struct Warp {
  /// @param mask  of the caller's warp, the caller among them: 0xffffffff for all 32, A::ActiveLanes() for
  ///               those that are just here
  WARPVERBS_HOST_DEVICE constexpr explicit Warp(arch::LaneMask mask) : lanes(mask) {}
  arch::LaneMask lanes;
};

/// All threads of a block: what any of them has written is sent by all. Where the queue is not as deep as the
/// block has operations, its warps post one after the other.
///
/// Several warps cannot keep the end of a queue in registers, so the queue is Shared.
struct Block : Warp {
  using Warp::Warp;
};

}  // namespace warpverbs::inline v0_2::device
