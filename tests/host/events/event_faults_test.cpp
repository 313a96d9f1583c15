#include <fcntl.h>
#include <gmock/gmock.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "events/event_watch.hpp"
#include "host/device/softhca.hpp"
#include "host/endpoint/faults.hpp"
#include "host/endpoint/link.hpp"
#include "warpverbs/host/event_thread.hpp"
#include "warpverbs/host/peer_table.hpp"
#include "warpverbs/host/shared_completions.hpp"

namespace warpverbs::host {
namespace {

/// Watches a device and makes a call in the event thread fail once an event has arrived.
class FailingWatch {
 public:
  FailingWatch(const Device& device, EventThread& events, const CallFault& fault)
      : asked_(fault),
        watch_(events, {.device = &device, .port = 1, .on_abort = [this] { fault_.emplace(asked_); }}) {}

 private:
  CallFault asked_;
  std::optional<Faulty> fault_;
  EventWatch watch_;
};

TEST(VerbsFaults, ReportALostEventInTheEventThread) {
  const Device device;
  EventThread events;
  const FailingWatch first(device, events, {.calls = FaultyCalls::kVerbs, .call = 0, .error = EOVERFLOW});
  EventWatch watch(events, {.device = &device, .port = 1});
  Raise(device, IBV_EVENT_DEVICE_FATAL);
  ASSERT_TRUE(Await([&] { return watch.Newest() && watch.Newest()->kind == EventKind::kOther; }));
  EXPECT_THAT(watch.Newest()->Describe(), testing::HasSubstr("the kernel lost a firmware event"));
  EXPECT_EQ(watch.Cause()->kind, EventKind::kDeviceFailed);
}

TEST(MemoryFaults, LoseNoEventInTheEventThread) {
  const Device device;
  for (int call = 0; call < 12; ++call) {
    EventThread events;
    const FailingWatch first(device, events, {.calls = FaultyCalls::kMemory, .call = call});
    std::array<uint64_t, 3> aborts{};
    std::vector<std::unique_ptr<EventWatch>> watches;
    for (uint64_t& abort : aborts)
      watches.push_back(std::make_unique<EventWatch>(
          events, WatchConfig{.device = &device, .port = 1, .abort = &abort}));
    Raise(device, IBV_EVENT_DEVICE_FATAL);
    for (size_t i = 0; i < aborts.size(); ++i) {
      ASSERT_TRUE(Await([&] { return Cpu::Load(&aborts[i]) != 0; })) << "allocation " << call;
      ASSERT_TRUE(Await([&] { return watches[i]->Newest().has_value(); }));
      EXPECT_EQ(watches[i]->Newest()->name, "IBV_EVENT_DEVICE_FATAL");
      EXPECT_EQ(watches[i]->Cause()->kind, EventKind::kDeviceFailed);
    }
  }
}

TEST_P(Faults, LeaveNothingOfWatches) {
  const Device device;
  EventThread events;
  PeerTable peers(1);
  const auto flags = [&] { return fcntl(device.context()->async_fd, F_GETFL); };
  const int unwatched = flags();
  const auto scenario = [&] {
    SharedCompletions ring(device, {.depth = 256});
    Link link(device, {.completions = &ring, .events = &events, .peers = &peers});
    Require(flags() != unwatched, "nobody listens to the device");
    link.Connect();
    Require(link.Write(1).ok(), "a write failed");
    link.a.Reset();
  };
  ForEachFault(GetParam(), scenario, [&] {
    Require(flags() == unwatched, "a watch that is gone is watched");
    scenario();
  });
}

}  // namespace
}  // namespace warpverbs::host
