#include "wire/wire_network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <deque>
#include <memory>

#include "core/queues.hpp"
#include "wire/engine_process.hpp"
#include "wire/test_frame.hpp"

namespace softhca {
namespace {

using mlx5::CqeOpcode;
using mlx5::QpState;
using mlx5::WqeOpcode;

/// One end of a wire in memory.
class WireEnd : public Medium {
 public:
  explicit WireEnd(std::deque<Bytestream>& out, std::deque<Bytestream>& in) : out_(out), in_(in) {}

  void Send(std::span<const uint8_t> frame) override { unsent_.emplace_back(frame.begin(), frame.end()); }
  void Flush() override {
    for (Bytestream& frame : unsent_) out_.push_back(std::move(frame));
    unsent_.clear();
  }
  size_t Receive(size_t most, const FrameSink& sink) override {
    size_t count = 0;
    for (; count < most && !in_.empty(); ++count) {
      const Bytestream frame = std::move(in_.front());
      in_.pop_front();
      sink(frame);
    }
    return count;
  }
  void AddDescriptors(std::vector<int>&) const override {}

 private:
  std::vector<Bytestream> unsent_;
  std::deque<Bytestream>& out_;
  std::deque<Bytestream>& in_;
};

/// Records why frames were dropped.
class Drops : public Observer {
 public:
  void OnDrop(const char* reason, uint64_t) override { reasons.emplace_back(reason); }
  std::vector<std::string> reasons;
};

/// Two devices, each behind a network of its own, as in two processes.
class WireNetworkTest : public testing::Test {
 protected:
  WireNetworkTest() : WireNetworkTest(TestDevice(1), TestDevice(2)) {}
  WireNetworkTest(DeviceConfig near_device, DeviceConfig far_device)
      : near(std::move(near_device)), far(std::move(far_device)) {
    near.SetNetwork(&near_network);
    far.SetNetwork(&far_network);
    far.SetObserver(&drops);
  }
  ~WireNetworkTest() override { far.SetObserver(nullptr); }

  void Connect(const QpChange& change = {}) {
    a.Connect(b, change);
    b.Connect(a);
  }
  WqeBuilder Write() {
    return WqeBuilder(WqeOpcode::kRdmaWrite)
        .Remote(remote.Address(), remote.key)
        .Data(local.Address(), 8, local.key);
  }
  /// Sends what is posted. The far end takes nothing yet.
  void Send() {
    a.qp().doorbell_pending = true;  // as the engine does after a doorbell
    near_network.Run(a.qp(), now_ns);
    near_network.Poll(now_ns);
  }
  /// Polls both ends until nothing moves.
  void Run() {
    a.qp().doorbell_pending = true;
    bool worked = true;
    while (worked) {
      worked = near_network.Run(a.qp(), now_ns);
      worked |= near_network.Poll(now_ns);
      worked |= far_network.Poll(now_ns);
    }
  }

  uint64_t now_ns = 1'000'000'000;
  std::deque<Bytestream> there, back;
  Drops drops;
  Hca near, far;
  WireNetwork near_network{{&near},
                           {.open_medium = [this] { return std::make_unique<WireEnd>(there, back); }}};
  WireNetwork far_network{{&far}, {.open_medium = [this] { return std::make_unique<WireEnd>(back, there); }}};
  uint32_t pd = near.AllocPd(), far_pd = far.AllocPd();
  QpUser a{near, pd}, b{far, far_pd};
  Region local{near, pd, 4096}, remote{far, far_pd, 4096};
};

TEST_F(WireNetworkTest, WriteReachesAnotherProcess) {
  Connect();
  local.As<uint64_t>() = 0x1234;
  a.Post(Write());
  Run();
  const auto cqe = a.send_cq.Poll();
  ASSERT_TRUE(cqe);
  EXPECT_EQ(cqe->opcode, CqeOpcode::kRequester);
  EXPECT_EQ(remote.As<uint64_t>(), 0x1234u);
  EXPECT_EQ(drops.reasons, std::vector<std::string>());
}

TEST_F(WireNetworkTest, SendsAMadAtOnce) {
  Connect();
  near_network.management().SendMad(near, 1, 0, far.config().ports[0].gids[0].gid, {});
  EXPECT_EQ(there.size(), 1u);
}

/// A queue pair whose peer's engine is in another process, which never answers.
class SilentPeerTest : public WireNetworkTest {
 protected:
  SilentPeerTest() {
    Connect({.path = AddressPath{.grh = true, .remote_gid = peer.gid()}, .retry_count = 0});
    a.Post(Write());
    Send();
  }

  void PassTimeout() {
    now_ns = near_network.NextNs();
    near_network.Poll(now_ns);
  }
  void ExpectTransportRetry() {
    const auto cqe = a.send_cq.Poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->syndrome, mlx5::Syndrome::kTransportRetryExceeded);
  }

