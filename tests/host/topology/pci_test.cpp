#include "warpverbs/host/topology.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "host/topology/fake_sysfs.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::host {
namespace {

TEST(PciAddress, ReadsEveryUsualForm) {
  const PciAddress address{.domain = 0, .bus = 0x41, .device = 0x1f, .function = 7};
  EXPECT_EQ(PciAddress::Parse("0000:41:1f.7"), address);
  EXPECT_EQ(PciAddress::Parse("00000000:41:1F.7"), address);
  EXPECT_EQ(PciAddress::Parse("41:1f.7"), address);
  EXPECT_EQ(ToString(address), "0000:41:1f.7");
}

TEST(PciAddress, KeepsDomainsOfMoreThanFourDigits) {
  EXPECT_EQ(ToString(PciAddress::Parse("10000:e1:00.0")), "10000:e1:00.0");
}

TEST(PciAddress, RejectsAndQuotesAnythingElse) {
  for (const char* text :
       {"", ":", "::.", "0000:41:00", "0000:41:00.8", "0000:41:20.0", "000:41:00.0", "0000:41:00.0 ",
        "0000:4g:00.0", "0000:41:00.00", "123456789:41:00.0", "pci0000:40", "-000:41:00.0", "1:2:3:4.5"}) {
    EXPECT_EQ(PciAddress::Find(text), std::nullopt) << text;
  }
  try {
    PciAddress::Parse("mlx5_0");
    FAIL() << "parsed a name as an address";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "Cannot read the PCI address 'mlx5_0': it is not of the form domain:bus:device.function. Write it as "
        "lspci -D does: 0000:41:00.0.");
  }
}

class PciTest : public testing::Test {
 protected:
  PciFunction Add(const std::string& path, int numa_node = 0) {
    sysfs_.AddFunction(path, "0x15b3", "0x020000", numa_node);
    return *ReadPciFunction(sysfs_.root(), PciAddress::Parse(path.substr(path.rfind('/') + 1)));
  }

  FakeSysfs sysfs_;
};

TEST_F(PciTest, ReadsTheBridgesAboveAFunction) {
  const PciFunction function = Add("pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:04.0/0000:45:00.1", 3);
  EXPECT_EQ(function.address, PciAddress::Parse("45:00.1"));
  EXPECT_EQ(function.host_bridge, "pci0000:40");
  const std::vector<PciAddress> bridges = {PciAddress::Parse("40:01.1"), PciAddress::Parse("41:00.0"),
                                           PciAddress::Parse("42:04.0")};
  EXPECT_EQ(function.bridges, bridges);
  EXPECT_EQ(function.numa_node, 3);
  EXPECT_EQ(function.vendor, 0x15b3);
  EXPECT_EQ(function.class_code, 0x0200);
}

TEST_F(PciTest, GivesADomainBehindAControllerItsOwnHostBridge) {
  const PciFunction function = Add("pci0000:64/0000:64:00.5/pci10000:e0/10000:e0:02.0/10000:e1:00.0");
  EXPECT_EQ(function.host_bridge, "pci10000:e0");
  EXPECT_EQ(function.bridges.size(), 1u);
}

TEST_F(PciTest, ReturnsNothingForAMissingFunction) {
  EXPECT_EQ(ReadPciFunction(sysfs_.root(), {}), std::nullopt);
  EXPECT_TRUE(PciAddresses(sysfs_.root()).empty());
}

TEST_F(PciTest, TreatsUnreadableFilesAsUnknown) {
  Add("pci0000:00/0000:00:05.0");
  for (const char* file : {"vendor", "class", "numa_node"}) {
    std::filesystem::remove(sysfs_.root() / "devices/pci0000:00/0000:00:05.0" / file);
  }
  const auto function = ReadPciFunction(sysfs_.root(), PciAddress::Parse("00:05.0"));
  ASSERT_TRUE(function);
  EXPECT_EQ(function->vendor, 0);
  EXPECT_EQ(function->class_code, 0);
  EXPECT_EQ(function->numa_node, -1);
}

TEST_F(PciTest, ListsFunctionsByAddress) {
  Add("pci0000:c0/0000:c0:01.0");
  Add("pci10000:00/10000:00:01.0");
  Add("pci0000:40/0000:40:01.0");
  const std::vector<PciAddress> in_order = {PciAddress::Parse("40:01.0"), PciAddress::Parse("c0:01.0"),
                                            PciAddress::Parse("10000:00:01.0")};
  EXPECT_EQ(PciAddresses(sysfs_.root()), in_order);
}

using PciDistanceTest = PciTest;

