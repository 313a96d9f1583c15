// A requester whose packets are lost or refused, or whose peer violates the protocol.
#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "wire/requester_fixture.hpp"

namespace softhca {
namespace {

using mlx5::CqeOpcode;
using mlx5::QpState;
using mlx5::Syndrome;
using mlx5::ToBe32;
using mlx5::ToBe64;
using mlx5::WqeOpcode;

TEST_F(PacketRequesterTest, IgnoresStrayAnswers) {
  Connect();
  Post(Write(3000));
  Run();
  Acknowledge(3);
  EXPECT_EQ(Completed(), -1) << "never sent";
  Acknowledge(2);
  EXPECT_EQ(Completed(), 0);
  Acknowledge(2);
  Acknowledge(1, aeth::kNakPsnSequence);
  Acknowledge(1, aeth::kNakRemoteAccess);
  Respond(PacketOp::kReadResponseOnly, 1, {});
  EXPECT_EQ(Completed(), -1);
  EXPECT_EQ(DescribeSent(), "WRITE_FIRST 0, WRITE_MIDDLE 1, WRITE_LAST 2 ack") << "sent before";
  EXPECT_EQ(a.qp().state, QpState::kRts);
}

TEST_F(PacketRequesterTest, SequenceNakResendsFromItsPacket) {
  Connect();
  Post(Write(5 * kMtu));
  Post(Send(8));
  Run();
  sink.sent.clear();
  Acknowledge(2, aeth::kNakPsnSequence);
  EXPECT_EQ(DescribeSent(), "WRITE_MIDDLE 2, WRITE_MIDDLE 3, WRITE_LAST 4 ack, SEND_ONLY 5 ack");
  Acknowledge(5);
  EXPECT_EQ(Completed(), 0);
  EXPECT_EQ(Completed(), 1);
}

TEST_F(PacketRequesterTest, SequenceNakAcknowledgesEarlierPackets) {
  Connect();
  Post(Write(8));
  Post(Write(8));
  Run();
  sink.sent.clear();
  Acknowledge(1, aeth::kNakPsnSequence);
  EXPECT_EQ(Completed(), 0);
  EXPECT_EQ(Completed(), -1);
  EXPECT_EQ(DescribeSent(), "WRITE_ONLY 1 ack");
}

TEST_F(PacketRequesterTest, RepeatedSequenceNaksUseUpRetries) {
  Connect({.retry_count = 2});
  Post(Write(2 * kMtu));
  Run();
  for (int i = 0; i < 4; ++i) Acknowledge(1, aeth::kNakPsnSequence);  // the first NAK shows progress
  EXPECT_EQ(Failed(), Syndrome::kTransportRetryExceeded);
}

TEST_F(PacketRequesterTest, AcknowledgementShortensTheRetransmission) {
  Connect();
  Post(Write(4 * kMtu));
  Run();
  sink.sent.clear();
  Acknowledge(1, aeth::kNakPsnSequence);
  Acknowledge(2);
  EXPECT_EQ(DescribeSent(), "WRITE_LAST 3 ack");
  Acknowledge(3);
  EXPECT_EQ(Completed(), 0);
}

TEST_F(PacketRequesterTest, TimeoutResendsFromTheOldestUntilRetriesRunOut) {
  Connect({.retry_count = 2});
  Post(Write(2 * kMtu));
  Post(Write(8));
  const std::string all = "WRITE_FIRST 0, WRITE_LAST 1 ack, WRITE_ONLY 2 ack";
  EXPECT_EQ(DescribeSent(), all);
  EXPECT_EQ(requester.NextNs(), now_ns + kAckTimeoutNs);
  now_ns += kAckTimeoutNs - 1;
  EXPECT_EQ(DescribeSent(), "");
  for (int i = 0; i < 2; ++i) {
    PassTimeout();
    EXPECT_EQ(DescribeSent(), all);
  }
  PassTimeout();
  EXPECT_EQ(DescribeSent(), "");
  EXPECT_EQ(Failed(), Syndrome::kTransportRetryExceeded);
  EXPECT_EQ(a.qp().send_index, 1u) << "flushing starts there";
  EXPECT_EQ(requester.NextNs(), UINT64_MAX);
}

TEST_F(PacketRequesterTest, ProgressRenewsRetriesAndTimer) {
  Connect({.retry_count = 1});
  Post(Write(3 * kMtu));
  Run();
  for (uint32_t i = 0; i < 2; ++i) {
    PassTimeout();
    Run();
    now_ns += kAckTimeoutNs / 2;
    Acknowledge(i);
    EXPECT_EQ(requester.NextNs(), now_ns + kAckTimeoutNs);
  }
  Acknowledge(2);
  EXPECT_EQ(Completed(), 0);
}

TEST_F(PacketRequesterTest, TimeInWhichThePeerDoesNotSleepIsNoRetry) {
  Connect({.retry_count = 0});
  Post(Write(8));
  Run();
  sink.sent.clear();
  sink.peer_stalled_at = 7;
  for (int i = 0; i < 20; ++i) {
    PassTimeout();
    Run();
  }
  EXPECT_EQ(a.qp().state, QpState::kRts);
  sink.peer_stalled_at = 8;
  PassTimeout();
  Run();
  EXPECT_EQ(Failed(), Syndrome::kTransportRetryExceeded)
      << "the peer had nothing to do, and has not answered";
}

TEST_F(PacketRequesterTest, PacketsForABusyPeerAreSentAgainLessAndLessOften) {
  Connect({.retry_count = 0});
  Post(Write(8));
  Run();
  sink.peer_stalled_at = 7;
  std::vector<int> resent;
  for (int timeout = 1; timeout <= 20; ++timeout) {
    sink.sent.clear();
    PassTimeout();
    Run();
    if (!sink.sent.empty()) resent.push_back(timeout);
  }
  EXPECT_EQ(resent, (std::vector{2, 4, 8, 16}));
}

TEST_F(PacketRequesterTest, PacketsForAStoppedPeerAreNotSentAgain) {
  Connect();
  Post(Write(8));
  Run();
  sink.peer_stalled_at = kStoppedPeer;
  sink.sent.clear();
  for (int i = 0; i < 20; ++i) {
    PassTimeout();
    Run();
  }
  EXPECT_EQ(DescribeSent(), "") << "they wait at the peer, or here";
  EXPECT_EQ(a.qp().state, QpState::kRts);
}

TEST_F(PacketRequesterTest, AStoppedPeerIsExcusedThoughItHasBeenAwake) {
  Connect({.retry_count = 0});
  Post(Write(8));
  Run();
  for (const uint64_t stalled_at : {kStoppedPeer, uint64_t{7}, kStoppedPeer, uint64_t{7}, kStoppedPeer}) {
    sink.peer_stalled_at = stalled_at;
    PassTimeout();
    Run();
    EXPECT_EQ(a.qp().state, QpState::kRts);
  }
  sink.peer_stalled_at = 8;
  PassTimeout();
  Run();
  EXPECT_EQ(Failed(), Syndrome::kTransportRetryExceeded) << "it slept between two stops";
}

TEST_F(PacketRequesterTest, APeerThatSleepsOrHasEndedIsNotExcused) {
  Connect({.retry_count = 0});
  Post(Write(8));
  Run();
  sink.peer_stalled_at = 7;
  PassTimeout();
  Run();
  EXPECT_EQ(a.qp().state, QpState::kRts);
  sink.peer_stalled_at.reset();
  PassTimeout();
  Run();
  EXPECT_EQ(Failed(), Syndrome::kTransportRetryExceeded);
}

TEST_F(PacketRequesterTest, APeerThatNeverSleepsIsExcusedForALimitedTime) {
  Connect({.retry_count = 0});
  Post(Write(8));
  Run();
  sink.peer_stalled_at = 7;
  const uint64_t begin_ns = now_ns;
  while (a.qp().state == QpState::kRts) {
    ASSERT_LE(now_ns, begin_ns + kLongestStallNs + 2 * kAckTimeoutNs);
    PassTimeout();
    Run();
  }
  EXPECT_EQ(Failed(), Syndrome::kTransportRetryExceeded);
  EXPECT_GE(now_ns, begin_ns + kLongestStallNs);
}

TEST_F(PacketRequesterTest, ProgressRenewsTheTimeInWhichAPeerIsExcused) {
  Connect({.retry_count = 0});
  Post(Write(8));
  Post(Write(8));
  Run();
  sink.peer_stalled_at = 7;
  PassTimeout();
  Run();
  now_ns += kLongestStallNs;
  Acknowledge(0);
  PassTimeout();
  Run();
  EXPECT_EQ(a.qp().state, QpState::kRts);
}

TEST_F(PacketRequesterTest, APauseRenewsTheTimeInWhichAPeerIsExcused) {
  Connect({.retry_count = 0});
  Post(Write(8));
  Run();
  sink.peer_stalled_at = 7;
  PassTimeout();
  Run();
  a.qp().paused = true;
  Run();
  now_ns += kLongestStallNs;
  a.qp().paused = false;
  Run();
  PassTimeout();
  Run();
  EXPECT_EQ(a.qp().state, QpState::kRts);
}

TEST_F(PacketRequesterTest, TimeInWhichTheEngineDoesNotRunRenewsTheTimeInWhichAPeerIsExcused) {
  Connect({.retry_count = 0});
  Post(Write(8));
  Run();
  sink.peer_stalled_at = 7;
  PassTimeout();
  Run();
  now_ns += kLongestStallNs;
  requester.OnStall(kLongestStallNs);
  PassTimeout();
  Run();
  EXPECT_EQ(a.qp().state, QpState::kRts);
}

/// Counts the timeouts that are reported.
class TimeoutCounter : public Observer {
 public:
  void OnTimeout(const QueuePair&) override { ++timeouts; }
  void OnStalledPeer(const QueuePair&) override { ++stalls; }
  int timeouts = 0, stalls = 0;
};

TEST_F(PacketRequesterTest, ReportsTheFirstExcusedTimeoutOfAStall) {
  TimeoutCounter counter;
  hca.SetObserver(&counter);
  Connect();
  Post(Write(8));
  Post(Write(8));
  Run();
  sink.peer_stalled_at = 7;
  for (int i = 0; i < 3; ++i) {
    PassTimeout();
    Run();
  }
  EXPECT_EQ(counter.stalls, 1);
  EXPECT_EQ(counter.timeouts, 0);
  Acknowledge(0);
  PassTimeout();
  Run();
  EXPECT_EQ(counter.stalls, 2);
  sink.peer_stalled_at.reset();
  PassTimeout();
  Run();
  EXPECT_EQ(counter.stalls, 2);
  EXPECT_EQ(counter.timeouts, 1);
  hca.SetObserver(nullptr);
}

TEST_F(PacketRequesterTest, TimeInWhichTheEngineDoesNotRunDelaysTheTimeout) {
  Connect();
  Post(Write(8));
  Run();
  const uint64_t due_ns = requester.NextNs();
  requester.OnStall(1'000'000'000);
  EXPECT_EQ(requester.NextNs(), due_ns + 1'000'000'000);
  Acknowledge(0);
  requester.OnStall(1);
  EXPECT_EQ(requester.NextNs(), UINT64_MAX) << "nothing is awaited";
}

TEST_F(PacketRequesterTest, RaisesShortTimeoutsAndWaitsForeverWithoutOne) {
  Connect({.ack_timeout = 1});
  Post(Write(8));
  Run();
  EXPECT_EQ(requester.NextNs(), now_ns + kMinAckTimeoutNs);
  a.Reset();
  Connect({.ack_timeout = 0});
  PacketRequester fresh(a.qp(), sink);
  Post(Write(8));
  fresh.Run(now_ns);
  EXPECT_EQ(fresh.NextNs(), UINT64_MAX);
}

/// A read and a compare-swap whose own memory has a wrong key.
class WrongLkeyTest : public PacketRequesterTest {
 protected:
  WrongLkeyTest() { Connect(); }

  WqeBuilder WrongRead() const {
    return WqeBuilder(WqeOpcode::kRdmaRead).Remote(0x10000, 0x55).Data(local.Address(), 8, local.key + 1);
  }
  WqeBuilder WrongFetchAdd() const {
    return WqeBuilder(WqeOpcode::kAtomicFa)
        .Remote(0x10000, 0x55)
        .Add(mlx5::AtomicSegment{ToBe64(1), {}})
        .Data(local.Address(), 8, local.key + 1);
  }
};

TEST_F(WrongLkeyTest, FailsAReadWhenItsResponseArrives) {
  Post(WrongRead());
  EXPECT_EQ(DescribeSent(), "READ_REQUEST 0 ack");
  Respond(PacketOp::kReadResponseOnly, 0, std::vector<uint8_t>(8));
  EXPECT_EQ(Failed(), Syndrome::kLocalProtection);
}

TEST_F(WrongLkeyTest, FailsAnAtomicWhenItsResponseArrives) {
  Post(WrongFetchAdd());
  EXPECT_EQ(DescribeSent(), "FETCH_ADD 0 ack");
  RespondToAtomic(0, 0);
  EXPECT_EQ(Failed(), Syndrome::kLocalProtection);
}

TEST_F(WrongLkeyTest, ReportsThePeersErrorOfARead) {
  Post(WrongRead());
  Run();
  Acknowledge(0, aeth::kNakRemoteAccess);
  EXPECT_EQ(Failed(), Syndrome::kRemoteAccess);
}

TEST_F(WrongLkeyTest, ReportsThePeersErrorOfAnAtomic) {
  Post(WrongFetchAdd());
  Run();
  Acknowledge(0, aeth::kNakRemoteAccess);
  EXPECT_EQ(Failed(), Syndrome::kRemoteAccess);
}

TEST_F(PacketRequesterTest, RnrNakDelaysTheRetransmission) {
  Connect({.rnr_retry = 2});
  Post(Send(2 * kMtu));
  Post(Write(8));
  Run();
  sink.sent.clear();
  for (int i = 0; i < 2; ++i) {
    Acknowledge(0, aeth::kRnrNak | 18);
    Acknowledge(0, aeth::kRnrNak | 18);  // a duplicate of the NAK
    EXPECT_EQ(DescribeSent(), "");
    EXPECT_EQ(requester.NextNs(), now_ns + 5'120'000);
    PassTimeout();
    EXPECT_EQ(DescribeSent(), "SEND_FIRST 0, SEND_LAST 1 ack, WRITE_ONLY 2 ack");
  }
  Acknowledge(0, aeth::kRnrNak | 18);
  EXPECT_EQ(Failed(), Syndrome::kReceiverNotReadyRetryExceeded);
}

TEST_F(PacketRequesterTest, LateSequenceNakDoesNotEndTheRnrWait) {
  Connect({.retry_count = 0});
  Post(Send(8));
  Run();
  sink.sent.clear();
  Acknowledge(0, aeth::kRnrNak | 18);
  Acknowledge(0, aeth::kNakPsnSequence);
  EXPECT_EQ(DescribeSent(), "");
  PassTimeout();
  EXPECT_EQ(DescribeSent(), "SEND_ONLY 0 ack");
}

TEST_F(PacketRequesterTest, NeverGivesUpWhenRnrRetryIsSeven) {
  Connect({.retry_count = 0, .rnr_retry = 7});
  Post(Send(8));
  Run();
  for (int i = 0; i < 1000; ++i) {
    Acknowledge(0, aeth::kRnrNak | 1);
    PassTimeout();
    Run();
  }
  Acknowledge(0);
  EXPECT_EQ(Completed(), 0);
}

TEST_F(PacketRequesterTest, FatalNakFailsTheWqeOfItsPacket) {
  const std::pair<uint8_t, Syndrome> causes[] = {{aeth::kNakInvalidRequest, Syndrome::kRemoteInvalidRequest},
                                                 {aeth::kNakRemoteAccess, Syndrome::kRemoteAccess},
                                                 {aeth::kNakRemoteOperation, Syndrome::kRemoteOperation},
                                                 {aeth::kNak | 4, Syndrome::kBadResponse}};
  for (const auto& [nak, syndrome] : causes) {
    Connect();
    PacketRequester fresh(a.qp(), sink);
    Post(Write(8));
    Post(Write(3 * kMtu));
    Post(Write(8));
    fresh.Run(now_ns);
    Packet packet;
    packet.op = PacketOp::kAcknowledge;
    packet.psn = PsnOf(2);
    packet.ack.syndrome = nak;
    fresh.OnResponse(packet, now_ns);
    EXPECT_EQ(Completed(), 0);
    const Cqe cqe = a.send_cq.Poll().value();
    EXPECT_EQ(cqe.syndrome, syndrome);
    EXPECT_EQ(cqe.wqe_index, 1);
    EXPECT_FALSE(a.send_cq.Poll()) << "flushing is not the requester's task";
    EXPECT_EQ(a.qp().state, QpState::kError);
    a.Reset();
  }
}

TEST_F(PacketRequesterTest, LostReadResponseRequestsTheRestOnce) {
  Connect();
  Post(Read(4 * kMtu));
  Post(Write(8));
  Run();
  sink.sent.clear();
  const std::vector<uint8_t> payload(kMtu);
  Respond(PacketOp::kReadResponseFirst, 0, payload);
  Respond(PacketOp::kReadResponseMiddle, 2, payload);
  const std::vector<SentPacket> sent = Sent();
  Respond(PacketOp::kReadResponseLast, 3, payload);
  Acknowledge(4);
  EXPECT_EQ(DescribeSent(), "");
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].packet.op, PacketOp::kReadRequest);
  EXPECT_EQ(sent[0].packet.psn, PsnOf(1));
  EXPECT_EQ(sent[0].packet.memory.address, 0x10000 + kMtu);
  EXPECT_EQ(sent[0].packet.memory.bytes, 3 * kMtu);
  EXPECT_EQ(sent[1].packet.op, PacketOp::kWriteOnly);
  Respond(PacketOp::kReadResponseFirst, 1, payload);  // response to a request of its own
  Respond(PacketOp::kReadResponseMiddle, 2, payload);
  Respond(PacketOp::kReadResponseLast, 3, payload);
  EXPECT_EQ(Completed(), 0);
  Acknowledge(4);
  EXPECT_EQ(Completed(), 1);
}

TEST_F(PacketRequesterTest, AcknowledgementPastAReadMeansALostResponse) {
  Connect();
  Post(Write(8));
  Post(Read(8));
  Post(Write(8));
  Run();
  sink.sent.clear();
  Acknowledge(2);
  EXPECT_EQ(Completed(), 0);
  EXPECT_EQ(Completed(), -1) << "only its response completes a read";
  EXPECT_EQ(DescribeSent(), "READ_REQUEST 1 ack, WRITE_ONLY 2 ack");
}

TEST_F(PacketRequesterTest, LostAtomicResponseResendsTheRequest) {
  Connect();
  Post(FetchAdd(5));
  EXPECT_EQ(DescribeSent(), "FETCH_ADD 0 ack");
  PassTimeout();
  const std::vector<SentPacket> sent = Sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].packet.psn, PsnOf(0));
  EXPECT_EQ(sent[0].packet.atomic.swap_add, 5u);
}

