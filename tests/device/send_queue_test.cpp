// Common behaviour of exclusive and shared queues with a NIC that the test steps.
#include "warpverbs/device/send_queue.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "nic_thread.hpp"
#include "test_nic.hpp"
#include "together.hpp"
#include "warpverbs/arch/cpu.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;

template <class Sharing>
class SendQueueTest : public testing::Test {
 protected:
  using Queue = SendQueue<Cpu, Sharing>;
  static constexpr bool kContends =
      std::is_same_v<Sharing, Contended>;  ///< a post looks for free slots itself

  /// Posts `count` writes of one value each.
  std::vector<Ticket> PutMany(Queue& queue, uint32_t count) {
    std::vector<Ticket> tickets;
    for (uint32_t i = 0; i < count; ++i) {
      const Posted posted = queue.Post(Write(Remote(to_), Local(from_)));
      EXPECT_TRUE(posted.status.ok()) << i;
      tickets.push_back(posted.ticket);
    }
    return tickets;
  }

  uint64_t from_ = 42;
  uint64_t to_ = 0;
};

using Sharings = testing::Types<Exclusive, Shared, Contended>;
TYPED_TEST_SUITE(SendQueueTest, Sharings);

/// Writes `count` numbers through a queue and checks that each arrives and that the last ticket is done.
template <class Sharing>
void WriteThrough(uint32_t depth, uint32_t start, uint32_t count) {
  TestQueue memory(depth, start);
  TestNic nic(memory, start);
  NicThread thread(nic);
  std::vector<uint32_t> from(count);
  std::vector<uint32_t> to(count);
  std::iota(from.begin(), from.end(), 1);
  SendQueue<Cpu, Sharing> queue(ViewFor<Sharing>(memory));
  Posted posted{};
  for (uint32_t i = 0; i < count; ++i) {
    posted = queue.Post(Write(Remote(to[i]), Local(from[i])), Soon());
    ASSERT_TRUE(posted.status.ok()) << i;
    ASSERT_EQ(posted.ticket.index, start + i);
  }
  EXPECT_TRUE(queue.Wait(posted.ticket, Soon()).ok());
  EXPECT_EQ(from, to);
  thread.Stop();
  EXPECT_EQ(nic.violation(), "");
}

TYPED_TEST(SendQueueTest, CompletesWritesAtEveryDepth) {
  for (const uint32_t depth : {1, 2, 4, 64, 32768}) {
    SCOPED_TRACE(depth);
    WriteThrough<TypeParam>(depth, 0, depth + 100);
  }
}

TYPED_TEST(SendQueueTest, WrapsIndicesAt16Bits) { WriteThrough<TypeParam>(4, 65536 - 50, 100); }

TYPED_TEST(SendQueueTest, WrapsIndicesAt16BitsWhenDeep) { WriteThrough<TypeParam>(32768, 0, 70000); }

TYPED_TEST(SendQueueTest, WrapsIndicesAt32Bits) {
  for (const uint32_t depth : {1, 4, 64}) {
    SCOPED_TRACE(depth);
    WriteThrough<TypeParam>(depth, 0U - 50, 100);
  }
}

TYPED_TEST(SendQueueTest, RefusesPostsAndOverwritesNothingWhenFull) {
  TestQueue memory(4);
  typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
  this->PutMany(queue, 4);
  const std::vector<uint8_t> before(memory.ring[0].bytes, memory.ring[0].bytes + 4 * mlx5::kWqebbBytes);
  const uint64_t abort = 1;

  EXPECT_EQ(queue.Post(Write(Remote(this->to_), Local(this->from_))).status.code, Code::kFull);
  EXPECT_EQ(queue.Post(Write(Remote(this->to_), Local(this->from_)), InAMillisecond()).status.code,
            Code::kTimeout);
  EXPECT_EQ(queue.Post(Write(Remote(this->to_), Local(this->from_)), {UINT64_MAX, &abort}).status.code,
            Code::kAborted);

  EXPECT_TRUE(std::equal(before.begin(), before.end(), memory.ring[0].bytes));
  EXPECT_EQ(memory.dbrec, mlx5::ToBe32(4).raw);
  EXPECT_EQ(memory.control.error, 0U);
}

