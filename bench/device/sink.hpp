#pragma once

#include <cstdint>

#include "warpverbs/arch/cuda.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/mlx5/cqe.hpp"
#include "warpverbs/mlx5/endian.hpp"

/// A NIC's stand-in on the GPU: completes each WQE as soon as its doorbell is rung, and moves no data.
namespace warpverbs::bench {

/// Loads the end of the rung WQEs: from the record or, without a record, from the doorbell itself.
__device__ inline uint16_t RungEnd(const device::QueueView& view) {
  if (view.dbrec != nullptr)
    return static_cast<uint16_t>(arch::Cuda::ToBe32(arch::Cuda::Load32(view.dbrec)).raw);
  const auto first = static_cast<uint32_t>(arch::Cuda::Load(view.doorbell));
  return first == 0 ? 0 : static_cast<uint16_t>((arch::Cuda::ToBe32(first).raw >> 8) + 1);
}

/// Completes `expected` WQEBBs of a queue that starts at index 0. Returns false at the deadline.
__device__ inline bool RunSink(const device::QueueView& view, uint64_t expected, uint64_t deadline_ns) {
  // Constant polling would delay the very stores that it waits for, most of all across PCIe.
  const uint32_t pause_ns = view.dbrec != nullptr ? 2'000 : 20'000;
  auto* const tail = reinterpret_cast<uint64_t*>(const_cast<uint8_t*>(view.cqe) + mlx5::kCqeTailOffset);
  for (uint64_t complete = 0; complete < expected;) {
    __nanosleep(pause_ns);
    const auto news = static_cast<uint16_t>(RungEnd(view) - static_cast<uint16_t>(complete));
    if (news == 0 || news > view.depth) {  // nothing new, or an older doorbell that came late
      if (arch::Cuda::NowNs() > deadline_ns) return false;
      continue;
    }
    complete += news;
    const uint64_t counter = (complete - 1) & 0xffff;
    arch::Cuda::Store(tail + 1, (counter >> 8) << 32 | (counter & 0xff) << 40);
  }
  return true;
}

}  // namespace warpverbs::bench
