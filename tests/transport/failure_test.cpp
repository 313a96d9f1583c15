#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "lane.hpp"
#include "nics.hpp"
#include "pair.hpp"
#include "softhca_control.h"
#include "url.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

/// What fails says so, once and for good; what is late or aborted harms nobody.
namespace warpverbs::transport {
namespace {

using std::chrono::milliseconds;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

template <class Function>
Function* FindControl(const char* name) {
  auto* const function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  EXPECT_NE(function, nullptr) << name;
  return function;
}

/// ThreadSanitizer looks at each byte that softhca moves.
#if defined(__SANITIZE_THREAD__)
constexpr size_t kBig = 1 << 20;
#else
constexpr size_t kBig = 64 << 20;
#endif
constexpr size_t kPieces = 64;  // of a big write

/// Gives up on a peer that does not answer within milliseconds.
TransportOptions Impatient() {
  TransportOptions options;
  options.retry.ack_timeout = 8;
  return options;
}

struct Failure : testing::Test {
  void Connect() {
    const Bound a = pair->a.Bind(), b = pair->b.Bind();
    for (const Url::Lane& lane : Url::FromText(a.url).lanes) qpns.push_back(lane.endpoint.qpn);
    ASSERT_SUCCESS(pair->a.Connect(b.url));
    ASSERT_SUCCESS(pair->b.Connect(a.url));
    ASSERT_SUCCESS(Write());  // the hand-shake is over
  }
  Status Write() { return Outcome(pair->a.Write(from.memory.CreateView(), to.memory.Remote())); }

  /// Lets a's NIC stand still, or go on.
  void Hold(bool hold) {
    auto* const control = FindControl<decltype(softhca_hold)>("softhca_hold");
    for (const uint32_t qpn : qpns) ASSERT_EQ(control("mlx5_0", qpn, hold ? 1 : 0), 0);
  }
  void ExpectBroken(const Status& status) {
    EXPECT_EQ(status, Code::kInternalError) << status.What();
    EXPECT_EQ(pair->a.GetStatus().What(), status.What());
    EXPECT_FALSE(pair->a.Connected());
    EXPECT_EQ(Write(), Code::kInternalError);
    EXPECT_EQ(Outcome(pair->a.Read(from.memory.CreateMutableView(), to.memory.Remote())),
              Code::kInternalError);
    EXPECT_EQ(Outcome(pair->a.WaitForWrite()).What(), status.What());
    EXPECT_EQ(pair->a.Connect("no URL").What(), status.What()) << "whatever else is wrong with the call";
    EXPECT_EQ(pair->a.Bind().status.What(), status.What());
  }

