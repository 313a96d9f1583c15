#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "host/endpoint/link.hpp"
#include "warpverbs/host/device.hpp"

/// Port properties that endpoints agree on. The tests run on Ethernet and on InfiniBand, with an MTU of 2048.
namespace warpverbs::host {
namespace {

using mlx5::Mtu;
using testing::HasSubstr;

constexpr Mtu kOfThePorts = Mtu::k2048;

TEST(Ports, CarryDataOnEitherLink) {
  const Device device;
  Link link(device);
  link.Connect();
  EXPECT_TRUE(link.Write(100).ok());
  EXPECT_EQ(link.a.Info().lid != 0, device.ActivePort().link_layer == LinkLayer::kInfiniBand);
}

TEST(Ports, AgreeOnTheSmallerMtu) {
  const Device device;
  ASSERT_EQ(device.ActivePort().active_mtu, kOfThePorts);
  constexpr Mtu kAll[] = {Mtu::k256, Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096};
  for (const Mtu here : kAll) {
    for (const Mtu there : kAll) {
      Link link(device, {.path = {.max_mtu = here}}, {.path = {.max_mtu = there}});
      link.Connect();
      const std::string least = ", MTU " + std::to_string(Bytes(std::min({here, there, kOfThePorts}))) + " (";
      EXPECT_THAT(link.a.Describe(), HasSubstr(least));
      EXPECT_THAT(link.b.Describe(), HasSubstr(least));
      EXPECT_TRUE(link.Write(1).ok());
    }
  }
}

TEST(Ports, UseTheRequestedGid) {
  const Device device;
  const std::vector<GidEntry> gids = device.Gids(device.ActivePort());
  ASSERT_FALSE(gids.empty());
  for (const GidEntry& gid : gids) {
    const EndpointConfig asked{.gid_index = static_cast<int>(gid.index)};
    Link link(device, asked, asked);
    EXPECT_EQ(link.a.Info().gid, gid.gid) << gid.index;
    EXPECT_EQ(link.a.Info().gid_type, gid.type) << gid.index;
    link.Connect();
    EXPECT_TRUE(link.Write(3).ok()) << gid.index;
  }
}

}  // namespace
}  // namespace warpverbs::host
