#include <gtest/gtest.h>

#include <set>

#include "perf/measure/validation.hpp"
#include "perf/side/memory.hpp"

namespace warpverbs::perf {
namespace {

TEST(PerfLayout, PutsShortMessagesIntoOnePageACacheLineApart) {
  const Layout layout = PageLayout(2);
  EXPECT_EQ(layout.stride, 64u);
  EXPECT_EQ(layout.slots, 64u);
  EXPECT_EQ(PageLayout(65).stride, 128u);
  EXPECT_EQ(PageLayout(65, {.page_bytes = 65536, .line_bytes = 256}).slots, 256u);
}

TEST(PerfLayout, GivesLongMessagesASingleSlot) {
  for (const uint64_t bytes : {4096u, 4097u, 65536u, 8388608u}) {
    const Layout layout = PageLayout(bytes);
    EXPECT_EQ(layout.slots, 1u) << bytes;
    EXPECT_GE(layout.stride, bytes);
  }
}

TEST(PerfLayout, GivesEachValidatedMessageASlotWithinTheLimit) {
  EXPECT_EQ(RoomyLayout(1000, 300, 64 << 20).slots, 300u);
  const Layout layout = RoomyLayout(1 << 20, 300, 64 << 20);
  EXPECT_EQ(layout.slots, 64u);
  EXPECT_LE(layout.span(), uint64_t{64} << 20);
  EXPECT_EQ(RoomyLayout(1 << 27, 300, 64 << 20).slots, 1u);
}

TEST(PerfPattern, DiffersBetweenRoundsFlowsAndChunks) {
  constexpr int kBytes = 16;
  std::set<std::vector<uint8_t>> messages;
  for (uint64_t round = 0; round < 5; ++round) {
    for (uint32_t flow = 0; flow < 5; ++flow) {
      for (uint32_t chunk = 0; chunk < 5; ++chunk) {
        std::vector<uint8_t> message;
        for (int i = 0; i < kBytes; ++i)
          message.push_back(PatternByte(round, flow, chunk, static_cast<uint64_t>(i)));
        EXPECT_TRUE(messages.insert(message).second) << round << ' ' << flow << ' ' << chunk;
      }
    }
  }
}

}  // namespace
}  // namespace warpverbs::perf
