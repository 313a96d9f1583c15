#include "warpverbs/host/doorbell_rung.hpp"

#include <gtest/gtest.h>

#include "warpverbs/host/error.hpp"

namespace warpverbs::host {
namespace {

uint64_t doorbell_register = 0;

TEST(ChooseDoorbell, LetsTheCpuRing) {
  const DoorbellChoice choice = ChooseDoorbell(DoorbellRung::kProbe, nullptr, &doorbell_register);
  EXPECT_EQ(choice.rung, DoorbellRung::kDevice);
  EXPECT_EQ(choice.why, "the CPU rings, and the register is mapped");
  EXPECT_EQ(choice.doorbell, &doorbell_register);
}

TEST(ChooseDoorbell, DoesAsItIsTold) {
  for (const DoorbellRung rung :
       {DoorbellRung::kDevice, DoorbellRung::kHostRings, DoorbellRung::kHostPosts}) {
    const DoorbellChoice choice = ChooseDoorbell(rung, nullptr, &doorbell_register);
    EXPECT_EQ(choice.rung, rung);
    EXPECT_EQ(choice.why, "as asked");
  }
}

TEST(ChooseDoorbell, RefusesRungsThatDoNotExist) {
  EXPECT_THROW(ChooseDoorbell(DoorbellRung{4}, nullptr, &doorbell_register), Error);
}

}  // namespace
}  // namespace warpverbs::host
