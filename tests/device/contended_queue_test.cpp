// Posters of a contended queue: the gate, doorbells that are left to others, and errors.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "nic_thread.hpp"
#include "test_nic.hpp"
#include "three_posters.hpp"
#include "together.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;
using Queue = SendQueue<Cpu, Contended>;
using QueueEndOf = QueueEnd<Cpu, Contended>;
using Reserved = QueueEndOf::Reserved;

constexpr uint64_t Tail(uint32_t reserved, uint32_t limit) { return uint64_t{reserved} << 32 | limit; }

QueueControl Control(uint32_t reserved, uint32_t limit, uint32_t ready) {
  QueueControl control{};
  control.tail = Tail(reserved, limit);
  control.ready = ready;
  return control;
}

TEST(ContendedQueueEnd, ReservesBelowTheLimit) {
  QueueControl control = Control(7, 20, 7);
  QueueEndOf end(&control);
  EXPECT_TRUE(end.IsNextToRing(7));
  control.tail = Tail(9, 20);  // another poster was faster
  EXPECT_EQ(end.TryReserve(3), Reserved::kDone);
  EXPECT_EQ(control.tail, Tail(12, 20));
  EXPECT_EQ(end.reserved(), 12U);
  EXPECT_FALSE(end.IsNextToRing(9));
  EXPECT_TRUE(end.HasRoom(8));
  EXPECT_FALSE(end.HasRoom(9));
}

TEST(ContendedQueueEnd, GivesTheGateToThePosterWhoseSlotsCrossTheLimit) {
  QueueControl control = Control(7, 9, 7);
  QueueEndOf first(&control), second(&control);
  EXPECT_EQ(first.TryReserve(3), Reserved::kGate);
  EXPECT_EQ(first.reserved(), 7U) << "it has reserved nothing";
  EXPECT_EQ(second.TryReserve(1), Reserved::kVoid);
  EXPECT_EQ(second.reserved(), 9U) << "void adds do not count";
  EXPECT_FALSE(second.Reload());
  first.OpenGate(3, 8);
  EXPECT_EQ(control.tail, Tail(10, 15)) << "the void add is dropped";
  EXPECT_TRUE(second.Reload());
  EXPECT_EQ(second.TryReserve(1), Reserved::kDone);
  EXPECT_EQ(second.reserved(), 11U);
}

TEST(ContendedQueueEnd, LeavesTheGateToTheNextAddWhenAnAddEndsAtTheLimit) {
  QueueControl control = Control(7, 8, 7);
  QueueEndOf end(&control);
  EXPECT_EQ(end.TryReserve(1), Reserved::kDone);
  EXPECT_TRUE(end.Reload()) << "nothing has crossed the limit";
  EXPECT_EQ(end.TryReserve(1), Reserved::kGate);
}

TEST(ContendedQueueEnd, NeverMovesTheLimitBack) {
  QueueControl control = Control(7, 9, 7);
  QueueEndOf end(&control);
  EXPECT_EQ(end.TryReserve(3), Reserved::kGate);
  end.OpenGate(0, 0);
  EXPECT_EQ(control.tail, Tail(7, 9));
}

TEST(ContendedQueueEnd, WrapsAt32Bits) {
  QueueControl control = Control(0U - 1, 2, 0U - 1);
  QueueEndOf end(&control);
  EXPECT_EQ(end.TryReserve(2), Reserved::kDone);
  EXPECT_EQ(control.tail, Tail(1, 2));
  EXPECT_TRUE(end.IsNextToRing(0U - 1));
  end.AddReady(2);
  EXPECT_EQ(end.LoadReady(), 1U);
  EXPECT_EQ(end.TryReserve(2), Reserved::kGate);
  end.OpenGate(2, 4);
  EXPECT_EQ(control.tail, Tail(3, 5));
}

TEST(ContendedQueueEnd, KnowsAfterTheStartOnlyAnIdleQueuesReadySlots) {
  QueueControl control = Control(8, 20, 7);
  const QueueEndOf end(&control);
  EXPECT_FALSE(end.IsNextToRing(7));
  EXPECT_FALSE(end.IsNextToRing(8));
  control.ready = 8;
  EXPECT_TRUE(QueueEndOf(&control).IsNextToRing(8));
}

