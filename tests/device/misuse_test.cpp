// Mistakes of new users that compile: each is reported, and none loses data.
#include <gtest/gtest.h>

#include <optional>

#include "test_nic.hpp"
#include "together.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;

/// A processor whose releases reach only its own memory, like arch::Cuda.
struct NarrowCpu : Cpu {
  static constexpr arch::Scope kReleaseScope = arch::Scope::kGpu;
};

Status PutWithTimeout(TestQueue& memory, const WaitLimit& limit) {
  SendQueue<Cpu, Exclusive> queue(memory.View());
  const Posted posted = queue.Post(Nop());
  const Status status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  if (!status.ok()) return status;
  return queue.Flush(limit);
}

TEST(ExclusiveQueue, IsStoredByAnEarlyReturn) {
  TestQueue memory(8);
  TestNic nic(memory);
  EXPECT_EQ(PutWithTimeout(memory, InAMillisecond()).code, Code::kTimeout);
  SendQueue<Cpu, Exclusive> next(memory.View());
  const Posted posted = next.Post(Nop());
  ASSERT_TRUE(posted.status.ok());
  EXPECT_EQ(posted.ticket.index, 1U) << "the slot after the first post's";
  EXPECT_EQ(next.Test(posted.ticket).code, Code::kPending);
  while (nic.Step()) {
  }
  EXPECT_TRUE(next.Test(posted.ticket).ok());
  EXPECT_EQ(nic.next(), 2U);
}

TEST(ExclusiveQueue, IsStoredAfterABatch) {
  TestQueue memory(8);
  {
    SendQueue<Cpu, Exclusive> queue(memory.View());
    auto batch = queue.Begin(3);
    EXPECT_TRUE(batch.Add(Nop()).status.ok());
  }
  EXPECT_EQ(memory.control.tail, uint64_t{3} << 32 | 3) << "an abandoned batch has posted NOPs";
}

TEST(ExclusiveQueue, StartsAtTheSameEndForAllLanesOfAWarp) {
  constexpr uint32_t kLanes = 4;
  constexpr uint32_t kQueues = 64;
  TestQueue memory(kLanes * kQueues);
  arch::cpu::RunBlock(
      kLanes,
      [&](uint32_t lane) {
        for (uint32_t made = 0; made < kQueues; ++made) {
          SendQueue<Cpu, Exclusive, Warp> queue(memory.View(), Warp(0b1111));
          EXPECT_EQ(queue.Post(Nop()).ticket.index, made * kLanes + lane);
        }
      },
      kLanes);
  EXPECT_EQ(memory.control.tail, uint64_t{kLanes * kQueues} << 32 | kLanes * kQueues);
}

TEST(ReceiveQueueState, IsStoredBySubmit) {
  TestCq cq(4);
  uint32_t dbrec = 0;
  uint64_t state = 0;
  mlx5::Wqebb wqes[1] = {};
  const ReceiveQueueView view{.rq = wqes[0].bytes,
                              .dbrec = &dbrec,
                              .cq = cq.View(),
                              .state = &state,
                              .depth = 4,
                              .stride = 16,
                              .first_cqe = 0};
  for (uint32_t kernel = 0; kernel < 2; ++kernel) {
    ReceiveQueue<Cpu> queue(view);
    EXPECT_TRUE(queue.Post({0x1000, 8, kTestKey}).ok());
    queue.Submit();
  }
  EXPECT_EQ(state >> 32, 2U);
}

template <class S>
struct RefusedPost : testing::Test {};
using Sharings = testing::Types<Exclusive, Shared, Contended>;
TYPED_TEST_SUITE(RefusedPost, Sharings);

