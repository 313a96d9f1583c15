#include "cm/message.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cm/service.hpp"

namespace softhca::cm {
namespace {

constexpr size_t kHeader = 24;

std::vector<uint8_t> Bytes(const Mad& mad, size_t at, size_t count) {
  return {mad.begin() + static_cast<ptrdiff_t>(kHeader + at),
          mad.begin() + static_cast<ptrdiff_t>(kHeader + at + count)};
}

using Expected = std::vector<uint8_t>;

TEST(CmMessage, EncodesTheHeader) {
  const Mad mad = Encode({.transaction = 0x0102030405060708, .body = Dreq{}});
  const Expected header{1, 7, 2, 3, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0x15, 0, 0, 0, 0, 0, 0};
  EXPECT_TRUE(std::equal(header.begin(), header.end(), mad.begin()));
}

TEST(CmMessage, EncodesARequest) {  // Wireshark shows the same values
  Req req{.local_id = 0x01020304,
          .service_id = 0x0000000001061c4f,
          .ca_guid = 0x1112131415161718,
          .qpn = 0x212223,
          .responder_resources = 0x24,
          .initiator_depth = 0x25,
          .remote_response_timeout = 17,
          .service_type = 1,
          .flow_control = true,
          .psn = 0x313233,
          .local_response_timeout = 18,
          .retry_count = 6,
          .pkey = 0x7fff,
          .mtu = 5,
          .rnr_retry_count = 3,
          .max_cm_retries = 15,
          .srq = true,
          .flow_label = 0xabcde,
          .rate = 0x2a,
          .traffic_class = 0x41,
          .hop_limit = 0x42,
          .service_level = 9,
          .subnet_local = true,
          .ack_timeout = 19};
  req.local_gid.fill(0x51);
  req.remote_gid.fill(0x52);
  req.private_data.fill(0x53);
  const Mad mad = Encode({.body = req});
  EXPECT_EQ(Bytes(mad, 0, 8), (Expected{1, 2, 3, 4, 0, 0, 0, 0}));
  EXPECT_EQ(Bytes(mad, 8, 8), (Expected{0, 0, 0, 0, 1, 6, 0x1c, 0x4f}));
  EXPECT_EQ(Bytes(mad, 16, 8), (Expected{0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18}));
  EXPECT_EQ(Bytes(mad, 24, 8), Expected(8));
  EXPECT_EQ(Bytes(mad, 32, 4), (Expected{0x21, 0x22, 0x23, 0x24}));
  EXPECT_EQ(Bytes(mad, 36, 4), (Expected{0, 0, 0, 0x25}));
  EXPECT_EQ(Bytes(mad, 40, 4), (Expected{0, 0, 0, 17 << 3 | 1 << 1 | 1}));
  EXPECT_EQ(Bytes(mad, 44, 4), (Expected{0x31, 0x32, 0x33, 18 << 3 | 6}));
  EXPECT_EQ(Bytes(mad, 48, 4), (Expected{0x7f, 0xff, 5 << 4 | 3, 15 << 4 | 1 << 3}));
  EXPECT_EQ(Bytes(mad, 52, 4), Expected(4));
  EXPECT_EQ(Bytes(mad, 56, 16), Expected(16, 0x51));
  EXPECT_EQ(Bytes(mad, 72, 16), Expected(16, 0x52));
  EXPECT_EQ(Bytes(mad, 88, 4), (Expected{0xab, 0xcd, 0xe0, 0x2a}));
  EXPECT_EQ(Bytes(mad, 92, 4), (Expected{0x41, 0x42, 9 << 4 | 1 << 3, 19 << 3}));
  EXPECT_EQ(Bytes(mad, 96, 44), Expected(44)) << "there is no alternate path";
  EXPECT_EQ(Bytes(mad, 140, 92), Expected(92, 0x53));
}

TEST(CmMessage, EncodesAReply) {
  Rep rep{.local_id = 1,
          .remote_id = 2,
          .qkey = 0x11223344,
          .qpn = 0x212223,
          .psn = 0x313233,
          .responder_resources = 4,
          .initiator_depth = 5,
          .target_ack_delay = 16,
          .failover = 1,
          .flow_control = true,
          .rnr_retry_count = 7,
          .srq = true,
          .ca_guid = 0x0102030405060708};
  rep.private_data.fill(0x61);
  const Mad mad = Encode({.body = rep});
  EXPECT_EQ(Bytes(mad, 0, 12), (Expected{0, 0, 0, 1, 0, 0, 0, 2, 0x11, 0x22, 0x33, 0x44}));
  EXPECT_EQ(Bytes(mad, 12, 12), (Expected{0x21, 0x22, 0x23, 0, 0, 0, 0, 0, 0x31, 0x32, 0x33, 0}));
  EXPECT_EQ(Bytes(mad, 24, 4), (Expected{4, 5, 16 << 3 | 1 << 1 | 1, 7 << 5 | 1 << 4}));
  EXPECT_EQ(Bytes(mad, 28, 8), (Expected{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(Bytes(mad, 36, 196), Expected(196, 0x61));
}

TEST(CmMessage, EncodesShortMessages) {
  const Mad mra = Encode({.body = Mra{1, 2, Answered::kRep, 24}});
  EXPECT_EQ(Bytes(mra, 0, 12), (Expected{0, 0, 0, 1, 0, 0, 0, 2, 1 << 6, 24 << 3, 0, 0}));
  const Mad rej = Encode({.body = Rej{1, 2, Answered::kOther, 8, 28}});
  EXPECT_EQ(Bytes(rej, 0, 12), (Expected{0, 0, 0, 1, 0, 0, 0, 2, 2 << 6, 8 << 1, 0, 28}));
  const Mad dreq = Encode({.body = Dreq{1, 2, 0x212223}});
  EXPECT_EQ(Bytes(dreq, 0, 12), (Expected{0, 0, 0, 1, 0, 0, 0, 2, 0x21, 0x22, 0x23, 0}));
  const Mad apr = Encode({.body = Apr{1, 2}});
  EXPECT_EQ(Bytes(apr, 0, 12), (Expected{0, 0, 0, 1, 0, 0, 0, 2, 0, Apr::kNotSupported, 0, 0}));
}

TEST(CmMessage, EncodesServiceQueries) {
  const Mad req = Encode({.body = SidrReq{.request_id = 3, .pkey = 0xffff, .service_id = 0x01111234}});
  EXPECT_EQ(Bytes(req, 0, 16), (Expected{0, 0, 0, 3, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 1, 0x11, 0x12, 0x34}));
  const Mad rep = Encode({.body = SidrRep{.request_id = 3,
                                          .status = SidrStatus::kRejected,
                                          .info_bytes = 4,
                                          .qpn = 0x212223,
                                          .service_id = 0x01111234,
                                          .qkey = 0x01234567}});
  EXPECT_EQ(Bytes(rep, 0, 12), (Expected{0, 0, 0, 3, 2, 4, 0, 0, 0x21, 0x22, 0x23, 0}));
  EXPECT_EQ(Bytes(rep, 12, 12), (Expected{0, 0, 0, 0, 1, 0x11, 0x12, 0x34, 0x01, 0x23, 0x45, 0x67}));
}

TEST(CmMessage, EncodesEveryDecodedMessageUnchanged) {
  std::mt19937 random(1);
  for (uint8_t attribute = Req::kAttribute; attribute <= Apr::kAttribute; ++attribute) {
    for (int round = 0; round < 100; ++round) {
      Mad mad{1, 7, 2, 3};
      std::generate(mad.begin() + kHeader, mad.end(), [&] { return static_cast<uint8_t>(random()); });
      mad[17] = attribute;
      const auto message = Decode(mad);
      ASSERT_TRUE(message);
      ASSERT_EQ(Decode(Encode(*message)), message) << "attribute " << int{attribute};
    }
  }
}

TEST(CmMessage, RefusesOtherMessages) {
  const Mad good = Encode({.body = Rtu{}});
  ASSERT_TRUE(Decode(good));
  for (const size_t at : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{16}}) {
    Mad bad = good;
    bad[at] ^= 0x40;
    EXPECT_FALSE(Decode(bad)) << "byte " << at;
  }
  for (const uint8_t attribute : {0x00, 0x0f, 0x1b, 0xff}) {
    Mad bad = good;
    bad[17] = attribute;
    EXPECT_FALSE(Decode(bad));
  }
}

TEST(CmService, DerivesServiceIdsFromPortSpaceAndPort) {
  EXPECT_EQ(ServiceId(PortSpace::kTcp, 7174), 0x0000000001061c06u);
  EXPECT_EQ(ServiceId(PortSpace::kUdp, 7174), 0x0000000001111c06u);
}

TEST(CmService, EncodesAddresses) {
  IpHeader header{.source_port = 0x1234};
  header.source[12] = 127;
  header.source[15] = 9;
  header.destination[15] = 8;
  std::array<uint8_t, IpHeader::kBytes> bytes{};
  Write(header, bytes);
  const std::vector<uint8_t> start(bytes.begin(), bytes.begin() + 20);
  EXPECT_EQ(start, (Expected{0, 0x40, 0x12, 0x34, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 127, 0, 0, 9}));
  EXPECT_EQ(bytes[35], 8);
  EXPECT_EQ(ReadIpHeader(bytes), header);
  header.ipv6 = true;
  Write(header, bytes);
  EXPECT_EQ(bytes[1], 0x60);
  EXPECT_EQ(ReadIpHeader(bytes), header);
}

TEST(CmService, RefusesForeignPrivateData) {
  std::array<uint8_t, IpHeader::kBytes> bytes{};
  EXPECT_FALSE(ReadIpHeader(bytes)) << "no version of IP";
  Write({}, bytes);
  bytes[0] = 0x10;
  EXPECT_FALSE(ReadIpHeader(bytes)) << "another version of the header";
}

}  // namespace
}  // namespace softhca::cm
