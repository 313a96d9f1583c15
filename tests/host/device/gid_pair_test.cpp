#include "warpverbs/host/gid.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "common/repetitions.hpp"

namespace warpverbs::host {
namespace {

using Entries = std::vector<GidEntry>;

GidEntry V2(const char* address, GidType type = GidType::kRoceV2) {
  GidEntry entry{.type = type};
  EXPECT_EQ(inet_pton(AF_INET6, address, entry.gid.raw.data()), 1) << address;
  return entry;
}
GidEntry V1(const char* address) { return V2(address, GidType::kRoceV1); }
GidEntry InfiniBand(const char* address) { return V2(address, GidType::kInfiniBand); }

/// Returns "10.0.0.1 to 10.0.0.2, RoCE v2", or "none". Both sides must agree.
std::string Best(const Entries& here, const Entries& there) {
  const auto pair = BestPair(here, there), mirror = BestPair(there, here);
  EXPECT_EQ(pair.has_value(), mirror.has_value());
  if (!pair || !mirror) return "none";
  EXPECT_EQ(pair->here.gid, mirror->there.gid);
  EXPECT_EQ(pair->there.gid, mirror->here.gid);
  EXPECT_EQ(pair->here.type, mirror->here.type);
  EXPECT_EQ(pair->here.type, pair->there.type);
  return ToString(pair->here.gid) + " to " + ToString(pair->there.gid) + ", " + ToString(pair->here.type);
}

TEST(BestPair, HasOneTypeAndFamily) {
  EXPECT_EQ(Best({V2("::ffff:10.0.0.1")}, {V1("::ffff:10.0.0.2")}), "none");
  EXPECT_EQ(Best({V2("::ffff:10.0.0.1")}, {V2("2001:db8::2")}), "none");
  EXPECT_EQ(Best({InfiniBand("fe80::1")}, {V1("fe80::2")}), "none");
  EXPECT_EQ(Best({}, {V2("::ffff:10.0.0.1")}), "none");
  EXPECT_EQ(Best({V1("::ffff:10.0.0.1"), V2("fe80::1")}, {V1("::ffff:10.0.0.2"), V2("2001:db8::2")}),
            "fe80::1 to 2001:db8::2, RoCE v2");
}

TEST(BestPair, FollowsTheDocumentedOrder) {
  const std::vector<GidPair> best_first = {
      {V2("2001:db8::1"), V2("2001:db8::2")},                // routable, same subnet
      {V2("::ffff:192.168.0.1"), V2("::ffff:192.168.1.2")},  // IPv4, 23 bits in common
      {V2("::ffff:10.1.0.1"), V2("::ffff:10.200.0.2")},      // 8 bits
      {V2("2a00:1::1"), V2("2a00:2::2")},                    // not IPv4
      {V2("fe80::5"), V2("fe80::6")},                        // link-local addresses
      {V2("fe90::1"), V2("2b00::1")},                        // link-local on one side only
      {V1("::ffff:10.3.0.1"), V1("::ffff:10.3.0.2")},        // a type that routers drop
      {V1("::ffff:169.254.0.1"), V1("::ffff:169.254.0.2")},
  };
  Entries here, there;
  for (const GidPair& pair : best_first) {  // the best pair comes last
    here.insert(here.begin(), pair.here);
    there.insert(there.begin(), pair.there);
  }
  for (const GidPair& pair : best_first) {
    EXPECT_EQ(Best(here, there), Best({pair.here}, {pair.there}));
    here.pop_back();
    there.pop_back();
  }
}

TEST(BestPair, UsesIpv4OnASharedSubnet) {
  EXPECT_EQ(
      Best({V2("::ffff:10.0.1.1"), V2("::ffff:10.0.2.1")}, {V2("::ffff:10.0.2.9"), V2("::ffff:10.0.3.9")}),
      "10.0.2.1 to 10.0.2.9, RoCE v2");
  EXPECT_EQ(Best({V2("::ffff:10.0.1.1"), V2("2001:db8::1")}, {V2("::ffff:10.0.1.200"), V2("2001:db8::2")}),
            "10.0.1.1 to 10.0.1.200, RoCE v2")
      << "IPv4 on a shared subnet";
  EXPECT_EQ(Best({V2("::ffff:10.0.1.1"), V2("2001:db8::1")}, {V2("::ffff:10.0.2.2"), V2("2001:db8::2")}),
            "2001:db8::1 to 2001:db8::2, RoCE v2")
      << "but not if only the IPv6 subnet is shared";
}

TEST(BestPair, IgnoresFamiliesOnInfiniBand) {
  EXPECT_EQ(Best({InfiniBand("fe80::1")}, {InfiniBand("fe80::2")}), "fe80::1 to fe80::2, InfiniBand");
  EXPECT_EQ(Best({InfiniBand("::ffff:10.0.0.1")}, {InfiniBand("fec0:0:0:7::2")}),
            "10.0.0.1 to fec0:0:0:7::2, InfiniBand");
  EXPECT_EQ(Best({InfiniBand("fec0:0:0:6::1"), InfiniBand("fec0:0:0:7::1")}, {InfiniBand("fec0:0:0:7::2")}),
            "fec0:0:0:7::1 to fec0:0:0:7::2, InfiniBand");
}

TEST(BestPair, IsOneGidOnASinglePort) {
  const Entries port{V2("::ffff:10.0.0.2"), V2("::ffff:10.0.0.1"), V2("fe80::1")};
  EXPECT_EQ(Best(port, port), "10.0.0.1 to 10.0.0.1, RoCE v2");
}

TEST(BestPair, AvoidsAnAddressThatTwoPortsHave) {
  const GidEntry both = V2("::ffff:192.168.100.1");
  EXPECT_EQ(Best({both, V2("::ffff:10.0.0.1")}, {V2("::ffff:10.0.0.2"), both}),
            "10.0.0.1 to 10.0.0.2, RoCE v2");
  EXPECT_EQ(Best({both, V2("fe80::1")}, {both, V2("fe80::2")}), "fe80::1 to fe80::2, RoCE v2");
  EXPECT_EQ(Best({both}, {both, V2("2001:db8::1")}), "192.168.100.1 to 192.168.100.1, RoCE v2")
      << "one port, and one side names an address";
  const GidEntry x = V2("::ffff:10.0.0.1"), y = V2("::ffff:10.0.0.2");
  EXPECT_EQ(Best({x, y}, {x, y, V2("fe80::1")}), "10.0.0.1 to 10.0.0.2, RoCE v2")
      << "pairs different addresses";
  EXPECT_EQ(Best({x, y, V2("fe80::1")}, {y, x}), "10.0.0.2 to 10.0.0.1, RoCE v2");
}

TEST(BestPair, IsTheFirstOfEqualEntries) {
  Entries here{V2("::ffff:10.0.0.1"), V2("::ffff:10.0.0.1")};
  here[0].index = 4;
  here[1].index = 6;
  EXPECT_EQ(BestPair(here, Entries{V2("::ffff:10.0.0.2")})->here.index, 4u);
}

/// Returns a GID out of few addresses, so that lists overlap.
GidEntry Any(std::mt19937& random) {
  constexpr const char* kStarts[] = {"::ffff:10.0.0.0", "::ffff:10.0.1.0", "::ffff:169.254.0.0",
                                     "fe80::",          "2001:db8::",      "2001:db8:0:1::"};
  GidEntry entry = V2(kStarts[random() % std::size(kStarts)], static_cast<GidType>(random() % 3));
  entry.gid.raw[15] = static_cast<uint8_t>(1 + random() % 3);
  return entry;
}

TEST(BestPair, IsTheSameOnBothSidesInAnyOrder) {
  std::mt19937 random(1);
  int found = 0;
  for (int i = 0; i < tests::Repetitions(4000); ++i) {
    Entries here(random() % 7), there(random() % 7);
    for (Entries* const side : {&here, &there})
      for (GidEntry& entry : *side) entry = Any(random);
    const std::string best = Best(here, there);
    found += best != "none";
    std::shuffle(here.begin(), here.end(), random);
    std::shuffle(there.begin(), there.end(), random);
    ASSERT_EQ(Best(here, there), best) << Describe(here) << "; " << Describe(there);
    ASSERT_FALSE(testing::Test::HasFailure()) << Describe(here) << "; " << Describe(there);
  }
  EXPECT_GT(found, tests::Repetitions(1000));
}

TEST(GidPair, IsExplained) {
  EXPECT_EQ(DescribePair(V2("::ffff:10.1.2.9").gid, V2("::ffff:10.1.2.3").gid),
            "the best pair with the peer's 10.1.2.3, with 28 of 32 bits in common");
}

TEST(GidPair, ListsAtMostEightGids) {
  EXPECT_EQ(Describe(std::span<const GidEntry>{}), "none");
  EXPECT_EQ(Describe(Entries{V1("fe80::1"), V2("::ffff:10.0.0.1")}), "RoCE v1 fe80::1, RoCE v2 10.0.0.1");
  const std::string nine = Describe(Entries(9, V2("fe80::1")));
  EXPECT_TRUE(nine.ends_with(", RoCE v2 fe80::1 and 1 more")) << nine;
}

}  // namespace
}  // namespace warpverbs::host
