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

/// Doubles one thread's share of the integers.
///
/// @param rank     index of the thread among all that run the kernel
/// @param threads  number of these threads
WARPVERBS_HOST_DEVICE void Double(uint64_t rank, uint64_t threads, const DoubleJob& job) {
  for (uint64_t i = rank; i < job.count; i += threads) job.to[i] = Twice(job.from[i]);
}

}  // namespace rdma_demo
