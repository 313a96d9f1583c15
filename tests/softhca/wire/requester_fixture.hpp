#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/queues.hpp"
#include "wire/packet_recorder.hpp"
#include "wire/packet_requester.hpp"

namespace softhca {

inline constexpr uint32_t kMtu = 1024;
inline constexpr uint32_t kFirstPsn = 0xfffffe;  // makes sequence numbers wrap in every test
inline constexpr uint64_t kAckTimeoutNs = uint64_t{4096} << 14;

constexpr uint32_t PsnOf(uint32_t number) { return (kFirstPsn + number) & 0xffffff; }

/// A queue pair whose peer is the test, which sees every packet and decides about its answer.
class PacketRequesterTest : public testing::Test {
 protected:
  explicit PacketRequesterTest(mlx5::ServiceType service = mlx5::ServiceType::kRc)
      : a(hca, pd, {.service = service, .send_depth = 512, .log_cq_depth = 9, .cd_master = true}) {
    std::iota(local.memory.begin(), local.memory.end(), uint8_t{0});
  }

  void Connect(QpChange change = {}) {
    change.send_psn = kFirstPsn;
    change.remote_qpn = 0x77;
    a.Connect(a, change);
  }
  void Post(const WqeBuilder& wqe) {
    a.Post(wqe);
    a.qp().doorbell_pending = true;
  }
  WqeBuilder Write(uint32_t bytes) const {
    return WqeBuilder(mlx5::WqeOpcode::kRdmaWrite)
        .Remote(0x10000, 0x55)
        .Data(local.Address(), bytes, local.key);
  }
  WqeBuilder Send(uint32_t bytes) const {
    return WqeBuilder(mlx5::WqeOpcode::kSend).Data(local.Address(), bytes, local.key);
  }
  WqeBuilder Read(uint32_t bytes, size_t offset = 0) const {
    return WqeBuilder(mlx5::WqeOpcode::kRdmaRead)
        .Remote(0x10000, 0x55)
        .Data(local.Address(offset), bytes, local.key);
  }
  WqeBuilder FetchAdd(uint64_t add) const {
    return WqeBuilder(mlx5::WqeOpcode::kAtomicFa)
        .Remote(0x10000, 0x55)
        .Add(mlx5::AtomicSegment{mlx5::ToBe64(add), {}})
        .Data(local.Address(), 8, local.key);
  }
  void Run() {
    while (requester.Run(now_ns)) {
    }
  }
  /// Runs, and returns the packets sent.
  std::vector<SentPacket> Sent() {
    Run();
    std::vector<SentPacket> packets;
    while (!sink.sent.empty()) packets.push_back(sink.Take());
    for (SentPacket& packet : packets) packet.packet.payload = packet.payload;
    return packets;
  }
  /// Describes the packets sent, numbered from the first: "WRITE_FIRST 0, WRITE_LAST 1 ack".
  std::string DescribeSent() {
    std::string text;
    for (const SentPacket& sent : Sent()) {
      if (!text.empty()) text += ", ";
      text += ToString(sent.packet.service, sent.packet.op);
      text += " " + std::to_string((sent.packet.psn - kFirstPsn) & 0xffffff);
      if (sent.packet.ack_request) text += " ack";
    }
    return text;
  }
  void Acknowledge(uint32_t number, uint8_t syndrome = aeth::kNoCredits) {
    Packet packet;
    packet.op = PacketOp::kAcknowledge;
    packet.psn = PsnOf(number);
    packet.ack = {syndrome, 0};
    requester.OnResponse(packet, now_ns);
  }
  void Respond(PacketOp op, uint32_t number, const std::vector<uint8_t>& payload) {
    Packet packet;
    packet.op = op;
    packet.psn = PsnOf(number);
    packet.payload = payload;
    requester.OnResponse(packet, now_ns);
  }
  void RespondToAtomic(uint32_t number, uint64_t original) {
    Packet packet;
    packet.op = PacketOp::kAtomicAcknowledge;
    packet.psn = PsnOf(number);
    packet.original = original;
    requester.OnResponse(packet, now_ns);
  }
  /// Returns the index of the next completion, which must be a success; or -1 without one.
  int Completed() {
    const std::optional<Cqe> cqe = a.send_cq.Poll();
    if (!cqe) return -1;
    EXPECT_EQ(cqe->opcode, mlx5::CqeOpcode::kRequester) << mlx5::Describe(cqe->syndrome);
    return cqe->wqe_index;
  }
  mlx5::Syndrome Failed() {
    const std::optional<Cqe> cqe = a.send_cq.Poll();
    EXPECT_TRUE(cqe && cqe->opcode == mlx5::CqeOpcode::kRequesterError);
    EXPECT_EQ(a.qp().state, mlx5::QpState::kError);
    return cqe ? cqe->syndrome : mlx5::Syndrome::kNone;
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

}  // namespace softhca
