// Tests blocks, warps and lanes made of CPU threads.
#include "warpverbs/arch/cpu_block.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "common/no_threads.hpp"
#include "deadline.hpp"
#include "warpverbs/arch/cpu.hpp"

namespace warpverbs::arch {
namespace {

using cpu::RunBlock;
using cpu::RunGrid;

constexpr LaneMask kWholeWarp = 0xffffffff;

TEST(CpuBlock, RunsEveryThreadOnceWithItsLane) {
  std::array<uint32_t, 70> runs{};
  RunBlock(runs.size(), [&](uint32_t thread) {
    ++runs[thread];
    EXPECT_EQ(Cpu::Lane(), thread % 32);
    EXPECT_EQ(Cpu::ActiveLanes() >> Cpu::Lane() & 1, 1U);
  });
  for (const uint32_t count : runs) EXPECT_EQ(count, 1U);
  EXPECT_EQ(Cpu::Lane(), 0U);
}

TEST(CpuBlock, WarpLanesAreThoseOfTheCallersWarp) {
  RunBlock(40,
           [](uint32_t thread) { EXPECT_EQ(Cpu::WarpLanes(), thread < 32 ? kWholeWarp : LaneMask{0xff}); });
  EXPECT_EQ(Cpu::WarpLanes(), LaneMask{1});
}

TEST(CpuBlock, BallotReturnsTheLanesThatVotedTrue) {
  RunBlock(32, [](uint32_t thread) {
    EXPECT_EQ(Cpu::Ballot(kWholeWarp, thread % 3 == 0), 0x49249249U);
    EXPECT_EQ(Cpu::Ballot(kWholeWarp, true), kWholeWarp);
    EXPECT_EQ(Cpu::Ballot(kWholeWarp, false), 0U);
  });
}

TEST(CpuBlock, ShuffleReturnsTheValueOfTheNamedLane) {
  RunBlock(32, [](uint32_t thread) {
    const uint32_t next = (thread + 1) % 32;
    EXPECT_EQ(Cpu::Shuffle(kWholeWarp, 0xf0000000 + thread, next), 0xf0000000 + next);
    EXPECT_EQ(Cpu::Shuffle(kWholeWarp, uint64_t{thread} << 40 | 7, next), uint64_t{next} << 40 | 7);
    EXPECT_EQ(Cpu::Shuffle(kWholeWarp, thread, 31), 31U);
  });
}

TEST(CpuBlock, SupportsWarpsOf64Lanes) {
  RunBlock(
      64,
      [](uint32_t thread) {
        EXPECT_EQ(Cpu::Ballot(~LaneMask{0}, thread >= 62), LaneMask{3} << 62);
        EXPECT_EQ(Cpu::Shuffle(~LaneMask{0}, thread, 63), 63U);
      },
      64);
}

TEST(CpuBlock, SupportsAShortLastWarp) {
  RunBlock(
      10,
      [](uint32_t thread) {
        const LaneMask all = thread < 8 ? 0xff : 0x3;
        EXPECT_EQ(Cpu::Ballot(all, true), all);
        EXPECT_EQ(Cpu::Shuffle(all, thread, 1), thread < 8 ? 1U : 9U);
      },
      8);
}

/// Lets each of `threads` threads write a number, sync, and read another's, many times.
void PassNumbersAround(uint32_t threads, const std::function<void()>& sync) {
  std::vector<uint32_t> numbers(threads);
  RunBlock(threads, [&](uint32_t thread) {
    for (uint32_t round = 1; round <= 100; ++round) {
      numbers[thread] = round;
      sync();
      EXPECT_EQ(numbers[(thread + round) % threads], round);
      sync();
    }
  });
}

TEST(CpuBlock, SyncLanesOrdersMemory) {
  PassNumbersAround(8, [] { Cpu::SyncLanes(0xff); });
}

TEST(CpuBlock, SyncBlockOrdersMemoryAcrossWarps) { PassNumbersAround(40, &Cpu::SyncBlock); }

TEST(CpuBlock, WaitsOnlyForLanesOfTheMask) {
  RunBlock(4, [](uint32_t thread) {
    if (thread == 2) return;
    EXPECT_EQ(Cpu::Ballot(0b1011, thread != 1), 0b1001U);
    EXPECT_EQ(Cpu::Shuffle(0b1011, thread, 3), 3U);
  });
}

TEST(CpuBlock, DoesNotWaitForDisjointMasks) {
  std::atomic<bool> high_begun = false;
  std::atomic<bool> low_done = false;
  RunBlock(4, [&](uint32_t thread) {
    if (thread < 2) {
      EXPECT_TRUE(Eventually([&] { return high_begun.load(); }));
      for (uint32_t round = 0; round < 10; ++round)
        EXPECT_EQ(Cpu::Shuffle(0b0011, thread + round, 1), 1 + round);
      low_done = true;
    } else {
      if (thread == 2) high_begun = true;  // then waits for lane 3
      if (thread == 3) {
        EXPECT_TRUE(Eventually([&] { return low_done.load(); }));
      }
      EXPECT_EQ(Cpu::Shuffle(0b1100, thread, 3), 3U);
    }
  });
}

TEST(CpuBlock, SyncsSomeLanesWhileOthersWaitForAll) {
  RunBlock(4, [](uint32_t thread) {
    for (uint32_t round = 0; round < 50; ++round) {
      if (thread < 2) {
        EXPECT_EQ(Cpu::Ballot(0b0011, true), 0b0011U);
      }
      EXPECT_EQ(Cpu::Ballot(0b1111, thread == round % 4), LaneMask{1} << round % 4);
    }
  });
}

TEST(CpuBlock, BlockDoesNotWaitForThreadsThatEnded) {
  std::array<uint32_t, 40> numbers{};
  RunBlock(numbers.size(), [&](uint32_t thread) {
    if (thread % 3 == 0) return;
    numbers[thread] = 1;
    Cpu::SyncBlock();
    EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), 0U), 26U);
  });
}

