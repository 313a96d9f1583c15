#pragma once

#include <cstdint>

#include "host/endpoint/link.hpp"
#include "warpverbs/device/detail/drain.hpp"

/// A poster that dies while it drains the ring of a link's posts.
namespace warpverbs::inline v0_2::host {

/// A processor whose thread ends where it would store a ring's consumer index, maybe for the second time.
struct DyingCpu : Cpu {
  struct Death {};
  static inline uint32_t delivered = 0;
  static inline uint32_t stores_left = 0;  ///< stores of the consumer index before
  static inline const uint64_t* consumer = nullptr;

  using Cpu::StoreRelease;
  static void StoreRelease(uint64_t* word, uint64_t value) {
    if (word != consumer) ++delivered;
    if (word == consumer && stores_left-- == 0) throw Death();
    Cpu::StoreRelease(word, value);
  }
};

/// Posts one write of a word, without waiting for its completion.
inline device::Status PostWrite(const Link& link, Queue& queue) {
  return queue.Post(device::Write(link.target.Remote(0), link.source.Local(0))).status;
}
inline device::Status PostWrite(const Link& link) {
  Queue queue(link.a.View());
  return PostWrite(link, queue);
}

/// Waits until so many completions have been written to a ring that has only ever held these.
inline bool AwaitCompletions(const device::CqView& cq, uint32_t count) {
  arch::CqeTail tail;
  return Await([&] { return device::CompletionRing<Cpu>(cq, count - 1).Next(tail); });
}

/// Fills the ring of a new link with completions of writes, and lets a poster die that has delivered some,
/// but has not unlocked the ring. Returns how many.
///
/// @param stores  how often it stores the consumer index before
inline uint32_t LeaveADeadDrainer(const Link& link, uint32_t stores) {
  device::CompletionRingControl& ring = *link.a.View().control->ring;
  Queue queue(link.a.View());  // one for all: a new one drains the ring at its first post
  for (uint32_t i = 0; i < ring.cq.depth; ++i) {
    if (!PostWrite(link, queue).ok()) return 0;
  }
  if (!AwaitCompletions(ring.cq, ring.cq.depth)) return 0;
  DyingCpu::delivered = 0;
  DyingCpu::stores_left = stores;
  DyingCpu::consumer = &ring.consumer;
  try {
    device::Drain<DyingCpu>(ring);
    return 0;
  } catch (const DyingCpu::Death&) {
    return DyingCpu::delivered;
  }
}

}  // namespace warpverbs::inline v0_2::host
