#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "warpverbs/host/error.hpp"
#include "warpverbs/host/gpu.hpp"

namespace warpverbs::host {
namespace {

TEST(NoGpu, IsReportedWithARemedy) {
  if (dlopen("libcuda.so.1", RTLD_NOW) != nullptr) GTEST_SKIP() << "this machine has the driver";
  EXPECT_EQ(Gpu::Count(), 0);
  try {
    const Gpu gpu;
    FAIL() << "found a GPU";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("Cannot load libcuda.so.1: "));
    EXPECT_THAT(
        error.what(),
        testing::EndsWith(
            "Install the NVIDIA driver, 535 or later, and in a container pass the GPU through to it."));
  }
}

}  // namespace
}  // namespace warpverbs::host
