#pragma once

#include "warpverbs/device/completion_ring.hpp"

namespace warpverbs::inline v0_2::device {

/// Shows a completion to the posters of a queue as a collapsed CQ would, except that the first error stays,
/// so that its cause is never lost.
template <arch::Arch A>
WARPVERBS_DEVICE void Deliver(QueueControl& queue, const arch::CqeTail& tail) {
  auto* const words = reinterpret_cast<uint64_t*>(queue.cqe + mlx5::kCqeTailOffset);
  if (IsError({0, A::Load(words + 1)})) return;
  if (IsError(tail)) A::Store(words, tail.low);
  A::StoreRelease(words + 1, tail.high);
}

/// Returns the queue of a user index; nullptr if it was destroyed: the host changes the table while kernels
/// run.
template <arch::Arch A>
WARPVERBS_DEVICE QueueControl* QueueOf(const CompletionRingControl& control, uint32_t user_index) {
  return reinterpret_cast<QueueControl*>(
      A::Load(reinterpret_cast<const uint64_t*>(control.queues + user_index)));
}

/// Delivers the completions that have arrived on a ring to their queues.
///
/// Any thread may call it. While one thread drains the ring, the others return at once. A thread that dies
/// leaves an index that is at most `depth - 1` completions old: the NIC is then less than two rounds ahead,
/// so the owner bits tell the host how far: see SharedCompletions::Recover().
///
/// @pre  the ring has at least two CQEs
template <arch::Arch A>
WARPVERBS_DEVICE void Drain(CompletionRingControl& control) {
  const uint64_t consumer = A::Load(&control.consumer);
  if ((consumer & kRingLocked) != 0) return;
  CompletionRing<A> ring(control.cq, static_cast<uint32_t>(consumer));
  arch::CqeTail tail;
  if (!ring.Next(tail)) return;
  if (A::CompareSwap(&control.consumer, consumer, consumer | kRingLocked) != consumer) return;
  for (uint32_t left = control.cq.depth;;) {
    QueueControl* const queue = QueueOf<A>(control, ring.UserIndex());
    if (queue != nullptr) Deliver<A>(*queue, tail);
    if (--left == 1) A::StoreRelease(&control.consumer, ring.consumer_index() | kRingLocked);
    if (left == 0 || !ring.Next(tail)) break;
  }
  A::StoreRelease(&control.consumer, uint64_t{ring.consumer_index()});
}

}  // namespace warpverbs::inline v0_2::device
