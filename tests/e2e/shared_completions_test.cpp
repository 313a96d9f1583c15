#include "warpverbs/host/shared_completions.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "control.hpp"
#include "traffic.hpp"

/// Several send queues that complete on one ring.
namespace warpverbs::e2e {
namespace {

using device::Code;

constexpr uint32_t kDepth = 16;

class SharedRing : public testing::Test {
 protected:
  Pair& AddQueue() {
    Pair& pair = queues.emplace_back(PairOptions{.a = {.depth = kDepth, .completions = &ring}}, device);
    pair.Connect();
    return pair;
  }

  std::shared_ptr<host::Device> device = OpenNic();
  host::SharedCompletions ring{*device, {.depth = 64, .max_queues = 4}};
  std::deque<Pair> queues;
};

TEST_F(SharedRing, ServesFourQueuesOfTwoThreadsEach) {
  constexpr size_t kQueues = 4, kThreads = 2;
  constexpr uint32_t kRounds = 2000;
  for (size_t i = 0; i < kQueues; ++i) AddQueue();
  std::vector<std::string> wrong(kQueues * kThreads);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < wrong.size(); ++i) {
      threads.emplace_back([&, i] {
        const size_t first = i % kThreads * kTrafficWords;
        wrong[i] = RunTraffic<device::Shared>(queues[i / kThreads], first, kRounds);
      });
    }
  }
  for (const std::string& text : wrong) EXPECT_EQ(text, "");
}

TEST_F(SharedRing, ExclusivePostersServeEachOthersQueues) {
  Pair& first = AddQueue();
  Pair& second = AddQueue();
  Queue<device::Exclusive> one(first.a.View()), other(second.a.View());
  for (int i = 0; i < 1000; ++i) {
    const device::Posted a = first.PutWord(one, 0), b = second.PutWord(other, 0);
    ASSERT_EQ(other.Wait(b.ticket, Within()).code, Code::kOk);
    ASSERT_EQ(one.Wait(a.ticket, Within()).code, Code::kOk);
  }
}

TEST_F(SharedRing, FailureOfOneQueueKeepsItsCauseAndSparesTheOthers) {
  Pair& good = AddQueue();
  Pair& bad = AddQueue();
  Force(*device, bad.a, 2, mlx5::Syndrome::kRemoteOperation);
  Queue<device::Exclusive> failing(bad.a.View());
  std::vector<device::Ticket> tickets;
  for (uint32_t i = 0; i < kDepth; ++i) tickets.push_back(bad.PutWord(failing, i, {}).ticket);
  EXPECT_EQ(RunTraffic<device::Shared>(good, 0, 100), "") << "the good queue drains for both";
  for (uint32_t i = 0; i < kDepth; ++i) {
    const device::Status status = failing.Wait(tickets[i], Within());
    EXPECT_EQ(status.code, i < 2 ? Code::kOk : Code::kError);
    if (i < 2) continue;
    EXPECT_EQ(static_cast<mlx5::Syndrome>(status.syndrome), mlx5::Syndrome::kRemoteOperation);
    EXPECT_EQ(status.wqe_index, 2);
  }
  EXPECT_FALSE(good.a.LastError().has_value());
  ASSERT_TRUE(bad.a.LastError().has_value());

  bad.Reconnect();
  EXPECT_EQ(RunTraffic<device::Exclusive>(bad, 0, 100), "");
  EXPECT_EQ(RunTraffic<device::Shared>(good, 0, 100, 100), "");
}

TEST_F(SharedRing, QueuesComeAndGoWhileOthersWork) {
  constexpr int kCycles = 20;
  Pair& permanent = AddQueue();
  std::string wrong;
  {
    const std::jthread worker([&](const std::stop_token& stop) {
      for (uint64_t value = 0; wrong.empty() && !stop.stop_requested(); value += 100)
        wrong = RunTraffic<device::Shared>(permanent, 0, 100, value);
    });
    for (int cycle = 0; cycle < kCycles; ++cycle) {
      Pair passing({.a = {.depth = kDepth, .completions = &ring}}, device);
      passing.Connect();
      EXPECT_EQ(RunTraffic<device::Exclusive>(passing, 0, 10), "");
      // Destroyed with completions still on the ring. The next queue in its place must not receive them.
      Queue<device::Exclusive> queue(passing.a.View());
      for (int i = 0; i < 4; ++i) EXPECT_TRUE(passing.PutWord(queue, 100).status.ok());
    }
  }
  EXPECT_EQ(wrong, "");
}

}  // namespace
}  // namespace warpverbs::e2e