  const EngineProcess peer{RandomGid(), EngineProcess::Kind::kWithChild};
};

TEST_F(SilentPeerTest, CountsNoTimeoutWhileThePeersProcessIsStopped) {
  peer.Stop();
  for (int i = 0; i < 10; ++i) PassTimeout();
  EXPECT_EQ(a.qp().state, QpState::kRts);
  peer.Kill();
  PassTimeout();
  ExpectTransportRetry();
}

TEST_F(SilentPeerTest, CountsTimeoutsWhileThePeersEngineSleeps) {
  PassTimeout();
  ExpectTransportRetry();
}

TEST_F(WireNetworkTest, FramesCarryTheFieldsOfThePath) {
  AddressPath path{.grh = true, .remote_gid = far.config().ports[0].gids[0].gid};
  path.traffic_class = 0xb8;
  path.hop_limit = 5;
  path.flow_label = 0x12345;
  path.udp_source_port = 0xd00d;
  Connect({.path = path});
  a.Post(Write());
  Send();
  ASSERT_EQ(there.size(), 1u);
  const auto frame = ParseFrame(there[0]);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->flow.source, near.config().ports[0].gids[0].gid);
  EXPECT_EQ(frame->flow.destination, path.remote_gid);
  EXPECT_EQ(frame->flow.traffic_class, 0xb8);
  EXPECT_EQ(frame->flow.hop_limit, 5);
  EXPECT_EQ(frame->flow.flow_label, 0x12345u);
  EXPECT_EQ(frame->flow.source_port, 0xd00d);
}

TEST_F(WireNetworkTest, DropsADamagedFrame) {
  Connect();
  a.Post(Write());
  Send();
  ASSERT_EQ(there.size(), 1u);
  there[0].back() ^= 1;
  far_network.Poll(now_ns);
  EXPECT_THAT(drops.reasons, testing::ElementsAre("wrong ICRC"));
}

TEST_F(WireNetworkTest, DropsAFrameForAForeignAddress) {
  Connect();
  a.Post(Write());
  Send();
  ASSERT_EQ(there.size(), 1u);
  Flow flow = ParseFrame(there[0])->flow;
  flow.destination[15] ^= 0x80;
  there = {TestFrame(flow), Bytestream(20)};
  far_network.Poll(now_ns);
  EXPECT_THAT(drops.reasons, testing::ElementsAre("unknown address", "malformed frame"));
}

TEST_F(WireNetworkTest, AcceptsPacketsOnlyFromThePeer) {
  Connect();
  a.Post(Write());
  Send();
  ASSERT_EQ(there.size(), 1u);
  const auto frame = ParseFrame(there[0]);
  Flow flow = frame->flow;
  flow.source[15] ^= 0x80;
  Bytestream forged = there[0];
  WriteFrameHeaders(flow, frame->transport.size(), forged);
  SealFrame(forged);
  there = {forged};
  far_network.Poll(now_ns);
  EXPECT_THAT(drops.reasons, testing::ElementsAre("not from the peer"));
}

TEST_F(WireNetworkTest, PortThatIsDownNeitherSendsNorReceives) {
  Connect();
  far.SetLink(1, false);
  a.Post(Write());
  Send();
  EXPECT_EQ(there.size(), 1u);
  far_network.Poll(now_ns);
  EXPECT_THAT(drops.reasons, testing::ElementsAre("unknown address"));
  near.SetLink(1, false);
  now_ns += 10'000'000'000;  // time for a retransmission
  Send();
  EXPECT_EQ(there.size(), 0u);
}

TEST_F(WireNetworkTest, FlushesAQueuePairInErrorSilently) {
  Connect();
  near.ModifyQp(a.qpn, QpState::kError, {});
  a.Post(Write());
  Send();
  EXPECT_EQ(a.send_cq.Poll()->syndrome, mlx5::Syndrome::kFlushed);
  EXPECT_EQ(there.size(), 0u);
  EXPECT_EQ(a.qp().channel, nullptr);
}

TEST_F(WireNetworkTest, RetransmitsALostPacketWithoutAnotherEvent) {
  Connect();
  EXPECT_EQ(near_network.NextNs(), UINT64_MAX) << "an idle connection has no timer";
  a.Post(Write());
  Send();
  there.clear();
  for (int retry = 0; retry < 3; ++retry) {
    now_ns = near_network.NextNs();
    ASSERT_NE(now_ns, UINT64_MAX);
    near_network.Poll(now_ns);
    EXPECT_EQ(there.size(), 1u);
    if (retry < 2) there.clear();
  }
  Run();
  EXPECT_EQ(a.send_cq.Poll()->opcode, CqeOpcode::kRequester);
  EXPECT_EQ(near_network.NextNs(), UINT64_MAX) << "every packet is answered";
}

