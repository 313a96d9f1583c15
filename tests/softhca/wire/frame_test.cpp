#include "wire/frame.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/frames.hpp"

namespace softhca {
namespace {

using testing::ElementsAreArray;

constexpr size_t kEthernetBytes = 14;

Packet Write() { return {.op = PacketOp::kWriteOnly, .memory = {0x1000, 1, 8}}; }

std::vector<uint8_t> WriteOver(const Flow& flow) {
  return MakeFrame(flow, Write(), std::vector<uint8_t>(8, 7));
}

void ExpectSame(const Flow& a, const Flow& b) {
  EXPECT_EQ(a.source_mac, b.source_mac);
  EXPECT_EQ(a.destination_mac, b.destination_mac);
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.destination, b.destination);
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.traffic_class, b.traffic_class);
  EXPECT_EQ(a.hop_limit, b.hop_limit);
  EXPECT_EQ(a.flow_label, b.flow_label);
  EXPECT_EQ(a.source_port, b.source_port);
  EXPECT_EQ(a.identification, b.identification);
}

class FrameTest : public testing::TestWithParam<Flow> {};

TEST_P(FrameTest, IsParsedAsWritten) {
  const std::vector<uint8_t> frame = WriteOver(GetParam());
  const std::optional<Frame> parsed = ParseFrame(frame);
  ASSERT_TRUE(parsed);
  ExpectSame(parsed->flow, GetParam());
  EXPECT_EQ(parsed->ip.data(), &frame[kEthernetBytes]);
  EXPECT_EQ(parsed->transport.size(), 12u + 16u + 8u + 4u);
  EXPECT_EQ(parsed->transport.data() + parsed->transport.size(), frame.data() + frame.size());
  EXPECT_EQ(DecodeFrame(frame)->memory.address, 0x1000u);
}

TEST_P(FrameTest, AllowsTrailingEthernetBytes) {
  std::vector<uint8_t> frame = WriteOver(GetParam());
  const size_t bytes = frame.size();
  frame.resize(bytes + 7, 0xee);
  const std::optional<Frame> parsed = ParseFrame(frame);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->transport.data() + parsed->transport.size(), frame.data() + bytes);
  EXPECT_TRUE(IsSealed(*parsed));
}

TEST_P(FrameTest, IsRefusedWhenCutShort) {
  const std::vector<uint8_t> frame = WriteOver(GetParam());
  for (size_t kept = 0; kept < frame.size(); ++kept) EXPECT_FALSE(ParseFrame(std::span(frame).first(kept)));
}

TEST_P(FrameTest, IsRefusedWithoutABaseHeader) {
  for (size_t transport_bytes = 0; transport_bytes < 16; ++transport_bytes) {
    std::vector<uint8_t> frame(FrameHeaderBytes(GetParam()) + transport_bytes);
    WriteFrameHeaders(GetParam(), transport_bytes, frame);
    EXPECT_FALSE(ParseFrame(frame));
  }
}

TEST_P(FrameTest, IsRefusedWithAnotherProtocol) {
  for (const size_t at : {size_t{12}, size_t{13}, size_t{14}}) {  // EtherType and IP version
    std::vector<uint8_t> frame = WriteOver(GetParam());
    frame[at] ^= 0x20;
    EXPECT_FALSE(ParseFrame(frame)) << "byte " << at;
  }
  std::vector<uint8_t> frame = WriteOver(GetParam());
  const bool ipv4 = frame[kEthernetBytes] >> 4 == 4;
  frame[kEthernetBytes + (ipv4 ? 9 : 6)] = 6;  // TCP
  EXPECT_FALSE(ParseFrame(frame));
}

INSTANTIATE_TEST_SUITE_P(, FrameTest, EveryNetwork(), NetworkName);

