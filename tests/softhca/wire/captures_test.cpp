#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "captures/capture.hpp"
#include "wire/frames.hpp"

namespace softhca {
namespace {

using testing::ElementsAreArray;

uint8_t OpcodeIn(const FrameBytes& frame) { return ParseFrame(frame)->transport[0]; }

/// Encodes a frame again from its decoded fields.
FrameBytes EncodeAgain(const FrameBytes& frame) {
  const std::optional<Packet> packet = DecodeFrame(frame);
  return MakeFrame(ParseFrame(frame)->flow, *packet, packet->payload);
}

/// Calls `check` with each frame of each conversation.
template <class Check>
void ForEachFrame(Check check) {
  for (const std::string& name : CaptureNames()) {
    const Capture capture = ReadCapture(name);
    for (const CapturedFrame& frame : capture.frames) {
      SCOPED_TRACE(name + ", frame " + std::to_string(&frame - capture.frames.data() + 1));
      check(capture, frame);
    }
  }
}

TEST(CapturedFrame, ReencodesToTheSameBits) {
  ForEachFrame([](const Capture&, const CapturedFrame& frame) {
    ASSERT_TRUE(DecodeFrame(frame.bytes));
    if (frame.fate == Fate::kCorrupt) return;
    EXPECT_EQ(EncodeAgain(frame.bytes), frame.bytes);
  });
}

TEST(CapturedFrame, HasACorrectIcrcUnlessCorrupted) {
  ForEachFrame([](const Capture&, const CapturedFrame& frame) {
    ASSERT_TRUE(ParseFrame(frame.bytes));
    EXPECT_EQ(IsSealed(*ParseFrame(frame.bytes)), frame.fate != Fate::kCorrupt);
  });
}

TEST(CapturedFrame, DecodesAsItsDescriptionSays) {
  ForEachFrame([](const Capture& capture, const CapturedFrame& frame) {
    const Packet packet = *DecodeFrame(frame.bytes);
    const Flow flow = ParseFrame(frame.bytes)->flow;
    EXPECT_EQ(OpcodeIn(frame.bytes), frame.opcode);
    EXPECT_EQ(packet.psn, frame.psn);
    EXPECT_EQ(packet.dest_qpn, frame.to_server ? capture.server.qpn : capture.client.qpn);
    EXPECT_EQ(IsRequest(packet), frame.to_server);
    EXPECT_EQ(flow.source.back(), frame.to_server ? 2 : 1);
    EXPECT_EQ(flow.destination.back(), frame.to_server ? 1 : 2);
  });
}

TEST(CapturedFrame, ShowsSenderAndQkeyOfADatagram) {
  const Capture capture = ReadCapture("ud_send");
  const Packet packet = *DecodeFrame(capture.frames[0].bytes);
  EXPECT_EQ(packet.service, PacketService::kUd);
  EXPECT_EQ(packet.datagram.qkey, 0x11111111u);
  EXPECT_EQ(packet.datagram.source_qpn, capture.client.qpn);
}

TEST(CaptureSet, IsComplete) {
  size_t frames = 0;
  for (const std::string& name : CaptureNames()) frames += ReadCapture(name).frames.size();
  EXPECT_EQ(CaptureNames().size(), 66u);
  EXPECT_EQ(frames, 369u);
}

TEST(CapturedFrame, ShowsTheTargetOfAMemoryRequest) {
  const Capture capture = ReadCapture("write_imm_only");
  const Packet packet = *DecodeFrame(capture.frames[0].bytes);
  EXPECT_EQ(packet.memory.address, 0x2000001000u);
  EXPECT_EQ(packet.memory.rkey, capture.server.rkey);
  EXPECT_EQ(packet.memory.bytes, 32u);
  EXPECT_EQ(FromBe(packet.imm), 0xdeadbeefu);
  EXPECT_TRUE(packet.ack_request);
  EXPECT_FALSE(packet.migrated);
  EXPECT_THAT(packet.payload, ElementsAreArray(InitialBytes(capture.seed, 32)));
}

TEST(CapturedFrame, ShowsOperandsAndResultOfAnAtomic) {
  const Capture capture = ReadCapture("atomic_cmp_swap_ok");
  const Packet request = *DecodeFrame(capture.frames[0].bytes),
               answer = *DecodeFrame(capture.frames[1].bytes);
  EXPECT_EQ(request.atomic.address, 0x2000000040u);
  EXPECT_EQ(request.atomic.rkey, capture.server.rkey);
  EXPECT_EQ(request.atomic.swap_add, 0x0123456789abcdefu);
  EXPECT_EQ(request.atomic.compare, 0xa5a5a5a55a5a5a5au);
  EXPECT_EQ(answer.original, 0xa5a5a5a55a5a5a5au);
  EXPECT_EQ(answer.ack.msn, 1u);
}

TEST(CapturedFrame, ShowsTheKeyThatASendInvalidates) {
  const Packet packet = *DecodeFrame(ReadCapture("send_inv").frames[2].bytes);
  EXPECT_EQ(packet.op, PacketOp::kSendOnlyInvalidate);
  EXPECT_EQ(packet.invalidate_rkey, 0x80001c3u);
}

TEST(CapturedFrame, ShowsTheSyndromesOfNaks) {
  const auto last_syndrome = [](const char* name) {
    return DecodeFrame(ReadCapture(name).frames.back().bytes)->ack.syndrome;
  };
  EXPECT_EQ(last_syndrome("nak_qp_no_remote_write"), aeth::kNakInvalidRequest);
  EXPECT_EQ(last_syndrome("nak_bad_rkey"), aeth::kNakRemoteAccess);
  EXPECT_EQ(last_syndrome("nak_send_too_long"), aeth::kNakRemoteOperation);
  EXPECT_EQ(last_syndrome("rnr_nak_exhausted"), aeth::kRnrNak | 18);
}

TEST(CapturedFrame, ShowsTrafficClassAndNetwork) {
  EXPECT_EQ(ParseFrame(ReadCapture("write_tclass").frames[0].bytes)->flow.traffic_class, 0x68);
  const Flow flow = ParseFrame(ReadCapture("write_ipv6_tclass").frames[0].bytes)->flow;
  EXPECT_EQ(flow.traffic_class, 0x68);
  EXPECT_EQ(flow.source, (Gid{0xfd, 0, 0, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}));
}

TEST(CapturedFrame, ArrivesWithTheFaultsOfItsCapture) {
  const auto psns = [](const char* name) {
    std::vector<uint32_t> received;
    for (const CapturedFrame& frame : Received(ReadCapture(name), true)) received.push_back(frame.psn);
    return received;
  };
  EXPECT_THAT(psns("retry_exceeded"), ElementsAreArray(std::vector<uint32_t>{}));
  EXPECT_THAT(psns("dup_send"), ElementsAreArray({0x100, 0x100}));
  EXPECT_THAT(psns("reorder_write"),
              ElementsAreArray({0x100, 0x102, 0x101, 0x103, 0x104, 0x101, 0x102, 0x103, 0x104}));
}

/// A conversation between a peer in user space and rdma_rxe.
class HostPeerTest : public testing::TestWithParam<const char*> {
 protected:
  /// @param number  counts from 1, as in tshark
  Packet PacketOf(size_t number) const { return *DecodeFrame(frames.at(number - 1)); }
  static bool FromHost(const FrameBytes& frame) { return ParseFrame(frame)->flow.source.back() == 2; }