TEST_F(PacketRequesterTest, InvalidResponseIsABadResponse) {
  const std::vector<uint8_t> short_payload(kMtu - 1), whole(kMtu);
  const auto fails = [&](const WqeBuilder& wqe, const std::function<void(Packet&)>& answer) {
    Connect();
    PacketRequester fresh(a.qp(), sink);
    Post(wqe);
    fresh.Run(now_ns);
    Packet packet;
    packet.psn = PsnOf(0);
    answer(packet);
    fresh.OnResponse(packet, now_ns);
    const Syndrome syndrome = Failed();
    a.Reset();
    return syndrome;
  };
  const auto response = [](PacketOp op, const std::vector<uint8_t>& payload) {
    return [&payload, op](Packet& packet) { packet.op = op, packet.payload = payload; };
  };
  EXPECT_EQ(fails(Read(2 * kMtu), response(PacketOp::kReadResponseFirst, short_payload)),
            Syndrome::kBadResponse);
  EXPECT_EQ(fails(Read(2 * kMtu), response(PacketOp::kReadResponseOnly, whole)), Syndrome::kBadResponse);
  EXPECT_EQ(fails(Read(kMtu), response(PacketOp::kReadResponseFirst, whole)), Syndrome::kBadResponse);
  EXPECT_EQ(fails(Read(kMtu), response(PacketOp::kReadResponseOnly, short_payload)), Syndrome::kBadResponse);
  EXPECT_EQ(fails(Read(8), response(PacketOp::kAtomicAcknowledge, whole)), Syndrome::kBadResponse);
  EXPECT_EQ(fails(Write(kMtu), response(PacketOp::kReadResponseOnly, whole)), Syndrome::kBadResponse);
  EXPECT_EQ(fails(FetchAdd(1), response(PacketOp::kReadResponseOnly, whole)), Syndrome::kBadResponse);
}