TEST(FrameHeaderTest, EncodesIpv4AsSpecified) {
  std::array<uint8_t, kMaxFrameHeaderBytes> headers;
  ASSERT_EQ(WriteFrameHeaders(FlowOverIpv4(), 0x100, headers), 42u);
  EXPECT_THAT(std::span(headers).first(42),
              ElementsAreArray({2,    0,    0,    0,    0,    2,    2,    0,    0, 0,  0, 1, 0x08, 0x00,  //
                                0x45, 0x68, 0x01, 0x1c, 0x45, 0x67, 0x40, 0x00, 9, 17,                    //
                                0xa6, 0xfe, 192,  0,    2,    1,    192,  0,    2, 2,                     //
                                0xc1, 0x23, 0x12, 0xb7, 0x01, 0x08, 0,    0}));
}

TEST(FrameHeaderTest, EncodesRoceV1AsSpecified) {
  std::array<uint8_t, kMaxFrameHeaderBytes> headers;
  ASSERT_EQ(WriteFrameHeaders(FlowOverRoceV1(), 0x100, headers), 54u);
  EXPECT_THAT(std::span(headers).first(54),
              ElementsAreArray({2,    0,    0,    0,    0,    2,    2,    0, 0, 0, 0, 1, 0x89, 0x15,  //
                                0x66, 0x8a, 0xbc, 0xde, 0x01, 0x00, 0x1b, 9,                          //
                                0x20, 0x01, 0x0d, 0xb8, 0,    0,    0,    0, 0, 0, 0, 0, 0,    0,    0, 1,
                                0x20, 0x01, 0x0d, 0xb8, 0,    0,    0,    0, 0, 0, 0, 0, 0,    0,    0, 2}));
}

TEST(FrameHeaderTest, Ipv6CarriesUdp) {
  std::array<uint8_t, kMaxFrameHeaderBytes> headers;
  ASSERT_EQ(WriteFrameHeaders(FlowOverIpv6(), 0x100, headers), 62u);
  EXPECT_THAT(std::span(headers).subspan(12, 10),
              ElementsAreArray({0x86, 0xdd, 0x66, 0x8a, 0xbc, 0xde, 0x01, 0x08, 17, 9}));
  EXPECT_THAT(std::span(headers).last(8), ElementsAreArray({0xc1, 0x23, 0x12, 0xb7, 0x01, 0x08, 0, 0}));
}

TEST(FrameHeaderTest, RoceV1KeepsTheGidOfAnIpv4Address) {
  Flow flow = FlowOverRoceV1();
  flow.source = Ipv4Gid(1);
  flow.destination = Ipv4Gid(2);
  const std::vector<uint8_t> frame = WriteOver(flow);
  EXPECT_EQ(frame[12] << 8 | frame[13], 0x8915);
  EXPECT_EQ(ParseFrame(frame)->flow.destination, Ipv4Gid(2));
}

TEST(FrameHeaderTest, RefusesFragments) {
  for (const auto& [at, bit] : {std::pair{20, 0x20}, {20, 0x01}, {21, 0x80}}) {  // more fragments; an offset
    std::vector<uint8_t> frame = WriteOver(FlowOverIpv4());
    frame[static_cast<size_t>(at)] |= static_cast<uint8_t>(bit);
    EXPECT_FALSE(ParseFrame(frame));
  }
}

TEST(FrameHeaderTest, RefusesIpOptions) {
  std::vector<uint8_t> frame = WriteOver(FlowOverIpv4());
  frame[kEthernetBytes] = 0x46;
  EXPECT_FALSE(ParseFrame(frame));
}

TEST(FrameHeaderTest, RefusesAnotherUdpPort) {
  std::vector<uint8_t> frame = WriteOver(FlowOverIpv4());
  frame[37] ^= 1;
  EXPECT_FALSE(ParseFrame(frame));
}

TEST(FrameHeaderTest, RefusesLengthsThatDoNotFit) {
  for (const size_t at : {size_t{16}, size_t{38}}) {  // lengths in IPv4 and in UDP
    for (const uint32_t bytes : {0u, 7u, 19u, 0xffffu}) {
      std::vector<uint8_t> frame = WriteOver(FlowOverIpv4());
      frame[at] = static_cast<uint8_t>(bytes >> 8);
      frame[at + 1] = static_cast<uint8_t>(bytes);
      EXPECT_FALSE(ParseFrame(frame)) << "byte " << at << ", length " << bytes;
    }
  }
}

}  // namespace
}  // namespace softhca
