#include "warpverbs/host/topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "host/topology/fake_sysfs.hpp"

namespace warpverbs::host {
namespace {

TEST(Topology, IsEmptyWithoutPciAndRdma) {
  const FakeSysfs sysfs;
  const Topology topology = ReadTopology(sysfs.root());
  EXPECT_TRUE(topology.gpus.empty());
  EXPECT_TRUE(topology.nics.empty());
  EXPECT_EQ(Describe(topology), "neither GPUs nor RDMA devices\n");
}

TEST(Topology, FindsGpusByVendorAndClass) {
  FakeSysfs sysfs;
  const auto add = [&](const char* address, const char* vendor, const char* class_code) {
    sysfs.AddFunction(std::string("pci0000:00/") + address, vendor, class_code, 0);
  };
  add("0000:00:01.0", "0x10de", "0x030200");  // NVIDIA, 3D
  add("0000:00:02.0", "0x10de", "0x030000");  // NVIDIA, VGA
  add("0000:00:02.1", "0x10de", "0x040300");  // its sound function
  add("0000:00:03.0", "0x10de", "0x068000");  // an NVSwitch
  add("0000:00:04.0", "0x1002", "0x120000");  // AMD, accelerator
  add("0000:00:05.0", "0x1002", "0x030200");
  add("0000:00:06.0", "0x1002", "0x038000");
  add("0000:00:07.0", "0x1002", "0x030000");  // AMD, console
  add("0000:00:08.0", "0x1a03", "0x030000");  // console of a management controller
  std::vector<std::string> addresses;
  for (const PciFunction& gpu : ReadTopology(sysfs.root()).gpus) addresses.push_back(ToString(gpu.address));
  EXPECT_THAT(addresses, testing::ElementsAre("0000:00:01.0", "0000:00:02.0", "0000:00:04.0", "0000:00:05.0",
                                              "0000:00:06.0"));
}

TEST(Topology, SortsNicsByAddress) {
  FakeSysfs sysfs;
  sysfs.AddNic("pci0000:c0/0000:c0:01.1/0000:c1:00.0", "mlx5_0", 1);
  sysfs.AddNic("pci0000:40/0000:40:01.1/0000:41:00.0", "mlx5_1", 0);
  sysfs.AddRdmaDevice("virtual", "rxe0");
  const Topology topology = ReadTopology(sysfs.root());
  ASSERT_EQ(topology.nics.size(), 3u);
  EXPECT_EQ(topology.nics[0].name, "mlx5_1");
  EXPECT_EQ(topology.nics[0].pci->numa_node, 0);
  EXPECT_TRUE(topology.nics[0].connectx);
  EXPECT_EQ(topology.nics[1].name, "mlx5_0");
  EXPECT_EQ(topology.nics[1].pci->numa_node, 1);
  EXPECT_EQ(topology.nics[2].name, "rxe0");
  EXPECT_FALSE(topology.nics[2].pci);
  EXPECT_FALSE(topology.nics[2].connectx);
}

TEST(Topology, ReadsStateLinkLayerAndRateOfPorts) {
  FakeSysfs sysfs;
  const std::string path = "pci0000:40/0000:40:01.1/0000:41:00.0";
  sysfs.AddNic(path, "mlx5_0", 0, "2.5 Gb/sec (1X SDR)");
  sysfs.AddPort(path, "mlx5_0", 2, "1: DOWN", "40 Gb/sec (4X QDR)", "Ethernet");
  sysfs.AddPort(path, "mlx5_0", 10, "2: INIT", "10 Gb/sec (4X SDR)");
  std::filesystem::create_directories(sysfs.root() / "devices" / path / "infiniband/mlx5_0/ports/11");
  const std::vector<NicPort> ports = ReadTopology(sysfs.root()).nics.at(0).ports;
  ASSERT_EQ(ports.size(), 4u);
  EXPECT_TRUE(ports[0].active);
  EXPECT_EQ(ports[0].link_layer, LinkLayer::kInfiniBand);
  EXPECT_EQ(ports[0].rate_gbps, 2.5);
  EXPECT_EQ(ports[1].number, 2);
  EXPECT_EQ(ports[1].state, "down");
  EXPECT_FALSE(ports[1].active);
  EXPECT_EQ(ports[1].link_layer, LinkLayer::kEthernet);
  EXPECT_EQ(ports[2].number, 10);
  EXPECT_EQ(ports[2].state, "init");
  EXPECT_EQ(ports[3].state, "unknown") << "a port whose files cannot be read";
}

TEST(Topology, PlacesAScalableFunctionAtItsPciFunction) {
  FakeSysfs sysfs;
  const std::string path = "pci0000:40/0000:40:01.1/0000:41:00.0";
  sysfs.AddNic(path, "mlx5_0");
  sysfs.AddRdmaDevice(path + "/mlx5_core.sf.4", "mlx5_2");
  std::filesystem::create_symlink("/sys/bus/auxiliary/drivers/mlx5_core.sf",
                                  sysfs.root() / "devices" / path / "mlx5_core.sf.4/driver");
  sysfs.Write("devices/" + path + "/mlx5_core.sf.4/infiniband/mlx5_2/hca_type", "MT4129");
  const Nic nic = ReadTopology(sysfs.root()).nics.at(1);
  EXPECT_EQ(nic.name, "mlx5_2");
  EXPECT_EQ(nic.pci->address, PciAddress::Parse("41:00.0"));
  EXPECT_TRUE(nic.connectx);
}

TEST(Topology, IgnoresASoftwareDeviceOnAConnectX) {
  FakeSysfs sysfs;
  const std::string path = "pci0000:40/0000:40:01.1/0000:41:00.0";
  sysfs.AddNic(path, "mlx5_0");
  sysfs.AddRdmaDevice(path, "rxe0");
  const Nic nic = ReadTopology(sysfs.root()).nics.at(1);
  EXPECT_EQ(nic.name, "rxe0");
  EXPECT_FALSE(nic.connectx);
}

TEST(Topology, PrintsATableWithALegend) {
  FakeSysfs sysfs;
  const std::string a_switch = "pci0000:40/0000:40:01.1/0000:41:00.0/";
  sysfs.AddGpu(a_switch + "0000:42:00.0/0000:43:00.0");
  sysfs.AddNic(a_switch + "0000:42:01.0/0000:44:00.0", "mlx5_7");
  sysfs.AddNic("pci0000:c0/0000:c0:01.1/0000:c1:00.0", "mlx5_0", 1, "25 Gb/sec (1X EDR)");
  sysfs.AddRdmaDevice("virtual", "rxe0");
  sysfs.AddPort("virtual", "rxe0", 1, "1: DOWN", "10 Gb/sec (4X SDR)", "Ethernet");
  EXPECT_EQ(Describe(ReadTopology(sysfs.root())),
            "       GPU0   NIC0   NIC1   NIC2   \n"
            "GPU0   X      PIX    SYS    ?      \n"
            "NIC0   PIX    X      SYS    ?      \n"
            "NIC1   SYS    SYS    X      ?      \n"
            "NIC2   ?      ?      ?      X      \n"
            "\n"
            "GPU0: 0000:43:00.0, NUMA node 0\n"
            "NIC0: mlx5_7, 0000:44:00.0, NUMA node 0; port 1 active, InfiniBand, 400 Gb/s\n"
            "NIC1: mlx5_0, 0000:c1:00.0, NUMA node 1; port 1 active, InfiniBand, 25 Gb/s\n"
            "NIC2: rxe0, not on PCI; port 1 down, Ethernet\n"
            "\n"
            "X      the same function\n"
            "PIX    through at most one PCIe switch\n"
            "SYS    between NUMA nodes\n"
            "?      at an unknown distance\n");
}

}  // namespace
}  // namespace warpverbs::host