TEST_F(WireNetworkTest, StoppedProcessTakesItsResponsesBeforeItGivesUp) {
  Connect({.retry_count = 0});
  a.Post(Write());
  Send();
  far_network.Poll(now_ns);  // the peer answers while this process is stopped
  ASSERT_EQ(back.size(), 1u);
  const Bytestream other(64);  // malformed: more of them than are received at a time
  for (int i = 0; i < 100; ++i) back.push_front(other);
  now_ns += 10'000'000'000;
  Run();
  const auto cqe = a.send_cq.Poll();
  ASSERT_TRUE(cqe);
  EXPECT_EQ(cqe->opcode, CqeOpcode::kRequester);
  // Frames that come all the time do not keep a timer from running forever.
  a.Post(Write());
  Send();
  there.clear();
  now_ns += 10'000'000'000;
  for (int i = 0; i < 1000 && a.qp().state == QpState::kRts; ++i) {
    while (back.size() < 100) back.push_back(other);
    near_network.Run(a.qp(), now_ns);
    near_network.Poll(now_ns);
  }
  EXPECT_EQ(a.qp().state, QpState::kError);
}

TEST_F(WireNetworkTest, ProcessStoppedAfterASleepTakesItsResponsesBeforeItGivesUp) {
  Connect({.retry_count = 0});
  a.Post(Write());
  Send();
  near_network.Wait(0);      // ends without a frame
  far_network.Poll(now_ns);  // the peer answers while this process is stopped
  ASSERT_EQ(back.size(), 1u);
  now_ns += 10'000'000'000;
  near_network.Poll(now_ns);
  Run();
  const auto cqe = a.send_cq.Poll();
  ASSERT_TRUE(cqe);
  EXPECT_EQ(cqe->opcode, CqeOpcode::kRequester);
}

TEST_F(WireNetworkTest, DropsTheTimersOfAResetQueuePair) {
  Connect();
  a.Post(Write());
  Send();
  EXPECT_NE(near_network.NextNs(), UINT64_MAX);
  far_network.Poll(now_ns);  // the peer receives the packet and answers
  near.ModifyQp(a.qpn, QpState::kReset, {});
  far.ModifyQp(b.qpn, QpState::kReset, {});
  EXPECT_EQ(near_network.NextNs(), UINT64_MAX);
  near_network.Poll(now_ns);
  far_network.Poll(now_ns);
  EXPECT_THAT(drops.reasons, testing::IsEmpty());
}

TEST_F(WireNetworkTest, RefusesATransitionWithoutItsMedium) {
  WireNetwork broken{{&near}, {.open_medium = []() -> std::unique_ptr<Medium> {
                       throw CommandError(mlx5::CommandStatus::kBadSystemState, "no socket");
                     }}};
  near.SetNetwork(&broken);
  EXPECT_THROW(a.ConnectToRtr(b), CommandError);
  EXPECT_EQ(a.qp().state, QpState::kInit);
  EXPECT_THROW(near.ModifyQp(a.qpn, QpState::kRts, ToRts()), CommandError) << "it is not in RTR";
  a.Post(Write());
  a.qp().doorbell_pending = true;
  broken.Run(a.qp(), now_ns);
  EXPECT_EQ(a.send_cq.Poll()->syndrome, mlx5::Syndrome::kLocalQpOperation);
}

TEST_F(WireNetworkTest, RefusesATransitionIfItCannotWaitForFrames) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  std::deque<Bytestream> loop;
  WireNetwork blind{{&near}, {.open_medium = [&] { return std::make_unique<WireEnd>(loop, loop); }}};
  near.SetNetwork(&blind);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_THROW(a.ConnectToRtr(b), CommandError);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(blind.Listens());
}

/// Whether connecting queue pairs of one process opens the medium.
bool OpensMedium(WireOptions options) {
  bool opened = false;
  std::deque<Bytestream> loop;
  Hca hca(TestDevice(1));
  options.open_medium = [&] {
    opened = true;
    return std::make_unique<WireEnd>(loop, loop);
  };
  WireNetwork network({&hca}, options);
  hca.SetNetwork(&network);
  const uint32_t pd = hca.AllocPd();
  QpUser a(hca, pd), b(hca, pd);
  a.Connect(b);
  b.Connect(a);
  return opened;
}

/// Two devices in a subnet of InfiniBand, each behind a network of its own.
class SubnetTest : public WireNetworkTest {
 protected:
  SubnetTest() : WireNetworkTest(DeviceOf(1), DeviceOf(2)) {}

