#include "warpverbs/host/peer_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "host/device/softhca.hpp"
#include "host/endpoint/link.hpp"
#include "warpverbs/arch/cpu_warp.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/event_thread.hpp"

/// The state of peers as kernels see it, and how connections end and begin again.
namespace warpverbs::host {
namespace {

using device::PeerState;
using mlx5::Syndrome;
using testing::HasSubstr;

class PeerTableTest : public testing::Test {
 protected:
  bool Alive(uint32_t rank) const { return device::Peers<Cpu>(peers_.View()).Alive(rank); }

  Device device_;
  PeerTable peers_{3};
  Link link_{device_, {.peers = &peers_, .peer_rank = 1}};
};

TEST_F(PeerTableTest, AreAliveFromConnectToDisconnect) {
  EXPECT_FALSE(Alive(1));
  link_.Connect();
  EXPECT_TRUE(Alive(1));
  EXPECT_FALSE(Alive(0)) << "no endpoint leads there";
  EXPECT_FALSE(Alive(7)) << "the table has no such rank";
  link_.a.Disconnect();
  EXPECT_EQ(peers_.State(1), PeerState::kDisconnected);
}

TEST_F(PeerTableTest, FailWithAnErrorUntilTheReset) {
  link_.Connect();
  link_.PostWrongWrite();
  ASSERT_TRUE(Await([&] { return link_.a.LastError().has_value(); }));
  EXPECT_EQ(peers_.State(1), PeerState::kFailed);
  link_.a.Reset();
  EXPECT_EQ(peers_.State(1), PeerState::kDisconnected);
}

TEST_F(PeerTableTest, FailWithTheirPort) {
  EventThread events({.port_down_grace = std::chrono::milliseconds(0)});
  Link link(device_, {.events = &events, .peers = &peers_, .peer_rank = 2});
  link.Connect();
  SetLink(device_, false);
  EXPECT_TRUE(Await([&] { return peers_.State(2) == PeerState::kFailed; }));
  SetLink(device_, true);
}

TEST_F(PeerTableTest, CombineTheStatesOfTheirEndpoints) {
  link_.Connect();
  {
    Link second(device_, {.peers = &peers_, .peer_rank = 1});
    EXPECT_TRUE(Alive(1));
    second.Connect();
    second.PostWrongWrite();
    ASSERT_TRUE(Await([&] { return second.a.LastError().has_value(); }));
    EXPECT_EQ(peers_.State(1), PeerState::kFailed);
  }
  EXPECT_TRUE(Alive(1)) << "the other endpoint works";
}

TEST_F(PeerTableTest, AreCheckedByAWarpTogether) {
  link_.Connect();
  const device::Peers<Cpu> peers(peers_.View());
  EXPECT_EQ(peers.Alive(Cpu::ActiveLanes(), 1), 1u);
  EXPECT_EQ(peers.Alive(Cpu::ActiveLanes(), 0), 0u);
}

TEST_F(PeerTableTest, MustHaveAPlaceInTheTable) {
  try {
    const Endpoint endpoint(device_, {.peers = &peers_, .peer_rank = 3});
    FAIL() << "accepted an invalid rank";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("its table has 3 peers"));
  }
  EXPECT_THROW(PeerTable(0), Error);
}

TEST_F(PeerTableTest, FlushPendingWorkOnDisconnect) {
  link_.Connect();
  Hold(link_.a, true);
  Queue queue(link_.a.View());
  const device::Posted posted =
      queue.Post(device::Write(link_.target.Remote(0), link_.source.Local(0)), Within());
  ASSERT_TRUE(posted.status.ok());
  link_.a.Disconnect();
  Hold(link_.a, false);
  const device::Status status = queue.Wait(posted.ticket, Within());
  EXPECT_EQ(status.code, Code::kError);
  EXPECT_EQ(status.syndrome, static_cast<uint8_t>(Syndrome::kFlushed));
  ASSERT_TRUE(link_.a.LastError().has_value());
  EXPECT_THAT(link_.a.LastError()->Describe(), HasSubstr("were flushed: Disconnect() was called"));
  EXPECT_EQ(peers_.State(1), PeerState::kDisconnected) << "a disconnect is not a failure";
  EXPECT_EQ(link_.a.State(), mlx5::QpState::kError);
}

TEST_F(PeerTableTest, ReconnectRepeatedly) {
  link_.a.Disconnect();  // nothing is connected yet
  for (int cycle = 0; cycle < 20; ++cycle) {
    link_.Connect();
    ASSERT_TRUE(link_.Write(1 + cycle % 7).ok()) << "cycle " << cycle;
    link_.a.Disconnect();
    link_.a.Disconnect();
    link_.b.Disconnect();
    link_.a.Reset();
    link_.b.Reset();
    ASSERT_FALSE(link_.a.LastError().has_value());
  }
}

TEST_F(PeerTableTest, ReconnectAfterAFaultAndCarryData) {
  for (int cycle = 0; cycle < 10; ++cycle) {
    link_.Connect();
    ASSERT_TRUE(Alive(1));
    Force(link_.a, 2, Syndrome::kTransportRetryExceeded);
    const device::Status status = link_.Write(5);
    ASSERT_EQ(status.code, Code::kError);
    ASSERT_EQ(link_.a.LastError()->syndrome, static_cast<uint8_t>(Syndrome::kTransportRetryExceeded));
    ASSERT_EQ(peers_.State(1), PeerState::kFailed);
    link_.a.Disconnect();
    link_.b.Disconnect();
    link_.a.Reset();
    link_.b.Reset();
    link_.Connect();
    ASSERT_TRUE(link_.Write(100).ok()) << "cycle " << cycle;
    link_.a.Reset();
    link_.b.Reset();
  }
}

TEST_F(PeerTableTest, MayBeReadWhileTheHostUpdatesThem) {
  std::jthread kernel([&](const std::stop_token& stop) {
    const device::Peers<Cpu> peers(peers_.View());
    while (!stop.stop_requested()) EXPECT_NE(peers.State(1), PeerState::kFailed);
  });
  for (int i = 0; i < 50; ++i) {
    link_.Connect();
    link_.a.Disconnect();
    link_.a.Reset();
    link_.b.Reset();
  }
}

}  // namespace
}  // namespace warpverbs::host