TEST_F(PacketRequesterTest, FaultyWqeFailsAfterEarlierOnes) {
  Connect();
  Post(Write(8));
  Post(WqeBuilder(WqeOpcode::kRdmaWrite).Remote(0, 0).Data(local.Address(), 8, local.key + 1));
  Post(Write(8));
  EXPECT_EQ(DescribeSent(), "WRITE_ONLY 0 ack");
  EXPECT_EQ(a.qp().state, QpState::kRts);
  Acknowledge(0);
  EXPECT_EQ(DescribeSent(), "");
  EXPECT_EQ(Completed(), 0);
  EXPECT_EQ(Failed(), Syndrome::kLocalProtection);
}

TEST_F(PacketRequesterTest, DeregisteredMemoryFailsTheWqeThatNeedsIt) {
  Connect();
  const Region gone(hca, pd, 8192);
  Post(Write(8));
  Post(WqeBuilder(WqeOpcode::kRdmaRead).Remote(0, 0).Data(gone.Address(), kMtu, gone.key));
  Run();
  hca.DeregisterMemory(gone.key);
  Respond(PacketOp::kReadResponseOnly, 1, std::vector<uint8_t>(kMtu, 0xee));
  EXPECT_EQ(Completed(), 0);
  EXPECT_EQ(Failed(), Syndrome::kLocalProtection);
  EXPECT_EQ(gone.memory[0], 0);
}

