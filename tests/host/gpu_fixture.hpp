#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fake_cuda.hpp"
#include "link.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/gpu.hpp"

namespace warpverbs::host {

/// Tests with the fake driver, each of which gives everything back.
class WithGpu : public testing::Test {
 protected:
  WithGpu() { fake_cuda::Configure(""); }
  ~WithGpu() override {
    EXPECT_EQ(fake_cuda::HeldNow(), fake_cuda::Held{}) << "something was not given back";
    EXPECT_EQ(fake_cuda::ContextDepth(), 0);
  }

  /// What the error of an endpoint says.
  std::string WhyRefused(const EndpointConfig& config) const {
    try {
      const Endpoint endpoint(device_, config);
    } catch (const Error& error) {
      return error.what();
    }
    return "it was taken";
  }

  /// Writes from a thread that stands for a kernel.
  static device::Status Write(Link& link, uint32_t count) {
    const fake_cuda::Kernel kernel;
    return link.Write(count);
  }

  Device device_;
};

}  // namespace warpverbs::host
