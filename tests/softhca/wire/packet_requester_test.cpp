#include "wire/packet_requester.hpp"

#include <algorithm>
#include <vector>

#include "wire/requester_fixture.hpp"

namespace softhca {
namespace {

using mlx5::CqeOpcode;
using mlx5::QpState;
using mlx5::Syndrome;
using mlx5::ToBe32;
using mlx5::ToBe64;
using mlx5::WqeOpcode;

TEST_F(PacketRequesterTest, CutsMessagesByThePathMtu) {
  Connect();
  Post(WqeBuilder(WqeOpcode::kRdmaWrite).Remote(0, 0));
  EXPECT_EQ(DescribeSent(), "WRITE_ONLY 0 ack");
  Post(Write(kMtu));
  EXPECT_EQ(DescribeSent(), "WRITE_ONLY 1 ack");
  Post(Write(kMtu + 1));
  EXPECT_EQ(DescribeSent(), "WRITE_FIRST 2, WRITE_LAST 3 ack");
  Post(Send(3 * kMtu));
  EXPECT_EQ(DescribeSent(), "SEND_FIRST 4, SEND_MIDDLE 5, SEND_LAST 6 ack");
  Post(WqeBuilder(WqeOpcode::kSendImm).Data(local.Address(), 2 * kMtu, local.key));
  EXPECT_EQ(DescribeSent(), "SEND_FIRST 7, SEND_LAST_IMM 8 ack");
  Post(WqeBuilder(WqeOpcode::kRdmaWriteImm).Remote(0, 0));
  EXPECT_EQ(DescribeSent(), "WRITE_ONLY_IMM 9 ack");
  Post(Read(5 * kMtu));
  Post(FetchAdd(1));
  EXPECT_EQ(DescribeSent(), "READ_REQUEST 10 ack, FETCH_ADD 15 ack");
}

TEST_F(PacketRequesterTest, PacketsCarryTheFieldsOfTheWqe) {
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
  Post(WqeBuilder(WqeOpcode::kAtomicMaskedCs, kExtended8)
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

TEST_F(PacketRequesterTest, AcknowledgementCompletesEarlierWqes) {
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
  EXPECT_EQ(requester.NextNs(), UINT64_MAX) << "no answer is due";
}

TEST_F(PacketRequesterTest, SendIndexIsTheOldestUnfinishedWqe) {
  Connect();
  Post(Write(8));
  Post(Write(8));
  Run();
  EXPECT_EQ(a.qp().send_index, 0u);
  EXPECT_TRUE(a.qp().doorbell_pending);
  Acknowledge(0);
  EXPECT_EQ(a.qp().send_index, 1u);
  Acknowledge(1);
  Run();
  EXPECT_EQ(a.qp().send_index, 2u);
  EXPECT_FALSE(a.qp().doorbell_pending);
}

TEST_F(PacketRequesterTest, WindowLimitsUnacknowledgedPackets) {
  Connect();
  Post(Write(1 << 20));
  const size_t window = Sent().size();
  EXPECT_EQ(window * kMtu, kWindowBytes);
  EXPECT_EQ(DescribeSent(), "") << "the window is full";
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

TEST_F(PacketRequesterTest, ReadResponsesLandInOrderAndAcknowledgeEarlierWqes) {
  Connect();
  Post(Write(8));
  Post(WqeBuilder(WqeOpcode::kRdmaRead)
           .Remote(0x10000, 0x55)
           .Data(local.Address(10000), 1500, local.key)
           .Data(local.Address(20000), 1000, local.key));
  Run();
  const std::vector<uint8_t> ones(kMtu, 1), twos(kMtu, 2), threes(2500 - 2 * kMtu, 3);
  Respond(PacketOp::kReadResponseFirst, 1, ones);
  EXPECT_EQ(Completed(), 0);
  Respond(PacketOp::kReadResponseMiddle, 2, twos);
  EXPECT_EQ(Completed(), -1);
  Respond(PacketOp::kReadResponseLast, 3, threes);
  const Cqe cqe = a.send_cq.Poll().value();
  EXPECT_EQ(cqe.wqe_index, 1);
  EXPECT_EQ(cqe.bytes, 2500u);
  EXPECT_EQ(local.memory[10000 + kMtu - 1], 1);
  EXPECT_EQ(local.memory[10000 + kMtu], 2);
  EXPECT_EQ(local.memory[20000], 2);
  EXPECT_EQ(local.memory[20000 + 999], 3);
  EXPECT_EQ(local.memory[21000], static_cast<uint8_t>(21000)) << "the byte after the read";
}

TEST_F(PacketRequesterTest, AtomicReturnsTheOldValue) {
  Connect();
  Post(FetchAdd(5));
  Run();
  RespondToAtomic(0, 0x1122334455667788);
  EXPECT_EQ(Completed(), 0);
  EXPECT_EQ(local.As<uint64_t>(), 0x1122334455667788u);
}

TEST_F(PacketRequesterTest, LimitsOutstandingReadsAndAtomics) {
  Connect({.max_reads_out = 2});
  for (int i = 0; i < 2; ++i) Post(Read(8));
  Post(FetchAdd(1));
  Post(Write(8));
  EXPECT_EQ(DescribeSent(), "READ_REQUEST 0 ack, READ_REQUEST 1 ack") << "the write waits for its turn";
  Respond(PacketOp::kReadResponseOnly, 0, std::vector<uint8_t>(8));
  EXPECT_EQ(DescribeSent(), "FETCH_ADD 2 ack, WRITE_ONLY 3 ack");
}

TEST_F(PacketRequesterTest, FenceWaitsForReadsAndAtomicsButNotForWrites) {
  Connect();
  Post(Write(8));
  Post(Write(8).Flags(mlx5::kFence));
  Post(Read(8));
  Post(Write(8).Flags(mlx5::kFenceInitiatorSmall));
  Post(Send(8).Flags(mlx5::kFence));
  EXPECT_EQ(DescribeSent(), "WRITE_ONLY 0 ack, WRITE_ONLY 1 ack, READ_REQUEST 2 ack, WRITE_ONLY 3 ack");
  Respond(PacketOp::kReadResponseOnly, 2, std::vector<uint8_t>(8));
  EXPECT_EQ(DescribeSent(), "SEND_ONLY 4 ack");
}

TEST_F(PacketRequesterTest, LocalWqesCompleteInOrder) {
  Connect();
  Post(Write(8));
  Post(WqeBuilder(WqeOpcode::kNop));
  Post(Write(8));
  EXPECT_EQ(DescribeSent(), "WRITE_ONLY 0 ack");
  EXPECT_EQ(Completed(), -1);
  Acknowledge(0);
  EXPECT_EQ(DescribeSent(), "WRITE_ONLY 1 ack");
  EXPECT_EQ(Completed(), 0);
  EXPECT_EQ(Completed(), 1);
}

TEST_F(PacketRequesterTest, WaitDelaysLaterWqes) {
  Connect();
  CqMemory memory(2);
  CqConfig config = memory.Config();
  config.uar_page = a.uar;
  const uint32_t cqn = hca.CreateCq(std::move(config));
  Post(WqeBuilder(WqeOpcode::kWait).Add(mlx5::WaitSegment{{}, ToBe32(0), ToBe32(cqn)}));
  Post(Write(8));
  EXPECT_EQ(DescribeSent(), "");
  hca.FindCq(cqn)->Push({});
  EXPECT_EQ(DescribeSent(), "WRITE_ONLY 0 ack");
}

TEST_F(PacketRequesterTest, SendsUpToTheDoorbellNotTheRecord) {
  Connect();
  a.Post(Write(8));
  EXPECT_EQ(DescribeSent(), "");
  a.qp().doorbell_pending = true;
  EXPECT_EQ(DescribeSent(), "WRITE_ONLY 0 ack");
}

class UnreliableRequesterTest : public PacketRequesterTest {
 protected:
  UnreliableRequesterTest() : PacketRequesterTest(mlx5::ServiceType::kUc) {}
};

TEST_F(UnreliableRequesterTest, MessagesCompleteWhenTheirLastPacketIsSent) {
  Connect();
  Post(Write(2 * kMtu));
  Post(Send(8));
  EXPECT_EQ(DescribeSent(), "UC_WRITE_FIRST 0, UC_WRITE_LAST 1, UC_SEND_ONLY 2");
  EXPECT_EQ(Completed(), 0);
  EXPECT_EQ(Completed(), 1);
  EXPECT_EQ(requester.NextNs(), UINT64_MAX);
}

TEST_F(UnreliableRequesterTest, LongMessagesTakeTurns) {
  Connect();
  Post(Write(1 << 20));
  EXPECT_TRUE(requester.Run(now_ns));
  EXPECT_LT(sink.sent.size(), 200u);
  EXPECT_EQ(Completed(), -1);
  Run();
  EXPECT_EQ(sink.sent.size(), (1u << 20) / kMtu);
  EXPECT_EQ(Completed(), 0);
}

TEST_F(UnreliableRequesterTest, RefusesReadsAndAtomics) {
  for (const WqeBuilder& wqe : {Read(8), FetchAdd(1)}) {
    Connect();
    PacketRequester fresh(a.qp(), sink);
    Post(wqe);
    fresh.Run(now_ns);
    EXPECT_EQ(Failed(), Syndrome::kLocalQpOperation);
    a.Reset();
  }
  EXPECT_TRUE(sink.sent.empty());
}

TEST_F(UnreliableRequesterTest, ExpectsNoAnswers) {
  Connect();
  Post(Write(8));
  Run();
  Acknowledge(0, aeth::kNakRemoteAccess);
  EXPECT_EQ(Completed(), 0);
  EXPECT_EQ(a.qp().state, QpState::kRts);
}

}  // namespace
}  // namespace softhca
