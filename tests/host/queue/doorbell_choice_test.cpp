#include "queue/doorbell_choice.hpp"

#include <gtest/gtest.h>

#include "warpverbs/host/error.hpp"

namespace warpverbs::host {
namespace {

uint64_t doorbell_register = 0;

TEST(ChooseDoorbell, DefaultsToTheCpu) {
  const DoorbellChoice choice = ChooseDoorbell(DoorbellMode::kAuto, nullptr, &doorbell_register);
  EXPECT_EQ(choice.mode, DoorbellMode::kGpu);
  EXPECT_EQ(choice.why, "the CPU rings, and the register is mapped");
  EXPECT_EQ(choice.doorbell, &doorbell_register);
}

TEST(ChooseDoorbell, UsesTheRequestedMode) {
  for (const DoorbellMode mode : {DoorbellMode::kGpu, DoorbellMode::kHostProxy, DoorbellMode::kHostPosts}) {
    const DoorbellChoice choice = ChooseDoorbell(mode, nullptr, &doorbell_register);
    EXPECT_EQ(choice.mode, mode);
    EXPECT_EQ(choice.why, "as asked");
  }
}

TEST(ChooseDoorbell, RejectsUnknownModes) {
  EXPECT_THROW(ChooseDoorbell(DoorbellMode{4}, nullptr, &doorbell_register), Error);
}

}  // namespace
}  // namespace warpverbs::host
