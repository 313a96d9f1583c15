// Posts what Linux's rdma_rxe was asked to send, and replays the captured answers. The packets sent must be
// the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "captures/capture.hpp"
#include "core/packets.hpp"
#include "core/queues.hpp"
#include "wire/frames.hpp"
#include "wire/packet_recorder.hpp"
#include "wire/packet_requester.hpp"

namespace softhca {
namespace {

using mlx5::CqeOpcode;
using mlx5::Syndrome;
using mlx5::ToBe64;
using mlx5::WqeOpcode;

constexpr size_t kMemoryBytes = 256 << 10;
constexpr size_t kLanding = kMemoryBytes / 2;  ///< results of reads and atomics
constexpr size_t kLandingBytes = 16 << 10;     ///< for each result

/// Packets that rdma_rxe sent and this requester does not, by frame number from 1.
const std::map<std::string, std::set<size_t>> kNotSent = {
    // The second NAK names the packet after this one, and so acknowledges this one (IBTA 1.4, 9.7.5.1.2).
    {"reorder_write", {8}},
};

/// Packets whose payload rdma_rxe read after the result of an earlier read or atomic had overwritten it. Here
/// results land elsewhere.
const std::map<std::string, size_t> kPayloadOverwritten = {{"mixed_pipeline", 14}};

/// Long messages with more requests for acknowledgement than rdma_rxe makes. The requester is free to do so
/// (IBTA 1.4, 9.7.5.1.1).
const std::set<std::string> kAsksMore = {"write_64k"};

/// Excludes datagrams, which have no connection, and sends with invalidate, which are refused as WQEs.
bool IsReplayed(const std::string& name) { return name != "ud_send" && name != "send_inv"; }

/// A message that a client posted, derived from its packets.
struct PostedMessage {
  Packet first;
  mlx5::Be32 imm{};
  bool solicited = false;
  uint32_t bytes = 0;
};

std::vector<PostedMessage> MessagesOf(const Capture& capture) {
  std::vector<PostedMessage> messages;
  uint32_t next_psn = capture.client.psn;
  for (const CapturedFrame& frame : capture.frames) {
    if (!frame.to_server) continue;
    const Packet packet = *DecodeFrame(frame.bytes);
    if (packet.psn != next_psn) continue;  // a retransmission
    const auto mtu = static_cast<mlx5::Mtu>(std::countr_zero(capture.path_mtu) - 7);
    const bool read = packet.op == PacketOp::kReadRequest;
    next_psn = AddPsn(next_psn, read ? PacketCount(packet.memory.bytes, mtu) : 1);
    if (!IsMiddle(packet.op) && !IsLast(packet.op)) messages.push_back({.first = packet});
    PostedMessage& message = messages.back();
    message.bytes += static_cast<uint32_t>(read ? packet.memory.bytes : packet.payload.size());
    message.imm = packet.imm;
    message.solicited |= packet.solicited;
  }
  return messages;
}

class RequesterReplayTest : public testing::TestWithParam<std::string> {
 protected:
  RequesterReplayTest()
      : a(hca, pd,
          {.service = GetParam().starts_with("uc_") ? mlx5::ServiceType::kUc : mlx5::ServiceType::kRc,
           .send_depth = 64}) {
    key = hca.RegisterMemory({.pdn = pd,
                              .access = kAllAccess,
                              .iova = capture.client.address,
                              .memory = memory.data(),
                              .bytes = memory.size()});
    a.Connect(a, {.mtu = static_cast<mlx5::Mtu>(std::countr_zero(capture.path_mtu) - 7),
                  .remote_qpn = capture.server.qpn,
                  .send_psn = capture.client.psn,
                  .ack_timeout = capture.timeout,
                  .retry_count = capture.retry_count,
                  .rnr_retry = capture.rnr_retry});
  }

