#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "host/connect/two_sides.hpp"
#include "host/endpoint/faults.hpp"
#include "warpverbs/host/connect_all.hpp"
#include "warpverbs/host/device.hpp"

namespace warpverbs::host {
namespace {

TEST_P(Faults, ResetBothSidesOfConnectAll) {
  const Device device;
  TwoSides sides(device);
  const auto connect = [&] {
    try {
      sides.Connect();
    } catch (const Error&) {
      // If memory runs out during the exchange, the last message may have reached only one side.
      if (GetParam() == FaultyCalls::kVerbs)
        Require(sides.AllAre(mlx5::QpState::kReset), "an endpoint that is not reset");
      throw;
    }
    Require(sides.AllAre(mlx5::QpState::kRts), "an endpoint that is not connected");
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

TEST(MemoryFaults, LeaveThisSideResetAfterConnectAll) {
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

TEST(MemoryFaults, CloseTheConnectionOfASwap) {
  const std::vector<uint8_t> message(100'000, 7);
  const auto swap = [&](TcpExchange& exchange) {
    Require(exchange.Swap(message, "a word", Soon()) == message, "a message that is not whole");
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
    EXPECT_THAT(sentence, testing::AnyOf("", testing::HasSubstr("the connection is closed because ")));
  }
}

}  // namespace
}  // namespace warpverbs::host
