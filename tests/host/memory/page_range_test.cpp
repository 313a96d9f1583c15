#include "memory/page_range.hpp"

#include <gtest/gtest.h>

#include <random>

namespace warpverbs::host {
namespace {

TEST(PageRange, CoversAnyRangeWithTheFewestPages) {
  std::mt19937_64 random(20'260'101);
  for (const uint64_t page : {4096, 65536, 1 << 21}) {
    for (int times = 0; times < 100'000; ++times) {
      const uint64_t address = random() >> (random() % 64) >> 1;
      const uint64_t bytes = (random() >> (random() % 64) >> 1) + 1;
      const PageRange range = PageRange::Around(address, bytes, page);
      ASSERT_EQ(range.start % page, 0);
      ASSERT_EQ(range.bytes % page, 0);
      ASSERT_LE(range.start, address);
      const uint64_t offset = address - range.start;
      ASSERT_LT(offset, page) << "a page before it";
      ASSERT_GE(range.bytes - offset, bytes) << "it ends too early";
      ASSERT_LT(range.bytes - offset - bytes, page) << "a page after it";
    }
  }
}

TEST(PageRange, KeepsWholePages) {
  const PageRange range = PageRange::Around(0x1001001800000000, 65536, 65536);
  EXPECT_EQ(range.start, 0x1001001800000000);
  EXPECT_EQ(range.bytes, 65536);
  EXPECT_EQ(PageRange::Around(4095, 2, 4096).bytes, 8192) << "one byte in each of two";
  EXPECT_EQ(PageRange::Around(UINT64_MAX, 1, 4096).bytes, 4096) << "the last page of all";
}

}  // namespace
}  // namespace warpverbs::host
