#include "wire/packet_requester.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "core/queues.hpp"
#include "wire/packet_recorder.hpp"

namespace softhca {
namespace {

using mlx5::CqeOpcode;
using mlx5::QpState;
using mlx5::Syndrome;
using mlx5::ToBe32;
using mlx5::ToBe64;
using mlx5::WqeOpcode;

constexpr uint32_t kMtu = 1024;
constexpr uint32_t kFirstPsn = 0xfffffe;  // so that sequence numbers wrap in every test
constexpr uint64_t kAckTimeoutNs = uint64_t{4096} << 14;

constexpr uint32_t PsnOf(uint32_t number) { return (kFirstPsn + number) & 0xffffff; }

/// A queue pair whose peer is the test: it sees what is sent, and answers or not.
class PacketRequesterTest : public testing::Test {
 protected:
  PacketRequesterTest() : a(hca, pd, {.send_depth = 512, .log_cq_depth = 9, .cd_master = true}) {
    std::iota(local.memory.begin(), local.memory.end(), uint8_t{0});
  }

  void Connect(QpChange change = {}) {
    change.send_psn = kFirstPsn;
    change.remote_qpn = 0x77;
    a.Connect(a, change);
  }
  void Post(const WqeBuilder& wqe) {
    a.Post(wqe);
    a.qp().rung = true;
  }
  WqeBuilder Write(uint32_t bytes) const {
    return WqeBuilder(WqeOpcode::kRdmaWrite).Remote(0x10000, 0x55).Data(local.Address(), bytes, local.key);
  }
  WqeBuilder Send(uint32_t bytes) const {
    return WqeBuilder(WqeOpcode::kSend).Data(local.Address(), bytes, local.key);
  }
  WqeBuilder Read(uint32_t bytes, size_t offset = 0) const {
    return WqeBuilder(WqeOpcode::kRdmaRead)
        .Remote(0x10000, 0x55)
        .Data(local.Address(offset), bytes, local.key);
  }
  WqeBuilder FetchAdd(uint64_t add) const {
    return WqeBuilder(WqeOpcode::kAtomicFa)
        .Remote(0x10000, 0x55)
        .Add(mlx5::AtomicSegment{ToBe64(add), {}})
        .Data(local.Address(), 8, local.key);
  }
  void Run() {
    while (requester.Run(now_ns)) {
    }
  }
  /// Runs, and takes what was sent.
  std::vector<SentPacket> Sent() {
    Run();
    std::vector<SentPacket> packets;
    while (!sink.sent.empty()) packets.push_back(sink.Take());
    for (SentPacket& packet : packets) packet.packet.payload = packet.payload;
    return packets;
  }
  /// "WRITE_FIRST 0, WRITE_LAST 1 ack": what is sent, with numbers counted from the first sequence number.
  std::string Story() {
    std::string story;
    for (const SentPacket& sent : Sent()) {
      if (!story.empty()) story += ", ";
      story += Name(sent.packet.service, sent.packet.op);
      story += " " + std::to_string((sent.packet.psn - kFirstPsn) & 0xffffff);
      if (sent.packet.ack_request) story += " ack";
    }
    return story;
  }
  void Acknowledge(uint32_t number, uint8_t syndrome = aeth::kNoCredits) {
    Packet packet;
    packet.op = PacketOp::kAcknowledge;
    packet.psn = PsnOf(number);
    packet.ack = {syndrome, 0};
    requester.OnAnswer(packet, now_ns);
  }
  void Respond(PacketOp op, uint32_t number, const std::vector<uint8_t>& payload) {
    Packet packet;
    packet.op = op;
    packet.psn = PsnOf(number);
    packet.payload = payload;
    requester.OnAnswer(packet, now_ns);
  }
  void RespondToAtomic(uint32_t number, uint64_t original) {
    Packet packet;
    packet.op = PacketOp::kAtomicAcknowledge;
    packet.psn = PsnOf(number);
    packet.original = original;
    requester.OnAnswer(packet, now_ns);
  }
  /// The index of the next completion, which must be a success; -1: there is none.
  int Completed() {
    const std::optional<Cqe> cqe = a.send_cq.Poll();
    if (!cqe) return -1;
    EXPECT_EQ(cqe->opcode, CqeOpcode::kRequester) << mlx5::Describe(cqe->syndrome);
    return cqe->wqe_index;
  }
  Syndrome Failed() {
    const std::optional<Cqe> cqe = a.send_cq.Poll();
    EXPECT_TRUE(cqe && cqe->opcode == CqeOpcode::kRequesterError);
    EXPECT_EQ(a.qp().state, QpState::kError);
    return cqe ? cqe->syndrome : Syndrome::kNone;
  }
  void PassTimeout() {
    ASSERT_LT(now_ns, requester.NextNs());
    now_ns = requester.NextNs();
  }

