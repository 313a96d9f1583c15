#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <optional>

#include "channel.hpp"
#include "nics.hpp"
#include "pair.hpp"
#include "softhca_control.h"
#include "url.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

/// Failures break a transport and name their cause. Timeouts and aborts harm no other operation.
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

/// ThreadSanitizer checks each byte that softhca moves.
#if defined(__SANITIZE_THREAD__)
constexpr size_t kBig = 1 << 20;
#else
constexpr size_t kBig = 64 << 20;
#endif
constexpr size_t kPieces = 64;  // number of pieces of a write of kBig

/// Returns a configuration that gives up on a silent peer within milliseconds.
TransportConfig ShortTimeouts() {
  TransportConfig options;
  options.retry.ack_timeout = 8;
  return options;
}

struct Failure : testing::Test {
  void Connect() {
    const Bound a = pair->a.Bind(), b = pair->b.Bind();
    for (const Url::QueuePair& queue_pair : Url::FromText(a.url).queue_pairs)
      qpns.push_back(queue_pair.endpoint.qpn);
    ASSERT_SUCCESS(pair->a.Connect(b.url));
    ASSERT_SUCCESS(pair->b.Connect(a.url));
    ASSERT_SUCCESS(Write());  // the handshake is complete
  }
  Status Write() { return ResultOf(pair->a.Write(from.memory.CreateView(), to.memory.Remote())); }

  /// Pauses the NIC of side a, or lets it continue.
  void Pause(bool pause) {
    auto* const control = FindControl<decltype(softhca_hold)>("softhca_hold");
    for (const uint32_t qpn : qpns) ASSERT_EQ(control("mlx5_0", qpn, pause ? 1 : 0), 0);
  }
  void ExpectBroken(const Status& status, Code code = Code::kInternalError) {
    EXPECT_EQ(status, code) << status.Describe();
    EXPECT_EQ(pair->a.GetStatus().Describe(), status.Describe());
    EXPECT_FALSE(pair->a.Connected());
    EXPECT_EQ(Write(), code);
    EXPECT_EQ(ResultOf(pair->a.Read(from.memory.CreateMutableView(), to.memory.Remote())), code);
    EXPECT_EQ(ResultOf(pair->a.WaitForWrite()).Describe(), status.Describe());
    EXPECT_EQ(pair->a.Connect("no URL").Describe(), status.Describe())
        << "the state is checked before the URL";
    EXPECT_EQ(pair->a.Bind().status.Describe(), status.Describe());
  }

  std::optional<Pair> pair{std::in_place};
  std::vector<uint32_t> qpns;
  Buffer from{4096}, to{4096};
};

/// A program that asks twice must get the same answer.
TEST(Supported, StaysTrueWhenTheLinkGoesDown) {
  const host::Device keeps_the_device_open;
  ASSERT_TRUE(RdmaTransport::Supported());
  auto* const link = FindControl<decltype(softhca_set_link)>("softhca_set_link");
  ASSERT_EQ(link("mlx5_0", 1, 0), 0);
  EXPECT_THROW(host::Device(), host::Error) << "there is no active port now";
  EXPECT_TRUE(RdmaTransport::Supported());
  ASSERT_EQ(link("mlx5_0", 1, 1), 0);
}

TEST_F(Failure, WriteReturnsAtOnceWhileTheNicIsPaused) {
  Connect();
  Pause(true);
  FillPattern(from.bytes, 9);
  auto write = pair->a.Write(from.memory.CreateView(), to.memory.Remote());
  // The NIC is paused until this thread lets it continue, so Write() has not waited for it.
  EXPECT_EQ(write.wait_for(milliseconds(20)), std::future_status::timeout);
  EXPECT_NE(to.bytes, from.bytes);
  Pause(false);
  EXPECT_SUCCESS(ResultOf(std::move(write)));
  EXPECT_EQ(to.bytes, from.bytes);
}

TEST_F(Failure, TenThousandWritesWaitForRoomInQueuesOf256) {
  Connect();
  Pause(true);
  std::vector<std::future<Status>> writes;
  FillPattern(from.bytes, 10);
  for (size_t i = 0; i < 10'000; ++i) {
    const size_t at = i % 64 * 64;
    const RdmaRemoteBuffer place{to.bytes.data() + at, to.memory.RemoteKey(), 64};
    writes.push_back(pair->a.Write(from.memory.CreateView(at, 64), place));
  }
  Pause(false);
  for (auto& write : writes) ASSERT_SUCCESS(ResultOf(std::move(write)));
  EXPECT_EQ(to.bytes, from.bytes);
}

