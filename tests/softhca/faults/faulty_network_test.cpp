#include "faults/faulty_network.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/queues.hpp"

namespace softhca {
namespace {

/// Does nothing; its next event is due at 9 us.
class QuietNetwork : public Network {
 public:
  void OnTransition(QueuePair&) override {}
  bool Run(QueuePair& qp, uint64_t) override { return !qp.injected_failures.empty(); }
  bool Poll(uint64_t) override { return false; }
  uint64_t NextNs() const override { return 9'000; }
  bool Listens() const override { return true; }
  void Wait(uint64_t) override {}
};

class FaultyNetworkTest : public testing::Test {
 protected:
  FaultyNetwork Network(std::vector<std::string> rules) {
    return {std::make_unique<QuietNetwork>(), ParseFaults(rules), {&hca}, 1'000, [this] { killed = true; }};
  }
  bool IsUp() const { return hca.config().ports[0].up; }

  Hca hca{TestDevice()};
  bool killed = false;
};

TEST_F(FaultyNetworkTest, TakesLinksDownAndUpAtTheirTimes) {
  std::vector<bool> events;
  hca.AddLinkListener(this, [&](uint8_t, bool up) { events.push_back(up); });
  FaultyNetwork network = Network({"link-down,after=2us,for=3us"});
  EXPECT_EQ(network.NextNs(), 3'000u);
  EXPECT_FALSE(network.Poll(2'999));
  EXPECT_TRUE(IsUp());
  EXPECT_TRUE(network.Poll(3'000));
  EXPECT_FALSE(IsUp());
  EXPECT_EQ(network.NextNs(), 6'000u);
  network.Poll(6'000);
  EXPECT_TRUE(IsUp());
  EXPECT_EQ(events, (std::vector<bool>{false, true}));
  EXPECT_EQ(network.NextNs(), 9'000u) << "the network's own";
}

TEST_F(FaultyNetworkTest, LeavesLinksOfOtherPortsUp) {
  FaultyNetwork network = Network({"link-down,port=mlx5_7/1"});
  network.Poll(1'000'000);
  EXPECT_TRUE(IsUp());
}

TEST_F(FaultyNetworkTest, InjectsSyndromesOnceIntoTheNamedQueuePairs) {
  const uint32_t pd = hca.AllocPd();
  QpUser a(hca, pd), b(hca, pd);
  FaultyNetwork network = Network(
      {"syndrome:0x13,qp=" + std::to_string(a.qpn) + ",index=3,vendor=0x88", "syndrome:0x15,index=5"});
  EXPECT_TRUE(network.Run(a.qp(), 0));
  EXPECT_TRUE(network.Run(b.qp(), 0));
  ASSERT_EQ(a.qp().injected_failures.size(), 2u);
  EXPECT_EQ(a.qp().injected_failures.at(3).syndrome, mlx5::Syndrome::kRemoteAccess);
  EXPECT_EQ(a.qp().injected_failures.at(3).vendor_syndrome, 0x88);
  ASSERT_EQ(b.qp().injected_failures.size(), 1u);
  EXPECT_EQ(b.qp().injected_failures.at(5).syndrome, mlx5::Syndrome::kTransportRetryExceeded);
  a.qp().injected_failures.clear();
  EXPECT_FALSE(network.Run(a.qp(), 0)) << "a rule applies once, even after a reset";
}

TEST_F(FaultyNetworkTest, KillsTheProcessAtItsTime) {
  FaultyNetwork network = Network({"kill,after=1us"});
  network.Poll(1'999);
  EXPECT_FALSE(killed);
  network.Poll(2'000);
  EXPECT_TRUE(killed);
}

}  // namespace
}  // namespace softhca
