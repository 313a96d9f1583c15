#include "wire/datagrams.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "core/queues.hpp"

namespace softhca {
namespace {

using mlx5::CqeL3Header;
using mlx5::CqeOpcode;
using mlx5::QpState;
using mlx5::Syndrome;
using mlx5::ToBe32;
using mlx5::WqeOpcode;

constexpr uint32_t kReceiverQkey = 0x11111111;
constexpr uint32_t kSourceQpn = 0x654321;

/// Records sent datagrams.
class Recorder : public DatagramSink {
 public:
  struct Sent {
    Destination to;
    Packet packet;
    std::string payload;
  };
  bool SendDatagram(const QueuePair&, const Destination& to, Packet packet, const Gather& payload) override {
    std::string text;
    for (const Bytes& piece : payload.pieces) text.append(piece.begin(), piece.end());
    EXPECT_EQ(payload.offset, 0u);
    EXPECT_EQ(payload.bytes, text.size());
    sent.push_back({to, packet, text});
    return true;
  }
  std::vector<Sent> sent;
};

class DatagramTest : public testing::Test {
 protected:
  DatagramTest() {
    QpChange change = ToInit();
    change.qkey = kReceiverQkey;
    hca.ModifyQp(user.qpn, QpState::kInit, change);
    hca.ModifyQp(user.qpn, QpState::kRtr, {});
    hca.ModifyQp(user.qpn, QpState::kRts, {.send_psn = 0xffffff});
  }

  static mlx5::DatagramSegment Address() {
    mlx5::DatagramSegment to{};
    to.qkey = ToBe32(kReceiverQkey);
    to.dest_qpn = ToBe32(mlx5::kExtendedAddress | 0x123456);
    to.gid[15] = 9;
    return to;
  }
  static mlx5::DataSegment Piece(const Region& region, size_t offset, uint32_t bytes) {
    return {ToBe32(bytes), ToBe32(region.key), mlx5::ToBe64(region.Address(offset))};
  }
  /// Delivers a datagram over IPv4 from queue pair kSourceQpn.
  void Arrive(const std::string& payload, uint32_t qkey = kReceiverQkey) {
    Packet packet;
    packet.service = PacketService::kUd;
    packet.op = PacketOp::kSendOnly;
    Arrive(packet, payload, qkey);
  }
  void Arrive(Packet packet, const std::string& payload, uint32_t qkey = kReceiverQkey) {
    packet.payload = {reinterpret_cast<const uint8_t*>(payload.data()), payload.size()};
    packet.datagram = {.qkey = qkey, .source_qpn = kSourceQpn};
    OnDatagram(user.qp(), packet, frame);
  }
  std::string Received(size_t offset, size_t bytes) const {
    const auto first = memory.memory.begin() + static_cast<ptrdiff_t>(offset);
    return {first, first + static_cast<ptrdiff_t>(bytes)};
  }

  Hca hca{TestDevice()};
  uint32_t pd = hca.AllocPd();
  Region memory{hca, pd, 8192};
  QpUser user{hca, pd, {.service = mlx5::ServiceType::kUd, .user_index = 77}};
  Recorder sink;
  std::vector<uint8_t> ip = std::vector<uint8_t>(20, 0x45);
  Frame frame{.flow = {}, .transport = {}, .ip = ip};
};

TEST_F(DatagramTest, CarriesTheFieldsOfItsWqeAndCompletesWhenSent) {
  user.Post(WqeBuilder(WqeOpcode::kSend).To(Address()).Inline("first"));
  user.Post(WqeBuilder(WqeOpcode::kSendImm)
                .To(Address())
                .Imm(ToBe32(55))
                .Flags(mlx5::kSolicited)
                .Data(memory.Address(), 3, memory.key));
  EXPECT_TRUE(SendDatagrams(user.qp(), sink));
  ASSERT_EQ(sink.sent.size(), 2u);
  const auto& [to, first, payload] = sink.sent[0];
  EXPECT_EQ(to.path.remote_gid[15], 9);
  EXPECT_EQ(first.service, PacketService::kUd);
  EXPECT_EQ(first.op, PacketOp::kSendOnly);
  EXPECT_EQ(first.dest_qpn, 0x123456u);
  EXPECT_EQ(first.psn, 0xffffffu);
  EXPECT_EQ(first.datagram.qkey, kReceiverQkey);
  EXPECT_EQ(first.datagram.source_qpn, user.qpn);
  EXPECT_FALSE(first.solicited);
  EXPECT_EQ(payload, "first");
  const Packet& second = sink.sent[1].packet;
  EXPECT_EQ(second.op, PacketOp::kSendOnlyImm);
  EXPECT_EQ(second.imm, ToBe32(55));
  EXPECT_EQ(second.psn, 0u);
  EXPECT_TRUE(second.solicited);
  const std::optional<Cqe> cqe = user.send_cq.Poll();  // the second WQE is not signalled
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->opcode, CqeOpcode::kRequester);
  EXPECT_FALSE(user.send_cq.Poll().has_value());
  EXPECT_FALSE(SendDatagrams(user.qp(), sink));
}

TEST_F(DatagramTest, FailsUnsentWhenLongerThanAPacket) {
  user.Post(WqeBuilder(WqeOpcode::kSend).To(Address()).Data(memory.Address(), 4097, memory.key));
  EXPECT_TRUE(SendDatagrams(user.qp(), sink));
  EXPECT_TRUE(sink.sent.empty());
  const std::optional<Cqe> cqe = user.send_cq.Poll();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->syndrome, Syndrome::kLocalLength);
}

