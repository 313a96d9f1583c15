#include "cm/manager.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <deque>
#include <random>
#include <vector>

namespace softhca::cm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = Event::Kind;

constexpr uint64_t kServiceId = 0x01061c06;

Gid GidOf(uint8_t last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 83, 1, last}; }

DeviceConfig ConfigOf(uint8_t last) {
  PortConfig port;
  port.gids = {{GidOf(last), mlx5::RoceVersion::kV1}, {GidOf(last), mlx5::RoceVersion::kV2}};
  return {.name = "mlx5_0", .guid = last, .ports = {port}};
}

/// Carries MADs between sides, and can lose them. Time passes when the test says so.
class Cable : public ManagementSink {
 public:
  void SendMad(Hca& hca, uint8_t port, uint8_t gid_index, const Gid& destination, const Mad& mad) override {
    const Gid& source = hca.config().ports[port - 1u].gids[gid_index].gid;
    sent.push_back({source, destination, mad});
  }

  struct Sent {
    Gid source, destination;
    Mad mad;
    Message message() const { return Decode(mad).value(); }
  };
  std::deque<Sent> sent;
  uint64_t now_ns = 1'000;
  std::optional<uint64_t> process;  ///< of both sides
};

struct Told {
  Kind kind;
  int32_t status;
  friend bool operator==(const Told&, const Told&) = default;
};

/// One side: a device, its manager, and a user that writes down what it is told.
class Side : public User, public Listener {
 public:
  Side(Cable& cable, uint8_t last, uint32_t first_id)
      : hca(ConfigOf(last)),
        manager(
            cable, [&cable] { return cable.now_ns; }, first_id,
            [&cable](const Gid&) { return cable.process; }) {}

  void OnEvent(const Event& event) override {
    told.push_back({event.kind, event.status});
    private_data.assign(event.private_data.begin(), event.private_data.end());
  }
  bool OnRequest(Connection& request, const Req& req) override {
    if (refuses) return false;
    connection = &request;
    connection->set_user(this);
    private_data.assign(req.private_data.begin(), req.private_data.end());
    ++requests;
    return true;
  }
  bool OnRequest(ServiceQuery& asked, const SidrReq& /*req*/) override {
    if (refuses) return false;
    query = &asked;
    query->set_user(this);
    ++requests;
    return true;
  }
  std::vector<Told> TakeTold() { return std::exchange(told, {}); }

  Hca hca;
  ConnectionManager manager;
  Connection* connection = nullptr;
  ServiceQuery* query = nullptr;
  bool refuses = false;
  int requests = 0;
  std::vector<Told> told;
  std::vector<uint8_t> private_data;
};

class CmTest : public testing::Test {
 protected:
  CmTest() { passive.manager.Listen(kServiceId, {}, passive); }

  Side& Owner(const Gid& gid) { return gid == GidOf(1) ? active : passive; }

  void Deliver(const Cable::Sent& sent) {
    Side& to = Owner(sent.destination);
    to.manager.OnMad(
        to.hca, 1,
        {.source = sent.source, .destination = sent.destination, .version = mlx5::RoceVersion::kV2},
        sent.mad);
  }
  void DeliverNext() {
    const Cable::Sent next = cable.sent.front();
    cable.sent.pop_front();
    Deliver(next);
  }
  void DeliverAll() {
    while (!cable.sent.empty()) DeliverNext();
  }
  /// Lets time pass until something is sent or told.
  ///
  /// @return  false if nothing is within `most_ns`
  bool PassTime(uint64_t most_ns = UINT64_MAX / 2) {
    const uint64_t end = cable.now_ns + most_ns;
    const size_t told = active.told.size() + passive.told.size();
    while (cable.sent.empty() && active.told.size() + passive.told.size() == told) {
      const uint64_t next = std::min(active.manager.NextNs(), passive.manager.NextNs());
      if (next > end) return false;
      cable.now_ns = std::max(cable.now_ns, next);
      active.manager.OnTime(cable.now_ns);
      passive.manager.OnTime(cable.now_ns);
    }
    return true;
  }

