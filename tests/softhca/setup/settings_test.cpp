#include "setup/settings.hpp"

#include <gtest/gtest.h>

#include <exception>

namespace softhca {
namespace {

TEST(Settings, RoundTripThroughText) {
  const Settings settings{.tree = "/tmp/tree",
                          .block = 7,
                          .devices = 2,
                          .ports = 2,
                          .link = mlx5::PortType::kInfiniBand,
                          .mtu = mlx5::Mtu::k1024,
                          .ports_down = {"mlx5_0/1", "mlx5_1"},
                          .atomics = false,
                          .host_order_atomics = false,
                          .user_index = false,
                          .wait = false,
                          .log_max_message = 12,
                          .interfaces = {"eth0", "eth1"},
                          .cable_local = "here",
                          .cable_remote = "there",
                          .addresses = {"10.0.0.1/24", "fd00::1"},
                          .raw_sockets = true,
                          .direct = false,
                          .faults = {"drop:5%", "seed:7"},
                          .stats = true,
                          .stats_file = "stats",
                          .log = "info",
                          .pcap = "frames",
                          .trace = "life"};
  EXPECT_EQ(ParseSettings(Serialize(settings)), settings);
}

TEST(Settings, RefusesOtherText) {
  for (const char* text : {"", "{}", "[1]", "{\"tree\": 1}"})
    EXPECT_THROW(ParseSettings(text), std::exception) << text;
}

}  // namespace
}  // namespace softhca
