#include "manager_fixture.hpp"

/// Tests how connections end, and messages that belong to none.
namespace softhca::cm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(CmTest, DisconnectsWhenThePeersProcessEnds) {
  for (const uint64_t later : {0, 8}) {  // no process; another process at the same address
    cable.process = 7;
    Establish();
    EXPECT_FALSE(PassTime(10 * kSecond)) << "the process lives";
    cable.process = kUnknownProcess;
    EXPECT_FALSE(PassTime(10 * kSecond)) << "the process may live";
    cable.process = later;
    EXPECT_TRUE(PassTime(2 * kSecond));
    EXPECT_THAT(active.TakeNotices(), ElementsAre(Notice{Kind::kDisconnected, -ECONNRESET}));
    EXPECT_THAT(passive.TakeNotices(), ElementsAre(Notice{Kind::kDisconnected, -ECONNRESET}));
    EXPECT_FALSE(active.connection->Disconnect()) << "the peer is gone";
    active.manager.Release(*active.connection);
    passive.manager.Release(*passive.connection);
    passive.requests = 0;
  }
}

TEST_F(CmTest, WatchesAProcessThatIsUnknownAtFirst) {
  cable.process = kUnknownProcess;
  Establish();
  EXPECT_FALSE(PassTime(10 * kSecond)) << "the process may live";
  cable.process = 7;
  EXPECT_FALSE(PassTime(10 * kSecond)) << "the process lives";
  cable.process = 0;
  EXPECT_TRUE(PassTime(2 * kSecond));
  EXPECT_THAT(active.TakeNotices(), ElementsAre(Notice{Kind::kDisconnected, -ECONNRESET}));
}

TEST_F(CmTest, PeerCannotMakeTimewaitLastForHours) {
  Request();
  Cable::Sent request = cable.sent.front();
  Message message = request.message();
  std::get<Req>(message.body).ack_timeout = 31;  // 2.4 h
  request.mad = Encode(message);
  Deliver(request);
  ASSERT_TRUE(passive.connection->Reply(passive_offer));
  ASSERT_TRUE(passive.connection->NoteEstablished());
  passive.connection->OnPeerLost();
  cable.sent.clear();
  passive.notices.clear();
  while (passive.notices.empty()) {
    ASSERT_TRUE(PassTime(100 * kSecond));
    cable.sent.clear();
  }
  EXPECT_THAT(passive.TakeNotices(), ElementsAre(Notice{Kind::kTimewaitExit, 0}));
}

TEST_F(CmTest, EitherSideDisconnects) {
  Establish();
  EXPECT_TRUE(passive.connection->Disconnect());
  DeliverAll();
  EXPECT_THAT(active.TakeNotices(), ElementsAre(Notice{Kind::kDisconnected, 0}));
  EXPECT_TRUE(active.connection->Disconnect());
  DeliverAll();
  EXPECT_THAT(passive.TakeNotices(), ElementsAre(Notice{Kind::kDisconnected, 0}));
  EXPECT_FALSE(passive.connection->Disconnect()) << "the connection has already ended";
}

TEST_F(CmTest, BothSidesDisconnectAtOnce) {
  Establish();
  EXPECT_TRUE(active.connection->Disconnect());
  EXPECT_TRUE(passive.connection->Disconnect());
  DeliverAll();
  EXPECT_THAT(active.notices, ElementsAre(Notice{Kind::kDisconnected, 0}));
  EXPECT_THAT(passive.notices, ElementsAre(Notice{Kind::kDisconnected, 0}));
}

TEST_F(CmTest, DisconnectEndsWhenThePeerHasVanished) {
  Establish();
  active.connection->Disconnect();
  while (active.notices.empty()) {
    cable.sent.clear();
    ASSERT_TRUE(PassTime());
  }
  EXPECT_THAT(active.notices, ElementsAre(Notice{Kind::kDisconnected, -ETIMEDOUT}));
}

TEST_F(CmTest, ReleaseDisconnectsThePeer) {
  Establish();
  active.manager.Release(*active.connection);
  DeliverAll();
  EXPECT_THAT(passive.notices, ElementsAre(Notice{Kind::kDisconnected, 0}));
  passive.connection->Disconnect();
  DeliverAll();
  EXPECT_TRUE(PassTime());
  EXPECT_THAT(passive.notices, ElementsAre(Notice{Kind::kDisconnected, 0}, Notice{Kind::kTimewaitExit, 0}));
  EXPECT_FALSE(PassTime()) << "no timer is left";
}

TEST_F(CmTest, AcceptorThatLeavesEarlyRejectsAnEstablishedConnection) {
  Request();
  DeliverAll();
  ASSERT_TRUE(passive.connection->Reply(passive_offer));
  DeliverAll();
  ASSERT_TRUE(active.connection->Confirm());
  active.notices.clear();
  cable.sent.clear();  // the RTU has not arrived yet
  passive.manager.Release(*passive.connection);
  DeliverAll();
  EXPECT_THAT(active.TakeNotices(),
              ElementsAre(Notice{Kind::kRejected, static_cast<int>(RejectReason::kConsumer)}));
  EXPECT_FALSE(active.connection->Disconnect()) << "the connection has already ended";
  EXPECT_TRUE(PassTime());
  EXPECT_THAT(active.notices, ElementsAre(Notice{Kind::kTimewaitExit, 0}));
}

