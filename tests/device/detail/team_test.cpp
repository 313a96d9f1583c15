#include "warpverbs/device/detail/team.hpp"

#include <gtest/gtest.h>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/arch/cpu_block.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;
using arch::LaneMask;
using arch::cpu::RunBlock;
using WarpTeam = Team<Cpu, Warp>;

/// Runs `body` as each lane of `mask`, in a warp of 8.
template <class Body>
void RunLanes(LaneMask mask, const Body& body) {
  RunBlock(
      8,
      [&](uint32_t lane) {
        if ((mask >> lane & 1) != 0) body(lane);
      },
      8);
}

TEST(Team, ThreadIsATeamOfOne) {
  const Team<Cpu, Thread> team(Thread{});
  EXPECT_EQ(team.size(), 1U);
  EXPECT_EQ(team.rank(), 0U);
  EXPECT_TRUE(team.Leads());
  EXPECT_EQ(team.Share(7U), 7U);
  EXPECT_EQ(team.Share(Code::kFull), Code::kFull);
}

TEST(Team, RanksCountTheLanesOfTheMaskBelow) {
  constexpr uint32_t kRank[8] = {0, 0, 1, 2, 2, 2, 3, 4};
  RunLanes(0b11001110, [&](uint32_t lane) {
    const WarpTeam team(Warp(0b11001110));
    EXPECT_EQ(team.size(), 5U);
    EXPECT_EQ(team.rank(), kRank[lane]);
  });
}

TEST(Team, HighestLaneOfTheMaskLeads) {
  for (const LaneMask mask : {0b00000001, 0b10000000, 0b00010110, 0b11111111}) {
    RunLanes(mask, [&](uint32_t lane) {
      EXPECT_EQ(WarpTeam(Warp(mask)).Leads(), mask >> lane == 1) << mask << " " << lane;
    });
  }
}

TEST(Team, AllMasksOfAWarpOf64LanesHaveALast) {
  EXPECT_EQ(WarpTeam::Last(1), 0U);
  EXPECT_EQ(WarpTeam::Last(~LaneMask{0}), 63U);
  EXPECT_EQ(WarpTeam::Last(LaneMask{1} << 40 | 1), 40U);
}

TEST(Team, EverybodyGetsWhatTheLeaderSays) {
  RunLanes(0b01010101, [](uint32_t lane) {
    const WarpTeam team(Warp(0b01010101));
    EXPECT_EQ(team.Share(100 + lane), 106U);
    EXPECT_EQ(team.Share(lane == 6 ? Code::kOk : Code::kFull), Code::kOk);
    EXPECT_EQ(team.Share(lane == 6 ? Code::kError : Code::kOk), Code::kError);
  });
}

TEST(Team, AllMeansEachOfTheMask) {
  RunLanes(0b00001111, [](uint32_t lane) {
    const WarpTeam team(Warp(0b00001111));
    EXPECT_TRUE(team.All(true));
    EXPECT_FALSE(team.All(lane != 2));
    EXPECT_FALSE(team.All(false));
  });
}

TEST(Team, JoinShowsTheLeaderWhatTheOthersStored) {  // under ThreadSanitizer this proves the order
  uint32_t stored[8] = {};
  RunLanes(0xff, [&](uint32_t lane) {
    stored[lane] = lane + 1;
    const WarpTeam team(Warp(0xff));
    team.Join();
    if (!team.Leads()) return;
    for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(stored[i], i + 1);
  });
}

TEST(Team, BlockGathersAllItsWarps) {
  uint32_t gathered[10] = {}, joined[10] = {};
  RunBlock(
      10,
      [&](uint32_t thread) {
        const Team<Cpu, Block> team(Block(thread < 8 ? 0b1111 : 0b11));
        gathered[thread] = thread + 1;
        team.Gather();
        for (uint32_t i = 0; i < 10; ++i) EXPECT_EQ(gathered[i], i + 1);
        joined[thread] = thread + 1;
        team.Join();
        for (uint32_t i = 0; i < 10; ++i) EXPECT_EQ(joined[i], i + 1);
      },
      4);
}

TEST(Team, LastThreadOfABlockLeadsAndTellsAll) {
  RunBlock(
      10,
      [&](uint32_t thread) {
        const Team<Cpu, Block> team(Block(thread < 8 ? 0b1111 : 0b11));
        EXPECT_EQ(team.size(), 10U);
        EXPECT_EQ(team.rank(), thread);
        EXPECT_EQ(team.Leads(), thread == 9);
        for (uint64_t round = 1; round < 20; ++round) {
          EXPECT_TRUE(team.All(true));
          EXPECT_EQ(team.Share(round << 32 | thread), round << 32 | 9);
          EXPECT_FALSE(team.All(thread != round % 10)) << "one is enough to say no";
          EXPECT_EQ(team.Share(thread == 9 ? Code::kFull : Code::kOk), Code::kFull);
        }
      },
      4);
}

}  // namespace
}  // namespace warpverbs::device
