// Tests threads outside a block, and the words that they share with others.
#include "warpverbs/arch/cpu.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "deadline.hpp"

namespace warpverbs::arch {
namespace {

TEST(Cpu, ThreadOutsideABlockIsAWarpOfOneLane) {
  EXPECT_EQ(Cpu::Lane(), 0U);
  EXPECT_EQ(Cpu::ActiveLanes(), LaneMask{1});
  EXPECT_EQ(Cpu::Ballot(1, true), LaneMask{1});
  EXPECT_EQ(Cpu::Ballot(1, false), LaneMask{0});
  EXPECT_EQ(Cpu::Shuffle(1, uint32_t{0xdeadbeef}, 0), 0xdeadbeefU);
  EXPECT_EQ(Cpu::Shuffle(1, uint64_t{0x0123456789abcdef}, 0), 0x0123456789abcdefU);
  Cpu::SyncLanes(1);
  Cpu::SyncBlock();
}

TEST(Cpu, Load32ReadsOnlyItsWord) {
  const uint32_t words[3] = {1, 0x80000002, 3};
  EXPECT_EQ(Cpu::Load32(words), 1U);
  EXPECT_EQ(Cpu::Load32(words + 1), 0x80000002U);
}

TEST(Cpu, StoreSegmentIfStoresOnlyIfToldTo) {
  uint64_t words[2] = {1, 2};
  auto* const bytes = reinterpret_cast<uint8_t*>(words);
  Cpu::StoreSegmentIf(false, bytes, 3, 4);
  EXPECT_EQ(words[0], 1U);
  EXPECT_EQ(words[1], 2U);
  Cpu::StoreSegmentIf(true, bytes, 3, 4);
  EXPECT_EQ(words[0], 3U);
  EXPECT_EQ(words[1], 4U);
}

TEST(Cpu, StoreReleaseOrdersEarlierStores) {
  uint32_t data = 0;
  uint32_t words[2] = {0, 7};
  const std::jthread writer([&] {
    data = 42;
    Cpu::StoreRelease(words, 0xffffffff);
  });
  ASSERT_TRUE(Eventually([&] { return std::atomic_ref(words[0]).load(std::memory_order_acquire) != 0; }));
  EXPECT_EQ(data, 42U);
  EXPECT_EQ(words[0], 0xffffffff);
  EXPECT_EQ(words[1], 7U);
}

TEST(Cpu, StoresStayBehindLoad32) {
  uint32_t data = 42;
  uint32_t word = 0;
  uint32_t seen = 0;
  std::jthread reader([&] {
    seen = data;
    Cpu::StoreRelease(&word, 1);
  });
  ASSERT_TRUE(Eventually([&] { return Cpu::Load32(&word) != 0; }));
  data = 0;
  reader.join();
  EXPECT_EQ(seen, 42U);
}

}  // namespace
}  // namespace warpverbs::arch
