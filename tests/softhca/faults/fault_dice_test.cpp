#include "faults/fault_dice.hpp"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <vector>

namespace softhca {
namespace {

constexpr uint8_t kWriteMiddle = 7, kWriteLast = 8;

FaultPlan Plan(std::vector<std::string> rules) { return ParseFaults(rules); }
FrameIdentity Frame(uint32_t psn, uint8_t opcode = kWriteMiddle, uint32_t qpn = 0x12) {
  return {.opcode = opcode, .qpn = qpn, .psn = psn};
}

TEST(FaultDice, DropsTheConfiguredShareOfFrames) {
  FaultDice dice(Plan({"drop:5%"}));
  int dropped = 0;
  for (uint32_t psn = 0; psn < 100'000; ++psn) dropped += dice.Roll(Frame(psn)).drop ? 1 : 0;
  EXPECT_NEAR(dropped, 5000, 300);
}

TEST(FaultDice, RepeatsItsDecisionsOnlyForTheSameSeedInAnyOrder) {
  const auto decide = [](const char* seed, bool backwards) {
    FaultDice dice(Plan({"drop:50%", seed}));
    std::map<uint32_t, bool> dropped;
    for (uint32_t i = 0; i < 1000; ++i) {
      const uint32_t psn = backwards ? 999 - i : i;
      dropped[psn] = dice.Roll(Frame(psn)).drop;
    }
    return dropped;
  };
  EXPECT_EQ(decide("seed:7", false), decide("seed:7", true));
  EXPECT_NE(decide("seed:7", false), decide("seed:8", false));
}

TEST(FaultDice, DecidesAgainForEachRetransmission) {
  FaultDice dice(Plan({"drop:50%"}));
  std::vector<uint32_t> lost(100'000);
  std::iota(lost.begin(), lost.end(), 0);
  for (int round = 0; round < 64 && !lost.empty(); ++round) {
    std::erase_if(lost, [&](uint32_t psn) { return !dice.Roll(Frame(psn)).drop; });
  }
  EXPECT_TRUE(lost.empty()) << lost.size() << " never get through, such as PSN " << lost.front();
}

TEST(FaultDice, DecidesEachRuleIndependently) {
  FaultDice dice(Plan({"drop:50%", "duplicate:50%"}));
  int both = 0, neither = 0;
  for (uint32_t psn = 0; psn < 1000; ++psn) {
    const FrameFate fate = dice.Roll(Frame(psn));
    both += fate.drop && fate.duplicate ? 1 : 0;
    neither += !fate.drop && !fate.duplicate ? 1 : 0;
  }
  EXPECT_NEAR(both, 250, 75);
  EXPECT_NEAR(neither, 250, 75);
}

TEST(FaultDice, AppliesNthOnceToTheNthMatch) {
  FaultDice dice(Plan({"drop,op=WRITE_MIDDLE,qp=0x12,nth=2"}));
  EXPECT_FALSE(dice.Roll(Frame(1)).drop);
  EXPECT_FALSE(dice.Roll(Frame(2, kWriteLast)).drop) << "another packet";
  EXPECT_FALSE(dice.Roll(Frame(2, kWriteMiddle, 0x13)).drop) << "to another queue pair";
  FrameIdentity received = Frame(2);
  received.direction = Direction::kReceived;
  EXPECT_FALSE(dice.Roll(received).drop) << "in the other direction";
  EXPECT_TRUE(dice.Roll(Frame(2)).drop);
  EXPECT_FALSE(dice.Roll(Frame(2)).drop) << "sent again";
  EXPECT_FALSE(dice.Roll(Frame(3)).drop);
}

TEST(FaultDice, AddsUpDelays) {
  FaultDice dice(Plan({"delay,by=3us", "delay,by=4us", "reorder,by=5us"}));
  const FrameFate fate = dice.Roll(Frame(0));
  EXPECT_EQ(fate.delay_ns, 7'000u);
  EXPECT_EQ(fate.reorder_ns, 5'000u);
  EXPECT_FALSE(fate.corrupt.has_value());
}

}  // namespace
}  // namespace softhca
