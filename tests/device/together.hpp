#pragma once

#include <cstdint>
#include <latch>
#include <thread>
#include <vector>

#include "test_queue.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/device/status.hpp"

namespace warpverbs::inline v0_2::device {

/// Returns a limit that no working call exceeds.
inline WaitLimit Soon() { return {.deadline_ns = arch::Cpu::NowNs() + 60'000'000'000}; }
inline WaitLimit InAMillisecond() { return {.deadline_ns = arch::Cpu::NowNs() + 1'000'000}; }

/// Waits until the posters of a queue have reserved, or tried to, up to `end`. Returns false if they do not.
inline bool AwaitReserved(const TestQueue& queue, uint32_t end) {
  for (const WaitLimit limit = Soon(); arch::Cpu::Load(&queue.control.tail) >> 32 != end;) {
    if (arch::Cpu::NowNs() > limit.deadline_ns) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Runs `body(thread)` on `count` threads that start together, and joins them.
template <class Body>
void Together(uint32_t count, const Body& body) {
  std::latch start(count);
  std::vector<std::jthread> threads;
  for (uint32_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      body(i);
    });
  }
}

/// Runs `body(lane)` on each lane of `mask`, in a warp of 8.
template <class Body>
void RunLanes(arch::LaneMask mask, const Body& body) {
  constexpr uint32_t kLanes = 8;
  arch::cpu::RunBlock(
      kLanes,
      [&](uint32_t lane) {
        if ((mask >> lane & 1) != 0) body(lane);
      },
      kLanes);
}

}  // namespace warpverbs::inline v0_2::device