TEST(ContendedQueueEnd, GivesManyPostersDisjointSlots) {
  constexpr uint32_t kThreads = 4, kReservations = 500, kStart = 0U - 700, kRoom = 16;
  QueueControl control = Control(kStart, kStart, kStart);
  std::vector<uint32_t> owners(kThreads * kReservations * 3, 0);  // a race, unless slots are disjoint
  Together(kThreads, [&](uint32_t thread) {
    QueueEndOf end(&control);
    for (uint32_t i = 0; i < kReservations; ++i) {
      const uint32_t slots = 1 + (thread + i) % 3;
      for (uint32_t round = 0;; ++round) {
        const Reserved reserved = end.TryReserve(slots);
        if (reserved == Reserved::kGate) end.OpenGate(slots, slots + kRoom);
        if (reserved != Reserved::kVoid) break;
        for (; !end.Reload(); ++round) Cpu::Pause(round);
      }
      for (uint32_t slot = 1; slot <= slots; ++slot) ++owners[end.reserved() - slot - kStart];
      end.AddReady(slots);
    }
  });
  const auto end = static_cast<uint32_t>(control.tail >> 32);
  EXPECT_EQ(static_cast<uint32_t>(control.ready), end);
  for (uint32_t i = 0; i < end - kStart; ++i) ASSERT_EQ(owners[i], 1U) << "slot " << i;
}

template <class S>
void ExpectSharingRefused(const QueueView& view) {
  SendQueue<Cpu, S> queue(view);
  const Posted posted = queue.Post(Nop(), Soon());
  EXPECT_EQ(posted.status.code, Code::kInvalid);
  EXPECT_EQ(posted.status.request_error, RequestError::kSharing);
  EXPECT_EQ(queue.Begin(1).status().request_error, RequestError::kSharing);
  Posted tried;
  EXPECT_FALSE(queue.TryPost(Nop(), tried));
  for (const Status& status : {queue.Test({0}), queue.Wait({0}, Soon()), queue.Flush(Soon())}) {
    EXPECT_EQ(status.code, Code::kInvalid);
    EXPECT_EQ(status.request_error, RequestError::kSharing) << "the words would mislead it";
  }
}

TEST(ContendedQueue, RefusesPostersOfAnotherKind) {
  TestQueue contended(8), other(8);
  const QueueView view = ViewFor<Contended>(contended);
  ExpectSharingRefused<Exclusive>(view);
  ExpectSharingRefused<Shared>(view);
  ExpectSharingRefused<RelaxedShared>(view);
  ExpectSharingRefused<Contended>(other.View());
  EXPECT_EQ(EndFor<Contended>(contended), 0U);
  EXPECT_EQ(EndFor<Shared>(other), 0U);
}

class ContendedDeferral : public ThreePosters<Contended> {
 protected:
  ContendedDeferral() { Begin(64, 100); }

  /// Submits, and lets the NIC execute what was rung.
  Posted Post(uint32_t poster) {
    const Posted posted = Submit(poster);
    EXPECT_TRUE(posted.status.ok());
    StepAll();
    return posted;
  }
};

INSTANTIATE_TEST_SUITE_P(, ContendedDeferral, testing::Values(FetchUpTo::kDoorbell, FetchUpTo::kRecord),
                         NameOfFetch);

TEST_P(ContendedDeferral, LeavesTheDoorbellToASuccessor) {
  static_cast<void>(Post(0));
  const Posted second = Post(1);
  EXPECT_EQ(nic_->next(), 101U) << "the first posted next to its own last look, so it rang";
  EXPECT_EQ(queues_[1]->Test(second.ticket).code, Code::kPending);
  EXPECT_EQ(EndFor<Contended>(*memory_), uint64_t{103} << 32 | 102)
      << "the second is ready without a doorbell";
  const Posted third = Post(2);
  EXPECT_EQ(nic_->next(), 103U);
  EXPECT_EQ(nic_->doorbells(), 2U) << "one doorbell for the second and the third";
  EXPECT_TRUE(queues_[1]->Test(second.ticket).ok());
  EXPECT_TRUE(queues_[2]->Test(third.ticket).ok());
}

TEST_P(ContendedDeferral, NeedsNoOrderAmongPostersWithSuccessors) {
  static_cast<void>(Post(1));  // waits for no earlier poster
  EXPECT_EQ(nic_->next(), 100U);
  static_cast<void>(Post(0));
  EXPECT_EQ(nic_->next(), 101U) << "the doorbell covers no slot behind the first";
  static_cast<void>(Post(2));
  EXPECT_EQ(nic_->next(), 103U);
  EXPECT_EQ(nic_->doorbells(), 2U);
}