  Route ToPassive() { return {&active.hca, 1, 1, GidOf(2)}; }
  void Request() {
    active.connection = &active.manager.MakeConnection(ToPassive());
    active.connection->set_user(&active);
    ASSERT_TRUE(active.connection->Request(kServiceId, active_offer));
  }
  void Establish() {
    Request();
    DeliverAll();
    ASSERT_EQ(passive.requests, 1);
    ASSERT_TRUE(passive.connection->Reply(passive_offer));
    DeliverAll();
    ASSERT_TRUE(active.connection->Confirm());
    DeliverAll();
    ASSERT_THAT(active.TakeTold(), ElementsAre(Told{Kind::kReply, 0}));
    ASSERT_THAT(passive.TakeTold(), ElementsAre(Told{Kind::kEstablished, 0}));
  }
  static constexpr uint64_t kSecond = 1'000'000'000;

  Cable cable;
  Side active{cable, 1, 1000}, passive{cable, 2, 2000};
  std::vector<uint8_t> hello{'h', 'i'};
  Offer active_offer{.qpn = 0x101,
                     .psn = 0x1111,
                     .responder_resources = 3,
                     .initiator_depth = 2,
                     .retry_count = 5,
                     .rnr_retry_count = 6,
                     .private_data = hello};
  Offer passive_offer{
      .qpn = 0x202, .psn = 0x2222, .responder_resources = 2, .initiator_depth = 1, .rnr_retry_count = 4};
};

TEST_F(CmTest, BothSidesLearnWhatTheirQueuePairsNeed) {
  Establish();
  const Terms& own = active.connection->terms();
  const Terms& peer = passive.connection->terms();
  EXPECT_EQ(own.remote_qpn, 0x202u);
  EXPECT_EQ(peer.remote_qpn, 0x101u);
  EXPECT_EQ(own.send_psn, 0x2222u) << "each side says where the other one shall begin";
  EXPECT_EQ(peer.send_psn, 0x1111u);
  EXPECT_EQ(own.responder_resources, 1) << "as many as the peer has in flight";
  EXPECT_EQ(own.initiator_depth, 2) << "as many as the peer can answer";
  EXPECT_EQ(peer.retry_count, 5);
  EXPECT_EQ(peer.rnr_retry_count, 6);
  EXPECT_EQ(own.rnr_retry_count, 4);
  EXPECT_EQ(own.mtu, peer.mtu);
}

TEST_F(CmTest, PassiveSideSeesTheRequestAsItsOwnLimits) {
  Request();
  DeliverAll();
  EXPECT_EQ(passive.connection->terms().responder_resources, 2);
  EXPECT_EQ(passive.connection->terms().initiator_depth, 3);
  EXPECT_EQ(passive.private_data.size(), 92u);
  EXPECT_EQ(passive.private_data[1], 'i');
}

TEST_F(CmTest, AckTimeoutIsOneThatQueuePairsTake) {
  Request();
  Deliver({GidOf(2), GidOf(1),
           Encode({.body = Rep{
                       .local_id = 7, .remote_id = active.connection->local_id(), .target_ack_delay = 31}})});
  EXPECT_THAT(active.told, ElementsAre(Told{Kind::kReply, 0}));
  EXPECT_EQ(active.connection->terms().ack_timeout, 31);
}

TEST_F(CmTest, NobodyListeningIsARejection) {
  active.connection = &active.manager.MakeConnection(ToPassive());
  active.connection->set_user(&active);
  active.connection->Request(kServiceId + 1, active_offer);
  DeliverAll();
  EXPECT_THAT(active.told, ElementsAre(Told{Kind::kRejected, 8}));
}

TEST_F(CmTest, ListenersHearOnlyWhatGoesToTheirAddress) {
  passive.manager.StopListening(passive);
  passive.manager.Listen(kServiceId, GidOf(3), passive);
  Request();
  DeliverAll();
  EXPECT_THAT(active.told, ElementsAre(Told{Kind::kRejected, 8}));
  passive.manager.Listen(kServiceId, GidOf(2), passive);
  Request();
  DeliverAll();
  EXPECT_EQ(passive.requests, 1);
}

