#include "wire/local_route.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "wire/frames.hpp"

namespace softhca {
namespace {

using testing::ElementsAreArray;

constexpr mlx5::PortType kInfiniBand = mlx5::PortType::kInfiniBand;

/// The sample data packet of IBTA 1.4, 7.8.3, up to its ICRC: an RC WRITE_ONLY without GRH on virtual lane 7.
constexpr uint8_t kSample[] = {0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2, 0x0a, 0x20, 0x24, 0x87,
                               0xff, 0x87, 0xb1, 0xb3, 0x00, 0x0d, 0xec, 0x2a, 0x01, 0x71, 0x0a, 0x1c,
                               0x01, 0x5d, 0x40, 0x02, 0x38, 0xf2, 0x7a, 0x05, 0x00, 0x00, 0x00, 0x0e,
                               0xbb, 0x88, 0x4d, 0x85, 0xfd, 0x5c, 0xfb, 0xa4, 0x72, 0x8b, 0xc0, 0x69,
                               0x0e, 0xd4, 0x00, 0x00, 0x96, 0x25, 0xb7, 0x5a};

std::vector<uint8_t> Sample() {
  std::vector<uint8_t> frame(std::begin(kSample), std::end(kSample));
  const uint16_t vcrc = Vcrc(frame);
  frame.push_back(static_cast<uint8_t>(vcrc));
  frame.push_back(static_cast<uint8_t>(vcrc >> 8));
  return frame;
}

std::vector<uint8_t> WriteOnlyOver(const Flow& flow) {
  std::vector<uint8_t> payload(61);
  std::iota(payload.begin(), payload.end(), uint8_t{1});
  return MakeFrame(flow, {.op = PacketOp::kWriteOnly, .memory = {0x1000, 1, 61}}, payload);
}

/// Divides bit by bit, the lowest bit of each byte first, as IBTA 1.4, figure 59, does.
uint16_t DivideBits(std::span<const uint8_t> bytes) {
  uint32_t remainder = 0xffff;  // the highest bit is the term of x^15
  for (const uint8_t byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool feedback = ((remainder >> 15 ^ byte >> bit) & 1) != 0;
      remainder = (remainder << 1 & 0xffff) ^ (feedback ? 0x100b : 0);
    }
  }
  remainder ^= 0xffff;
  uint16_t sent = 0;  // the term of x^15 is sent first, as the lowest bit of the first byte
  for (int bit = 0; bit < 16; ++bit)
    sent = static_cast<uint16_t>(sent | (remainder >> (15 - bit) & 1) << bit);
  return sent;
}

TEST(LocalRoute, SamplePacketOfTheSpecificationIsRead) {
  const std::vector<uint8_t> frame = Sample();
  const std::optional<Frame> parsed = ParseFrame(frame, kInfiniBand);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->flow.local, (LocalRoute{.source = 0x17d2, .destination = 0x375c, .service_level = 1}));
  EXPECT_FALSE(parsed->flow.grh);
  EXPECT_TRUE(IsSealed(*parsed));
  const auto packet = Decode(parsed->transport.first(parsed->transport.size() - kIcrcBytes));
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->op, PacketOp::kWriteOnly);
  EXPECT_EQ(packet->pkey, 0x2487);
  EXPECT_EQ(packet->dest_qpn, 0x87b1b3u);
  EXPECT_EQ(packet->psn, 0x0dec2au);
  EXPECT_EQ(packet->memory.bytes, 14u);
  EXPECT_EQ(packet->payload.size(), 14u);
}

TEST(LocalRoute, SealsTheSamplePacketAsTheSpecificationDoes) {
  std::vector<uint8_t> frame = Sample();
  std::fill(frame.end() - 6, frame.end(), uint8_t{0});
  SealFrame(frame, kInfiniBand);
  EXPECT_EQ(frame, Sample());
}

TEST(LocalRoute, VariantCrcIsTheRemainderOfAllBits) {
  std::vector<uint8_t> bytes(100);
  std::iota(bytes.begin(), bytes.end(), uint8_t{3});
  for (size_t count = 0; count <= bytes.size(); ++count)
    EXPECT_EQ(Vcrc(std::span(bytes).first(count)), DivideBits(std::span(bytes).first(count))) << count;
}

TEST(LocalRoute, IsEncodedAsSpecified) {
  std::array<uint8_t, kMaxFrameHeaderBytes> headers{};
  ASSERT_EQ(WriteFrameHeaders(FlowInSubnet(), 0x100, headers), 8u);
  EXPECT_THAT(std::span(headers).first(8),
              ElementsAreArray({0x30, 0xb2, 0x12, 0x34, 0x00, 0x42, 0x56, 0x78}));  // VL 3, SL 11, 66 words
}

