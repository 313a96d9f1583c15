#include "warpverbs/host/doorbell_rung.hpp"

#include <gtest/gtest.h>

#include <string>

#include "warpverbs/host/error.hpp"

namespace warpverbs::host {
namespace {

uint64_t doorbell_register = 0;

bool Reaches(const uint64_t* doorbell) {
  EXPECT_EQ(doorbell, &doorbell_register);
  return true;
}
bool DoesNotReach(const uint64_t*) { return false; }

TEST(ChooseDoorbell, LetsTheCpuRing) {
  const DoorbellChoice choice = ChooseDoorbell(DoorbellRung::kProbe, {}, &doorbell_register);
  EXPECT_EQ(choice.rung, DoorbellRung::kDevice);
  EXPECT_STREQ(choice.why, "the CPU rings, and the register is mapped");
}

TEST(ChooseDoorbell, GoesByTheProbe) {
  const DoorbellChoice device = ChooseDoorbell(DoorbellRung::kProbe, Reaches, &doorbell_register);
  EXPECT_EQ(device.rung, DoorbellRung::kDevice);
  EXPECT_STREQ(device.why, "the probe reached the register");
  const DoorbellChoice host = ChooseDoorbell(DoorbellRung::kProbe, DoesNotReach, &doorbell_register);
  EXPECT_EQ(host.rung, DoorbellRung::kHostRings);
  EXPECT_STREQ(host.why, "the probe did not reach the register");
}

TEST(ChooseDoorbell, DoesAsItIsTold) {
  for (const DoorbellRung rung :
       {DoorbellRung::kDevice, DoorbellRung::kHostRings, DoorbellRung::kHostPosts}) {
    const DoorbellChoice choice = ChooseDoorbell(rung, Reaches, &doorbell_register);
    EXPECT_EQ(choice.rung, rung);
    EXPECT_STREQ(choice.why, "as asked");
  }
}

TEST(ChooseDoorbell, ProbesOnlyWhereTheDeviceShallRing) {
  int probes = 0;
  const DoorbellProbe probe = [&](uint64_t*) { return ++probes > 0; };
  ChooseDoorbell(DoorbellRung::kHostRings, probe, &doorbell_register);
  ChooseDoorbell(DoorbellRung::kHostPosts, probe, &doorbell_register);
  EXPECT_EQ(probes, 0);
  ChooseDoorbell(DoorbellRung::kDevice, probe, &doorbell_register);
  EXPECT_EQ(probes, 1);
}

TEST(ChooseDoorbell, RefusesWhatTheProbeDenies) {
  try {
    ChooseDoorbell(DoorbellRung::kDevice, DoesNotReach, &doorbell_register);
    FAIL() << "took a register out of reach";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "Cannot create an endpoint whose posters ring the NIC's doorbell register themselves: the probe "
        "says that they cannot reach it. Choose DoorbellRung::kProbe or kHostRings, or let the "
        "processor map the register.");
  }
}

TEST(ChooseDoorbell, RefusesRungsThatDoNotExist) {
  EXPECT_THROW(ChooseDoorbell(DoorbellRung{4}, {}, &doorbell_register), Error);
}

}  // namespace
}  // namespace warpverbs::host
