#include "wire/packet.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace softhca {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

/// Returns headers and padded payload as the wire has them.
std::vector<uint8_t> Encode(const Packet& packet, size_t payload_bytes = 0) {
  std::vector<uint8_t> bytes(kMaxPacketHeaderBytes);
  bytes.resize(EncodeHeaders(packet, payload_bytes, bytes));
  const size_t payload_at = bytes.size();
  bytes.resize(payload_at + payload_bytes + PadBytes(payload_bytes));
  std::iota(bytes.begin() + static_cast<ptrdiff_t>(payload_at), bytes.end(), uint8_t{1});
  return bytes;
}

std::vector<uint8_t> Opcode(uint8_t opcode, size_t bytes) {
  std::vector<uint8_t> packet(bytes);
  packet[0] = opcode;
  return packet;
}

/// Returns a packet of every opcode, as long as its headers.
std::vector<std::vector<uint8_t>> ShortestPackets() {
  std::vector<std::vector<uint8_t>> packets;
  for (uint32_t opcode = 0; opcode < 256; ++opcode) {
    for (size_t bytes = 12; bytes <= kMaxPacketHeaderBytes; bytes += 4) {
      packets.push_back(Opcode(static_cast<uint8_t>(opcode), bytes));
      if (Decode(packets.back())) break;
      packets.pop_back();
    }
  }
  return packets;
}

Packet FullPacket(PacketService service, PacketOp op) {
  Packet packet{.service = service, .op = op};
  packet.solicited = true;
  packet.becn = true;
  packet.ack_request = true;
  packet.pkey = 0x8001;
  packet.dest_qpn = 0x123456;
  packet.psn = 0xabcdef;
  packet.memory = {0x1122334455667788, 0x99aabbcc, 0xddeeff00};
  packet.ack = {0x62, 0xfedcba};
  packet.atomic = {.address = 0x0102030405060708,
                   .rkey = 0x090a0b0c,
                   .swap_add = 0x1112131415161718,
                   .compare = 0x2122232425262728};
  packet.original = 0x3132333435363738;
  packet.imm = mlx5::ToBe32(0x41424344);
  packet.invalidate_rkey = 0x51525354;
  packet.srqn = 0x717273;
  packet.datagram = {0x61626364, 0x656667};
  packet.dc = {0x7172737475767778, 0x8182838485868788, 0x919293, 0xa1a2a3};
  return packet;
}

constexpr auto kBase =
    std::to_array<uint8_t>({0, 0xc0, 0x80, 0x01, 0x40, 0x12, 0x34, 0x56, 0x80, 0xab, 0xcd, 0xef});

/// Returns the headers of a full packet after its base header.
std::vector<uint8_t> ExtensionHeaders(PacketService service, PacketOp op) {
  std::vector<uint8_t> bytes = Encode(FullPacket(service, op));
  bytes.erase(bytes.begin(), bytes.begin() + kBase.size());
  return bytes;
}

TEST(PacketTest, EncodesTheBaseHeaderAsSpecified) {
  std::vector<uint8_t> bytes = Encode(FullPacket(PacketService::kRc, PacketOp::kSendFirst));
  EXPECT_THAT(bytes, ElementsAreArray(kBase));
  bytes = Encode(FullPacket(PacketService::kUc, PacketOp::kSendOnly), 5);
  EXPECT_EQ(bytes[0], 0x24);
  EXPECT_EQ(bytes[1], 0xf0);  // solicited, migrated, three bytes of padding
}

