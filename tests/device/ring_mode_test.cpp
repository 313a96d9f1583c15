// Send queues whose completions arrive in a ring. Each poster drains the ring for all.
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "many_writes.hpp"
#include "nic_thread.hpp"
#include "together.hpp"
#include "warpverbs/device/detail/drain.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;
using mlx5::Syndrome;

template <class Sharing>
class RingMode : public testing::Test {
 protected:
  using Queue = SendQueue<Cpu, Sharing>;

  static void StepAll(TestNic& nic) {
    while (nic.Step()) {
    }
    EXPECT_EQ(nic.violation(), "");
  }

  uint64_t from_ = 42, to_ = 0;
};

using Sharings = testing::Types<Exclusive, Shared, Contended>;
TYPED_TEST_SUITE(RingMode, Sharings);

TYPED_TEST(RingMode, CompletesAllWrites) {
  for (const uint32_t start : {0U, 65536U - 30, 0U - 30}) {
    SCOPED_TRACE(start);
    TestRing ring(8, start);
    TestQueue memory(4, start, &ring);
    TestNic nic(memory, start);
    ExpectManyWrites<TypeParam>(memory, nic);
    EXPECT_EQ(ring.control.consumer, start + 100) << "all completions were taken";
  }
}

TYPED_TEST(RingMode, ReportsTheCauseToAllLaterTickets) {
  for (const uint32_t position : {0, 1, 2, 3}) {
    SCOPED_TRACE(position);
    TestRing ring(4);
    TestQueue memory(4, 0, &ring);
    TestNic nic(memory);
    nic.FailAt(position, Syndrome::kRemoteAccess);
    typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
    std::vector<Ticket> tickets;
    for (int i = 0; i < 4; ++i)
      tickets.push_back(queue.Post(Write(Remote(this->to_), Local(this->from_))).ticket);
    this->StepAll(nic);  // also writes the flushes: a collapsed CQ would show only the last
    for (uint32_t i = 4; i-- > 0;) {
      const Status status = queue.Test(tickets[i]);
      if (i < position) {
        EXPECT_TRUE(status.ok()) << i;
      } else {
        EXPECT_EQ(status.code, Code::kError);
        EXPECT_EQ(status.syndrome, static_cast<uint8_t>(Syndrome::kRemoteAccess)) << i;
        EXPECT_EQ(status.wqe_index, position);
      }
    }
    EXPECT_EQ(queue.Post(Nop()).status.syndrome, static_cast<uint8_t>(Syndrome::kRemoteAccess));
    EXPECT_EQ(memory.host_error, memory.control.error);
    EXPECT_EQ(memory.control.error >> 24 & 0xff, static_cast<uint8_t>(Syndrome::kRemoteAccess));
  }
}

TYPED_TEST(RingMode, FindsFreeSlotsByDraining) {
  TestRing ring(4);
  TestQueue memory(4, 0, &ring);
  TestNic nic(memory);
  typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(queue.Post(Nop()).status.ok());
  EXPECT_EQ(queue.Post(Nop()).status.code, Code::kFull);
  this->StepAll(nic);
  EXPECT_TRUE(queue.Post(Nop()).status.ok());
}

TYPED_TEST(RingMode, KeepsOtherQueuesOfTheRingWorkingAfterAFailure) {
  TestRing ring(16);
  TestQueue bad(4, 0, &ring), good(4, 0, &ring);
  TestNic bad_nic(bad), good_nic(good);
  bad_nic.FailAt(1, Syndrome::kTransportRetryExceeded);
  typename TestFixture::Queue on_bad(ViewFor<TypeParam>(bad)), on_good(ViewFor<TypeParam>(good));
  std::vector<Ticket> bads, goods;
  for (int i = 0; i < 4; ++i) {
    bads.push_back(on_bad.Post(Nop()).ticket);
    goods.push_back(on_good.Post(Nop()).ticket);
    this->StepAll(bad_nic);
    this->StepAll(good_nic);
  }
  EXPECT_TRUE(on_good.Flush({}).ok()) << "it also drained the other queue's completions";
  EXPECT_TRUE(on_bad.Test(bads[0]).ok());
  EXPECT_EQ(on_bad.Test(bads[3]).syndrome, static_cast<uint8_t>(Syndrome::kTransportRetryExceeded));
  for (const Ticket ticket : goods) EXPECT_TRUE(on_good.Test(ticket).ok());
  EXPECT_EQ(good.control.error, 0U);
}

TEST(Drain, DropsCompletionsOfRemovedQueues) {
  TestRing ring(4);
  TestQueue memory(4, 0, &ring);
  ring.cq.Push({.wqe_counter = 0, .user_index = 5});
  memory.Complete({.wqe_counter = 2});
  Drain<Cpu>(ring.control);
  EXPECT_EQ(ring.control.consumer, 2U);
  EXPECT_TRUE(RawSendQueue<Cpu>(memory.View()).PollCqOnce(2).ok());
}

TEST(Drain, DoesNothingWhileAnotherThreadDrains) {
  TestRing ring(4);
  TestQueue memory(4, 0, &ring);
  memory.Complete({.wqe_counter = 0});
  ring.control.consumer |= uint64_t{1} << 32;  // marks the ring as being drained by another thread
  Drain<Cpu>(ring.control);
  EXPECT_EQ(RawSendQueue<Cpu>(memory.View()).PollCqOnce(0).code, Code::kPending);
  ring.control.consumer = 0;
  Drain<Cpu>(ring.control);
  EXPECT_TRUE(RawSendQueue<Cpu>(memory.View()).PollCqOnce(0).ok());
}

