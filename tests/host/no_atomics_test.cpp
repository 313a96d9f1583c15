#include <gtest/gtest.h>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"

namespace warpverbs::host {
namespace {

TEST(NoAtomics, CapabilitiesSaySo) {
  const Capabilities capabilities = Device().capabilities();
  EXPECT_FALSE(capabilities.atomics());
  EXPECT_EQ(capabilities.atomic_operations, 0);
  EXPECT_EQ(capabilities.max_send_wqebbs, 32768) << "the rest is there";
}

TEST(NoAtomics, EndpointsConnectWithTheDefaults) {
  const Device device;
  Endpoint a(device), b(device);
  a.Connect(b.Info());
  b.Connect(a.Info());
  EXPECT_EQ(a.State(), mlx5::QpState::kRts);
  EXPECT_EQ(b.State(), mlx5::QpState::kRts);
}

}  // namespace
}  // namespace warpverbs::host