TEST_F(CmTest, WithdrawnRequestIsRejectedAtThePeer) {
  Request();
  DeliverAll();
  active.manager.Release(*active.connection);
  ASSERT_EQ(cable.sent.size(), 1u);
  const auto info = std::get<Rej>(cable.sent.front().message().body).info;
  EXPECT_THAT((std::vector(info.begin(), info.begin() + 8)), ElementsAre(0, 0, 0, 0, 0, 0, 0, 1))
      << "its GUID";
  DeliverAll();
  EXPECT_THAT(passive.notices, ElementsAre(Notice{Kind::kRejected, 4}));
  EXPECT_FALSE(passive.connection->Reply(passive_offer));
}

TEST_F(CmTest, AnswersTheDisconnectOfAForgottenConnection) {
  Establish();
  passive.manager.Release(*passive.connection);
  cable.sent.clear();
  while (PassTime()) cable.sent.clear();
  ASSERT_THAT(active.notices, IsEmpty());
  active.connection->Disconnect();
  DeliverAll();
  EXPECT_THAT(active.notices, ElementsAre(Notice{Kind::kDisconnected, 0}));
}

TEST_F(CmTest, RequestOfARestartedPeerEndsItsOldConnection) {
  Establish();
  const Connection* const old = passive.connection;
  Side restarted(cable, 1, 5000);  // the same address and queue pair
  restarted.manager.MakeConnection({&restarted.hca, 1, 1, GidOf(2)}).Request(kServiceId, active_offer);
  DeliverAll();
  EXPECT_EQ(passive.requests, 2);
  EXPECT_NE(passive.connection, old);
  EXPECT_THAT(passive.notices, ElementsAre(Notice{Kind::kDisconnected, -ECONNRESET}));
}

TEST_F(CmTest, DeclinesAlternatePaths) {
  Establish();
  cable.SendMad(active.hca, 1, 1, GidOf(2),
                Encode({.body = Lap{active.connection->local_id(), passive.connection->local_id()}}));
  DeliverNext();
  ASSERT_EQ(cable.sent.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Apr>(cable.sent.front().message().body));
}

TEST_F(CmTest, FindsServicesInSpiteOfLosses) {
  active.query = &active.manager.MakeQuery(ToPassive());
  active.query->set_user(&active);
  EXPECT_TRUE(active.query->Ask(kServiceId, hello));
  cable.sent.clear();  // the query is lost and repeated
  ASSERT_TRUE(PassTime());
  DeliverAll();
  ASSERT_EQ(passive.requests, 1);
  EXPECT_TRUE(passive.query->Answer(SidrStatus::kValid, 0x303, 0x01234567, hello));
  cable.sent.clear();
  ASSERT_TRUE(PassTime());
  DeliverAll();
  EXPECT_EQ(passive.requests, 1);
  EXPECT_THAT(active.notices, ElementsAre(Notice{Kind::kEstablished, 0}));
  EXPECT_EQ(active.query->qpn(), 0x303u);
  EXPECT_EQ(active.query->qkey(), 0x01234567u);
}

TEST_F(CmTest, ReportsMissingServicesAsUnreachable) {
  active.query = &active.manager.MakeQuery(ToPassive());
  active.query->set_user(&active);
  active.query->Ask(kServiceId + 1, {});
  DeliverAll();
  EXPECT_THAT(active.TakeNotices(), ElementsAre(Notice{Kind::kUnreachable, 1}));
  passive.refuses = true;
  ServiceQuery& refused = active.manager.MakeQuery(ToPassive());
  refused.set_user(&active);
  refused.Ask(kServiceId, {});
  DeliverAll();
  EXPECT_THAT(active.notices, ElementsAre(Notice{Kind::kUnreachable, 2}));
}

TEST_F(CmTest, IgnoresMessagesOfStrangers) {
  Establish();
  const uint32_t id = passive.connection->local_id();
  cable.sent.clear();
  for (const Message& message :
       {Message{.body = Dreq{7, id, 0x202}}, Message{.body = Rej{.local_id = 7, .remote_id = id}},
        Message{.body = Rtu{7, id}}, Message{.body = Mra{7, id}}, Message{.body = Drep{7, id}},
        Message{.body = SidrRep{.request_id = id}}}) {
    Deliver({GidOf(9), GidOf(2), Encode(message)});
  }
  EXPECT_THAT(passive.notices, IsEmpty());
  EXPECT_TRUE(passive.connection->Disconnect());
}

}  // namespace
}  // namespace softhca::cm
