#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "host/endpoint/dead_drainer.hpp"
#include "host/endpoint/link.hpp"
#include "queue/completion_queue.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/peer_table.hpp"
#include "warpverbs/host/shared_completions.hpp"
#include "warpverbs/mlx5/syndrome.hpp"
#include "warpverbs/mlx5/wqe.hpp"

/// Endpoint::LastError(): the host reports a failure whether or not a poster has seen it.
namespace warpverbs::host {
namespace {

using mlx5::Syndrome;
using testing::AllOf;
using testing::HasSubstr;

constexpr auto kRemoteAccess = static_cast<uint8_t>(Syndrome::kRemoteAccess);

class LastError : public testing::Test {
 protected:
  /// Waits until an endpoint reports a syndrome. It may report nothing, or something else, at first.
  static bool AwaitSyndrome(const Endpoint& endpoint, uint8_t syndrome) {
    return Await([&] {
      const std::optional<QueueError> error = endpoint.LastError();
      return error.has_value() && error->syndrome == syndrome;
    });
  }

  /// Posts four writes at once. The peer must refuse the first one.
  static void PostBurst(Link& link) {
    Queue queue(link.a.View());
    device::RemoteMemory wrong = link.target.Remote(0);
    wrong.rkey.raw = ~wrong.rkey.raw;
    auto batch = queue.Begin(4);
    EXPECT_TRUE(batch.Add(device::Write(wrong, link.source.Local(0))).status.ok());
    for (int i = 0; i < 3; ++i)
      EXPECT_TRUE(batch.Add(device::Write(link.target.Remote(0), link.source.Local(0))).status.ok());
    ASSERT_TRUE(batch.Submit().status.ok());
  }