TEST(ContendedQueue, RingsForEarlierPostersWhenItFindsTheQueueFull) {
  TestQueue memory(4);
  TestNic nic(memory);
  const QueueView view = ViewFor<Contended>(memory);
  Queue first(view), second(view);
  ASSERT_TRUE(first.Post(Nop()).status.ok());
  auto batch = second.Begin(1);
  std::jthread late([&] {
    Queue third(view);
    EXPECT_EQ(third.Begin(3).status().code, Code::kFull);
  });
  ASSERT_TRUE(AwaitReserved(memory, 5)) << "the third poster never came to the gate";
  EXPECT_TRUE(batch.Submit().status.ok());
  late.join();
  while (nic.Step()) {
  }
  EXPECT_EQ(nic.violation(), "");
  EXPECT_EQ(nic.next(), 2U) << "the second left its doorbell to the third";
  EXPECT_EQ(EndFor<Contended>(memory), uint64_t{2} << 32 | 2);
}

TEST(ContendedQueue, GivesEachOfTheLastSlotsToOnePoster) {
  constexpr uint32_t kDepth = 64;
  for (int round = 0; round < 20; ++round) {
    TestQueue memory(kDepth);
    const QueueView view = ViewFor<Contended>(memory);
    std::atomic<uint32_t> posted = 0;
    Together(4, [&](uint32_t) {
      Queue queue(view);
      Status status;
      while ((status = queue.Post(Nop()).status).ok()) ++posted;
      EXPECT_EQ(status.code, Code::kFull);
    });
    ASSERT_EQ(posted, kDepth);
    ASSERT_EQ(memory.control.tail, Tail(kDepth, kDepth)) << "the limit is where the queue is full";
    ASSERT_EQ(memory.control.ready, kDepth);
    ASSERT_EQ(memory.control.error, 0U);
  }
}

TEST(ContendedQueue, CompletesBatchesOfAllSizesOnFewSlots) {
  for (const uint32_t depth : {2U, 4U, 16U}) {
    SCOPED_TRACE(depth);
    constexpr uint32_t kThreads = 6, kRounds = 400;
    TestQueue memory(depth, 0U - 900);
    TestNic nic(memory, 0U - 900);
    NicThread thread(nic);
    const QueueView view = ViewFor<Contended>(memory);
    std::atomic<uint32_t> slots = 0;
    Together(kThreads, [&](uint32_t me) {
      Queue queue(view);
      std::vector<uint64_t> from(depth, me), to(depth);
      for (uint32_t round = 0; round < kRounds; ++round) {
        const uint32_t count = 1 + (me + round) % depth;
        auto batch = queue.Begin(count, Soon());
        ASSERT_TRUE(batch.status().ok());
        for (uint32_t i = 0; i < count; ++i)
          ASSERT_TRUE(batch.Add(Write(Remote(to[i]), Local(from[i]))).status.ok());
        const Posted posted = batch.Submit();
        ASSERT_TRUE(posted.status.ok());
        slots += count;
        if (round % 8 == 0) {
          ASSERT_TRUE(queue.Wait(posted.ticket, Soon()).ok());
        }
      }
      ASSERT_TRUE(queue.Flush(Soon()).ok());
      EXPECT_EQ(from, to);
    });
    thread.Stop();
    EXPECT_EQ(nic.violation(), "");
    EXPECT_EQ(nic.next(), slots - 900);
  }
}

TEST(ContendedQueue, EndsEveryThreadAfterAFailure) {
  for (const uint32_t failed : {0, 1, 50, 1000}) {
    SCOPED_TRACE(failed);
    TestQueue memory(16);
    TestNic nic(memory);
    nic.FailAt(failed, mlx5::Syndrome::kRemoteAccess);
    NicThread thread(nic);
    const QueueView view = ViewFor<Contended>(memory);
    Together(4, [&](uint32_t) {
      Queue queue(view);
      Posted posted{};
      while (posted.status.ok()) posted = queue.Post(Nop(), Soon());
      EXPECT_EQ(posted.status.code, Code::kError);
      EXPECT_EQ(queue.Flush(Soon()).code, Code::kError);
    });
    thread.Stop();
    EXPECT_EQ(nic.violation(), "");
  }
}

