#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/topology.hpp"

namespace warpverbs::host {
namespace {

TEST(MachineTopology, HasEveryDeviceThatCanBeOpened) {
  const Topology topology = ReadTopology();
  for (const std::string& name : DeviceNames()) {
    const auto nic = std::find_if(topology.nics.begin(), topology.nics.end(),
                                  [&](const Nic& other) { return other.name == name; });
    ASSERT_NE(nic, topology.nics.end()) << name;
    EXPECT_TRUE(nic->connectx);
    ASSERT_TRUE(nic->pci);
    EXPECT_EQ(nic->pci->vendor, 0x15b3);
    EXPECT_FALSE(nic->pci->host_bridge.empty());
    const Port port = Device(name).ActivePort();
    const NicPort& shown = nic->ports.at(port.number - 1);
    EXPECT_TRUE(shown.active);
    EXPECT_EQ(shown.state, port.state);
    EXPECT_EQ(shown.link_layer, port.link_layer);
    EXPECT_GT(shown.rate_gbps, 0);
  }
  EXPECT_GE(topology.nics.size(), DeviceNames().size());
}

TEST(MachineTopology, AssignsAnUnknownGpuADeviceThatCanBeOpened) {
  const PciAddress gpu = PciAddress::Parse("fffe:ff:1f.7");
  const NicChoice choice = AssignNics(ReadTopology(), std::span(&gpu, 1)).at(0).nics.at(0);
  EXPECT_EQ(choice.distance, PciDistance::kUnknown);
  EXPECT_TRUE(Device(choice.name).ActivePort(choice.port).active);
}

}  // namespace
}  // namespace warpverbs::host
