// Every call that a side sets itself up with fails once: each ends with a sentence, nothing is left behind,
// and the next run is well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "both.hpp"
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

  /// Who is left alone does not wait long.
  static Options Brief(const std::string& memory) {
    Options options = Of(memory, 64);
    options.wait = milliseconds(200);
    options.patience = milliseconds(700);
    return options;
  }

  /// Both sides either are well, or at least the faulty one says why it is not.
  static void ExpectSentence(Role of, const Both& both) {
    const Ended& faulty = of == Role::kServer ? both.server : both.client;
    if (both.well()) return;
    const bool in_summary = faulty.output.find("failed: ") != std::string::npos;
    EXPECT_TRUE(in_summary || faulty.sentence.size() > 20 || faulty.sentence == "std::bad_alloc")
        << both.output();
    EXPECT_FALSE(faulty.well);
  }

  static void ExpectAllWell(const std::string& kind) {
    const Both both = RunBoth(Of(kind, 64), Of(kind, 64));
    EXPECT_TRUE(both.well()) << both.output();
  }

  /// Runs both sides with one call of one side failing.
  ///
  /// @param of  the faulty side
  /// @return  the name of the call; empty: there were fewer
  static std::string RunWith(Role of, const CallFault& fault, const std::string& kind) {
    std::string failed;
    ExpectSentence(of, RunBoth(Brief(kind), Brief(kind), [&](Role role, const std::function<void()>& run) {
                     if (role != of) return run();
                     const Faulty faulty(fault);
                     try {
                       run();
                     } catch (...) {
                       failed = faulty.failed();
                       throw;
                     }
                     failed = faulty.failed();
                   }));
    return failed;
  }
};

std::string NameOf(Role role) { return role == Role::kServer ? "Server" : "Client"; }

class RdmaDemoFaults : public DemoWithFaults, public testing::WithParamInterface<Role> {};

TEST_P(RdmaDemoFaults, OfRdmaCoreAreSentencesAndLeaveNothing) {
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
  void (*fail)(int call);  ///< counted from 1; 0: none
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

TEST_P(RdmaDemoFaults, OfTheAcceleratorsDriversAreSentencesAndLeaveNothing) {
  const bool serves = GetParam() == Role::kServer;
  for (const Driver& driver : kDrivers) {
    int calls = 0;
    for (bool pending = false; !pending && !HasFailure(); ++calls) {
      SCOPED_TRACE(std::string(driver.kind) + ", call " + std::to_string(calls + 1));
      driver.fail(calls + 1);
      ExpectSentence(GetParam(),
                     RunBoth(Brief(serves ? driver.kind : "host"), Brief(serves ? "host" : driver.kind)));
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

/// Every kStride-th allocation of a side fails, from one on: all in turn take minutes, which cases share.
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

#ifdef __SANITIZE_ADDRESS__  // takes three times as long: a quarter of them
constexpr int kStep = 4;
#else
constexpr int kStep = 1;
#endif

/// All allocations with host memory, and some with an accelerator's: not CUDA's, whose fake allocates in
/// calls that only give back.
std::vector<Allocations> AllAllocations() {
  std::vector<Allocations> all;
  for (const Role of : {Role::kServer, Role::kClient}) {
    for (int first = 0; first < kStride; first += kStep) all.push_back({of, "host", first});
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
