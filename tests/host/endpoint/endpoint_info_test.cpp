#include "warpverbs/host/endpoint_info.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "host/log/refusal.hpp"

namespace warpverbs::host {
namespace {

using testing::HasSubstr;

EndpointInfo Sample() {
  EndpointInfo info{.qpn = 0xabcdef, .psn = 0x123456, .lid = 0x4321, .mtu = mlx5::Mtu::k4096};
  info.gid.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3};
  info.max_reads_out = 16;
  info.max_reads_in = 32;
  return info;
}

std::string RefusalOf(std::vector<uint8_t> bytes) {
  return SentenceOf([&] { EndpointInfo::FromBytes(bytes); });
}

std::vector<uint8_t> SampleBytes() {
  const auto bytes = Sample().ToBytes();
  return {bytes.begin(), bytes.end()};
}

TEST(EndpointInfo, RoundTripsThroughBytes) {
  EXPECT_EQ(EndpointInfo::FromBytes(Sample().ToBytes()), Sample());
}

TEST(EndpointInfo, IsInNetworkOrder) {
  const std::vector<uint8_t> head{'W', 'V',  'E',  'p',  0,  1, 0, 48, 0,    0xab, 0xcd, 0xef,
                                  0,   0x12, 0x34, 0x56, 0,  0, 0, 0,  0,    0,    0,    0,
                                  0,   0,    0xff, 0xff, 10, 1, 2, 3,  0x43, 0x21};
  const std::vector<uint8_t> bytes = SampleBytes();
  ASSERT_EQ(bytes.size(), EndpointInfo::kBytes);
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(head.size())), head);
}

TEST(EndpointInfo, RoundTripsThroughText) { EXPECT_EQ(EndpointInfo::Parse(Sample().Serialize()), Sample()); }

TEST(EndpointInfo, HasTheSameBytesInEveryRelease) {
  EXPECT_EQ(Sample().Serialize(),
            "575645700001003000abcdef00123456"    // magic, version, length, QP number, PSN
            "00000000000000000000ffff0a010203"    // GID
            "43210202051020000000000025205225");  // port, limits, zeros, CRC-32
}

TEST(EndpointInfo, RoundTripsForEveryKindOfPort) {
  EndpointInfo info = Sample();
  for (const LinkLayer link_layer : {LinkLayer::kInfiniBand, LinkLayer::kEthernet}) {
    for (const GidType type : {GidType::kInfiniBand, GidType::kRoceV1, GidType::kRoceV2}) {
      for (const mlx5::Mtu mtu : {mlx5::Mtu::k256, mlx5::Mtu::k1024, mlx5::Mtu::k4096}) {
        info.link_layer = link_layer;
        info.gid_type = type;
        info.mtu = mtu;
        EXPECT_EQ(EndpointInfo::FromBytes(info.ToBytes()), info);
      }
    }
  }
}

TEST(EndpointInfo, RejectsEveryChangeOfEveryByte) {
  for (size_t at = 0; at < EndpointInfo::kBytes; ++at) {
    for (int change = 1; change < 256; ++change) {
      std::vector<uint8_t> bytes = SampleBytes();
      bytes[at] ^= static_cast<uint8_t>(change);
      ASSERT_NE(RefusalOf(bytes), "") << "byte " << at << " ^ " << change;
    }
  }
}

TEST(EndpointInfo, RejectsEveryChangeOfEveryLetter) {
  const std::string text = Sample().Serialize();
  for (size_t at = 0; at < text.size(); ++at) {
    for (int letter = 0; letter < 256; ++letter) {
      std::string changed = text;
      changed[at] = static_cast<char>(letter);
      if (changed == text) continue;
      ASSERT_NE(SentenceOf([&] { EndpointInfo::Parse(changed); }), "") << changed;
    }
  }
}

TEST(EndpointInfo, RejectsEveryOtherLength) {
  const std::vector<uint8_t> whole = SampleBytes();
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(RefusalOf({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length)}), "") << length;
  }
  std::vector<uint8_t> longer = whole;
  longer.push_back(0);
  EXPECT_THAT(RefusalOf(longer), HasSubstr("it has 49 bytes, not 48"));
  EXPECT_NE(SentenceOf([] { EndpointInfo::Parse(Sample().Serialize() + "0"); }), "");
}

TEST(EndpointInfo, ExplainsTheRejection) {
  EXPECT_THAT(RefusalOf({}), HasSubstr("does not begin like endpoint information"));
  std::vector<uint8_t> bytes = SampleBytes();
  bytes[0] ^= 1;
  EXPECT_THAT(RefusalOf(bytes), HasSubstr("does not begin like endpoint information"));

  bytes = SampleBytes();
  bytes[5] = 2;
  EXPECT_THAT(RefusalOf(bytes), HasSubstr("it has version 2, not 1"));

  bytes = SampleBytes();
  bytes.pop_back();
  EXPECT_THAT(RefusalOf(bytes), HasSubstr("it has 47 bytes, not 48"));

  bytes = SampleBytes();
  bytes[20] ^= 0x10;
  EXPECT_THAT(RefusalOf(bytes), HasSubstr("its checksum is wrong"));
}

TEST(EndpointInfo, RejectsValuesOutOfRange) {
  const auto refusal = [](const std::function<void(EndpointInfo&)>& change) {
    EndpointInfo info = Sample();
    change(info);
    return SentenceOf([&] { EndpointInfo::FromBytes(info.ToBytes()); });
  };
  EXPECT_THAT(refusal([](EndpointInfo& info) { info.qpn = 0; }), HasSubstr("queue pair number"));
  EXPECT_THAT(refusal([](EndpointInfo& info) { info.qpn = 0x1000000; }), HasSubstr("queue pair number"));
  EXPECT_THAT(refusal([](EndpointInfo& info) { info.psn = 0x1000000; }), HasSubstr("packet sequence number"));
  EXPECT_THAT(refusal([](EndpointInfo& info) { info.link_layer = LinkLayer{3}; }), HasSubstr("link layer"));
  EXPECT_THAT(refusal([](EndpointInfo& info) { info.gid_type = GidType{3}; }), HasSubstr("GID type"));
  EXPECT_THAT(refusal([](EndpointInfo& info) { info.gid = Gid{}; }), HasSubstr("GID"));
  EXPECT_THAT(refusal([](EndpointInfo& info) { info.mtu = mlx5::Mtu{0}; }), HasSubstr("MTU"));
  EXPECT_THAT(refusal([](EndpointInfo& info) { info.mtu = mlx5::Mtu{6}; }), HasSubstr("MTU"));
}

TEST(Crc32, MatchesTheCheckValueOfTheCatalogue) {
  const std::string_view digits = "123456789";
  EXPECT_EQ(Crc32({reinterpret_cast<const uint8_t*>(digits.data()), digits.size()}), 0xcbf43926);
}

}  // namespace
}  // namespace warpverbs::host
