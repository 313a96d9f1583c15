#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "check.hpp"
#include "warpverbs/device/cooperation.hpp"

/// What all benchmarks of posts launch with.
namespace warpverbs::bench {

inline constexpr uint64_t kLaunchLimitNs = 5'000'000'000;

/// A kernel's results, in host memory.
struct Result {
  uint64_t cycles;    ///< cycles of the first thread
  uint32_t failures;  ///< threads whose posts or waits failed
};

template <class Cooperation>
__device__ Cooperation WholeGroup() {
  if constexpr (std::is_same_v<Cooperation, device::Thread>) {
    return {};
  } else {
    return Cooperation(0xffffffff);
  }
}

/// Results, streams and events that all launches share.
struct Launcher {
  Launcher() {
    Check(cudaHostAlloc(&result, sizeof *result, cudaHostAllocMapped), "allocate a result");
    for (cudaStream_t* stream : {&posters, &sinks})
      Check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "make a stream");
    for (cudaEvent_t* event : {&begin, &end}) Check(cudaEventCreate(event), "make an event");
  }
  Result* result = nullptr;
  cudaStream_t posters = nullptr, sinks = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
};

}  // namespace warpverbs::bench