/// The operations have no timeout: only an event tells of the queue.
TEST_F(Failure, NamesACompletionQueueThatTheFirmwareStopped) {
  Connect();
  auto* const fail = FindControl<decltype(softhca_fail_cq)>("softhca_fail_cq");
  auto arrival = pair->a.WaitForWrite();
  uint32_t cqn = 1;  // side a was bound first, so the first queue is its own
  while (cqn < 1 << 20 && fail("mlx5_0", cqn) == ENOENT) ++cqn;
  const Status status = ResultOf(std::move(arrival));
  ExpectBroken(status);
  EXPECT_EQ(status.Describe(),
            "internal error: Cannot take the completions of QP " + std::to_string(qpns.front()) +
                ": the firmware of mlx5_0 stopped its completion queue (CQ error, firmware "
                "event 0x04). Call Reset(), and connect both sides again.");
  EXPECT_SUCCESS(pair->a.Reset());
  EXPECT_SUCCESS(pair->b.Reset());
  qpns.clear();
  Connect();
}

/// Every syndrome that a send queue can fail with.
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
  EXPECT_THAT(status.Describe(), HasSubstr(mlx5::Describe(GetParam())));
  EXPECT_EQ(ResultOf(std::move(waiting)).Describe(), status.Describe());
  ExpectBroken(status,
               GetParam() == mlx5::Syndrome::kRemoteAccess ? Code::kAccessDenied : Code::kInternalError);
}

INSTANTIATE_TEST_SUITE_P(All, AnySyndrome,
                         testing::Values(mlx5::Syndrome::kLocalLength, mlx5::Syndrome::kLocalQpOperation,
                                         mlx5::Syndrome::kLocalProtection, mlx5::Syndrome::kBadResponse,
                                         mlx5::Syndrome::kLocalAccess, mlx5::Syndrome::kRemoteInvalidRequest,
                                         mlx5::Syndrome::kRemoteAccess, mlx5::Syndrome::kRemoteOperation,
                                         mlx5::Syndrome::kTransportRetryExceeded,
                                         mlx5::Syndrome::kReceiverNotReadyRetryExceeded,
                                         mlx5::Syndrome::kRemoteAborted));

TEST_F(Failure, WrongKeyIsReportedOnBothSides) {
  Connect();
  RdmaRemoteBuffer wrong = to.memory.Remote();
  wrong.access_key.rkeys[0] ^= 0xff00;
  auto peer_waits = pair->b.WaitForWrite();
  const Status status = ResultOf(pair->a.Write(from.memory.CreateView(), wrong));
  EXPECT_THAT(status.Describe(), AllOf(testing::StartsWith("access denied: "), HasSubstr("remote access")));
  ExpectBroken(status, Code::kAccessDenied);
  const Status at_peer = ResultOf(std::move(peer_waits));
  EXPECT_EQ(at_peer, Code::kInternalError);
  EXPECT_THAT(at_peer.Describe(),
              AllOf(HasSubstr("The receive queue of QP"), HasSubstr("error at the peer")));
}

TEST_F(Failure, ABrokenTransportConnectsAgainAfterReset) {
  Connect();
  RdmaRemoteBuffer wrong = to.memory.Remote();
  wrong.access_key.rkeys[0] ^= 0xff00;
  EXPECT_EQ(ResultOf(pair->a.Write(from.memory.CreateView(), wrong)), Code::kAccessDenied);
  EXPECT_EQ(ResultOf(pair->b.WaitForWrite()), Code::kInternalError);
  EXPECT_SUCCESS(pair->a.Reset());
  EXPECT_SUCCESS(pair->a.GetStatus());
  EXPECT_SUCCESS(pair->b.Reset());
  qpns.clear();
  Connect();
  FillPattern(from.bytes, 4);
  EXPECT_SUCCESS(Write());
  EXPECT_EQ(to.bytes, from.bytes);
}

