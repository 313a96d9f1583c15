#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "abort.hpp"
#include "control.hpp"
#include "pair.hpp"

/// Tests that every wait ends: with a peer or NIC that stalls, a poster that gives up, and a host that
/// aborts.
namespace warpverbs::e2e {
namespace {

using device::Code;
using device::Shared;
using device::Status;
using host::CqMode;
using mlx5::Syndrome;

constexpr uint32_t kDepth = 4;

/// A queue full of writes, whose NIC is stalled.
template <class Sharing>
class HeldQueue : public testing::Test {
 protected:
  HeldQueue() {
    pair.Connect();
    hold.emplace(pair.device, pair.a);
    for (uint32_t i = 0; i < kDepth; ++i) {
      pair.Source(i) = i + 1;
      last = pair.PutWord(queue, i, {}).ticket;
    }
  }

  Pair pair{{.a = {.depth = kDepth}}};
  std::optional<Hold> hold;
  Queue<Sharing> queue{pair.a.View()};
  device::Ticket last{};
};
using Sharings = testing::Types<device::Exclusive, Shared>;
TYPED_TEST_SUITE(HeldQueue, Sharings);

TYPED_TEST(HeldQueue, ReturnsAtOnceWithoutADeadline) {
  EXPECT_EQ(this->pair.PutWord(this->queue, 0, {}).status.code, Code::kFull);
  EXPECT_EQ(this->queue.Begin(1).status().code, Code::kFull);
  EXPECT_EQ(this->queue.Wait(this->last, {}).code, Code::kTimeout);
  EXPECT_EQ(this->queue.Flush({}).code, Code::kTimeout);
  EXPECT_EQ(this->queue.Test(this->last).code, Code::kPending);
}

TYPED_TEST(HeldQueue, EndsEveryWaitAtItsDeadline) {
  const auto soon = [] { return device::WaitLimit{.deadline_ns = Cpu::NowNs() + 2'000'000}; };
  EXPECT_EQ(this->pair.PutWord(this->queue, 0, soon()).status.code, Code::kTimeout);
  EXPECT_EQ(this->queue.Begin(1, soon()).status().code, Code::kTimeout);
  EXPECT_EQ(this->queue.Wait(this->last, soon()).code, Code::kTimeout);
  EXPECT_EQ(this->queue.Flush(soon()).code, Code::kTimeout);
}

TYPED_TEST(HeldQueue, EndsEveryWaitOnAbort) {
  EXPECT_EQ(this->pair.PutWord(this->queue, 0, Abort().limit()).status.code, Code::kAborted);
  EXPECT_EQ(this->queue.Begin(1, Abort().limit()).status().code, Code::kAborted);
  EXPECT_EQ(this->queue.Wait(this->last, Abort().limit()).code, Code::kAborted);
  EXPECT_EQ(this->queue.Flush(Abort().limit()).code, Code::kAborted);
}

TYPED_TEST(HeldQueue, LosesNothingWhenItResumes) {
  EXPECT_EQ(this->pair.PutWord(this->queue, 0, {}).status.code, Code::kFull);
  this->hold->Release();
  EXPECT_EQ(this->queue.Wait(this->last, Within()).code, Code::kOk);
  for (uint32_t i = 0; i < kDepth; ++i) EXPECT_EQ(this->pair.Target(i), i + 1);
  EXPECT_EQ(this->queue.Wait(this->pair.PutWord(this->queue, 0).ticket, Within()).code, Code::kOk);
}

/// A thread reserves slots and does not publish them, so that later posters wait for it.
class Turn : public testing::TestWithParam<CqMode> {
 protected:
  Turn() { pair.Connect(); }

  Pair pair{{.a = {.depth = 16, .cq_mode = GetParam()}}};
};

TEST_P(Turn, ComesWhenTheBatchBeforeIsPublished) {
  Queue<Shared> first(pair.a.View());
  auto batch = first.Begin(2, Within());
  pair.Source(0) = 42;
  Status status{.code = Code::kPending};
  std::jthread successor([&] {
    Queue<Shared> second(pair.a.View());
    const device::Posted posted = pair.PutWord(second, 0);
    status = posted.status.ok() ? second.Wait(posted.ticket, Within()) : posted.status;
  });
  for (device::Waiter<Cpu> waiter(Within()); Cpu::Load(&pair.a.View().control->tail) >> 32 != 3;)
    ASSERT_EQ(waiter.Next(), Code::kPending) << "the successor does not reserve";
  EXPECT_EQ(batch.Submit().status.code, Code::kOk);
  successor.join();
  EXPECT_EQ(status.code, Code::kOk);
  EXPECT_EQ(pair.Target(0), 42u);
}

TEST_P(Turn, FailsTheQueueWhenItsWaiterAborts) {
  Queue<Shared> first(pair.a.View()), second(pair.a.View()), third(pair.a.View());
  {
    const auto unpublished = first.Begin(2, Within());
    ASSERT_EQ(unpublished.status().code, Code::kOk);
    const Status gave_up = pair.PutWord(second, 0, Abort().limit()).status;
    EXPECT_EQ(gave_up.code, Code::kError) << "its slot stays reserved";
    EXPECT_EQ(gave_up.syndrome, 0);
  }
  const Status refused = pair.PutWord(third, 0).status;
  EXPECT_EQ(refused.code, Code::kError);
  EXPECT_EQ(refused.syndrome, 0);
  EXPECT_EQ(third.Wait({5}, Within()).code, Code::kError);
  EXPECT_EQ(pair.PutWord(second, 0).status.code, Code::kError);
  const auto error = pair.a.LastError();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->syndrome, 0);
  EXPECT_EQ(error->wqe_index, 2) << "the abandoned WQE";
  EXPECT_NE(error->Describe().find("gave up"), std::string::npos) << error->Describe();

