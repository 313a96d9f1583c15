#include "endpoint/path.hpp"

#include <gtest/gtest.h>

#include <set>

namespace warpverbs::host {
namespace {

TEST(UdpSourcePort, StaysInTheRange) {
  for (uint32_t qpn = 0; qpn < 10000; ++qpn) {
    const uint16_t port = UdpSourcePort(qpn, 0xffffff - qpn, 0xc000, 0xc00f);
    ASSERT_GE(port, 0xc000);
    ASSERT_LE(port, 0xc00f);
  }
}

TEST(UdpSourcePort, IsTheOnlyPortOfASinglePortRange) {
  EXPECT_EQ(UdpSourcePort(1, 2, 0xffff, 0xffff), 0xffff);
}

TEST(UdpSourcePort, ReachesBothEndsOfTheRange) {
  std::set<uint16_t> ports;
  for (uint32_t qpn = 1; qpn < 400000; ++qpn) ports.insert(UdpSourcePort(qpn, 1, 0xc000, 0xffff));
  EXPECT_EQ(*ports.begin(), 0xc000);
  EXPECT_EQ(*ports.rbegin(), 0xffff);
}

TEST(UdpSourcePort, SpreadsConsecutiveQueuePairs) {
  // Both sides number queue pairs consecutively. 1024 draws from 16384 ports give about 990 values.
  std::set<uint16_t> ports;
  for (uint32_t i = 0; i < 1024; ++i) ports.insert(UdpSourcePort(0x100 + i, 0x100 + i, 0xc000, 0xffff));
  EXPECT_GT(ports.size(), 900u);
}

TEST(UdpSourcePort, IsDeterministic) {
  EXPECT_EQ(UdpSourcePort(0x123, 0x456, 0xc000, 0xffff), UdpSourcePort(0x123, 0x456, 0xc000, 0xffff));
}

TEST(Mtu, ConvertsToBytes) {
  EXPECT_EQ(Bytes(mlx5::Mtu::k256), 256);
  EXPECT_EQ(Bytes(mlx5::Mtu::k4096), 4096);
}

}  // namespace
}  // namespace warpverbs::host