/// The rights of memory that was registered by a pointer to const.
TEST_F(Failure, APeerCannotWriteConstMemory) {
  Connect();
  const std::vector<uint8_t> constant(4096, 7);
  const RdmaMemory memory(constant.data(), constant.size(), 0);
  EXPECT_SUCCESS(ResultOf(pair->a.Read(from.memory.CreateMutableView(), memory.Remote())));
  EXPECT_EQ(from.bytes, constant);
  EXPECT_SUCCESS(ResultOf(pair->a.Write(memory.CreateView(), to.memory.Remote())));
  EXPECT_EQ(to.bytes, constant);
  FillPattern(from.bytes, 5);
  EXPECT_EQ(ResultOf(pair->a.Write(from.memory.CreateView(), memory.Remote())), Code::kAccessDenied);
  EXPECT_EQ(constant, std::vector<uint8_t>(4096, 7));
}

TEST_F(Failure, InvalidCallsDoNotBreakTheTransport) {
  Connect();
  const RdmaRemoteBuffer remote = to.memory.Remote();
  EXPECT_THAT(ResultOf(pair->a.Write({}, remote)).Describe(), HasSubstr("no registered memory"));
  EXPECT_THAT(ResultOf(pair->a.Read({}, remote)).Describe(), HasSubstr("no registered memory"));
  const Buffer elsewhere(64, 1);
  EXPECT_THAT(ResultOf(pair->a.Write(elsewhere.memory.CreateView(), remote)).Describe(),
              HasSubstr("registered for device 1, but the transport uses device 0"));
  const RdmaRemoteBuffer small{remote.ptr, remote.access_key, 100};
  EXPECT_THAT(ResultOf(pair->a.Write(from.memory.CreateView(), small)).Describe(),
              HasSubstr("4096 bytes are more than the peer's buffer has, 100"));
  EXPECT_THAT(ResultOf(pair->a.Write(from.memory.CreateView(), {remote.ptr, {}})).Describe(),
              HasSubstr("no key"));
  EXPECT_SUCCESS(Write());
}

TEST_F(Failure, OperationsTimeOutWhileTheNicIsPaused) {
  Connect();
  Pause(true);
  EXPECT_EQ(
      ResultOf(pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true, .timeout = 5ms}))
          .Describe(),
      "timeout: the write of 4096 bytes has not ended within 5 ms: choose a longer timeout, or check the "
      "peer and its link");
  EXPECT_THAT(ResultOf(pair->a.Read(from.memory.CreateMutableView(size_t{0}, 100), to.memory.Remote(),
                                    {.timeout = 0ns}))
                  .Describe(),
              HasSubstr("the read of 100 bytes has not ended within 0 s"));
  Pause(false);
  EXPECT_SUCCESS(Write());
  EXPECT_SUCCESS(ResultOf(pair->b.WaitForWrite())) << "the write was posted, and all of it arrived";
}

/// Cancelled writes do not notify; the writes after them do.
TEST_F(Failure, CancelledWriteDoesNotNotify) {
  pair.emplace(TransportConfig{.piece_bytes = kBig / kPieces});
  Connect();
  const Buffer late_source(kBig), late_target(kBig);
  Buffer source(kBig), target(kBig);
  FillPattern(source.bytes, 12);
  Pause(true);
  std::vector<std::future<Status>> late;
  for (int i = 0; i < 20; ++i) {
    late.push_back(pair->a.Write(late_source.memory.CreateView(), late_target.memory.Remote(),
                                 {.notify = true, .timeout = milliseconds(0)}));
  }
  for (auto& write : late) EXPECT_EQ(ResultOf(std::move(write)), Code::kTimeout);
  Pause(false);
  EXPECT_SUCCESS(
      ResultOf(pair->a.Write(source.memory.CreateView(), target.memory.Remote(), {.notify = true})));
  EXPECT_EQ(target.bytes, source.bytes);
  EXPECT_SUCCESS(ResultOf(pair->b.WaitForWrite())) << "the last write notifies";
  uint64_t notifications = 1;
  while (ResultOf(pair->b.WaitForWrite({.timeout = milliseconds(500)})).ok()) ++notifications;
  EXPECT_LE(notifications, 1 + 256 / kPieces)
      << "only writes that were posted whole notify, on queues of 256";
}

