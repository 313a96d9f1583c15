// Every call that sets something up fails once, and so does every allocation of memory: what comes of it is
// an exception that says what failed, nothing is left behind, and the next attempt succeeds.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "exchange_fixture.hpp"
#include "fault_calls.hpp"
#include "link.hpp"
#include "softhca.hpp"
#include "two_sides.hpp"
#include "warpverbs/host/buffer_pool.hpp"
#include "warpverbs/host/connect_all.hpp"
#include "warpverbs/host/memory_kinds.hpp"
#include "warpverbs/host/region_cache.hpp"
#include "warpverbs/host/region_set.hpp"
#include "warpverbs/host/shared_completions.hpp"
#include "warpverbs/host/shared_memory.hpp"

namespace warpverbs::host {
namespace {

void Demand(bool ok, const char* what) {
  if (!ok) throw std::logic_error(what);
}

/// What is held at some time.
struct Holdings {
  std::string verbs = HeldByVerbs();
  size_t files = OpenFiles();
  long blocks = HeldBlocks();  // last, so that `verbs` counts

  /// @param blocks_now  taken before the caller allocates anything else
  void ExpectStill(long blocks_now) const {
    EXPECT_EQ(blocks_now, blocks) << "blocks of memory";
    EXPECT_EQ(OpenFiles(), files);
    EXPECT_EQ(HeldByVerbs(), verbs);
  }
};

/// Runs a scenario with a fault. What it throws must say enough.
///
/// @return  the name of the call that failed; empty: there were fewer calls
const char* RunWith(const CallFault& fault, const std::function<void()>& scenario) {
  const Faulty faulty(fault);
  try {
    scenario();
  } catch (const Error& error) {
    EXPECT_FALSE(error.step().empty() || error.object().empty() || error.reason().empty()) << error.what();
    EXPECT_THAT(error.what(), testing::ContainsRegex("^Cannot .*: .*\\. .*\\.$"));
  } catch (const std::bad_alloc&) {
    EXPECT_EQ(fault.calls, FaultyCalls::kMemory);
  }
  return faulty.failed();
}

/// Runs a scenario again and again, each time with another call failing, until none is left to fail.
///
/// @param again  what must succeed after a failure
/// @return       how many calls there are
int ForEachFault(FaultyCalls calls, const std::function<void()>& scenario,
                 const std::function<void()>& again) {
  again();  // what is made once in the life of a program is there now
  scenario();
  for (int call = 0;; ++call) {
    std::optional<Holdings> before(std::in_place);
    const char* failed = RunWith({.calls = calls, .call = call}, scenario);
    long blocks = HeldBlocks();
    if (blocks !=
        before->blocks) {  // a leak comes each time, what is made at the first failure of a kind does not
      before.emplace();
      failed = RunWith({.calls = calls, .call = call}, scenario);
      blocks = HeldBlocks();
    }
    SCOPED_TRACE("call " + std::to_string(call) + ", " + failed + ", failed");
    before->ExpectStill(blocks);
    if (*failed == 0) return call;
    EXPECT_NO_THROW(again());
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "leaves the other calls out";
      return call;
    }
  }
}

int ForEachFault(FaultyCalls calls, const std::function<void()>& scenario) {
  return ForEachFault(calls, scenario, scenario);
}

void SetUpAndWrite(const EndpointConfig& config) {
  const Device device;
  Link link(device, config, config);
  link.Connect();
  Demand(link.Write(3).ok(), "a write failed");
}

class Faults : public testing::TestWithParam<FaultyCalls> {};

TEST_P(Faults, OfSettingUpAreSentencesAndLeaveNothing) {
  EXPECT_GT(ForEachFault(GetParam(), [] { SetUpAndWrite({}); }), 30);
}

TEST_P(Faults, OfEndpointsWithAllTheirPartsLeaveNothing) {
  const EndpointConfig config{.cq_mode = CqMode::kRing, .receive_depth = 16};
  const Device device;
  EXPECT_GT(ForEachFault(GetParam(),
                         [&] {
                           Endpoint a(device, config), b(device, config);
                           a.Connect(b.Info());
                           b.Connect(a.Info());
                           a.Reset();
                           Demand(!a.Describe().empty(), "no description");
                         }),
            20);
}

TEST_P(Faults, OfEveryWayToRingLeaveNothing) {
  const Device device;
  for (const DoorbellRung rung : {DoorbellRung::kHostRings, DoorbellRung::kHostPosts}) {
    ForEachFault(GetParam(), [&] {
      Link link(device, {.doorbell = rung});
      link.Connect();
      Demand(link.Write(1).ok(), "a write failed");
    });
  }
}

TEST_P(Faults, OfSharedCompletionsLeaveNothing) {
  const Device device;
  ForEachFault(GetParam(), [&] {
    SharedCompletions ring(device, {.depth = 256});
    Link link(device, {.completions = &ring}, {.completions = &ring});
    link.Connect();
    Demand(link.Write(1).ok(), "a write failed");
  });
}

TEST_P(Faults, OfAResetLeaveNoEndpointThatConnectsAndDoesNotWork) {
  const Device device;
  for (const DoorbellRung rung : {DoorbellRung::kProbe, DoorbellRung::kHostRings}) {
    Link link(device, {.doorbell = rung});
    const auto reset = [&] {
      link.b.Reset();
      link.a.Reset();
    };
    const auto connect = [&] {
      link.Connect();
      Demand(link.Write(1).ok(), "a write failed");
    };
    ForEachFault(
        GetParam(),
        [&] {
          try {
            reset();
          } catch (...) {
            SentenceOf(connect);  // refused, or good
            throw;
          }
          connect();
        },
        [&] {
          reset();
          connect();
        });
  }
}

TEST_P(Faults, OfRegionSetsLeaveNothing) {
  const Device first("mlx5_0"), second("mlx5_1");
  const Device* const devices[] = {&first, &second};
  const HostPages pages(8192);
  bool one_failed = false;
  ForEachFault(GetParam(), [&] {
    const RegionSet set(devices, pages.data(), pages.size());
    Demand(set.Has(0) || set.Has(1), "a set without a region");
    one_failed = one_failed || set.Has(0) != set.Has(1);
    for (const size_t device : {0, 1})
      if (set.Has(device)) Demand(set.View(device).bytes == pages.size(), "a view of another size");
  });
  EXPECT_EQ(one_failed, GetParam() == FaultyCalls::kVerbs) << "one device that works is enough";
}

TEST_P(Faults, OfABufferPoolLeaveNothing) {
  const Device device;
  const Device* const devices[] = {&device};
  ForEachFault(GetParam(), [&] {
    std::optional<BufferPool> pool(std::in_place, HostMemoryKind(), devices, BufferPoolConfig{100, 5, {}});
    BufferPool::Lease lease = pool->Allocate();
    const BufferPool::Lease other = pool->Allocate();
    Demand(lease && other && pool->FreeCount() == 3, "a buffer that is not there");
    lease = {};
    Demand(pool->FreeCount() == 4, "a buffer that did not come back");
    pool.reset();
  });
}

/// Takes, gives back, covers, evicts and invalidates.
void UseCache(RegionCache& cache, const HostPages& pages) {
  constexpr size_t kPage = 4096;
  const auto take = [&](size_t page, size_t count) {
    return cache.Register(pages.data() + page * kPage, count * kPage);
  };
  RegionCache::Lease used = take(0, 2);
  for (size_t page = 2; page < 8; ++page) take(page, 1);
  RegionCache::Lease wide = take(2, 4);
  cache.Invalidate(pages.data() + 3 * kPage, 1);
  take(4, 1);
  used = std::move(wide);
  Demand(used.View().bytes == 4 * kPage, "a view of another size");
}

TEST_P(Faults, OfARegionCacheLeaveItUsable) {
  const Device device;
  const HostPages pages(32768);
  ForEachFault(GetParam(), [&] {
    RegionCache cache({&device}, {.max_regions = 3, .keep_host_memory = true});
    try {
      UseCache(cache, pages);
    } catch (...) {
      Demand(cache.Statistics().in_use == 0, "a use that did not end");
      UseCache(cache, pages);
      Demand(cache.Statistics().regions <= 3, "more regions than are kept");
      throw;
    }
  });
}

TEST_P(Faults, OfConnectAllResetBothSides) {
  const Device device;
  TwoSides sides(device);
  const auto connect = [&] {
    try {
      sides.Connect();
    } catch (const Error&) {
      // Where memory ends within the exchange, one side may have heard the last word and the other not.
      if (GetParam() == FaultyCalls::kVerbs)
        Demand(sides.AllAre(mlx5::QpState::kReset), "an endpoint that is not reset");
      throw;
    }
    Demand(sides.AllAre(mlx5::QpState::kRts), "an endpoint that is not connected");
  };
  const auto again = [&] {
    sides.Reset();
    connect();
    sides.Reset();
  };
  const auto once = [&] {
    connect();
    sides.Reset();
  };
  EXPECT_GT(ForEachFault(GetParam(), once, again), 10);
}

INSTANTIATE_TEST_SUITE_P(, Faults, testing::Values(FaultyCalls::kVerbs, FaultyCalls::kMemory),
                         [](const auto& calls) {
                           return calls.param == FaultyCalls::kVerbs ? "Verbs" : "Memory";
                         });

TEST(MemoryFaults, OfConnectAllThatLastLeaveThisSideReset) {
  const Device device;
  TwoSides sides(device);
  bool failed = true;
  for (int call = 0; failed; ++call) {
    SCOPED_TRACE("from allocation " + std::to_string(call) + " on");
    failed = *RunWith({.calls = FaultyCalls::kMemory, .call = call, .lasting = true},
                      [&] { sides.Connect(); }) != 0;
    if (failed) {
      EXPECT_EQ(sides.a.State(), mlx5::QpState::kReset);
      EXPECT_EQ(sides.b.State(), mlx5::QpState::kReset);
    }
    sides.Reset();
    EXPECT_NO_THROW(sides.Connect());
    sides.Reset();
    ASSERT_FALSE(HasFailure());
  }
}

TEST(MemoryFaults, OfASwapLeaveNoConnectionThatIsHalfWay) {
  const std::vector<uint8_t> message(100'000, 7);
  const auto swap = [&](TcpExchange& exchange) {
    Demand(exchange.Swap(message, "a word", Soon()) == message, "a message that is not whole");
  };
  bool failed = true;
  for (int call = 0; failed; ++call) {
    SCOPED_TRACE("from allocation " + std::to_string(call) + " on");
    TcpPair pair;
    std::jthread there([&] { SentenceOf([&] { swap(pair.there); }); });
    failed = *RunWith({.calls = FaultyCalls::kMemory, .call = call, .lasting = true},
                      [&] { swap(pair.here); }) != 0;
    const std::string sentence = SentenceOf([&] {
      if (failed) swap(pair.here);
    });
    EXPECT_THAT(sentence, testing::AnyOf("", testing::HasSubstr("the connection is closed, for ")));
  }
}

TEST(MemoryFaults, OfReceivingSharedMemoryLeaveNoFile) {
  SharedMemoryInfo info{.kind = ShareKind::kDmaBuf, .bytes = 4096, .allocation_bytes = 4096, .address = 4096};
  ForEachFault(FaultyCalls::kMemory, [&] {
    int ends[2];
    Demand(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "no sockets");
    const FileDescriptor here(ends[0]), there(ends[1]);
    SendShared(here.get(), {info, FileDescriptor(memfd_create("shared", MFD_CLOEXEC))}, Soon());
    Demand(static_cast<bool>(ReceiveShared(there.get(), Soon()).file), "no file came");
  });
}

TEST(MemoryFaults, OfGivingBackToAPoolEndNothing) {
  const Device device;
  QueuePool pool(device);
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (int i = 0; i < 5; ++i)
    endpoints.push_back(std::make_unique<Endpoint>(device, EndpointConfig{.depth = 16, .pool = &pool}));
  {
    const Faulty faulty({.calls = FaultyCalls::kMemory, .call = 0, .lasting = true});
    for (const size_t i : {1, 3, 0, 4, 2}) endpoints[i].reset();  // alone, and next to what is free
  }
  EXPECT_EQ(pool.usage().used_bytes, 0);
}

TEST(MemoryFaults, OfWhoWantsHisDoorbellsRungAreNone) {
  DoorbellThread thread;
  std::array<uint64_t, 64> words{}, registers{};
  std::vector<std::unique_ptr<DoorbellThread::Service>> services(words.size());
  const Faulty faulty(
      {.calls = FaultyCalls::kMemory, .call = static_cast<int>(words.size()), .lasting = true});
  for (size_t i = 0; i < words.size(); ++i)  // of which each is one allocation, of this test's
    services[i] = std::make_unique<DoorbellThread::Service>(
        thread, DoorbellRoute{.word = &words[i], .doorbell = &registers[i]});
  EXPECT_EQ(faulty.calls(), words.size());
}

/// Watches a device, and lets a call fail in the thread that listens to it once an event has come.
class FailingWatch {
 public:
  FailingWatch(const Device& device, EventThread& events, const CallFault& fault)
      : asked_(fault),
        watch_(events, {.device = &device, .port = 1, .on_abort = [this] { fault_.emplace(asked_); }}) {}

 private:
  CallFault asked_;
  std::optional<Faulty> fault_;
  EventThread::Watch watch_;
};

TEST(VerbsFaults, OfTheThreadThatListensTellThatAnEventWasLost) {
  const Device device;
  EventThread events;
  const FailingWatch first(device, events, {.calls = FaultyCalls::kVerbs, .call = 0, .error = EOVERFLOW});
  EventThread::Watch watch(events, {.device = &device, .port = 1});
  Raise(device, IBV_EVENT_DEVICE_FATAL);
  ASSERT_TRUE(Await([&] { return watch.Newest() && watch.Newest()->kind == EventKind::kOther; }));
  EXPECT_THAT(watch.Newest()->What(), testing::HasSubstr("the kernel lost one of the firmware's"));
  EXPECT_EQ(watch.Cause()->kind, EventKind::kDeviceFailed);
}

TEST(MemoryFaults, OfTheThreadThatListensLoseNoEvent) {
  const Device device;
  for (int call = 0; call < 12; ++call) {
    EventThread events;
    const FailingWatch first(device, events, {.calls = FaultyCalls::kMemory, .call = call});
    std::array<uint64_t, 3> aborts{};
    std::vector<std::unique_ptr<EventThread::Watch>> watches;
    for (uint64_t& abort : aborts)
      watches.push_back(std::make_unique<EventThread::Watch>(
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

TEST_P(Faults, OfWatchesLeaveNobodyWatched) {
  const Device device;
  EventThread events;
  PeerTable peers(1);
  const auto flags = [&] { return fcntl(device.context()->async_fd, F_GETFL); };
  const int unwatched = flags();
  const auto scenario = [&] {
    SharedCompletions ring(device, {.depth = 256});
    Link link(device, {.completions = &ring, .events = &events, .peers = &peers});
    Demand(flags() != unwatched, "nobody listens to the device");
    link.Connect();
    Demand(link.Write(1).ok(), "a write failed");
    link.a.Reset();
  };
  ForEachFault(GetParam(), scenario, [&] {
    Demand(flags() == unwatched, "a watch that is gone is watched");
    scenario();
  });
}

size_t ResidentBytes() {
  size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

/// Does something a thousand times, and expects that it leaves nothing.
void ExpectNothingGrows(const std::function<void()>& step) {
  // A sanitizer keeps what is freed for a while. What operator new gave is counted exactly all the same.
  const bool keeps =
      dlsym(RTLD_DEFAULT, "__asan_init") != nullptr || dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr;
  const size_t bound = size_t{keeps ? 512U : 32U} << 20;
  for (int i = 0; i < 10; ++i) step();
  const Holdings before;
  const size_t resident = ResidentBytes();
  for (int i = 0; i < 1000; ++i) step();
  const long blocks = HeldBlocks();
  EXPECT_LT(ResidentBytes(), resident + bound);
  before.ExpectStill(blocks);
}

TEST(ManyTimes, RegisteringLeavesNothing) {
  const Device device;
  const HostPages pages(1 << 20);
  ExpectNothingGrows([&] { const MemoryRegion region(device, pages.data(), pages.size()); });
}

TEST(ManyTimes, ConnectingAndResettingLeavesNothing) {
  const Device device;
  Link link(device);
  ExpectNothingGrows([&] {
    link.Connect();
    Demand(link.Write(1).ok(), "a write failed");
    link.a.Reset();
    link.b.Reset();
  });
}

TEST(ManyTimes, MakingEndpointsLeavesNothing) {
  const Device device;
  ExpectNothingGrows([&] {
    Endpoint a(device, {.depth = 16}), b(device, {.depth = 16});
    a.Connect(b.Info());
    b.Connect(a.Info());
  });
}

}  // namespace
}  // namespace warpverbs::host
