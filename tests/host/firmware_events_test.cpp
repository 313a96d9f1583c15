#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <thread>

#include "link.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/host/event_thread.hpp"

/// A queue that the firmware stops tells those who only wait for the peer, and have no completion to look at.
namespace warpverbs::host {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(FirmwareEvents, OfAQueueThatThePeerBrokeEndItsWaits) {
  const Device device;
  EventThread events;
  Link link(device, {}, {.events = &events});
  link.Connect();
  Code code = Code::kOk;
  {
    const std::jthread kernel([&] {
      device::Limit limit = Within();
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
  EXPECT_THAT(link.b.LastError()->What(), AllOf(HasSubstr("were aborted. The firmware of " + device.name() +
                                                          " stopped QP " + std::to_string(link.b.qpn())),
                                                HasSubstr("access error, firmware event 0x11")));
  link.a.Reset();
  link.b.Reset();
  link.Connect();
  EXPECT_TRUE(link.Write(100).ok());
  EXPECT_FALSE(link.b.LastError().has_value());
}

TEST(FirmwareEvents, ConcernTheirOwnQueueOnly) {
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

TEST(FirmwareEvents, AreDescribed) {
  const Device device;
  EventThread events;
  const Endpoint endpoint(device, {.cq_mode = CqMode::kRing, .receive_depth = 4, .events = &events});
  EXPECT_THAT(endpoint.Describe(), HasSubstr("with the firmware's of its queues"));
}

TEST(FirmwareEvents, LeaveNoFile) {
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
    if (i % 2 == 0) link.PostWrongWrite();  // told or not when all ends
  }
  EXPECT_EQ(files(), before);
}

}  // namespace
}  // namespace warpverbs::host
