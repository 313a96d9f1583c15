// Each call of the set-up of a side fails once. Every run ends with a sentence, leaks nothing, and the next
// run succeeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "both_sides.hpp"
#include "fake_cuda.hpp"
#include "fake_gaudi.hpp"
#include "fake_hip.hpp"
#include "host/endpoint/fault_calls.hpp"

namespace rdma_demo {
namespace {

using std::chrono::milliseconds;
using warpverbs::host::CallFault;
using warpverbs::host::Faulty;
using warpverbs::host::FaultyCalls;
using warpverbs::host::HeldByVerbs;

class DemoWithFaults : public testing::Test {
 protected:
  DemoWithFaults() {
    fake_cuda::Configure("");
    fake_hip::Configure({});
    fake_gaudi::Configure({.devices = 2});
  }

  static void ExpectNothingHeld() {
    EXPECT_EQ(HeldByVerbs(), "");
    EXPECT_EQ(fake_cuda::HeldNow(), fake_cuda::Held{});
    EXPECT_EQ(fake_hip::HeldNow(), 0);
    EXPECT_EQ(fake_gaudi::HeldNow(), fake_gaudi::Held{});
  }

  /// Returns options that let a side without a peer end soon.
  ///
  /// @param patience  factor of the timeouts
  static Options ShortTimeouts(const std::string& memory, int patience) {
    Options options = MakeOptions(memory, 64);
    options.wait = patience * milliseconds(100);
    options.timeout = patience * milliseconds(250);
    return options;
  }

  /// Expects that both sides succeed, or that the faulty one says why it failed.
  static void ExpectSentence(Role of, const BothResults& both) {
    const SideResult& faulty = of == Role::kServer ? both.server : both.client;
    if (both.succeeded()) return;
    const bool in_summary = faulty.output.find("failed: ") != std::string::npos;
    EXPECT_TRUE(in_summary || faulty.error.size() > 20 || faulty.error == "std::bad_alloc") << both.output();
    EXPECT_FALSE(faulty.succeeded);
  }

  static void ExpectAllWell(const std::string& kind) {
    const BothResults both = RunBoth(MakeOptions(kind, 64), MakeOptions(kind, 64));
    EXPECT_TRUE(both.succeeded()) << both.output();
  }

  /// Runs both sides, and again with more time if a timeout on a busy machine has ended the run before the
  /// call that fails.
  ///
  /// @param run          runs both sides with timeouts that are this many times the shortest
  /// @param call_failed  returns whether the last run came to the call
  static void RunPatiently(Role of, const std::function<BothResults(int patience)>& run,
                           const std::function<bool()>& call_failed) {
    constexpr int kMostPatience = 64;
    for (int patience = 1; patience <= kMostPatience; patience *= 2) {
      const BothResults both = run(patience);
      ExpectSentence(of, both);
      if (call_failed() || both.succeeded()) return;
    }
    ADD_FAILURE() << "no call failed, and the sides did not succeed";
  }

