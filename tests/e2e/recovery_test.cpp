#include <gtest/gtest.h>

#include <vector>

#include "control.hpp"
#include "traffic.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/host/error.hpp"

/// Tests endpoints that are reset and connected again many times.
namespace warpverbs::e2e {
namespace {

using device::Code;
using host::CqMode;

constexpr uint64_t kCycles = 20, kRounds = 50;

class Recovery : public testing::TestWithParam<CqMode> {
 protected:
  Recovery() { pair.Connect(); }

  Pair pair{{.a = {.depth = 16, .cq_mode = GetParam()}, .b = {.receive_depth = 4}}};
};

TEST_P(Recovery, SurvivesResetsBetweenTraffic) {
  const uint32_t qpn = pair.a.qpn();
  for (uint64_t cycle = 0; cycle < kCycles; ++cycle) {
    ASSERT_EQ(RunTraffic<device::Exclusive>(pair, 0, kRounds, cycle * kRounds), "") << "cycle " << cycle;
    pair.Reconnect();
    ASSERT_EQ(pair.a.qpn(), qpn);
    ASSERT_EQ(pair.a.View().control->tail, 0u);
  }
}

TEST_P(Recovery, SurvivesResetsWithWorkInProgress) {
  for (uint64_t cycle = 0; cycle < kCycles; ++cycle) {
    ASSERT_EQ(RunTraffic<device::Shared>(pair, 0, kRounds, cycle * kRounds), "") << "cycle " << cycle;
    Queue<device::Shared> queue(pair.a.View());
    for (int i = 0; i < 16; ++i) ASSERT_TRUE(pair.PutWord(queue, 100).status.ok());
    pair.Reconnect();
    EXPECT_FALSE(pair.a.LastError().has_value());
  }
}

TEST_P(Recovery, SurvivesFailuresFollowedByResets) {
  for (uint64_t cycle = 0; cycle < kCycles; ++cycle) {
    const auto first = static_cast<uint32_t>(7 * kRounds);  // slots that the traffic takes
    Force(pair.device, pair.a, first + cycle % 8, mlx5::Syndrome::kRemoteOperation);
    ASSERT_EQ(RunTraffic<device::Shared>(pair, 0, kRounds, cycle * kRounds), "") << "cycle " << cycle;
    Queue<device::Shared> queue(pair.a.View());
    std::vector<device::Ticket> tickets;
    for (int i = 0; i < 16; ++i) tickets.push_back(pair.PutWord(queue, 100).ticket);
    EXPECT_EQ(queue.Wait(tickets.back(), Within()).code, Code::kError);
    ASSERT_TRUE(pair.a.LastError().has_value());
    pair.Reconnect();
    EXPECT_FALSE(pair.a.LastError().has_value());
  }
}

TEST_P(Recovery, RestartsTheReceiveQueue) {
  for (uint32_t cycle = 0; cycle < kCycles; ++cycle) {
    Queue<device::Exclusive> queue(pair.a.View());
    device::ReceiveQueue<Cpu> receives(pair.b.ReceiveView());
    for (uint32_t i = 0; i < 4; ++i) ASSERT_EQ(receives.Post(pair.TargetLocal(8 * i, 8)).code, Code::kOk);
    receives.Submit();
    const uint32_t messages = 1 + cycle % 4;  // so that the ring of completions starts at any slot
    for (uint32_t i = 0; i < messages; ++i) {
      pair.Source(0) = 100 * cycle + i;
      const device::Posted posted = queue.Post(device::SendImm(pair.Local(0, 8), mlx5::Be32{i}), Within());
      ASSERT_EQ(queue.Wait(posted.ticket, Within()).code, Code::kOk);
      const device::Received received = receives.Poll(Within());
      ASSERT_EQ(received.status.code, Code::kOk) << "cycle " << cycle;
      EXPECT_EQ(received.index, i);
      EXPECT_EQ(received.imm.raw, i);
      EXPECT_EQ(pair.Target(i), 100 * cycle + i);
    }
    pair.Reconnect();
  }
}

TEST_P(Recovery, SecondConnectNeedsAReset) {
  EXPECT_THROW(pair.a.Connect(pair.b.Info()), host::Error);
  pair.Reconnect();
  EXPECT_EQ(RunTraffic<device::Exclusive>(pair, 0, 1), "");
}

INSTANTIATE_TEST_SUITE_P(, Recovery, testing::Values(CqMode::kCollapsed, CqMode::kRing),
                         [](const auto& test) {
                           return test.param == CqMode::kRing ? "OnARing" : "Collapsed";
                         });

}  // namespace
}  // namespace warpverbs::e2e
