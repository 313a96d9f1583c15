#include "warpverbs/host/device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>

#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/hca_cap.hpp"

namespace warpverbs::host {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

TEST(Device, OpensTheFirstWithAnActivePort) {
  const Device device;
  EXPECT_THAT(DeviceNames(), Contains(device.name()));
  const Port port = device.ActivePort();
  EXPECT_TRUE(port.active);
  EXPECT_EQ(port.state, "active");
  EXPECT_EQ(port.number, 1);
}

TEST(Device, ListsItsPorts) {
  const Device device;
  const std::vector<Port> ports = device.Ports();
  ASSERT_FALSE(ports.empty());
  EXPECT_EQ(ports[0].link_layer, LinkLayer::kEthernet);
  EXPECT_GE(Bytes(ports[0].active_mtu), 1024u);
  EXPECT_GT(ports[0].max_message_bytes, 0u);
}

TEST(Device, ReportsTheFeaturesOfAConnectX7) {
  const Capabilities capabilities = Device().capabilities();
  EXPECT_EQ(capabilities.max_send_wqebbs, 32768);
  EXPECT_GE(capabilities.max_wqe_bytes, 256u);
  EXPECT_GE(capabilities.log_max_message, 30u);
  EXPECT_GE(capabilities.max_reads_out, 1);
  EXPECT_GE(capabilities.max_reads_in, 1);
  EXPECT_LE(capabilities.min_udp_source_port, capabilities.max_udp_source_port);
  EXPECT_FALSE(capabilities.firmware.empty());
  EXPECT_TRUE(capabilities.atomics());
  EXPECT_TRUE(capabilities.atomic_operations & mlx5::kAtomicFetchAdd);
}

TEST(Device, HasARoutableRoceV2Gid) {
  const Device device;
  const std::vector<GidEntry> gids = device.Gids(device.ActivePort());
  const GidEntry* best = BestGid(gids);
  ASSERT_NE(best, nullptr);
  EXPECT_EQ(best->type, GidType::kRoceV2);
  for (const GidEntry& entry : gids) EXPECT_NE(entry.gid, Gid{});
}

TEST(Device, SkipsUnreadableGids) {
  const Device device;
  const Port port = device.ActivePort();
  const std::vector<GidEntry> gids = device.Gids(port);
  const auto has = [&](uint32_t index) {
    return std::any_of(gids.begin(), gids.end(), [&](const GidEntry& gid) { return gid.index == index; });
  };
  uint32_t unreadable = 0;
  for (uint32_t index = 0; index < port.gid_table_size; ++index) {
    ibv_gid_entry entry{};
    const bool readable = ibv_query_gid_ex(device.context(), port.number, index, &entry, 0) == 0;
    if (!readable) ++unreadable;
    EXPECT_TRUE(readable || !has(index)) << index;
  }
  EXPECT_GT(unreadable, 0u) << "the table has no hole, so the test proves nothing";
  EXPECT_FALSE(gids.empty());
}

TEST(Device, ListsTheDevicesIfTheNameIsUnknown) {
  try {
    Device device("mlx5_99");
    FAIL() << "opened a device that does not exist";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("mlx5_99"), HasSubstr("Name one of: " + FirstActiveDevice())));
  }
}

TEST(Device, ReportsThePortCountIfThePortIsMissing) {
  const Device device;
  try {
    device.ActivePort(9);
    FAIL() << "used a port that does not exist";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("port 9 of " + device.name()), HasSubstr("has 1 port(s)")));
  }
}

}  // namespace
}  // namespace warpverbs::host