TEST(PacketTest, EncodesExtensionHeadersAsSpecified) {
  using enum PacketOp;
  EXPECT_THAT(ExtensionHeaders(PacketService::kRc, kWriteOnlyImm),
              ElementsAre(0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee,
                          0xff, 0x00, 0x41, 0x42, 0x43, 0x44));
  EXPECT_THAT(ExtensionHeaders(PacketService::kRc, kAtomicAcknowledge),
              ElementsAre(0x62, 0xfe, 0xdc, 0xba, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38));
  EXPECT_THAT(ExtensionHeaders(PacketService::kRc, kSendLastInvalidate), ElementsAre(0x51, 0x52, 0x53, 0x54));
  EXPECT_THAT(ExtensionHeaders(PacketService::kUd, kSendOnlyImm),
              ElementsAre(0x61, 0x62, 0x63, 0x64, 0x00, 0x65, 0x66, 0x67, 0x41, 0x42, 0x43, 0x44));
  EXPECT_THAT(ExtensionHeaders(PacketService::kDc, kSendLastImm),
              ElementsAre(0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86,
                          0x87, 0x88, 0, 0x91, 0x92, 0x93, 0, 0xa1, 0xa2, 0xa3, 0x41, 0x42, 0x43, 0x44));
  EXPECT_THAT(ExtensionHeaders(PacketService::kXrc, kSendLastImm),
              ElementsAre(0x00, 0x71, 0x72, 0x73, 0x41, 0x42, 0x43, 0x44));
  EXPECT_THAT(ExtensionHeaders(PacketService::kXrc, kAcknowledge), ElementsAre(0x62, 0xfe, 0xdc, 0xba));
  EXPECT_THAT(ExtensionHeaders(PacketService::kRc, kCompareSwap),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17,
                          0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28));
}

TEST(PacketTest, RoundTripsEveryOpcode) {
  const std::vector<std::vector<uint8_t>> packets = ShortestPackets();
  EXPECT_EQ(packets.size(), 23u + 12u + 2u + 2u + 17u + 23u);  // RC, UC, UD, masked atomics, DC, XRC
  for (std::vector<uint8_t> bytes : packets) {
    const bool payload = HasPayload(*Decode(bytes));
    for (size_t i = 2; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 37);
    bytes[4] = 0x80;  // reserved bits of the base header
    bytes[8] = 0x80;  // more reserved bits
    const auto decoded = Decode(bytes);
    ASSERT_TRUE(decoded);
    SCOPED_TRACE(ToString(*decoded));
    std::vector<uint8_t> again = Encode(*decoded);
    if (decoded->service == PacketService::kUd) again[16] = bytes[16];   // reserved in DETH
    if (decoded->service == PacketService::kXrc && IsRequest(*decoded))
      again[12] = bytes[12];                                             // reserved in XRCETH
    if (decoded->masked_atomic) std::copy_n(&bytes[40], 3, &again[40]);  // reserved in ours
    if (decoded->service == PacketService::kDc) {                        // reserved in ours, too
      again[28] = bytes[28];
      again[32] = bytes[32];
      if (HasAtomicHeader(*decoded)) std::copy_n(&bytes[64], 3, &again[64]);
    }
    EXPECT_EQ(again, bytes);
    EXPECT_EQ(decoded->payload.size(), 0u);
    bytes.resize(bytes.size() + 4);
    EXPECT_EQ(Decode(bytes).has_value(), payload);
  }
}

TEST(PacketTest, MaskedAtomicCarriesAllItsOperands) {
  Packet packet = FullPacket(PacketService::kRc, PacketOp::kCompareSwap);
  packet.masked_atomic = true;
  packet.atomic.bytes = 4;
  packet.atomic.swap_mask = 0x00ff00ff00ff00ff;
  packet.atomic.compare_mask = 0xff00ff00ff00ff00;
  packet.atomic.boundary = 0x8000000080000000;
  const std::vector<uint8_t> bytes = Encode(packet);
  EXPECT_EQ(bytes[0] >> 5, static_cast<int>(PacketService::kVendor));
  const Packet decoded = *Decode(bytes);
  EXPECT_TRUE(decoded.masked_atomic);
  EXPECT_EQ(decoded.service, PacketService::kRc);
  EXPECT_EQ(decoded.atomic.compare, packet.atomic.compare);
  EXPECT_EQ(decoded.atomic.bytes, 4);
  EXPECT_EQ(decoded.atomic.swap_mask, packet.atomic.swap_mask);
  EXPECT_EQ(decoded.atomic.compare_mask, packet.atomic.compare_mask);
  EXPECT_EQ(decoded.atomic.boundary, packet.atomic.boundary);
}

TEST(PacketTest, ExcludesPaddingFromThePayload) {
  for (size_t bytes = 0; bytes <= 9; ++bytes) {
    const std::vector<uint8_t> encoded = Encode({.op = PacketOp::kSendOnly}, bytes);
    EXPECT_EQ(encoded.size() % 4, 0u);
    EXPECT_EQ(Decode(encoded)->payload.size(), bytes);
  }
}

