// Fails each socket call of ConnectAll() over TCP once, on either side. Both sides must report it, or the
// side that got the last message stays connected. Nothing may leak, and after Reset() the sides must connect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <string>

#include "host/connect/exchange_fixture.hpp"
#include "host/connect/socket_calls.hpp"
#include "host/connect/two_sides.hpp"
#include "host/endpoint/fault_calls.hpp"
#include "warpverbs/host/connect_all.hpp"
#include "warpverbs/host/device.hpp"

namespace warpverbs::host {
namespace {

using testing::AnyOf;
using testing::StartsWith;

/// Makes a socket call of its swaps fail, but no other call of the thread.
class FaultyExchange final : public Exchange {
 public:
  FaultyExchange(Exchange& exchange, const SocketFault& fault) : exchange_(exchange), fault_(fault) {}

  std::vector<uint8_t> Swap(std::span<const uint8_t> mine, std::string_view what,
                            Deadline deadline) override {
    const Turn turn(*this);
    std::vector<uint8_t> answer = exchange_.Swap(mine, what, deadline);
    ++swaps_;
    return answer;
  }

  std::string PeerName() const override { return exchange_.PeerName(); }
  int calls() const { return calls_; }
  int swaps() const { return swaps_; }  ///< number of successful swaps

 private:
  struct Turn {
    explicit Turn(FaultyExchange& of) : owner(of) {
      SocketFault fault = owner.fault_;
      fault.call -= owner.calls_;
      Inject(fault);
    }
    ~Turn() {
      owner.calls_ += SocketCalls();
      Inject({});
    }
    FaultyExchange& owner;
  };

  Exchange& exchange_;
  SocketFault fault_;
  int calls_ = 0, swaps_ = 0;
};

/// The result of one ConnectAll().
struct Outcome {
  std::string faulty, other;  ///< errors of the sides; empty on success
  int calls = 0, swaps = 0;   ///< counts of the faulty side
};

constexpr int kSwaps = 4;

class ConnectFaults : public testing::TestWithParam<int> {
 protected:
  using Ends = std::array<Endpoint*, 2>;

  /// @param first  whether the first side has the fault
  Outcome Connect(const SocketFault& fault, bool first) {
    TcpPair tcp;
    const Ends ends[] = {{&sides_.a, &sides_.b}, {&sides_.c, &sides_.d}};
    const auto run = [](const Ends& endpoints, TcpExchange& own, Exchange& exchange) {
      return SentenceOf([&] {
        try {
          ConnectAll(endpoints, exchange, Soon(), {.round_trip = true});
        } catch (...) {
          const TcpExchange hung_up = std::move(own);
          throw;
        }
      });
    };
    auto other =
        std::async(std::launch::async, [&] { return run(ends[first ? 1 : 0], tcp.there, tcp.there); });
    FaultyExchange shaken(tcp.here, fault);
    Outcome outcome{.faulty = run(ends[first ? 0 : 1], tcp.here, shaken), .other = {}};
    outcome.other = other.get();
    outcome.calls = shaken.calls();
    outcome.swaps = shaken.swaps();
    return outcome;
  }

  void ExpectConnects() {
    sides_.Reset();
    const Outcome outcome = Connect({}, true);
    EXPECT_EQ(outcome.faulty + outcome.other, "");
    EXPECT_TRUE(sides_.AllAre(mlx5::QpState::kRts));
    sides_.Reset();
  }

  Device device_;
  TwoSides sides_{device_};
};

TEST_P(ConnectFaults, AreReportedOnBothSidesAndLeaveNothing) {
  ExpectConnects();
  const std::string held = HeldByVerbs();
  const size_t files = OpenFiles();
  for (const bool first : {true, false}) {
    int call = 0;
    for (;; ++call) {
      SCOPED_TRACE("socket call " + std::to_string(call) + " of side " + (first ? "1" : "2") + " fails");
      const Outcome outcome = Connect({.call = call, .error = GetParam()}, first);
      if (outcome.calls <= call) {  // the fault did not happen
        EXPECT_EQ(outcome.faulty + outcome.other, "");
        sides_.Reset();
        break;
      }
      EXPECT_THAT(outcome.faulty, AnyOf(StartsWith("Cannot swap the "), StartsWith("Cannot wait for ")));
      if (outcome.other.empty()) {
        EXPECT_EQ(outcome.swaps, kSwaps - 1)
            << "only the sender of the last message cannot know that it arrived";
      } else {
        EXPECT_THAT(outcome.other, StartsWith("Cannot "));
        EXPECT_TRUE(sides_.AllAre(mlx5::QpState::kReset));
      }
      EXPECT_EQ(OpenFiles(), files);
      EXPECT_EQ(HeldByVerbs(), held);
      ExpectConnects();
      if (HasFailure()) return;
    }
    EXPECT_GE(call, 3 * kSwaps) << "each swap sends a header and a message, and receives";
  }
}

/// Listens, accepts a waiting peer and swaps, with a fault in this thread.
Outcome Accept(const SocketFault& fault) {
  Outcome outcome;
  std::future<std::string> other;
  Inject(fault);
  outcome.faulty = SentenceOf([&] {
    const TcpListener listener({.host = "127.0.0.1"});
    TcpExchange there = std::async(std::launch::async, [&] {
                          return TcpExchange::Connect({"127.0.0.1", listener.port()}, Soon());
                        }).get();
    other = std::async(std::launch::async, [there = std::move(there)]() mutable {
      return SentenceOf([&] { there.Swap(BytesOf("yours"), "a word", Soon()); });
    });
    // A fault may look like a stranger, after which the listener waits for another peer.
    TcpExchange here = listener.Accept(fault.call < 0 ? Soon() : DeadlineIn(std::chrono::seconds(5)));
    EXPECT_EQ(here.Swap(BytesOf("mine"), "a word", Soon()), BytesOf("yours"));
  });
  outcome.calls = SocketCalls();
  Inject({});
  if (other.valid()) outcome.other = other.get();
  return outcome;
}

TEST_P(ConnectFaults, LeaveNoFileAfterListeningAndAccepting) {
  Accept({});
  const size_t files = OpenFiles();
  int call = 0;
  for (;; ++call) {
    SCOPED_TRACE("socket call " + std::to_string(call) + " fails");
    const Outcome outcome = Accept({.call = call, .error = GetParam()});
    if (outcome.calls <= call) break;
    EXPECT_THAT(outcome.faulty, AnyOf("", StartsWith("Cannot ")))
        << "some failures look like a peer that left";
    EXPECT_EQ(OpenFiles(), files);
    EXPECT_EQ(Accept({}).faulty, "");
  }
  EXPECT_GE(call, 7) << "socket(), bind(), listen(), accept4(), recv(), and recv() and send() of the swap";
}

INSTANTIATE_TEST_SUITE_P(, ConnectFaults, testing::Values(ECONNRESET, ENOMEM, EPIPE),
                         [](const auto& error) { return strerrorname_np(error.param); });

}  // namespace
}  // namespace warpverbs::host
