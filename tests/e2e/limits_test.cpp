#include <gtest/gtest.h>

#include <thread>

#include "pair.hpp"

/// Tests that every wait ends: at its deadline, on its abort word, or at once without room.
namespace warpverbs::e2e {
namespace {

constexpr uint32_t kDepth = 4;
constexpr uint64_t kShortNs = 5'000'000;

using device::Code;

/// A pair whose second endpoint is not connected, so that no write completes.
template <class Sharing>
class Limits : public testing::Test {
 protected:
  Limits() {
    pair.a.Connect(pair.b.Info());
    for (uint32_t i = 0; i < kDepth; ++i) {
      const device::Posted posted = pair.PutWord(queue, i, {});
      EXPECT_EQ(posted.status.code, Code::kOk);
      last = posted.ticket;
    }
  }

  // An attempt lasts a second. Together they outlast a test, and one of them finds a peer that connects late.
  Pair pair{{.a = {.depth = kDepth, .retry = {.ack_timeout = 18, .retry_count = 7}}}};
  Queue<Sharing> queue{pair.a.View()};
  device::Ticket last{};
};
using Sharings = testing::Types<device::Exclusive, device::Shared>;
TYPED_TEST_SUITE(Limits, Sharings);

TYPED_TEST(Limits, WaitWithoutDeadlinePollsOnce) {
  EXPECT_EQ(this->queue.Test(this->last).code, Code::kPending);
  EXPECT_EQ(this->queue.Wait(this->last, {}).code, Code::kTimeout);
  EXPECT_EQ(this->queue.Flush({}).code, Code::kTimeout);
}

TYPED_TEST(Limits, WaitEndsAtItsDeadline) {
  const uint64_t start = Cpu::NowNs();
  EXPECT_EQ(this->queue.Wait(this->last, {.deadline_ns = start + kShortNs}).code, Code::kTimeout);
  EXPECT_GE(Cpu::NowNs() - start, kShortNs);
}

TYPED_TEST(Limits, WaitEndsWhenAnotherThreadAborts) {
  uint64_t abort = 0;
  std::jthread aborter([&] { Cpu::Store(&abort, 1); });
  device::WaitLimit limit = Within();
  limit.abort = &abort;
  EXPECT_EQ(this->queue.Wait(this->last, limit).code, Code::kAborted);
}

TYPED_TEST(Limits, PostToAFullQueueReturnsFull) {
  EXPECT_EQ(this->pair.PutWord(this->queue, kDepth, {}).status.code, Code::kFull);
}

TYPED_TEST(Limits, PostToAFullQueueEndsAtItsDeadline) {
  const uint64_t start = Cpu::NowNs();
  const device::WaitLimit limit{.deadline_ns = start + kShortNs};
  EXPECT_EQ(this->pair.PutWord(this->queue, kDepth, limit).status.code, Code::kTimeout);
  EXPECT_GE(Cpu::NowNs() - start, kShortNs);
}

TYPED_TEST(Limits, PostToAFullQueueEndsWhenAnotherThreadAborts) {
  uint64_t abort = 0;
  std::jthread aborter([&] { Cpu::Store(&abort, 1); });
  device::WaitLimit limit = Within();
  limit.abort = &abort;
  EXPECT_EQ(this->pair.PutWord(this->queue, kDepth, limit).status.code, Code::kAborted);
}

TYPED_TEST(Limits, TimedOutWriteCompletesWhenThePeerConnects) {
  ASSERT_EQ(this->queue.Wait(this->last, {}).code, Code::kTimeout);
  this->pair.b.Connect(this->pair.a.Info());
  EXPECT_EQ(this->queue.Wait(this->last, Within()).code, Code::kOk);
  EXPECT_EQ(this->pair.PutWord(this->queue, kDepth).status.code, Code::kOk);
  EXPECT_EQ(this->queue.Flush(Within()).code, Code::kOk);
}

}  // namespace
}  // namespace warpverbs::e2e
