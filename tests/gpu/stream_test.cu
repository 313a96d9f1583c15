// The wait for kernels that the example programs use.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>

#include "../../examples/common/cuda_stream.hpp"
#include "warpverbs/arch/cuda.hpp"

namespace warpverbs::gpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

__global__ void RunFor(uint64_t ns) {
  const uint64_t deadline = arch::Cuda::NowNs() + ns;
  while (arch::Cuda::NowNs() < deadline) __nanosleep(10'000);
}

TEST(Stream, TimesOutAndCanBeWaitedForAgain) {
  const CudaStream stream(0);
  stream.Wait();
  RunFor<<<1, 1, 0, stream.get()>>>(2'000'000'000);
  EXPECT_THROW(stream.WaitUntil(steady_clock::now() + milliseconds(100)), std::runtime_error);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the timeout leaves no error for the next launch";
  EXPECT_NO_THROW(stream.WaitUntil(steady_clock::now() + milliseconds(30'000)));
  EXPECT_NO_THROW(stream.WaitUntil(steady_clock::now())) << "no kernel is running";
}

}  // namespace
}  // namespace warpverbs::gpu
