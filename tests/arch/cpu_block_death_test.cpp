// Tests that wrong calls abort with a sentence.
#include <gtest/gtest.h>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/arch/cpu_block.hpp"

namespace warpverbs::arch {
namespace {

class CpuBlockDeathTest : public testing::Test {
 protected:
  CpuBlockDeathTest() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(CpuBlockDeathTest, AbortsWhenTheMaskLacksTheCaller) {
  const auto kernel = [](uint32_t) { Cpu::SyncLanes(0b10); };
  EXPECT_DEATH(cpu::RunBlock(2, kernel), "a lane names a mask that lacks itself");
}

TEST_F(CpuBlockDeathTest, AbortsWhenTheMaskNamesLanesBeyondTheWarp) {
  const auto kernel = [](uint32_t thread) {
    if (thread == 4) Cpu::Ballot(0b11, true);
  };
  EXPECT_DEATH(cpu::RunBlock(5, kernel, 4), "a lane names lanes that its warp does not have");
}

TEST_F(CpuBlockDeathTest, AbortsWhenAShuffleReadsALaneOutsideTheMask) {
  const auto kernel = [](uint32_t) { Cpu::Shuffle(0b0011, 1U, 2); };
  EXPECT_DEATH(cpu::RunBlock(2, kernel), "a shuffle names a lane out of its mask");
  EXPECT_DEATH(Cpu::Shuffle(1, 1U, 64), "a shuffle names a lane out of its mask");
}

TEST_F(CpuBlockDeathTest, AbortsWhenWaitingLanesHaveDifferentMasks) {
  const auto kernel = [](uint32_t thread) { Cpu::SyncLanes(thread == 0 ? 0b11 : 0b111); };
  EXPECT_DEATH(cpu::RunBlock(3, kernel), "two lanes wait for each other with different masks");
}

TEST_F(CpuBlockDeathTest, AbortsWhenAThreadOutsideABlockNamesOtherLanes) {
  EXPECT_DEATH(Cpu::SyncLanes(0b11), "a warp of one lane names other lanes than its own");
  EXPECT_DEATH(Cpu::SyncLanes(0b10), "a warp of one lane names other lanes than its own");
}

TEST_F(CpuBlockDeathTest, AbortsWhenASecondValueIsSharedBeforeABarrier) {
  const auto kernel = [](uint32_t thread) {
    Cpu::ShareInBlock(1, thread == 0);
    Cpu::ShareInBlock(2, thread == 0);
  };
  EXPECT_DEATH(cpu::RunBlock(2, kernel), "a block shares two values, and no barrier is between them");
}

}  // namespace
}  // namespace warpverbs::arch
