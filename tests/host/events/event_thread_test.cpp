#include "warpverbs/host/event_thread.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>

#include "host/device/softhca.hpp"
#include "host/endpoint/link.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/peer_table.hpp"

/// Device events reach the endpoints that wait for them.
namespace warpverbs::host {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

constexpr EventConfig kAtOnce{.port_down_grace = milliseconds(0)};
constexpr uint64_t kPromptNs = 20'000'000'000;  // a third of the deadline, for busy machines

class Events : public testing::Test {
 protected:
  ~Events() override { SetLink(device_, true); }

  /// Starts a kernel that waits for a write that never completes, until something ends the wait.
  std::jthread Kernel(Link& link, device::Status& status) {
    Hold(link.a, true);
    return std::jthread([&] {
      Queue queue(link.a.View());
      device::WaitLimit limit = Within();
      limit.abort = link.a.AbortWord();
      const device::Posted posted =
          queue.Post(device::Write(link.target.Remote(0), link.source.Local(0)), limit);
      status = queue.Wait(posted.ticket, limit);
    });
  }

  /// Checks the kernel's status, and that it ended long before its deadline.
  template <class Cause>
  device::Code EndOfKernel(Link& link, const Cause& cause) {
    device::Status status;
    const uint64_t start = Cpu::NowNs();
    {
      const std::jthread kernel = Kernel(link, status);
      cause();
    }
    EXPECT_LT(Cpu::NowNs() - start, kPromptNs);
    Hold(link.a, false);
    return status.code;
  }

  static void Reconnect(Link& link) {
    link.a.Reset();
    link.b.Reset();
    link.Connect();
  }

  Device device_;
};

TEST_F(Events, EndAKernelEarlyIfThePortGoesDown) {
  EventThread events(kAtOnce);
  Link link(device_, {.events = &events});
  link.Connect();
  EXPECT_FALSE(link.a.LastEvent().has_value());
  EXPECT_EQ(EndOfKernel(link, [&] { SetLink(device_, false); }), Code::kAborted);
  ASSERT_TRUE(link.a.LastEvent().has_value());
  EXPECT_EQ(link.a.LastEvent()->kind, EventKind::kPortDown);
  EXPECT_EQ(link.a.LastEvent()->port, 1);
  const std::optional<QueueError> error = link.a.LastError();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->syndrome, 0);
  EXPECT_THAT(error->Describe(), AllOf(HasSubstr("The waits on QP " + std::to_string(link.a.qpn())),
                                       HasSubstr("Port 1 of " + device_.name() +
                                                 " lost its link (IBV_EVENT_PORT_ERR). Check the cable")));
}

TEST_F(Events, EndAWaitForReceivesIfThePortGoesDown) {
  EventThread events(kAtOnce);
  Link link(device_, {}, {.receive_depth = 4, .events = &events});
  link.Connect();
  device::ReceiveQueue<Cpu> receives(link.b.ReceiveView());
  ASSERT_TRUE(receives.Post(link.target.Local(0)).ok());
  receives.Submit();
  Code code = Code::kOk;
  {
    const std::jthread kernel([&] {
      device::WaitLimit limit = Within();
      limit.abort = link.b.AbortWord();
      code = receives.Poll(limit).status.code;
    });
    SetLink(device_, false);
  }
  EXPECT_EQ(code, Code::kAborted);
}

TEST_F(Events, EndAllKernelsOfAFailedDevice) {
  EventThread events;
  Link link(device_, {.events = &events}), other(device_, {.events = &events});
  link.Connect();
  EXPECT_EQ(EndOfKernel(link, [&] { Raise(device_, IBV_EVENT_DEVICE_FATAL); }), Code::kAborted);
  EXPECT_THAT(link.a.LastError()->Describe(),
              HasSubstr("The device " + device_.name() + " failed (IBV_EVENT_DEVICE_FATAL)"));
  EXPECT_TRUE(Await([&] { return Cpu::Load(other.a.AbortWord()) != 0; }));
}

