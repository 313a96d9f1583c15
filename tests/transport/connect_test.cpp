#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <type_traits>

#include "pair.hpp"
#include "resealed.hpp"
#include "warpverbs/host/error.hpp"

/// Bind() and Connect(), in any order and with any URL.
namespace warpverbs::transport {
namespace {

using testing::HasSubstr;

TEST(RdmaTransport, TakesADeviceALoopAndTwoLimits) {
  static_assert(!std::is_copy_constructible_v<RdmaTransport> && !std::is_move_constructible_v<RdmaTransport>);
  static_assert(!std::is_copy_assignable_v<RdmaTransport> && !std::is_move_assignable_v<RdmaTransport>);
  static_assert(
      std::is_constructible_v<RdmaTransport, int, EventLoop*, std::optional<int>, std::optional<int>>);
  EventLoop loop;
  RdmaTransport plain(0), of_a_loop(0, &loop), limited(0, nullptr, 64, 1);
  for (RdmaTransport* const transport : {&plain, &of_a_loop, &limited})
    EXPECT_SUCCESS(transport->Bind().status);
}

TEST(Supported, IsTrueOnEveryThreadWithAConnectX) {
  std::vector<std::thread> threads;
  std::atomic<int> unsupported{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 100; ++call) unsupported += RdmaTransport::Supported() ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(unsupported, 0);
  static_assert(noexcept(RdmaTransport::Supported()));
}

TEST(Bind, ReturnsADistinctUrl) {
  Pair pair;
  const Bound a = pair.a.Bind(), b = pair.b.Bind();
  EXPECT_SUCCESS(a.status);
  EXPECT_THAT(a.url, testing::MatchesRegex("[!-~]+"));
  EXPECT_NE(a.url, b.url);
}

TEST(Bind, FailsTheSecondTime) {
  Pair pair;
  const Bound first = pair.a.Bind(), second = pair.a.Bind();
  EXPECT_EQ(second.status, Code::kInvalid);
  EXPECT_THAT(second.status.Describe(), HasSubstr("bound already"));
  EXPECT_TRUE(second.url.empty());
  const Bound peer = pair.b.Bind();
  EXPECT_SUCCESS(pair.a.Connect(peer.url)) << "the first URL stays valid";
  EXPECT_SUCCESS(pair.b.Connect(first.url));
}

TEST(Connect, FailsBeforeBind) {
  Pair pair;
  const Bound peer = pair.b.Bind();
  const Status status = pair.a.Connect(peer.url);
  EXPECT_EQ(status, Code::kInvalid);
  EXPECT_THAT(status.Describe(), HasSubstr("call Bind() first"));
  EXPECT_FALSE(pair.a.Connected());
}

TEST(Connect, FailsTheSecondTime) {
  Pair pair;
  pair.Connect();
  const Bound third = RdmaTransport(0).Bind();
  const Status status = pair.a.Connect(third.url);
  EXPECT_EQ(status, Code::kInvalid);
  EXPECT_THAT(status.Describe(), HasSubstr("connected already"));
  EXPECT_TRUE(pair.a.Connected());
}

TEST(Connect, RefusesItsOwnUrlThenTakesThePeers) {
  Pair pair;
  const Bound own = pair.a.Bind(), peer = pair.b.Bind();
  EXPECT_EQ(pair.a.Connect(own.url), Code::kInvalid);
  EXPECT_SUCCESS(pair.a.Connect(peer.url));
  EXPECT_SUCCESS(pair.b.Connect(own.url));
}

TEST(Connect, RefusesDamagedUrlsThenTakesTheRightOne) {
  Pair pair;
  const Bound own = pair.a.Bind(), peer = pair.b.Bind();
  std::mt19937 random(11);
  for (int i = 0; i < 1000; ++i) {
    std::string bad = peer.url;
    bad[random() % bad.size()] ^= static_cast<char>(1 + random() % 255);
    const Status status = pair.a.Connect(bad.substr(0, bad.size() - random() % 2 * (random() % bad.size())));
    ASSERT_EQ(status, Code::kInvalid) << bad;
  }
  EXPECT_SUCCESS(pair.a.Connect(peer.url));
  EXPECT_SUCCESS(pair.b.Connect(own.url));
  Buffer from(64), to(64);
  EXPECT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(), to.memory.Remote())));
}

