#pragma once

#include "warpverbs/arch/arch.hpp"

/// Who may post to a queue while a SendQueue lives, and who makes a call of it together.
namespace warpverbs::device {

/// One thread or warp posts: the end of the queue lives in registers.
struct Exclusive {};

/// Any threads post, each with its own SendQueue.
struct Shared {};

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

/// All threads of a block, warp by warp: what any of them has written is sent by all.
///
/// Several warps cannot keep the end of a queue in registers, so the queue is Shared.
struct Block : Warp {
  using Warp::Warp;
};

}  // namespace warpverbs::device