// Two switches: upstream ports at bus 41 and 51, downstream ports below them.

TEST_F(PciDistanceTest, OneFunctionIsSelf) {
  const PciFunction a = Add("pci0000:40/0000:40:01.1/0000:41:00.0");
  EXPECT_EQ(Distance(a, a), PciDistance::kSelf);
}

TEST_F(PciDistanceTest, FunctionsOfOneCardArePix) {
  EXPECT_EQ(
      Distance(Add("pci0000:40/0000:40:01.1/0000:41:00.0"), Add("pci0000:40/0000:40:01.1/0000:41:00.1")),
      PciDistance::kPix);
}

TEST_F(PciDistanceTest, FunctionsOfOneSwitchArePix) {
  EXPECT_EQ(Distance(Add("pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:00.0/0000:43:00.0"),
                     Add("pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:01.0/0000:44:00.0")),
            PciDistance::kPix);
}

TEST_F(PciDistanceTest, SwitchBelowASwitchIsPxb) {
  const PciFunction a = Add("pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:00.0/0000:43:00.0");
  const PciFunction b =
      Add("pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:01.0/0000:44:00.0/0000:45:00.0/0000:46:00.0");
  EXPECT_EQ(Distance(a, b), PciDistance::kPxb);
  EXPECT_EQ(Distance(b, a), PciDistance::kPxb);
}

TEST_F(PciDistanceTest, RootPortsOfOneHostBridgeArePhb) {
  EXPECT_EQ(Distance(Add("pci0000:40/0000:40:01.1/0000:41:00.0"),
                     Add("pci0000:40/0000:40:03.1/0000:51:00.0/0000:52:00.0/0000:53:00.0")),
            PciDistance::kPhb);
}

TEST_F(PciDistanceTest, FunctionOnTheRootComplexIsPhb) {
  EXPECT_EQ(Distance(Add("pci0000:00/0000:00:05.0"), Add("pci0000:00/0000:00:06.0")), PciDistance::kPhb);
}

TEST_F(PciDistanceTest, HostBridgesOfOneNumaNodeAreNode) {
  EXPECT_EQ(Distance(Add("pci0000:40/0000:40:01.1/0000:41:00.0", 1),
                     Add("pci0000:60/0000:60:01.1/0000:61:00.0", 1)),
            PciDistance::kNode);
}

TEST_F(PciDistanceTest, EqualBusesOfTwoDomainsAreNotOneHostBridge) {
  EXPECT_EQ(Distance(Add("pci0000:40/0000:40:01.1/0000:41:00.0", 1),
                     Add("pci0001:40/0001:40:01.1/0001:41:00.0", 1)),
            PciDistance::kNode);
}

TEST_F(PciDistanceTest, OtherNumaNodesAreSys) {
  EXPECT_EQ(Distance(Add("pci0000:40/0000:40:01.1/0000:41:00.0", 0),
                     Add("pci0000:c0/0000:c0:01.1/0000:c1:00.0", 1)),
            PciDistance::kSystem);
}

TEST_F(PciDistanceTest, UnknownNumaNodeIsUnknownUnlessAHostBridgeIsShared) {
  const PciFunction a = Add("pci0000:40/0000:40:01.1/0000:41:00.0", -1);
  EXPECT_EQ(Distance(a, Add("pci0000:c0/0000:c0:01.1/0000:c1:00.0", 1)), PciDistance::kUnknown);
  EXPECT_EQ(Distance(a, Add("pci0000:e0/0000:e0:01.1/0000:e1:00.0", -1)), PciDistance::kUnknown);
  EXPECT_EQ(Distance(a, Add("pci0000:40/0000:40:02.1/0000:51:00.0", -1)), PciDistance::kPhb);
}

TEST_F(PciDistanceTest, IsSymmetric) {
  const std::vector<PciFunction> functions = {
      Add("pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:00.0/0000:43:00.0"),
      Add("pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:01.0/0000:44:00.0"),
      Add("pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:02.0/0000:45:00.0/0000:46:00.0/0000:47:00.0"),
      Add("pci0000:40/0000:40:02.1/0000:51:00.0"),
      Add("pci0000:60/0000:60:02.1/0000:61:00.0"),
      Add("pci0000:80/0000:80:02.1/0000:81:00.0", 1),
      Add("pci0000:a0/0000:a0:02.1/0000:a1:00.0", -1)};
  for (const PciFunction& a : functions) {
    for (const PciFunction& b : functions) EXPECT_EQ(Distance(a, b), Distance(b, a));
  }
}

}  // namespace
}  // namespace warpverbs::host