  std::optional<Pair> pair{std::in_place};
  std::vector<uint32_t> qpns;
  Buffer from{4096}, to{4096};
};

/// A program that asks twice is not to take two ways.
TEST(Supported, StaysWhatItWasWhenTheLinkGoesDown) {
  const host::Device keeps_the_device_open;
  ASSERT_TRUE(RdmaTransport::Supported());
  auto* const link = FindControl<decltype(softhca_set_link)>("softhca_set_link");
  ASSERT_EQ(link("mlx5_0", 1, 0), 0);
  EXPECT_THROW(host::Device(), host::Error) << "there is no active port now";
  EXPECT_TRUE(RdmaTransport::Supported());
  ASSERT_EQ(link("mlx5_0", 1, 1), 0);
}

TEST_F(Failure, WriteReturnsAtOnceWhileTheNicStandsStillAndEndsWhenItGoesOn) {
  Connect();
  Hold(true);
  FillPattern(from.bytes, 9);
  auto write = pair->a.Write(from.memory.CreateView(), to.memory.Remote());
  // That it is got here shows it: the NIC stands still until this very thread lets it go on.
  EXPECT_EQ(write.wait_for(milliseconds(20)), std::future_status::timeout);
  EXPECT_NE(to.bytes, from.bytes);
  Hold(false);
  EXPECT_SUCCESS(Outcome(std::move(write)));
  EXPECT_EQ(to.bytes, from.bytes);
}

TEST_F(Failure, TenThousandWritesAreQueuedThoughTheQueuesTake256) {
  Connect();
  Hold(true);
  std::vector<std::future<Status>> writes;
  FillPattern(from.bytes, 10);
  for (size_t i = 0; i < 10'000; ++i) {
    const size_t at = i % 64 * 64;
    const RdmaRemoteBuffer place{to.bytes.data() + at, to.memory.RemoteKey(), 64};
    writes.push_back(pair->a.Write(from.memory.CreateView(at, 64), place));
  }
  Hold(false);
  for (auto& write : writes) ASSERT_SUCCESS(Outcome(std::move(write)));
  EXPECT_EQ(to.bytes, from.bytes);
}

/// Each way in which a queue can fail.
struct AnySyndrome : Failure, testing::WithParamInterface<mlx5::Syndrome> {};

TEST_P(AnySyndrome, BreaksTheTransportWithItsCause) {
  Connect();
  auto waiting = pair->a.WaitForWrite();
  auto* const force = FindControl<decltype(softhca_force_syndrome)>("softhca_force_syndrome");
  for (const uint32_t qpn : qpns) {
    for (uint32_t index = 0; index < 8; ++index) {
      ASSERT_EQ(force("mlx5_0", qpn, index, static_cast<uint8_t>(GetParam()), 0), 0);
    }
  }
  Status status;
  for (int i = 0; i < 16 && status.ok(); ++i) status = Write();
  EXPECT_THAT(status.What(), HasSubstr(mlx5::Describe(GetParam())));
  EXPECT_EQ(Outcome(std::move(waiting)).What(), status.What());
  ExpectBroken(status);
}

INSTANTIATE_TEST_SUITE_P(All, AnySyndrome,
                         testing::Values(mlx5::Syndrome::kLocalLength, mlx5::Syndrome::kLocalQpOperation,
                                         mlx5::Syndrome::kLocalProtection, mlx5::Syndrome::kBadResponse,
                                         mlx5::Syndrome::kLocalAccess, mlx5::Syndrome::kRemoteInvalidRequest,
                                         mlx5::Syndrome::kRemoteAccess, mlx5::Syndrome::kRemoteOperation,
                                         mlx5::Syndrome::kTransportRetryExceeded,
                                         mlx5::Syndrome::kReceiverNotReadyRetryExceeded,
                                         mlx5::Syndrome::kRemoteAborted));

TEST_F(Failure, OfAWrongKeyIsToldToBothSides) {
  Connect();
  RdmaRemoteBuffer wrong = to.memory.Remote();
  wrong.access_key.rkeys[0] ^= 0xff00;
  auto peer_waits = pair->b.WaitForWrite();
  const Status status = Outcome(pair->a.Write(from.memory.CreateView(), wrong));
  EXPECT_THAT(status.What(), HasSubstr("remote access"));
  ExpectBroken(status);
  const Status at_peer = Outcome(std::move(peer_waits));
  EXPECT_EQ(at_peer, Code::kInternalError);
  EXPECT_THAT(at_peer.What(), AllOf(HasSubstr("The receive queue of QP"), HasSubstr("error at the peer")));
}

TEST_F(Failure, OfTheCallIsItsOwnAndBreaksNothing) {
  Connect();
  const RdmaRemoteBuffer remote = to.memory.Remote();
  EXPECT_THAT(Outcome(pair->a.Write({}, remote)).What(), HasSubstr("no registered memory"));
  EXPECT_THAT(Outcome(pair->a.Read({}, remote)).What(), HasSubstr("no registered memory"));
  const Buffer elsewhere(64, 1);
  EXPECT_THAT(Outcome(pair->a.Write(elsewhere.memory.CreateView(), remote)).What(),
              HasSubstr("registered for device 1, but the transport is of device 0"));
  const RdmaRemoteBuffer small{remote.ptr, remote.access_key, 100};
  EXPECT_THAT(Outcome(pair->a.Write(from.memory.CreateView(), small)).What(),
              HasSubstr("4096 bytes are more than the peer's buffer has, 100"));
  EXPECT_THAT(Outcome(pair->a.Write(from.memory.CreateView(), {remote.ptr, {}})).What(), HasSubstr("no key"));
  EXPECT_SUCCESS(Write());
}

TEST_F(Failure, TimesOutWhileTheNicStandsStillAndGoesOnAfterwards) {
  Connect();
  Hold(true);
  EXPECT_EQ(
      Outcome(pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true, .timeout = 5ms}))
          .What(),
      "timeout: the write of 4096 bytes has not ended within 5 ms: give it more time, or see whether the "
      "peer and its link are there");
  EXPECT_THAT(Outcome(pair->a.Read(from.memory.CreateMutableView(size_t{0}, 100), to.memory.Remote(),
                                   {.timeout = 0ns}))
                  .What(),
              HasSubstr("the read of 100 bytes has not ended within 0 s"));
  Hold(false);
  EXPECT_SUCCESS(Write());
  EXPECT_SUCCESS(Outcome(pair->b.WaitForWrite())) << "it was under way, and all of it arrived";
}

