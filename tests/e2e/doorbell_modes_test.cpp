#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "traffic.hpp"
#include "warpverbs/host/doorbell_thread.hpp"

/// The same traffic in every doorbell mode.
namespace warpverbs::e2e {
namespace {

using device::Code;
using host::DoorbellMode;

class DoorbellModes : public testing::TestWithParam<DoorbellMode> {};

TEST_P(DoorbellModes, CarryTheTrafficOfOnePoster) {
  Pair pair({.a = {.depth = 16, .doorbell = GetParam()}});
  pair.Connect();
  ASSERT_EQ(pair.a.doorbell_mode(), GetParam());
  EXPECT_EQ(RunTraffic<device::Exclusive>(pair, 0, 15'000), "") << "its index passes 16 bits";
}

TEST_P(DoorbellModes, CarryTheTrafficOfFourSharers) {
  constexpr size_t kThreads = 4;
  Pair pair({.a = {.depth = 8, .cq_mode = host::CqMode::kRing, .doorbell = GetParam()}});
  pair.Connect();
  std::vector<std::string> wrong(kThreads);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] { wrong[i] = RunTraffic<device::Shared>(pair, i * kTrafficWords, 1000); });
  }
  for (const std::string& text : wrong) EXPECT_EQ(text, "");
}

TEST_P(DoorbellModes, RecoverFromAFailureByAReset) {
  Pair pair({.a = {.depth = 8, .doorbell = GetParam()}});
  pair.Connect();
  for (uint64_t cycle = 0; cycle < 5; ++cycle) {
    ASSERT_EQ(RunTraffic<device::Exclusive>(pair, 0, 20, 20 * cycle), "") << "cycle " << cycle;
    Queue<device::Exclusive> queue(pair.a.View());
    device::RemoteMemory wrong = pair.Remote(0);
    wrong.rkey.raw = ~wrong.rkey.raw;
    const device::Posted posted = queue.Post(device::Write(wrong, pair.Local(0, 8)), Within());
    ASSERT_EQ(queue.Wait(posted.ticket, Within()).code, Code::kError);
    pair.Reconnect();
  }
}

INSTANTIATE_TEST_SUITE_P(, DoorbellModes,
                         testing::Values(DoorbellMode::kGpu, DoorbellMode::kHostProxy,
                                         DoorbellMode::kHostPosts),
                         [](const auto& test) {
                           switch (test.param) {
                             case DoorbellMode::kHostProxy:
                               return "HostRings";
                             case DoorbellMode::kHostPosts:
                               return "HostPosts";
                             default:
                               return "Device";
                           }
                         });

TEST(DoorbellThread, ServesQueuesOfBothKinds) {
  constexpr size_t kQueues = 4;
  host::DoorbellThread thread;
  std::vector<std::unique_ptr<Pair>> pairs;
  for (size_t i = 0; i < kQueues; ++i) {
    const DoorbellMode mode = i % 2 == 0 ? DoorbellMode::kHostProxy : DoorbellMode::kHostPosts;
    pairs.push_back(std::make_unique<Pair>(
        PairOptions{.a = {.depth = 16, .doorbell = mode, .doorbell_thread = &thread}}));
    pairs.back()->Connect();
  }
  std::vector<std::string> wrong(kQueues);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kQueues; ++i)
      threads.emplace_back([&, i] { wrong[i] = RunTraffic<device::Exclusive>(*pairs[i], 0, 500); });
  }
  for (const std::string& text : wrong) EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace warpverbs::e2e