TEST_F(PacketRequesterTest, OverwrittenWqeFailsInOrder) {
  Connect();
  Post(Write(8));
  Post(Write(2 * kMtu));
  Run();
  sink.sent.clear();
  std::fill_n(a.SendSlot(1), mlx5::kWqebbBytes, uint8_t{0xff});
  PassTimeout();
  EXPECT_EQ(DescribeSent(), "WRITE_ONLY 0 ack");
  Acknowledge(0);
  Run();
  EXPECT_EQ(Completed(), 0);
  EXPECT_EQ(Failed(), Syndrome::kLocalQpOperation);
}

TEST_F(PacketRequesterTest, WqeReplacedByAnotherLengthFailsInOrder) {
  Connect();
  Post(Write(3 * kMtu));
  Run();
  const std::vector<uint8_t> other = Write(kMtu).Build(0, a.qpn);
  std::copy(other.begin(), other.end(), a.SendSlot(0));
  PassTimeout();
  Run();
  EXPECT_EQ(Failed(), Syndrome::kLocalQpOperation);
}

TEST_F(PacketRequesterTest, InjectedFailureComesInOrderAndSendsNothing) {
  Connect();
  a.qp().injected_failures[1] = {Syndrome::kRemoteAccess, 0x42};
  Post(Write(8));
  Post(Write(8));
  EXPECT_EQ(DescribeSent(), "WRITE_ONLY 0 ack");
  Acknowledge(0);
  EXPECT_EQ(DescribeSent(), "");
  EXPECT_EQ(Completed(), 0);
  EXPECT_EQ(Failed(), Syndrome::kRemoteAccess);
}