/// Writes that are cut short notify nobody, and those behind them still do.
TEST_F(Failure, WriteThatIsCutShortNotifiesNobody) {
  pair.emplace(TransportOptions{.piece_bytes = kBig / kPieces});
  Connect();
  const Buffer late_source(kBig), late_target(kBig);
  Buffer source(kBig), target(kBig);
  FillPattern(source.bytes, 12);
  Hold(true);
  std::vector<std::future<Status>> late;
  for (int i = 0; i < 20; ++i) {
    late.push_back(pair->a.Write(late_source.memory.CreateView(), late_target.memory.Remote(),
                                 {.notify = true, .timeout = milliseconds(0)}));
  }
  for (auto& write : late) EXPECT_EQ(Outcome(std::move(write)), Code::kTimeout);
  Hold(false);
  EXPECT_SUCCESS(
      Outcome(pair->a.Write(source.memory.CreateView(), target.memory.Remote(), {.notify = true})));
  EXPECT_EQ(target.bytes, source.bytes);
  uint64_t notifications = 0;
  while (Outcome(pair->b.WaitForWrite({.timeout = milliseconds(500)})).ok()) ++notifications;
  EXPECT_GE(notifications, 1) << "of the last one";
  EXPECT_LE(notifications, 1 + 256 / kPieces) << "no more than were posted whole, on queues of 256";
}

/// Else those behind them could go on by the other lanes without end, and their notifications with them.
TEST_F(Failure, WriteThatIsGivenUpLeavesItsTurnToTheNext) {
  pair.emplace(TransportOptions{.queue_pairs = 2, .depth = 4});
  Connect();
  auto* const hold = FindControl<decltype(softhca_hold)>("softhca_hold");
  ASSERT_EQ(hold("mlx5_0", qpns[0], 1), 0);
  std::vector<std::future<Status>> writes;  // four for each, of which one stands still
  for (int i = 0; i < 8; ++i) writes.push_back(pair->a.Write(from.memory.CreateView(), to.memory.Remote()));
  const auto write = [&](bool notify) {
    return Outcome(pair->a.Write(from.memory.CreateView(), to.memory.Remote(),
                                 {.notify = notify, .timeout = milliseconds(100)}));
  };
  for (int i = 0; write(false).ok(); ++i) ASSERT_LT(i, 1) << "every second one has to wait";
  EXPECT_EQ(write(true), Code::kTimeout);
  ASSERT_EQ(hold("mlx5_0", qpns[0], 0), 0);
  for (auto& one : writes) EXPECT_SUCCESS(Outcome(std::move(one)));
  EXPECT_SUCCESS(Outcome(
      pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true, .timeout = kLong})));
  EXPECT_SUCCESS(Outcome(pair->b.WaitForWrite()));
  EXPECT_FALSE(TakesOne(pair->b)) << "the other was cut short";
}

