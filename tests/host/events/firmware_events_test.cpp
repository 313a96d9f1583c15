#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <thread>

#include "host/device/softhca.hpp"
#include "host/endpoint/link.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/host/event_thread.hpp"
#include "warpverbs/host/peer_table.hpp"
#include "warpverbs/host/shared_completions.hpp"

/// A queue stopped by the firmware aborts waiters that have no completion to look at.
namespace warpverbs::host {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(FirmwareEvents, EndWaitsOfAQueueThatThePeerBroke) {
  const Device device;
  EventThread events;
  Link link(device, {}, {.events = &events});
  link.Connect();
  Code code = Code::kOk;
  {
    const std::jthread kernel([&] {
      device::WaitLimit limit = Within();
      limit.abort = link.b.AbortWord();
      for (device::Waiter<Cpu> waiter(limit); (code = waiter.Next()) == Code::kPending;) {
      }
    });
    link.PostWrongWrite();
  }
  EXPECT_EQ(code, Code::kAborted);
  ASSERT_TRUE(link.b.LastError().has_value());
  ASSERT_TRUE(link.b.LastError()->event.has_value());
  EXPECT_EQ(link.b.LastError()->event->qpn, link.b.qpn());
  EXPECT_THAT(link.b.LastError()->Describe(), AllOf(HasSubstr("were aborted. The firmware of " + device.name() +
                                                          " stopped QP " + std::to_string(link.b.qpn())),
                                                HasSubstr("access error, firmware event 0x11")));
  link.a.Reset();
  link.b.Reset();
  link.Connect();
  EXPECT_TRUE(link.Write(100).ok());
  EXPECT_FALSE(link.b.LastError().has_value());
}

TEST(FirmwareEvents, ConcernOnlyTheirOwnQueue) {
  const Device device;
  EventThread events;
  Link bad(device, {}, {.events = &events}), good(device, {.events = &events}, {.events = &events});
  bad.Connect();
  good.Connect();
  bad.PostWrongWrite();
  ASSERT_TRUE(Await([&] { return Cpu::Load(bad.b.AbortWord()) != 0; }));
  EXPECT_EQ(Cpu::Load(good.a.AbortWord()), 0);
  EXPECT_EQ(Cpu::Load(good.b.AbortWord()), 0);
  EXPECT_TRUE(good.Write(100).ok());
}

TEST(FirmwareEvents, ReachAllEndpointsOfASharedCompletionQueue) {
  const Device device;
  EventThread events, other_events;
  SharedCompletions ring(device), other_ring(device);
  Link first(device, {.completions = &ring, .events = &events}),
      second(device, {.completions = &ring, .events = &events}),
      third(device, {.completions = &ring, .events = &other_events}),
      stranger(device, {.completions = &other_ring, .events = &events});
  for (Link* const link : {&first, &second, &third, &stranger}) link->Connect();
  FailCq(device, ring.cqn());
  for (Link* const link : {&first, &second, &third}) {
    ASSERT_TRUE(Await([&] { return Cpu::Load(link->a.AbortWord()) != 0; }));
    ASSERT_TRUE(link->a.LastError().has_value());
    EXPECT_THAT(
        link->a.LastError()->Describe(),
        HasSubstr("The firmware of " + device.name() + " stopped a completion queue of QP " +
                  std::to_string(link->a.qpn()) +
                  " (CQ error, firmware event 0x04). Reset() cannot repair it: create the endpoint again"));
  }
  EXPECT_EQ(Cpu::Load(stranger.a.AbortWord()), 0);
  EXPECT_TRUE(stranger.Write(10).ok());
}

TEST(FirmwareEvents, KeepTheAbortOfACompletionQueueAcrossAReset) {
  const Device device;
  EventThread events;
  PeerTable peers(1);
  Link link(device, {.events = &events, .peers = &peers});
  link.Connect();
  FailCq(device, link.a.send_cqn());
  ASSERT_TRUE(Await([&] { return Cpu::Load(link.a.AbortWord()) != 0; }));
  link.a.Reset();
  EXPECT_NE(Cpu::Load(link.a.AbortWord()), 0) << "nothing would complete, so waiters must be aborted";
  ASSERT_TRUE(link.a.LastError().has_value());
  EXPECT_EQ(link.a.LastError()->event->kind, EventKind::kCompletionsFailed);
  EXPECT_EQ(peers.State(0), device::PeerState::kFailed);
}

TEST(FirmwareEvents, AreIgnoredFromBeforeAReset) {
  const Device device;
  EventThread events;
  PeerTable peers(1);
  Link link(device, {}, {.events = &events, .peers = &peers});
  for (int i = 0; i < 100; ++i) {
    link.Connect();
    link.PostWrongWrite();
    ASSERT_TRUE(Await([&] { return link.b.State() == mlx5::QpState::kError; }));
    link.a.Reset();
    link.b.Reset();  // whether or not the thread has read the event
    link.Connect();
    ASSERT_TRUE(link.Write(3).ok());
    ASSERT_EQ(Cpu::Load(link.b.AbortWord()), 0) << "round " << i;
    ASSERT_FALSE(link.b.LastError().has_value());
    ASSERT_EQ(peers.State(0), device::PeerState::kConnected);
    link.a.Reset();
    link.b.Reset();
  }
}

TEST(FirmwareEvents, AreDescribed) {
  const Device device;
  EventThread events;
  const Endpoint endpoint(device, {.cq_mode = CqMode::kRing, .receive_depth = 4, .events = &events});
  EXPECT_THAT(endpoint.Describe(), HasSubstr("with firmware events of its queues"));
}

TEST(FirmwareEvents, LeakNoFile) {
  const Device device;
  const auto files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto before = files();
  for (int i = 0; i < 20; ++i) {
    EventThread events;
    Link link(device, {}, {.events = &events});
    link.Connect();
    if (i % 2 == 0) link.PostWrongWrite();  // reported or not before the destruction
  }
  EXPECT_EQ(files(), before);
}

}  // namespace
}  // namespace warpverbs::host
