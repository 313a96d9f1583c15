// Every socket call of an exchange fails once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "host/connect/exchange_fixture.hpp"
#include "host/connect/socket_calls.hpp"
#include "warpverbs/host/shared_memory.hpp"

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

/// Sends memory to this very thread, with a fault. Byte by byte it comes from another: a socket has no room
/// for so many messages.
Outcome Share(const SocketFault& fault) {
  Outcome outcome;
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor here(ends[0]), there(ends[1]);
  SharedMemory shared{{.kind = ShareKind::kDmaBuf, .bytes = 1, .allocation_bytes = 1, .address = 4096},
                      FileDescriptor(memfd_create("shared", MFD_CLOEXEC))};
  Inject(fault);
  outcome.sentence = SentenceOf([&] {
    std::jthread sender;
    const auto send = [&] { SendShared(here.get(), shared, Soon()); };
    if (fault.piecewise) {
      sender = std::jthread([&] {
        Inject(fault);
        EXPECT_EQ(SentenceOf(send), "");
      });
    } else {
      send();
    }
    const SharedMemory received = ReceiveShared(there.get(), Soon());
    EXPECT_EQ(received.info, shared.info);
    EXPECT_TRUE(received.file);
  });
  outcome.calls = SocketCalls();
  Inject({});
  return outcome;
}

TEST(ShareFaults, EveryFailureIsASentenceAndLeavesNoFileBehind) {
  Share({});
  const size_t before = OpenFiles();
  for (const int error : {ECONNRESET, EPIPE, ENOMEM, ETOOMANYREFS, EBADF}) {
    int call = 0;
    for (; Share({.call = call, .error = error}).calls > call; ++call) {
      EXPECT_THAT(
          Share({.call = call, .error = error}).sentence,
          testing::ContainsRegex("^Cannot (send|receive) shared memory over a socket: .*\\(E[A-Z]*\\)"));
    }
    EXPECT_EQ(call, 4) << "poll() and sendmsg(), poll() and recvmsg()";
  }
  EXPECT_EQ(OpenFiles(), before);
}

TEST(ShareFaults, InterruptedCallsGoOnAndBytesMayComeOneByOne) {
  for (int call = 0; call < 4; ++call) {
    for (const int error : {EINTR, EAGAIN}) {
      const bool is_poll = call % 2 == 0;
      if (is_poll && error == EAGAIN) continue;
      EXPECT_EQ(Share({.call = call, .error = error}).sentence, "");
    }
  }
  const Outcome outcome = Share({.piecewise = true});
  EXPECT_EQ(outcome.sentence, "");
  EXPECT_GT(outcome.calls, 300);
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
