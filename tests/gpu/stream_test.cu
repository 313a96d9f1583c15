// What programs wait for their kernels with.
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

TEST(Stream, IsGivenUpAtTheDeadlineAndCanBeWaitedForAgain) {
  const CudaStream stream(0);
  stream.Wait();
  RunFor<<<1, 1, 0, stream.get()>>>(2'000'000'000);
  EXPECT_THROW(stream.WaitUntil(steady_clock::now() + milliseconds(100)), std::runtime_error);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the next launch has not failed";
  EXPECT_NO_THROW(stream.WaitUntil(steady_clock::now() + milliseconds(30'000)));
  EXPECT_NO_THROW(stream.WaitUntil(steady_clock::now())) << "it is done already";
}

}  // namespace
}  // namespace warpverbs::gpu