  Device device_;
};

TEST_F(LastError, IsEmptyWithoutFailure) {
  for (const CqMode mode : {CqMode::kCollapsed, CqMode::kRing}) {
    Link link(device_, {.cq_mode = mode});
    EXPECT_FALSE(link.a.LastError().has_value());
    link.Connect();
    ASSERT_TRUE(link.Write(3).ok());
    EXPECT_FALSE(link.a.LastError().has_value());
  }
}

TEST_F(LastError, ReportsWhatAPosterHasSeen) {
  Link link(device_);
  link.Connect();
  ASSERT_TRUE(link.Write(2).ok());
  link.PostWrongWrite();
  ASSERT_TRUE(Await([&] { return Queue(link.a.View()).Flush({}).code == Code::kError; }));
  EXPECT_NE(Cpu::Load(link.a.View().control->host_error), 0);
  const std::optional<QueueError> error = link.a.LastError();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->syndrome, kRemoteAccess);
  EXPECT_EQ(error->opcode, static_cast<uint8_t>(mlx5::WqeOpcode::kRdmaWrite));
  EXPECT_EQ(error->wqe_index, 2);
  EXPECT_EQ(error->qpn, link.a.qpn());
  ASSERT_TRUE(error->peer.has_value());
  EXPECT_EQ(error->peer->qpn, link.b.qpn());
  EXPECT_THAT(error->Describe(), AllOf(HasSubstr("QP " + std::to_string(link.a.qpn()) + " to QP " +
                                                 std::to_string(link.b.qpn()) + " at "),
                                       HasSubstr("RDMA write at WQE index 2: remote access error")));
}

TEST_F(LastError, ReportsWhatNoPosterHasSeen) {
  SharedCompletions shared(device_);
  for (const EndpointConfig& config : {EndpointConfig{}, EndpointConfig{.cq_mode = CqMode::kCollapsed},
                                       EndpointConfig{.completions = &shared}}) {
    Link link(device_, config);
    link.Connect();
    link.PostWrongWrite();
    ASSERT_TRUE(Await([&] { return link.a.LastError().has_value(); }));
    EXPECT_EQ(link.a.LastError()->syndrome, kRemoteAccess);
    EXPECT_EQ(Cpu::Load(link.a.View().control->host_error), 0) << "only the host has seen it";
  }
}

TEST_F(LastError, KeepsTheCauseOfABurstOnARing) {
  Link link(device_, {.cq_mode = CqMode::kRing});
  link.Connect();
  PostBurst(link);
  ASSERT_TRUE(Await([&] { return link.a.LastError().has_value(); }));
  EXPECT_EQ(link.a.LastError()->syndrome, kRemoteAccess);
  EXPECT_EQ(link.a.LastError()->wqe_index, 0);
}

TEST_F(LastError, SaysThatACollapsedCqLostTheCause) {
  Link link(device_, {.cq_mode = CqMode::kCollapsed});
  link.Connect();
  PostBurst(link);
  ASSERT_TRUE(AwaitSyndrome(link.a, static_cast<uint8_t>(Syndrome::kFlushed)));
  EXPECT_THAT(link.a.LastError()->Describe(), HasSubstr("CqMode::kRing"));
}

TEST_F(LastError, SaysThatAPosterGaveUpUnlessTheNicKnowsMore) {
  Link link(device_);
  link.Connect();
  Cpu::Store(link.a.View().control->host_error, device::kErrorValid | 7);
  ASSERT_TRUE(link.a.LastError().has_value());
  EXPECT_EQ(link.a.LastError()->syndrome, 0);
  EXPECT_EQ(link.a.LastError()->wqe_index, 7);
  EXPECT_THAT(link.a.LastError()->Describe(), HasSubstr("gave up"));
  link.PostWrongWrite();
  EXPECT_TRUE(AwaitSyndrome(link.a, kRemoteAccess));
}

TEST_F(LastError, DoesNotNeedTheLockOfADeadPoster) {
  SharedCompletions shared(device_);
  Link link(device_, {.completions = &shared});
  link.Connect();
  ASSERT_TRUE(link.Write(3).ok());
  device::CompletionRingControl& ring = shared.control();
  const uint64_t consumer = Cpu::Load(&ring.consumer);
  Cpu::Store(&ring.consumer, consumer | device::kRingLocked);
  PostBurst(link);
  ASSERT_TRUE(Await([&] { return link.a.LastError().has_value(); }));
  EXPECT_EQ(link.a.LastError()->syndrome, kRemoteAccess);
  EXPECT_EQ(link.a.LastError()->wqe_index, 3);
  EXPECT_EQ(Cpu::Load(&ring.consumer), consumer | device::kRingLocked);
  EXPECT_EQ(link.a.View().cqe[63] >> 4, 0) << "LastError() consumes nothing";
  Cpu::Store(&ring.consumer, consumer);
}

TEST_F(LastError, IsPerQueueOnASharedRing) {
  SharedCompletions shared(device_);
  Link good(device_, {.completions = &shared}), bad(device_, {.completions = &shared});
  good.Connect();
  bad.Connect();
  Cpu::Store(&shared.control().consumer, device::kRingLocked);
  PostBurst(bad);
  ASSERT_TRUE(Await([&] { return bad.a.LastError().has_value(); }));
  EXPECT_FALSE(good.a.LastError().has_value());
  Cpu::Store(&shared.control().consumer, 0);
}

TEST_F(LastError, ReportsTheCauseOfAFlushThatAPosterHasSeen) {
  Link link(device_, {.cq_mode = CqMode::kRing});
  link.Connect();
  PostBurst(link);
  Cpu::Store(link.a.View().control->host_error, device::kErrorValid | uint64_t{5} << 24 | 1);
  EXPECT_TRUE(AwaitSyndrome(link.a, kRemoteAccess));
}

TEST_F(LastError, ReportsWhyAReceiveFailed) {
  Link link(device_, {}, {.receive_depth = 4});
  for (int cycle = 0; cycle < 5; ++cycle) {
    link.Connect();
    EXPECT_FALSE(link.b.LastError().has_value()) << "cycle " << cycle;
    device::ReceiveQueue<Cpu> receives(link.b.ReceiveView());
    for (int i = 0; i < 3; ++i) {
      device::LocalMemory memory = link.target.Local(0);
      memory.bytes = i == 1 ? 4 : 8;  // too little for the second message
      ASSERT_TRUE(receives.Post(memory).ok());
    }
    receives.Submit();
    Queue sends(link.a.View());
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(sends.Post(device::Send(link.source.Local(0)), Within()).status.ok());
    }
    ASSERT_TRUE(Await([&] { return link.b.LastError().has_value(); }));
    const QueueError error = *link.b.LastError();
    EXPECT_TRUE(error.receiving);
    EXPECT_EQ(error.syndrome, static_cast<uint8_t>(Syndrome::kLocalLength)) << "not the third one's flush";
    EXPECT_EQ(error.wqe_index, 1);
    EXPECT_EQ(error.qpn, link.b.qpn());
    ASSERT_TRUE(Await([&] { return link.a.LastError().has_value(); }));
    EXPECT_FALSE(link.a.LastError()->receiving);
    link.a.Reset();
    link.b.Reset();
    EXPECT_FALSE(link.b.LastError().has_value());
  }
}

