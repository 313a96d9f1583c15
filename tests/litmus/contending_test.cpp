// Tests what posters of a contended queue see of each other. docs/memory-order.md names each test.
#include <gtest/gtest.h>

#include "poster.hpp"

namespace warpverbs::device {
namespace {

using Queue = SendQueue<LitmusCpu, Contended>;

TEST(Contending, DeferredWqeIsVisibleBeforeALaterPostersRecord) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(64);
    uint64_t data[3] = {};
    Steps steps;
    Concurrently([&] { ReserveAndPublish<Contended>(memory, steps, 0, data[0], run); },
                 [&] { ReserveAndPublish<Contended>(memory, steps, 1, data[1], run); },
                 [&] { ReserveAndPublish<Contended>(memory, steps, 2, data[2], run); },
                 [&] {
                   ASSERT_TRUE(memory.AwaitRecord(3));
                   for (uint32_t slot = 0; slot < 3; ++slot) EXPECT_EQ(memory.Fetch(slot), run);
                 });
    EXPECT_EQ(LitmusCpu::doorbells, 2U) << "the second poster left its doorbell to the third";
  }
}

TEST(Contending, DoorbellsLeaveInOrderOfReservations) {
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(64);
    const QueueView view = ViewFor<Contended>(memory);
    uint64_t data[2] = {};
    Steps steps;
    Concurrently(
        [&] {
          steps.Await(1);
          EXPECT_TRUE(Queue(view).Post(WriteOf(data[0])).status.ok());
          steps.Reach(2);
        },
        [&] {
          Queue queue(view);  // knows nothing of the other poster
          steps.Reach(1);
          steps.Await(2);
          const Posted posted = queue.Post(WriteOf(data[1]), Soon());
          EXPECT_TRUE(posted.status.ok());
          EXPECT_EQ(posted.ticket.index, 1U);
        });
    EXPECT_EQ(LitmusCpu::doorbells, 2U);
  }
}

TEST(Contending, SlotIsRewrittenOnlyAfterTheNicHasReadItWhoeverMovedTheLimit) {
  constexpr uint32_t kDepth = 16;
  for (uint32_t run = 1; run <= kRuns; ++run) {
    LitmusQueue memory(kDepth);
    const QueueView view = ViewFor<Contended>(memory);
    uint64_t data = run;
    Steps steps;
    Concurrently(
        [&] {
          Queue queue(view);
          for (uint32_t i = 0; i <= kDepth; ++i) ASSERT_TRUE(queue.Post(WriteOf(data), Soon()).status.ok());
          steps.Reach(1);  // the last post has moved the limit past slot 1
        },
        [&] {
          Queue queue(view);
          steps.Await(1);
          EXPECT_TRUE(queue.Post(WriteOf(data)).status.ok());
        },
        [&] {
          ASSERT_TRUE(memory.AwaitRecord(kDepth));
          for (uint32_t slot = 0; slot < kDepth; ++slot) EXPECT_EQ(memory.Fetch(slot), run);
          memory.Done(kDepth - 1);
        });
  }
}

}  // namespace
}  // namespace warpverbs::device
