#include "warpverbs/device/detail/tail.hpp"

#include <gtest/gtest.h>

#include "../together.hpp"
#include "warpverbs/arch/cpu.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;

constexpr uint64_t Word(uint32_t reserved, uint32_t turn) { return uint64_t{reserved} << 32 | turn; }

QueueControl Control(uint32_t reserved, uint32_t turn) {
  QueueControl control{};
  control.tail = Word(reserved, turn);
  return control;
}

TEST(ExclusiveTail, CountsInARegisterUntilItIsSaved) {
  QueueControl control = Control(7, 7);
  Tail<Cpu, Exclusive> tail(&control);
  EXPECT_EQ(tail.next(), 7U);
  EXPECT_TRUE(tail.Claim(3));
  EXPECT_TRUE(tail.IsTurn(7));
  EXPECT_FALSE(tail.HasSuccessor(10)) << "nobody else posts";
  EXPECT_EQ(tail.next(), 10U);
  EXPECT_EQ(control.tail, Word(7, 7));
  tail.Save();
  EXPECT_EQ(control.tail, Word(10, 10));
}

TEST(ExclusiveTail, WrapsAt32Bits) {
  QueueControl control = Control(0U - 1, 0U - 1);
  Tail<Cpu, Exclusive> tail(&control);
  tail.Claim(3);
  EXPECT_EQ(tail.next(), 2U);
  tail.Save();
  EXPECT_EQ(control.tail, Word(2, 2));
}

TEST(SharedTail, ClaimReservesAtOnceAndKnowsTheTurn) {
  QueueControl control = Control(7, 7);
  Tail<Cpu, Shared> tail(&control);
  EXPECT_TRUE(tail.Claim(3));
  EXPECT_EQ(control.tail, Word(10, 7));
  EXPECT_EQ(tail.next(), 10U);
  EXPECT_TRUE(tail.IsTurn(7));
}

TEST(SharedTail, LostClaimTakesNothingAndIsALookAtTheEnd) {
  QueueControl control = Control(7, 7);
  Tail<Cpu, Shared> tail(&control);
  control.tail = Word(9, 8);
  EXPECT_FALSE(tail.Claim(3));
  EXPECT_EQ(control.tail, Word(9, 8));
  EXPECT_EQ(tail.next(), 9U);
  EXPECT_TRUE(tail.Claim(3)) << "nobody has reserved since";
  EXPECT_EQ(control.tail, Word(12, 8));
  EXPECT_FALSE(tail.IsTurn(9));
}

TEST(SharedTail, TurnsThatPassDoNotDisturbAClaim) {
  QueueControl control = Control(9, 7);
  Tail<Cpu, Shared> tail(&control);
  control.tail = Word(9, 9);
  EXPECT_TRUE(tail.Claim(1));
  EXPECT_EQ(control.tail, Word(10, 9));
  EXPECT_FALSE(tail.IsTurn(9)) << "not looked yet";
  EXPECT_TRUE(tail.LookForTurn(9));
}

template <class Sharing>
struct SharedTails : testing::Test {};
using Kinds = testing::Types<Shared, RelaxedShared>;
TYPED_TEST_SUITE(SharedTails, Kinds);

TYPED_TEST(SharedTails, PassTheTurnAndKeepWhatOthersReserved) {
  QueueControl control = Control(7, 7);
  Tail<Cpu, TypeParam> tail(&control);
  tail.Claim(1);
  control.tail = Word(20, 7);
  tail.HandOver(8);
  EXPECT_EQ(control.tail, Word(20, 8));
  tail.PassOn(9);
  EXPECT_EQ(control.tail, Word(20, 9));
  EXPECT_EQ(tail.turn(), 9U);
}

TEST(SharedTail, SuccessorIsWhoWasSeenToReserve) {
  QueueControl control = Control(8, 7);
  Tail<Cpu, Shared> tail(&control);
  tail.Claim(1);
  EXPECT_FALSE(tail.HasSuccessor(9));
  control.tail = Word(12, 8);
  EXPECT_FALSE(tail.HasSuccessor(9)) << "not looked yet";
  EXPECT_TRUE(tail.LookForTurn(8));
  EXPECT_TRUE(tail.HasSuccessor(9));
  EXPECT_FALSE(tail.HasSuccessor(12));
}

TEST(SharedTail, BothHalvesWrapWithoutTouchingEachOther) {
  QueueControl control = Control(0U - 1, 0U - 1);
  Tail<Cpu, Shared> tail(&control);
  EXPECT_TRUE(tail.Claim(2));
  EXPECT_EQ(control.tail, Word(1, 0U - 1));
  EXPECT_TRUE(tail.IsTurn(0U - 1));
  tail.HandOver(1);
  EXPECT_EQ(control.tail, Word(1, 1));
  EXPECT_TRUE(tail.Claim(1)) << "what it remembers is what it left";
}

TEST(SharedTail, FollowerKnowsTheEndWithoutALook) {
  QueueControl control = Control(7, 7);
  Tail<Cpu, Shared> tail(&control);
  control.tail = Word(9, 9);
  tail.Follow(9);
  EXPECT_TRUE(tail.Claim(1));
}

TEST(SharedTail, ManyPostersGetDisjointSlotsAndTheirTurnInOrder) {
  constexpr uint32_t kThreads = 4, kClaims = 500;
  QueueControl control = Control(0U - 700, 0U - 700);
  uint32_t handed_over = 0U - 700;  // changed by whoever has the turn: a race if the turn did not order it
  Together(kThreads, [&](uint32_t thread) {
    Tail<Cpu, Shared> tail(&control);
    for (uint32_t i = 0; i < kClaims; ++i) {
      const uint32_t slots = 1 + (thread + i) % 3;
      while (!tail.Claim(slots)) {
      }
      const uint32_t base = tail.next() - slots;
      for (uint32_t round = 0; !tail.LookForTurn(base); ++round) Cpu::Pause(round);
      ASSERT_EQ(handed_over, base);
      handed_over = base + slots;
      tail.HandOver(base + slots);
    }
  });
  EXPECT_EQ(control.tail, Word(handed_over, handed_over));
}

}  // namespace
}  // namespace warpverbs::device
