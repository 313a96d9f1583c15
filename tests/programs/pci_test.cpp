#include "machine/pci.hpp"

#include <gmock/gmock.h>

#include "fake_machine.hpp"

namespace warpverbs::programs {
namespace {

using testing::ElementsAre;

TEST(Pci, FindsBridgesUpToTheRootPort) {
  const GoodMachine good;
  const std::string function = PciFolder(good.machine.files, "0000:3d:00.0");
  EXPECT_EQ(function, good.nic_function);
  std::vector<std::string> addresses;
  for (const std::string& bridge : BridgesAbove(function)) addresses.push_back(PciAddressOf(bridge));
  EXPECT_THAT(addresses, ElementsAre("0000:3c:00.0", "0000:3b:00.0", "0000:3a:01.0"));
}

TEST(Pci, ReturnsNothingForMissingFunctions) {
  const GoodMachine good;
  EXPECT_EQ(PciFolder(good.machine.files, "0000:99:00.0"), "");
  EXPECT_EQ(PciFolder(good.machine.files, ""), "");
  EXPECT_EQ(PciAddressOf("/sys/devices/virtual"), "");
  EXPECT_TRUE(BridgesAbove("").empty());
  EXPECT_EQ(NumaNode(good.machine.files, "/nowhere"), -1);
  EXPECT_FALSE(ReadPciLink(good.machine.files, "/nowhere", "current"));
}

TEST(Acs, FollowsTheChainOfCapabilities) {
  const GoodMachine good;
  good.tree.SetAcs(good.bridge, 0x001d);
  const AcsState state = ReadAcs(good.machine.files, good.bridge);
  EXPECT_TRUE(state.readable);
  EXPECT_EQ(state.control, 0x001d);
}

TEST(Acs, DistinguishesAbsentFromUnreadable) {
  EXPECT_FALSE(FindAcs(std::vector<uint8_t>(64)).readable);
  EXPECT_FALSE(FindAcs(std::vector<uint8_t>(256)).readable);
  const AcsState none = FindAcs(std::vector<uint8_t>(4096));
  EXPECT_TRUE(none.readable);
  EXPECT_FALSE(none.control);
}

TEST(Acs, SurvivesLoopsAndTruncation) {
  std::vector<uint8_t> config(4096);
  config[0x102] = 0x00;
  config[0x103] = 0x10;  // the next one is at 0x100: a loop
  config[0x100] = 1;
  EXPECT_FALSE(FindAcs(config).control);
  std::vector<uint8_t> wild(4096, 0xff);
  EXPECT_FALSE(FindAcs(wild).control);
  std::vector<uint8_t> cut(0x104);
  cut[0x100] = 0x0d;
  EXPECT_FALSE(FindAcs(cut).control);
}

}  // namespace
}  // namespace warpverbs::programs
