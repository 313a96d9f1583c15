#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "warpverbs/host/error.hpp"
#include "warpverbs/host/gpu.hpp"

extern "C" int cuInit(unsigned flags);

namespace warpverbs::host {
namespace {

TEST(OldDriver, IsRejectedByTheMissingFunction) {
  ASSERT_EQ(cuInit(0), 0) << "needed, or the linker drops the driver";
  EXPECT_EQ(Gpu::Count(), 0);
  for (int times = 0; times < 2; ++times) {
    try {
      const Gpu gpu;
      FAIL() << "it was accepted";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(),
                   "Cannot use libcuda.so.1: it has no cuGetErrorName. Install the NVIDIA driver, 535 or "
                   "later, and in a container pass the GPU through to it.");
    }
  }
}

}  // namespace
}  // namespace warpverbs::host