TEST_F(CmTest, RejectionBringsReasonAndPrivateData) {
  Request();
  DeliverAll();
  EXPECT_TRUE(passive.connection->Reject(28, hello));
  DeliverAll();
  EXPECT_THAT(active.told, ElementsAre(Told{Kind::kRejected, 28}));
  ASSERT_EQ(active.private_data.size(), 148u);
  EXPECT_EQ(active.private_data[0], 'h');
}

TEST_F(CmTest, LostRejectionIsRepeated) {
  Request();
  DeliverAll();
  passive.connection->Reject(28, hello);
  cable.sent.clear();
  ASSERT_TRUE(PassTime());
  DeliverAll();
  EXPECT_THAT(active.told, ElementsAre(Told{Kind::kRejected, 28}));
}

TEST_F(CmTest, ListenerThatTakesNoMoreRejects) {
  passive.refuses = true;
  Request();
  DeliverAll();
  EXPECT_THAT(active.told, ElementsAre(Told{Kind::kRejected, 28}));
}

TEST_F(CmTest, ActiveSideMayRejectTheReply) {
  Request();
  DeliverAll();
  passive.connection->Reply(passive_offer);
  DeliverAll();
  EXPECT_TRUE(active.connection->Reject(28, {}));
  DeliverAll();
  EXPECT_THAT(passive.told, ElementsAre(Told{Kind::kRejected, 28}));
  EXPECT_FALSE(active.connection->Confirm());
}

TEST_F(CmTest, MessagesMayBeLostOrComeTwice) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Request();
    bool replied = false, confirmed = false, disconnected = false;
    while (!cable.sent.empty() || PassTime()) {
      if (!cable.sent.empty()) {
        const Cable::Sent next = cable.sent.front();
        cable.sent.pop_front();
        for (uint32_t copies = random() % 3; copies > 0; --copies) Deliver(next);
      }
      if (passive.requests > 0 && !replied) replied = passive.connection->Reply(passive_offer);
      if (!active.told.empty() && !confirmed) confirmed = active.connection->Confirm();
      if (!passive.told.empty() && !disconnected) disconnected = active.connection->Disconnect();
      if (passive.told.size() > 1) passive.connection->Disconnect();
    }
    EXPECT_EQ(std::exchange(passive.requests, 0), 1);
    EXPECT_THAT(active.TakeTold(), ElementsAre(Told{Kind::kReply, 0}, Told{Kind::kDisconnected, 0},
                                               Told{Kind::kTimewaitExit, 0}));
    EXPECT_THAT(passive.TakeTold(), ElementsAre(Told{Kind::kEstablished, 0}, Told{Kind::kDisconnected, 0},
                                                Told{Kind::kTimewaitExit, 0}));
    active.manager.Release(*active.connection);
    passive.manager.Release(*passive.connection);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST_F(CmTest, NoAnswerIsUnreachableInTheEnd) {
  Request();
  cable.sent.clear();
  size_t repetitions = 0;
  while (active.told.empty()) {
    ASSERT_TRUE(PassTime());
    repetitions += cable.sent.size();
    for (const auto& sent : cable.sent) EXPECT_EQ(sent.mad[17], active.told.empty() ? 0x10 : 0x12);
    cable.sent.clear();
  }
  EXPECT_THAT(active.told, ElementsAre(Told{Kind::kUnreachable, -ETIMEDOUT}));
  EXPECT_EQ(repetitions, Exchange::kRetries + 1u) << "and a rejection because of the time";
  EXPECT_LT(cable.now_ns, 10 * kSecond);
  EXPECT_EQ(active.manager.NextNs(), UINT64_MAX);
}

TEST_F(CmTest, SlowProgramIsGivenTime) {
  Request();
  DeliverAll();
  ASSERT_TRUE(PassTime());
  ASSERT_EQ(cable.sent.size(), 1u);
  DeliverNext();  // the repeated request
  ASSERT_EQ(cable.sent.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Mra>(cable.sent.front().message().body));
  DeliverAll();
  EXPECT_FALSE(PassTime(60 * kSecond)) << "nothing is repeated for a minute";
  EXPECT_EQ(passive.requests, 1);
  EXPECT_TRUE(passive.connection->Reply(passive_offer));
  DeliverAll();
  EXPECT_THAT(active.told, ElementsAre(Told{Kind::kReply, 0}));
}