/// Otherwise later writes could pass it on the other channels without limit, and so could their
/// notifications.
TEST_F(Failure, CancelledWriteLeavesItsTurnToTheNext) {
  pair.emplace(TransportConfig{.queue_pairs = 2, .depth = 4});
  Connect();
  auto* const hold = FindControl<decltype(softhca_hold)>("softhca_hold");
  ASSERT_EQ(hold("mlx5_0", qpns[0], 1), 0);
  std::vector<std::future<Status>> writes;  // four on each channel, one of which is paused
  for (int i = 0; i < 8; ++i) writes.push_back(pair->a.Write(from.memory.CreateView(), to.memory.Remote()));
  const auto write =
      [&](bool notify) {  // a busy machine ends a write in this time if its channel is not paused
        return ResultOf(pair->a.Write(from.memory.CreateView(), to.memory.Remote(),
                                      {.notify = notify, .timeout = std::chrono::seconds(1)}));
      };
  for (int i = 0; write(false).ok(); ++i) ASSERT_LT(i, 1) << "every second write has to wait";
  EXPECT_EQ(write(true), Code::kTimeout);
  ASSERT_EQ(hold("mlx5_0", qpns[0], 0), 0);
  for (auto& each : writes) EXPECT_SUCCESS(ResultOf(std::move(each)));
  EXPECT_SUCCESS(ResultOf(pair->a.Write(from.memory.CreateView(), to.memory.Remote(),
                                        {.notify = true, .timeout = kTestTimeout})));
  EXPECT_SUCCESS(ResultOf(pair->b.WaitForWrite()));
  EXPECT_FALSE(TakeNotification(pair->b)) << "the other write was cancelled";
}

TEST_F(Failure, TimeoutDoesNotFailLaterWrites) {
  pair.emplace(TransportConfig{.piece_bytes = kBig / kPieces});
  Connect();
  const Buffer late_source(kBig), late_target(kBig);
  Buffer source(kBig), target(kBig);
  FillPattern(source.bytes, 13);
  for (int i = 0; i < 20; ++i) {
    const Status status = ResultOf(pair->a.Write(late_source.memory.CreateView(), late_target.memory.Remote(),
                                                 {.timeout = milliseconds(0)}));
    ASSERT_TRUE(status.ok() || status == Code::kTimeout) << status.Describe();
  }
  EXPECT_SUCCESS(ResultOf(pair->a.Write(source.memory.CreateView(), target.memory.Remote())));
  EXPECT_EQ(target.bytes, source.bytes);
  pair.reset();  // some writes may still be late
}

/// Without the keys the NIC would fail, and the transport with it.
TEST_F(Failure, MemoryStaysRegisteredUntilTheNicIsDone) {
  pair.emplace(TransportConfig{.piece_bytes = kBig / kPieces});
  Connect();
  std::vector<uint8_t> late(kBig);
  Buffer peers(kBig), source(kBig), target(kBig);
  FillPattern(source.bytes, 14);
  const auto registered = [] { return Nics::Of(0, 1)->cache().Statistics().regions; };
  const size_t before = registered();
  Pause(true);
  for (int i = 0; i < 20; ++i) {
    const RdmaMemory memory(late.data(), late.size(), 0);
    EXPECT_FALSE(memory.Reused()) << "the address may belong to other memory by now";
    auto end = i % 2 == 0 ? pair->a.Write(memory.CreateView(), peers.memory.Remote(), {.timeout = 0ns})
                          : pair->a.Read(memory.CreateMutableView(), peers.memory.Remote(), {.timeout = 0ns});
    EXPECT_EQ(ResultOf(std::move(end)), Code::kTimeout);
  }
  EXPECT_GT(registered(), before);
  Pause(false);
  EXPECT_SUCCESS(ResultOf(pair->a.Write(source.memory.CreateView(), target.memory.Remote())));
  EXPECT_EQ(target.bytes, source.bytes);
  EXPECT_EQ(registered(), before) << "the NIC is done with the earlier writes";
}

TEST_F(Failure, MemoryIsDeregisteredWithTheTransport) {
  Connect();
  Pause(true);
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
  EXPECT_EQ(ResultOf(std::move(write)), Code::kAborted);
}

TEST_F(Failure, DestructionAbortsPendingOperations) {
  Connect();
  Pause(true);
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
    EXPECT_EQ(ResultOf(std::move(future)).Describe(),
              "aborted: the transport was destroyed before the operation had ended: keep it until then");
  }
}

