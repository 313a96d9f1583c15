#include "warpverbs/host/tcp_exchange.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <numeric>
#include <thread>

#include "common/no_threads.hpp"
#include "host/connect/exchange_fixture.hpp"
#include "warpverbs/host/exchange.hpp"

namespace warpverbs::host {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

/// Swaps on both ends, each in a thread.
std::pair<std::vector<uint8_t>, std::vector<uint8_t>> SwapBoth(TcpPair& pair, const std::vector<uint8_t>& a,
                                                               const std::vector<uint8_t>& b) {
  auto there = std::async(std::launch::async, [&] { return pair.there.Swap(b, "a word", Soon()); });
  auto received = pair.here.Swap(a, "a word", Soon());
  return {std::move(received), there.get()};
}

TEST(TcpExchange, CarriesMessagesBothWaysInOrder) {
  TcpPair pair;
  for (const std::string text : {"first", "", "third"}) {
    const auto [here, there] = SwapBoth(pair, BytesOf(text), BytesOf(text + " back"));
    EXPECT_EQ(here, BytesOf(text + " back"));
    EXPECT_EQ(there, BytesOf(text));
  }
}

/// Throws at the third call of a WaitCheck, as an interpreter does when a signal has come.
struct Interrupted {};
int checks = 0;
void InterruptThird() {
  if (++checks == 3) throw Interrupted();
}

TEST(WaitCheck, EndsWaitsForPeers) {
  const auto expect_interrupted = [](const auto& wait) {
    checks = 0;
    const WaitCheck check(InterruptThird);
    EXPECT_THROW(wait(), Interrupted);
    EXPECT_EQ(checks, 3);
  };
  const TcpListener listener;
  expect_interrupted([&] { listener.Accept(DeadlineIn(std::chrono::hours(1))); });
  TcpPair pair;
  expect_interrupted([&] { pair.here.Swap("a word", "a word", DeadlineIn(std::chrono::hours(1))); });
  uint16_t unused = 0;
  {
    const TcpListener taken;
    unused = taken.port();
  }
  expect_interrupted([&] { TcpExchange::Connect({"", unused}, DeadlineIn(std::chrono::hours(1))); });
}

TEST(WaitCheck, CountsNoLongerAfterItsEnd) {
  TcpPair pair;
  checks = 0;
  { const WaitCheck check(InterruptThird); }
  const auto [here, there] = SwapBoth(pair, BytesOf("one"), BytesOf("two"));
  EXPECT_EQ(here, BytesOf("two"));
  EXPECT_EQ(checks, 0);
}

TEST(TcpExchange, SwapsValuesAndStrings) {
  struct Place {
    uint64_t addr;
    uint32_t key;
  };
  TcpPair pair;
  auto there = std::async(std::launch::async, [&] {
    const Place theirs = pair.there.Swap(Place{3, 4}, "a place", Soon());
    return std::pair(theirs, pair.there.Swap("of the other side", "a name", Soon()));
  });
  const Place theirs = pair.here.Swap(Place{1, 2}, "a place", Soon());
  EXPECT_EQ(theirs.addr, 3u);
  EXPECT_EQ(theirs.key, 4u);
  EXPECT_EQ(pair.here.Swap(std::string("of this side"), "a name", Soon()), "of the other side");
  const auto [place, name] = there.get();
  EXPECT_EQ(place.addr, 1u);
  EXPECT_EQ(place.key, 2u);
  EXPECT_EQ(name, "of this side");
}

TEST(TcpExchange, RefusesAValueOfAnotherSize) {
  TcpPair pair;
  auto there = std::async(std::launch::async, [&] { return pair.there.Swap("seven b", "a place", Soon()); });
  EXPECT_THAT(SentenceOf([&] { static_cast<void>(pair.here.Swap(uint64_t{1}, "a place", Soon())); }),
              AllOf(HasSubstr("a place"), HasSubstr("7"), HasSubstr("8")));
  EXPECT_EQ(there.get().size(), sizeof(uint64_t));
}

TEST(TcpExchange, CarriesMessagesLargerThanTheSocketBuffers) {
  TcpPair pair;
  std::vector<uint8_t> a(20'000'001), b(17'000'003);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint8_t>(i * 7 + (i >> 8));
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint8_t>(i * 11 + (i >> 9));
  const auto [here, there] = SwapBoth(pair, a, b);
  EXPECT_TRUE(here == b);
  EXPECT_TRUE(there == a);
}

TEST(TcpExchange, LetsOneSideRunAhead) {
  RawExchange raw;
  const std::string header("WVEx\0\2\0\0\0\0\0\0\0\0\0\3", 16);
  raw.peer.Send(header + "one" + header + "two");
  EXPECT_EQ(raw.exchange.Swap({}, "a word", Soon()), BytesOf("one"));
  EXPECT_EQ(raw.exchange.Swap({}, "a word", Soon()), BytesOf("two"));
}

TEST(TcpExchange, ReadsFromAPeerThatSendsByteByByte) {
  RawExchange raw;
  auto peer = std::async(std::launch::async, [&] {
    for (const char byte : std::string("WVEx\0\2\0\0\0\0\0\0\0\0\1\0", 16) + std::string(256, 'x'))
      raw.peer.Send({&byte, 1});
    return raw.peer.Receive(16 + 4);
  });
  EXPECT_EQ(raw.exchange.Swap(BytesOf("mine"), "a word", Soon()), std::vector<uint8_t>(256, 'x'));
  EXPECT_EQ(peer.get(), std::string("WVEx\0\2\0\0\0\0\0\0\0\0\0\4mine", 20));
}

TEST(TcpExchange, WritesToAPeerThatReadsByteByByte) {
  RawExchange raw;
  constexpr size_t kBytes = 16'000'000;  // more than both sockets hold
  auto peer = std::async(std::launch::async, [&] {
    std::string received = raw.peer.Receive(16);
    for (int i = 0; i < 2000; ++i) received += raw.peer.Receive(1);
    received += raw.peer.Receive(kBytes - 2000);
    raw.peer.Send(std::string("WVEx\0\2\0\0\0\0\0\0\0\0\0\0", 16));
    return received;
  });
  EXPECT_TRUE(raw.exchange.Swap(std::vector<uint8_t>(kBytes, 'y'), "a word", Soon()).empty());
  EXPECT_TRUE(peer.get().substr(16) == std::string(kBytes, 'y'));
}

TEST(TcpExchange, QuotesForeignBytes) {
  RawExchange raw;
  raw.peer.Send("GET / HTTP/1.1\r\nHost: gpu-7\r\n\r\n");
  EXPECT_THAT(
      raw.Swap(),
      AllOf(StartsWith("Cannot swap a word with 127.0.0.1 port "),
            HasSubstr("it does not speak this library's protocol: its message begins with 'GET / HTTP/1.1"
                      "\\x0d\\x0a'. Check host and port")));
}

TEST(TcpExchange, DetectsAForeignProtocolByItsFirstByte) {
  RawExchange raw;
  raw.peer.Send("\x16");  // first byte of TLS
  EXPECT_THAT(raw.Swap(), HasSubstr("its message begins with '\\x16'"));
}

TEST(TcpExchange, ReportsAnotherVersionBeforeItsLength) {
  RawExchange raw;
  raw.peer.Send({"WVEx\0\7", 6});
  EXPECT_THAT(raw.Swap(), HasSubstr("it speaks version 7, not 2. Use the same release"));
}

TEST(TcpExchange, RejectsHugeLengthsBeforeAllocating) {
  RawExchange raw;
  raw.peer.Send({"WVEx\0\2\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 16});
  EXPECT_THAT(raw.Swap(),
              HasSubstr("it announces a message of 9223372036854775807 bytes, more than the limit of"));
}

TEST(TcpExchange, RejectsOwnMessagesAboveTheLimit) {
  TcpPair pair;
  const std::vector<uint8_t> mine(kMaxSwapBytes + 1);
  EXPECT_THAT(SentenceOf([&] { pair.here.Swap(mine, "a word", Soon()); }),
              HasSubstr("67108865 bytes exceed the limit of 67108864 bytes"));
  EXPECT_EQ(SwapBoth(pair, BytesOf("a"), BytesOf("b")).first, BytesOf("b")) << "nothing was sent";
}

TEST(TcpExchange, NamesWhatItWaitedForAndHowLong) {
  TcpPair pair;
  EXPECT_THAT(SentenceOf([&] { pair.here.Swap({}, "the descriptions of 3 endpoints", AtOnce()); }),
              AllOf(StartsWith("Cannot swap the descriptions of 3 endpoints with 127.0.0.1 port "),
                    ContainsRegex("no byte of its message arrived within [0-9.e-]+ s\\.")));
  EXPECT_THAT(SentenceOf([&] { pair.here.Swap({}, "a word", Soon()); }),
              ContainsRegex(
                  "the connection is closed because no byte of its message arrived within .* s\\. Connect"));
}

TEST(TcpExchange, TreatsDeadlinesBeyondTheClockAsForever) {
  EXPECT_EQ(DeadlineIn(std::chrono::nanoseconds::max()), Deadline::max());
  EXPECT_LT(DeadlineIn(std::chrono::nanoseconds::min()), std::chrono::steady_clock::now());
  TcpPair pair;
  const auto swap = [](TcpExchange& exchange) {
    return exchange.Swap(BytesOf("a"), "a word", Deadline::max());
  };
  auto there = std::async(std::launch::async, [&] { return swap(pair.there); });
  EXPECT_EQ(swap(pair.here), BytesOf("a"));
  EXPECT_EQ(there.get(), BytesOf("a"));
}

TEST(TcpExchange, HoldsTheDeadlineWithAPeerThatSendsWithoutEnd) {
  RawExchange raw;
  raw.peer.Send(std::string("WVEx\0\2\0\0\0\0\0\0\0\x10\0\0", 16));
  std::jthread peer([&](const std::stop_token& stop) {
    const char byte = 'x';
    while (!stop.stop_requested() && send(raw.peer.fd(), &byte, 1, MSG_NOSIGNAL) == 1)
      std::this_thread::yield();
  });
  EXPECT_THAT(raw.Swap(AtOnce()), HasSubstr(" of 1048576 bytes of its message arrived within "));
}

TEST(TcpExchange, HoldsTheDeadlineWithAPeerThatDoesNotRead) {
  RawExchange raw;
  raw.peer.Send(std::string("WVEx\0\2\0\0\0\0\0\0\0\0\0\0", 16));
  const std::vector<uint8_t> mine(32'000'000);
  EXPECT_THAT(
      SentenceOf([&] { raw.exchange.Swap(mine, "a word", DeadlineIn(std::chrono::milliseconds(300))); }),
      HasSubstr("it did not take the whole message within "));
}

TEST(TcpExchange, ReportsThatThePeerClosedAtAnyByte) {
  const std::string whole = std::string("WVEx\0\2\0\0\0\0\0\0\0\0\0\4", 16) + "word";
  for (size_t said = 0; said < whole.size(); ++said) {
    for (const bool abruptly : {false, true}) {
      RawExchange raw;
      raw.peer.Send(whole.substr(0, said));
      abruptly ? raw.peer.Abort() : raw.peer.Close();
      EXPECT_THAT(raw.Swap(), HasSubstr("the peer closed the connection")) << said;
    }
  }
}

TEST(TcpExchange, RaisesNoSignalIfThePeerLeft) {
  signal(SIGPIPE, SIG_DFL);
  RawExchange raw;
  raw.peer.Abort();
  const std::vector<uint8_t> mine(1'000'000);
  for (int i = 0; i < 3; ++i) EXPECT_NE(SentenceOf([&] { raw.exchange.Swap(mine, "a word", Soon()); }), "");
}

TEST(TcpExchange, TellsThePeerWhenItIsDestroyed) {
  TcpPair pair;
  { const TcpExchange gone = std::move(pair.here); }
  EXPECT_THAT(SentenceOf([&] { pair.there.Swap({}, "a word", Soon()); }),
              HasSubstr("the peer closed the connection. "));
}

TEST(TcpExchange, WaitsForAPeerThatListensLater) {
  const uint16_t port = TcpListener({.host = "127.0.0.1"}).port();  // the port is free again
  auto connecting = std::async(std::launch::async, [port] {
    return TcpExchange::Connect({"127.0.0.1", port}, Soon());
  });
  const TcpListener listener({"127.0.0.1", port});
  listener.Accept(Soon());
  connecting.get();
}

TEST(TcpExchange, GivesUpIfNobodyListens) {
  const uint16_t port = TcpListener({.host = "127.0.0.1"}).port();
  EXPECT_THAT(SentenceOf([&] {
                TcpExchange::Connect({"127.0.0.1", port}, AtOnce());
              }),
              AllOf(StartsWith("Cannot connect to 127.0.0.1 port " + std::to_string(port) + " within "),
                    HasSubstr("Connection refused (ECONNREFUSED). Start the peer there")));
}

TEST(TcpExchange, NamesAHostThatDoesNotExist) {
  EXPECT_THAT(SentenceOf([] {
                TcpExchange::Connect({"no host", 1}, DeadlineIn(std::chrono::seconds(2)));
              }),
              StartsWith("Cannot find the address of 'no host' within "));
}

TEST(TcpExchange, ReportsThatTheLookupThreadCannotStart) {
  const tests::NoThreads none;
  EXPECT_THAT(SentenceOf([] {
                TcpExchange::Connect({"localhost", 1}, Soon());
              }),
              AllOf(StartsWith("Cannot start a thread that looks up 'localhost': "),
                    HasSubstr("pass the address in numbers")));
}

TEST(TcpExchange, ResolvesHostNames) {
  const TcpListener listener;
  TcpExchange here = TcpExchange::Connect({"localhost", listener.port()}, Soon());
  EXPECT_EQ(here.PeerName(), "localhost port " + std::to_string(listener.port()));
  listener.Accept(Soon());
}

bool HasIpv6() {
  std::ifstream addresses("/proc/net/if_inet6");
  return addresses.peek() != std::ifstream::traits_type::eof();
}

TEST(TcpExchange, SupportsIpv6) {
  if (!HasIpv6()) GTEST_SKIP() << "this machine has no IPv6";
  TcpPair pair("::1");
  EXPECT_THAT(pair.there.PeerName(), StartsWith("::1 port "));
  EXPECT_EQ(SwapBoth(pair, BytesOf("a"), BytesOf("b")).second, BytesOf("a"));
}

TEST(TcpListener, AcceptsIpv4AndIpv6OnAnyAddress) {
  const TcpListener listener;
  std::vector<std::string> hosts = {"127.0.0.1"};
  if (HasIpv6()) hosts.emplace_back("::1");
  for (const std::string& host : hosts) {
    const TcpExchange here = TcpExchange::Connect({host, listener.port()}, Soon());
    EXPECT_THAT(listener.Accept(Soon()).PeerName(), StartsWith(host + " port "));
  }
}

TEST(TcpListener, ServesManyPeers) {
  const TcpListener listener({.host = "127.0.0.1"});
  constexpr int kPeers = 16;
  std::vector<std::future<std::vector<uint8_t>>> peers;
  for (int i = 0; i < kPeers; ++i) {
    peers.push_back(std::async(std::launch::async, [&listener, i] {
      TcpExchange exchange = TcpExchange::Connect({"127.0.0.1", listener.port()}, Soon());
      return exchange.Swap(BytesOf(std::to_string(i)), "its rank", Soon());
    }));
  }
  std::vector<std::vector<uint8_t>> ranks;
  for (int i = 0; i < kPeers; ++i) {
    TcpExchange exchange = listener.Accept(Soon());
    ranks.push_back(exchange.Swap(BytesOf("welcome"), "its rank", Soon()));
  }
  for (auto& peer : peers) EXPECT_EQ(peer.get(), BytesOf("welcome"));
  std::vector<std::vector<uint8_t>> expected;
  for (int i = 0; i < kPeers; ++i) expected.push_back(BytesOf(std::to_string(i)));
  EXPECT_THAT(ranks, testing::UnorderedElementsAreArray(expected));
}

TEST(TcpListener, ReportsThatNobodyConnected) {
  const TcpListener listener({.host = "127.0.0.1"});
  EXPECT_THAT(SentenceOf([&] { listener.Accept(AtOnce()); }),
              AllOf(StartsWith("Cannot accept a peer on port " + std::to_string(listener.port())),
                    ContainsRegex("no peer connected within [0-9.e-]+ s\\. Start the peer")));
}

/// What a port scan, a browser, another release or a program that hangs sends first.
constexpr std::string_view kStrangers[] = {
    {"", 0},         {"GET / HTTP/1.1\r\n\r\n"}, {"\x16\x03\x01", 3}, {"WVEx\0\7\0\0", 8},
    {"WVEx\0\2", 6}, {"WVEy\0\2\0\0", 8}};

TEST(TcpListener, ServesThePeerAfterStrangers) {
  const TcpListener listener({.host = "127.0.0.1"});
  std::vector<RawPeer> strangers;
  for (const std::string_view words : kStrangers) {
    for (const bool leaves : {false, true}) {  // else it stays and is silent
      strangers.emplace_back(listener.port());
      if (!words.empty()) strangers.back().Send(words);
      if (leaves) strangers.back().Close();
    }
  }
  testing::internal::CaptureStderr();
  const TcpExchange here = TcpExchange::Connect({"127.0.0.1", listener.port()}, Soon());
  TcpExchange there = listener.Accept(Soon());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("a connection from 127.0.0.1 to port " + std::to_string(listener.port()) +
                             ": refused because it "));
  EXPECT_EQ(log.find("refused"), log.rfind("refused")) << "told once: " << log;
}

TEST(TcpListener, ServesThePeerThatCameByTheDeadline) {
  const TcpListener listener({.host = "127.0.0.1"});
  std::vector<RawPeer> strangers;
  for (int i = 0; i < 20; ++i) {
    strangers.emplace_back(listener.port());
    strangers.back().Close();
  }
  const TcpExchange here = TcpExchange::Connect({"127.0.0.1", listener.port()}, Soon());
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the kernel delivers all that was sent
  EXPECT_EQ(SentenceOf([&] { listener.Accept(DeadlineIn(std::chrono::seconds(0))); }), "");
}

TEST(TcpListener, NamesTheLastStrangerAtTheDeadline) {
  const TcpListener listener({.host = "127.0.0.1"});
  const RawPeer silent(listener.port()), stranger(listener.port());
  stranger.Send("GET /");
  EXPECT_THAT(SentenceOf([&] { listener.Accept(DeadlineIn(std::chrono::seconds(3))); }),
              ContainsRegex("no peer connected within [0-9.e-]+ s; 127.0.0.1 port [0-9]+ was refused because "
                            "it does not speak this library's protocol: its message begins with 'GET /'"));
}

TEST(TcpListener, WaitsForAGreetingInPieces) {
  const TcpListener listener({.host = "127.0.0.1"});
  const RawPeer peer(listener.port());
  auto accepted = std::async(std::launch::async, [&] { return listener.Accept(Soon()).PeerName(); });
  for (const char byte : std::string("WVEx\0\2\0\0", 8)) peer.Send({&byte, 1});
  EXPECT_THAT(accepted.get(), StartsWith("127.0.0.1 port "));
}

TEST(TcpListener, KeepsAPeerThatGreetsLaterForTheNextAccept) {
  const TcpListener listener({.host = "127.0.0.1"});
  const RawPeer slow(listener.port());
  const TcpExchange quick = TcpExchange::Connect({"127.0.0.1", listener.port()}, Soon());
  listener.Accept(Soon());
  slow.Greet();
  listener.Accept(Soon());
}

TEST(TcpListener, DropsTheConnectionThatWasSilentLongest) {
  const TcpListener listener({.host = "127.0.0.1"});
  std::vector<RawPeer> silent;
  for (int i = 0; i < 70; ++i) silent.emplace_back(listener.port());
  const TcpExchange here = TcpExchange::Connect({"127.0.0.1", listener.port()}, Soon());
  listener.Accept(Soon());
  EXPECT_EQ(silent.front().Receive(1), "") << "its connection is closed";
  silent.back().Greet();
  listener.Accept(Soon());
}

TEST(TcpListener, ServesThreadsThatAcceptTogether) {
  const TcpListener listener({.host = "127.0.0.1"});
  constexpr int kPeers = 16;
  std::vector<std::future<std::string>> accepted;
  for (int i = 0; i < kPeers; ++i)
    accepted.push_back(std::async(std::launch::async, [&] { return listener.Accept(Soon()).PeerName(); }));
  std::vector<RawPeer> peers;
  for (int i = 0; i < kPeers; ++i) peers.emplace_back(listener.port());
  for (const RawPeer& peer : peers) peer.Greet();
  for (auto& one : accepted) EXPECT_THAT(one.get(), StartsWith("127.0.0.1 port "));
}

TEST(TcpListener, ReportsTakenPortsAndForeignAddresses) {
  const TcpListener first({.host = "127.0.0.1"});
  EXPECT_THAT(SentenceOf([&] {
                TcpListener({"127.0.0.1", first.port()});
              }),
              AllOf(StartsWith("Cannot listen on 127.0.0.1 port "), HasSubstr("EADDRINUSE")));
  EXPECT_THAT(SentenceOf([] { TcpListener({"192.0.2.1", 0}); }), HasSubstr("EADDRNOTAVAIL"));
}

TEST(TcpListener, ReportsThatNoFilesAreLeft) {
  const TcpListener listener({.host = "127.0.0.1"});
  const RawPeer peer(listener.port());
  peer.Greet();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string sentence = SentenceOf([&] { listener.Accept(Soon()); });
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(sentence, HasSubstr("(EMFILE). Close other files, or raise the limit (ulimit -n)"));
}

TEST(TcpExchange, ClosesItsFilesOnExec) {
  const TcpPair pair;
  const TcpListener listener({.host = "127.0.0.1"});
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(file.path(), gone).string();
    if (!target.starts_with("socket:")) continue;
    const int fd = std::stoi(file.path().filename());
    int domain = 0;
    socklen_t bytes = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &domain, &bytes) != 0 || domain != IPPROTO_TCP) continue;
    EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC) << fd;
  }
}

TEST(TcpExchange, LeaksNoFile) {
  { TcpPair first; }
  const size_t before = OpenFiles();
  for (int i = 0; i < 100; ++i) {
    TcpPair pair;
    if (i % 2 == 0) {
      SwapBoth(pair, BytesOf("a"), BytesOf("b"));
    } else {
      EXPECT_THROW(pair.here.Swap({}, "a word", DeadlineIn({})), Error);
    }
  }
  EXPECT_EQ(OpenFiles(), before);
}

}  // namespace
}  // namespace warpverbs::host
