#include <gtest/gtest.h>

#include "fault.hpp"
#include "warpverbs/device/completion_ring.hpp"

/// The low level: a ring of completions, with indices and doorbells by hand.
namespace warpverbs::e2e {
namespace {

constexpr uint32_t kDepth = 8;

using device::Code;

class Ring : public testing::Test {
 protected:
  Ring() { pair.Connect(); }

  void RingFor(uint32_t end, mlx5::Be64 doorbell) const {
    queue.UpdateSendDbrRecord(end);
    queue.RingDoorbell(doorbell);
  }

  Pair pair{{.a = {.depth = kDepth, .cq_mode = host::CqMode::kRing}}};
  device::RawSendQueue<Cpu> queue{pair.a.View()};
  device::CompletionRing<Cpu> completions{pair.a.CompletionView()};
};

TEST_F(Ring, HasNoCompletionWhenEmpty) {
  EXPECT_EQ(completions.PollCqOnce().code, Code::kPending);
  EXPECT_EQ(completions.PollCq({}).code, Code::kTimeout);
}

TEST_F(Ring, CompletesEveryWriteInOrderPastTheWrapOfItsIndex) {
  constexpr uint32_t kWrites = 70'000;
  const size_t words = 4096 / 8;
  for (uint32_t end = 0; end < kWrites;) {
    mlx5::Be64 doorbell{};
    const uint32_t first = end;
    for (; end < first + kDepth; ++end) {
      pair.Source(end % words) = end + 1;
      doorbell = queue.PostWrite(end, pair.Remote(end % words * 8), pair.Local(end % words * 8, 8));
    }
    RingFor(end, doorbell);
    for (uint32_t i = first; i < end; ++i) {
      const device::Status status = completions.PollCq(Within());
      ASSERT_EQ(status.code, Code::kOk);
      ASSERT_EQ(status.wqe_index, static_cast<uint16_t>(i));
      ASSERT_EQ(pair.Target(i % words), i + 1);
    }
    completions.UpdateCqDbrRecord();
  }
  EXPECT_EQ(completions.consumer_index(), kWrites);
  EXPECT_EQ(completions.PollCqOnce().code, Code::kPending);
}

TEST_F(Ring, ShowsTheCauseOfAFailureBeforeTheFlushes) {
  device::RemoteMemory wrong = pair.Remote(0);
  wrong.rkey.raw = ~wrong.rkey.raw;
  queue.PostWrite(0, pair.Remote(0), pair.Local(0, 8));
  queue.PostWrite(1, wrong, pair.Local(0, 8));
  queue.PostWrite(2, pair.Remote(0), pair.Local(0, 8));
  RingFor(4, queue.PostWrite(3, pair.Remote(0), pair.Local(0, 8)));

  EXPECT_EQ(completions.PollCq(Within()).code, Code::kOk);
  const device::Status cause = completions.PollCq(Within());
  ExpectError(cause, {mlx5::Syndrome::kRemoteAccess, "the rkey does not allow this operation"});
  EXPECT_EQ(cause.wqe_index, 1);
  for (uint16_t index = 2; index < 4; ++index) {
    const device::Status flush = completions.PollCq(Within());
    ExpectError(flush, {mlx5::Syndrome::kFlushed, "flushed"});
    EXPECT_EQ(flush.wqe_index, index);
  }
  EXPECT_EQ(completions.PollCqOnce().code, Code::kPending);
}

TEST_F(Ring, FlushesUnsignalledWrites) {
  device::RemoteMemory wrong = pair.Remote(0);
  wrong.rkey.raw = ~wrong.rkey.raw;
  queue.PostWrite(0, wrong, pair.Local(0, 8), mlx5::kCqeOnError);
  RingFor(2, queue.PostWrite(1, pair.Remote(0), pair.Local(0, 8), mlx5::kCqeOnError));
  EXPECT_EQ(completions.PollCq(Within()).syndrome, static_cast<uint8_t>(mlx5::Syndrome::kRemoteAccess));
  EXPECT_EQ(completions.PollCq(Within()).syndrome, static_cast<uint8_t>(mlx5::Syndrome::kFlushed));
}

TEST_F(Ring, SecondConsumerContinuesWhereTheFirstOneEnded) {
  for (uint32_t i = 0; i < 3 * kDepth; ++i) {
    device::CompletionRing<Cpu> consumer(pair.a.CompletionView(), i);
    RingFor(i + 1, queue.PostWrite(i, pair.Remote(0), pair.Local(0, 8)));
    const device::Status status = consumer.PollCq(Within());
    ASSERT_EQ(status.code, Code::kOk);
    EXPECT_EQ(status.wqe_index, i);
    consumer.UpdateCqDbrRecord();
  }
}

}  // namespace
}  // namespace warpverbs::e2e
