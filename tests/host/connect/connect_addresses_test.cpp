// Choice of GIDs by ConnectAll(), on two devices with two ports each. Each port has a link-local and an IPv4
// address, for RoCE v1 and v2.
#include <gmock/gmock.h>

#include <array>
#include <set>

#include "host/connect/connect_all_fixture.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/gid.hpp"

namespace warpverbs::host {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ConnectAddresses : public ConnectAllTest {
 protected:
  std::vector<GidEntry> Gids(uint8_t port = 1) const { return device_.Gids(device_.ActivePort(port)); }

  EndpointConfig At(GidType type, bool link_local, uint8_t port = 1) const {
    for (const GidEntry& entry : Gids(port)) {
      if (entry.type == type && IsLinkLocal(entry.gid) == link_local)
        return {.port = port, .gid_index = static_cast<int>(entry.index)};
    }
    ADD_FAILURE() << "the port has no such GID";
    return {};
  }
};

TEST_F(ConnectAddresses, UsesTheGidThatEitherSideNames) {
  const std::vector<GidEntry> gids = Gids();
  ASSERT_EQ(gids.size(), 4u);
  for (const GidEntry& gid : gids) {
    Side named(device_, 1, {.gid_index = static_cast<int>(gid.index)}), free(device_, 1, {.port = 2});
    ExpectConnects(named, free);
    const GidEntry &at_name = named.list()[0]->address().gid, &chosen = free.list()[0]->address().gid;
    EXPECT_EQ(at_name, gid);
    EXPECT_EQ(chosen.type, gid.type);
    EXPECT_EQ(IsIpv4Mapped(chosen.gid), IsIpv4Mapped(gid.gid));
    EXPECT_EQ(named.list()[0]->peer()->gid, chosen.gid);
    EXPECT_THAT(named.list()[0]->Describe(), HasSubstr(", GID " + std::to_string(gid.index) + " (as asked)"));
    EXPECT_THAT(free.list()[0]->Describe(),
                HasSubstr(", GID " + std::to_string(chosen.index) + " (the best pair with the peer's " +
                          ToString(gid.gid) + ", with "));
  }
}

TEST_F(ConnectAddresses, MatchesTheKindOfANamedPeer) {
  const Gid neighbour{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
  Side near(device_, 1, {.peer_gid = neighbour}), free(device_, 1, {.port = 2});
  ExpectConnects(near, free);
  EXPECT_TRUE(IsLinkLocal(free.list()[0]->address().gid.gid));
  EXPECT_THAT(near.list()[0]->Describe(), HasSubstr("(the best for the peer's fe80::9, with "));
}

TEST_F(ConnectAddresses, ChoosesTheBestPairByDefault) {
  Side a(device_, 2), b(device_, 2, {.port = 2});
  ExpectConnects(a, b);
  const EndpointInfo here = a.list()[1]->Info(), there = b.list()[1]->Info();
  EXPECT_EQ(here.gid_type, GidType::kRoceV2);
  EXPECT_TRUE(IsIpv4Mapped(here.gid) && IsIpv4Mapped(there.gid));
  EXPECT_EQ(a.list()[1]->peer(), there);
  EXPECT_EQ(b.list()[1]->peer(), here);
  EXPECT_THAT(a.list()[1]->Describe(),
              HasSubstr(" (" + DescribePair(here.gid, there.gid) + "), pkey index 0\n"));
}

TEST_F(ConnectAddresses, ChoosesAgainAfterReset) {
  Side a(device_, 1), free(device_, 1, {.port = 2}), v1(device_, 1, At(GidType::kRoceV1, true, 2));
  ExpectConnects(a, v1);
  EXPECT_EQ(a.list()[0]->address().gid.type, GidType::kRoceV1);
  a.Reset();
  EXPECT_EQ(a.list()[0]->Info().gid_type, GidType::kRoceV1) << "until there is another peer";
  ExpectConnects(a, free);
  EXPECT_EQ(a.list()[0]->address().gid.type, GidType::kRoceV2);
}

TEST_F(ConnectAddresses, ChoosesForEachPortSeparately) {
  const Device other(DeviceNames().at(1));
  Side a(device_, 0), b(device_, 0);
  const auto add = [](Side& side, const Device& device, const EndpointConfig& config) {
    for (int i = 0; i < 3; ++i) side.Add(device, config);
  };
  add(a, device_, {.port = 1});
  add(b, other, {.port = 2});
  add(a, device_, {.port = 2});
  add(b, device_, {.port = 1});
  add(a, other, {.port = 1});
  add(b, device_, At(GidType::kRoceV2, true, 2));
  ExpectConnects(a, b);
  std::set<std::array<uint8_t, 16>> senders;
  for (size_t i = 0; i < a.list().size(); ++i) {
    for (const Endpoint* const one : {a.list()[i], b.list()[i]}) {
      const GidEntry& gid = one->address().gid;
      EXPECT_EQ(IsLinkLocal(gid.gid), i >= 6);
      EXPECT_THAT(one->device().Gids(one->address().port), testing::Contains(gid));
      senders.insert(gid.gid.raw);
    }
  }
  EXPECT_EQ(senders.size(), 5u) << "four ports, and a second address of one of them";
}

TEST_F(ConnectAddresses, RejectsDifferentFamiliesOnBothSides) {
  Side a(device_, 1), b(device_, 1, {.port = 2});
  Endpoint& here = a.Add(device_, At(GidType::kRoceV2, true));
  Endpoint& there = b.Add(device_, At(GidType::kRoceV2, false, 2));
  const std::string ours = "RoCE v2 " + ToString(here.Info().gid);
  const std::string theirs = "RoCE v2 " + ToString(there.Info().gid);
  const auto refusal = [this](const Endpoint& one, const std::string& own, const std::string& other) {
    return "endpoint 1 (QP " + std::to_string(one.qpn()) + " on " + device_.name() +
           ") and its peer have no GIDs of one type and family to send from: " + own + " here, " + other +
           " there. Use ports of one link layer with addresses of one family, and set ";
  };
  const Sentences sentences = Connect(Plainly(a), Plainly(b));
  EXPECT_THAT(sentences.here, HasSubstr(refusal(here, ours, theirs)));
  EXPECT_THAT(sentences.there, HasSubstr(refusal(there, theirs, ours)));
  EXPECT_TRUE(a.AllAre(mlx5::QpState::kReset));
  EXPECT_TRUE(b.AllAre(mlx5::QpState::kReset));
}

TEST_F(ConnectAddresses, RejectsDifferentGidTypesOnBothSides) {
  Side v1(device_, 1, At(GidType::kRoceV1, false)), v2(device_, 1, At(GidType::kRoceV2, false));
  const Sentences sentences = Connect(Plainly(v1), Plainly(v2));
  EXPECT_THAT(sentences.here, AllOf(HasSubstr("to send from: RoCE v1 "), HasSubstr(" here, RoCE v2 ")));
  EXPECT_THAT(sentences.there, AllOf(HasSubstr("to send from: RoCE v2 "), HasSubstr(" here, RoCE v1 ")));
}

TEST_F(ConnectAddresses, SendsEachPortsGidsOnce) {
  const auto bytes = [this](size_t count) {
    Side a(device_, count, {.depth = 16}), b(device_, count, {.depth = 16});
    size_t size = 0;
    const Sentences sentences = Connect(Tampered(a,
                                                 [&](int swap, const auto& answer) {
                                                   if (swap == 0) size = answer.size();
                                                 }),
                                        Plainly(b));
    EXPECT_EQ(sentences.here + sentences.there, "");
    return size;
  };
  constexpr size_t kPlace = 12, kTableAndKey = 4;
  EXPECT_EQ(bytes(41) - bytes(1), 40 * (EndpointInfo::kBytes + kPlace + kTableAndKey));
}

TEST_F(ConnectAddresses, AllowsManualChoiceOnlyBeforeConnecting) {
  Endpoint a(device_), b(device_, At(GidType::kRoceV1, true));
  for (const GidEntry& gid : Gids()) {
    if (gid.type == GidType::kRoceV1 && IsLinkLocal(gid.gid)) a.SendFrom(gid, b.Info().gid);
  }
  EXPECT_EQ(a.Info().gid, b.Info().gid) << "both use the same port";
  a.Connect(b.Info());
  EXPECT_THAT(SentenceOf([&] { a.SendFrom(Gids().back(), b.Info().gid); }),
              AllOf(HasSubstr("Cannot change the GID of QP " + std::to_string(a.qpn()) + " on "),
                    HasSubstr(": it has been connected. Call Reset() on both sides first.")));
  a.Reset();
  a.SendFrom(Gids().back(), b.Info().gid);
  EXPECT_EQ(a.address().gid, Gids().back());
}

TEST_F(ConnectAddresses, KeepsNamedGids) {
  Endpoint named(device_, At(GidType::kRoceV1, true));
  const GidEntry own = named.address().gid;
  named.SendFrom(own, own.gid);
  EXPECT_THAT(SentenceOf([&] { named.SendFrom(Gids().back(), own.gid); }),
              HasSubstr(": EndpointConfig names RoCE v1 " + ToString(own.gid) +
                        ". Leave gid_index and peer_gid unset to choose "));
  EXPECT_EQ(named.address().gid, own);
}

}  // namespace
}  // namespace warpverbs::host
