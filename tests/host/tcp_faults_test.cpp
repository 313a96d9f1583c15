// Every socket call of an exchange fails once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "exchange_fixture.hpp"
#include "socket_calls.hpp"

namespace warpverbs::host {
namespace {

struct Outcome {
  std::string sentence;  // of the connecting side, which has the fault; empty: it succeeded
  std::vector<uint8_t> heard;
  int calls = 0;
};

/// Connects and swaps twice, in a thread with a fault; the other side has none.
Outcome SwapTwice(const SocketFault& fault) {
  Outcome outcome;
  const TcpListener listener({.host = "127.0.0.1"});
  std::jthread faulty([&] {
    Inject(fault);
    outcome.sentence = SentenceOf([&] {
      TcpExchange exchange = TcpExchange::Connect({"127.0.0.1", listener.port()}, Soon());
      exchange.Swap(BytesOf("mine"), "a word", Soon());
      outcome.heard = exchange.Swap(BytesOf("my second"), "a word", Soon());
    });
    outcome.calls = SocketCalls();
    Inject({});
    // Whoever waits for a peer gets one.
    if (!outcome.sentence.empty()) SentenceOf([&] { RawPeer(listener.port()).Leave(); });
  });
  SentenceOf([&] {
    TcpExchange exchange = listener.Accept(Soon());
    exchange.Swap(BytesOf("yours"), "a word", Soon());
    exchange.Swap(BytesOf("your second"), "a word", Soon());
  });
  faulty.join();
  return outcome;
}

/// Runs with a fault at each call, until one run makes fewer.
template <class Check>
void ForEachCall(int error, const Check& check) {
  for (int call = 0;; ++call) {
    SCOPED_TRACE("call " + std::to_string(call) + " fails with " + strerrorname_np(error));
    const Outcome outcome = SwapTwice({.call = call, .error = error});
    if (outcome.calls <= call) {
      EXPECT_GE(call, 6) << "calls were counted";
      return;
    }
    check(outcome);
  }
}

TEST(TcpFaults, InterruptedCallsGoOn) {
  ForEachCall(EINTR, [](const Outcome& outcome) {
    // Only socket() does not know this failure, and connect() goes on by itself.
    if (!outcome.sentence.empty()) {
      EXPECT_THAT(outcome.sentence, testing::StartsWith("Cannot connect to 127.0.0.1 port "));
    } else {
      EXPECT_EQ(outcome.heard, BytesOf("your second"));
    }
  });
}

class EveryFailure : public testing::TestWithParam<int> {};

TEST_P(EveryFailure, IsASentenceAndLeavesNoFileBehind) {
  SwapTwice({});
  const size_t before = OpenFiles();
  ForEachCall(GetParam(), [](const Outcome& outcome) {
    if (outcome.sentence.empty()) {
      EXPECT_EQ(outcome.heard, BytesOf("your second")) << "what passes has done its work";
    } else {
      EXPECT_THAT(outcome.sentence, testing::StartsWith("Cannot "));
    }
  });
  EXPECT_EQ(OpenFiles(), before);
}

INSTANTIATE_TEST_SUITE_P(, EveryFailure, testing::Values(ECONNRESET, ENOMEM, EPIPE, EMFILE, ETIMEDOUT),
                         [](const auto& error) { return strerrorname_np(error.param); });

TEST(TcpFaults, BytesThatComeAndGoOneByOneMakeWholeMessages) {
  const Outcome outcome = SwapTwice({.piecewise = true});
  EXPECT_EQ(outcome.sentence, "");
  EXPECT_EQ(outcome.heard, BytesOf("your second"));
  EXPECT_GT(outcome.calls, 100);
}

TEST(TcpFaults, PeersThatDoNotListenYetAreTriedAgain) {
  constexpr int kConnect = 1;  // after socket()
  for (const int error : {ECONNREFUSED, EHOSTUNREACH}) {
    const Outcome outcome = SwapTwice({.call = kConnect, .error = error});
    EXPECT_EQ(outcome.sentence, "");
    EXPECT_EQ(outcome.heard, BytesOf("your second"));
  }
}

TEST(TcpFaults, TooManyFilesAreNoFaultOfTheOtherSides) {
  EXPECT_THAT(SwapTwice({.call = 0, .error = EMFILE}).sentence,
              testing::HasSubstr("raise the limit (ulimit -n)"));
}

TEST(TcpFaults, AcceptGoesOnAfterAConnectionThatFailedBefore) {
  const TcpListener listener({.host = "127.0.0.1"});
  const RawPeer peer(listener.port());
  for (const int error : {ECONNABORTED, EINTR, EPROTO}) {
    const RawPeer next(listener.port());
    Inject({.call = 0, .error = error});
    EXPECT_EQ(SentenceOf([&] { listener.Accept(Soon()); }), "");
  }
  Inject({});
}

}  // namespace
}  // namespace warpverbs::host