TEST_F(Events, AllowReconnectingAfterThePortIsUpAgain) {
  EventThread events(kAtOnce);
  Link link(device_, {.events = &events}, {.events = &events});
  link.Connect();
  ASSERT_TRUE(link.Write(3).ok());
  EXPECT_EQ(EndOfKernel(link, [&] { SetLink(device_, false); }), Code::kAborted);
  ASSERT_TRUE(Await([&] { return link.b.LastEvent().has_value(); }));
  SetLink(device_, true);
  ASSERT_TRUE(Await([&] { return link.a.LastEvent()->kind == EventKind::kPortUp; }));
  ASSERT_TRUE(Await([&] { return link.b.LastEvent()->kind == EventKind::kPortUp; }));
  EXPECT_NE(Cpu::Load(link.a.AbortWord()), 0) << "only the reset clears the abort word";
  EXPECT_THAT(link.a.LastError()->Describe(), HasSubstr("lost its link"));
  Reconnect(link);
  EXPECT_EQ(Cpu::Load(link.a.AbortWord()), 0);
  EXPECT_FALSE(link.a.LastError().has_value());
  EXPECT_FALSE(link.a.LastEvent().has_value());
  EXPECT_TRUE(link.Write(100).ok());
}

TEST_F(Events, PreventConnectingOnAPortThatIsDown) {
  EventThread events(kAtOnce);
  Link link(device_, {.events = &events});
  SetLink(device_, false);
  EXPECT_THROW(link.a.Connect(link.b.Info()), Error);
  SetLink(device_, true);
  ASSERT_TRUE(Await([&] { return link.a.LastEvent() && link.a.LastEvent()->kind == EventKind::kPortUp; }));
  link.a.Reset();
  link.Connect();
  EXPECT_TRUE(link.Write(3).ok());
}

TEST_F(Events, AbortNothingIfThePortRecoversWithinTheGrace) {
  EventThread events({.port_down_grace = std::chrono::hours(1)});
  Link link(device_, {.events = &events});
  link.Connect();
  for (int i = 0; i < 10; ++i) {
    SetLink(device_, false);
    ASSERT_TRUE(
        Await([&] { return link.a.LastEvent() && link.a.LastEvent()->kind == EventKind::kPortDown; }));
    SetLink(device_, true);
    ASSERT_TRUE(Await([&] { return link.a.LastEvent()->kind == EventKind::kPortUp; }));
  }
  EXPECT_EQ(Cpu::Load(link.a.AbortWord()), 0);
  EXPECT_FALSE(link.a.LastError().has_value());
  EXPECT_TRUE(link.Write(100).ok());
}

TEST_F(Events, AbortOnlyAfterTheGrace) {
  constexpr milliseconds kGrace(200);
  EventThread events({.port_down_grace = kGrace});
  Link link(device_, {.events = &events});
  const auto start = std::chrono::steady_clock::now();
  SetLink(device_, false);
  ASSERT_TRUE(Await([&] { return Cpu::Load(link.a.AbortWord()) != 0; }));
  EXPECT_GE(std::chrono::steady_clock::now() - start, kGrace);
}

TEST_F(Events, NeverAbortWithoutAGrace) {
  EventThread events({.port_down_grace = std::nullopt});
  Link link(device_, {.events = &events});
  SetLink(device_, false);
  Raise(device_, IBV_EVENT_GID_CHANGE, 1);
  ASSERT_TRUE(
      Await([&] { return link.a.LastEvent() && link.a.LastEvent()->kind == EventKind::kPortChanged; }));
  EXPECT_EQ(Cpu::Load(link.a.AbortWord()), 0);
  EXPECT_THAT(link.a.LastEvent()->Describe(),
              HasSubstr("changed its address or subnet (IBV_EVENT_GID_CHANGE)"));
}

TEST_F(Events, AllowTheLongestGrace) {
  EventThread events({.port_down_grace = milliseconds::max()});
  Link link(device_, {.events = &events});
  SetLink(device_, false);
  Raise(device_, IBV_EVENT_LID_CHANGE, 1);
  ASSERT_TRUE(
      Await([&] { return link.a.LastEvent() && link.a.LastEvent()->kind == EventKind::kPortChanged; }));
  EXPECT_EQ(Cpu::Load(link.a.AbortWord()), 0);
}