/// A processor that counts loads of a CQE and deliveries, and runs a hook before a compare-swap.
struct HookedCpu : Cpu {
  static inline uint32_t cqe_loads, deliveries;
  static inline std::function<void()> before_swap;

  static arch::CqeTail LoadCqeTail(const uint8_t* tail) {
    ++cqe_loads;
    return Cpu::LoadCqeTail(tail);
  }
  static uint64_t CompareSwap(uint64_t* word, uint64_t expected, uint64_t desired) {
    if (const auto hook = std::exchange(before_swap, nullptr)) hook();
    return Cpu::CompareSwap(word, expected, desired);
  }
  using Cpu::StoreRelease;
  static void StoreRelease(uint64_t* word, uint64_t value) {
    if (word == delivered_to) ++deliveries;
    Cpu::StoreRelease(word, value);
  }
  static inline const uint64_t* delivered_to;
};

TEST(Drain, TakesNoCompletionTwiceWhenOvertaken) {
  TestRing ring(4);
  TestQueue memory(4, 0, &ring);
  memory.Complete({.wqe_counter = 0});
  HookedCpu::delivered_to = reinterpret_cast<const uint64_t*>(memory.control.cqe) + 7;
  HookedCpu::deliveries = 0;
  HookedCpu::before_swap = [&] { Drain<HookedCpu>(ring.control); };
  Drain<HookedCpu>(ring.control);
  EXPECT_EQ(HookedCpu::deliveries, 1U);
  EXPECT_EQ(ring.control.consumer, 1U);
}

/// A processor that notes what is stored to a ring's consumer index.
struct NotingCpu : Cpu {
  static inline const uint64_t* consumer = nullptr;
  static inline std::vector<uint64_t> stored;

  using Cpu::StoreRelease;
  static void StoreRelease(uint64_t* word, uint64_t value) {
    if (word == consumer) stored.push_back(value);
    Cpu::StoreRelease(word, value);
  }
};

TEST(Drain, StoresTheIndexBeforeItDeliversAWholeRound) {
  for (const uint32_t depth : {2U, 4U}) {
    for (uint32_t arrived = 1; arrived <= depth; ++arrived) {
      TestRing ring(depth);
      TestQueue memory(depth, 0, &ring);
      for (uint16_t i = 0; i < arrived; ++i) memory.Complete({.wqe_counter = i});
      NotingCpu::consumer = &ring.control.consumer;
      NotingCpu::stored.clear();
      Drain<NotingCpu>(ring.control);
      std::vector<uint64_t> wanted = {arrived};
      if (arrived >= depth - 1) wanted.insert(wanted.begin(), (depth - 1) | kRingLocked);
      EXPECT_EQ(NotingCpu::stored, wanted) << "or the NIC might get two rounds ahead of a dead drainer";
      EXPECT_EQ(ring.control.consumer, arrived);
    }
  }
}

TEST(Drain, IsSkippedWhenTheTicketIsReady) {
  TestRing ring(4);
  TestQueue memory(4, 0, &ring);
  SendQueue<HookedCpu, Exclusive> queue(memory.View());
  const Ticket ticket = queue.Post(Nop()).ticket;
  memory.Complete({.wqe_counter = 0});
  Drain<Cpu>(ring.control);
  memory.Complete({.wqe_counter = 1});
  HookedCpu::cqe_loads = 0;
  EXPECT_TRUE(queue.Test(ticket).ok());
  EXPECT_EQ(HookedCpu::cqe_loads, 1U);
  EXPECT_EQ(ring.control.consumer, 1U) << "the other completion stays in the ring";
}

TEST(Drain, KeepsTheFirstError) {
  TestRing ring(4);
  TestQueue memory(4, 0, &ring);
  memory.Complete({mlx5::CqeOpcode::kRequesterError, 1, Syndrome::kRemoteAccess});
  memory.Complete({mlx5::CqeOpcode::kRequesterError, 2, Syndrome::kFlushed});
  Drain<Cpu>(ring.control);
  memory.Complete({mlx5::CqeOpcode::kRequesterError, 3, Syndrome::kFlushed});
  Drain<Cpu>(ring.control);
  const Status status = RawSendQueue<Cpu>(memory.View()).PollCqOnce(0);
  EXPECT_EQ(status.syndrome, static_cast<uint8_t>(Syndrome::kRemoteAccess));
  EXPECT_EQ(status.wqe_index, 1);
}

TEST(RingModeShared, LetsThreadsOfTwoQueuesDrainForEachOther) {
  constexpr uint32_t kThreads = 4, kWrites = 1000;
  TestRing ring(32);
  TestQueue memory[2] = {TestQueue(16, 0, &ring), TestQueue(16, 0, &ring)};
  TestNic nics[2] = {TestNic(memory[0]), TestNic(memory[1])};
  NicThread first(nics[0]), second(nics[1]);
  Together(kThreads, [&](uint32_t me) {
    SendQueue<Cpu, Shared> queue(memory[me % 2].View());
    std::vector<uint32_t> from(kWrites), to(kWrites);
    for (uint32_t i = 0; i < kWrites; ++i) {
      from[i] = i + 1;
      const Posted posted = queue.Post(Write(Remote(to[i]), Local(from[i])), Soon());
      ASSERT_TRUE(posted.status.ok());
      if (i % 8 != 0) continue;
      ASSERT_TRUE(queue.Wait(posted.ticket, Soon()).ok());
      ASSERT_EQ(to[i], i + 1);  // a race unless the completion orders it
    }
    ASSERT_TRUE(queue.Flush(Soon()).ok());
    EXPECT_EQ(from, to);
  });
  first.Stop();
  second.Stop();
  EXPECT_EQ(nics[0].violation() + nics[1].violation(), "");
}

}  // namespace
}  // namespace warpverbs::device
