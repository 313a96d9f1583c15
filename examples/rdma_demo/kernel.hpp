// What the server does with the integers that came. The same source runs on a GPU and on threads of a CPU.
#pragma once

#include <cstdint>

#include "warpverbs/arch/arch.hpp"

namespace rdma_demo {

/// By value to the kernel; both arrays are mapped for the processor that runs it.
struct DoubleJob {
  const int32_t* from;
  int32_t* to;
  uint64_t count;
};

/// Twice an integer, without the bit that is too many: what comes over a wire may be anything.
WARPVERBS_HOST_DEVICE int32_t Twice(int32_t integer) {
  return static_cast<int32_t>(2 * static_cast<uint32_t>(integer));
}

/// @tparam Team  the threads that run this together: Rank(), Size()
template <class Team>
WARPVERBS_DEVICE void Double(const Team& team, const DoubleJob& job) {
  for (uint64_t i = team.Rank(); i < job.count; i += team.Size()) job.to[i] = Twice(job.from[i]);
}

}  // namespace rdma_demo