/// Says whether a URL can be parsed. Its peer need not exist.
bool IsWellFormed(const std::string& url) {
  try {
    Url::FromText(url);
    return true;
  } catch (const host::Error&) {
    return false;
  }
}

/// The URLs name queue pairs, addresses and NICs that do not exist. Half of the transports find out that the
/// peer does not connect, half are destroyed earlier.
TEST(Connect, FailsHarmlesslyOnForgedUrls) {
  TransportConfig short_timeouts;
  short_timeouts.retry.ack_timeout = 13;  // 34 ms: a busy machine answers in time
  short_timeouts.retry.retry_count = 1;
  short_timeouts.connect_timeout = std::chrono::milliseconds(5);
  EventLoop loop;
  Pair pair;
  const Bound own = pair.a.Bind(), peer = pair.b.Bind();
  std::mt19937 random(12);
  int connected = 0;
  for (int i = 0; i < 200; ++i) {
    std::string url = Forge(peer.url, random);
    while (url == peer.url || !IsWellFormed(url)) url = Forge(peer.url, random);
    RdmaTransport transport(0, short_timeouts, &loop);
    ASSERT_SUCCESS(transport.Bind().status);
    const Status status = transport.Connect(url);
    if (!status.ok()) {
      EXPECT_THAT(status.Describe(), testing::EndsWith(".")) << url;
      EXPECT_FALSE(transport.Connected()) << url;
      continue;
    }
    ++connected;
    if (i % 2 == 0) {
      ASSERT_EQ(ResultOf(transport.WaitForWrite()), Code::kInternalError) << url;
    }
  }
  EXPECT_GT(connected, 20);
  ASSERT_SUCCESS(pair.a.Connect(peer.url));
  ASSERT_SUCCESS(pair.b.Connect(own.url));
  Buffer from(64), to(64);
  EXPECT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(), to.memory.Remote())));
}

/// The check touches no queue pair, so the right URL still works afterwards.
TEST(Connect, NamesTheReasonWhenThePeerIsUnreachable) {
  Pair pair;
  const Bound own = pair.a.Bind(), peer = pair.b.Bind();
  const Url good = Url::FromText(peer.url);
  Url of_another_link = good, of_another_type = good;
  of_another_link.queue_pairs.back().endpoint.link_layer = host::LinkLayer::kInfiniBand;
  of_another_type.queue_pairs.back().endpoint.gid_type = host::GidType::kRoceV1;
  for (const auto& [url, reason] :
       {std::pair(of_another_link, "it is Ethernet and the peer's is InfiniBand. Choose ports with the same"),
        std::pair(of_another_type,
                  "this side chose a RoCE v2 GID and the peer a RoCE v1 one. Set gid_index")}) {
    const Status status = pair.a.Connect(url.ToText());
    EXPECT_EQ(status, Code::kInvalid);
    EXPECT_THAT(status.Describe(), HasSubstr(reason));
    EXPECT_FALSE(pair.a.Connected());
    RdmaTransport other(0);
    ASSERT_SUCCESS(other.Bind().status);
    EXPECT_EQ(other.Connect(url.ToText()), Code::kInvalid) << "and it can be destroyed";
  }
  EXPECT_SUCCESS(pair.a.Connect(peer.url));
  EXPECT_SUCCESS(pair.b.Connect(own.url));
  Buffer from(64), to(64);
  FillPattern(from.bytes, 13);
  EXPECT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(), to.memory.Remote())));
  EXPECT_EQ(to.bytes, from.bytes);
}