/// A processor whose clock runs 1,000 times as fast: ten seconds pass in ten milliseconds.
struct FastCpu : Cpu {
  static uint64_t NowNs() { return Cpu::NowNs() * 1000; }
};

using FastQueue = SendQueue<FastCpu, Contended>;

void ExpectGivenUp(const Status& status) {
  EXPECT_EQ(status.code, Code::kError);
  EXPECT_EQ(status.syndrome, 0);
}

TEST(ContendedQueueError, EndsTheQueueAfterAPosterDiedWithASlot) {
  TestQueue memory(8);
  const QueueView view = ViewFor<Contended>(memory);
  FastQueue queue(view);
  ASSERT_TRUE(queue.Post(Nop()).status.ok());
  memory.control.tail += uint64_t{1} << 32;
  const Status status = queue.Post(Nop()).status;
  ExpectGivenUp(status);
  EXPECT_EQ(memory.host_error, memory.control.error) << "the host's mirror has the error";
  ExpectGivenUp(FastQueue(view).Post(Nop()).status);
  EXPECT_EQ(memory.dbrec, mlx5::ToBe32(1).raw) << "no doorbell covers a slot behind the gap";
}

TEST(ContendedQueueError, EndsTheQueueAfterThePosterAtTheGateDied) {
  TestQueue memory(8);
  const QueueView view = ViewFor<Contended>(memory);
  memory.control.tail = Tail(3, 2);
  ExpectGivenUp(FastQueue(view).Post(Nop()).status);
  EXPECT_EQ(FastQueue(view).Flush(Soon()).code, Code::kError);
}

TEST(ContendedQueueError, AbortEndsTheWaitForTheGateAndNothingElse) {
  TestQueue memory(8);
  const QueueView view = ViewFor<Contended>(memory);
  memory.control.tail = Tail(3, 2);
  const uint64_t abort = 1;
  const WaitLimit limit{.deadline_ns = UINT64_MAX, .abort = &abort};
  EXPECT_EQ(Queue(view).Post(Nop(), limit).status.code, Code::kAborted);
  EXPECT_EQ(memory.control.error, 0U);
}

TEST(ContendedQueueError, DeadlineEndsTheWaitForTheGateAndNothingElse) {
  TestQueue memory(8);
  const QueueView view = ViewFor<Contended>(memory);
  memory.control.tail = Tail(3, 2);
  EXPECT_EQ(Queue(view).Post(Nop(), InAMillisecond()).status.code, Code::kTimeout);
  EXPECT_EQ(memory.control.error, 0U);
}

TEST(ContendedQueueError, AbortOfThePosterAtTheGateEndsTheQueue) {
  TestQueue memory(8);
  const QueueView view = ViewFor<Contended>(memory);
  memory.control.tail = Tail(2, 2);  // of two slots, one is not ready
  memory.control.ready = 1;
  const uint64_t abort = 1;
  const WaitLimit limit{.deadline_ns = UINT64_MAX, .abort = &abort};
  ExpectGivenUp(Queue(view).Post(Nop(), limit).status);
  ExpectGivenUp(Queue(view).Post(Nop(), Soon()).status);
}

TEST(ContendedQueueError, ClosedGateTakesNoMoreAddsOfAThreadThatHasSeenIt) {
  TestQueue memory(8);
  const QueueView view = ViewFor<Contended>(memory);
  Queue queue(view);
  memory.control.tail = Tail(3, 2);
  Posted posted;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(queue.TryPost(Nop(), posted));
  const uint64_t abort = 1;
  const WaitLimit limit{.deadline_ns = UINT64_MAX, .abort = &abort};
  for (int i = 0; i < 10; ++i) EXPECT_EQ(queue.Begin(8, limit).status().code, Code::kAborted);
  EXPECT_LE(memory.control.tail >> 32, 3U + 8U) << "one void add at most";
}

TEST(ContendedQueueError, FlushWaitsForTheGateUntilItsDeadline) {
  TestQueue memory(8);
  const QueueView view = ViewFor<Contended>(memory);
  Queue queue(view);
  memory.control.tail = Tail(3, 2);
  EXPECT_EQ(queue.Flush(InAMillisecond()).code, Code::kTimeout);
  EXPECT_EQ(memory.control.error, 0U);
}

}  // namespace
}  // namespace warpverbs::device