TEST(PacketTest, RefusesAPacketCutShort) {
  for (const std::vector<uint8_t>& bytes : ShortestPackets()) {
    for (size_t kept = 0; kept < bytes.size(); ++kept) {
      EXPECT_FALSE(Decode(std::span(bytes).first(kept)))
          << ToString(*Decode(bytes)) << " of " << kept << " bytes";
    }
  }
}

TEST(PacketTest, RefusesPaddingBeyondThePayload) {
  std::vector<uint8_t> bytes = Encode({.op = PacketOp::kSendOnly});
  bytes[1] |= 0x10;
  EXPECT_FALSE(Decode(bytes));
  bytes = Encode({.op = PacketOp::kAcknowledge});
  bytes[1] |= 0x30;
  EXPECT_FALSE(Decode(bytes));
}

TEST(PacketTest, RefusesAnotherVersion) {
  for (uint8_t bit = 1; bit < 16; bit <<= 1) {
    std::vector<uint8_t> bytes = Encode({.op = PacketOp::kSendOnly});
    bytes[1] |= bit;
    EXPECT_FALSE(Decode(bytes));
  }
}

TEST(PacketTest, RefusesALengthThatIsNoMultipleOfFour) {
  std::vector<uint8_t> bytes = Encode({.op = PacketOp::kSendOnly}, 8);
  ASSERT_TRUE(Decode(bytes));
  bytes.pop_back();
  EXPECT_FALSE(Decode(bytes));
}

TEST(PacketTest, EveryOpcodeHasItsOwnName) {
  std::set<std::string> names;
  for (const std::vector<uint8_t>& bytes : ShortestPackets()) names.insert(ToString(*Decode(bytes)));
  EXPECT_EQ(names.size(), ShortestPackets().size());
  EXPECT_EQ(names.count("UNKNOWN"), 0u);
  EXPECT_STREQ(ToString(PacketService::kRc, PacketOp::kReadResponseLast), "READ_RESP_LAST");
  EXPECT_STREQ(ToString(PacketService::kUc, PacketOp::kWriteMiddle), "UC_WRITE_MIDDLE");
  EXPECT_STREQ(ToString(PacketService::kXrc, PacketOp::kSendOnly), "XRC_SEND_ONLY");
  EXPECT_STREQ(ToString(PacketService::kUd, PacketOp::kReadRequest), "UNKNOWN");
}

TEST(PacketTest, EveryOpcodeIsEitherFirstMiddleLastOrOnly) {
  for (const std::vector<uint8_t>& bytes : ShortestPackets()) {
    const Packet packet = *Decode(bytes);
    const std::string name = ToString(packet);
    EXPECT_EQ(IsFirst(packet.op), name.ends_with("_FIRST"));
    EXPECT_EQ(IsMiddle(packet.op), name.ends_with("_MIDDLE"));
    EXPECT_EQ(IsLast(packet.op), name.find("_LAST") != std::string::npos);
    EXPECT_EQ(IsFirst(packet.op) + IsMiddle(packet.op) + IsLast(packet.op) + IsOnly(packet.op), 1) << name;
  }
}

TEST(PacketTest, OpcodeDeterminesItsHeaders) {
  for (const std::vector<uint8_t>& bytes : ShortestPackets()) {
    const Packet packet = *Decode(bytes);
    const std::string name = ToString(packet);
    const auto is = [&](const char* part) { return name.find(part) != std::string::npos; };
    const bool read_response = is("READ_RESP");
    const bool atomic = is("CMP_SWAP") || is("FETCH_ADD");
    EXPECT_EQ(HasImmediate(packet), is("_IMM")) << name;
    EXPECT_EQ(HasMemoryHeader(packet), is("WRITE_FIRST") || is("WRITE_ONLY") || is("READ_REQUEST")) << name;
    EXPECT_EQ(HasAtomicHeader(packet), atomic) << name;
    EXPECT_EQ(HasAckHeader(packet), is("ACK") || (read_response && !is("MIDDLE"))) << name;
    EXPECT_EQ(HasPayload(packet), is("SEND") || is("WRITE") || read_response) << name;
    EXPECT_EQ(IsRequest(packet), !is("ACK") && !read_response) << name;
  }
}

}  // namespace
}  // namespace softhca
