// Tests what posters of a shared queue see of each other. docs/memory-order.md names each test.
#include <gtest/gtest.h>

#include <optional>

#include "poster.hpp"

namespace warpverbs::device {
namespace {

using Queue = SendQueue<LitmusCpu, Shared>;

TEST(Sharing, DeferredWqeIsVisibleBeforeTheSuccessorsRecord) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(64);
    uint64_t data[3] = {};
    Steps steps;
    Concurrently([&] { ReserveAndPublish<Shared>(memory, steps, 0, data[0], run); },
                 [&] { ReserveAndPublish<Shared>(memory, steps, 1, data[1], run); },
                 [&] { ReserveAndPublish<Shared>(memory, steps, 2, data[2], run); },
                 [&] {
                   ASSERT_TRUE(memory.AwaitRecord(3));
                   for (uint32_t slot = 0; slot < 3; ++slot) EXPECT_EQ(memory.Fetch(slot), run);
                 });
    EXPECT_EQ(LitmusCpu::doorbells, 2U) << "the second poster left its doorbell to the third";
  }
}

TEST(Sharing, DoorbellsLeaveInOrderOfReservations) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(4);  // shallow enough that every poster rings; the count of doorbells is not atomic
    uint64_t data[3] = {};
    Steps steps;
    Concurrently([&] { ReserveAndPublish<Shared>(memory, steps, 0, data[0], run); },
                 [&] { ReserveAndPublish<Shared>(memory, steps, 1, data[1], run); },
                 [&] { ReserveAndPublish<Shared>(memory, steps, 2, data[2], run); });
    EXPECT_EQ(LitmusCpu::doorbells, 3U);
  }
}

TEST(Sharing, DoorbellsLeaveInOrderWhenPublishedIsLoadedBeforeTheReservation) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(8);
    uint64_t data[2] = {};
    Steps steps;
    Concurrently(
        [&] {
          EXPECT_TRUE(Queue(memory.View()).Post(WriteOf(data[0])).status.ok());
          steps.Reach(1);
        },
        [&] {
          steps.Await(1);
          Queue queue(memory.View());  // reads the tail
          const Posted posted = queue.Post(WriteOf(data[1]), Soon());
          EXPECT_TRUE(posted.status.ok());
          EXPECT_EQ(posted.ticket.index, 1U);
        });
    EXPECT_EQ(LitmusCpu::doorbells, 2U);
  }
}

TEST(Sharing, CqeReadAfterTheTailIsAtLeastAsNew) {
  constexpr uint32_t kDepth = 4, kPosts = 2000;
  LitmusQueue memory(kDepth);
  Concurrently(
      [&] {
        Queue queue(memory.View());
        for (uint32_t i = 0; i < kPosts; ++i) ASSERT_TRUE(queue.Post(Nop(), Soon()).status.ok());
      },
      [&] {
        for (uint32_t done = 0; done < kPosts; ++done) {
          ASSERT_TRUE(Eventually(
              [&] { return static_cast<uint16_t>(SeenRecord(memory.dbrec) - done - 1) < 0x8000; }));
          memory.Done(static_cast<uint16_t>(done));
        }
      },
      [&] {
        for (uint32_t reserved = 0; reserved < kPosts;) {
          reserved = static_cast<uint32_t>(LitmusCpu::LoadAcquire(&memory.control.tail) >> 32);
          const auto* const tail = reinterpret_cast<const uint8_t*>(&memory.cqe) + mlx5::kCqeTailOffset;
          const uint32_t floor = reserved - kDepth;
          const uint32_t complete = CompletedBelow(LitmusCpu::LoadCqeTail(tail), floor);
          ASSERT_LE(complete - floor, kPosts) << "an older CQE would read as 2^16 ahead";
          std::this_thread::yield();
        }
      });
}

TEST(Sharing, FlushCoversEarlierPosts) {
  for (uint32_t run = 0; run < kRuns; ++run) {
    LitmusQueue memory(4);
    uint64_t data = 0;
    std::atomic<bool> posted = false;
    Concurrently(
        [&] {
          EXPECT_TRUE(Queue(memory.View()).Post(WriteOf(data)).status.ok());
          posted.store(true, std::memory_order_release);
        },
        [&] {
          Queue queue(memory.View());
          ASSERT_TRUE(Eventually([&] { return posted.load(std::memory_order_acquire); }));
          EXPECT_EQ(queue.Flush({}).code, Code::kTimeout) << "Flush() sees the post, but no completion";
          memory.Done(0);
          EXPECT_TRUE(queue.Flush({}).ok());
        });
  }
}

}  // namespace
}  // namespace warpverbs::device
