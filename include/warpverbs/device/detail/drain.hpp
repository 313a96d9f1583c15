#pragma once

#include "warpverbs/device/completion_ring.hpp"

namespace warpverbs::device {

/// Shows a completion to the posters of a queue as a collapsed CQ would; but the first error stays, so that
/// its cause is never lost.
template <arch::Arch A>
WARPVERBS_DEVICE void Deliver(QueueControl& queue, const arch::CqeTail& tail) {
  auto* const words = reinterpret_cast<uint64_t*>(queue.cqe + mlx5::kCqeTailOffset);
  if (IsError({0, A::Load(words + 1)})) return;
  A::Store(words, tail.low);
  A::StoreRelease(words + 1, tail.high);
}

/// Hands the completions that have arrived on a ring to the queues that they belong to.
///
/// Any thread may call it. One of them does the work while the others go on.
template <arch::Arch A>
WARPVERBS_DEVICE void Drain(CompletionRingControl& control) {
  constexpr uint64_t kLocked = uint64_t{1} << 32;
  const uint64_t consumer = A::Load(&control.consumer);
  if ((consumer & kLocked) != 0) return;
  CompletionRing<A> ring(control.cq, static_cast<uint32_t>(consumer));
  arch::CqeTail tail;
  if (!ring.Next(tail)) return;
  if (A::CompareSwap(&control.consumer, consumer, consumer | kLocked) != consumer) return;
  for (uint32_t taken = 1;; ++taken) {
    QueueControl* const queue = control.queues[ring.Last().user_index];
    if (queue != nullptr) Deliver<A>(*queue, tail);
    if (taken == control.cq.depth || !ring.Next(tail)) break;
  }
  A::StoreRelease(&control.consumer, uint64_t{ring.consumer_index()});
}

}  // namespace warpverbs::device