  /// Runs both sides and lets one call of one side fail.
  ///
  /// @param of  the faulty side
  /// @return  name of the call; empty: the side made fewer calls
  static std::string RunWith(Role of, const CallFault& fault, const std::string& kind) {
    std::string failed;
    const auto run = [&](int patience) {
      failed.clear();
      return RunBoth(ShortTimeouts(kind, patience), ShortTimeouts(kind, patience),
                     [&](Role role, const std::function<void()>& run_side) {
                       if (role != of) return run_side();
                       const Faulty faulty(fault);
                       try {
                         run_side();
                       } catch (...) {
                         failed = faulty.failed();
                         throw;
                       }
                       failed = faulty.failed();
                     });
    };
    RunPatiently(of, run, [&] { return !failed.empty(); });
    return failed;
  }
};

std::string NameOf(Role role) { return role == Role::kServer ? "Server" : "Client"; }

class RdmaDemoFaults : public DemoWithFaults, public testing::WithParamInterface<Role> {};

TEST_P(RdmaDemoFaults, OfRdmaCoreEndInSentences) {
  for (const char* const kind : {"host", "gaudi", "cuda"}) {
    int calls = 0;
    for (std::string failed = "none yet"; !failed.empty() && !HasFailure(); ++calls) {
      SCOPED_TRACE(std::string(kind) + ", call " + std::to_string(calls) + ", after " + failed);
      failed = RunWith(GetParam(), {.calls = FaultyCalls::kVerbs, .call = calls}, kind);
      ExpectNothingHeld();
    }
    EXPECT_GT(calls, 20);
    ExpectAllWell(kind);
  }
}

/// An accelerator whose driver fails on demand.
struct Driver {
  const char* kind;
  void (*fail)(int call);  ///< number of the call, from 1; 0: none
  bool (*pending)();
  int least_calls;
};

const Driver kDrivers[] = {
    {"gaudi", [](int call) { fake_gaudi::Configure({.devices = 2, .fail_call = call}); },
     fake_gaudi::FailurePending, 4},
    {"hip", [](int call) { fake_hip::Configure({.fail_call = call}); }, fake_hip::FailurePending, 4},
    {"cuda",
     [](int call) {
       fake_cuda::Configure("");
       fake_cuda::FailAnyCall(call);
     },
     fake_cuda::FailurePending, 10},
};

TEST_P(RdmaDemoFaults, OfDriversEndInSentences) {
  const bool serves = GetParam() == Role::kServer;
  for (const Driver& driver : kDrivers) {
    int calls = 0;
    for (bool pending = false; !pending && !HasFailure(); ++calls) {
      SCOPED_TRACE(std::string(driver.kind) + ", call " + std::to_string(calls + 1));
      const auto run = [&](int patience) {
        driver.fail(calls + 1);
        return RunBoth(ShortTimeouts(serves ? driver.kind : "host", patience),
                       ShortTimeouts(serves ? "host" : driver.kind, patience));
      };
      RunPatiently(GetParam(), run, [&] { return !driver.pending(); });
      ExpectNothingHeld();
      pending = driver.pending();
    }
    EXPECT_GT(calls, driver.least_calls) << driver.kind;
    driver.fail(0);
    ExpectAllWell(driver.kind);
  }
}

INSTANTIATE_TEST_SUITE_P(, RdmaDemoFaults, testing::Values(Role::kServer, Role::kClient),
                         [](const auto& role) { return NameOf(role.param); });

constexpr int kStride = 11;

/// Every kStride-th allocation of a side fails, each in a run of its own. Cases share the allocations,
/// because all of them take minutes.
struct Allocations {
  Role of;
  const char* kind;
  int first;

  friend void PrintTo(const Allocations& part, std::ostream* out) { *out << part.kind << ", " << part.first; }
};

class RdmaDemoFaultsOfMemory : public DemoWithFaults, public testing::WithParamInterface<Allocations> {};

TEST_P(RdmaDemoFaultsOfMemory, LeaveNothing) {
  const auto& [of, kind, first] = GetParam();
  int calls = first;
  for (std::string failed = "none yet"; !failed.empty() && !HasFailure(); calls += kStride) {
    SCOPED_TRACE("allocation " + std::to_string(calls));
    failed = RunWith(of, {.calls = FaultyCalls::kMemory, .call = calls}, kind);
    ExpectNothingHeld();
  }
  EXPECT_GT(calls, 5 * kStride);
  ExpectAllWell(kind);
}

/// Returns all cases with host memory, and some with accelerators. CUDA is left out, because its fake
/// allocates in calls that release.
std::vector<Allocations> AllAllocations() {
  std::vector<Allocations> all;
  for (const Role of : {Role::kServer, Role::kClient}) {
    for (int first = 0; first < kStride; ++first) all.push_back({of, "host", first});
    for (const auto& [kind, first] : {std::pair{"gaudi", 0}, std::pair{"hip", 4}})
      all.push_back({of, kind, first});
  }
  return all;
}

std::string NameOf(const Allocations& part) {
  return NameOf(part.of) + "_" + part.kind + "_" + std::to_string(part.first);
}

INSTANTIATE_TEST_SUITE_P(, RdmaDemoFaultsOfMemory, testing::ValuesIn(AllAllocations()),
                         [](const auto& part) { return NameOf(part.param); });

}  // namespace
}  // namespace rdma_demo