TYPED_TEST(RefusedPost, HasATicketThatIsNeverDone) {
  TestQueue memory(4);
  TestNic nic(memory);
  SendQueue<Cpu, TypeParam> queue(ViewFor<TypeParam>(memory));
  const LocalMemory too_long{0x1000, uint64_t{1} << 40, kTestKey};
  const Ticket refused = queue.Post(Send(too_long)).ticket;
  const auto expect_refused = [&](Ticket ticket) {
    for (const Status& status : {queue.Test(ticket), queue.Wait(ticket, InAMillisecond())}) {
      EXPECT_EQ(status.code, Code::kInvalid);
      EXPECT_EQ(status.request_error, RequestError::kRefusedTicket);
    }
  };
  expect_refused(refused);
  for (uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(queue.Post(Nop()).status.ok());
  const Posted full = queue.Post(Nop());
  EXPECT_EQ(full.status.code, Code::kFull);
  expect_refused(full.ticket);
  for (uint32_t i = 0; i < 70'000; ++i) {  // more than a completion's counter holds
    while (nic.Step()) {
    }
    ASSERT_TRUE(queue.Post(Nop()).status.ok());
  }
  expect_refused(refused);
  expect_refused(full.ticket);
}

TYPED_TEST(RefusedPost, HasATicketInABatchThatIsNeverDone) {
  TestQueue memory(4);
  SendQueue<Cpu, TypeParam> queue(ViewFor<TypeParam>(memory));
  Ticket added, submitted;
  {
    auto batch = queue.Begin(5);
    EXPECT_EQ(batch.status().request_error, RequestError::kTooManySlots);
    added = batch.Add(Nop()).ticket;
    submitted = batch.Submit().ticket;
  }
  EXPECT_EQ(queue.Test(added).code, Code::kInvalid);
  EXPECT_EQ(queue.Test(submitted).code, Code::kInvalid);
}

template <class S>
struct ReleaseScope : testing::Test {};
TYPED_TEST_SUITE(ReleaseScope, Sharings);

TYPED_TEST(ReleaseScope, IsRefusedWhenTheQueueNeedsMore) {
  TestQueue memory(4);
  memory.flags = kNeedsSystemScope;
  SendQueue<NarrowCpu, TypeParam> queue(ViewFor<TypeParam>(memory));
  const Posted posted = queue.Post(Nop(), InAMillisecond());
  EXPECT_EQ(posted.status.code, Code::kInvalid);
  EXPECT_EQ(posted.status.request_error, RequestError::kReleaseScope);
  {
    auto batch = queue.Begin(1, InAMillisecond());
    EXPECT_EQ(batch.status().request_error, RequestError::kReleaseScope);
  }
  EXPECT_EQ(EndFor<TypeParam>(memory), 0U);
  EXPECT_EQ(memory.doorbell, 0U) << "nothing was posted";
}

TYPED_TEST(ReleaseScope, IsAcceptedWhenItSuffices) {
  TestQueue on_gpu(4), in_host_memory(4);
  in_host_memory.flags = kNeedsSystemScope;
  EXPECT_TRUE((SendQueue<NarrowCpu, TypeParam>(ViewFor<TypeParam>(on_gpu)).Post(Nop()).status.ok()));
  EXPECT_TRUE((SendQueue<Cpu, TypeParam>(ViewFor<TypeParam>(in_host_memory)).Post(Nop()).status.ok()));
}

TEST(ReleaseScopeOfAWarp, IsRefused) {
  TestQueue memory(8);
  memory.flags = kNeedsSystemScope;
  arch::cpu::RunBlock(
      4,
      [&](uint32_t) {
        SendQueue<NarrowCpu, Shared, Warp> queue(memory.View(), Warp(0b1111));
        EXPECT_EQ(queue.Post(Nop()).status.request_error, RequestError::kReleaseScope);
      },
      4);
}

TEST(ReleaseScopeOfAReceiveQueue, IsRefused) {
  uint64_t state = 0;
  const ReceiveQueueView view{.rq = nullptr,
                              .dbrec = nullptr,
                              .cq = {},
                              .state = &state,
                              .depth = 4,
                              .stride = 16,
                              .first_cqe = 0,
                              .flags = kNeedsSystemScope};
  ReceiveQueue<NarrowCpu> queue(view);
  EXPECT_EQ(queue.Post({}).request_error, RequestError::kReleaseScope);
}

}  // namespace
}  // namespace warpverbs::device
