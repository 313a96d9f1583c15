#include "wire/packet_responder.hpp"

#include "wire/responder_fixture.hpp"

namespace softhca {
namespace {

using mlx5::CqeOpcode;
using mlx5::QpState;
using mlx5::Syndrome;
using testing::ElementsAre;
using testing::IsEmpty;
using enum PacketOp;

class PacketResponderTest : public ResponderFixture {
 protected:
  using ResponderFixture::ResponderFixture;

  /// Expects that the last request ended the connection with a NAK, and that no answer follows it.
  void ExpectEnded(const std::string& nak, QpEvent event) {
    EXPECT_THAT(Answers(), ElementsAre(nak));
    EXPECT_EQ(user.qp().state, QpState::kError);
    EXPECT_THAT(user.events, ElementsAre(event));
  }
};

TEST_F(PacketResponderTest, WritesAMessageOfSeveralPackets) {
  Take(Make(kWriteFirst, 0, kMtu, 2 * kMtu + 100, 7));
  EXPECT_EQ(Memory(7, kMtu), Payload(0, kMtu)) << "a packet is written when it arrives";
  Take(Make(kWriteMiddle, 1, kMtu));
  TakeAndRequestAck(Make(kWriteLast, 2, 100));
  EXPECT_EQ(Memory(7, 2 * kMtu + 100), Payload(0, 2 * kMtu + 100));
  EXPECT_EQ(Memory(0, 7), std::vector<uint8_t>(7));
  EXPECT_EQ(Memory(7 + 2 * kMtu + 100, 1), std::vector<uint8_t>(1));
  EXPECT_THAT(Answers(), ElementsAre("ACK 2 msn 1"));
  EXPECT_FALSE(user.receive_cq.Poll());
}

TEST_F(PacketResponderTest, AcknowledgesABatchOnce) {
  for (uint32_t psn = 0; psn < 3; ++psn) TakeAndRequestAck(Make(kWriteOnly, psn, 8, 8));
  EXPECT_THAT(Answers(), ElementsAre("ACK 2 msn 3"));
  TakeAndRequestAck(Make(kWriteOnly, 3, 8, 8));
  EXPECT_THAT(Answers(), ElementsAre("ACK 3 msn 4"));
}

TEST_F(PacketResponderTest, AcknowledgesOnlyOnRequest) {
  Take(Make(kWriteOnly, 0, 8, 8));
  EXPECT_THAT(Answers(), IsEmpty());
}

TEST_F(PacketResponderTest, ChecksNoKeyOfZeroLengthRequests) {
  TakeAndRequestAck(Make(kWriteOnly, 0));
  EXPECT_THAT(Answers(), ElementsAre("ACK 0 msn 1"));
  Take(Make(kReadRequest, 1));
  EXPECT_THAT(Answers(), ElementsAre("READ_RESP_ONLY 1 msn 2"));
}

TEST_F(PacketResponderTest, WriteWithImmediateCompletesAReceiveWithItsLastPacket) {
  user.PostReceive({});
  Take(Make(kWriteFirst, 0, kMtu, kMtu + 3));
  EXPECT_FALSE(user.receive_cq.Poll());
  Packet last = Make(kWriteLastImm, 1, 3);
  last.imm = mlx5::ToBe32(42);
  last.solicited = true;
  Take(last);
  const Cqe cqe = user.receive_cq.Poll().value();
  EXPECT_EQ(cqe.opcode, CqeOpcode::kResponderWriteImm);
  EXPECT_EQ(cqe.imm, mlx5::ToBe32(42));
  EXPECT_EQ(cqe.bytes, kMtu + 3);
  EXPECT_TRUE(cqe.solicited);
  EXPECT_EQ(Memory(0, kMtu + 3), Payload(0, kMtu + 3));
}

TEST_F(PacketResponderTest, ScattersASendOfSeveralPackets) {
  user.PostReceive({Segment(memory, 0, 1000), Segment(memory, 4000, 1000), Segment(memory, 8000, 1000)});
  Take(Make(kSendFirst, 0, kMtu));
  Take(Make(kSendMiddle, 1, kMtu));
  EXPECT_FALSE(user.receive_cq.Poll());
  TakeAndRequestAck(Make(kSendLast, 2, 500));
  const Cqe cqe = user.receive_cq.Poll().value();
  EXPECT_EQ(cqe.opcode, CqeOpcode::kResponderSend);
  EXPECT_EQ(cqe.bytes, 2 * kMtu + 500);
  EXPECT_FALSE(cqe.solicited);
  EXPECT_EQ(Memory(0, 1001), [&] {
    std::vector<uint8_t> first = Payload(0, 1000);
    first.push_back(0);
    return first;
  }());
  EXPECT_EQ(Memory(4000, 1000), Payload(1000, 1000));
  EXPECT_EQ(Memory(8000, 548), Payload(2000, 548));
  EXPECT_EQ(Memory(8548, 1), std::vector<uint8_t>(1));
  EXPECT_THAT(Answers(), ElementsAre("ACK 2 msn 1"));
}

TEST_F(PacketResponderTest, ReportsImmediateAndSolicitedFlagOfASend) {
  user.PostReceive({});
  Packet packet = Make(kSendOnlyImm, 0);
  packet.imm = mlx5::ToBe32(0x01020304);
  packet.solicited = true;
  Take(packet);
  const Cqe cqe = user.receive_cq.Poll().value();
  EXPECT_EQ(cqe.opcode, CqeOpcode::kResponderSendImm);
  EXPECT_EQ(cqe.imm, mlx5::ToBe32(0x01020304));
  EXPECT_TRUE(cqe.solicited);
}

class InvalidateTest : public PacketResponderTest {
 protected:
  Packet Invalidate(uint32_t psn, uint32_t rkey) {
    user.PostReceive({});
    Packet packet = Make(kSendOnlyInvalidate, psn);
    packet.invalidate_rkey = rkey;
    return packet;
  }
  void ExpectEndedSilently() {
    EXPECT_THAT(Answers(), IsEmpty());
    EXPECT_EQ(user.qp().state, QpState::kError);
    EXPECT_THAT(user.events, ElementsAre(QpEvent::kAccessError));
  }
  uint32_t window = hca.RegisterMemory({.pdn = pd,
                                        .access = kAccessRemoteWrite,
                                        .iova = memory.Address(),
                                        .memory = memory.memory.data(),
                                        .bytes = 64,
                                        .revocable = true});
};

TEST_F(InvalidateTest, InvalidatesTheKeyAndReportsIt) {
  TakeAndRequestAck(Invalidate(0, window));
  const Cqe cqe = user.receive_cq.Poll().value();
  EXPECT_EQ(cqe.opcode, CqeOpcode::kResponderSendInval);
  EXPECT_EQ(cqe.imm, mlx5::ToBe32(window));
  EXPECT_THAT(Answers(), ElementsAre("ACK 0 msn 1"));
  Packet write = Make(kWriteOnly, 1, 8, 8);
  write.memory.rkey = window;
  Take(write);
  ExpectEnded("NAK 0x62 at 1 msn 1", QpEvent::kAccessError);
}

TEST_F(InvalidateTest, RefusesAnInvalidatedKey) {
  Take(Invalidate(0, window));
  Take(Invalidate(1, window));
  ExpectEndedSilently();
}

TEST_F(InvalidateTest, RefusesAKeyThatPeersMayNotInvalidate) {
  Take(Invalidate(0, memory.key));
  ExpectEndedSilently();
  EXPECT_FALSE(user.receive_cq.Poll());
}

TEST_F(PacketResponderTest, SendLongerThanItsReceiveFailsBothSides) {
  user.PostReceive({Segment(memory, 0, kMtu + 10)});
  Take(Make(kSendFirst, 0, kMtu));
  Take(Make(kSendLast, 1, 11));
  EXPECT_THAT(Answers(), ElementsAre("NAK 0x61 at 1 msn 0"));
  const Cqe cqe = user.receive_cq.Poll().value();
  EXPECT_EQ(cqe.opcode, CqeOpcode::kResponderError);
  EXPECT_EQ(cqe.syndrome, Syndrome::kLocalLength);
  EXPECT_EQ(user.qp().state, QpState::kError);
  EXPECT_THAT(user.events, IsEmpty()) << "the completion reports it";
  EXPECT_EQ(memory.memory[kMtu], 0);
}

TEST_F(PacketResponderTest, ReceiveWithAWrongKeyFailsBothSides) {
  const Region constant(hca, pd, 64, kAccessRemoteRead);
  user.PostReceive({Segment(constant, 0, 64)});
  Take(Make(kSendOnly, 0, 8));
  EXPECT_THAT(Answers(), ElementsAre("NAK 0x63 at 0 msn 0"));
  EXPECT_EQ(user.receive_cq.Poll().value().syndrome, Syndrome::kLocalProtection);
}

TEST_F(PacketResponderTest, FlushesTheReceiveOfAnUnfinishedMessage) {
  user.PostReceive({Segment(memory, 0, 2 * kMtu)});
  user.PostReceive({Segment(memory, 0, 2 * kMtu)});
  Take(Make(kSendFirst, 0, kMtu));
  hca.ModifyQp(user.qpn, QpState::kError, {});
  MessageLink link({&hca});
  EXPECT_TRUE(MessageRequester(link).FlushReceives(user.qp(), 0));
  for (uint16_t index = 0; index < 2; ++index) {
    const Cqe cqe = user.receive_cq.Poll().value();
    EXPECT_EQ(cqe.syndrome, Syndrome::kFlushed);
    EXPECT_EQ(cqe.wqe_index, index);
  }
}

TEST_F(PacketResponderTest, AsksThePeerToWaitWithoutAReceive) {
  Take(Make(kSendFirst, 0, kMtu));
  Take(Make(kSendLast, 1, 8));
  EXPECT_THAT(Answers(), ElementsAre("RNR 12 at 0 msn 0"));
  Take(Make(kSendFirst, 0, kMtu));
  EXPECT_THAT(Answers(), ElementsAre("RNR 12 at 0 msn 0")) << "once for each attempt";
  Take(Make(kSendLast, 1, 8));
  EXPECT_THAT(Answers(), IsEmpty()) << "later packets are not missing";
  user.PostReceive({Segment(memory, 0, 2 * kMtu)});
  Take(Make(kSendFirst, 0, kMtu));
  TakeAndRequestAck(Make(kSendLast, 1, 8));
  EXPECT_THAT(Answers(), ElementsAre("ACK 1 msn 1"));
  EXPECT_EQ(user.receive_cq.Poll().value().bytes, kMtu + 8);
}

TEST_F(PacketResponderTest, OnlyThePacketWithImmediateDataWaitsForAReceive) {
  Take(Make(kWriteFirst, 0, kMtu, kMtu + 8));
  Take(Make(kWriteLastImm, 1, 8));
  EXPECT_THAT(Answers(), ElementsAre("RNR 12 at 1 msn 0"));
  EXPECT_EQ(Memory(0, kMtu), Payload(0, kMtu));
  EXPECT_EQ(memory.memory[kMtu], 0);
  user.PostReceive({});
  TakeAndRequestAck(Make(kWriteLastImm, 1, 8));
  EXPECT_THAT(Answers(), ElementsAre("ACK 1 msn 1"));
  EXPECT_EQ(Memory(kMtu, 8), Payload(kMtu, 8));
}

TEST_F(PacketResponderTest, ReportsAGapOnceUntilThePacketArrives) {
  Take(Make(kWriteOnly, 0, 8, 8));
  for (const uint32_t psn : {2, 3}) TakeAndRequestAck(Make(kWriteOnly, psn, 8, 8, 64));
  EXPECT_THAT(Answers(), ElementsAre("NAK 0x60 at 1 msn 1"));
  TakeAndRequestAck(Make(kWriteOnly, 4, 8, 8, 64));
  EXPECT_THAT(Answers(), IsEmpty());
  EXPECT_EQ(memory.memory[64], 0) << "packets out of order are not executed";
  TakeAndRequestAck(Make(kWriteOnly, 1, 8, 8));
  EXPECT_THAT(Answers(), ElementsAre("ACK 1 msn 2"));
  TakeAndRequestAck(Make(kWriteOnly, 3, 8, 8));
  EXPECT_THAT(Answers(), ElementsAre("NAK 0x60 at 2 msn 2"));
}

TEST_F(PacketResponderTest, RequestsAnEarlyPacketAgainWhenTheGapClosesBeforeTheAnswer) {
  for (const uint32_t psn : {2, 1, 0}) TakeAndRequestAck(Make(kWriteOnly, psn, 8, 8));
  EXPECT_THAT(Answers(), ElementsAre("NAK 0x60 at 1 msn 1"));
  for (const uint32_t psn : {1, 2}) TakeAndRequestAck(Make(kWriteOnly, psn, 8, 8));
  EXPECT_THAT(Answers(), ElementsAre("ACK 2 msn 3"));
}

TEST_F(PacketResponderTest, RequestsNothingWhenEarlyPacketsHaveArrivedAgain) {
  for (const uint32_t psn : {1, 2, 0, 1, 2}) TakeAndRequestAck(Make(kWriteOnly, psn, 8, 8));
  EXPECT_THAT(Answers(), ElementsAre("ACK 2 msn 3"));
}

TEST_F(PacketResponderTest, WrapsSequenceNumbers) {
  user.qp().next_receive_psn = 0xffffff;
  Take(Read(0xffffff, 2 * kMtu));
  EXPECT_THAT(Answers(), ElementsAre("READ_RESP_FIRST 16777215 msn 1", "READ_RESP_LAST 0 msn 1"));
  TakeAndRequestAck(Make(kWriteOnly, 1, 8, 8));
  EXPECT_THAT(Answers(), ElementsAre("ACK 1 msn 2"));
  Take(Make(kWriteOnly, 0xfffffe, 8, 8));
  EXPECT_THAT(Answers(), ElementsAre("ACK 16777214 msn 2")) << "the packet is behind, not ahead";
}

TEST_F(PacketResponderTest, TellsAnObserverOfWhatItExecutesOnly) {
  struct Counter : Observer {
    void OnExecuted(const QueuePair&, const Packet& packet) override {
      ++packets;
      bytes += packet.payload.size();
    }
    uint64_t packets = 0, bytes = 0;
  };
  Counter counter;
  hca.SetObserver(&counter);
  Take(Make(PacketOp::kWriteFirst, 0, kMtu, 2 * kMtu));
  Take(Make(PacketOp::kWriteFirst, 0, kMtu, 2 * kMtu));  // a duplicate
  Take(Make(PacketOp::kWriteLast, 1, kMtu));
  Take(Read(2, 100));
  Take(Make(PacketOp::kSendOnly, 3, 8));  // no receive is posted
  Packet refused = Make(PacketOp::kWriteOnly, 3, 8, 8);
  refused.memory.rkey ^= 0x1000;
  Take(refused);
  hca.SetObserver(nullptr);
  EXPECT_EQ(counter.packets, 3u);
  EXPECT_EQ(counter.bytes, 2 * kMtu);
}

TEST_F(PacketResponderTest, IgnoresOtherPartitions) {
  Packet packet = Make(kWriteOnly, 0, 8, 8);
  packet.pkey = 0x8001;
  TakeAndRequestAck(packet);
  EXPECT_THAT(Answers(), IsEmpty());
  packet.pkey = 0x7fff;  // a limited member of the same partition
  TakeAndRequestAck(packet);
  EXPECT_THAT(Answers(), ElementsAre("ACK 0 msn 1"));
}

TEST_F(PacketResponderTest, IgnoresOtherServices) {
  Packet packet = Make(kWriteOnly, 0, 8, 8);
  packet.service = PacketService::kUc;
  TakeAndRequestAck(packet);
  EXPECT_THAT(Answers(), IsEmpty());
  EXPECT_EQ(memory.memory[0], 0);
}

/// A malformed last packet, and the packets before it.
struct Malformed {
  const char* name;
  struct Piece {
    PacketOp op;
    size_t bytes;
    uint32_t message_bytes = 0;
  };
  std::vector<Piece> pieces;
};

void PrintTo(const Malformed& malformed, std::ostream* out) { *out << malformed.name; }

class MalformedTest : public PacketResponderTest, public testing::WithParamInterface<Malformed> {};

TEST_P(MalformedTest, IsRefusedAsAnInvalidRequest) {
  user.PostReceive({Segment(memory, 0, 65536)});
  uint32_t psn = 0;
  for (const auto& [op, bytes, message_bytes] : GetParam().pieces)
    Take(Make(op, psn++, bytes, message_bytes));
  ExpectEnded("NAK 0x61 at " + std::to_string(psn - 1) + " msn 0", QpEvent::kInvalidRequest);
  EXPECT_FALSE(user.receive_cq.Poll());
  const size_t good = (GetParam().pieces.size() - 1) * kMtu;
  EXPECT_EQ(Memory(good, 16 * kMtu), std::vector<uint8_t>(16 * kMtu));
}

INSTANTIATE_TEST_SUITE_P(
    Requests, MalformedTest,
    testing::Values(Malformed{"WriteMiddleWithoutFirst", {{kWriteMiddle, kMtu}}},
                    Malformed{"WriteLastWithoutFirst", {{kWriteLast, 8}}},
                    Malformed{"SendLastWithoutFirst", {{kSendLast, 8}}},
                    Malformed{"FirstWithinAMessage",
                              {{kWriteFirst, kMtu, 4 * kMtu}, {kWriteFirst, kMtu, 4 * kMtu}}},
                    Malformed{"OnlyWithinAMessage", {{kWriteFirst, kMtu, 4 * kMtu}, {kWriteOnly, 8, 8}}},
                    Malformed{"SendWithinAWrite", {{kWriteFirst, kMtu, 4 * kMtu}, {kSendLast, 8}}},
                    Malformed{"WriteWithinASend", {{kSendFirst, kMtu}, {kWriteLast, 8}}},
                    Malformed{"ReadWithinAMessage", {{kSendFirst, kMtu}, {kReadRequest, 0, 8}}},
                    Malformed{"AtomicWithinAMessage", {{kSendFirst, kMtu}, {kFetchAdd, 0}}},
                    Malformed{"AnswerForARequest", {{kAcknowledge, 0}}},
                    Malformed{"ShortFirst", {{kWriteFirst, kMtu - 1, 4 * kMtu}}},
                    Malformed{"ShortFirstOfASend", {{kSendFirst, kMtu - 4}}},
                    Malformed{"ShortMiddle", {{kSendFirst, kMtu}, {kSendMiddle, kMtu - 4}}},
                    Malformed{"LongFirst", {{kSendFirst, kMtu + 1}}},
                    Malformed{"LongOnly", {{kSendOnly, kMtu + 1}}},
                    Malformed{"EmptyLast", {{kSendFirst, kMtu}, {kSendLast, 0}}},
                    Malformed{"OnlyShorterThanTheMessage", {{kWriteOnly, 8, 9}}},
                    Malformed{"OnlyLongerThanTheMessage", {{kWriteOnly, 8, 7}}},
                    Malformed{"FirstThatIsAll", {{kWriteFirst, kMtu, kMtu}}},
                    Malformed{"LastBeforeTheEnd", {{kWriteFirst, kMtu, 2 * kMtu}, {kWriteLast, 8}}},
                    Malformed{"LastPastTheEnd", {{kWriteFirst, kMtu, kMtu + 7}, {kWriteLast, 8}}},
                    Malformed{"MiddleThatIsTheEnd", {{kWriteFirst, kMtu, 2 * kMtu}, {kWriteMiddle, kMtu}}},
                    Malformed{"WriteLongerThanAnyMessage", {{kWriteFirst, kMtu, (1u << 31) + 1}}},
                    Malformed{"ReadLongerThanAnyMessage", {{kReadRequest, 0, (1u << 31) + 1}}}),
    [](const auto& malformed) { return malformed.param.name; });

/// A request that the key or the queue pair does not allow.
struct Forbidden {
  const char* name;
  PacketOp op;
  uint32_t region_access;
  uint32_t qp_access;
  int offset;  ///< distance from the last offset where 8 bytes fit
  const char* nak;
};

void PrintTo(const Forbidden& forbidden, std::ostream* out) { *out << forbidden.name; }

class ForbiddenTest : public PacketResponderTest, public testing::WithParamInterface<Forbidden> {
 protected:
  ForbiddenTest() : PacketResponderTest({}, {.access = GetParam().qp_access}) {}
};

TEST_P(ForbiddenTest, IsRefused) {
  const Forbidden& forbidden = GetParam();
  Region target(hca, pd, 64, forbidden.region_access);
  const uint64_t address = target.Address(static_cast<size_t>(56 + forbidden.offset));
  Packet packet = Make(forbidden.op, 0, HasPayload(Make(forbidden.op, 0)) ? 8 : 0);
  packet.memory = {address, target.key, 8};
  packet.atomic.address = address;
  packet.atomic.rkey = target.key;
  packet.atomic.swap_add = 1;
  Take(packet);
  const std::string nak = std::string("NAK ") + forbidden.nak + " at 0 msn 0";
  const bool access = forbidden.nak == std::string("0x62");
  ExpectEnded(nak, access ? QpEvent::kAccessError : QpEvent::kInvalidRequest);
  EXPECT_EQ(target.memory, std::vector<uint8_t>(64));
}

constexpr uint32_t kNoWrite = kAllAccess & ~kAccessRemoteWrite;
constexpr uint32_t kNoRead = kAllAccess & ~kAccessRemoteRead;
constexpr uint32_t kNoAtomic = kAllAccess & ~kAccessRemoteAtomic;

INSTANTIATE_TEST_SUITE_P(
    Requests, ForbiddenTest,
    testing::Values(Forbidden{"WriteByRegion", kWriteOnly, kNoWrite, kAllAccess, 0, "0x62"},
                    Forbidden{"WriteByQp", kWriteOnly, kAllAccess, kNoWrite, 0, "0x61"},
                    Forbidden{"WriteTooFar", kWriteOnly, kAllAccess, kAllAccess, 1, "0x62"},
                    Forbidden{"ReadByRegion", kReadRequest, kNoRead, kAllAccess, 0, "0x62"},
                    Forbidden{"ReadByQp", kReadRequest, kAllAccess, kNoRead, 0, "0x61"},
                    Forbidden{"ReadTooFar", kReadRequest, kAllAccess, kAllAccess, 1, "0x62"},
                    Forbidden{"AtomicByRegion", kFetchAdd, kNoAtomic, kAllAccess, 0, "0x62"},
                    Forbidden{"AtomicByQp", kFetchAdd, kAllAccess, kNoAtomic, 0, "0x61"},
                    Forbidden{"AtomicTooFar", kCompareSwap, kAllAccess, kAllAccess, 8, "0x62"},
                    Forbidden{"AtomicMisaligned", kFetchAdd, kAllAccess, kAllAccess, -4, "0x61"}),
    [](const auto& forbidden) { return forbidden.param.name; });

TEST_F(PacketResponderTest, WritesNothingOfAMessageThatDoesNotFit) {
  const Region small(hca, pd, 2 * kMtu);
  Packet first = Make(kWriteFirst, 0, kMtu, 2 * kMtu + 1);
  first.memory = {small.Address(), small.key, 2 * kMtu + 1};
  Take(first);
  ExpectEnded("NAK 0x62 at 0 msn 0", QpEvent::kAccessError);
  EXPECT_EQ(small.memory, std::vector<uint8_t>(2 * kMtu));
}

TEST_F(PacketResponderTest, FailsWhenTheKeyIsDeregisteredDuringAMessage) {
  Take(Make(kWriteFirst, 0, kMtu, 2 * kMtu));
  hca.DeregisterMemory(memory.key);
  Take(Make(kWriteLast, 1, kMtu));
  ExpectEnded("NAK 0x62 at 1 msn 0", QpEvent::kAccessError);
  EXPECT_EQ(memory.memory[kMtu], 0);
}

TEST_F(PacketResponderTest, RefusedWriteWithImmediateFailsItsReceive) {
  user.PostReceive({});
  Packet write = Make(kWriteOnlyImm, 0, 8, 8);
  write.memory.rkey = memory.key + 1;
  Take(write);
  EXPECT_THAT(Answers(), ElementsAre("NAK 0x62 at 0 msn 0"));
  const Cqe cqe = user.receive_cq.Poll().value();
  EXPECT_EQ(cqe.opcode, CqeOpcode::kResponderError);
  EXPECT_EQ(cqe.syndrome, Syndrome::kLocalAccess);
  EXPECT_THAT(user.events, IsEmpty()) << "the completion reports it";
}

TEST_F(PacketResponderTest, RefusedFirstPacketOfAWriteLeavesTheReceives) {
  user.PostReceive({});
  Packet write = Make(kWriteFirst, 0, kMtu, 2 * kMtu);
  write.memory.rkey = memory.key + 1;
  Take(write);
  ExpectEnded("NAK 0x62 at 0 msn 0", QpEvent::kAccessError);
  EXPECT_FALSE(user.receive_cq.Poll()) << "it is flushed later, as every other one";
}

TEST_F(PacketResponderTest, ExecutesNothingAfterAFailure) {
  Take(Make(kWriteMiddle, 0, kMtu));
  TakeAndRequestAck(Make(kWriteOnly, 0, 8, 8));
  EXPECT_THAT(Answers(), ElementsAre("NAK 0x61 at 0 msn 0"));
  EXPECT_EQ(memory.memory[0], 0);
}

}  // namespace
}  // namespace softhca