TYPED_TEST(SendQueueTest, TakesOnePostForEachCompletionWhenFull) {
  TestQueue memory(4);
  TestNic nic(memory);
  typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
  this->PutMany(queue, 4);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(queue.Post(Write(Remote(this->to_), Local(this->from_))).status.code, Code::kFull);
    ASSERT_TRUE(nic.Step());
    ASSERT_TRUE(queue.Post(Write(Remote(this->to_), Local(this->from_))).status.ok());
  }
  EXPECT_EQ(nic.violation(), "");
}

TYPED_TEST(SendQueueTest, CompletesNoTicketEarly) {
  constexpr uint32_t kDepth = 32768;  // the largest depth for a counter of 16 bits
  TestQueue memory(kDepth);
  TestNic nic(memory);
  typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
  const std::vector<Ticket> tickets = this->PutMany(queue, kDepth);
  for (const uint32_t complete : {0U, 1U, 2U, kDepth / 2, kDepth - 1, kDepth}) {
    while (nic.next() != complete) ASSERT_TRUE(nic.Step());
    for (uint32_t i = 0; i < kDepth; ++i) {
      ASSERT_EQ(queue.Test(tickets[i]).ok(), i < complete) << i << " of " << complete;
    }
  }
}

TYPED_TEST(SendQueueTest, KeepsOldTicketsDone) {
  TestQueue memory(64);
  TestNic nic(memory);
  typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
  const Ticket first = this->PutMany(queue, 1)[0];
  while (nic.Step()) {
  }
  typename TestFixture::Queue next(ViewFor<TypeParam>(memory));
  for (uint32_t posted = 1; posted < 200'000; posted += 50) {
    this->PutMany(next, 50);
    while (nic.Step()) {
    }
    ASSERT_TRUE(next.Test(first).ok()) << posted;
  }
  EXPECT_EQ(nic.violation(), "");
}

TYPED_TEST(SendQueueTest, StopsWaitingAtItsLimit) {
  TestQueue memory(4);
  TestNic nic(memory);
  typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
  const Ticket ticket = this->PutMany(queue, 1)[0];
  const uint64_t abort = 1;
  EXPECT_EQ(queue.Test(ticket).code, Code::kPending);
  EXPECT_EQ(queue.Wait(ticket, {}).code, Code::kTimeout);
  EXPECT_EQ(queue.Wait(ticket, InAMillisecond()).code, Code::kTimeout);
  EXPECT_EQ(queue.Wait(ticket, {UINT64_MAX, &abort}).code, Code::kAborted);
  EXPECT_EQ(queue.Flush({}).code, Code::kTimeout);

  ASSERT_TRUE(nic.Step());
  EXPECT_TRUE(queue.Wait(ticket, {}).ok()) << "a done ticket needs no time";
  EXPECT_EQ(this->to_, 42U);
}

TYPED_TEST(SendQueueTest, FlushesAllPosts) {
  TestQueue memory(4);
  TestNic nic(memory);
  typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
  EXPECT_TRUE(queue.Flush({}).ok()) << "nothing was posted";
  this->PutMany(queue, 3);
  ASSERT_TRUE(nic.Step() && nic.Step());
  EXPECT_EQ(queue.Flush({}).code, Code::kTimeout);
  ASSERT_TRUE(nic.Step());
  EXPECT_TRUE(queue.Flush({}).ok());
}

TYPED_TEST(SendQueueTest, CompletesUnsignalledPostsWithTheNextSignalledOne) {
  TestQueue memory(4);
  TestNic nic(memory);
  typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
  for (int round = 0; round < 10; ++round) {
    Ticket tickets[4];
    for (int i = 0; i < 4; ++i) {
      const uint32_t flags = i == 3 ? mlx5::kCqeAlways : mlx5::kCqeOnError;
      const Posted posted = queue.Post(Write(Remote(this->to_), Local(this->from_)), {}, flags);
      ASSERT_TRUE(posted.status.ok());
      tickets[i] = posted.ticket;
    }
    ASSERT_TRUE(nic.Step() && nic.Step() && nic.Step());
    EXPECT_EQ(queue.Test(tickets[0]).code, Code::kPending);
    ASSERT_TRUE(nic.Step());
    for (const Ticket ticket : tickets) EXPECT_TRUE(queue.Test(ticket).ok());
  }
}

