#include "queue/queue_layout.hpp"

#include <gtest/gtest.h>

namespace warpverbs::host {
namespace {

TEST(RoundDepth, RoundsUpToAPowerOfTwo) {
  EXPECT_EQ(RoundDepth(1), 1);
  EXPECT_EQ(RoundDepth(2), 2);
  EXPECT_EQ(RoundDepth(3), 4);
  EXPECT_EQ(RoundDepth(64), 64);
  EXPECT_EQ(RoundDepth(1000), 1024);
  EXPECT_EQ(RoundDepth(16385), 32768);
  EXPECT_EQ(RoundDepth(32768), 32768);
}

TEST(RoundDepth, RejectsInvalidDepths) {
  EXPECT_THROW(RoundDepth(0), Error);
  EXPECT_THROW(RoundDepth(32769), Error);
  EXPECT_THROW(RoundDepth(~0u), Error);
}

TEST(RoundDepth, StaysWithinTheDeviceLimit) {
  EXPECT_EQ(RoundDepth(1024, 1024), 1024);
  try {
    RoundDepth(1025, 1024);
    FAIL() << "accepted 1025 entries";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "Cannot create a queue of 1025 entries: the depth is out of range. Ask for 1 to 1024 entries.");
  }
}

TEST(RoundDepth, NamesTheObjectThatIsTooDeep) {
  try {
    RoundDepth(9, 8, "a receive queue");
    FAIL() << "accepted 9 entries";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "Cannot create a receive queue of 9 entries: the depth is out of range. Ask for 1 to 8 entries.");
  }
}

TEST(RingDepth, IsTheQueueDepthButAtLeastTwo) {
  EXPECT_EQ(RingDepth(1), 2);
  EXPECT_EQ(RingDepth(2), 2);
  EXPECT_EQ(RingDepth(64), 64);
}

TEST(QueueLayout, PlacesPartsWithoutOverlap) {
  for (uint32_t depth = 1; depth <= kMaxDepth; depth *= 2) {
    for (const uint32_t cq_depth : {0u, 1u, depth}) {
      for (const uint32_t receive_depth : {0u, 4 * depth}) {
        const QueueLayout layout({.depth = depth,
                                  .cq_depth = cq_depth,
                                  .receive_depth = receive_depth,
                                  .receive_stride = 16,
                                  .receive_cq_depth = receive_depth});
        EXPECT_EQ(layout.sq, layout.rq + size_t{16} * receive_depth) << "the firmware expects this order";
        EXPECT_GE(layout.cqes, layout.sq + size_t{64} * depth);
        EXPECT_GE(layout.receive_cqes, layout.cqes + size_t{64} * cq_depth);
        EXPECT_GE(layout.control, layout.receive_cqes + size_t{64} * receive_depth);
        EXPECT_GE(layout.receive_state, layout.control + sizeof(device::QueueControl));
        EXPECT_GE(layout.qp_dbr, layout.receive_state + 8);
        EXPECT_GE(layout.cq_dbr, layout.qp_dbr + 8);
        EXPECT_GE(layout.receive_cq_dbr, layout.cq_dbr + 8);
        EXPECT_GE(layout.bytes, layout.receive_cq_dbr + 8);
      }
    }
  }
}

TEST(QueueLayout, AlignsPartsForTheirReaders) {
  const QueueLayout layout({.depth = 8, .cq_depth = 8});
  EXPECT_EQ(layout.cqes % 4096, 0);
  EXPECT_EQ(layout.receive_cqes % 4096, 0);
  EXPECT_EQ(layout.control % alignof(device::QueueControl), 0);
  EXPECT_EQ(layout.receive_state % 8, 0);
  EXPECT_NE(layout.receive_cq_dbr / 128, layout.cq_dbr / 128);
  EXPECT_NE(layout.qp_dbr / 128, layout.cq_dbr / 128);
  EXPECT_NE(layout.qp_dbr / 128, layout.control / 128);
}

TEST(QueueLayout, AlignsPooledRingsToLinesNotPages) {
  const QueueLayout collapsed({.depth = 64, .cq_depth = 1}, QueueLayout::kLine);
  EXPECT_EQ(collapsed.cqes, 4096);
  EXPECT_EQ(collapsed.bytes, 5248);
  const QueueLayout rings(
      {.depth = 1, .cq_depth = 2, .receive_depth = 4, .receive_stride = 16, .receive_cq_depth = 4},
      QueueLayout::kLine);
  EXPECT_EQ(rings.cqes, 128) << "after a receive queue and a send queue of 64 bytes each";
  EXPECT_EQ(rings.receive_cqes, 256);
  EXPECT_EQ(rings.control, 512);
  EXPECT_EQ(rings.control % alignof(device::QueueControl), 0);
}

TEST(HostLayout, HasRoomForACopyOfTheQueueIfTheHostPosts) {
  const HostLayout plain(0), staged(64);
  EXPECT_EQ(plain.bytes, plain.staging);
  EXPECT_GE(staged.staging, sizeof(HostWords));
  EXPECT_EQ(staged.staging % 128, 0);
  EXPECT_EQ(staged.bytes, staged.staging + 64 * 64);
}

}  // namespace
}  // namespace warpverbs::host
