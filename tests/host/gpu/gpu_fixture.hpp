#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fake_cuda.hpp"
#include "host/endpoint/link.hpp"
#include "host/log/refusal.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/gpu.hpp"

namespace warpverbs::inline v0_2::host {

/// Tests with the fake driver that must not leak.
class WithGpu : public testing::Test {
 protected:
  WithGpu() { fake_cuda::Configure(""); }
  ~WithGpu() override {
    EXPECT_EQ(fake_cuda::HeldNow(), fake_cuda::Held{}) << "resources leaked";
    EXPECT_EQ(fake_cuda::ContextDepth(), 0);
  }

  /// Returns the error text of an endpoint.
  std::string WhyRefused(const EndpointConfig& config) const {
    return host::WhyRefused([&] { Endpoint(device_, config); });
  }

  /// Writes `count` words like Link::Write(), on a thread that acts as a kernel.
  ///
  /// Reads the target with atomic loads: the NIC writes to device memory at another address than the kernel
  /// reads, so ThreadSanitizer sees no order between them.
  static device::Status Write(Link& link, uint32_t count) {
    const fake_cuda::Kernel kernel;
    Queue queue(link.a.View());
    device::Status status;
    for (uint32_t word = 0; word < count && status.ok(); ++word) {
      link.source[word] = ++link.written;
      const device::Posted posted =
          queue.Post(device::Write(link.target.Remote(word), link.source.Local(word)), Within());
      status = posted.status.ok() ? queue.Wait(posted.ticket, Within()) : posted.status;
      if (status.ok() && Cpu::Load(&link.target[word]) != link.written) status = {.code = Code::kAborted};
    }
    return status;
  }

  Device device_;
};

}  // namespace warpverbs::inline v0_2::host