TEST_F(CmTest, FirstDataEstablishesToo) {
  Request();
  DeliverAll();
  passive.connection->Reply(passive_offer);
  DeliverAll();
  active.connection->Confirm();
  cable.sent.clear();  // the last word is lost
  EXPECT_TRUE(passive.connection->NoteEstablished());
  EXPECT_THAT(passive.told, ElementsAre(Told{Kind::kEstablished, 0}));
  EXPECT_FALSE(PassTime());
}

TEST_F(CmTest, PeerWhoseProcessEndsIsDisconnected) {
  for (const uint64_t later : {0, 8}) {  // nobody; another one that has got the address
    cable.process = 7;
    Establish();
    EXPECT_FALSE(PassTime(10 * kSecond)) << "it lives";
    cable.process = std::nullopt;
    EXPECT_FALSE(PassTime(10 * kSecond)) << "it may live";
    cable.process = later;
    EXPECT_TRUE(PassTime(2 * kSecond));
    EXPECT_THAT(active.TakeTold(), ElementsAre(Told{Kind::kDisconnected, -ECONNRESET}));
    EXPECT_THAT(passive.TakeTold(), ElementsAre(Told{Kind::kDisconnected, -ECONNRESET}));
    EXPECT_FALSE(active.connection->Disconnect()) << "there is nobody to tell";
    active.manager.Release(*active.connection);
    passive.manager.Release(*passive.connection);
    passive.requests = 0;
  }
}

TEST_F(CmTest, EitherSideDisconnects) {
  Establish();
  EXPECT_TRUE(passive.connection->Disconnect());
  DeliverAll();
  EXPECT_THAT(active.TakeTold(), ElementsAre(Told{Kind::kDisconnected, 0}));
  EXPECT_TRUE(active.connection->Disconnect());
  DeliverAll();
  EXPECT_THAT(passive.TakeTold(), ElementsAre(Told{Kind::kDisconnected, 0}));
  EXPECT_FALSE(passive.connection->Disconnect()) << "once is enough";
}

TEST_F(CmTest, BothSidesDisconnectAtOnce) {
  Establish();
  EXPECT_TRUE(active.connection->Disconnect());
  EXPECT_TRUE(passive.connection->Disconnect());
  DeliverAll();
  EXPECT_THAT(active.told, ElementsAre(Told{Kind::kDisconnected, 0}));
  EXPECT_THAT(passive.told, ElementsAre(Told{Kind::kDisconnected, 0}));
}

TEST_F(CmTest, VanishedPeerDoesNotStopADisconnect) {
  Establish();
  active.connection->Disconnect();
  while (active.told.empty()) {
    cable.sent.clear();
    ASSERT_TRUE(PassTime());
  }
  EXPECT_THAT(active.told, ElementsAre(Told{Kind::kDisconnected, -ETIMEDOUT}));
}

TEST_F(CmTest, ReleaseTellsThePeer) {
  Establish();
  active.manager.Release(*active.connection);
  DeliverAll();
  EXPECT_THAT(passive.told, ElementsAre(Told{Kind::kDisconnected, 0}));
  passive.connection->Disconnect();
  DeliverAll();
  EXPECT_TRUE(PassTime());
  EXPECT_THAT(passive.told, ElementsAre(Told{Kind::kDisconnected, 0}, Told{Kind::kTimewaitExit, 0}));
  EXPECT_FALSE(PassTime()) << "nothing is left to wait for";
}

TEST_F(CmTest, RequestThatIsWithdrawnReachesTheOtherSide) {
  Request();
  DeliverAll();
  active.manager.Release(*active.connection);
  ASSERT_EQ(cable.sent.size(), 1u);
  const auto info = std::get<Rej>(cable.sent.front().message().body).info;
  EXPECT_THAT((std::vector(info.begin(), info.begin() + 8)), ElementsAre(0, 0, 0, 0, 0, 0, 0, 1))
      << "its GUID";
  DeliverAll();
  EXPECT_THAT(passive.told, ElementsAre(Told{Kind::kRejected, 4}));
  EXPECT_FALSE(passive.connection->Reply(passive_offer));
}