TEST_F(LastError, SaysThatTheNicStoppedAQueuePairThatRefusedItsPeer) {
  Link link(device_, {}, {.receive_depth = 4});
  for (int cycle = 0; cycle < 2; ++cycle) {
    link.Connect();
    ASSERT_TRUE(link.Write(2).ok());
    EXPECT_FALSE(link.b.LastError().has_value());
    link.PostWrongWrite();
    ASSERT_TRUE(Await([&] { return link.b.State() == mlx5::QpState::kError; }));
    const std::optional<QueueError> error = link.b.LastError();
    ASSERT_TRUE(error.has_value()) << "and there is no event thread";
    EXPECT_TRUE(error->stopped);
    EXPECT_EQ(error->qpn, link.b.qpn());
    EXPECT_THAT(error->Describe(), HasSubstr("refused a request of the peer"));
    ASSERT_TRUE(AwaitSyndrome(link.a, kRemoteAccess));
    EXPECT_FALSE(link.a.LastError()->stopped);
    link.b.Disconnect();
    EXPECT_FALSE(link.b.LastError().has_value()) << "from here on, the state says nothing";
    link.a.Reset();
    link.b.Reset();
    EXPECT_FALSE(link.b.LastError().has_value());
  }
}

TEST_F(LastError, TakesNoDisconnectForAFailureWhileItRuns) {
  PeerTable peers(1);
  Link link(device_, {.peers = &peers});
  for (int cycle = 0; cycle < 200; ++cycle) {
    link.Connect();
    std::atomic<int> calls = 0;
    std::atomic<bool> stop = false;
    std::thread reader([&] {
      for (; !stop; ++calls) {
        const std::optional<QueueError> error = link.a.LastError();
        EXPECT_FALSE(error.has_value()) << error->Describe();
      }
    });
    while (calls == 0) std::this_thread::yield();
    link.a.Disconnect();
    for (const int before = calls; calls < before + 2;) std::this_thread::yield();
    stop = true;
    reader.join();
    ASSERT_EQ(peers.State(0), device::PeerState::kDisconnected);
    link.a.Reset();
    link.b.Reset();
    if (HasFailure()) break;
  }
}

TEST_F(LastError, FindsAnErrorBehindADeadDrainerAfterAWrap) {
  SharedCompletions shared(device_, {.depth = 4, .max_queues = 1});
  Link link(device_, {.depth = 4, .completions = &shared});
  link.Connect();
  ASSERT_EQ(LeaveADeadDrainer(link, 0), 3U);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(PostWrite(link).ok());
  link.PostWrongWrite();
  ASSERT_TRUE(Await([&] { return link.a.LastError().has_value(); }));
  EXPECT_TRUE(AwaitSyndrome(link.a, kRemoteAccess));
  EXPECT_EQ(link.a.LastError()->wqe_index, 6);
  Cpu::Store(&shared.control().consumer, 4);
}

TEST_F(LastError, BelievesTheIndexOfADrainerThatLives) {
  SharedCompletions shared(device_, {.depth = 4, .max_queues = 1});
  Link link(device_, {.depth = 4, .completions = &shared});
  link.Connect();
  ASSERT_EQ(LeaveADeadDrainer(link, 0), 3U);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(PostWrite(link).ok());
  const device::CompletionRingControl& ring = shared.control();
  ASSERT_TRUE(AwaitCompletions(ring.cq, 6));
  const uint64_t consumer = Cpu::Load(&ring.consumer);
  ASSERT_EQ(consumer, device::kRingLocked);
  EXPECT_EQ(OldestOnRing(ring.cq, consumer, [&] { return consumer; }), 2U) << "it died";
  EXPECT_EQ(OldestOnRing(ring.cq, consumer, [] { return uint64_t{6}; }), 0U) << "it went on";
  EXPECT_EQ(OldestOnRing(ring.cq, consumer, [] { return device::kRingLocked | 3; }), 0U);
  Cpu::Store(&shared.control().consumer, 6);
}

TEST_F(LastError, MayBeCalledWhileKernelsRun) {
  SharedCompletions shared(device_);
  SharedCompletions small(device_, {.depth = 4, .max_queues = 1});
  for (const EndpointConfig& config :
       {EndpointConfig{.cq_mode = CqMode::kCollapsed}, EndpointConfig{.cq_mode = CqMode::kRing},
        EndpointConfig{.completions = &shared}, EndpointConfig{.depth = 4, .cq_mode = CqMode::kRing},
        EndpointConfig{.depth = 4, .completions = &small}}) {
    Link link(device_, config);
    link.Connect();
    std::jthread kernel([&] {
      EXPECT_TRUE(link.Write(2000).ok());
      link.PostWrongWrite();
    });
    std::optional<QueueError> error;
    ASSERT_TRUE(Await([&] { return (error = link.a.LastError()).has_value(); }));
    EXPECT_EQ(error->syndrome, kRemoteAccess);
    EXPECT_EQ(error->wqe_index, 2000);
  }
}

}  // namespace
}  // namespace warpverbs::host