TEST_F(DatagramTest, WaitsWhileTheQueuePairIsPaused) {
  user.Post(WqeBuilder(WqeOpcode::kSend).To(Address()).Inline("held"));
  user.qp().paused = true;
  EXPECT_FALSE(SendDatagrams(user.qp(), sink));
  user.qp().paused = false;
  EXPECT_TRUE(SendDatagrams(user.qp(), sink));
  EXPECT_EQ(sink.sent.size(), 1u);
}

TEST_F(DatagramTest, ArrivesBehindItsHeader) {
  user.PostReceive({Piece(memory, 0, 30), Piece(memory, 100, 100)});
  std::iota(ip.begin(), ip.end(), uint8_t{0x45});
  frame.flow.source[10] = frame.flow.source[11] = 0xff;  // IPv4-mapped
  Packet packet;
  packet.service = PacketService::kUd;
  packet.op = PacketOp::kSendOnlyImm;
  packet.imm = ToBe32(66);
  packet.solicited = true;
  Arrive(packet, "payload");
  const std::optional<Cqe> cqe = user.receive_cq.Poll();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->opcode, CqeOpcode::kResponderSendImm);
  EXPECT_EQ(cqe->bytes, 47u);
  EXPECT_EQ(cqe->imm, ToBe32(66));
  EXPECT_TRUE(cqe->solicited);
  EXPECT_EQ(cqe->remote_qpn, kSourceQpn);
  EXPECT_EQ(cqe->user_index, 77u);
  EXPECT_EQ(cqe->l3_header, CqeL3Header::kIpv4);
  EXPECT_EQ(Received(20, 10) + Received(100, 10), std::string(ip.begin(), ip.end()));
  EXPECT_EQ(Received(110, 7), "payload");
}

TEST_F(DatagramTest, ReportsTheKindOfItsHeader) {
  ip.assign(40, 0x60);
  frame.ip = ip;
  user.PostReceive({Piece(memory, 0, 100)});
  user.PostReceive({Piece(memory, 100, 100)});
  Arrive("v2");
  frame.flow.version = mlx5::RoceVersion::kV1;
  Arrive("v1");
  EXPECT_EQ(user.receive_cq.Poll().value().l3_header, CqeL3Header::kIpv6);
  EXPECT_EQ(user.receive_cq.Poll().value().l3_header, CqeL3Header::kGrh);
  EXPECT_EQ(Received(0, 40), std::string(40, 0x60));
  EXPECT_EQ(Received(40, 2), "v2");
  EXPECT_EQ(Received(100, 40), std::string(40, 0x60));
  EXPECT_EQ(Received(140, 2), "v1");
}

TEST_F(DatagramTest, IsDroppedSilentlyWithAnotherQkey) {
  user.PostReceive({Piece(memory, 0, 100)});
  Arrive("wrong", kReceiverQkey + 1);
  EXPECT_FALSE(user.receive_cq.Poll().has_value());
  Arrive("right");
  EXPECT_EQ(user.receive_cq.Poll().value().bytes, 45u);
  EXPECT_EQ(Received(40, 5), "right");
}

TEST_F(DatagramTest, IsDroppedSilentlyWithoutAReceive) {
  Arrive("early");
  EXPECT_EQ(user.qp().state, QpState::kRts);
  user.PostReceive({Piece(memory, 0, 100)});
  EXPECT_FALSE(user.receive_cq.Poll().has_value());
}

TEST_F(DatagramTest, LeavesTheReceiveToTheNextWhenItDoesNotFit) {
  user.PostReceive({Piece(memory, 0, 44)});
  user.PostReceive({Piece(memory, 100, 100)});
  Arrive("seven b");
  EXPECT_FALSE(user.receive_cq.Poll().has_value());
  Arrive("four");
  const std::optional<Cqe> cqe = user.receive_cq.Poll();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->wqe_index, 0);
  EXPECT_EQ(Received(40, 4), "four");
}

TEST_F(DatagramTest, FailsAReceiveWithAWrongKey) {
  user.PostReceive({{ToBe32(100), ToBe32(memory.key + 1), mlx5::ToBe64(memory.Address())}});
  Arrive("lost");
  const std::optional<Cqe> cqe = user.receive_cq.Poll();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->syndrome, Syndrome::kLocalProtection);
  EXPECT_EQ(user.qp().state, QpState::kError);
}

TEST_F(DatagramTest, IsIgnoredByAQueuePairInError) {
  user.PostReceive({Piece(memory, 0, 100)});
  hca.ModifyQp(user.qpn, QpState::kError, {});
  Arrive("late");
  EXPECT_FALSE(user.receive_cq.Poll().has_value());
}

TEST_F(DatagramTest, IsTheOnlyKindOfPacketAccepted) {
  user.PostReceive({Piece(memory, 0, 100)});
  Packet packet;
  packet.service = PacketService::kRc;
  Arrive(packet, "connected");
  EXPECT_FALSE(user.receive_cq.Poll().has_value());
}

}  // namespace
}  // namespace softhca
