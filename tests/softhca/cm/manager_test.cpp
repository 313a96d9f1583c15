#include "cm/manager.hpp"

#include <random>

#include "manager_fixture.hpp"

/// Tests how connections are established or refused.
namespace softhca::cm {
namespace {

using testing::ElementsAre;

TEST_F(CmTest, GivesBothSidesTheTermsOfTheirQueuePairs) {
  Establish();
  const Terms& own = active.connection->terms();
  const Terms& peer = passive.connection->terms();
  EXPECT_EQ(own.remote_qpn, 0x202u);
  EXPECT_EQ(peer.remote_qpn, 0x101u);
  EXPECT_EQ(own.send_psn, 0x2222u) << "the peer chooses the first PSN";
  EXPECT_EQ(peer.send_psn, 0x1111u);
  EXPECT_EQ(own.responder_resources, 1) << "as many as the peer has in flight";
  EXPECT_EQ(own.initiator_depth, 2) << "as many as the peer can answer";
  EXPECT_EQ(peer.retry_count, 5);
  EXPECT_EQ(peer.rnr_retry_count, 6);
  EXPECT_EQ(own.rnr_retry_count, 4);
  EXPECT_EQ(own.mtu, peer.mtu);
}

TEST_F(CmTest, SwapsReadLimitsForThePassiveSide) {
  Request();
  DeliverAll();
  EXPECT_EQ(passive.connection->terms().responder_resources, 2);
  EXPECT_EQ(passive.connection->terms().initiator_depth, 3);
  EXPECT_EQ(passive.private_data.size(), 92u);
  EXPECT_EQ(passive.private_data[1], 'i');
}

TEST_F(CmTest, LimitsTheAckTimeoutToWhatQueuePairsAccept) {
  Request();
  Deliver({GidOf(2), GidOf(1),
           Encode({.body = Rep{
                       .local_id = 7, .remote_id = active.connection->local_id(), .target_ack_delay = 31}})});
  EXPECT_THAT(active.notices, ElementsAre(Notice{Kind::kReply, 0}));
  EXPECT_EQ(active.connection->terms().ack_timeout, 31);
}

TEST_F(CmTest, RejectsARequestWithoutAListener) {
  active.connection = &active.manager.MakeConnection(ToPassive());
  active.connection->set_user(&active);
  active.connection->Request(kServiceId + 1, active_offer);
  DeliverAll();
  EXPECT_THAT(active.notices, ElementsAre(Notice{Kind::kRejected, 8}));
}

TEST_F(CmTest, DeliversRequestsOnlyToListenersThatMatch) {
  passive.matches = false;
  Request();
  DeliverAll();
  EXPECT_THAT(active.notices, ElementsAre(Notice{Kind::kRejected, 8}));
  Side other{cable, 3, 3000};
  passive.manager.Listen(kServiceId, other);
  Request();
  DeliverAll();
  EXPECT_EQ(passive.requests, 0);
  EXPECT_EQ(other.requests, 1);
  passive.manager.StopListening(other);
}

TEST_F(CmTest, RejectionCarriesReasonAndPrivateData) {
  Request();
  DeliverAll();
  EXPECT_TRUE(passive.connection->Reject(28, hello));
  DeliverAll();
  EXPECT_THAT(active.notices, ElementsAre(Notice{Kind::kRejected, 28}));
  ASSERT_EQ(active.private_data.size(), 148u);
  EXPECT_EQ(active.private_data[0], 'h');
}

TEST_F(CmTest, RepeatsALostRejection) {
  Request();
  DeliverAll();
  passive.connection->Reject(28, hello);
  cable.sent.clear();
  ASSERT_TRUE(PassTime());
  DeliverAll();
  EXPECT_THAT(active.notices, ElementsAre(Notice{Kind::kRejected, 28}));
}

TEST_F(CmTest, RejectsWhenTheListenerRefuses) {
  passive.refuses = true;
  Request();
  DeliverAll();
  EXPECT_THAT(active.notices, ElementsAre(Notice{Kind::kRejected, 28}));
}

TEST_F(CmTest, ActiveSideRejectsTheReply) {
  Request();
  DeliverAll();
  passive.connection->Reply(passive_offer);
  DeliverAll();
  EXPECT_TRUE(active.connection->Reject(28, {}));
  DeliverAll();
  EXPECT_THAT(passive.notices, ElementsAre(Notice{Kind::kRejected, 28}));
  EXPECT_FALSE(active.connection->Confirm());
}

TEST_F(CmTest, ConnectsInSpiteOfLossesAndDuplicates) {
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
      if (!active.notices.empty() && !confirmed) confirmed = active.connection->Confirm();
      if (!passive.notices.empty() && !disconnected) disconnected = active.connection->Disconnect();
      if (passive.notices.size() > 1) passive.connection->Disconnect();
    }
    EXPECT_EQ(std::exchange(passive.requests, 0), 1);
    EXPECT_THAT(active.TakeNotices(), ElementsAre(Notice{Kind::kReply, 0}, Notice{Kind::kDisconnected, 0},
                                                  Notice{Kind::kTimewaitExit, 0}));
    EXPECT_THAT(passive.TakeNotices(),
                ElementsAre(Notice{Kind::kEstablished, 0}, Notice{Kind::kDisconnected, 0},
                            Notice{Kind::kTimewaitExit, 0}));
    active.manager.Release(*active.connection);
    passive.manager.Release(*passive.connection);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST_F(CmTest, ReportsUnreachableWithoutAnAnswer) {
  Request();
  cable.sent.clear();
  size_t repetitions = 0;
  while (active.notices.empty()) {
    ASSERT_TRUE(PassTime());
    repetitions += cable.sent.size();
    for (const auto& sent : cable.sent) EXPECT_EQ(sent.mad[17], active.notices.empty() ? 0x10 : 0x12);
    cable.sent.clear();
  }
  EXPECT_THAT(active.notices, ElementsAre(Notice{Kind::kUnreachable, -ETIMEDOUT}));
  EXPECT_EQ(repetitions, Transaction::kRetries + 1u) << "and a rejection after the timeout";
  EXPECT_LT(cable.now_ns, 10 * kSecond);
  EXPECT_EQ(active.manager.NextNs(), UINT64_MAX);
}

TEST_F(CmTest, WaitsForASlowProgram) {
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
  EXPECT_THAT(active.notices, ElementsAre(Notice{Kind::kReply, 0}));
}

TEST_F(CmTest, PeerCannotMakeARequestWaitForHours) {
  Request();
  DeliverAll();
  ASSERT_TRUE(PassTime());
  DeliverNext();  // the repeated request
  Cable::Sent answer = cable.sent.front();
  cable.sent.clear();
  Message message = answer.message();
  std::get<Mra>(message.body).service_timeout = 31;  // 2.4 h
  answer.mad = Encode(message);
  Deliver(answer);
  EXPECT_FALSE(PassTime(60 * kSecond));
  EXPECT_TRUE(PassTime(80 * kSecond)) << "the request is repeated";
}

TEST_F(CmTest, FirstDataEstablishesTheConnection) {
  Request();
  DeliverAll();
  passive.connection->Reply(passive_offer);
  DeliverAll();
  active.connection->Confirm();
  cable.sent.clear();  // the RTU is lost
  EXPECT_TRUE(passive.connection->NoteEstablished());
  EXPECT_THAT(passive.notices, ElementsAre(Notice{Kind::kEstablished, 0}));
  EXPECT_FALSE(PassTime());
}

}  // namespace
}  // namespace softhca::cm