TEST_F(Failure, OfNoTimeIsNoFailureOfWhatFollows) {
  pair.emplace(TransportOptions{.piece_bytes = kBig / kPieces});
  Connect();
  const Buffer late_source(kBig), late_target(kBig);
  Buffer source(kBig), target(kBig);
  FillPattern(source.bytes, 13);
  for (int i = 0; i < 20; ++i) {
    const Status status = Outcome(pair->a.Write(late_source.memory.CreateView(), late_target.memory.Remote(),
                                                {.timeout = milliseconds(0)}));
    ASSERT_TRUE(status.ok() || status == Code::kTimeout) << status.What();
  }
  EXPECT_SUCCESS(Outcome(pair->a.Write(source.memory.CreateView(), target.memory.Remote())));
  EXPECT_EQ(target.bytes, source.bytes);
  pair.reset();  // whatever is still late
}

/// Without its keys the NIC would fail, and the transport with it.
TEST_F(Failure, MemoryThatGoesAfterATimeoutStaysRegisteredUntilTheNicIsDone) {
  pair.emplace(TransportOptions{.piece_bytes = kBig / kPieces});
  Connect();
  std::vector<uint8_t> late(kBig);
  Buffer peers(kBig), source(kBig), target(kBig);
  FillPattern(source.bytes, 14);
  const auto registered = [] { return Nics::Of(0, 1)->cache().Statistics().regions; };
  const size_t before = registered();
  Hold(true);
  for (int i = 0; i < 20; ++i) {
    const RdmaMemory memory(late.data(), late.size(), 0);
    EXPECT_FALSE(memory.Reused()) << "late memory may have become other memory at the same address";
    auto end = i % 2 == 0 ? pair->a.Write(memory.CreateView(), peers.memory.Remote(), {.timeout = 0ns})
                          : pair->a.Read(memory.CreateMutableView(), peers.memory.Remote(), {.timeout = 0ns});
    EXPECT_EQ(Outcome(std::move(end)), Code::kTimeout);
  }
  EXPECT_GT(registered(), before);
  Hold(false);
  EXPECT_SUCCESS(Outcome(pair->a.Write(source.memory.CreateView(), target.memory.Remote())));
  EXPECT_EQ(target.bytes, source.bytes);
  EXPECT_EQ(registered(), before) << "what is done is let go, and the writes before are";
}

TEST_F(Failure, MemoryThatGoesWhileItIsWrittenFromIsLetGoWithTheTransport) {
  Connect();
  Hold(true);
  const auto nics = Nics::Of(0, 1);
  const size_t before = nics->cache().Statistics().regions;
  std::vector<uint8_t> bytes(64);
  auto write = [&] {
    const RdmaMemory memory(bytes.data(), bytes.size(), 0);
    return pair->a.Write(memory.CreateView(), to.memory.Remote());
  }();
  EXPECT_EQ(nics->cache().Statistics().regions, before + 1);
  pair.reset();
  EXPECT_EQ(nics->cache().Statistics().regions, before);
  EXPECT_EQ(Outcome(std::move(write)), Code::kAborted);
}

TEST_F(Failure, DestructionAbortsAHundredThatArePending) {
  Connect();
  Hold(true);
  std::vector<std::future<Status>> pending;
  for (int i = 0; i < 100; ++i) {
    switch (i % 3) {
      case 0:
        pending.push_back(pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true}));
        break;
      case 1:
        pending.push_back(pair->a.Read(from.memory.CreateMutableView(), to.memory.Remote()));
        break;
      default:
        pending.push_back(pair->a.WaitForWrite());
    }
  }
  pair.reset();
  for (auto& future : pending) {
    EXPECT_EQ(Outcome(std::move(future)).What(),
              "aborted: the transport was destroyed before the operation had ended: keep it until then");
  }
}

