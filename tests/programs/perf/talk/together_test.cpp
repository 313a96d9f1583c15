#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "perf/talk/talk.hpp"
#include "scripted_peer.hpp"
#include "thread_calls.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

/// Parts of two sides that last.
namespace warpverbs::perf {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr auto kBeat = 5ms;
constexpr char kAtWork[] = R"({"done":false})", kDone[] = R"({"done":true})";

/// Another exchange, whose swaps it counts.
class Counted : public host::Exchange {
 public:
  explicit Counted(host::Exchange& exchange) : exchange_(exchange) {}

  std::vector<uint8_t> Swap(std::span<const uint8_t> mine, std::string_view what,
                            host::Deadline deadline) override {
    std::vector<uint8_t> theirs = exchange_.Swap(mine, what, deadline);
    ++swaps_;
    return theirs;
  }

  /// Waits for so many; false if they do not come.
  bool Reaches(int swaps) const {
    const host::Deadline deadline = host::DeadlineIn(60s);
    while (swaps_ < swaps && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return swaps_ >= swaps;
  }

 private:
  host::Exchange& exchange_;
  std::atomic<int> swaps_{0};
};

/// Of a part that nothing ends before its time.
void NotStopped() { ADD_FAILURE() << "the part was stopped"; }

/// A part that lasts until it is stopped.
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

/// What comes of a part that lasts until it is stopped.
void DoEndlessly(host::Exchange& exchange, std::chrono::nanoseconds patience) {
  Endless part;
  Talk(exchange, patience, kBeat).DoTogether([&] { part.Run(); }, [&] { part.Stop(); });
}

TEST(PerfTalk, PartsMayLastLongerThanAnybodysPatience) {
  const host::TcpListener listener;
  std::jthread peer([&] {
    host::TcpExchange exchange =
        host::TcpExchange::Connect({"localhost", listener.port()}, host::DeadlineIn(60s));
    EXPECT_NO_THROW(
        Talk(exchange, 1s, kBeat).DoTogether([] {}, NotStopped));  // is done at once, and hears of the other
  });
  host::TcpExchange exchange = listener.Accept(host::DeadlineIn(60s));
  Counted counted(exchange);
  const auto begin = std::chrono::steady_clock::now();
  Talk(counted, 1s, kBeat).DoTogether([&] { EXPECT_TRUE(counted.Reaches(400)); }, NotStopped);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 1s + kBeat);  // so it was put to the test
}

TEST(PerfTalk, SideThatIsDoneWaitsUntilTheOtherOneIs) {
  ScriptedPeer peer({kAtWork, kAtWork, kDone});
  Talk(peer, 1s, 1h).DoTogether([] {}, NotStopped);
  EXPECT_THAT(peer.told(), ElementsAre(kDone, kDone, kDone));
}

TEST(PerfTalk, SideAtWorkSaysSoThoughTheOtherOneIsDone) {
  ScriptedPeer peer({kDone});
  Counted counted(peer);
  Talk(counted, 1s, kBeat).DoTogether([&] { EXPECT_TRUE(counted.Reaches(3)); }, NotStopped);
  ASSERT_GE(peer.told().size(), 4u);
  EXPECT_EQ(peer.told().front(), kAtWork);
  EXPECT_EQ(peer.told().back(), kDone);
}

TEST(PerfTalk, PeerThatFallsSilentEndsAPart) {
  const host::TcpListener listener;
  host::TcpExchange silent =
      host::TcpExchange::Connect({"localhost", listener.port()}, host::DeadlineIn(60s));
  host::TcpExchange exchange = listener.Accept(host::DeadlineIn(60s));
  EXPECT_THAT([&] { DoEndlessly(exchange, 20ms); },
              ThrowsMessage<host::Error>(HasSubstr("the word that it is done")));
}

TEST(PerfTalk, PeerThatLeavesEndsAPart) {
  const host::TcpListener listener;
  {
    const host::TcpExchange gone =
        host::TcpExchange::Connect({"localhost", listener.port()}, host::DeadlineIn(60s));
  }
  host::TcpExchange exchange = listener.Accept(host::DeadlineIn(60s));
  EXPECT_THAT([&] { DoEndlessly(exchange, 1h); },
              ThrowsMessage<host::Error>(HasSubstr("the word that it is done")));
}

TEST(PerfTalk, FailureOfThePeerEndsAPart) {
  ScriptedPeer peer({R"({"failed": "no memory"})"});
  EXPECT_THAT([&] { DoEndlessly(peer, 1s); }, ThrowsMessage<PeerFailed>(HasSubstr("no memory")));
  EXPECT_THAT(peer.told(), ElementsAre(kAtWork));  // nothing more is said to who has left
}

TEST(PerfTalk, FailureOfThePeerIsTheCauseOfWhatThePartMeets) {
  ScriptedPeer peer({R"({"failed": "no memory"})"});
  Counted counted(peer);
  EXPECT_THAT(
      [&] {
        Talk(counted, 1s, kBeat)
            .DoTogether(
                [&] {
                  EXPECT_TRUE(counted.Reaches(1));
                  throw std::runtime_error("the queue pair is gone");
                },
                [] {});
      },
      ThrowsMessage<PeerFailed>(HasSubstr("no memory")));
}

TEST(PerfTalk, FailureOfAPartIsToldWhereThePeerHasSaidNothing) {
  ScriptedPeer peer({R"({"failed": "no memory"})"});
  EXPECT_THAT(
      [&] { Talk(peer, 1s, 1h).DoTogether([] { throw std::runtime_error("no queue"); }, NotStopped); },
      ThrowsMessage<std::runtime_error>(HasSubstr("no queue")));
}

TEST(PerfTalk, SaysThatThereIsNoThreadLeft) {
  ScriptedPeer peer({kDone});
  const NoThreadsLeft shortage;
  EXPECT_THAT([&] { Talk(peer, 1s, 1h).DoTogether([] { ADD_FAILURE() << "it began"; }, NotStopped); },
              ThrowsMessage<host::Error>(
                  "Cannot start a thread that says that this side is at work: Resource temporarily "
                  "unavailable (EAGAIN). Raise the limit on threads (ulimit -u)."));
}

}  // namespace
}  // namespace warpverbs::perf