TEST_F(CmTest, WhatIsForgottenIsAnsweredAllTheSame) {
  Establish();
  passive.manager.Release(*passive.connection);
  cable.sent.clear();
  while (PassTime()) cable.sent.clear();
  ASSERT_THAT(active.told, IsEmpty());
  active.connection->Disconnect();
  DeliverAll();
  EXPECT_THAT(active.told, ElementsAre(Told{Kind::kDisconnected, 0}));
}

TEST_F(CmTest, PeerThatComesAgainHasForgottenItsOldConnection) {
  Establish();
  const Connection* const old = passive.connection;
  Side restarted(cable, 1, 5000);  // the same address and queue pair
  restarted.manager.MakeConnection({&restarted.hca, 1, 1, GidOf(2)}).Request(kServiceId, active_offer);
  DeliverAll();
  EXPECT_EQ(passive.requests, 2);
  EXPECT_NE(passive.connection, old);
  EXPECT_THAT(passive.told, ElementsAre(Told{Kind::kDisconnected, -ECONNRESET}));
}

TEST_F(CmTest, AlternatePathsAreDeclined) {
  Establish();
  cable.SendMad(active.hca, 1, 1, GidOf(2),
                Encode({.body = Lap{active.connection->local_id(), passive.connection->local_id()}}));
  DeliverNext();
  ASSERT_EQ(cable.sent.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Apr>(cable.sent.front().message().body));
}

TEST_F(CmTest, ServicesAreFound) {
  active.query = &active.manager.MakeQuery(ToPassive());
  active.query->set_user(&active);
  EXPECT_TRUE(active.query->Ask(kServiceId, hello));
  cable.sent.clear();  // lost, and asked again
  ASSERT_TRUE(PassTime());
  DeliverAll();
  ASSERT_EQ(passive.requests, 1);
  EXPECT_TRUE(passive.query->Answer(SidrStatus::kValid, 0x303, 0x01234567, hello));
  cable.sent.clear();
  ASSERT_TRUE(PassTime());
  DeliverAll();
  EXPECT_EQ(passive.requests, 1);
  EXPECT_THAT(active.told, ElementsAre(Told{Kind::kEstablished, 0}));
  EXPECT_EQ(active.query->qpn(), 0x303u);
  EXPECT_EQ(active.query->qkey(), 0x01234567u);
}

TEST_F(CmTest, ServicesThatThereAreNotAreUnreachable) {
  active.query = &active.manager.MakeQuery(ToPassive());
  active.query->set_user(&active);
  active.query->Ask(kServiceId + 1, {});
  DeliverAll();
  EXPECT_THAT(active.TakeTold(), ElementsAre(Told{Kind::kUnreachable, 1}));
  passive.refuses = true;
  ServiceQuery& refused = active.manager.MakeQuery(ToPassive());
  refused.set_user(&active);
  refused.Ask(kServiceId, {});
  DeliverAll();
  EXPECT_THAT(active.told, ElementsAre(Told{Kind::kUnreachable, 2}));
}

TEST_F(CmTest, StrangersChangeNothing) {
  Establish();
  const uint32_t id = passive.connection->local_id();
  cable.sent.clear();
  for (const Message& message :
       {Message{.body = Dreq{7, id, 0x202}}, Message{.body = Rej{.local_id = 7, .remote_id = id}},
        Message{.body = Rtu{7, id}}, Message{.body = Mra{7, id}}, Message{.body = Drep{7, id}},
        Message{.body = SidrRep{.request_id = id}}}) {
    Deliver({GidOf(9), GidOf(2), Encode(message)});
  }
  EXPECT_THAT(passive.told, IsEmpty());
  EXPECT_TRUE(passive.connection->Disconnect());
}

}  // namespace
}  // namespace softhca::cm
