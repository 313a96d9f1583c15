#include "warpverbs/host/gid.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

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

TEST(Gid, IsWrittenAsTheAddressItIs) {
  EXPECT_EQ(ToString(kIpv4), "192.168.1.2");
  EXPECT_EQ(ToString(kRoutable), "2001:db8::1");
  EXPECT_EQ(ToString(kLinkLocal), "fe80::2");
}

TEST(Gid, LinkLocalAddressesAreKnownInBothFamilies) {
  EXPECT_TRUE(IsLinkLocal(kLinkLocal));
  EXPECT_TRUE(IsLinkLocal(Parse("febf::1")));
  EXPECT_TRUE(IsLinkLocal(kIpv4LinkLocal));
  EXPECT_FALSE(IsLinkLocal(kIpv4));
  EXPECT_FALSE(IsLinkLocal(kRoutable));
  EXPECT_FALSE(IsLinkLocal(Parse("fec0::1")));
}

TEST(BestGid, IsTheFirstOfTheDocumentedOrderWhateverTheTablesOrder) {
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

TEST(BestGid, TakesTheLowestIndexAmongEquals) {
  const std::vector<GidEntry> entries = {{kIpv4, 3, GidType::kRoceV2},
                                         {Parse("::ffff:10.0.0.1"), 5, GidType::kRoceV2}};
  EXPECT_EQ(BestGid(entries)->index, 3);
}

TEST(BestGid, IsNoneOfAnEmptyTable) { EXPECT_EQ(BestGid({}), nullptr); }

TEST(BestGid, IsTheOnlyOneOnInfiniBand) {
  const std::vector<GidEntry> entries = {{kLinkLocal, 0, GidType::kInfiniBand}};
  EXPECT_EQ(BestGid(entries)->index, 0);
}

}  // namespace
}  // namespace warpverbs::host
