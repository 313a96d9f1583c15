#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "pair.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/device/signal.hpp"

/// Tests warps and blocks that make calls together.
namespace warpverbs::e2e {
namespace {

using arch::LaneMask;
using device::Code;
using device::Exclusive;
using device::Shared;

constexpr uint32_t kLanes = 32;

/// A single lane, the first and last, all, every other, halves, and some without a pattern.
constexpr LaneMask kMasks[] = {0x1,        0x80000000, 0x00010000, 0xffffffff, 0x55555555,
                               0xaaaaaaaa, 0x0000ffff, 0xffff0000, 0x80000001, 0x12345678};

template <class Sharing, class Cooperation>
using GroupQueue = device::SendQueue<Cpu, Sharing, Cooperation>;

/// Result of a thread's post.
struct Outcome {
  Code code = Code::kPending;
  uint32_t ticket = 0;
};

bool IsIn(LaneMask mask, uint32_t lane) { return (mask >> lane & 1) != 0; }

template <class Sharing>
class WarpCalls : public testing::Test {
 protected:
  /// Runs `kernel(lane, queue)` on the lanes of a mask.
  template <class Kernel>
  static void RunWarp(Pair& pair, LaneMask mask, const Kernel& kernel) {
    arch::cpu::RunBlock(kLanes, [&](uint32_t lane) {
      if (!IsIn(mask, lane)) return;
      GroupQueue<Sharing, device::Warp> queue(pair.a.View(), device::Warp(mask));
      kernel(lane, queue);
    });
  }
};
using Sharings = testing::Types<Exclusive, Shared, device::Contended>;
TYPED_TEST_SUITE(WarpCalls, Sharings);

TYPED_TEST(WarpCalls, EachLaneOfAnyMaskWritesItsWord) {
  for (const uint32_t depth : {1u, 2u, 4u, 16u, 64u}) {  // smaller than a warp: its lanes post in turn
    Pair pair(For<TypeParam>({.a = {.depth = depth}}));
    pair.Connect();
    uint32_t posted = 0;
    for (const LaneMask mask : kMasks) {
      SCOPED_TRACE(testing::Message() << "depth " << depth << ", mask " << std::hex << mask);
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        pair.Source(lane) = mask + lane;
        pair.Target(lane) = 0;
      }
      std::vector<Outcome> outcomes(kLanes);
      this->RunWarp(pair, mask, [&](uint32_t lane, auto& queue) {
        const device::Posted write =
            queue.Post(device::Write(pair.Remote(8 * lane), pair.Local(8 * lane, 8)), Within());
        outcomes[lane] = {write.status.ok() ? queue.Wait(write.ticket, Within()).code : write.status.code,
                          write.ticket.index};
      });
      std::vector<bool> taken(kLanes);
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        ASSERT_EQ(pair.Target(lane), IsIn(mask, lane) ? mask + lane : 0) << "lane " << lane;
        if (!IsIn(mask, lane)) continue;
        ASSERT_EQ(outcomes[lane].code, Code::kOk);
        const uint32_t place = outcomes[lane].ticket - posted;
        ASSERT_LT(place, static_cast<uint32_t>(std::popcount(mask)));
        ASSERT_FALSE(taken[place]) << "two lanes got the same ticket";
        taken[place] = true;
      }
      posted += static_cast<uint32_t>(std::popcount(mask));
      ASSERT_EQ(pair.End(), uint64_t{posted} << 32 | posted);
    }
  }
}

TYPED_TEST(WarpCalls, BatchesOfAllLanesShareADoorbell) {
  constexpr uint32_t kEach = 2;
  Pair pair(For<TypeParam>({.a = {.depth = 64}}));
  pair.Connect();
  for (const LaneMask mask : kMasks) {
    for (uint32_t i = 0; i < kEach * kLanes; ++i) pair.Target(i) = 0;
    std::vector<Code> codes(kLanes, Code::kPending);
    this->RunWarp(pair, mask, [&](uint32_t lane, auto& queue) {
      auto batch = queue.Begin(kEach, Within());
      for (uint32_t i = 0; i < kEach; ++i)
        EXPECT_TRUE(
            batch.Add(device::WriteInline{pair.Remote(8 * (kEach * lane + i)), uint64_t{1}}).status.ok());
      const device::Posted posted = batch.Submit();
      codes[lane] = posted.status.ok() ? queue.Wait(posted.ticket, Within()).code : posted.status.code;
    });
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      ASSERT_EQ(codes[lane], IsIn(mask, lane) ? Code::kOk : Code::kPending);
      for (uint32_t i = 0; i < kEach; ++i)
        ASSERT_EQ(pair.Target(kEach * lane + i), IsIn(mask, lane) ? 1u : 0u);
    }
  }
}

TYPED_TEST(WarpCalls, RefusalOfOneLaneSparesTheOthers) {
  Pair pair(For<TypeParam>({.a = {.depth = 64}}));
  pair.Connect();
  std::vector<device::Posted> posted(kLanes);
  this->RunWarp(pair, 0xffffffff, [&](uint32_t lane, auto& queue) {
    const uint64_t bytes = lane == 7 ? uint64_t{1} << 40 : 8;
    posted[lane] = queue.Post(device::Write(pair.Remote(8 * lane), pair.Local(8 * lane, bytes)), Within());
    if (posted[lane].status.ok()) posted[lane].status = queue.Wait(posted[lane].ticket, Within());
  });
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    EXPECT_EQ(posted[lane].status.code, lane == 7 ? Code::kInvalid : Code::kOk) << "lane " << lane;
}

