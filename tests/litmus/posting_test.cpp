// Tests what a NIC sees after it has seen a doorbell or its record. docs/memory-order.md names each test.
#include <gtest/gtest.h>

#include <atomic>

#include "poster.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using arch::cpu::RunBlock;
using Queue = SendQueue<LitmusCpu, Exclusive>;

TEST(Posting, WqeAndDataAreVisibleBeforeTheRecord) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(4);
    uint64_t data = 0;
    Concurrently(
        [&] {
          data = run;
          EXPECT_TRUE(Queue(memory.View()).Post(WriteOf(data)).status.ok());
        },
        [&] {
          ASSERT_TRUE(memory.AwaitRecord(1));
          EXPECT_EQ(memory.Fetch(0), run);
        });
  }
}

TEST(Posting, RecordIsVisibleBeforeTheDoorbell) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(4);
    uint64_t data = run;
    Concurrently([&] { EXPECT_TRUE(Queue(memory.View()).Post(WriteOf(data)).status.ok()); },
                 [&] {
                   ASSERT_TRUE(Eventually([&] {
                     return std::atomic_ref(memory.doorbell).load(std::memory_order_acquire) != 0;
                   }));
                   EXPECT_EQ(memory.dbrec, mlx5::ToBe32(1).raw);  // races unless the doorbell orders it
                   EXPECT_EQ(memory.Fetch(0), run);
                 });
  }
}

TEST(Posting, WqeAndDataAreVisibleBeforeTheDoorbellWithoutARecord) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(4);
    uint64_t data = 0;
    Concurrently(
        [&] {
          QueueView view = memory.View();
          view.dbrec = nullptr;
          data = run;
          EXPECT_TRUE(Queue(view).Post(WriteOf(data)).status.ok());
        },
        [&] {
          ASSERT_TRUE(Eventually(
              [&] { return std::atomic_ref(memory.doorbell).load(std::memory_order_acquire) != 0; }));
          EXPECT_EQ(memory.Fetch(0), run);
        });
  }
}

TEST(Posting, BatchIsVisibleBeforeItsRecord) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(4);
    uint64_t data[3] = {};
    Concurrently(
        [&] {
          Queue queue(memory.View());
          auto batch = queue.Begin(3);
          for (uint64_t& word : data) {
            EXPECT_TRUE(batch.Add(WriteOf(word)).status.ok());
            word = run;  // may change until Submit()
          }
          EXPECT_TRUE(batch.Submit().status.ok());
        },
        [&] {
          ASSERT_TRUE(memory.AwaitRecord(3));
          for (uint32_t slot = 0; slot < 3; ++slot) EXPECT_EQ(memory.Fetch(slot), run);
        });
  }
}

TEST(Posting, DataOfAllLanesAreVisibleBeforeTheRecord) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(4);
    uint64_t data[4] = {};
    Concurrently(
        [&] {
          RunBlock(4, [&](uint32_t lane) {
            data[lane] = run;
            SendQueue<LitmusCpu, Exclusive, Warp> queue(memory.View(), Warp(0xf));
            EXPECT_TRUE(queue.Post(WriteOf(data[lane])).status.ok());
          });
        },
        [&] {
          ASSERT_TRUE(memory.AwaitRecord(4));
          for (uint32_t slot = 0; slot < 4; ++slot) EXPECT_EQ(memory.Fetch(slot), run);
        });
  }
}

TEST(Posting, DataOfTheBlockAreVisibleBeforeItsRecord) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(4);
    uint64_t data[2] = {};
    Concurrently(
        [&] {
          RunBlock(
              2,
              [&](uint32_t thread) {
                data[thread] = run;
                SendQueue<LitmusCpu, Shared, Block> queue(memory.View(), Block(1));
                EXPECT_TRUE(queue.Post(WriteOf(data[1 - thread]), Soon()).status.ok());
              },
              1);
        },
        [&] {
          EXPECT_TRUE(memory.AwaitRecord(2)) << "one record covers both warps";
          EXPECT_EQ(memory.Fetch(0), run);
          EXPECT_EQ(memory.Fetch(1), run);
        });
    EXPECT_EQ(LitmusCpu::doorbells, 1U);
  }
}

TEST(Posting, DataHandedOverByAnotherThreadAreVisible) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(4);
    uint64_t data = 0;
    std::atomic<bool> ready = false;
    Concurrently(
        [&] {
          data = run;
          ready.store(true, std::memory_order_release);
        },
        [&] {
          ASSERT_TRUE(Eventually([&] { return ready.load(std::memory_order_acquire); }));
          EXPECT_TRUE(Queue(memory.View()).Post(WriteOf(data)).status.ok());
        },
        [&] {
          ASSERT_TRUE(memory.AwaitRecord(1));
          EXPECT_EQ(memory.Fetch(0), run);
        });
  }
}

TEST(Posting, SlotIsRewrittenOnlyAfterTheNicHasReadIt) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(1);
    uint64_t data = run;
    Concurrently(
        [&] {
          Queue queue(memory.View());
          EXPECT_TRUE(queue.Post(WriteOf(data)).status.ok());
          EXPECT_TRUE(queue.Post(WriteOf(data), Soon()).status.ok());
        },
        [&] {
          for (uint16_t i = 0; i < 2; ++i) {
            ASSERT_TRUE(memory.AwaitRecord(i + 1));
            EXPECT_EQ(memory.Fetch(0), run);
            memory.Done(i);
          }
        });
  }
}

TEST(Posting, NextKernelSeesTheEndOfTheQueue) {
  LitmusQueue memory(4);
  uint64_t data = 0;
  for (uint32_t kernel = 0; kernel < kRuns; ++kernel) {
    Concurrently([&] {
      Queue queue(memory.View());
      const Posted posted = queue.Post(WriteOf(data));
      EXPECT_TRUE(posted.status.ok());
      EXPECT_EQ(posted.ticket.index, kernel);
    });
    memory.Done(static_cast<uint16_t>(kernel));
  }
}

}  // namespace
}  // namespace warpverbs::device
