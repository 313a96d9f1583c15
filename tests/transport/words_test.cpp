#include "words.hpp"

#include <gtest/gtest.h>

namespace warpverbs::transport {
namespace {

using namespace std::chrono_literals;

TEST(Words, OfATimeAreInTheLargestUnitThatItIsWholeIn) {
  EXPECT_EQ(InWords(2h), "7200 s");
  EXPECT_EQ(InWords(1500ms), "1500 ms");
  EXPECT_EQ(InWords(20us), "20 us");
  EXPECT_EQ(InWords(1001ns), "1001 ns");
  EXPECT_EQ(InWords(0ns), "0 s");
  EXPECT_EQ(InWords(-3ms), "-3 ms");
}

}  // namespace
}  // namespace warpverbs::transport