  pair.Reconnect();
  Queue<Shared> fresh(pair.a.View());
  EXPECT_EQ(fresh.Wait(pair.PutWord(fresh, 0).ticket, Within()).code, Code::kOk);
}

INSTANTIATE_TEST_SUITE_P(, Turn, testing::Values(CqMode::kCollapsed, CqMode::kRing), [](const auto& test) {
  return test.param == CqMode::kRing ? "OnARing" : "Collapsed";
});

class StickyError : public testing::TestWithParam<CqMode> {};

TEST_P(StickyError, ReachesThreadsThatWaitForSlotsAndForTickets) {
  constexpr size_t kThreads = 4;
  Pair pair({.a = {.depth = kDepth, .cq_mode = GetParam()}});
  pair.Connect();
  Hold hold(pair.device, pair.a);
  Force(pair.device, pair.a, 0,
        Syndrome::kRemoteAborted);  // the first WQE: otherwise one thread would get room
  Queue<Shared> queue(pair.a.View());
  for (uint32_t i = 0; i < kDepth; ++i) ASSERT_TRUE(pair.PutWord(queue, i, {}).status.ok());
  std::vector<Status> statuses(kThreads);
  uint64_t started = 0;
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        Queue<Shared> mine(pair.a.View());
        std::atomic_ref(started).fetch_add(1);
        statuses[i] = i % 2 == 0 ? mine.Wait({2}, Within()) : pair.PutWord(mine, 0).status;
      });
    }
    for (device::Waiter<Cpu> waiter(Within()); Cpu::Load(&started) != kThreads;)
      ASSERT_EQ(waiter.Next(), Code::kPending);
    hold.Release();
  }
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, Code::kError);
    if (GetParam() == CqMode::kRing) {
      EXPECT_EQ(static_cast<Syndrome>(status.syndrome), Syndrome::kRemoteAborted);
      EXPECT_EQ(status.wqe_index, 0);
    }
  }
  const auto error = pair.a.LastError();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->peer.value().qpn, pair.b.qpn());
}

INSTANTIATE_TEST_SUITE_P(, StickyError, testing::Values(CqMode::kCollapsed, CqMode::kRing),
                         [](const auto& test) {
                           return test.param == CqMode::kRing ? "OnARing" : "Collapsed";
                         });

TEST(PeerGone, EndsPostsAndWaitsDuringTraffic) {
  // Two threads fill the queue and wait for their tickets; the others wait for room.
  Pair pair({.a = {.depth = 2, .cq_mode = CqMode::kRing, .retry = {.ack_timeout = 8, .retry_count = 1}}});
  auto peer = std::make_optional<host::Endpoint>(pair.device);
  pair.a.Connect(peer->Info());
  peer->Connect(pair.a.Info());
  std::vector<Status> statuses(4);
  uint64_t done = 0;
  {
    std::vector<std::jthread> threads;
    for (Status& status : statuses) {
      threads.emplace_back([&] {
        Queue<Shared> queue(pair.a.View());
        while (status.ok()) {
          const device::Posted posted = pair.PutWord(queue, 0);
          status = posted.status.ok() ? queue.Wait(posted.ticket, Within()) : posted.status;
          std::atomic_ref(done).fetch_add(1);
        }
      });
    }
    for (device::Waiter<Cpu> waiter(Within()); Cpu::Load(&done) < 1000 && waiter.Next() == Code::kPending;) {
    }
    peer.reset();  // always: nothing else ends the threads
  }
  EXPECT_GE(done, 1000u);
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, Code::kError);
    EXPECT_EQ(static_cast<Syndrome>(status.syndrome), Syndrome::kTransportRetryExceeded);
  }
}

}  // namespace
}  // namespace warpverbs::e2e