  const std::vector<FrameBytes> frames = ReadPcap(GetParam());
};

TEST_P(HostPeerTest, ReencodesToTheSameBits) {
  constexpr ptrdiff_t kUdpChecksum = 14 + 20 + 6;  // filled in by the host's interface after the capture
  for (const FrameBytes& frame : frames) {
    ASSERT_TRUE(ParseFrame(frame));
    if (OpcodeIn(frame) == 0x1f || !IsSealed(*ParseFrame(frame))) continue;
    FrameBytes again = EncodeAgain(frame);
    if (FromHost(frame)) std::copy_n(frame.begin() + kUdpChecksum, 2, again.begin() + kUdpChecksum);
    EXPECT_EQ(again, frame);
  }
}

TEST_P(HostPeerTest, HasOneFrameWithAWrongIcrc) {
  std::vector<size_t> wrong;
  for (size_t i = 0; i < frames.size(); ++i) {
    if (!IsSealed(*ParseFrame(frames[i]))) wrong.push_back(i + 1);
  }
  EXPECT_THAT(wrong, ElementsAreArray({28}));
}

TEST_P(HostPeerTest, DecodesMalformedRequestsUncorrected) {
  EXPECT_EQ(PacketOf(33).op, PacketOp::kFetchAdd);
  EXPECT_EQ(PacketOf(33).atomic.address % 8, 4u);
  EXPECT_EQ(PacketOf(35).op, PacketOp::kWriteMiddle);
  EXPECT_EQ(PacketOf(35).psn, 0xabcu);
  EXPECT_EQ(PacketOf(37).memory.bytes, 4u);
  EXPECT_EQ(PacketOf(37).payload.size(), 8u);
  EXPECT_EQ(PacketOf(39).memory.bytes, 64u);
  EXPECT_EQ(PacketOf(39).payload.size(), 8u);
  for (const size_t answer : {34, 36, 38, 40}) {
    EXPECT_EQ(PacketOf(answer).ack.syndrome, aeth::kNakInvalidRequest);
  }
}

TEST_P(HostPeerTest, RefusesAReservedOpcode) {
  ASSERT_EQ(OpcodeIn(frames.at(40)), 0x1f);
  EXPECT_FALSE(DecodeFrame(frames.at(40)));
}

INSTANTIATE_TEST_SUITE_P(, HostPeerTest, testing::Values("host_peer_qemu.pcap", "host_peer_uml.pcap"),
                         [](const auto& test) { return std::string(test.param, strlen(test.param) - 5); });

}  // namespace
}  // namespace softhca