/// Runs a kernel whose lane 3 throws, and expects the exception to reach the caller.
void ExpectRootCause(const std::function<void()>& wait) {
  try {
    RunBlock(8, [&](uint32_t thread) {
      if (thread == 3) throw std::runtime_error("the root cause");
      wait();
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the root cause");
  }
}

TEST(CpuBlock, PassesAnExceptionToTheCaller) {
  ExpectRootCause([] {});
}

TEST(CpuBlock, PassesAnExceptionToTheCallerWhileOthersWaitForItsThread) {
  ExpectRootCause([] { Cpu::SyncLanes(0xff); });
  ExpectRootCause(&Cpu::SyncBlock);
}

TEST(CpuBlock, ReportsThatNoThreadIsLeft) {
  try {
    const tests::NoThreads none;
    RunBlock(3, [](uint32_t) { Cpu::SyncBlock(); });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(),
                 "Cannot start thread 0 of a block of 3: the system has none left. Raise the limits on "
                 "threads and memory (ulimit -u, ulimit -v).");
  }
}

TEST(CpuBlock, EndsLanesThatWaitForALaneThatEnded) {
  const auto kernel = [](uint32_t thread) {
    if (thread != 5) Cpu::SyncLanes(0xff);
  };
  EXPECT_THROW(RunBlock(8, kernel), std::logic_error);
}

TEST(CpuBlock, EndsThreadsThatWaitForTheValueOfAThreadThatEnded) {
  std::atomic<int> threw = 0;
  EXPECT_THROW(RunBlock(4,
                        [&](uint32_t thread) {
                          EXPECT_EQ(Cpu::ShareInBlock(7, thread == 0), 7u);
                          if (thread == 0) return;
                          Cpu::SyncBlock();
                          try {
                            Cpu::ShareInBlock(0, false);
                          } catch (const std::logic_error&) {
                            ++threw;
                            throw;
                          }
                        }),
               std::logic_error);
  EXPECT_EQ(threw, 3);
}

TEST(CpuBlock, ThreadsOfABlockVoteAndShareAValue) {
  RunBlock(
      6,
      [](uint32_t thread) {
        EXPECT_EQ(Cpu::BlockThreads(), 6U);
        EXPECT_EQ(Cpu::BlockRank(), thread);
        for (uint32_t round = 0; round < 50; ++round) {
          EXPECT_EQ(Cpu::AllOfBlock(round % 2 == 0 || thread != round % 6), round % 2 == 0);
          EXPECT_EQ(Cpu::ShareInBlock(100 * round + thread, thread == round % 6), 100 * round + round % 6);
        }
      },
      4);
}

TEST(CpuBlock, RunsTheBlocksOfAGridAtTheSameTime) {
  std::array<std::array<uint32_t, 3>, 4> runs{};
  std::atomic<uint32_t> begun = 0;
  RunGrid(4, 3, [&](uint32_t block, uint32_t thread) {
    ++runs[block][thread];
    if (thread == 0) ++begun;
    Cpu::SyncBlock();
    EXPECT_TRUE(Eventually([&] { return begun == 4; }));
    EXPECT_EQ(Cpu::Ballot(0b111, true), 0b111U);
  });
  for (const auto& block : runs) EXPECT_EQ(block, (std::array<uint32_t, 3>{1, 1, 1}));
}

TEST(CpuBlock, PassesAnExceptionToTheCallerOfAGrid) {
  const auto kernel = [](uint32_t block, uint32_t thread) {
    if (block == 1 && thread == 2) throw std::runtime_error("the root cause");
    Cpu::SyncBlock();
  };
  EXPECT_THROW(RunGrid(2, 4, kernel), std::runtime_error);
}

}  // namespace
}  // namespace warpverbs::arch