TEST_F(Events, LeaveADisconnectedPeerUnfailed) {
  EventThread events(kAtOnce);
  PeerTable peers(1);
  Link link(device_, {.events = &events, .peers = &peers});
  link.Connect();
  link.a.Disconnect();
  SetLink(device_, false);
  ASSERT_TRUE(Await([&] { return Cpu::Load(link.a.AbortWord()) != 0; }));
  EXPECT_EQ(peers.State(0), device::PeerState::kDisconnected);
}

TEST_F(Events, ConcernOnlyTheirPortAndDevice) {
  EventThread events(kAtOnce);
  const Device other("mlx5_1");
  Link link(device_, {.events = &events}), there(other, {.events = &events});
  SetLink(device_, false, 2);
  SetLink(other, false);
  ASSERT_TRUE(Await([&] { return Cpu::Load(there.a.AbortWord()) != 0; }));
  Raise(device_, IBV_EVENT_LID_CHANGE, 1);
  ASSERT_TRUE(Await([&] { return link.a.LastEvent().has_value(); }));
  EXPECT_EQ(link.a.LastEvent()->kind, EventKind::kPortChanged) << "the first event of its own port";
  EXPECT_EQ(Cpu::Load(link.a.AbortWord()), 0);
  SetLink(device_, true, 2);
  SetLink(other, true);
}

TEST_F(Events, AreIgnoredFromBeforeAWatch) {
  SetLink(device_, false);
  SetLink(device_, true);
  EventThread events(kAtOnce);
  Link link(device_, {.events = &events});
  Raise(device_, IBV_EVENT_LID_CHANGE, 1);
  ASSERT_TRUE(Await([&] { return link.a.LastEvent().has_value(); }));
  EXPECT_EQ(link.a.LastEvent()->name, "IBV_EVENT_LID_CHANGE");
  EXPECT_EQ(Cpu::Load(link.a.AbortWord()), 0);
}

TEST_F(Events, LeaveManualAbortsPossible) {
  Link link(device_);
  link.Connect();
  EXPECT_EQ(EndOfKernel(link, [&] { link.a.Abort(); }), Code::kAborted);
  link.a.Reset();
  EXPECT_EQ(Cpu::Load(link.a.AbortWord()), 0);
}

TEST_F(Events, AreDescribed) {
  EventThread events;
  const Link link(device_, {.events = &events});
  EXPECT_THAT(link.a.Describe(), HasSubstr("events: those of the port and the device set the abort word; "));
  EXPECT_THAT(link.b.Describe(), HasSubstr("events: not watched"));
}

TEST_F(Events, CauseNoWakeupsIfNoneHappen) {
  EventThread events;
  Link link(device_, {.events = &events});
  link.Connect();
  Raise(device_, IBV_EVENT_LID_CHANGE, 1);
  ASSERT_TRUE(Await([&] { return link.a.LastEvent().has_value(); }));
  const uint64_t wakeups = events.wakeups();
  EXPECT_TRUE(link.Write(2000).ok());
  EXPECT_EQ(events.wakeups(), wakeups);
}

TEST_F(Events, ThreadRestoresTheDeviceWhenDestroyed) {
  const auto files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const int flags = fcntl(device_.context()->async_fd, F_GETFL);
  const auto before = files();
  const uint64_t start = Cpu::NowNs();
  for (int i = 0; i < 100; ++i) {
    EventThread events;
    if (i % 10 == 0) {
      const Endpoint endpoint(device_, {.events = &events});
      EXPECT_NE(fcntl(device_.context()->async_fd, F_GETFL), flags);
    }
  }
  EXPECT_LT(Cpu::NowNs() - start, kPromptNs);
  EXPECT_EQ(files(), before);
  EXPECT_EQ(fcntl(device_.context()->async_fd, F_GETFL), flags);
}

TEST_F(Events, ReachEndpointsThatComeAndGo) {
  EventThread events(kAtOnce);
  std::jthread flapping([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) Raise(device_, IBV_EVENT_LID_CHANGE, 1);
  });
  for (int i = 0; i < 30; ++i) {
    const Device device(device_.name());
    const Endpoint endpoint(device, {.events = &events});
    if (i % 3 == 0) {
      ASSERT_TRUE(Await([&] { return endpoint.LastEvent().has_value(); }));
    }
  }
}

}  // namespace
}  // namespace warpverbs::host