TEST(LocalRoute, GrhFollows) {
  std::array<uint8_t, kMaxFrameHeaderBytes> headers{};
  ASSERT_EQ(WriteFrameHeaders(FlowWithGrh(), 0x100, headers), 48u);
  EXPECT_THAT(std::span(headers).first(16),
              ElementsAreArray({0x30, 0xb3, 0x12, 0x34, 0x00, 0x4c, 0x56, 0x78,  // 76 words
                                0x66, 0x8a, 0xbc, 0xde, 0x01, 0x00, 0x1b, 9}));
}

class LocalRouteTest : public testing::TestWithParam<Flow> {
 protected:
  bool Accepted() const {
    const std::optional<Frame> parsed = ParseFrame(frame, kInfiniBand);
    return parsed && IsSealed(*parsed);
  }

  std::vector<uint8_t> frame = WriteOnlyOver(GetParam());
};

TEST_P(LocalRouteTest, IsParsedAsWritten) {
  const std::optional<Frame> parsed = ParseFrame(frame, kInfiniBand);
  ASSERT_TRUE(parsed);
  const Flow& flow = parsed->flow;
  EXPECT_EQ(flow.local, GetParam().local);
  EXPECT_EQ(flow.grh, GetParam().grh);
  if (flow.grh) {
    EXPECT_EQ(flow.source, GetParam().source);
    EXPECT_EQ(flow.destination, GetParam().destination);
    EXPECT_EQ(flow.traffic_class, GetParam().traffic_class);
    EXPECT_EQ(flow.flow_label, GetParam().flow_label);
    EXPECT_EQ(flow.hop_limit, GetParam().hop_limit);
  }
  EXPECT_EQ(parsed->ip.size(), flow.grh ? 40u : 0u);
  EXPECT_EQ(parsed->transport.size(), 12u + 16u + 64u + 4u);
}

TEST_P(LocalRouteTest, IsRefusedWithAnotherLength) {
  for (size_t kept = 0; kept < frame.size(); ++kept)
    EXPECT_FALSE(ParseFrame(std::span(frame).first(kept), kInfiniBand)) << kept;
  frame.resize(frame.size() + 4);
  EXPECT_FALSE(ParseFrame(frame, kInfiniBand));
}

TEST_P(LocalRouteTest, IsRefusedWithoutABaseHeader) {
  for (const uint8_t next : {0, 1}) {  // raw packets
    frame[1] = static_cast<uint8_t>((frame[1] & ~3) | next);
    EXPECT_FALSE(ParseFrame(frame, kInfiniBand));
  }
  for (size_t transport_bytes = 0; transport_bytes < 16; transport_bytes += 4) {
    std::vector<uint8_t> cut(FrameHeaderBytes(GetParam()) + transport_bytes + kVcrcBytes);
    WriteFrameHeaders(GetParam(), transport_bytes, cut);
    EXPECT_FALSE(ParseFrame(cut, kInfiniBand));
  }
}

TEST_P(LocalRouteTest, IsRefusedWithAnotherVersion) {
  frame[0] ^= 1;
  EXPECT_FALSE(ParseFrame(frame, kInfiniBand));
}

TEST_P(LocalRouteTest, DetectsEveryFlippedBit) {
  ASSERT_TRUE(Accepted());
  for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    frame[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_FALSE(Accepted()) << "byte " << bit / 8 << ", bit " << bit % 8;
    frame[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  }
}

TEST_P(LocalRouteTest, InvariantCrcLeavesOutWhatSwitchesAndRoutersChange) {
  const auto crc_now = [&] { return softhca::Icrc(*ParseFrame(frame, kInfiniBand)); };
  const uint32_t before = crc_now();
  std::set<size_t> changeable{FrameHeaderBytes(GetParam()) + 4};  // congestion marks
  if (GetParam().grh) changeable.insert({0, 2, 3, 6, 7, 9, 10, 11, 15});
  for (size_t at = 0; at < frame.size() - kIcrcBytes - kVcrcBytes; ++at) {
    const uint8_t kept = frame[at];
    const bool structure =
        at == 1 || at == 4 || at == 5 || (GetParam().grh && (at == 8 || (at > 11 && at < 15)));
    if (structure) continue;  // another length or next header is another packet
    frame[at] ^= at == 0 ? 0xf0 : 0xff;
    const bool covered = at != 0 && !changeable.contains(at);
    EXPECT_EQ(crc_now() != before, covered) << "byte " << at;
    frame[at] = kept;
  }
}

INSTANTIATE_TEST_SUITE_P(, LocalRouteTest, testing::Values(FlowInSubnet(), FlowWithGrh()),
                         [](const auto& test) { return test.param.grh ? "WithGrh" : "WithoutGrh"; });

TEST(MulticastLid, IsAboveThoseOfPorts) {
  EXPECT_FALSE(IsMulticastLid(0xbfff));
  EXPECT_TRUE(IsMulticastLid(0xc000));
  EXPECT_TRUE(IsMulticastLid(0xfffe));
  EXPECT_FALSE(IsMulticastLid(kPermissiveLid));
}

}  // namespace
}  // namespace softhca
