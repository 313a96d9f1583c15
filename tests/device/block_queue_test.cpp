// Posts of a block's threads in one call.
#include <gtest/gtest.h>

#include "nic_thread.hpp"
#include "together.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;
using arch::cpu::RunBlock;

/// Lets a block of ten threads in warps of four post one write each, three times. Returns the number of
/// doorbells.
uint32_t DoorbellsOfABlock(uint32_t depth) {
  constexpr uint32_t kThreads = 10;
  static uint32_t doorbells;
  struct CountingCpu : Cpu {
    static void StoreReleaseMmio(uint64_t* doorbell, mlx5::Be64 value, arch::Mmio mapping) {
      ++doorbells;  // not a race: only the poster that is next to publish rings
      Cpu::StoreReleaseMmio(doorbell, value, mapping);
    }
  };
  doorbells = 0;
  TestQueue memory(depth);
  TestNic nic(memory);
  NicThread thread(nic);
  uint32_t from[kThreads], to[kThreads] = {};
  RunBlock(
      kThreads,
      [&](uint32_t me) {
        SendQueue<CountingCpu, Shared, Block> queue(memory.View(), Block(me < 8 ? 0xf : 0x3));
        for (uint32_t round = 1; round <= 3; ++round) {
          from[me] = 10 * round + me;
          const Posted posted = queue.Post(Write(Remote(to[me]), Local(from[me])), Soon());
          ASSERT_TRUE(posted.status.ok());
          ASSERT_TRUE(queue.Wait(posted.ticket, Soon()).ok());
          ASSERT_EQ(to[me], 10 * round + me);
        }
      },
      4);
  thread.Stop();
  EXPECT_EQ(nic.violation(), "");
  return doorbells;
}

TEST(BlockQueue, RingsOnceForAllThreads) { EXPECT_EQ(DoorbellsOfABlock(64), 3U); }

TEST(BlockQueue, PostsWarpByWarpWhenTheQueueIsTooShortForTheBlock) { EXPECT_EQ(DoorbellsOfABlock(8), 9U); }

TEST(BlockQueue, PostsLaneByLaneWhenTheQueueIsTooShortForAWarp) { EXPECT_EQ(DoorbellsOfABlock(1), 30U); }

TEST(BlockQueue, ReservesTheBatchesOfAllThreadsAtOnce) {
  constexpr uint32_t kThreads = 8, kEach = 3;
  TestQueue memory(64);
  TestNic nic(memory);
  NicThread thread(nic);
  uint64_t from[kThreads * kEach], to[kThreads * kEach] = {};
  RunBlock(
      kThreads,
      [&](uint32_t me) {
        SendQueue<Cpu, Shared, Block> queue(memory.View(), Block(0xf));
        auto batch = queue.Begin(kEach, Soon());
        for (uint32_t i = me * kEach; i < (me + 1) * kEach; ++i) {
          from[i] = i + 1;
          EXPECT_TRUE(batch.Add(Write(Remote(to[i]), Local(from[i]))).status.ok());
        }
        const Posted posted = batch.Submit();
        ASSERT_TRUE(posted.status.ok());
        EXPECT_EQ(posted.ticket.index, (me + 1) * kEach - 1);
        ASSERT_TRUE(queue.Wait(posted.ticket, Soon()).ok());
      },
      4);
  thread.Stop();
  EXPECT_EQ(nic.violation(), "");
  for (uint32_t i = 0; i < kThreads * kEach; ++i) EXPECT_EQ(to[i], i + 1);
}

TEST(BlockQueue, ReleasesTheWritesOfAllThreads) {  // under ThreadSanitizer this proves the order
  constexpr uint32_t kThreads = 10;
  TestQueue memory(32);
  TestNic nic(memory);
  NicThread thread(nic);
  uint32_t from[kThreads], to[kThreads];
  RunBlock(
      kThreads,
      [&](uint32_t me) {
        const uint32_t other = (me + 5) % kThreads;  // a thread of another warp
        SendQueue<Cpu, Shared, Block> queue(memory.View(), Block(me < 8 ? 0xf : 0x3));
        for (uint32_t round = 1; round <= 10; ++round) {
          from[me] = round * 100 + me;
          const Posted posted = queue.Post(Write(Remote(to[other]), Local(from[other])), Soon());
          ASSERT_TRUE(posted.status.ok());
          ASSERT_TRUE(queue.Wait(posted.ticket, Soon()).ok());
          ASSERT_EQ(to[other], round * 100 + other);
          Cpu::SyncBlock();
        }
      },
      4);
  thread.Stop();
  EXPECT_EQ(nic.violation(), "");
}

}  // namespace
}  // namespace warpverbs::device