  void Post(const PostedMessage& message, size_t number) {
    const bool send = message.first.op <= PacketOp::kSendOnlyImm;
    const bool atomic = HasAtomicHeader(message.first);
    const bool read = message.first.op == PacketOp::kReadRequest;
    WqeBuilder wqe(OpcodeOf(message));
    if (atomic) {
      const AtomicHeader& header = message.first.atomic;
      wqe.Remote(header.address, header.rkey);
      wqe.Add(mlx5::AtomicSegment{ToBe64(header.swap_add), ToBe64(header.compare)});
    } else if (!send) {
      wqe.Remote(message.first.memory.address, message.first.memory.rkey);
    }
    const uint64_t offset = read || atomic ? kLanding + number * kLandingBytes : 0;
    const uint32_t bytes = atomic ? 8 : message.bytes;
    if (bytes != 0) wqe.Data(capture.client.address + offset, bytes, key);
    a.Post(wqe.Imm(message.imm).Flags(mlx5::kCqeAlways | (message.solicited ? mlx5::kSolicited : 0)));
    a.qp().doorbell_pending = true;
  }
  /// Uses the first packet alone: that of a message with immediate data looks like any other.
  WqeOpcode OpcodeOf(const PostedMessage& message) const {
    const bool imm = message.imm != mlx5::Be32{};
    switch (message.first.op) {
      case PacketOp::kReadRequest:
        return WqeOpcode::kRdmaRead;
      case PacketOp::kCompareSwap:
        return WqeOpcode::kAtomicCs;
      case PacketOp::kFetchAdd:
        return WqeOpcode::kAtomicFa;
      default:
        if (message.first.op <= PacketOp::kSendOnlyImm) return imm ? WqeOpcode::kSendImm : WqeOpcode::kSend;
        return imm ? WqeOpcode::kRdmaWriteImm : WqeOpcode::kRdmaWrite;
    }
  }

  void Run() {
    while (requester.Run(now_ns)) {
    }
  }
  /// Expects the next packet, after a timeout if necessary.
  void ExpectNext(const Packet& expected, bool other_payload) {
    Run();
    if (sink.sent.empty() && requester.NextNs() != UINT64_MAX) {
      now_ns = requester.NextNs();
      Run();
    }
    ASSERT_FALSE(sink.sent.empty());
    const SentPacket sent = sink.Take();
    const Packet& packet = sent.packet;
    EXPECT_STREQ(ToString(packet.service, packet.op), ToString(expected.service, expected.op));
    EXPECT_EQ(packet.psn, expected.psn);
    EXPECT_EQ(packet.dest_qpn, expected.dest_qpn);
    EXPECT_EQ(packet.pkey, expected.pkey);
    EXPECT_EQ(packet.solicited, expected.solicited);
    EXPECT_TRUE(packet.ack_request == expected.ack_request || kAsksMore.contains(capture.name));
    if (HasImmediate(expected)) {
      EXPECT_EQ(packet.imm, expected.imm);
    }
    if (HasMemoryHeader(expected)) {
      EXPECT_EQ(packet.memory.address, expected.memory.address);
      EXPECT_EQ(packet.memory.rkey, expected.memory.rkey);
      EXPECT_EQ(packet.memory.bytes, expected.memory.bytes);
    }
    if (HasAtomicHeader(expected)) {
      EXPECT_EQ(packet.atomic.address, expected.atomic.address);
      EXPECT_EQ(packet.atomic.rkey, expected.atomic.rkey);
      EXPECT_EQ(packet.atomic.swap_add, expected.atomic.swap_add);
      EXPECT_EQ(packet.atomic.compare, expected.atomic.compare);
    }
    const bool same = std::equal(sent.payload.begin(), sent.payload.end(), expected.payload.begin(),
                                 expected.payload.end());
    EXPECT_NE(same, other_payload) << "the payload";
  }
  void Receive(const CapturedFrame& frame) {
    const Packet packet = *DecodeFrame(frame.bytes);
    if (packet.op == PacketOp::kAcknowledge && packet.ack.syndrome > aeth::kNakPsnSequence) {
      failure = packet.ack.syndrome == aeth::kNakInvalidRequest ? Syndrome::kRemoteInvalidRequest
                : packet.ack.syndrome == aeth::kNakRemoteAccess ? Syndrome::kRemoteAccess
                                                                : Syndrome::kRemoteOperation;
    }
    for (int i = frame.fate == Fate::kDuplicate ? 2 : 1; i > 0; --i) requester.OnResponse(packet, now_ns);
  }
  /// Compares the result of a read or atomic with the captured responses.
  void CheckLanding(const PostedMessage& message, size_t number) {
    std::vector<uint8_t> expected(message.bytes);
    for (const CapturedFrame& frame : Received(capture, false)) {
      const Packet packet = *DecodeFrame(frame.bytes);
      const int32_t behind = PsnDelta(packet.psn, message.first.psn);
      if (frame.to_server || behind < 0) continue;
      if (packet.op == PacketOp::kAtomicAcknowledge && behind == 0) {
        expected.resize(8);
        std::memcpy(expected.data(), &packet.original, 8);
      }
      const size_t offset = static_cast<size_t>(behind) * capture.path_mtu;
      if (HasPayload(packet) && offset + packet.payload.size() <= expected.size()) {
        std::copy(packet.payload.begin(), packet.payload.end(),
                  expected.begin() + static_cast<ptrdiff_t>(offset));
      }
    }
    EXPECT_TRUE(
        std::equal(expected.begin(), expected.end(), memory.begin() + kLanding + number * kLandingBytes));
  }

