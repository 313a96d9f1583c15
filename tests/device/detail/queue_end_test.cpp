#include <gtest/gtest.h>

#include "../together.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/detail/queue_state.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;

constexpr uint64_t Word(uint32_t reserved, uint32_t published) {
  return uint64_t{reserved} << 32 | published;
}

QueueControl Control(uint32_t reserved, uint32_t published) {
  QueueControl control{};
  control.tail = Word(reserved, published);
  return control;
}

TEST(ExclusiveQueueEnd, CountsInARegisterAndIsStoredWhenPublished) {
  QueueControl control = Control(7, 7);
  QueueEnd<Cpu, Exclusive> end(&control);
  EXPECT_EQ(end.reserved(), 7U);
  EXPECT_TRUE(end.TryReserve(3));
  EXPECT_EQ(end.reserved(), 10U);
  EXPECT_EQ(control.tail, Word(7, 7));
  end.Publish(10);
  EXPECT_EQ(control.tail, Word(10, 10));
}

TEST(ExclusiveQueueEnd, WrapsAt32Bits) {
  QueueControl control = Control(0U - 1, 0U - 1);
  QueueEnd<Cpu, Exclusive> end(&control);
  end.TryReserve(3);
  EXPECT_EQ(end.reserved(), 2U);
  end.Publish(2);
  EXPECT_EQ(control.tail, Word(2, 2));
}

TEST(SharedQueueEnd, ReservesAndKnowsWhetherItIsNextToPublish) {
  QueueControl control = Control(7, 7);
  QueueEnd<Cpu, Shared> end(&control);
  EXPECT_TRUE(end.TryReserve(3));
  EXPECT_EQ(control.tail, Word(10, 7));
  EXPECT_EQ(end.reserved(), 10U);
  EXPECT_TRUE(end.IsNextToPublish(7));
}

TEST(SharedQueueEnd, LostRaceReservesNothingAndReloadsTheEnd) {
  QueueControl control = Control(7, 7);
  QueueEnd<Cpu, Shared> end(&control);
  control.tail = Word(9, 8);
  EXPECT_FALSE(end.TryReserve(3));
  EXPECT_EQ(control.tail, Word(9, 8));
  EXPECT_EQ(end.reserved(), 9U);
  EXPECT_TRUE(end.TryReserve(3)) << "no other poster has reserved since";
  EXPECT_EQ(control.tail, Word(12, 8));
  EXPECT_FALSE(end.IsNextToPublish(9));
}

TEST(SharedQueueEnd, ReservesWhileOthersPublish) {
  QueueControl control = Control(9, 7);
  QueueEnd<Cpu, Shared> end(&control);
  control.tail = Word(9, 9);
  EXPECT_TRUE(end.TryReserve(1));
  EXPECT_EQ(control.tail, Word(10, 9));
  EXPECT_FALSE(end.IsNextToPublish(9)) << "not reloaded yet";
  EXPECT_TRUE(end.ReloadIsNextToPublish(9));
}

template <class Sharing>
struct SharedQueueEnds : testing::Test {};
using Kinds = testing::Types<Shared, RelaxedShared>;
TYPED_TEST_SUITE(SharedQueueEnds, Kinds);

TYPED_TEST(SharedQueueEnds, PublishAndKeepWhatOthersReserved) {
  QueueControl control = Control(7, 7);
  QueueEnd<Cpu, TypeParam> end(&control);
  end.TryReserve(1);
  control.tail = Word(20, 7);
  end.Publish(8);
  EXPECT_EQ(control.tail, Word(20, 8));
  end.PublishDeferred(9);
  EXPECT_EQ(control.tail, Word(20, 9));
  EXPECT_EQ(end.published(), 9U);
}

TEST(SharedQueueEnd, SeesASuccessorAfterAReload) {
  QueueControl control = Control(8, 7);
  QueueEnd<Cpu, Shared> end(&control);
  end.TryReserve(1);
  EXPECT_FALSE(end.HasSuccessor(9));
  control.tail = Word(12, 8);
  EXPECT_FALSE(end.HasSuccessor(9)) << "not reloaded yet";
  EXPECT_TRUE(end.ReloadIsNextToPublish(8));
  EXPECT_TRUE(end.HasSuccessor(9));
  EXPECT_FALSE(end.HasSuccessor(12));
}

TEST(SharedQueueEnd, HalvesWrapWithoutTouchingEachOther) {
  QueueControl control = Control(0U - 1, 0U - 1);
  QueueEnd<Cpu, Shared> end(&control);
  EXPECT_TRUE(end.TryReserve(2));
  EXPECT_EQ(control.tail, Word(1, 0U - 1));
  EXPECT_TRUE(end.IsNextToPublish(0U - 1));
  end.Publish(1);
  EXPECT_EQ(control.tail, Word(1, 1));
  EXPECT_TRUE(end.TryReserve(1)) << "its copy of the word is current";
}

TEST(SharedQueueEnd, SetReservedNeedsNoReload) {
  QueueControl control = Control(7, 7);
  QueueEnd<Cpu, Shared> end(&control);
  control.tail = Word(9, 9);
  end.SetReserved(9);
  EXPECT_TRUE(end.TryReserve(1));
}

TEST(SharedQueueEnd, ManyPostersGetDisjointSlotsAndPublishInOrder) {
  constexpr uint32_t kThreads = 4, kReservations = 500;
  QueueControl control = Control(0U - 700, 0U - 700);
  uint32_t published = 0U - 700;  // a race, unless publishing orders it
  Together(kThreads, [&](uint32_t thread) {
    QueueEnd<Cpu, Shared> end(&control);
    for (uint32_t i = 0; i < kReservations; ++i) {
      const uint32_t slots = 1 + (thread + i) % 3;
      while (!end.TryReserve(slots)) {
      }
      const uint32_t base = end.reserved() - slots;
      for (uint32_t round = 0; !end.ReloadIsNextToPublish(base); ++round) Cpu::Pause(round);
      ASSERT_EQ(published, base);
      published = base + slots;
      end.Publish(base + slots);
    }
  });
  EXPECT_EQ(control.tail, Word(published, published));
}

}  // namespace
}  // namespace warpverbs::device
