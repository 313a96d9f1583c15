// InfiniBand endpoints communicate within a partition. ConnectAll() reports mismatches.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <infiniband/verbs.h>

#include <array>

#include "host/connect/connect_all_fixture.hpp"

namespace {

/// The first partition keys of the port. softhca's own key follows.
constexpr std::array<uint16_t, 5> kKeys{0xffff, 0x7fff, 0x8001, 0x0001, 0x8002};

}  // namespace

/// Takes precedence over libibverbs' function and returns a table as a subnet manager would fill it.
extern "C" int ibv_query_pkey(ibv_context* context, uint8_t port, int index, __be16* key) {
  static auto* const own = reinterpret_cast<decltype(&ibv_query_pkey)>(dlsym(RTLD_NEXT, "ibv_query_pkey"));
  if (index >= static_cast<int>(kKeys.size())) return own(context, port, index, key);
  *key = htobe16(kKeys.at(static_cast<size_t>(index)));
  return 0;
}

namespace warpverbs::host {
namespace {

using testing::HasSubstr;

class Partitions : public ConnectAllTest {
 protected:
  /// softhca is a member of the default partition only: between unlike keys no data follows, and all retries
  /// run out.
  static constexpr uint8_t kShort = 10;  // 4 ms

  /// Connects endpoints with keys of these indices. Returns the errors of both sides.
  Sentences Meet(uint16_t here, uint16_t there) const {
    const RetryConfig retry{.ack_timeout = here == there ? RetryConfig{}.ack_timeout : kShort};
    Side a(device_, 1, {.pkey_index = here, .retry = retry}),
        b(device_, 1, {.pkey_index = there, .retry = retry});
    const Sentences sentences = Connect(Plainly(a, kTrip), Plainly(b, kTrip));
    EXPECT_EQ(sentences.here.empty(), sentences.there.empty());
    EXPECT_TRUE(a.AllAre(sentences.here.empty() ? mlx5::QpState::kRts : mlx5::QpState::kReset));
    return sentences;
  }
};

TEST_F(Partitions, AreReadFromThePortsTable) {
  const Port port = device_.ActivePort();
  EXPECT_EQ(device_.PartitionKey(port, 3), 0x0001);
  EXPECT_EQ(device_.PartitionKey(port, 100), 0) << "softhca has one partition";
  EXPECT_THAT(SentenceOf([&] { device_.PartitionKey(port, 9999); }),
              HasSubstr("Cannot read the partition key at index 9999 of port 1 of " + device_.name()));
}

TEST_F(Partitions, CarryData) { EXPECT_EQ(Meet(0, 0).here, ""); }

TEST_F(Partitions, AcceptsALimitedMemberAndAFullOne) {
  for (const auto& [here, there] : {std::pair<uint16_t, uint16_t>{0, 1}, {2, 3}})
    EXPECT_THAT(Meet(here, there).here, testing::Not(HasSubstr("do not match"))) << here << " and " << there;
}

TEST_F(Partitions, RejectTwoLimitedMembersOnBothSides) {
  const Sentences sentences = Meet(1, 1);
  for (const std::string& sentence : {sentences.here, sentences.there}) {
    EXPECT_THAT(sentence, HasSubstr("the partition keys of endpoint 0 (QP "));
    EXPECT_THAT(sentence, HasSubstr(", at index 1, and of its peer do not match: 0x7fff here and 0x7fff "
                                    "there both have limited membership. Set "
                                    "EndpointConfig::pkey_index to keys of one partition; "));
  }
}

TEST_F(Partitions, RejectDifferentPartitionsOnBothSides) {
  const Sentences sentences = Meet(2, 4);
  EXPECT_THAT(sentences.here, HasSubstr("at index 2, and of its peer do not match: 0x8001 here and 0x8002"));
  EXPECT_THAT(sentences.there, HasSubstr("at index 4, and of its peer do not match: 0x8002 here and 0x8001"));
}

TEST_F(Partitions, RejectInvalidKeys) {
  EXPECT_THAT(Meet(100, 0).here, HasSubstr("0x0000 here and 0xffff there are not both valid"));
}

TEST_F(Partitions, AreCheckedForEveryEndpoint) {
  Side a(device_, 1), b(device_, 1);
  a.Add(device_, {.pkey_index = 2});
  b.Add(device_, {.pkey_index = 0});
  EXPECT_THAT(Connect(Plainly(a), Plainly(b)).here, HasSubstr("the partition keys of endpoint 1 (QP "));
}

}  // namespace
}  // namespace warpverbs::host