TEST_F(Failure, DestructionBeforeThePeerConnectsAbortsOperations) {
  const Bound b = pair->b.Bind();
  ASSERT_SUCCESS(pair->a.Bind().status);
  ASSERT_SUCCESS(pair->a.Connect(b.url));
  auto write = pair->a.Write(from.memory.CreateView(), to.memory.Remote());
  auto wait = pair->a.WaitForWrite();
  pair.reset();
  EXPECT_EQ(ResultOf(std::move(write)), Code::kAborted);
  EXPECT_EQ(ResultOf(std::move(wait)), Code::kAborted);
}

TEST_F(Failure, NextWriteFindsThatTheLinkIsDown) {
  pair.emplace(ShortTimeouts());
  Connect();
  auto* const link = FindControl<decltype(softhca_set_link)>("softhca_set_link");
  ASSERT_EQ(link("mlx5_0", 1, 0), 0);
  const Status status = Write();
  ASSERT_EQ(link("mlx5_0", 1, 1), 0);
  EXPECT_THAT(status.Describe(), HasSubstr(mlx5::Describe(mlx5::Syndrome::kTransportRetryExceeded)));
  ExpectBroken(status);
}

TEST_F(Failure, NextWriteFindsThatThePeerIsGone) {
  pair.emplace(ShortTimeouts());
  std::optional<RdmaTransport> peer(std::in_place, 0, ShortTimeouts());
  const Bound a = pair->a.Bind(), b = peer->Bind();
  ASSERT_SUCCESS(pair->a.Connect(b.url));
  ASSERT_SUCCESS(peer->Connect(a.url));
  ASSERT_SUCCESS(Write());
  peer.reset();
  const Status status = Write();
  EXPECT_THAT(status.Describe(), HasSubstr(mlx5::Describe(mlx5::Syndrome::kTransportRetryExceeded)));
  ExpectBroken(status);
}

TEST_F(Failure, KeepsNotificationsThatCameBefore) {
  Connect();
  ASSERT_SUCCESS(ResultOf(pair->b.Write(to.memory.CreateView(), from.memory.Remote(), {.notify = true})));
  ASSERT_SUCCESS(Write());
  auto* const force = FindControl<decltype(softhca_force_syndrome)>("softhca_force_syndrome");
  for (const uint32_t qpn : qpns) {
    for (uint32_t i = 0; i < 16; ++i) ASSERT_EQ(force("mlx5_0", qpn, i, 0x22, 0), 0);
  }
  while (Write().ok()) {
  }
  EXPECT_SUCCESS(ResultOf(pair->a.WaitForWrite()));
  EXPECT_EQ(ResultOf(pair->a.WaitForWrite()), Code::kInternalError);
}

/// A queue pair that starts again answers nothing for a while. The peer's ready may come just then.
struct LostReady : testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(LostReady, IsRepeated) {
  const auto [b_connects_first, is_of_b] = GetParam();
  TransportConfig config;
  config.retry.ack_timeout = 12;  // 17 ms
  Pair pair(config);
  const Bound a = pair.a.Bind(), b = pair.b.Bind();
  auto* const force = FindControl<decltype(softhca_force_syndrome)>("softhca_force_syndrome");
  for (const Url::QueuePair& queue_pair : Url::FromText(is_of_b ? b.url : a.url).queue_pairs) {
    for (const uint32_t index : {1u, 2u})  // after one hello or two
      ASSERT_EQ(force("mlx5_0", queue_pair.endpoint.qpn, index,
                      static_cast<uint8_t>(mlx5::Syndrome::kTransportRetryExceeded), 0),
                0);
  }
  const auto connect_a = [&] { ASSERT_SUCCESS(pair.a.Connect(b.url)); };
  if (!b_connects_first) connect_a();
  ASSERT_SUCCESS(pair.b.Connect(a.url));
  if (b_connects_first) connect_a();
  Buffer at_a(100'000), at_b(100'000);
  FillPattern(at_a.bytes, 15);
  EXPECT_SUCCESS(ResultOf(pair.a.Write(at_a.memory.CreateView(), at_b.memory.Remote(), {.notify = true})));
  EXPECT_SUCCESS(ResultOf(pair.b.WaitForWrite()));
  EXPECT_EQ(at_b.bytes, at_a.bytes);
  EXPECT_SUCCESS(ResultOf(pair.b.Write(at_b.memory.CreateView(), at_a.memory.Remote(), {.notify = true})));
  EXPECT_SUCCESS(ResultOf(pair.a.WaitForWrite()));
}