TEST(RdmaTransport, MayBeDestroyedUnconnected) {
  const RdmaTransport unbound(0);
  RdmaTransport bound(0);
  EXPECT_SUCCESS(bound.Bind().status);
}

TEST(Operations, FailBeforeConnect) {
  RdmaTransport transport(0);
  Buffer buffer(64);
  EXPECT_EQ(ResultOf(transport.Write(buffer.memory.CreateView(), buffer.memory.Remote())), Code::kInvalid);
  EXPECT_EQ(ResultOf(transport.Read(buffer.memory.CreateMutableView(), buffer.memory.Remote())),
            Code::kInvalid);
  EXPECT_EQ(ResultOf(transport.WaitForWrite()), Code::kInvalid);
}

/// The retries of the first side's hello run out many times before the peer connects.
TEST(Connect, LosesNothingWhenOneSideIsLongBeforeTheOther) {
  TransportConfig short_timeouts;
  short_timeouts.retry.ack_timeout = 12;  // 17 ms: a sanitized peer answers in time
  short_timeouts.retry.retry_count = 1;
  Pair pair(short_timeouts);
  const Bound a = pair.a.Bind(), b = pair.b.Bind();
  Buffer from(100'000), to(100'000);
  FillPattern(from.bytes, 5);
  EXPECT_SUCCESS(pair.a.Connect(b.url));
  auto written = pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true});
  EXPECT_EQ(written.wait_for(std::chrono::milliseconds(500)), std::future_status::timeout);
  EXPECT_SUCCESS(pair.b.Connect(a.url));
  EXPECT_SUCCESS(ResultOf(std::move(written)));
  EXPECT_SUCCESS(ResultOf(pair.b.WaitForWrite()));
  EXPECT_EQ(to.bytes, from.bytes);
  EXPECT_SUCCESS(ResultOf(pair.b.Write(to.memory.CreateView(), from.memory.Remote())))
      << "in the other direction";
}

