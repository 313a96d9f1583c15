#include "host/endpoint/faults.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/connect/exchange_fixture.hpp"
#include "host/device/softhca.hpp"
#include "host/endpoint/link.hpp"
#include "host/log/refusal.hpp"
#include "queue/doorbell_service.hpp"
#include "warpverbs/host/doorbell_thread.hpp"
#include "warpverbs/host/queue_pool.hpp"
#include "warpverbs/host/shared_completions.hpp"

namespace warpverbs::host {
namespace {

void SetUpAndWrite(const EndpointConfig& config) {
  const Device device;
  Link link(device, config, config);
  link.Connect();
  Require(link.Write(3).ok(), "a write failed");
}

TEST_P(Faults, AreReportedAndLeaveNothingAfterSetup) {
  EXPECT_GT(ForEachFault(GetParam(), [] { SetUpAndWrite({}); }), 30);
}

TEST_P(Faults, LeaveNothingOfEndpointsWithAllParts) {
  const EndpointConfig config{.cq_mode = CqMode::kRing, .receive_depth = 16};
  const Device device;
  EXPECT_GT(ForEachFault(GetParam(),
                         [&] {
                           Endpoint a(device, config), b(device, config);
                           a.Connect(b.Info());
                           b.Connect(a.Info());
                           a.Reset();
                           Require(!a.Describe().empty(), "no description");
                         }),
            20);
}

TEST_P(Faults, LeaveNothingInEveryDoorbellMode) {
  const Device device;
  for (const DoorbellMode mode : {DoorbellMode::kHostProxy, DoorbellMode::kHostPosts}) {
    ForEachFault(GetParam(), [&] {
      Link link(device, {.doorbell = mode});
      link.Connect();
      Require(link.Write(1).ok(), "a write failed");
    });
  }
}

TEST_P(Faults, LeaveNothingOfSharedCompletions) {
  const Device device;
  ForEachFault(GetParam(), [&] {
    SharedCompletions ring(device, {.depth = 256});
    Link link(device, {.completions = &ring}, {.completions = &ring});
    link.Connect();
    Require(link.Write(1).ok(), "a write failed");
  });
}

TEST_P(Faults, LeaveNoBrokenEndpointAfterAReset) {
  const Device device;
  for (const DoorbellMode mode : {DoorbellMode::kAuto, DoorbellMode::kHostProxy}) {
    Link link(device, {.doorbell = mode});
    const auto reset = [&] {
      link.b.Reset();
      link.a.Reset();
    };
    const auto connect = [&] {
      link.Connect();
      Require(link.Write(1).ok(), "a write failed");
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

INSTANTIATE_TEST_SUITE_P(, Faults, testing::Values(FaultyCalls::kVerbs, FaultyCalls::kMemory),
                         [](const auto& calls) {
                           return calls.param == FaultyCalls::kVerbs ? "Verbs" : "Memory";
                         });

/// Makes the first registration of queue memory fail as on a kernel before 5.13, which does not know an
/// attribute of it. Returns the error of what `call` does.
///
/// @param fault  whether, and how, the calls after it fail
template <class Call>
std::string OnAnOldKernel(CallFault fault, const Call& call) {
  fault.error = EPROTONOSUPPORT;
  for (int at = 0; at < 200; ++at) {
    const Faulty counted({.call = at, .error = EPROTONOSUPPORT});
    SentenceOf(call);
    if (std::string_view(counted.failed()) != "mlx5dv_devx_umem_reg_ex") continue;
    fault.call = at;
    const Faulty faulty(fault);
    return SentenceOf(call);
  }
  return "no queue memory is registered";
}

TEST(OldKernels, RegisterQueueMemoryByTheOlderCall) {
  const Device device;
  const std::string held = HeldByVerbs();
  EXPECT_EQ(OnAnOldKernel({},
                          [&] {
                            Link link(device, {.cq_mode = CqMode::kRing, .receive_depth = 16});
                            link.Connect();
                            Require(link.Write(3).ok(), "a write failed");
                          }),
            "");
  EXPECT_EQ(HeldByVerbs(), held);
}

TEST(OldKernels, AreNamedIfTheOlderCallFailsToo) {
  const Device device;
  EXPECT_THAT(OnAnOldKernel({.lasting = true}, [&] { const Endpoint endpoint(device); }),
              testing::AllOf(testing::StartsWith("Cannot register "),
                             testing::HasSubstr("(EPROTONOSUPPORT). Use Linux 5.13 or later, or a recent "
                                                "DOCA/MLNX_OFED."),
                             testing::Not(testing::HasSubstr("RLIMIT_MEMLOCK"))));
}

TEST(OldKernels, AreNotBlamedIfTheOlderCallFailsForItsOwnReason) {
  const Device device;
  EXPECT_THAT(
      OnAnOldKernel({.lasting = true, .later_error = ENOMEM}, [&] { const Endpoint endpoint(device); }),
      testing::AllOf(testing::StartsWith("Cannot register "), testing::HasSubstr("RLIMIT_MEMLOCK"),
                     testing::Not(testing::HasSubstr("Linux 5.13"))));
}

TEST(LastErrorFaults, DoNotHideTheErrorThatIsReported) {
  const Device device;
  Link link(device);
  link.Connect();
  const Faulty faulty({.call = 0, .lasting = true, .error = EIO});
  EXPECT_EQ(SentenceOf([&] { EXPECT_FALSE(link.a.LastError().has_value()); }), "");
  EXPECT_STREQ(faulty.failed(), "mlx5dv_devx_obj_query");
}

TEST(MemoryFaults, DoNotAffectReleasesToAPool) {
  const Device device;
  QueuePool pool(device);
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (int i = 0; i < 5; ++i)
    endpoints.push_back(std::make_unique<Endpoint>(device, EndpointConfig{.depth = 16, .pool = &pool}));
  {
    const Faulty faulty({.calls = FaultyCalls::kMemory, .call = 0, .lasting = true});
    for (const size_t i : {1, 3, 0, 4, 2}) endpoints[i].reset();  // beside used and beside free places
  }
  EXPECT_EQ(pool.usage().used_bytes, 0);
}

TEST(MemoryFaults, DoNotAffectRequestsToRing) {
  DoorbellThread thread;
  std::array<uint64_t, 64> words{}, registers{};
  std::vector<std::unique_ptr<DoorbellService>> services(words.size());
  const Faulty faulty(
      {.calls = FaultyCalls::kMemory, .call = static_cast<int>(words.size()), .lasting = true});
  for (size_t i = 0; i < words.size(); ++i)  // each is one allocation of the test itself
    services[i] = std::make_unique<DoorbellService>(
        thread, DoorbellRoute{.word = &words[i], .doorbell = &registers[i]});
  EXPECT_EQ(faulty.calls(), words.size());
}

}  // namespace
}  // namespace warpverbs::host
