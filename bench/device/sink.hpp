#pragma once

#include <cstdint>

#include "warpverbs/arch/cuda.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/mlx5/cqe.hpp"
#include "warpverbs/mlx5/endian.hpp"

/// A NIC's stand-in on the GPU: completes each WQE as soon as its doorbell is rung, and moves no data. On a
/// ring, every WQE must ask for its completion.
namespace warpverbs::bench {

/// Loads the end of the rung WQEs: from the record or, without a record, from the doorbell itself.
__device__ inline uint16_t RungEnd(const device::QueueView& view) {
  if (view.dbrec != nullptr)
    return static_cast<uint16_t>(arch::Cuda::ToBe32(arch::Cuda::Load32(view.dbrec)).raw);
  const auto first = static_cast<uint32_t>(arch::Cuda::Load(view.doorbell));
  return first == 0 ? 0 : static_cast<uint16_t>((arch::Cuda::ToBe32(first).raw >> 8) + 1);
}

/// Writes the completion of a WQE of one slot, all of whose predecessors have one each.
__device__ inline void WriteCompletion(const device::QueueView& view, uint64_t index) {
  const uint64_t slot = index & (view.cq_depth - 1), counter = index & 0xffff;
  const uint64_t owner = view.cq_depth > 1 && (index & view.cq_depth) != 0 ? 1 : 0;
  auto* const tail = reinterpret_cast<uint64_t*>(const_cast<uint8_t*>(view.cqe) + slot * sizeof(mlx5::Cqe64) +
                                                 mlx5::kCqeTailOffset);
  arch::Cuda::Store(tail + 1, owner << 56 | (counter >> 8) << 32 | (counter & 0xff) << 40);
}

/// Completes `expected` WQEBBs of a queue that starts at index 0, by all lanes of a warp. Returns false at
/// the deadline.
__device__ inline bool RunSink(const device::QueueView& view, uint64_t expected, uint64_t deadline_ns) {
  // Constant polling would delay the very stores that it waits for, most of all across PCIe.
  const uint32_t pause_ns = view.dbrec != nullptr ? 2'000 : 20'000;
  for (uint64_t complete = 0; complete < expected;) {
    __nanosleep(pause_ns);
    const uint32_t end = __shfl_sync(~0u, RungEnd(view), 0);
    const auto news = static_cast<uint16_t>(end - static_cast<uint16_t>(complete));
    if (news == 0 || news > view.depth) {  // nothing new, or an older doorbell that came late
      if (__any_sync(~0u, arch::Cuda::NowNs() > deadline_ns)) return false;
      continue;
    }
    complete += news;
    const uint64_t first = view.cq_depth == 1 ? complete - 1 : complete - news;
    for (uint64_t index = first + threadIdx.x; index < complete; index += warpSize)
      WriteCompletion(view, index);
  }
  return true;
}

}  // namespace warpverbs::bench
