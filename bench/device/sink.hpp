#pragma once

#include <cstdint>

#include "warpverbs/arch/cuda.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/mlx5/cqe.hpp"
#include "warpverbs/mlx5/endian.hpp"

/// A NIC's stand-in on the GPU: completes each WQE as soon as its doorbell is rung, and moves no data. On a
/// ring, every WQE must ask for its completion.
namespace warpverbs::bench {

/// What every WQE contains, as it is in memory, but for its index.
struct WrittenWqe {
  uint32_t opcode, qpn_segments_be;
  uint64_t words[4];  ///< the remote address and the data segment
};

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

/// Returns whether a slot holds the write that all benchmarks post, with the index that belongs there.
__device__ inline bool IsPosted(const device::QueueView& view, const WrittenWqe& wqe, uint64_t index) {
  const auto* const words =
      reinterpret_cast<const uint64_t*>(view.sq + (index & (view.depth - 1)) * mlx5::kWqebbBytes);
  const uint32_t first = arch::Cuda::ToBe32(0, static_cast<uint32_t>(index), wqe.opcode).raw;
  bool same = arch::Cuda::Load(words) == arch::Cuda::Join(first, wqe.qpn_segments_be);
  for (uint32_t i = 2; i < 6; ++i) same &= arch::Cuda::Load(words + i) == wqe.words[i - 2];
  return same;
}

/// Completes `expected` WQEBBs of a queue that starts at index 0, by all lanes of a warp. Returns false at
/// the deadline, or for a WQE that is not the one that was posted.
///
/// @param wqe  what to compare each WQE with; nullptr: nothing, so that the sink never limits the rate
__device__ inline bool RunSink(const device::QueueView& view, uint64_t expected, uint64_t deadline_ns,
                               const WrittenWqe* wqe = nullptr) {
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
    if (wqe != nullptr) {
      bool same = true;
      for (uint64_t index = complete + threadIdx.x; index < complete + news; index += warpSize)
        same &= IsPosted(view, *wqe, index);
      if (!__all_sync(~0u, same)) return false;
    }
    complete += news;
    const uint64_t first = view.cq_depth == 1 ? complete - 1 : complete - news;
    for (uint64_t index = first + threadIdx.x; index < complete; index += warpSize)
      WriteCompletion(view, index);
  }
  return true;
}

}  // namespace warpverbs::bench
