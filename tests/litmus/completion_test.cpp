// Tests what is visible after a completion, an arrival or a signal. docs/memory-order.md names each test.
#include <gtest/gtest.h>

#include <cstring>

#include "litmus.hpp"
#include "warpverbs/device/detail/drain.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/device/signal.hpp"

namespace warpverbs::device {
namespace {

using mlx5::CqeOpcode;

auto ReadOf(uint64_t& word) { return Read(Remote(word), Local(word)); }

/// Fetches a value that the NIC writes before it completes the read.
void ExpectFetchedDataVisible(LitmusQueue& memory, uint32_t value) {
  uint64_t data = 0;
  Concurrently(
      [&] {
        SendQueue<LitmusCpu, Exclusive> queue(memory.View());
        const Posted posted = queue.Post(ReadOf(data));
        EXPECT_TRUE(queue.Wait(posted.ticket, Soon()).ok());
        EXPECT_EQ(data, value);
      },
      [&] {
        ASSERT_TRUE(memory.AwaitRecord(1));
        data = value;
        memory.Done(0);
      });
}

TEST(Completion, FetchedDataAreVisibleWhenTheTicketIsDone) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(4);
    ExpectFetchedDataVisible(memory, run);
  }
}

TEST(Completion, SyndromeBelongsToItsError) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(4);
    memory.cqe.op_own = 0;  // as after a success: the filling of a fresh CQE could pass for a syndrome
    uint64_t data = 0;
    Concurrently(
        [&] {
          SendQueue<LitmusCpu, Exclusive> queue(memory.View());
          const Posted posted = queue.Post(ReadOf(data));
          const Status status = queue.Wait(posted.ticket, Soon());
          EXPECT_EQ(status.code, Code::kError);
          EXPECT_EQ(status.syndrome, run);
        },
        [&] {
          ASSERT_TRUE(memory.AwaitRecord(1));
          reinterpret_cast<mlx5::ErrorCqe64&>(memory.cqe).syndrome = static_cast<uint8_t>(run);
          const auto high = uint64_t{static_cast<uint8_t>(CqeOpcode::kRequesterError)} << 60;
          std::atomic_ref(reinterpret_cast<uint64_t*>(&memory.cqe)[7]).store(high, std::memory_order_release);
        });
  }
}

TEST(Completion, FetchedDataAreVisibleOnARing) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    TestCq cq(4);
    LitmusQueue memory(4, &cq);
    ExpectFetchedDataVisible(memory, run);
  }
}

TEST(Completion, CauseIsVisibleBehindItsFlush) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    TestCq cq(4);
    LitmusQueue memory(4, &cq);
    Concurrently(
        [&] {
          SendQueue<LitmusCpu, Exclusive> queue(memory.View());
          EXPECT_TRUE(queue.Post(Nop()).status.ok());
          const Posted posted = queue.Post(Nop());
          const Status status = queue.Wait(posted.ticket, Soon());
          EXPECT_EQ(status.code, Code::kError);
          EXPECT_EQ(status.syndrome, static_cast<uint8_t>(mlx5::Syndrome::kRemoteAccess));
          EXPECT_EQ(status.wqe_index, 0);
        },
        [&] {
          ASSERT_TRUE(memory.AwaitRecord(2));
          memory.Complete({CqeOpcode::kRequesterError, 0, mlx5::Syndrome::kRemoteAccess});
          memory.Complete({CqeOpcode::kRequesterError, 1, mlx5::Syndrome::kFlushed});
        });
  }
}

TEST(Completion, FetchedDataAreVisibleWhenAnotherThreadDrainedTheRing) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    TestRing ring(4);
    LitmusQueue memory(4, &ring);
    uint64_t data = 0;
    Steps steps;
    Concurrently(
        [&] {
          SendQueue<LitmusCpu, Exclusive> queue(memory.View());
          const Posted posted = queue.Post(ReadOf(data));
          steps.Await(1);
          EXPECT_TRUE(queue.Test(posted.ticket).ok());
          EXPECT_EQ(data, run);
        },
        [&] {
          uint64_t taken = 0;
          while (taken == 0) {
            Drain<LitmusCpu>(ring.control);
            taken = std::atomic_ref(ring.control.consumer).load(std::memory_order_relaxed);
          }
          steps.Reach(1);
        },
        [&] {
          ASSERT_TRUE(memory.AwaitRecord(1));
          data = run;
          memory.Done(0);
        });
  }
}

TEST(Completion, RingSlotIsRewrittenOnlyAfterItWasDrained) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    TestRing ring(1);
    LitmusQueue memory(1, &ring);
    auto* const cqe = reinterpret_cast<mlx5::Cqe64*>(const_cast<uint8_t*>(ring.cq.View().cqe));
    Steps steps;
    Concurrently(
        [&] {
          SendQueue<LitmusCpu, Exclusive> queue(memory.View());
          EXPECT_TRUE(queue.Post(Nop()).status.ok());
          steps.Await(1);
          EXPECT_TRUE(queue.Post(Nop(), Soon()).status.ok());
        },
        [&] {
          for (uint64_t taken = 0; taken == 0;) {
            Drain<LitmusCpu>(ring.control);
            taken = std::atomic_ref(ring.control.consumer).load(std::memory_order_relaxed);
          }
          steps.Reach(1);
        },
        [&] {
          for (uint32_t i = 0; i < 2; ++i) {
            ASSERT_TRUE(memory.AwaitRecord(i + 1));
            cqe->srqn_uidx = {};  // races with a reader of the slot that is not finished
            const uint64_t high = uint64_t{i} << 56 | uint64_t{i} << 40;
            std::atomic_ref(reinterpret_cast<uint64_t*>(cqe)[7]).store(high, std::memory_order_release);
          }
        });
  }
}