  uint64_t now_ns = 1'000'000'000;
  Hca hca{TestDevice()};
  uint32_t pd = hca.AllocPd();
  Region local{hca, pd, 1 << 20};
  QpUser a;
  PacketRecorder sink;
  PacketRequester requester{a.qp(), sink};
};

TEST_F(PacketRequesterTest, CutsMessagesByThePathMtu) {
  Connect();
  Post(WqeBuilder(WqeOpcode::kRdmaWrite).Remote(0, 0));
  EXPECT_EQ(Story(), "WRITE_ONLY 0 ack");
  Post(Write(kMtu));
  EXPECT_EQ(Story(), "WRITE_ONLY 1 ack");
  Post(Write(kMtu + 1));
  EXPECT_EQ(Story(), "WRITE_FIRST 2, WRITE_LAST 3 ack");
  Post(Send(3 * kMtu));
  EXPECT_EQ(Story(), "SEND_FIRST 4, SEND_MIDDLE 5, SEND_LAST 6 ack");
  Post(WqeBuilder(WqeOpcode::kSendImm).Data(local.Address(), 2 * kMtu, local.key));
  EXPECT_EQ(Story(), "SEND_FIRST 7, SEND_LAST_IMM 8 ack");
  Post(WqeBuilder(WqeOpcode::kRdmaWriteImm).Remote(0, 0));
  EXPECT_EQ(Story(), "WRITE_ONLY_IMM 9 ack");
  Post(Read(5 * kMtu));
  Post(FetchAdd(1));
  EXPECT_EQ(Story(), "READ_REQUEST 10 ack, FETCH_ADD 15 ack");
}

TEST_F(PacketRequesterTest, PacketsCarryWhatTheEntrySays) {
  Connect();
  Post(WqeBuilder(WqeOpcode::kRdmaWriteImm)
           .Remote(0x123456789a, 0x55)
           .Data(local.Address(1), 1000, local.key)
           .Data(local.Address(5000), 1000, local.key)
           .Imm(ToBe32(0xcafe))
           .Flags(mlx5::kSolicited));
  const std::vector<SentPacket> sent = Sent();
  ASSERT_EQ(sent.size(), 2u);
  const Packet &first = sent[0].packet, &last = sent[1].packet;
  EXPECT_EQ(first.memory.address, 0x123456789au);
  EXPECT_EQ(first.memory.rkey, 0x55u);
  EXPECT_EQ(first.memory.bytes, 2000u);
  EXPECT_EQ(first.dest_qpn, 0x77u);
  EXPECT_FALSE(first.solicited);
  EXPECT_TRUE(last.solicited);
  EXPECT_EQ(last.imm, ToBe32(0xcafe));
  ASSERT_EQ(sent[0].payload.size(), kMtu);
  ASSERT_EQ(sent[1].payload.size(), 2000u - kMtu);
  EXPECT_TRUE(std::equal(sent[0].payload.begin(), sent[0].payload.begin() + 1000, &local.memory[1]));
  EXPECT_TRUE(std::equal(sent[0].payload.begin() + 1000, sent[0].payload.end(), &local.memory[5000]));
  EXPECT_TRUE(std::equal(sent[1].payload.begin(), sent[1].payload.end(), &local.memory[5024]));
}

TEST_F(PacketRequesterTest, AtomicsCarryTheirOperands) {
  Connect();
  Post(WqeBuilder(WqeOpcode::kAtomicMaskedCs, static_cast<uint8_t>(mlx5::AtomicOpmod::kExtended8))
           .Remote(0x10008, 0x55)
           .Add(mlx5::MaskedCompareSwap8Segment{ToBe64(1), ToBe64(2), ToBe64(3), ToBe64(4)})
           .Data(local.Address(), 8, local.key));
  const std::vector<SentPacket> sent = Sent();
  ASSERT_EQ(sent.size(), 1u);
  const Packet& packet = sent[0].packet;
  EXPECT_EQ(packet.op, PacketOp::kCompareSwap);
  EXPECT_TRUE(packet.masked_atomic);
  EXPECT_EQ(packet.atomic.address, 0x10008u);
  EXPECT_EQ(packet.atomic.rkey, 0x55u);
  EXPECT_EQ(packet.atomic.bytes, 8);
  EXPECT_EQ(packet.atomic.swap_add, 1u);
  EXPECT_EQ(packet.atomic.compare, 2u);
  EXPECT_EQ(packet.atomic.swap_mask, 3u);
  EXPECT_EQ(packet.atomic.compare_mask, 4u);
}

TEST_F(PacketRequesterTest, AcknowledgementCompletesAllBefore) {
  Connect();
  Post(Write(8));
  Post(Write(3000).Flags(mlx5::kCqeOnError));
  Post(Send(8));
  Post(Write(8));
  Run();
  EXPECT_EQ(Completed(), -1);
  Acknowledge(4);
  EXPECT_EQ(Completed(), 0);
  EXPECT_EQ(Completed(), 2);
  EXPECT_EQ(Completed(), -1);
  Acknowledge(5);
  EXPECT_EQ(Completed(), 3);
  EXPECT_EQ(requester.NextNs(), UINT64_MAX) << "nothing is expected any more";
}

TEST_F(PacketRequesterTest, SendIndexIsTheOldestThatIsNotDone) {
  Connect();
  Post(Write(8));
  Post(Write(8));
  Run();
  EXPECT_EQ(a.qp().send_index, 0u);
  EXPECT_TRUE(a.qp().rung);
  Acknowledge(0);
  EXPECT_EQ(a.qp().send_index, 1u);
  Acknowledge(1);
  Run();
  EXPECT_EQ(a.qp().send_index, 2u);
  EXPECT_FALSE(a.qp().rung);
}

TEST_F(PacketRequesterTest, GhostsAreDropped) {
  Connect();
  Post(Write(3000));
  Run();
  Acknowledge(3);
  EXPECT_EQ(Completed(), -1) << "never sent";
  Acknowledge(2);
  EXPECT_EQ(Completed(), 0);
  Acknowledge(2);
  Acknowledge(1, aeth::kNakPsnSequence);
  Acknowledge(1, aeth::kNakRemoteAccess);
  Respond(PacketOp::kReadResponseOnly, 1, {});
  EXPECT_EQ(Completed(), -1);
  EXPECT_EQ(Story(), "WRITE_FIRST 0, WRITE_MIDDLE 1, WRITE_LAST 2 ack") << "sent before";
  EXPECT_EQ(a.qp().state, QpState::kRts);
}

TEST_F(PacketRequesterTest, WindowBoundsWhatIsUnderWay) {
  Connect();
  Post(Write(1 << 20));
  const size_t window = Sent().size();
  EXPECT_EQ(window * kMtu, kWindowBytes);
  EXPECT_EQ(Story(), "") << "without an acknowledgement nothing more";
  Acknowledge(9);
  EXPECT_EQ(Sent().size(), 10u);
}

TEST_F(PacketRequesterTest, EveryQuarterOfAWindowAsksForAnAcknowledgement) {
  for (const mlx5::Mtu mtu : {mlx5::Mtu::k256, mlx5::Mtu::k1024, mlx5::Mtu::k4096}) {
    Connect({.mtu = mtu});
    PacketRequester fresh(a.qp(), sink);
    Post(Write(1 << 20));
    while (fresh.Run(now_ns)) {
    }
    size_t asks = 0;
    for (const SentPacket& sent : sink.sent) asks += sent.packet.ack_request ? 1 : 0;
    EXPECT_EQ(asks, 4u) << MtuBytes(mtu);
    sink.sent.clear();
    a.Reset();
  }
}

TEST_F(PacketRequesterTest, ShortMessagesFillTheWindowToo) {
  Connect();
  for (int i = 0; i < 300; ++i) Post(Write(8));
  EXPECT_EQ(Sent().size(), kWindowPackets);
  Acknowledge(kWindowPackets - 1);
  EXPECT_EQ(Sent().size(), kWindowPackets);
  Acknowledge(299);
  EXPECT_EQ(Completed(), 0);
}

TEST_F(PacketRequesterTest, SequenceNakGoesBackToThatPacket) {
  Connect();
  Post(Write(5 * kMtu));
  Post(Send(8));
  Run();
  sink.sent.clear();
  Acknowledge(2, aeth::kNakPsnSequence);
  EXPECT_EQ(Story(), "WRITE_MIDDLE 2, WRITE_MIDDLE 3, WRITE_LAST 4 ack, SEND_ONLY 5 ack");
  Acknowledge(5);
  EXPECT_EQ(Completed(), 0);
  EXPECT_EQ(Completed(), 1);
}

TEST_F(PacketRequesterTest, SequenceNakAcknowledgesWhatIsBeforeIt) {
  Connect();
  Post(Write(8));
  Post(Write(8));
  Run();
  sink.sent.clear();
  Acknowledge(1, aeth::kNakPsnSequence);
  EXPECT_EQ(Completed(), 0);
  EXPECT_EQ(Completed(), -1);
  EXPECT_EQ(Story(), "WRITE_ONLY 1 ack");
}

TEST_F(PacketRequesterTest, AnswerToTheFirstTransmissionSparesTheSecond) {
  Connect();
  Post(Write(4 * kMtu));
  Run();
  sink.sent.clear();
  Acknowledge(1, aeth::kNakPsnSequence);
  Acknowledge(2);
  EXPECT_EQ(Story(), "WRITE_LAST 3 ack");
  Acknowledge(3);
  EXPECT_EQ(Completed(), 0);
}

TEST_F(PacketRequesterTest, TimeoutGoesBackToTheOldestUntilRetriesAreUsedUp) {
  Connect({.retry_count = 2});
  Post(Write(2 * kMtu));
  Post(Write(8));
  const std::string all = "WRITE_FIRST 0, WRITE_LAST 1 ack, WRITE_ONLY 2 ack";
  EXPECT_EQ(Story(), all);
  EXPECT_EQ(requester.NextNs(), now_ns + kAckTimeoutNs);
  now_ns += kAckTimeoutNs - 1;
  EXPECT_EQ(Story(), "");
  for (int i = 0; i < 2; ++i) {
    PassTimeout();
    EXPECT_EQ(Story(), all);
  }
  PassTimeout();
  EXPECT_EQ(Story(), "");
  EXPECT_EQ(Failed(), Syndrome::kTransportRetryExceeded);
  EXPECT_EQ(a.qp().send_index, 1u) << "what is left is flushed from there";
  EXPECT_EQ(requester.NextNs(), UINT64_MAX);
}

TEST_F(PacketRequesterTest, ProgressRenewsRetriesAndTheTimer) {
  Connect({.retry_count = 1});
  Post(Write(3 * kMtu));
  Run();
  for (uint32_t i = 0; i < 2; ++i) {
    PassTimeout();
    Run();
    now_ns += kAckTimeoutNs / 2;
    Acknowledge(i);
    EXPECT_EQ(requester.NextNs(), now_ns + kAckTimeoutNs);
  }
  Acknowledge(2);
  EXPECT_EQ(Completed(), 0);
}

TEST_F(PacketRequesterTest, ShortTimeoutsAreRaisedAndNoneIsForEver) {
  Connect({.ack_timeout = 1});
  Post(Write(8));
  Run();
  EXPECT_EQ(requester.NextNs(), now_ns + kMinAckTimeoutNs);
  a.Reset();
  Connect({.ack_timeout = 0});
  PacketRequester fresh(a.qp(), sink);
  Post(Write(8));
  fresh.Run(now_ns);
  EXPECT_EQ(fresh.NextNs(), UINT64_MAX);
}

TEST_F(PacketRequesterTest, ReceiverNotReadyIsWaitedForByItsTimer) {
  Connect({.rnr_retry = 2});
  Post(Send(2 * kMtu));
  Post(Write(8));
  Run();
  sink.sent.clear();
  for (int i = 0; i < 2; ++i) {
    Acknowledge(0, aeth::kRnrNak | 18);
    Acknowledge(0, aeth::kRnrNak | 18);  // the network's duplicate
    EXPECT_EQ(Story(), "");
    EXPECT_EQ(requester.NextNs(), now_ns + 5'120'000);
    PassTimeout();
    EXPECT_EQ(Story(), "SEND_FIRST 0, SEND_LAST 1 ack, WRITE_ONLY 2 ack");
  }
  Acknowledge(0, aeth::kRnrNak | 18);
  EXPECT_EQ(Failed(), Syndrome::kReceiverNotReadyRetryExceeded);
}

TEST_F(PacketRequesterTest, RnrRetrySevenNeverGivesUp) {
  Connect({.retry_count = 0, .rnr_retry = 7});
  Post(Send(8));
  Run();
  for (int i = 0; i < 1000; ++i) {
    Acknowledge(0, aeth::kRnrNak | 1);
    PassTimeout();
    Run();
  }
  Acknowledge(0);
  EXPECT_EQ(Completed(), 0);
}

TEST_F(PacketRequesterTest, FatalNakFailsTheEntryThatHoldsThePacket) {
  const std::pair<uint8_t, Syndrome> causes[] = {{aeth::kNakInvalidRequest, Syndrome::kRemoteInvalidRequest},
                                                 {aeth::kNakRemoteAccess, Syndrome::kRemoteAccess},
                                                 {aeth::kNakRemoteOperation, Syndrome::kRemoteOperation},
                                                 {aeth::kNak | 4, Syndrome::kBadResponse}};
  for (const auto& [nak, syndrome] : causes) {
    Connect();
    PacketRequester fresh(a.qp(), sink);
    Post(Write(8));
    Post(Write(3 * kMtu));
    Post(Write(8));
    fresh.Run(now_ns);
    Packet packet;
    packet.op = PacketOp::kAcknowledge;
    packet.psn = PsnOf(2);
    packet.ack.syndrome = nak;
    fresh.OnAnswer(packet, now_ns);
    EXPECT_EQ(Completed(), 0);
    const Cqe cqe = a.send_cq.Poll().value();
    EXPECT_EQ(cqe.syndrome, syndrome);
    EXPECT_EQ(cqe.wqe_index, 1);
    EXPECT_FALSE(a.send_cq.Poll()) << "the rest is flushed by others";
    EXPECT_EQ(a.qp().state, QpState::kError);
    a.Reset();
  }
}

}  // namespace
}  // namespace softhca
