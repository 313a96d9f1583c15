#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"

namespace warpverbs::host {
namespace {

TEST(InfiniBand, PortHasALidAndAGid) {
  const Device device;
  const Port port = device.ActivePort();
  EXPECT_EQ(port.link_layer, LinkLayer::kInfiniBand);
  EXPECT_NE(port.lid, 0);
  const std::vector<GidEntry> gids = device.Gids(port);
  ASSERT_FALSE(gids.empty());
  EXPECT_EQ(gids[0].type, GidType::kInfiniBand);
}

TEST(InfiniBand, EndpointsConnectByLid) {
  const Device device;
  Endpoint a(device, {.path = {.service_level = 15}}), b(device);
  EXPECT_EQ(a.Info().lid, device.ActivePort().lid);
  a.Connect(b.Info());
  b.Connect(a.Info());
  EXPECT_EQ(a.State(), mlx5::QpState::kRts);
  EXPECT_EQ(b.State(), mlx5::QpState::kRts);
  EXPECT_THAT(a.Describe(), testing::HasSubstr(", LID " + std::to_string(b.Info().lid)));
}

}  // namespace
}  // namespace warpverbs::host