/// The next timeout would be after 17 s. Nothing may wait for it, also where messages overtake each other.
TEST(Connect, CompletesAtOnceWhenThePeerConnects) {
  TransportConfig long_timeout;
  long_timeout.retry.ack_timeout = 22;
  Pair pair(long_timeout);
  const Bound a = pair.a.Bind(), b = pair.b.Bind();
  Buffer from(64), to(64);
  EXPECT_SUCCESS(pair.a.Connect(b.url));
  auto written = pair.a.Write(from.memory.CreateView(), to.memory.Remote());
  EXPECT_EQ(written.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_SUCCESS(pair.b.Connect(a.url));
  ASSERT_EQ(written.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_SUCCESS(written.get());
}

TEST(Connect, BreaksTheTransportWhenThePeerNeverConnects) {
  TransportConfig short_timeouts;
  short_timeouts.retry.ack_timeout = 8;
  short_timeouts.retry.retry_count = 1;
  short_timeouts.connect_timeout = std::chrono::milliseconds(100);
  Pair pair(short_timeouts);
  const Bound a = pair.a.Bind(), b = pair.b.Bind();
  EXPECT_SUCCESS(pair.a.Connect(b.url));
  Buffer buffer(64);
  const Status status = ResultOf(pair.a.Write(buffer.memory.CreateView(), buffer.memory.Remote()));
  EXPECT_EQ(status, Code::kInternalError);
  EXPECT_THAT(status.Describe(), HasSubstr("the peer has not connected in time"));
  EXPECT_FALSE(pair.a.Connected());
  EXPECT_EQ(pair.a.GetStatus(), Code::kInternalError);
}

std::string ErrorOf(const TransportConfig& config) {
  try {
    const RdmaTransport transport(0, config);
    return "accepted";
  } catch (const host::Error& error) {
    return error.what();
  }
}

TEST(Connect, LosesNothingWhileThePeersLoopIsBlocked) {
  asio::io_context blocked;
  EventLoop loop_of_b(blocked);
  RdmaTransport a(0), b(0, &loop_of_b);
  const Bound at_a = a.Bind(), at_b = b.Bind();
  ASSERT_SUCCESS(a.Connect(at_b.url));
  ASSERT_SUCCESS(b.Connect(at_a.url));
  Buffer from(4096), to(4096);
  FillPattern(from.bytes, 6);
  auto written = a.Write(from.memory.CreateView(), to.memory.Remote());
  EXPECT_EQ(written.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  const auto deadline = std::chrono::steady_clock::now() + kTestTimeout;
  while (!IsReady(written) && std::chrono::steady_clock::now() < deadline)
    blocked.run_one_for(std::chrono::milliseconds(10));
  EXPECT_SUCCESS(ResultOf(std::move(written)));
  EXPECT_EQ(to.bytes, from.bytes);
}

TEST(Connect, BreaksTheTransportWhenThePeersLoopIsBlockedTooLong) {
  asio::io_context blocked;
  EventLoop loop_of_b(blocked);
  RdmaTransport a(0, TransportConfig{.connect_timeout = std::chrono::milliseconds(100)}), b(0, &loop_of_b);
  const Bound at_a = a.Bind(), at_b = b.Bind();
  ASSERT_SUCCESS(a.Connect(at_b.url));
  ASSERT_SUCCESS(b.Connect(at_a.url));
  EXPECT_THAT(ResultOf(a.WaitForWrite()).Describe(), HasSubstr("neither side's loop is blocked"));
}

TEST(TransportConfig, RefusesValuesOutOfRange) {
  EXPECT_THROW(RdmaTransport(-1), host::Error);
  EXPECT_THROW(RdmaTransport(0, nullptr, 0), host::Error);
  EXPECT_THROW(RdmaTransport(0, nullptr, {}, -3), host::Error);
  EXPECT_EQ(ErrorOf({.max_nics = 9}), "Cannot create a transport: max_nics is 9. Choose 1 to 8.");
  EXPECT_THAT(ErrorOf({.queue_pairs = 0}), HasSubstr("queue_pairs is 0. Choose at least 1."));
  EXPECT_THAT(
      ErrorOf({.max_nics = 3, .queue_pairs = 11}),
      HasSubstr("queue_pairs is 11, which makes 33 queue pairs on all NICs together. Choose so that there "
                "are at most 32."));
  EXPECT_THAT(ErrorOf({.depth = 3}), HasSubstr("depth is 3. Choose at least 4."));
  EXPECT_THAT(ErrorOf({.receive_depth = 2}), HasSubstr("receive_depth is 2. Choose at least 4."));
  EXPECT_THAT(ErrorOf({.piece_bytes = 0}), HasSubstr("piece_bytes is 0. Choose at least 256"));
  EXPECT_THAT(ErrorOf({.piece_bytes = 1}), HasSubstr("piece_bytes is 1. Choose at least 256"));
  EXPECT_EQ(ErrorOf({.piece_bytes = 256}), "accepted");
  EXPECT_THAT(ErrorOf({.connect_timeout = std::chrono::nanoseconds(-1)}),
              HasSubstr("connect_timeout is negative. Choose 0 or more."));
  EXPECT_THAT(ErrorOf({.spin = std::chrono::nanoseconds(-1)}), HasSubstr("spin is negative."));
  EXPECT_THAT(ErrorOf({.path = {.max_mtu = mlx5::Mtu{0}}}), HasSubstr("path.max_mtu is 0."));
  EXPECT_THAT(ErrorOf({.path = {.service_level = 16}}), HasSubstr("path.service_level is 16."));
  EXPECT_THAT(ErrorOf({.retry = {.ack_timeout = 32}}), HasSubstr("retry.ack_timeout is 32. Choose 0 to 31."));
  EXPECT_THAT(ErrorOf({.retry = {.retry_count = 8}}), HasSubstr("retry.retry_count is 8. Choose 0 to 7."));
  EXPECT_THAT(ErrorOf({.retry = {.rnr_retry = 8}}), HasSubstr("retry.rnr_retry is 8. Choose 0 to 7."));
  EXPECT_THAT(ErrorOf({.retry = {.min_rnr_timer = 32}}), HasSubstr("retry.min_rnr_timer is 32."));
  EXPECT_THAT(
      ErrorOf({.queue_pairs = 32, .depth = 8192, .receive_depth = 8193}),
      HasSubstr("depth is 8192 and receive_depth is 8193, with 32 queue pairs on all NICs together."));
  EXPECT_EQ(ErrorOf({.queue_pairs = 32, .depth = 8192, .receive_depth = 8192}), "accepted");
}

TEST(Reset, ConnectsATransportAgain) {
  Pair pair;
  Buffer from(64), to(64);
  const auto write = [&] {
    return pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true});
  };
  for (int round = 0; round < 3; ++round) {
    FillPattern(from.bytes, static_cast<uint64_t>(round));
    pair.Connect();
    EXPECT_SUCCESS(ResultOf(write()));
    EXPECT_SUCCESS(ResultOf(pair.b.WaitForWrite()));
    EXPECT_EQ(to.bytes, from.bytes);
    auto waits = pair.b.WaitForWrite();
    EXPECT_SUCCESS(ResultOf(write()));  // the second wait takes it, or the reset does
    auto pending = pair.a.WaitForWrite();
    EXPECT_SUCCESS(pair.a.Reset());
    EXPECT_SUCCESS(pair.b.Reset());
    const Status aborted = ResultOf(std::move(pending));
    EXPECT_EQ(aborted, Code::kAborted);
    EXPECT_THAT(aborted.Describe(), HasSubstr("the transport was reset"));
    ResultOf(std::move(waits)).Describe();
    EXPECT_FALSE(pair.a.Connected());
    EXPECT_EQ(ResultOf(write()), Code::kInvalid);
  }
}

TEST(Reset, IsHarmlessBeforeBind) {
  Pair pair;
  EXPECT_SUCCESS(pair.a.Reset());
  const Bound before = pair.b.Bind();
  EXPECT_SUCCESS(pair.b.Reset());
  EXPECT_EQ(pair.b.Connect(before.url), Code::kInvalid) << "it is not bound";
  pair.Connect();
}

TEST(Reset, IsSafeWhileOtherThreadsUseTheTransport) {
  Pair pair;
  pair.Connect();
  Buffer from(64), to(64);
  std::atomic<bool> stop = false;
  std::thread user([&] {
    while (!stop)
      ResultOf(
          pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.timeout = std::chrono::seconds(1)}))
          .Describe();
  });
  for (int round = 0; round < 10; ++round) {
    EXPECT_SUCCESS(pair.a.Reset());
    EXPECT_SUCCESS(pair.b.Reset());
    pair.Connect();
  }
  stop = true;
  user.join();
}

TEST(Connect, ChecksTheCallBeforeTheUrl) {
  Pair pair;
  EXPECT_THAT(pair.a.Connect("no URL").Describe(), HasSubstr("call Bind() first"));
  pair.Connect();
  EXPECT_THAT(pair.a.Connect("no URL").Describe(), HasSubstr("connected already"));
}

TEST(Describe, ReportsTheState) {
  Pair pair;
  EXPECT_THAT(pair.a.Describe(), HasSubstr("not bound"));
  pair.Connect();
  EXPECT_THAT(pair.a.Describe(), HasSubstr("sleeps until a queue announces a completion"));
  EXPECT_THAT(pair.a.Describe(), HasSubstr("mlx5_0"));
}

}  // namespace
}  // namespace warpverbs::transport
