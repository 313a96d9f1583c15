#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::host {
namespace {

using testing::HasSubstr;

class NoDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (!DeviceNames().empty()) GTEST_SKIP() << "this machine has a ConnectX";
  }
};

TEST_F(NoDevice, ReportsARemedyForTheFirstActiveDevice) {
  try {
    FirstActiveDevice();
    FAIL() << "found a device";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "Cannot find an RDMA device: this machine has no ConnectX. Plug in a ConnectX and load mlx5_ib, or "
        "run this program under softhca (`softhca -- PROGRAM`).");
  }
}

TEST_F(NoDevice, NamesTheRequestedDevice) {
  try {
    Device device("mlx5_7");
    FAIL() << "opened a device";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("Cannot open mlx5_7: no ConnectX has that name. Plug in"));
  }
}

}  // namespace
}  // namespace warpverbs::host