  uint64_t now_ns = 1'000'000'000;
  Capture capture = ReadCapture(GetParam());
  Hca hca{TestDevice()};
  uint32_t pd = hca.AllocPd();
  std::vector<uint8_t> memory = InitialBytes(capture.seed, kMemoryBytes);
  uint32_t key = 0;
  QpUser a;
  PacketRecorder sink;
  PacketRequester requester{a.qp(), sink};
  Syndrome failure = Syndrome::kNone;  ///< error that ends the connection
};

TEST_P(RequesterReplayTest, SendsWhatLinuxSent) {
  const std::vector<PostedMessage> messages = MessagesOf(capture);
  ASSERT_FALSE(messages.empty());
  for (size_t i = 0; i < messages.size(); ++i) Post(messages[i], i);
  const auto not_sent = kNotSent.find(capture.name);
  for (size_t i = 0; i < capture.frames.size(); ++i) {
    SCOPED_TRACE("frame " + std::to_string(i + 1));
    const CapturedFrame& frame = capture.frames[i];
    if (frame.to_server) {
      if (not_sent != kNotSent.end() && not_sent->second.contains(i + 1)) continue;
      const bool overwritten =
          kPayloadOverwritten.contains(capture.name) && kPayloadOverwritten.at(capture.name) == i + 1;
      ExpectNext(*DecodeFrame(frame.bytes), overwritten || frame.fate == Fate::kCorrupt);
      if (HasFatalFailure()) return;
    } else if (frame.fate != Fate::kDrop) {
      Receive(frame);
    }
  }
  if (capture.name == "retry_exceeded") {
    failure = Syndrome::kTransportRetryExceeded;
    now_ns = requester.NextNs();
  }
  if (capture.name == "rnr_nak_exhausted") failure = Syndrome::kReceiverNotReadyRetryExceeded;
  Run();
  EXPECT_TRUE(sink.sent.empty()) << "more than Linux sent";
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto cqe = a.send_cq.Poll();
    ASSERT_TRUE(cqe) << "message " << i;
    EXPECT_EQ(cqe->opcode, failure == Syndrome::kNone ? CqeOpcode::kRequester : CqeOpcode::kRequesterError);
    EXPECT_EQ(cqe->syndrome, failure);
    const bool fetched = messages[i].first.op == PacketOp::kReadRequest || HasAtomicHeader(messages[i].first);
    if (fetched && failure == Syndrome::kNone) CheckLanding(messages[i], i);
  }
}

std::vector<std::string> ReplayedNames() {
  std::vector<std::string> names = CaptureNames();
  std::erase_if(names, [](const std::string& name) { return !IsReplayed(name); });
  return names;
}

INSTANTIATE_TEST_SUITE_P(Captures, RequesterReplayTest, testing::ValuesIn(ReplayedNames()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace softhca
