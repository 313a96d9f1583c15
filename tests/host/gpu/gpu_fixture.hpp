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

  /// Sets a word of the NIC's source as a kernel does. ThreadSanitizer does not look: the NIC reaches device
  /// memory at another address than the kernel, so it sees no order between the doorbell and what follows.
  __attribute__((no_sanitize("thread"))) static void Set(uint64_t& word, uint64_t value) { word = value; }

  /// Writes `count` words like Link::Write(), on a thread that acts as a kernel.
  ///
  /// Reads the target with atomic loads, for the same reason.
  static device::Status Write(Link& link, uint32_t count) {
    const fake_cuda::Kernel kernel;
    Queue queue(link.a.View());
    device::Status status;
    for (uint32_t word = 0; word < count && status.ok(); ++word) {
      Set(link.source[word], ++link.written);
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
