#include "wire/responder_fixture.hpp"

namespace softhca {
namespace {

using mlx5::CqeOpcode;
using mlx5::QpState;
using mlx5::Syndrome;
using testing::IsEmpty;
using enum PacketOp;

class UnreliableResponderTest : public ResponderFixture {
 protected:
  UnreliableResponderTest() : ResponderFixture({.service = mlx5::ServiceType::kUc}) {}
  ~UnreliableResponderTest() override { EXPECT_THAT(Answers(), IsEmpty()) << "no request is ever answered"; }
};

TEST_F(UnreliableResponderTest, ExecutesWritesAndSends) {
  user.PostReceive({Segment(memory, 0, 2 * kMtu)});
  Take(Make(kSendFirst, 0, kMtu));
  TakeAndRequestAck(Make(kSendLast, 1, 8));
  EXPECT_EQ(user.receive_cq.Poll().value().bytes, kMtu + 8);
  Take(Make(kWriteOnly, 2, 8, 8, 4 * kMtu));
  EXPECT_EQ(Memory(4 * kMtu, 8), Payload(2 * kMtu, 8));
}

TEST_F(UnreliableResponderTest, GivesTheReceiveOfAMessageWithAGapToTheNext) {
  user.PostReceive({Segment(memory, 0, 4 * kMtu)});
  Take(Make(kSendFirst, 0, kMtu));
  Take(Make(kSendMiddle, 2, kMtu));
  Take(Make(kSendLast, 3, kMtu));
  EXPECT_FALSE(user.receive_cq.Poll());
  Take(Make(kSendOnly, 4, 8));
  const Cqe cqe = user.receive_cq.Poll().value();
  EXPECT_EQ(cqe.opcode, CqeOpcode::kResponderSend);
  EXPECT_EQ(cqe.bytes, 8u);
  EXPECT_EQ(cqe.wqe_index, 0);
  EXPECT_EQ(Memory(0, 8), Payload(4 * kMtu, 8));
}

TEST_F(UnreliableResponderTest, ReplacesAMessageWhoseEndIsLostByTheNext) {
  user.PostReceive({Segment(memory, 0, 4 * kMtu)});
  Take(Make(kSendFirst, 0, kMtu));
  Take(Make(kSendFirst, 3, kMtu));
  Take(Make(kSendLast, 4, 8));
  EXPECT_EQ(user.receive_cq.Poll().value().bytes, kMtu + 8);
  EXPECT_EQ(Memory(0, kMtu), Payload(3 * kMtu, kMtu));
}

TEST_F(UnreliableResponderTest, DropsMalformedAndForbiddenRequests) {
  Take(Make(kWriteMiddle, 0, kMtu));
  Take(Make(kWriteOnly, 1, 8, 9));
  Packet unknown = Make(kWriteOnly, 2, 8, 8);
  unknown.memory.rkey ^= 0xff00;
  Take(unknown);
  Take(Read(3, 8));
  Take(FetchAdd(4, 1));
  Take(Make(kSendOnly, 5, 8));  // no receive
  EXPECT_EQ(user.qp().state, QpState::kRts);
  EXPECT_THAT(user.events, IsEmpty());
  EXPECT_EQ(Memory(0, 16 * kMtu), std::vector<uint8_t>(16 * kMtu));
  Take(Make(kWriteOnly, 6, 8, 8));
  EXPECT_EQ(Memory(0, 8), Payload(6 * kMtu, 8));
}

TEST_F(UnreliableResponderTest, FailsAReceiveThatCannotTakeTheMessage) {
  user.PostReceive({Segment(memory, 0, 7)});
  Take(Make(kSendOnly, 0, 8));
  EXPECT_EQ(user.receive_cq.Poll().value().syndrome, Syndrome::kLocalLength);
  EXPECT_EQ(user.qp().state, QpState::kError);
}

}  // namespace
}  // namespace softhca
