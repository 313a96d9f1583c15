// Fails each socket call of an exchange once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "host/connect/exchange_fixture.hpp"
#include "host/connect/socket_calls.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/shared_memory.hpp"

namespace warpverbs::host {
namespace {

struct Outcome {
  std::string sentence;  // error of the connecting side, which has the fault; empty on success
  std::vector<uint8_t> received;
  int calls = 0;
};

/// Connects and swaps twice, in a thread with a fault. The other side has none.
Outcome SwapTwice(const SocketFault& fault) {
  Outcome outcome;
  const TcpListener listener({.host = "127.0.0.1"});
  std::jthread faulty([&] {
    Inject(fault);
    outcome.sentence = SentenceOf([&] {
      TcpExchange exchange = TcpExchange::Connect({"127.0.0.1", listener.port()}, Soon());
      exchange.Swap(BytesOf("mine"), "a word", Soon());
      outcome.received = exchange.Swap(BytesOf("my second"), "a word", Soon());
    });
    outcome.calls = SocketCalls();
    Inject({});
    // A listener that still waits for a peer gets one.
    if (!outcome.sentence.empty()) SentenceOf([&] { RawPeer(listener.port()).Greet(); });
  });
  SentenceOf([&] {
    TcpExchange exchange = listener.Accept(Soon());
    exchange.Swap(BytesOf("yours"), "a word", Soon());
    exchange.Swap(BytesOf("your second"), "a word", Soon());
  });
  faulty.join();
  return outcome;
}

/// Repeats with the fault at each call, until a run makes fewer calls.
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

/// Sends memory to this thread with a fault. In the piecewise case another thread sends, because the socket
/// has no room for so many messages.
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

TEST(ShareFaults, HaveSentencesAndLeaveNoFile) {
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

TEST(ShareFaults, AllowInterruptedCallsAndSingleBytes) {
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

TEST(TcpFaults, ContinueInterruptedCalls) {
  ForEachCall(EINTR, [](const Outcome& outcome) {
    // Only socket() cannot be interrupted, and connect() continues by itself.
    if (!outcome.sentence.empty()) {
      EXPECT_THAT(outcome.sentence, testing::StartsWith("Cannot connect to 127.0.0.1 port "));
    } else {
      EXPECT_EQ(outcome.received, BytesOf("your second"));
    }
  });
}

class TcpCallFailure : public testing::TestWithParam<int> {};

TEST_P(TcpCallFailure, HasASentenceAndLeavesNoFile) {
  SwapTwice({});
  const size_t before = OpenFiles();
  ForEachCall(GetParam(), [](const Outcome& outcome) {
    if (outcome.sentence.empty()) {
      EXPECT_EQ(outcome.received, BytesOf("your second")) << "a successful run swaps everything";
    } else {
      EXPECT_THAT(outcome.sentence, testing::StartsWith("Cannot "));
    }
  });
  EXPECT_EQ(OpenFiles(), before);
}

INSTANTIATE_TEST_SUITE_P(, TcpCallFailure, testing::Values(ECONNRESET, ENOMEM, EPIPE, EMFILE, ETIMEDOUT),
                         [](const auto& error) { return strerrorname_np(error.param); });

TEST(TcpFaults, AllowTransferByteByByte) {
  const Outcome outcome = SwapTwice({.piecewise = true});
  EXPECT_EQ(outcome.sentence, "");
  EXPECT_EQ(outcome.received, BytesOf("your second"));
  EXPECT_GT(outcome.calls, 100);
}

TEST(TcpFaults, RetryPeersThatDoNotListenYet) {
  constexpr int kConnect = 1;  // the call after socket()
  for (const int error : {ECONNREFUSED, EHOSTUNREACH}) {
    const Outcome outcome = SwapTwice({.call = kConnect, .error = error});
    EXPECT_EQ(outcome.sentence, "");
    EXPECT_EQ(outcome.received, BytesOf("your second"));
  }
}

TEST(TcpFaults, ReportTooManyFilesAsALocalFailure) {
  EXPECT_THAT(SwapTwice({.call = 0, .error = EMFILE}).sentence,
              testing::HasSubstr("raise the limit (ulimit -n)"));
}

TEST(TcpFaults, AcceptAgainAfterAFailedConnection) {
  const TcpListener listener({.host = "127.0.0.1"});
  const RawPeer peer(listener.port());
  peer.Greet();
  for (const int error : {ECONNABORTED, EINTR, EPROTO}) {
    const RawPeer next(listener.port());
    next.Greet();
    Inject({.call = 0, .error = error});
    EXPECT_EQ(SentenceOf([&] { listener.Accept(Soon()); }), "");
  }
  Inject({});
}

}  // namespace
}  // namespace warpverbs::host