TEST_F(Failure, DestructionBeforeThePeerIsThereAbortsWhatWaitsForIt) {
  const Bound b = pair->b.Bind();
  ASSERT_SUCCESS(pair->a.Bind().status);
  ASSERT_SUCCESS(pair->a.Connect(b.url));
  auto write = pair->a.Write(from.memory.CreateView(), to.memory.Remote());
  auto wait = pair->a.WaitForWrite();
  pair.reset();
  EXPECT_EQ(Outcome(std::move(write)), Code::kAborted);
  EXPECT_EQ(Outcome(std::move(wait)), Code::kAborted);
}

TEST_F(Failure, OfTheLinkIsFoundByTheNextWrite) {
  pair.emplace(Impatient());
  Connect();
  auto* const link = FindControl<decltype(softhca_set_link)>("softhca_set_link");
  ASSERT_EQ(link("mlx5_0", 1, 0), 0);
  const Status status = Write();
  ASSERT_EQ(link("mlx5_0", 1, 1), 0);
  EXPECT_THAT(status.What(), HasSubstr(mlx5::Describe(mlx5::Syndrome::kTransportRetryExceeded)));
  ExpectBroken(status);
}

TEST_F(Failure, OfThePeerIsFoundByTheNextWrite) {
  pair.emplace(Impatient());
  std::optional<RdmaTransport> peer(std::in_place, 0, Impatient());
  const Bound a = pair->a.Bind(), b = peer->Bind();
  ASSERT_SUCCESS(pair->a.Connect(b.url));
  ASSERT_SUCCESS(peer->Connect(a.url));
  ASSERT_SUCCESS(Write());
  peer.reset();
  const Status status = Write();
  EXPECT_THAT(status.What(), HasSubstr(mlx5::Describe(mlx5::Syndrome::kTransportRetryExceeded)));
  ExpectBroken(status);
}

TEST_F(Failure, NotificationsThatCameBeforeItAreStillThere) {
  Connect();
  ASSERT_SUCCESS(Outcome(pair->b.Write(to.memory.CreateView(), from.memory.Remote(), {.notify = true})));
  ASSERT_SUCCESS(Write());
  auto* const force = FindControl<decltype(softhca_force_syndrome)>("softhca_force_syndrome");
  for (const uint32_t qpn : qpns) {
    for (uint32_t i = 0; i < 16; ++i) ASSERT_EQ(force("mlx5_0", qpn, i, 0x22, 0), 0);
  }
  while (Write().ok()) {
  }
  EXPECT_SUCCESS(Outcome(pair->a.WaitForWrite()));
  EXPECT_EQ(Outcome(pair->a.WaitForWrite()), Code::kInternalError);
}

/// By the indices alarms are asked for, which are compared in 24 bits.
TEST(Lane, CountsItsCompletionsOverManyResets) {
  TransportOptions impatient{.depth = 4, .receive_depth = 4};
  impatient.retry.ack_timeout = 8;
  impatient.retry.retry_count = 1;
  const host::Device device;
  Lane lane(device, 0, impatient);
  const Lane absent(device, 0, impatient);
  lane.Connect(absent.Info(), 0);
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  for (int reset = 0; reset < 40; ++reset) {
    Transfer* transfer = nullptr;
    std::optional<Announcement> announcement;
    while (lane.state() != Lane::State::kAbsent) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      EXPECT_FALSE(lane.TakeSend(transfer));
      EXPECT_FALSE(lane.TakeReceive(announcement));
    }
    const uint32_t sent = lane.send_consumer_index(), received = lane.receive_consumer_index();
    lane.HelloAgain();
    ASSERT_GE(lane.send_consumer_index(), sent) << "reset " << reset;
    ASSERT_GE(lane.receive_consumer_index(), received) << "reset " << reset;
  }
}

}  // namespace
}  // namespace warpverbs::transport
