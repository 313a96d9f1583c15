#include "warpverbs/device/receive_queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "golden.hpp"
#include "together.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;
using mlx5::CqeOpcode;

constexpr LocalMemory kFirst{0x1111'2222'3333'4444, 0x40, mlx5::ToBe32(0x10203040)};
constexpr LocalMemory kSecond{0x5555'6666'7777'8888, 0x50, mlx5::ToBe32(0x50607080)};

/// A receive queue in ordinary memory. `first_cqe` completions arrived before a reset.
class TestReceives {
 public:
  TestReceives(uint32_t depth, uint32_t entries, uint32_t start = 0, uint32_t first_cqe = 0)
      : cq(depth, start + first_cqe),
        state(uint64_t{start} << 32 | start),
        rq_(depth * entries),
        stride_(16 * entries),
        first_cqe_(first_cqe) {}

  ReceiveQueueView View() {
    return {.rq = reinterpret_cast<uint8_t*>(rq_.data()),
            .dbrec = &dbrec,
            .cq = cq.View(),
            .state = &state,
            .depth = static_cast<uint32_t>(rq_.size() * 16 / stride_),
            .stride = stride_,
            .first_cqe = first_cqe_};
  }

  void Arrive(uint16_t index, CqeOpcode opcode = CqeOpcode::kResponderSend, uint32_t bytes = 0,
              mlx5::Be32 imm = {}) {
    cq.Push({.opcode = opcode, .wqe_counter = index, .bytes = bytes, .imm = imm});
  }

  const mlx5::DataSegment& Segment(uint32_t i) const { return rq_[i]; }

  TestCq cq;
  uint64_t state;
  uint32_t dbrec = 0;

 private:
  std::vector<mlx5::DataSegment> rq_;
  uint32_t stride_;
  uint32_t first_cqe_;
};

void ExpectSegment(const mlx5::DataSegment& segment, const LocalMemory& local) {
  const mlx5::DataSegment expected = SegmentOf(local);
  EXPECT_EQ(std::memcmp(&segment, &expected, sizeof expected), 0);
}

void ExpectEnd(const mlx5::DataSegment& segment) { ExpectSegment(segment, {0, 0, mlx5::ToBe32(0x100)}); }

TEST(ReceiveQueue, EncodesAReceiveOfOneEntryAsADataSegment) {
  TestReceives memory(4, 1);
  ReceiveQueue<Cpu> queue(memory.View());
  EXPECT_TRUE(queue.Post(kFirst).ok());
  EXPECT_TRUE(queue.Post(kSecond).ok());
  ExpectSegment(memory.Segment(0), kFirst);
  ExpectSegment(memory.Segment(1), kSecond);
}

TEST(ReceiveQueue, RefusesEntriesTooLongForADataSegment) {
  TestReceives memory(4, 2);
  ReceiveQueue<Cpu> queue(memory.View());
  for (const uint64_t bytes : {uint64_t{1} << 31, uint64_t{1} << 32, UINT64_MAX}) {
    const LocalMemory huge{0x1000, bytes, kFirst.lkey};
    for (const Status& status : {queue.Post(huge), queue.Post(kFirst, huge)}) {
      EXPECT_EQ(status.code, Code::kInvalid) << bytes;
      EXPECT_EQ(status.request_error, RequestError::kMessageTooLong);
    }
  }
  EXPECT_TRUE(queue.Post({0x1000, (uint64_t{1} << 31) - 1, kFirst.lkey}).ok());
  queue.Submit();
  EXPECT_EQ(memory.dbrec, mlx5::ToBe32(1).raw) << "refused receives took no slot";
}

TEST(ReceiveQueue, WritesTheRecordOnSubmit) {
  TestReceives memory(4, 1);
  ReceiveQueue<Cpu> queue(memory.View());
  EXPECT_TRUE(queue.Post(kFirst).ok());
  EXPECT_TRUE(queue.Post(kFirst).ok());
  EXPECT_EQ(memory.dbrec, 0U);
  queue.Submit();
  EXPECT_EQ(memory.dbrec, mlx5::ToBe32(2).raw);
}

TEST(ReceiveQueue, EndsAShortListWithAnInvalidLkey) {
  TestReceives memory(4, 2);
  ReceiveQueue<Cpu> queue(memory.View());
  EXPECT_TRUE(queue.Post(kFirst, kSecond).ok());
  EXPECT_TRUE(queue.Post(kFirst).ok());
  EXPECT_TRUE(queue.Post({}).ok());
  EXPECT_TRUE(queue.Post({}, kSecond).ok());
  ExpectSegment(memory.Segment(0), kFirst);
  ExpectSegment(memory.Segment(1), kSecond);
  ExpectSegment(memory.Segment(2), kFirst);
  ExpectEnd(memory.Segment(3));
  ExpectEnd(memory.Segment(4));
  ExpectSegment(memory.Segment(6), kSecond);
  ExpectEnd(memory.Segment(7));
}

TEST(ReceiveQueue, RefusesTwoEntriesInAWqeForOne) {
  TestReceives memory(4, 1);
  ReceiveQueue<Cpu> queue(memory.View());
  const Status status = queue.Post(kFirst, kSecond);
  EXPECT_EQ(status.code, Code::kInvalid);
  EXPECT_EQ(status.request_error, RequestError::kTooManySlots);
  queue.Submit();
  EXPECT_EQ(memory.dbrec, 0U) << "no receive was posted";
  EXPECT_TRUE(queue.Post({}).ok());
  ExpectEnd(memory.Segment(0));
}

TEST(ReceiveQueue, TakesOneReceiveForEachArrivalWhenFull) {
  TestReceives memory(4, 1);
  ReceiveQueue<Cpu> queue(memory.View());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(queue.Post(kFirst).ok());
  for (uint16_t i = 0; i < 10; ++i) {
    ASSERT_EQ(queue.Post(kFirst).code, Code::kFull);
    memory.Arrive(i);
    ASSERT_EQ(queue.Post(kFirst).code, Code::kFull) << "the completion is not polled yet";
    ASSERT_TRUE(queue.PollOnce().status.ok());
    ASSERT_TRUE(queue.Post(kFirst).ok());
  }
}

TEST(ReceiveQueue, DescribesEachArrival) {
  TestReceives memory(4, 1);
  ReceiveQueue<Cpu> queue(memory.View());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue.Post(kFirst).ok());
  EXPECT_EQ(queue.PollOnce().status.code, Code::kPending);
  memory.Arrive(0, CqeOpcode::kResponderSend, 17, mlx5::Be32{0xdddddddd});
  memory.Arrive(1, CqeOpcode::kResponderSendImm, 18, mlx5::Be32{0x01020304});
  memory.Arrive(2, CqeOpcode::kResponderWriteImm, 19, mlx5::Be32{0x05060708});

  Received received = queue.PollOnce();
  EXPECT_TRUE(received.status.ok());
  EXPECT_EQ(received.index, 0U);
  EXPECT_EQ(received.bytes, 17U);
  EXPECT_FALSE(received.has_imm || received.is_write);
  EXPECT_EQ(received.imm, mlx5::Be32{0}) << "the field is undefined without immediate data";
  received = queue.PollOnce();
  EXPECT_EQ(received.index, 1U);
  EXPECT_EQ(received.bytes, 18U);
  EXPECT_TRUE(received.has_imm && !received.is_write);
  EXPECT_EQ(received.imm, mlx5::Be32{0x01020304}) << "in the peer's byte order";
  received = queue.PollOnce();
  EXPECT_EQ(received.index, 2U);
  EXPECT_TRUE(received.has_imm && received.is_write);
  EXPECT_EQ(received.imm, mlx5::Be32{0x05060708});
  EXPECT_EQ(queue.PollOnce().status.code, Code::kPending);
}

TEST(ReceiveQueue, ReportsTheCauseOfAFailure) {
  TestReceives memory(4, 1);
  ReceiveQueue<Cpu> queue(memory.View());
  EXPECT_TRUE(queue.Post(kFirst).ok());
  memory.cq.Push({.opcode = CqeOpcode::kResponderError, .syndrome = mlx5::Syndrome::kLocalLength});
  const Received received = queue.Poll(Soon());
  EXPECT_EQ(received.status.code, Code::kError);
  EXPECT_EQ(received.status.syndrome, static_cast<uint8_t>(mlx5::Syndrome::kLocalLength));
  EXPECT_EQ(received.bytes, 0U);
}

TEST(ReceiveQueue, StopsPollingAtItsLimit) {
  TestReceives memory(4, 1);
  ReceiveQueue<Cpu> queue(memory.View());
  const uint64_t abort = 1;
  EXPECT_EQ(queue.Poll({}).status.code, Code::kTimeout);
  EXPECT_EQ(queue.Poll(InAMillisecond()).status.code, Code::kTimeout);
  EXPECT_EQ(queue.Poll({.deadline_ns = UINT64_MAX, .abort = &abort}).status.code, Code::kAborted);
  memory.Arrive(0);
  EXPECT_TRUE(queue.Poll({}).status.ok()) << "a ready completion needs no time";
}

TEST(ReceiveQueue, ContinuesWhereTheLastKernelEnded) {
  TestReceives memory(4, 1, 0, 1000);  // after a reset, which does not rewind the CQ
  for (uint32_t kernel = 0; kernel < 8; ++kernel) {
    ReceiveQueue<Cpu> queue(memory.View());
    for (uint32_t i = 0; i < (kernel == 0 ? 4U : 3U); ++i) ASSERT_TRUE(queue.Post(kFirst).ok());
    ASSERT_EQ(queue.Post(kFirst).code, Code::kFull) << "one receive is left from the last kernel";
    queue.Submit();
    for (uint32_t i = 0; i < 3; ++i) {
      memory.Arrive(static_cast<uint16_t>(3 * kernel + i));
      const Received received = queue.PollOnce();
      ASSERT_TRUE(received.status.ok());
      ASSERT_EQ(received.index, 3 * kernel + i);
    }
  }
  EXPECT_EQ(memory.state, uint64_t{25} << 32 | 24);
  EXPECT_EQ(memory.dbrec, mlx5::ToBe32(25).raw);
}

TEST(ReceiveQueue, WrapsIndicesAt16And32Bits) {
  for (const uint32_t start : {65536U - 5, 0U - 5}) {
    SCOPED_TRACE(start);
    TestReceives memory(4, 1, start);
    ReceiveQueue<Cpu> queue(memory.View());
    for (uint32_t i = 0; i < 10; ++i) {
      const uint32_t index = start + i;
      ASSERT_TRUE(queue.Post({i + 1, 1, kFirst.lkey}).ok());
      queue.Submit();
      ASSERT_EQ(memory.dbrec, mlx5::ToBe32((index + 1) & 0xffff).raw);
      ASSERT_EQ(memory.Segment(index % 4).address, mlx5::ToBe64(i + 1));
      ASSERT_EQ(queue.PollOnce().status.code, Code::kPending);
      memory.Arrive(static_cast<uint16_t>(index));
      const Received received = queue.PollOnce();
      ASSERT_TRUE(received.status.ok());
      ASSERT_EQ(received.index, index);
    }
  }
}

TEST(ReceiveQueue, ShowsTheDataWithTheArrival) {  // under ThreadSanitizer this proves the order
  constexpr uint32_t kMessages = 200;
  TestReceives memory(4, 1);
  uint32_t data[4];
  Together(2, [&](uint32_t side) {
    if (side == 0) {  // the NIC: reads the receives and completes them
      for (uint32_t i = 0; i < kMessages; ++i) {
        while (mlx5::FromBe(mlx5::Be32{std::atomic_ref(memory.dbrec).load(std::memory_order_acquire)}) == i)
          std::this_thread::yield();
        auto* const to = reinterpret_cast<uint32_t*>(mlx5::FromBe(memory.Segment(i % 4).address));
        *to = i + 1;
        memory.Arrive(static_cast<uint16_t>(i), CqeOpcode::kResponderSend, 4);
      }
      return;
    }
    ReceiveQueue<Cpu> queue(memory.View());
    for (uint32_t i = 0; i < kMessages; ++i) {
      ASSERT_TRUE(queue.Post(Local(data[i % 4])).ok());
      queue.Submit();
      ASSERT_TRUE(queue.Poll(Soon()).status.ok());
      ASSERT_EQ(data[i % 4], i + 1);
    }
  });
}

}  // namespace
}  // namespace warpverbs::device
