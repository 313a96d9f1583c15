#include "warpverbs/device/completion_ring.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "test_nic.hpp"
#include "warpverbs/arch/cpu.hpp"

namespace warpverbs::device {
namespace {

class CompletionRingTest : public testing::Test {
 protected:
  static constexpr uint32_t kDepth = 4;

  CompletionRingTest() { std::memset(ring_, 0xff, sizeof ring_); }

  CqView View() { return {reinterpret_cast<const uint8_t*>(ring_), &dbrec_, kDepth}; }

  /// Writes the NIC's `count`-th completion.
  void Complete(uint32_t count, mlx5::Syndrome syndrome = mlx5::Syndrome::kNone) {
    const bool failed = syndrome != mlx5::Syndrome::kNone;
    WriteCqe(ring_[count % kDepth], {failed ? mlx5::CqeOpcode::kRequesterError : mlx5::CqeOpcode::kRequester,
                                     static_cast<uint16_t>(count), syndrome, (count / kDepth) % 2 == 1});
  }

  mlx5::Cqe64 ring_[kDepth];
  uint32_t dbrec_ = 0;
};

TEST_F(CompletionRingTest, IsPendingWhenFresh) {
  EXPECT_EQ(CompletionRing<arch::Cpu>(View()).PollCqOnce().code, Code::kPending);
}

TEST_F(CompletionRingTest, TakesEachCompletionOnceOverManyRounds) {
  CompletionRing<arch::Cpu> ring(View());
  for (uint32_t i = 0; i < 5 * kDepth; ++i) {
    ASSERT_EQ(ring.PollCqOnce().code, Code::kPending) << i;
    Complete(i);
    const Status status = ring.PollCqOnce();
    ASSERT_TRUE(status.ok()) << i;
    ASSERT_EQ(status.wqe_index, i);
  }
}

TEST_F(CompletionRingTest, KeepsTheFirstOfABurstOfErrors) {
  CompletionRing<arch::Cpu> ring(View());
  Complete(0);
  Complete(1, mlx5::Syndrome::kRemoteAccess);
  Complete(2, mlx5::Syndrome::kFlushed);
  EXPECT_TRUE(ring.PollCqOnce().ok());
  EXPECT_EQ(ring.PollCqOnce().syndrome, static_cast<uint8_t>(mlx5::Syndrome::kRemoteAccess));
  EXPECT_EQ(ring.PollCqOnce().syndrome, static_cast<uint8_t>(mlx5::Syndrome::kFlushed));
}

TEST_F(CompletionRingTest, WritesTheConsumerIndexModulo24Bits) {
  CompletionRing<arch::Cpu> ring(View(), 0xffffff);
  Complete(0xffffff);
  ASSERT_TRUE(ring.PollCqOnce().ok());
  ring.UpdateCqDbrRecord();
  EXPECT_EQ(ring.consumer_index(), 0x1000000U);
  EXPECT_EQ(dbrec_, 0U);
}

TEST_F(CompletionRingTest, StopsPollingAtItsDeadline) {
  CompletionRing<arch::Cpu> ring(View());
  EXPECT_EQ(ring.PollCq({.deadline_ns = arch::Cpu::NowNs() + 1'000'000}).code, Code::kTimeout);
  Complete(0);
  EXPECT_TRUE(ring.PollCq({}).ok());
}

TEST_F(CompletionRingTest, DescribesTheLastCompletion) {
  CompletionRing<arch::Cpu> ring(View());
  WriteCqe(ring_[0], {.opcode = mlx5::CqeOpcode::kResponderSendImm,
                      .wqe_counter = 7,
                      .user_index = 0x00654321,
                      .bytes = 0x80000001,
                      .imm = mlx5::Be32{0x01020304}});
  ASSERT_TRUE(ring.PollCqOnce().ok());
  const Completion completion = ring.Last();
  EXPECT_EQ(completion.opcode, mlx5::CqeOpcode::kResponderSendImm);
  EXPECT_EQ(completion.qpn, TestQueue::kQpn);
  EXPECT_EQ(completion.user_index, 0x654321U);
  EXPECT_EQ(completion.bytes, 0x80000001U);
  EXPECT_EQ(completion.imm, mlx5::Be32{0x01020304});
}

TEST_F(CompletionRingTest, WrapsTheIndexAt32Bits) {
  CompletionRing<arch::Cpu> ring(View(), 0U - 6);
  for (uint32_t i = 0U - 6; i != 6; ++i) {
    Complete(i);
    const Status status = ring.PollCqOnce();
    ASSERT_TRUE(status.ok()) << i;
    ASSERT_EQ(status.wqe_index, static_cast<uint16_t>(i));
    ASSERT_EQ(ring.PollCqOnce().code, Code::kPending) << i;
  }
  EXPECT_EQ(ring.consumer_index(), 6U);
}

}  // namespace
}  // namespace warpverbs::device
