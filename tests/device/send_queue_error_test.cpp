// A queue pair that fails at each of its WQEs, from the callers' view.
#include <gtest/gtest.h>

#include <vector>

#include "test_nic.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;
using mlx5::Syndrome;

constexpr uint32_t kDepth = 4;
constexpr uint32_t kStart = 0U - 2;  // so that WQEs fail before, at and after the wrap

void ExpectError(const Status& status, Syndrome syndrome, uint32_t index) {
  EXPECT_EQ(status.code, Code::kError);
  EXPECT_EQ(status.syndrome, static_cast<uint8_t>(syndrome));
  EXPECT_EQ(status.vendor_syndrome, kVendorSyndrome);
  EXPECT_EQ(status.wqe_index, static_cast<uint16_t>(index));
}

/// A full queue, and a NIC that fails one of its WQEs when the test steps it.
template <class Sharing>
struct FailingQueue {
  FailingQueue(uint32_t position, Syndrome syndrome) {
    nic.FailAt(kStart + position, syndrome);
    while (tickets.size() < kDepth) tickets.push_back(queue.Post(Write(Remote(to), Local(from))).ticket);
  }

  void Step(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) ASSERT_TRUE(nic.Step());
  }

  uint64_t from = 42;
  uint64_t to = 0;
  TestQueue memory{kDepth, kStart};
  TestNic nic{memory, kStart};
  SendQueue<Cpu, Sharing> queue{ViewFor<Sharing>(memory)};
  std::vector<Ticket> tickets;
};

template <class Sharing>
class SendQueueError : public testing::Test {};

using Sharings = testing::Types<Exclusive, Shared, Contended>;
TYPED_TEST_SUITE(SendQueueError, Sharings);

TYPED_TEST(SendQueueError, ReachesTheFailedWqeAndAllLaterOnes) {
  for (const uint32_t position : {0, 1, 2, 3}) {
    SCOPED_TRACE(position);
    FailingQueue<TypeParam> failing(position, Syndrome::kRemoteAccess);
    failing.Step(position + 1);
    for (uint32_t i = kDepth; i-- > 0;) {  // from the end: the result must not depend on an earlier test
      const Status status = failing.queue.Test(failing.tickets[i]);
      if (i < position) {
        EXPECT_TRUE(status.ok()) << i;
      } else {
        ExpectError(status, Syndrome::kRemoteAccess, kStart + position);
      }
    }
  }
}

TYPED_TEST(SendQueueError, KeepsObservedCompletionsWhenAFlushHidesTheCause) {
  for (const uint32_t position : {0, 1, 2, 3}) {
    SCOPED_TRACE(position);
    FailingQueue<TypeParam> failing(position, Syndrome::kTransportRetryExceeded);
    failing.Step(position);
    for (uint32_t i = 0; i < position; ++i) EXPECT_TRUE(failing.queue.Test(failing.tickets[i]).ok()) << i;
    failing.Step(kDepth - position);
    for (uint32_t i = 0; i < position; ++i) EXPECT_TRUE(failing.queue.Test(failing.tickets[i]).ok()) << i;
    const auto newest = position == kDepth - 1 ? Syndrome::kTransportRetryExceeded : Syndrome::kFlushed;
    for (uint32_t i = position; i < kDepth; ++i) {
      ExpectError(failing.queue.Test(failing.tickets[i]), newest, kStart + kDepth - 1);
    }
  }
}

TYPED_TEST(SendQueueError, StaysTheFirst) {
  FailingQueue<TypeParam> failing(1, Syndrome::kRemoteAccess);
  failing.Step(2);
  ExpectError(failing.queue.Wait(failing.tickets[3], {}), Syndrome::kRemoteAccess, kStart + 1);
  failing.Step(2);  // the flushes
  ExpectError(failing.queue.Flush({}), Syndrome::kRemoteAccess, kStart + 1);
  const uint64_t word =
      kErrorValid | uint64_t{8} << 32 | uint64_t{0x13} << 24 | uint64_t{kVendorSyndrome} << 16 | 0xffff;
  EXPECT_EQ(failing.memory.control.error, word);
}

TYPED_TEST(SendQueueError, FailsPostsAtOnceWhenKnown) {
  FailingQueue<TypeParam> failing(0, Syndrome::kLocalProtection);
  failing.Step(1);
  const uint32_t record = failing.memory.dbrec;
  const auto put = [&](auto& queue) {
    return queue.Post(Write(Remote(failing.to), Local(failing.from))).status;
  };
  ExpectError(put(failing.queue), Syndrome::kLocalProtection, kStart);  // it polled for free slots
  ExpectError(put(failing.queue), Syndrome::kLocalProtection, kStart);
  SendQueue<Cpu, TypeParam> next(ViewFor<TypeParam>(failing.memory));
  ExpectError(put(next), Syndrome::kLocalProtection, kStart);
  EXPECT_EQ(failing.memory.dbrec, record);
}

TYPED_TEST(SendQueueError, IncludesErrorsOfTheResponder) {
  FailingQueue<TypeParam> failing(3, Syndrome::kLocalAccess);
  WriteCqe(failing.memory.cqe,
           {mlx5::CqeOpcode::kResponderError, static_cast<uint16_t>(kStart), Syndrome::kLocalAccess});
  ExpectError(failing.queue.Test(failing.tickets[0]), Syndrome::kLocalAccess, kStart);
}

}  // namespace
}  // namespace warpverbs::device