  static DeviceConfig DeviceOf(uint8_t number) {
    DeviceConfig device = TestDevice(number);
    device.link = mlx5::PortType::kInfiniBand;
    device.ports[0].lid = LidOf(number);
    device.ports[0].gids[0].version = mlx5::RoceVersion::kV1;
    return device;
  }
  static uint16_t LidOf(uint8_t number) { return static_cast<uint16_t>(0x30 + number); }
  static Gid GidOf(uint8_t number) { return DeviceOf(number).ports[0].gids[0].gid; }
  static std::optional<Frame> Parse(const Bytestream& frame) {
    return ParseFrame(frame, mlx5::PortType::kInfiniBand);
  }
  /// Lets a write of this connection arrive by another flow.
  void ArriveBy(const Flow& flow) {
    if (there.empty()) {
      a.Post(Write());
      Send();
    }
    ASSERT_EQ(there.size(), 1u);
    const Bytestream original = there[0];
    const std::span<const uint8_t> transport = Parse(original)->transport;
    Bytestream forged(FrameHeaderBytes(flow) + transport.size() + FrameTrailerBytes(flow));
    const size_t start = WriteFrameHeaders(flow, transport.size(), forged);
    std::copy(transport.begin(), transport.end(), forged.begin() + static_cast<ptrdiff_t>(start));
    SealFrame(forged, mlx5::PortType::kInfiniBand);
    there = {forged};
    far_network.Poll(now_ns);
    there = {original};
  }
  Flow FlowToFar() {
    return {.source = GidOf(1),
            .destination = GidOf(2),
            .version = mlx5::RoceVersion::kV1,
            .local = LocalRoute{.source = LidOf(1), .destination = LidOf(2)},
            .grh = false};
  }
};

TEST_F(SubnetTest, WriteReachesAnotherProcessByItsLid) {
  a.Connect(b, {.path = AddressPath{.remote_lid = LidOf(2), .local_gid_index = 200, .service_level = 9}});
  b.Connect(a, {.path = AddressPath{.remote_lid = LidOf(1)}});
  local.As<uint64_t>() = 0x1234;
  a.Post(Write());
  Send();
  ASSERT_EQ(there.size(), 1u);
  const auto frame = Parse(there[0]);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->flow.local, (LocalRoute{.source = LidOf(1), .destination = LidOf(2), .service_level = 9}));
  EXPECT_FALSE(frame->flow.grh);
  Run();
  ASSERT_TRUE(a.send_cq.Poll());
  EXPECT_EQ(remote.As<uint64_t>(), 0x1234u);
  EXPECT_EQ(drops.reasons, std::vector<std::string>());
}

TEST_F(SubnetTest, GrhIsSentWhereThePathHasOne) {
  Connect();
  a.Post(Write());
  Send();
  ASSERT_EQ(there.size(), 1u);
  const auto frame = Parse(there[0]);
  ASSERT_TRUE(frame && frame->flow.grh);
  EXPECT_EQ(frame->flow.source, GidOf(1));
  EXPECT_EQ(frame->flow.destination, GidOf(2));
  Run();
  ASSERT_TRUE(a.send_cq.Poll());
}

TEST_F(SubnetTest, AcceptsPacketsOnlyFromThePeer) {
  Connect();
  Flow flow = FlowToFar();
  flow.local->source = LidOf(3);
  ArriveBy(flow);
  flow = FlowToFar();
  flow.grh = true;
  flow.source = GidOf(3);
  ArriveBy(flow);
  EXPECT_THAT(drops.reasons, testing::ElementsAre("not from the peer", "not from the peer"));
}

TEST_F(SubnetTest, DropsFramesForAnotherPort) {
  Connect();
  Flow flow = FlowToFar();
  flow.local->destination = LidOf(3);
  ArriveBy(flow);
  flow = FlowToFar();
  flow.grh = true;
  flow.destination = GidOf(3);
  ArriveBy(flow);
  EXPECT_THAT(drops.reasons, testing::ElementsAre("unknown address", "unknown address"));
}

TEST_F(SubnetTest, DropsPacketsOfAnotherPartition) {
  Connect({.pkey_index = 1});
  a.Post(Write());
  Send();
  far_network.Poll(now_ns);
  EXPECT_THAT(drops.reasons, testing::ElementsAre("another partition's P_Key"));
}

TEST_F(SubnetTest, DropsADamagedFrame) {
  Connect();
  a.Post(Write());
  Send();
  ASSERT_EQ(there.size(), 1u);
  there[0].back() ^= 1;  // in the variant CRC
  far_network.Poll(now_ns);
  EXPECT_THAT(drops.reasons, testing::ElementsAre("wrong CRC"));
}

TEST(WireNetwork, OpensNoMediumForConnectionsWithinTheProcess) {
  EXPECT_FALSE(OpensMedium({.direct = true}));
  EXPECT_TRUE(OpensMedium({.direct = false}));
  EXPECT_TRUE(OpensMedium({.direct = true, .open_at_once = true})) << "peers may ask for its addresses";
}

}  // namespace
}  // namespace softhca