TEST_F(PacketRequesterTest, InjectedFailureReplacesAWqeInProgress) {
  Connect();
  Post(Write(8));
  Run();
  a.qp().injected_failures[0] = {Syndrome::kRemoteOperation, 0};
  Run();
  EXPECT_EQ(Failed(), Syndrome::kRemoteOperation);
}

TEST_F(PacketRequesterTest, PausedQueuePairIgnoresAnswersAndResumesFromTheOldest) {
  Connect({.retry_count = 0});
  Post(Write(2 * kMtu));
  Run();
  sink.sent.clear();
  a.qp().paused = true;
  now_ns += 10 * kAckTimeoutNs;
  EXPECT_EQ(DescribeSent(), "");
  Acknowledge(1);
  EXPECT_EQ(Completed(), -1);
  EXPECT_EQ(requester.NextNs(), UINT64_MAX);
  a.qp().paused = false;
  EXPECT_EQ(DescribeSent(), "WRITE_FIRST 0, WRITE_LAST 1 ack");
  Acknowledge(1);
  EXPECT_EQ(Completed(), 0);
}

TEST_F(PacketRequesterTest, CompletionQueueOverrunStopsTheQueuePair) {
  QpUser small(hca, pd, {.log_cq_depth = 1});
  small.Connect(a, {.send_psn = kFirstPsn});
  PacketRequester fresh(small.qp(), sink);
  for (int i = 0; i < 4; ++i) small.Post(Write(8));
  small.qp().doorbell_pending = true;
  while (fresh.Run(now_ns)) {
  }
  Packet packet;
  packet.op = PacketOp::kAcknowledge;
  packet.psn = PsnOf(3);
  packet.ack.syndrome = aeth::kNoCredits;
  fresh.OnResponse(packet, now_ns);
  EXPECT_EQ(small.qp().state, QpState::kError);
  EXPECT_FALSE(fresh.Run(now_ns));
}

}  // namespace
}  // namespace softhca
