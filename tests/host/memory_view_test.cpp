#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "warpverbs/host/memory.hpp"

namespace warpverbs::host {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
constexpr MemoryView kView{
    .addr = 0x1000, .bytes = 64, .lkey = 1, .rkey = 2, .access = {.remote_read = true}};

TEST(MemoryView, PartsKeepTheKeysAndTheAccess) {
  const MemoryView part = kView.Part(16, 8);
  EXPECT_EQ(part.addr, 0x1010);
  EXPECT_EQ(part.bytes, 8);
  EXPECT_EQ(part.lkey, 1);
  EXPECT_EQ(part.rkey, 2);
  EXPECT_TRUE(part.access.remote_read);
}

TEST(MemoryView, PartsOfPartsStayInsideThePart) {
  const MemoryView part = kView.Part(16, 8);
  EXPECT_EQ(part.Part(4, 4).addr, 0x1014);
  EXPECT_THROW(part.Part(4, 5), std::out_of_range);
}

TEST(MemoryView, AllOfItIsAPartAndNothingMayLieAtItsEnd) {
  EXPECT_EQ(kView.Part(0, 64).bytes, 64);
  EXPECT_EQ(kView.Part(64, 0).addr, 0x1040);
}

TEST(MemoryView, RefusesPartsOutside) {
  EXPECT_THROW(kView.Part(0, 65), std::out_of_range);
  EXPECT_THROW(kView.Part(1, 64), std::out_of_range);
  EXPECT_THROW(kView.Part(65, 0), std::out_of_range);
}

TEST(MemoryView, RefusesOffsetsAndLengthsWhoseSumOverflows) {
  EXPECT_THROW(kView.Part(kMax, 1), std::out_of_range);
  EXPECT_THROW(kView.Part(1, kMax), std::out_of_range);
  EXPECT_THROW(kView.Part(kMax, kMax), std::out_of_range);
  EXPECT_THROW(kView.Part(32, kMax - 31), std::out_of_range);
}

TEST(HostPages, AreZeroedWholeAlignedPages) {
  const HostPages pages(5000);
  EXPECT_EQ(pages.size() % 4096, 0);
  EXPECT_GE(pages.size(), 5000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pages.data()) % 4096, 0);
  for (size_t i = 0; i < pages.size(); ++i) ASSERT_EQ(pages.data()[i], std::byte{0});
}

}  // namespace
}  // namespace warpverbs::host
