// The server's work: it doubles integers. The same source runs on a GPU and on threads of a CPU.
#pragma once

#include <chrono>
#include <cstdint>

#include "warpverbs/arch/arch.hpp"

namespace rdma_demo {

/// The kernel's argument, passed by value. The processor that runs the kernel reaches both arrays.
struct DoubleJob {
  const int32_t* from;
  int32_t* to;
  uint64_t count;
};

/// Returns twice an integer, modulo 2^32: integers from the wire may have any value.
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

/// Says whether this program contains kernels for NVIDIA GPUs.
bool HasCudaKernels();

/// Runs Double() on a GPU, and waits for it.
///
/// @param job  arrays in the memory of that GPU
/// @errors  std::runtime_error: the kernel cannot be launched, fails, or is still running at the deadline
void DoubleOnCuda(int gpu, const DoubleJob& job, std::chrono::steady_clock::time_point deadline);

}  // namespace rdma_demo
