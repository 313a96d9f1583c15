#include "core/receive_queue.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace softhca {
namespace {

constexpr uint32_t kDepth = 4;
constexpr uint32_t kStride = 4 * mlx5::kSegmentBytes;

class ReceiveQueueTest : public testing::Test {
 protected:
  ReceiveQueue Create(bool linked) {
    return ReceiveQueue(
        {.ring = ring.data(), .dbr = &record, .depth = kDepth, .stride = kStride, .linked = linked});
  }
  void Put(uint32_t slot, uint32_t segment, uint32_t bytes, uint32_t lkey) {
    const mlx5::DataSegment data{mlx5::ToBe32(bytes), mlx5::ToBe32(lkey), mlx5::ToBe64(0x1000)};
    std::memcpy(ring.data() + slot * kStride + segment * sizeof data, &data, sizeof data);
  }
  void Link(uint16_t slot, uint16_t next) {
    mlx5::SrqNextSegment link{};
    link.next_wqe_index = mlx5::ToBe16(next);
    std::memcpy(ring.data() + slot * kStride, &link, sizeof link);
  }
  void SetPosted(uint32_t posted) { record = mlx5::ToBe32(posted & mlx5::kQpDbrIndexMask); }

  std::vector<uint8_t> ring = std::vector<uint8_t>(kDepth * kStride);
  mlx5::Be32 record{};
};

TEST_F(ReceiveQueueTest, IsEmptyWithoutDepth) {
  ReceiveQueue none({});
  EXPECT_EQ(none.Available(), 0u);
}

TEST_F(ReceiveQueueTest, TakesReceivesInOrder) {
  ReceiveQueue queue = Create(false);
  EXPECT_EQ(queue.Available(), 0u);
  for (uint32_t slot = 0; slot < kDepth; ++slot) Put(slot, 0, 100 + slot, 1);
  SetPosted(3);
  EXPECT_EQ(queue.Available(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    const ReceiveWqe wqe = queue.Take();
    EXPECT_EQ(wqe.index, i);
    EXPECT_EQ(mlx5::FromBe(wqe.segment[0].bytes), 100 + i);
  }
  EXPECT_EQ(queue.Available(), 0u);
}

TEST_F(ReceiveQueueTest, ScatterListEndsAtTheInvalidKey) {
  ReceiveQueue queue = Create(false);
  Put(0, 0, 8, 1);
  Put(0, 1, 8, 1);
  Put(0, 2, 0, mlx5::kInvalidLkey);
  Put(0, 3, 8, 1);
  SetPosted(1);
  EXPECT_EQ(queue.Take().segments, 2u);
}

TEST_F(ReceiveQueueTest, FullScatterListNeedsNoEnd) {
  ReceiveQueue queue = Create(false);
  for (uint32_t segment = 0; segment < 4; ++segment) Put(0, segment, 8, 1);
  SetPosted(1);
  EXPECT_EQ(queue.Take().segments, 4u);
}

TEST_F(ReceiveQueueTest, TakesAReceiveWithAnEmptyScatterList) {
  ReceiveQueue queue = Create(false);
  Put(0, 0, 0, mlx5::kInvalidLkey);
  SetPosted(1);
  EXPECT_EQ(queue.Take().segments, 0u);
}

TEST_F(ReceiveQueueTest, RecordWrapsAt16Bits) {
  ReceiveQueue queue = Create(false);
  for (uint32_t posted = 1; posted <= 70000; ++posted) {
    SetPosted(posted);
    ASSERT_EQ(queue.Available(), 1u) << posted;
    ASSERT_EQ(queue.Take().index, static_cast<uint16_t>(posted - 1));
  }
  EXPECT_EQ(queue.Available(), 0u);
}

TEST_F(ReceiveQueueTest, LinkedQueueFollowsTheLinks) {
  ReceiveQueue queue = Create(true);
  Link(0, 2);
  Link(2, 1);
  Link(1, 3);
  Link(3, 0);
  for (uint32_t slot = 0; slot < kDepth; ++slot) {
    Put(slot, 1, 100 + slot, 1);
    Put(slot, 2, 0, mlx5::kInvalidLkey);
  }
  SetPosted(4);
  for (const uint16_t slot : {0, 2, 1, 3}) {
    const ReceiveWqe wqe = queue.Take();
    EXPECT_EQ(wqe.index, slot) << "a shared queue's index is its slot";
    ASSERT_EQ(wqe.segments, 1u);
    EXPECT_EQ(mlx5::FromBe(wqe.segment[0].bytes), 100u + slot);
  }
  SetPosted(5);
  EXPECT_EQ(queue.Take().index, 0);
}

TEST_F(ReceiveQueueTest, KeepsALinkOutOfRangeInsideTheRing) {
  ReceiveQueue queue = Create(true);
  Link(0, 0xffff);
  SetPosted(2);
  queue.Take();
  EXPECT_LT(queue.Take().index, kDepth);
}

TEST_F(ReceiveQueueTest, ResetStartsAtTheFirstSlot) {
  ReceiveQueue queue = Create(false);
  SetPosted(3);
  queue.Take();
  queue.Take();
  SetPosted(0);
  queue.Reset();
  EXPECT_EQ(queue.Available(), 0u);
  SetPosted(1);
  EXPECT_EQ(queue.Take().index, 0);
}

}  // namespace
}  // namespace softhca
