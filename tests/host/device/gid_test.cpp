#include "warpverbs/host/gid.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "warpverbs/host/device.hpp"

namespace warpverbs::host {
namespace {

Gid Parse(const char* address) {
  Gid gid;
  EXPECT_EQ(inet_pton(AF_INET6, address, gid.raw.data()), 1) << address;
  return gid;
}

const Gid kIpv4 = Parse("::ffff:192.168.1.2");
const Gid kIpv4LinkLocal = Parse("::ffff:169.254.3.4");
const Gid kRoutable = Parse("2001:db8::1");
const Gid kLinkLocal = Parse("fe80::2");

TEST(Gid, PrintsIpv4AndIpv6) {
  EXPECT_EQ(ToString(kIpv4), "192.168.1.2");
  EXPECT_EQ(ToString(kRoutable), "2001:db8::1");
  EXPECT_EQ(ToString(kLinkLocal), "fe80::2");
}

TEST(Gid, RecognizesLinkLocalAddressesOfBothFamilies) {
  EXPECT_TRUE(IsLinkLocal(kLinkLocal));
  EXPECT_TRUE(IsLinkLocal(Parse("febf::1")));
  EXPECT_TRUE(IsLinkLocal(kIpv4LinkLocal));
  EXPECT_FALSE(IsLinkLocal(kIpv4));
  EXPECT_FALSE(IsLinkLocal(kRoutable));
  EXPECT_FALSE(IsLinkLocal(Parse("fec0::1")));
}

TEST(BestGid, FollowsTheDocumentedOrder) {
  const std::vector<GidEntry> best_first = {
      {kIpv4, 7, GidType::kRoceV2}, {kRoutable, 6, GidType::kRoceV2}, {kLinkLocal, 5, GidType::kRoceV2},
      {kIpv4, 4, GidType::kRoceV1}, {kRoutable, 3, GidType::kRoceV1}, {kLinkLocal, 2, GidType::kRoceV1},
  };
  for (size_t first = 0; first < best_first.size(); ++first) {
    std::vector<GidEntry> rest(best_first.begin() + static_cast<ptrdiff_t>(first), best_first.end());
    for (size_t turn = 0; turn < rest.size(); ++turn) {
      EXPECT_EQ(BestGid(rest)->index, best_first[first].index);
      std::rotate(rest.begin(), rest.begin() + 1, rest.end());
    }
  }
}

TEST(BestGid, PrefersTheLowestIndexAmongEquals) {
  const std::vector<GidEntry> entries = {{kIpv4, 3, GidType::kRoceV2},
                                         {Parse("::ffff:10.0.0.1"), 5, GidType::kRoceV2}};
  EXPECT_EQ(BestGid(entries)->index, 3);
}

TEST(BestGid, IsNullForAnEmptyTable) { EXPECT_EQ(BestGid({}), nullptr); }

TEST(BestGid, IsTheOnlyOneOnInfiniBand) {
  const std::vector<GidEntry> entries = {{kLinkLocal, 0, GidType::kInfiniBand}};
  EXPECT_EQ(BestGid(entries)->index, 0);
}

TEST(CommonPrefix, CountsLeadingBits) {
  EXPECT_EQ(CommonPrefix(kRoutable, kRoutable), 128);
  EXPECT_EQ(CommonPrefix(Parse("2001:db8::1"), Parse("2001:db8:0:1::1")), 63);
  EXPECT_EQ(CommonPrefix(Parse("8000::"), Parse("::")), 0);
  EXPECT_EQ(CommonPrefix(Parse("::ffff:10.0.1.1"), Parse("::ffff:10.0.2.1")), 96 + 22);
}

TEST(BestGidForAPeer, FollowsTheDocumentedOrder) {
  const std::vector<GidEntry> best_first = {
      {Parse("::ffff:10.1.2.9"), 9, GidType::kRoceV2},     // the peer's subnet
      {Parse("::ffff:10.1.200.1"), 8, GidType::kRoceV2},   // a shorter prefix in common
      {Parse("::ffff:192.168.0.1"), 7, GidType::kRoceV2},  // nothing in common
      {kIpv4LinkLocal, 6, GidType::kRoceV2},               // link-local
      {kRoutable, 5, GidType::kRoceV2},                    // another family
      {kLinkLocal, 4, GidType::kRoceV2},
      {Parse("::ffff:10.1.2.9"), 3, GidType::kRoceV1},  // a type that routers drop
      {kLinkLocal, 2, GidType::kRoceV1},
  };
  const Gid peer = Parse("::ffff:10.1.2.3");
  for (size_t first = 0; first < best_first.size(); ++first) {
    std::vector<GidEntry> rest(best_first.begin() + static_cast<ptrdiff_t>(first), best_first.end());
    for (size_t turn = 0; turn < rest.size(); ++turn) {
      EXPECT_EQ(BestGid(rest, peer)->index, best_first[first].index);
      std::rotate(rest.begin(), rest.begin() + 1, rest.end());
    }
  }
}

TEST(BestGidForAPeer, MatchesFamilyAndReach) {
  const std::vector<GidEntry> entries = {{kIpv4, 0, GidType::kRoceV2},
                                         {kIpv4LinkLocal, 1, GidType::kRoceV2},
                                         {kRoutable, 2, GidType::kRoceV2},
                                         {kLinkLocal, 3, GidType::kRoceV2}};
  EXPECT_EQ(BestGid(entries, Parse("::ffff:8.8.8.8"))->index, 0);
  EXPECT_EQ(BestGid(entries, Parse("::ffff:169.254.9.9"))->index, 1);
  EXPECT_EQ(BestGid(entries, Parse("fd00::1"))->index, 2);
  EXPECT_EQ(BestGid(entries, Parse("fe80::9"))->index, 3);
}

TEST(BestGidForAPeer, MatchesTheSubnetOnInfiniBand) {
  const std::vector<GidEntry> entries = {{Parse("fe80::1"), 0, GidType::kInfiniBand},
                                         {Parse("fec0:0:0:7::1"), 1, GidType::kInfiniBand}};
  EXPECT_EQ(BestGid(entries, Parse("fe80::2"))->index, 0);
  EXPECT_EQ(BestGid(entries, Parse("fec0:0:0:7::2"))->index, 1);
}

TEST(BestGidForAPeer, IsExplained) {
  const GidEntry ipv4{Parse("::ffff:10.1.2.9"), 3, GidType::kRoceV2};
  EXPECT_EQ(DescribeChoice(ipv4, {}), "the best by type and reach");
  EXPECT_EQ(DescribeChoice(ipv4, Parse("::ffff:10.1.2.3")),
            "the best for the peer's 10.1.2.3, with 28 of 32 bits in common");
  EXPECT_EQ(DescribeChoice(ipv4, kRoutable),
            "the best for the peer's 2001:db8::1, although its address family differs");
  EXPECT_EQ(DescribeChoice({kRoutable, 0, GidType::kRoceV2}, Parse("2001:db8::3")),
            "the best for the peer's 2001:db8::3, with 126 of 128 bits in common");
}

}  // namespace
}  // namespace warpverbs::host