TYPED_TEST(SendQueueTest, ContinuesWhereTheLastKernelEnded) {
  TestQueue memory(4);
  TestNic nic(memory);
  for (uint32_t kernel = 0; kernel < 10; ++kernel) {
    typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
    const std::vector<Ticket> tickets = this->PutMany(queue, 3);
    EXPECT_EQ(tickets[0].index, 3 * kernel);
    while (nic.Step()) {
    }
  }
  EXPECT_EQ(nic.violation(), "");
}

TYPED_TEST(SendQueueTest, TriesAPostOnlyIfASlotIsKnownToBeFree) {
  TestQueue memory(2);
  TestNic nic(memory);
  typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
  const auto write = Write(Remote(this->to_), Local(this->from_));
  Posted posted;
  if (!TestFixture::kContends) {
    EXPECT_FALSE(queue.TryPost(write, posted)) << "a new queue knows of none";
  }
  EXPECT_EQ(this->PutMany(queue, 1).back().index, 0U);
  ASSERT_TRUE(queue.TryPost(write, posted));
  EXPECT_EQ(posted.ticket.index, 1U);
  EXPECT_FALSE(queue.TryPost(write, posted)) << "both slots are in use";
  while (nic.Step()) {
  }
  EXPECT_EQ(nic.next(), 2U);
  EXPECT_TRUE(queue.Test(posted.ticket).ok());
  ASSERT_TRUE(queue.TryPost(write, posted));
  EXPECT_EQ(posted.ticket.index, 2U);
}

TYPED_TEST(SendQueueTest, ContinuesInAnotherObject) {
  TestQueue memory(8);
  TestNic nic(memory);
  PosterState poster;
  for (uint32_t i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    typename TestFixture::Queue queue(ViewFor<TypeParam>(memory), {}, poster);
    Posted posted;
    const auto write = Write(Remote(this->to_), Local(this->from_));
    const bool tried = queue.TryPost(write, posted);
    EXPECT_EQ(tried, i != 0 || TestFixture::kContends) << "it knows what the last object knew";
    if (!tried) posted = queue.Post(write);
    EXPECT_EQ(posted.ticket.index, i);
    while (nic.Step()) {
    }
    EXPECT_TRUE(queue.Test(posted.ticket).ok());
    poster = queue.Poster();
  }
  EXPECT_EQ(nic.violation(), "");
}

TYPED_TEST(SendQueueTest, RemembersAnErrorInAnotherObject) {
  TestQueue memory(8);
  TestNic nic(memory);
  nic.FailAt(0, mlx5::Syndrome::kRemoteAccess);
  typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
  const Ticket ticket = this->PutMany(queue, 1).back();
  while (nic.Step()) {
  }
  EXPECT_EQ(queue.Test(ticket).code, Code::kError);
  typename TestFixture::Queue next(ViewFor<TypeParam>(memory), {}, queue.Poster());
  Posted posted;
  const auto write = Write(Remote(this->to_), Local(this->from_));
  EXPECT_FALSE(next.TryPost(write, posted));
  EXPECT_EQ(next.Post(write).status.code, Code::kError);
}

TYPED_TEST(SendQueueTest, SendsInlineAndImmediateData) {
  TestQueue memory(4);
  TestNic nic(memory);
  typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
  struct Message {
    uint8_t bytes[28];
  };
  Message sent;
  std::iota(std::begin(sent.bytes), std::end(sent.bytes), uint8_t{7});
  Message received{};
  EXPECT_TRUE(queue.Post(WriteInline{Remote(received), sent}).status.ok());
  EXPECT_TRUE(
      queue.Post(WriteImm(Remote(this->to_), Local(this->from_), mlx5::Be32{0x01020304})).status.ok());
  EXPECT_EQ(memory.ring[1].bytes[12], 4);
  while (nic.Step()) {
  }
  EXPECT_EQ(nic.violation(), "");
  EXPECT_TRUE(std::equal(std::begin(sent.bytes), std::end(sent.bytes), received.bytes));
  EXPECT_EQ(this->to_, 42U);
}

}  // namespace
}  // namespace warpverbs::device
