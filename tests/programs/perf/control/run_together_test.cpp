#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "common/no_threads.hpp"
#include "perf/control/control_channel.hpp"
#include "scripted_peer.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

/// Long-running parts of both sides.
namespace warpverbs::perf {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr auto kHeartbeat = 5ms;
constexpr char kBusy[] = R"({"done":false})", kDone[] = R"({"done":true})";

/// Counts the swaps of another exchange.
class CountingExchange : public host::Exchange {
 public:
  explicit CountingExchange(host::Exchange& exchange) : exchange_(exchange) {}

  std::vector<uint8_t> Swap(std::span<const uint8_t> mine, std::string_view what,
                            host::Deadline deadline) override {
    std::vector<uint8_t> theirs = exchange_.Swap(mine, what, deadline);
    ++swaps_;
    return theirs;
  }

  /// Waits for a number of swaps. Returns whether they happened in time.
  bool Reaches(int swaps) const {
    const host::Deadline deadline = host::DeadlineIn(60s);
    while (swaps_ < swaps && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return swaps_ >= swaps;
  }

 private:
  host::Exchange& exchange_;
  std::atomic<int> swaps_{0};
};

/// Fails the test when a part is stopped.
void ExpectNoStop() { ADD_FAILURE() << "the part was stopped"; }

/// A part that runs until it is stopped.
class Endless {
 public:
  void Run() const {
    const host::Deadline deadline = host::DeadlineIn(60s);
    while (!stopped_ && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(stopped_);
  }
  void Stop() { EXPECT_FALSE(stopped_.exchange(true)) << "stopped twice"; }

 private:
  std::atomic<bool> stopped_{false};
};

/// Runs a part that ends only when it is stopped.
void RunEndlessly(host::Exchange& exchange, std::chrono::nanoseconds timeout) {
  Endless part;
  ControlChannel(exchange, timeout, kHeartbeat).RunTogether([&] { part.Run(); }, [&] { part.Stop(); });
}

TEST(RunTogether, LastsLongerThanTheTimeoutOfAMessage) {
  const host::TcpListener listener;
  std::jthread peer([&] {
    host::TcpExchange exchange =
        host::TcpExchange::Connect({"localhost", listener.port()}, host::DeadlineIn(60s));
    EXPECT_NO_THROW(ControlChannel(exchange, 1s, kHeartbeat)
                        .RunTogether([] {}, ExpectNoStop));  // finishes at once, and waits for the other side
  });
  host::TcpExchange exchange = listener.Accept(host::DeadlineIn(60s));
  CountingExchange counted(exchange);
  const auto begin = std::chrono::steady_clock::now();
  ControlChannel(counted, 1s, kHeartbeat)
      .RunTogether([&] { EXPECT_TRUE(counted.Reaches(400)); }, ExpectNoStop);
  EXPECT_GE(std::chrono::steady_clock::now() - begin,
            1s + kHeartbeat);  // otherwise the test would prove nothing
}

TEST(RunTogether, WaitsUntilThePeerHasFinished) {
  ScriptedPeer peer({kBusy, kBusy, kDone});
  ControlChannel(peer, 1s, 1h).RunTogether([] {}, ExpectNoStop);
  EXPECT_THAT(peer.received(), ElementsAre(kDone, kDone, kDone));
}

TEST(RunTogether, SendsHeartbeatsAfterThePeerHasFinished) {
  ScriptedPeer peer({kDone});
  CountingExchange counted(peer);
  ControlChannel(counted, 1s, kHeartbeat).RunTogether([&] { EXPECT_TRUE(counted.Reaches(3)); }, ExpectNoStop);
  ASSERT_GE(peer.received().size(), 4u);
  EXPECT_EQ(peer.received().front(), kBusy);
  EXPECT_EQ(peer.received().back(), kDone);
}

TEST(RunTogether, StopsAPartWhenThePeerFallsSilent) {
  const host::TcpListener listener;
  host::TcpExchange silent =
      host::TcpExchange::Connect({"localhost", listener.port()}, host::DeadlineIn(60s));
  host::TcpExchange exchange = listener.Accept(host::DeadlineIn(60s));
  EXPECT_THAT([&] { RunEndlessly(exchange, 20ms); }, ThrowsMessage<host::Error>(HasSubstr("its heartbeat")));
}

TEST(RunTogether, StopsAPartWhenThePeerLeaves) {
  const host::TcpListener listener;
  {
    const host::TcpExchange gone =
        host::TcpExchange::Connect({"localhost", listener.port()}, host::DeadlineIn(60s));
  }
  host::TcpExchange exchange = listener.Accept(host::DeadlineIn(60s));
  EXPECT_THAT([&] { RunEndlessly(exchange, 1h); }, ThrowsMessage<host::Error>(HasSubstr("its heartbeat")));
}

TEST(RunTogether, StopsAPartWhenThePeerFails) {
  ScriptedPeer peer({R"({"failed": "no memory"})"});
  EXPECT_THAT([&] { RunEndlessly(peer, 1s); }, ThrowsMessage<PeerFailed>(HasSubstr("no memory")));
  EXPECT_THAT(peer.received(), ElementsAre(kBusy));  // sends nothing more to a failed peer
}

TEST(RunTogether, ReportsThePeersFailureRatherThanItsConsequences) {
  ScriptedPeer peer({R"({"failed": "no memory"})"});
  CountingExchange counted(peer);
  EXPECT_THAT(
      [&] {
        ControlChannel(counted, 1s, kHeartbeat)
            .RunTogether(
                [&] {
                  EXPECT_TRUE(counted.Reaches(1));
                  throw std::runtime_error("the queue pair is gone");
                },
                [] {});
      },
      ThrowsMessage<PeerFailed>(HasSubstr("no memory")));
}

TEST(RunTogether, ReportsAFailureOfThePart) {
  ScriptedPeer peer({R"({"failed": "no memory"})"});
  EXPECT_THAT(
      [&] {
        ControlChannel(peer, 1s, 1h).RunTogether([] { throw std::runtime_error("no queue"); }, ExpectNoStop);
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("no queue")));
}

TEST(RunTogether, ReportsThatNoThreadCanStart) {
  ScriptedPeer peer({kDone});
  const tests::NoThreads shortage;
  EXPECT_THAT(
      [&] { ControlChannel(peer, 1s, 1h).RunTogether([] { ADD_FAILURE() << "it began"; }, ExpectNoStop); },
      ThrowsMessage<host::Error>("Cannot start a thread for heartbeats to the peer: Resource temporarily "
                                 "unavailable (EAGAIN). Raise the limits on threads and memory (ulimit -u, "
                                 "ulimit -v)."));
}

}  // namespace
}  // namespace warpverbs::perf
