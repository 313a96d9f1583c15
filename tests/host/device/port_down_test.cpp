#include <gtest/gtest.h>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::host {
namespace {

TEST(PortDown, IsReportedForEachPort) {
  const Device device("mlx5_0");
  ASSERT_EQ(device.Ports().size(), 2);
  EXPECT_FALSE(device.Ports()[1].active);
  EXPECT_EQ(device.Ports()[1].state, "down");
}

TEST(PortDown, LeavesNoDeviceToChoose) {
  try {
    FirstActiveDevice();
    FAIL() << "chose a device without an active port";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "Cannot use any RDMA device: no port is active (mlx5_0: port 1 is down, port 2 is down). Check the "
        "cable and the switch, or bring the link up (`ip link set DEV up`).");
  }
}

TEST(PortDown, PreventsEndpointCreation) {
  const Device device("mlx5_0");
  EXPECT_THROW(Endpoint{device}, Error);
  EXPECT_THROW(Endpoint(device, {.port = 2}), Error);
}

}  // namespace
}  // namespace warpverbs::host