template <class Sharing>
class SharedByBlocks : public testing::Test {};
using Sharers = testing::Types<Shared, device::Contended>;
TYPED_TEST_SUITE(SharedByBlocks, Sharers);

TYPED_TEST(SharedByBlocks, ServesWarpsOfTwoBlocks) {
  constexpr uint32_t kBlocks = 2, kThreads = 16, kWarp = 8, kRounds = 50;
  for (const uint32_t depth : {4u, 16u}) {
    Pair pair(For<TypeParam>({.a = {.depth = depth}}));
    pair.Connect();
    std::vector<Code> codes(kBlocks * kThreads, Code::kPending);
    arch::cpu::RunGrid(
        kBlocks, kThreads,
        [&](uint32_t block, uint32_t thread) {
          GroupQueue<TypeParam, device::Warp> queue(pair.a.View(), device::Warp((LaneMask{1} << kWarp) - 1));
          device::Posted posted;
          for (uint32_t i = 0; i < kRounds && posted.status.ok(); ++i)
            posted = queue.Post(device::FetchAdd<uint64_t>(pair.Remote(0), 1), Within());
          codes[block * kThreads + thread] =
              posted.status.ok() ? queue.Wait(posted.ticket, Within()).code : posted.status.code;
        },
        kWarp);
    for (const Code code : codes) ASSERT_EQ(code, Code::kOk);
    EXPECT_EQ(pair.Target(0), kBlocks * kThreads * kRounds);
  }
}

TEST(BlockCalls, SendDataOfAllThreadsOnceAllHaveArrived) {
  constexpr uint32_t kThreads = 16, kWarp = 8, kRounds = 30;
  Pair pair({.a = {.depth = 64}});
  pair.Connect();
  std::vector<Code> codes(kThreads, Code::kPending);
  arch::cpu::RunBlock(
      kThreads,
      [&](uint32_t thread) {
        GroupQueue<Shared, device::Block> queue(pair.a.View(), device::Block((LaneMask{1} << kWarp) - 1));
        Code code = Code::kOk;
        for (uint64_t round = 1; round <= kRounds && code == Code::kOk; ++round) {
          // The warps arrive late in turn. Nothing is posted until all have arrived.
          const uint64_t before = (round - 1) * kThreads * 0x1'0000'0001;
          const device::WaitLimit soon{.deadline_ns = Cpu::NowNs() + 1'000'000};
          const bool is_late = thread / kWarp == round % 2;
          if (is_late &&
              device::WaitSignal<Cpu>(&pair.a.View().control->tail, device::Compare::kNotEqual, before, soon)
                  .ok()) {
            code = Code::kFull;
          }
          // Each thread sends a word that another warp's thread has stored.
          const uint32_t stored = (thread + kWarp) % kThreads;
          pair.Source(stored) = 1000 * round + stored;
          const device::Posted posted =
              queue.Post(device::Write(pair.Remote(8 * thread), pair.Local(8 * thread, 8)), Within());
          const device::Status status =
              posted.status.ok() ? queue.Wait(posted.ticket, Within()) : posted.status;
          if (!status.ok()) code = status.code;
          if (code == Code::kOk && pair.Target(thread) != 1000 * round + thread) code = Code::kInvalid;
          Cpu::SyncBlock();  // no thread changes a word that is still being sent
        }
        codes[thread] = code;
      },
      kWarp);
  for (const Code code : codes) EXPECT_EQ(code, Code::kOk);
}

TYPED_TEST(SharedByBlocks, ServesPostsAndBatchesOfBlocks) {
  constexpr uint32_t kBlocks = 3, kThreads = 12, kWarp = 8, kRounds = 30, kAdds = 2;
  for (const uint32_t depth : {4u, 16u, 64u}) {  // smaller than a warp, than a block, than all blocks
    SCOPED_TRACE(depth);
    Pair pair(For<TypeParam>({.a = {.depth = depth}}));
    pair.Connect();
    std::vector<Code> codes(kBlocks * kThreads, Code::kPending);
    arch::cpu::RunGrid(
        kBlocks, kThreads,
        [&](uint32_t block, uint32_t thread) {
          const LaneMask lanes = thread < kWarp ? 0xff : 0xf;
          GroupQueue<TypeParam, device::Block> queue(pair.a.View(), device::Block(lanes));
          const auto add = device::FetchAdd<uint64_t>(pair.Remote(8 * block), 1);
          device::Posted posted;
          for (uint32_t round = 0; round < kRounds;
               ++round) {  // a failed thread continues: otherwise the others would wait forever
            posted = queue.Post(add, Within());
            if (!posted.status.ok() || depth < kAdds * kThreads) continue;
            auto batch = queue.Begin(kAdds, Within());
            for (uint32_t i = 0; i < kAdds; ++i) EXPECT_TRUE(batch.Add(add).status.ok());
            posted = batch.Submit();
          }
          codes[block * kThreads + thread] =
              posted.status.ok() ? queue.Wait(posted.ticket, Within()).code : posted.status.code;
        },
        kWarp);
    for (const Code code : codes) ASSERT_EQ(code, Code::kOk);
    const uint64_t adds = depth < kAdds * kThreads ? 1 : 1 + kAdds;
    for (uint32_t block = 0; block < kBlocks; ++block)
      EXPECT_EQ(pair.Target(block), adds * kThreads * kRounds) << "block " << block;
    const uint64_t end = kBlocks * kThreads * kRounds * adds;
    EXPECT_EQ(pair.End(), end << 32 | end);
  }
}

}  // namespace
}  // namespace warpverbs::e2e
