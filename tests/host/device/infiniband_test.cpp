#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <utility>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/error.hpp"

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

TEST(InfiniBand, ConnectsEndpointsByLid) {
  const Device device;
  Endpoint a(device, {.path = {.service_level = 15}}), b(device);
  EXPECT_EQ(a.Info().lid, device.ActivePort().lid);
  a.Connect(b.Info());
  b.Connect(a.Info());
  EXPECT_EQ(a.State(), mlx5::QpState::kRts);
  EXPECT_EQ(b.State(), mlx5::QpState::kRts);
  EXPECT_THAT(a.Describe(), testing::HasSubstr(", LID " + std::to_string(b.Info().lid)));
}

TEST(InfiniBand, AcceptsPartitionsOfThePortsTable) {
  const Device device;
  const uint32_t partitions = device.ActivePort().pkey_table_size;
  ASSERT_GT(partitions, 1u);
  Endpoint a(device, {.pkey_index = 0}), b(device);
  EXPECT_THAT(a.Describe(), testing::HasSubstr(", pkey index 0\n"));
  try {
    Endpoint(device, {.pkey_index = static_cast<uint16_t>(partitions)});
    FAIL() << "accepted a partition beyond the table";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the pkey index is out of range. Choose 0 to " +
                                                 std::to_string(partitions - 1)));
  }
}

TEST(InfiniBand, AllowsAnotherTryAfterAResetOfAFailedConnection) {
  const Device device;
  Endpoint a(device), b(device);
  const int kernel = std::exchange(device.context()->cmd_fd, -1);  // makes the device fail for a while
  EXPECT_THROW(a.Connect(b.Info()), Error);
  device.context()->cmd_fd = kernel;
  EXPECT_THAT(a.Describe(), testing::HasSubstr("path: connecting or resetting failed\n"));
  try {
    a.Connect(b.Info());
    FAIL() << "connected after a failure";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("connecting or resetting it failed half-way before. Call Reset()"));
  }
  a.Reset();
  a.Connect(b.Info());
  EXPECT_EQ(a.State(), mlx5::QpState::kRts);
}

}  // namespace
}  // namespace warpverbs::host
