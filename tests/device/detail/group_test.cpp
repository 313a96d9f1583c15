#include "warpverbs/device/detail/group.hpp"

#include <gtest/gtest.h>

#include "../together.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/arch/cpu_block.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;
using arch::LaneMask;
using arch::cpu::RunBlock;
using WarpGroup = Group<Cpu, Warp>;

TEST(Group, ThreadIsAGroupOfOne) {
  const Group<Cpu, Thread> group(Thread{});
  EXPECT_EQ(group.size(), 1U);
  EXPECT_EQ(group.rank(), 0U);
  EXPECT_TRUE(group.IsLeader());
  EXPECT_EQ(group.Broadcast(7U), 7U);
  EXPECT_EQ(group.Broadcast(Code::kFull), Code::kFull);
}

TEST(Group, RanksCountTheLanesOfTheMaskBelow) {
  constexpr uint32_t kRank[8] = {0, 0, 1, 2, 2, 2, 3, 4};
  RunLanes(0b11001110, [&](uint32_t lane) {
    const WarpGroup group(Warp(0b11001110));
    EXPECT_EQ(group.size(), 5U);
    EXPECT_EQ(group.rank(), kRank[lane]);
  });
}

TEST(Group, HighestLaneOfTheMaskIsLeader) {
  for (const LaneMask mask : {0b00000001, 0b10000000, 0b00010110, 0b11111111}) {
    RunLanes(mask, [&](uint32_t lane) {
      EXPECT_EQ(WarpGroup(Warp(mask)).IsLeader(), mask >> lane == 1) << mask << " " << lane;
    });
  }
}

TEST(Group, FindsTheLastOf64Lanes) {
  EXPECT_EQ(WarpGroup::Last(1), 0U);
  EXPECT_EQ(WarpGroup::Last(~LaneMask{0}), 63U);
  EXPECT_EQ(WarpGroup::Last(LaneMask{1} << 40 | 1), 40U);
}

TEST(Group, BroadcastsTheLeadersValue) {
  RunLanes(0b01010101, [](uint32_t lane) {
    const WarpGroup group(Warp(0b01010101));
    EXPECT_EQ(group.Broadcast(100 + lane), 106U);
    EXPECT_EQ(group.Broadcast(lane == 6 ? Code::kOk : Code::kFull), Code::kOk);
    EXPECT_EQ(group.Broadcast(lane == 6 ? Code::kError : Code::kOk), Code::kError);
  });
}

TEST(Group, AllTrueAsksEachLaneOfTheMask) {
  RunLanes(0b00001111, [](uint32_t lane) {
    const WarpGroup group(Warp(0b00001111));
    EXPECT_TRUE(group.AllTrue(true));
    EXPECT_FALSE(group.AllTrue(lane != 2));
    EXPECT_FALSE(group.AllTrue(false));
  });
}

TEST(Group, SyncShowsTheLeaderTheOthersStores) {  // under ThreadSanitizer this proves the order
  uint32_t stored[8] = {};
  RunLanes(0xff, [&](uint32_t lane) {
    stored[lane] = lane + 1;
    const WarpGroup group(Warp(0xff));
    group.Sync();
    if (!group.IsLeader()) return;
    for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(stored[i], i + 1);
  });
}

TEST(Group, SyncsAllWarpsOfABlock) {
  uint32_t gathered[10] = {}, joined[10] = {};
  RunBlock(
      10,
      [&](uint32_t thread) {
        const Group<Cpu, Block> group(Block(thread < 8 ? 0b1111 : 0b11));
        gathered[thread] = thread + 1;
        group.SyncEnter();
        for (uint32_t i = 0; i < 10; ++i) EXPECT_EQ(gathered[i], i + 1);
        joined[thread] = thread + 1;
        group.Sync();
        for (uint32_t i = 0; i < 10; ++i) EXPECT_EQ(joined[i], i + 1);
      },
      4);
}

TEST(Group, LastThreadOfABlockLeadsAndBroadcasts) {
  RunBlock(
      10,
      [&](uint32_t thread) {
        const Group<Cpu, Block> group(Block(thread < 8 ? 0b1111 : 0b11));
        EXPECT_EQ(group.size(), 10U);
        EXPECT_EQ(group.rank(), thread);
        EXPECT_EQ(group.IsLeader(), thread == 9);
        for (uint64_t round = 1; round < 20; ++round) {
          EXPECT_TRUE(group.AllTrue(true));
          EXPECT_EQ(group.Broadcast(round << 32 | thread), round << 32 | 9);
          EXPECT_FALSE(group.AllTrue(thread != round % 10)) << "a single false suffices";
          EXPECT_EQ(group.Broadcast(thread == 9 ? Code::kFull : Code::kOk), Code::kFull);
        }
      },
      4);
}

}  // namespace
}  // namespace warpverbs::device
