#include "core/message_responder.hpp"

#include <gtest/gtest.h>

#include <string>

#include "core/connected_pair.hpp"

namespace softhca {
namespace {

using mlx5::CqeOpcode;
using mlx5::QpState;
using mlx5::Syndrome;
using mlx5::ToBe32;
using mlx5::ToBe64;
using mlx5::WqeOpcode;

class MessageResponderTest : public ConnectedPair {
 protected:
  void Fill(Region& region, uint8_t first) {
    for (uint8_t& byte : region.memory) byte = first++;
  }
  WqeBuilder To(WqeOpcode opcode, const Region& region, size_t offset) {
    return WqeBuilder(opcode).Remote(region.Address(offset), region.key);
  }
  WqeBuilder Transfer(WqeOpcode opcode, const Region& region, size_t offset, uint32_t bytes) {
    return To(opcode, region, offset).Data(local.Address(), bytes, local.key);
  }
  WqeBuilder FetchAdd(const Region& region, size_t offset, uint64_t add) {
    return To(WqeOpcode::kAtomicFa, region, offset)
        .Add(mlx5::AtomicSegment{ToBe64(add), {}})
        .Data(local.Address(), 8, local.key);
  }
  WqeBuilder Send(uint32_t bytes) {
    return WqeBuilder(WqeOpcode::kSend).Data(local.Address(), bytes, local.key);
  }
  /// Expects both ends in error, and `event` as the receiver's only event.
  void ExpectBothFailed(QpEvent event) {
    EXPECT_EQ(a.qp().state, QpState::kError);
    EXPECT_EQ(b.qp().state, QpState::kError);
    EXPECT_EQ(b.events, std::vector{event});
    EXPECT_TRUE(a.events.empty());
  }
};

TEST_F(MessageResponderTest, WritesThePayloadToItsAddress) {
  Connect();
  Fill(local, 1);
  EXPECT_EQ(Complete(a, Transfer(WqeOpcode::kRdmaWrite, remote, 100, 5000)).opcode, CqeOpcode::kRequester);
  EXPECT_TRUE(std::equal(local.memory.begin(), local.memory.begin() + 5000, remote.memory.begin() + 100));
  EXPECT_EQ(remote.memory[99], 0);
  EXPECT_EQ(remote.memory[5100], 0);
  EXPECT_FALSE(b.receive_cq.Poll());
}

TEST_F(MessageResponderTest, ReadsThePayload) {
  Connect();
  Fill(remote, 7);
  EXPECT_EQ(Complete(a, Transfer(WqeOpcode::kRdmaRead, remote, 3, 3000)).opcode, CqeOpcode::kRequester);
  EXPECT_TRUE(std::equal(local.memory.begin(), local.memory.begin() + 3000, remote.memory.begin() + 3));
  EXPECT_EQ(local.memory[3000], 0);
}

TEST_F(MessageResponderTest, WriteWithImmediateTakesAReceiveWithoutItsBuffer) {
  Connect();
  Fill(local, 1);
  Region untouched(hca, pd, 64);
  b.PostReceive({Data(untouched, 0, 64)});
  Complete(a, Transfer(WqeOpcode::kRdmaWriteImm, remote, 0, 16).Imm(ToBe32(42)));
  const Cqe cqe = b.receive_cq.Poll().value();
  EXPECT_EQ(cqe.opcode, CqeOpcode::kResponderWriteImm);
  EXPECT_EQ(cqe.imm, ToBe32(42));
  EXPECT_EQ(cqe.bytes, 16u);
  EXPECT_EQ(cqe.qpn, b.qpn);
  EXPECT_EQ(remote.memory[15], 16);
  EXPECT_EQ(untouched.memory[0], 0);
}

TEST_F(MessageResponderTest, SendScattersOverTheReceivesSegments) {
  Connect();
  Fill(local, 1);
  b.PostReceive({Data(remote, 100, 3), Data(remote, 0, 2), Data(remote, 200, 50)});
  Complete(a, Send(9));
  const Cqe cqe = b.receive_cq.Poll().value();
  EXPECT_EQ(cqe.opcode, CqeOpcode::kResponderSend);
  EXPECT_EQ(cqe.bytes, 9u);
  const auto at = [&](size_t offset) { return remote.memory[offset]; };
  EXPECT_EQ(std::vector({at(100), at(101), at(102), at(103)}), (std::vector<uint8_t>{1, 2, 3, 0}));
  EXPECT_EQ(std::vector({at(0), at(1), at(2)}), (std::vector<uint8_t>{4, 5, 0}));
  EXPECT_EQ(std::vector({at(200), at(203), at(204)}), (std::vector<uint8_t>{6, 9, 0}));
}

TEST_F(MessageResponderTest, ReportsImmediateAndSolicitedFlagOfASend) {
  Connect();
  b.PostReceive({});
  Complete(
      a, WqeBuilder(WqeOpcode::kSendImm).Imm(ToBe32(0x01020304)).Flags(mlx5::kCqeAlways | mlx5::kSolicited));
  const Cqe cqe = b.receive_cq.Poll().value();
  EXPECT_EQ(cqe.opcode, CqeOpcode::kResponderSendImm);
  EXPECT_EQ(cqe.imm, ToBe32(0x01020304));
  EXPECT_EQ(cqe.bytes, 0u);
  EXPECT_TRUE(cqe.solicited);
}

TEST_F(MessageResponderTest, ChecksNoKeyOfZeroLengthRequests) {
  Connect();
  EXPECT_EQ(Complete(a, WqeBuilder(WqeOpcode::kRdmaWrite).Remote(0, 0)).opcode, CqeOpcode::kRequester);
  EXPECT_EQ(Complete(a, WqeBuilder(WqeOpcode::kRdmaRead).Remote(0, 0)).opcode, CqeOpcode::kRequester);
}

/// A request that the peer must refuse because of its key, its range or its queue pair.
struct Refusal {
  const char* name;
  WqeOpcode opcode;
  uint32_t region_access;
  uint32_t qp_access;
  int offset;  ///< distance from the last offset where 8 bytes fit
  Syndrome syndrome = Syndrome::kRemoteAccess;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

class RemoteAccessTest : public MessageResponderTest, public testing::WithParamInterface<Refusal> {};

TEST_P(RemoteAccessTest, FailsBothSides) {
  const Refusal& refusal = GetParam();
  Connect({}, {.access = refusal.qp_access});
  Region target(hca, pd, 64, refusal.region_access);
  const size_t offset = static_cast<size_t>(56 + refusal.offset);
  a.Post(refusal.opcode == WqeOpcode::kAtomicFa ? FetchAdd(target, offset, 1)
                                                : Transfer(refusal.opcode, target, offset, 8));
  b.PostReceive({});
  Run();
  EXPECT_EQ(a.send_cq.Poll().value().syndrome, refusal.syndrome);
  EXPECT_EQ(b.receive_cq.Poll().value().syndrome, Syndrome::kFlushed);
  EXPECT_EQ(target.memory, std::vector<uint8_t>(64));
  const bool access = refusal.syndrome == Syndrome::kRemoteAccess;
  ExpectBothFailed(access ? QpEvent::kAccessError : QpEvent::kInvalidRequest);
}

constexpr Syndrome kForbidden = Syndrome::kRemoteInvalidRequest;
constexpr uint32_t kNoWrite = kAllAccess & ~kAccessRemoteWrite;
constexpr uint32_t kNoRead = kAllAccess & ~kAccessRemoteRead;
constexpr uint32_t kNoAtomic = kAllAccess & ~kAccessRemoteAtomic;

INSTANTIATE_TEST_SUITE_P(
    Requests, RemoteAccessTest,
    testing::Values(Refusal{"WriteByRegion", WqeOpcode::kRdmaWrite, kNoWrite, kAllAccess, 0},
                    Refusal{"WriteByQp", WqeOpcode::kRdmaWrite, kAllAccess, kNoWrite, 0, kForbidden},
                    Refusal{"WriteOneByteTooFar", WqeOpcode::kRdmaWrite, kAllAccess, kAllAccess, 1},
                    Refusal{"ReadByRegion", WqeOpcode::kRdmaRead, kNoRead, kAllAccess, 0},
                    Refusal{"ReadByQp", WqeOpcode::kRdmaRead, kAllAccess, kNoRead, 0, kForbidden},
                    Refusal{"ReadOneByteTooFar", WqeOpcode::kRdmaRead, kAllAccess, kAllAccess, 1},
                    Refusal{"AtomicByRegion", WqeOpcode::kAtomicFa, kNoAtomic, kAllAccess, 0},
                    Refusal{"AtomicByQp", WqeOpcode::kAtomicFa, kAllAccess, kNoAtomic, 0, kForbidden},
                    Refusal{"AtomicPastTheEnd", WqeOpcode::kAtomicFa, kAllAccess, kAllAccess, 8}),
    [](const auto& refusal) { return refusal.param.name; });

TEST_F(MessageResponderTest, RefusedWriteWithImmediateFailsItsReceive) {
  Connect();
  const Region target(hca, pd, 4096, kNoWrite);
  b.PostReceive({Data(remote, 0, 8)});
  EXPECT_EQ(Complete(a, Transfer(WqeOpcode::kRdmaWriteImm, target, 0, 8)).syndrome, Syndrome::kRemoteAccess);
  EXPECT_EQ(b.receive_cq.Poll().value().syndrome, Syndrome::kLocalAccess);
  EXPECT_TRUE(b.events.empty()) << "the completion reports it";
}

TEST_F(MessageResponderTest, RefusedWriteOfSeveralPacketsFlushesTheReceive) {
  Connect();
  const Region target(hca, pd, 8192, kNoWrite);
  b.PostReceive({Data(remote, 0, 8)});
  EXPECT_EQ(Complete(a, Transfer(WqeOpcode::kRdmaWriteImm, target, 0, 8192)).syndrome,
            Syndrome::kRemoteAccess);
  EXPECT_EQ(b.receive_cq.Poll().value().syndrome, Syndrome::kFlushed)
      << "its first packet has no immediate data";
  ExpectBothFailed(QpEvent::kAccessError);
}

TEST_F(MessageResponderTest, RefusesTheKeyOfAnotherProtectionDomain) {
  Connect();
  const Region foreign(hca, hca.AllocPd(), 64);
  EXPECT_EQ(Complete(a, Transfer(WqeOpcode::kRdmaWrite, foreign, 0, 8)).syndrome, Syndrome::kRemoteAccess);
  ExpectBothFailed(QpEvent::kAccessError);
}

TEST_F(MessageResponderTest, RefusesADeregisteredKey) {
  Connect();
  hca.DeregisterMemory(remote.key);
  EXPECT_EQ(Complete(a, Transfer(WqeOpcode::kRdmaWrite, remote, 0, 8)).syndrome, Syndrome::kRemoteAccess);
}

TEST_F(MessageResponderTest, MessageLongerThanTheReceiveFailsBothSides) {
  Connect();
  b.PostReceive({Data(remote, 0, 8)});
  b.PostReceive({Data(remote, 0, 8)});
  EXPECT_EQ(Complete(a, Send(9)).syndrome, Syndrome::kRemoteInvalidRequest);
  const Cqe cqe = b.receive_cq.Poll().value();
  EXPECT_EQ(cqe.opcode, CqeOpcode::kResponderError);
  EXPECT_EQ(cqe.syndrome, Syndrome::kLocalLength);
  EXPECT_EQ(cqe.wqe_index, 0);
  EXPECT_EQ(b.receive_cq.Poll().value().syndrome, Syndrome::kFlushed);
  EXPECT_EQ(b.qp().state, QpState::kError);
  EXPECT_TRUE(b.events.empty()) << "the completion reports it";
  EXPECT_EQ(remote.memory[0], 0);
}

TEST_F(MessageResponderTest, ReceiveWithoutWriteAccessFailsBothSides) {
  Connect();
  const Region constant(hca, pd, 64, kAccessRemoteRead);
  b.PostReceive({Data(constant, 0, 64)});
  EXPECT_EQ(Complete(a, Send(8)).syndrome, Syndrome::kRemoteOperation);
  EXPECT_EQ(b.receive_cq.Poll().value().syndrome, Syndrome::kLocalProtection);
  EXPECT_TRUE(b.events.empty()) << "the completion reports it";
}

TEST_F(MessageResponderTest, ReceiverWithoutAQueueRefusesSends) {
  QpUser sender_only(hca, pd, {.receive_depth = 0});
  a.Connect(sender_only);
  sender_only.Connect(a);
  EXPECT_EQ(Complete(a, Send(8)).syndrome, Syndrome::kRemoteInvalidRequest);
  EXPECT_EQ(sender_only.qp().state, QpState::kError);
  EXPECT_EQ(sender_only.events, std::vector{QpEvent::kInvalidRequest});
}

TEST_F(MessageResponderTest, ReceiveCqOverrunFailsTheSender) {
  QpUser small(hca, pd, {.log_cq_depth = 1});
  a.Connect(small);
  small.Connect(a);
  for (int i = 0; i < 3; ++i) small.PostReceive({Data(remote, 0, 8)});
  EXPECT_EQ(Complete(a, Send(8)).opcode, CqeOpcode::kRequester);
  EXPECT_EQ(Complete(a, Send(8)).opcode, CqeOpcode::kRequester);
  EXPECT_EQ(Complete(a, Send(8)).syndrome, Syndrome::kRemoteOperation);
  EXPECT_TRUE(hca.FindCq(small.receive_cqn)->failed());
}

/// A peer that ignores the request: the requester runs out of retries.
struct Silence {
  const char* name;
  QpChange change_a, change_b;
};

void PrintTo(const Silence& silence, std::ostream* out) { *out << silence.name; }

class SilenceTest : public MessageResponderTest, public testing::WithParamInterface<Silence> {};

TEST_P(SilenceTest, FailsWithTransportRetryExceeded) {
  QpChange change_a = GetParam().change_a;
  change_a.retry_count = 0;
  Connect(change_a, GetParam().change_b);
  a.Post(Transfer(WqeOpcode::kRdmaWrite, remote, 0, 8));
  Run();
  EXPECT_FALSE(a.send_cq.Poll());
  now_ns += uint64_t{4096} << 14;
  Run();
  EXPECT_EQ(a.send_cq.Poll().value().syndrome, Syndrome::kTransportRetryExceeded);
  EXPECT_EQ(b.qp().state, QpState::kRts);
}

INSTANTIATE_TEST_SUITE_P(Peers, SilenceTest,
                         testing::Values(Silence{"LaterSequenceNumber", {.send_psn = 6}, {.receive_psn = 5}},
                                         Silence{"ConnectedToAnother", {}, {.remote_qpn = 0x123456}},
                                         Silence{"NoSuchQueuePair", {.remote_qpn = 0x123456}, {}}),
                         [](const auto& silence) { return silence.param.name; });

/// A queue pair that starts again with the same PSN repeats what the peer may have executed.
TEST_F(MessageResponderTest, AcknowledgesDuplicatesOfSendsAndWritesWithoutExecutingThem) {
  Connect({.send_psn = 0xfffffe}, {.receive_psn = 1});
  b.PostReceive({Data(remote, 0, 64)});
  local.memory[0] = 9;
  EXPECT_EQ(Complete(a, Transfer(WqeOpcode::kRdmaWrite, remote, 0, 8)).opcode, CqeOpcode::kRequester);
  EXPECT_EQ(Complete(a, Send(8)).opcode, CqeOpcode::kRequester);
  EXPECT_EQ(Complete(a, Transfer(WqeOpcode::kRdmaWriteImm, remote, 0, 8)).opcode, CqeOpcode::kRequester);
  EXPECT_FALSE(b.receive_cq.Poll());
  EXPECT_EQ(remote.memory[0], 0);
  EXPECT_EQ(Complete(a, Send(8)).opcode, CqeOpcode::kRequester) << "the next one is new";
  EXPECT_TRUE(b.receive_cq.Poll());
  EXPECT_EQ(remote.memory[0], 9);
}

TEST_F(MessageResponderTest, RefusesAPacketLongerThanItsMtu) {
  Connect({.mtu = mlx5::Mtu::k1024}, {.mtu = mlx5::Mtu::k512});
  EXPECT_EQ(Complete(a, Transfer(WqeOpcode::kRdmaWrite, remote, 0, 512)).opcode, CqeOpcode::kRequester);
  EXPECT_EQ(Complete(a, Transfer(WqeOpcode::kRdmaWrite, remote, 0, 513)).syndrome,
            Syndrome::kRemoteInvalidRequest);
}

TEST_F(MessageResponderTest, RefusesAMessageCutByASmallerMtu) {
  Connect({.mtu = mlx5::Mtu::k512}, {.mtu = mlx5::Mtu::k1024});
  EXPECT_EQ(Complete(a, Transfer(WqeOpcode::kRdmaWrite, remote, 0, 512)).opcode, CqeOpcode::kRequester);
  EXPECT_EQ(Complete(a, Transfer(WqeOpcode::kRdmaWrite, remote, 0, 513)).syndrome,
            Syndrome::kRemoteInvalidRequest);
}

TEST_F(MessageResponderTest, AcceptsRequestsFromRtrOn) {
  a.Connect(b);
  b.ConnectToRtr(a);
  EXPECT_EQ(Complete(a, Transfer(WqeOpcode::kRdmaWrite, remote, 0, 8)).opcode, CqeOpcode::kRequester);
}

TEST_F(MessageResponderTest, RetriesAtOnceAfterADoorbell) {
  a.Connect(b);
  a.Post(Transfer(WqeOpcode::kRdmaWrite, remote, 0, 8));
  Run();
  a.qp().retry.now = true;  // as a doorbell does
  Run();
  EXPECT_FALSE(a.send_cq.Poll());
  EXPECT_EQ(a.qp().retry.timeouts, 1) << "no other timeout has passed";
  b.Connect(a);
  Run();
  EXPECT_FALSE(a.send_cq.Poll()) << "nothing has caused a retry yet";
  a.qp().retry.now = true;
  Run();
  EXPECT_EQ(a.send_cq.Poll().value().opcode, CqeOpcode::kRequester);
}

class SharedReceiveTest : public MessageResponderTest {
 protected:
  static constexpr uint32_t kDepth = 4, kStride = 64;