INSTANTIATE_TEST_SUITE_P(All, LostReady, testing::Combine(testing::Bool(), testing::Bool()));

/// A channel whose loop is the test.
struct ManualChannel {
  explicit ManualChannel(const host::Device& device)
      : channel(device, 0, {.depth = 4, .receive_depth = 4, .retry = {.ack_timeout = 12, .retry_count = 1}}) {
  }

  Channel::State Poll() {
    Transfer* transfer = nullptr;
    std::optional<ImmediateData> imm;
    while (channel.PollSend(transfer)) {
    }
    while (channel.PollReceive(imm)) ++received;
    channel.ReturnReceives();
    return channel.state();
  }
  void PollUntil(Channel::State state) {
    while (Poll() != state) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  void Hold(bool hold) const {
    ASSERT_EQ(FindControl<decltype(softhca_hold)>("softhca_hold")("mlx5_0", channel.Info().qpn, hold ? 1 : 0),
              0);
  }

  Channel channel;
  int received = 0;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::now() + kTestTimeout;
};

/// The retries of the late side run out, too, because the early one is silent until it has started again.
TEST(Channel, StartsAgainWhenThePeerDoesDuringTheHandshake) {
  const host::Device device;
  ManualChannel early(device), late(device);
  early.Hold(true);
  early.channel.Connect(late.channel.Info(), 0);
  late.channel.Connect(early.channel.Info(), 0);
  while (early.received == 0) {  // the late side's hello is acknowledged, but late has not seen that
    early.Poll();
    ASSERT_LT(std::chrono::steady_clock::now(), early.deadline);
  }
  ASSERT_EQ(FindControl<decltype(softhca_force_syndrome)>("softhca_force_syndrome")(
                "mlx5_0", early.channel.Info().qpn, 0,
                static_cast<uint8_t>(mlx5::Syndrome::kTransportRetryExceeded), 0),
            0);
  early.Hold(false);
  early.PollUntil(Channel::State::kPeerAbsent);
  late.PollUntil(Channel::State::kPeerAbsent);  // its ready met a queue pair in the error state
  const auto turn = [](ManualChannel& side) {
    const Channel::State state = side.Poll();
    if (state == Channel::State::kPeerAbsent) side.channel.Restart();
    return state;
  };
  for (bool open = false; !open;) {
    const Channel::State of_early = turn(early), of_late = turn(late);
    open = of_early == Channel::State::kOpen && of_late == Channel::State::kOpen;
    ASSERT_NE(of_early, Channel::State::kFailed) << early.channel.DescribeFailure();
    ASSERT_NE(of_late, Channel::State::kFailed) << late.channel.DescribeFailure();
    ASSERT_LT(std::chrono::steady_clock::now(), early.deadline);
  }
}

/// Completion events are armed by these indices, which are compared in 24 bits.
TEST(Channel, CountsCompletionsAcrossResets) {
  TransportConfig short_timeouts{.depth = 4, .receive_depth = 4};
  short_timeouts.retry.ack_timeout = 8;
  short_timeouts.retry.retry_count = 1;
  const host::Device device;
  Channel channel(device, 0, short_timeouts);
  const Channel absent(device, 0, short_timeouts);
  channel.Connect(absent.Info(), 0);
  const auto deadline = std::chrono::steady_clock::now() + kTestTimeout;
  for (int reset = 0; reset < 40; ++reset) {
    Transfer* transfer = nullptr;
    std::optional<ImmediateData> imm;
    while (channel.state() != Channel::State::kPeerAbsent) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      EXPECT_FALSE(channel.PollSend(transfer));
      EXPECT_FALSE(channel.PollReceive(imm));
    }
    const uint32_t sent = channel.send_consumer_index(), received = channel.receive_consumer_index();
    channel.Restart();
    ASSERT_GE(channel.send_consumer_index(), sent) << "reset " << reset;
    ASSERT_GE(channel.receive_consumer_index(), received) << "reset " << reset;
  }
}

}  // namespace
}  // namespace warpverbs::transport