TEST(Completion, DrainersFollowEachOther) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    TestRing ring(4);
    LitmusQueue memory(4, &ring);
    Steps steps;
    const auto drain = [&](uint32_t turn) {
      steps.Await(2 * turn + 1);
      Drain<LitmusCpu>(ring.control);  // counts its deliveries without an atomic
      steps.Reach(2 * turn + 2);
    };
    Concurrently([&] { drain(0); }, [&] { drain(1); },
                 [&] {
                   for (uint16_t i = 0; i < 2; ++i) {
                     steps.Await(2 * i);
                     memory.Done(i);
                     steps.Reach(2 * i + 1);
                   }
                 });
    EXPECT_EQ(LitmusCpu::deliveries, 4U) << "each has delivered one and left the ring";
  }
}

/// A receive queue with one receive.
struct LitmusReceive {
  LitmusReceive() { LitmusCpu::record = &dbrec; }

  ReceiveQueueView View() {
    return {.rq = reinterpret_cast<uint8_t*>(&segment),
            .dbrec = &dbrec,
            .cq = cq.View(),
            .state = &state,
            .depth = 1,
            .stride = 16,
            .first_cqe = 0};
  }

  mlx5::DataSegment segment{};
  uint32_t dbrec = 0;
  TestCq cq{1};
  uint64_t state = 0;
};

TEST(Receiving, WqeIsVisibleBeforeItsRecord) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusReceive memory;
    uint64_t data = 0;
    Concurrently(
        [&] {
          ReceiveQueue<LitmusCpu> queue(memory.View());
          EXPECT_TRUE(queue.Post(Local(data)).ok());
          queue.Submit();
        },
        [&] {
          ASSERT_TRUE(Eventually([&] { return SeenRecord(memory.dbrec) == 1; }));
          EXPECT_EQ(mlx5::FromBe(memory.segment.address), reinterpret_cast<uint64_t>(&data));
        });
  }
}

TEST(Receiving, MessageIsVisibleAfterItsArrival) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusReceive memory;
    uint64_t data = 0;
    Concurrently(
        [&] {
          ReceiveQueue<LitmusCpu> queue(memory.View());
          EXPECT_TRUE(queue.Post(Local(data)).ok());
          queue.Submit();
          const Received received = queue.Poll(Soon());
          EXPECT_TRUE(received.status.ok());
          EXPECT_EQ(received.bytes, 8U);
          EXPECT_EQ(received.imm.raw, run);
          EXPECT_EQ(data, run);
        },
        [&] {
          ASSERT_TRUE(Eventually([&] { return SeenRecord(memory.dbrec) == 1; }));
          data = run;
          memory.cq.Push({.opcode = CqeOpcode::kResponderSendImm, .bytes = 8, .imm = mlx5::Be32{run}});
        });
  }
}

TEST(Signalling, DataAreVisibleBeforeTheSignal) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    uint64_t data = 0, word = 0;
    Concurrently(
        [&] {
          EXPECT_TRUE(WaitSignal<LitmusCpu>(&word, Compare::kEqual, run, Soon()).ok());
          EXPECT_EQ(data, run);
        },
        [&] {  // the NIC, in the order of the peer's requests
          data = run;
          std::atomic_ref(word).store(run, std::memory_order_release);
        });
  }
}

TEST(Failing, FirstErrorReachesAWaiterForItsTurn) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(4);
    memory.control.tail = uint64_t{1} << 32;  // a slot that is never published
    Concurrently(
        [&] {
          const Status status = SendQueue<LitmusCpu, Shared>(memory.View()).Post(Nop()).status;
          EXPECT_EQ(status.code, Code::kError);
          EXPECT_EQ(status.syndrome, run);
          EXPECT_EQ(status.wqe_index, 0x1234);
        },
        [&] {
          const uint64_t error = kErrorValid | uint64_t{run} << 24 | 0x1234;
          std::atomic_ref(memory.control.error).store(error, std::memory_order_relaxed);
        });
  }
}

TEST(Failing, MirrorHoldsTheWholeErrorWord) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(4);
    uint64_t data = 0;
    Concurrently(
        [&] {
          SendQueue<LitmusCpu, Shared> queue(memory.View());
          const Posted posted = queue.Post(ReadOf(data));
          memory.Complete({.opcode = CqeOpcode::kRequesterError,
                           .syndrome = mlx5::Syndrome::kRemoteAccess,
                           .wqe_opcode = mlx5::WqeOpcode::kRdmaRead});
          EXPECT_EQ(queue.Wait(posted.ticket, Soon()).code, Code::kError);
        },
        [&] {  // the host, which reads nothing but the word
          uint64_t seen = 0;
          ASSERT_TRUE(Eventually([&] {
            seen = std::atomic_ref(memory.host_error).load(std::memory_order_relaxed);
            return seen != 0;
          }));
          EXPECT_EQ(seen, kErrorValid | uint64_t{0x10} << 32 | uint64_t{0x13} << 24 | uint64_t{0x77} << 16);
        });
  }
}

TEST(Failing, AbortWordEndsAWait) {
  LitmusQueue memory(4);
  uint64_t data = 0, abort = 0;
  Concurrently(
      [&] {
        SendQueue<LitmusCpu, Exclusive> queue(memory.View());
        const Posted posted = queue.Post(ReadOf(data));
        const WaitLimit limit{.deadline_ns = Soon().deadline_ns, .abort = &abort};
        EXPECT_EQ(queue.Wait(posted.ticket, limit).code, Code::kAborted);
      },
      [&] { std::atomic_ref(abort).store(1, std::memory_order_relaxed); });
}

}  // namespace
}  // namespace warpverbs::device