  SharedReceiveTest() {
    for (uint16_t slot = 0; slot < kDepth; ++slot) {
      mlx5::SrqNextSegment next{};
      next.next_wqe_index = mlx5::ToBe16((slot + 1) % kDepth);
      std::memcpy(ring.data() + slot * kStride, &next, sizeof next);
    }
    c.emplace(hca, pd, QpOptions{.receive_depth = 0, .srqn = srqn});
    a.Connect(*c);
    c->Connect(a);
  }
  void PostShared(const mlx5::DataSegment& segment) {
    uint8_t* const slot = ring.data() + posted++ % kDepth * kStride + sizeof(mlx5::SrqNextSegment);
    const mlx5::DataSegment last{{}, ToBe32(mlx5::kInvalidLkey), {}};
    std::memcpy(slot, &segment, sizeof segment);
    std::memcpy(slot + sizeof segment, &last, sizeof last);
    record = ToBe32(posted);
  }

  std::vector<uint8_t> ring = std::vector<uint8_t>(kDepth * kStride);
  mlx5::Be32 record{};
  uint32_t posted = 0;
  int limits = 0;
  uint32_t receive_pd = hca.AllocPd();
  uint32_t srqn = hca.CreateSrq(
      {.pdn = receive_pd,
       .queue = {.ring = ring.data(), .dbr = &record, .depth = kDepth, .stride = kStride, .linked = true},
       .on_limit = [this] { ++limits; }});
  Region buffer{hca, receive_pd, 64};
  std::optional<QpUser> c;
};

TEST_F(SharedReceiveTest, ReceivesIntoTheSharedQueuesOwnProtectionDomain) {
  Fill(local, 1);
  PostShared(Data(buffer, 0, 64));
  EXPECT_EQ(Complete(a, Send(8)).opcode, CqeOpcode::kRequester);
  EXPECT_EQ(c->receive_cq.Poll().value().bytes, 8u);
  EXPECT_EQ(buffer.memory[7], 8);
}

TEST_F(SharedReceiveTest, ReportsTheLimitOnce) {
  for (int i = 0; i < 4; ++i) PostShared(Data(buffer, 0, 64));
  hca.SetSrqLimit(srqn, 3);
  Complete(a, Send(8));
  EXPECT_EQ(limits, 0) << "three are left, as many as the limit";
  Complete(a, Send(8));
  EXPECT_EQ(limits, 1);
  Complete(a, Send(8));
  EXPECT_EQ(limits, 1);
}

TEST_F(SharedReceiveTest, ReportsTheLimitAtOnceWhenItIsAlreadyReached) {
  for (int i = 0; i < 2; ++i) PostShared(Data(buffer, 0, 64));
  hca.SetSrqLimit(srqn, 2);
  EXPECT_EQ(limits, 0) << "two are there, as many as the limit";
  hca.SetSrqLimit(srqn, 3);
  EXPECT_EQ(limits, 1);
  EXPECT_EQ(hca.FindSrq(srqn)->limit, 0u);
  hca.SetSrqLimit(srqn, 0);
  Complete(a, Send(8));
  EXPECT_EQ(limits, 1);
}

TEST_F(SharedReceiveTest, ErrorOfOneQueuePairKeepsTheSharedReceives) {
  PostShared(Data(buffer, 0, 64));
  hca.ModifyQp(c->qpn, QpState::kError, {});
  EXPECT_FALSE(requester.FlushReceives(c->qp(), 0));
  EXPECT_EQ(hca.FindSrq(srqn)->queue.Available(), 1u);
  EXPECT_EQ(c->events, std::vector{QpEvent::kLastWqeReached});
}

}  // namespace
}  // namespace softhca
