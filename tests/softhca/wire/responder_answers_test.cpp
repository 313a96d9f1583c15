#include <algorithm>

#include "wire/responder_fixture.hpp"

namespace softhca {
namespace {

using mlx5::QpState;
using testing::ElementsAre;
using testing::IsEmpty;
using enum PacketOp;

constexpr size_t kResources = 4;

/// Reads and atomics: when they are answered, and answered again.
class ResponderAnswersTest : public ResponderFixture {
 protected:
  ResponderAnswersTest() : ResponderFixture({}, {.max_reads_in = kResources}) { Fill(1); }

  void Fill(uint8_t first) {
    for (uint8_t& byte : memory.memory) byte = first++;
  }
  uint64_t& Word(size_t offset) { return memory.As<uint64_t>(offset); }
  std::vector<uint64_t> Originals() const {
    std::vector<uint64_t> originals;
    for (const SentPacket& answer : sent) originals.push_back(answer.packet.original);
    return originals;
  }
};

TEST_F(ResponderAnswersTest, AnswersAReadInPacketsOfThePathMtu) {
  Take(Read(0, 2 * kMtu + 5, 3));
  EXPECT_THAT(Answers(),
              ElementsAre("READ_RESP_FIRST 0 msn 1", "READ_RESP_MIDDLE 1", "READ_RESP_LAST 2 msn 1"));
  EXPECT_EQ(Answered(), Memory(3, 2 * kMtu + 5));
  Take(Read(3, kMtu));
  EXPECT_THAT(Answers(), ElementsAre("READ_RESP_ONLY 3 msn 2")) << "a read takes a PSN for each packet";
}

TEST_F(ResponderAnswersTest, ReadResponseAcknowledgesEarlierRequests) {
  TakeAndRequestAck(Make(kWriteOnly, 0, 8, 8));
  TakeAndRequestAck(Read(1, 8));
  EXPECT_THAT(Answers(), ElementsAre("READ_RESP_ONLY 1 msn 2"));
}

TEST_F(ResponderAnswersTest, AnswersALongReadInBurstsBeforeLaterRequests) {
  Take(Read(0, 100 * kMtu));
  TakeAndRequestAck(Make(kWriteOnly, 100, 8, 8, 120 * kMtu));
  EXPECT_TRUE(responder->Flush());
  EXPECT_EQ(sink.sent.size(), 64u);
  EXPECT_NE(Memory(120 * kMtu, 8), std::vector<uint8_t>(8)) << "the write is executed at once";
  EXPECT_FALSE(responder->Flush());
  EXPECT_EQ(sink.sent.size(), 101u);
  EXPECT_EQ(Describe(sink.sent.back().packet), "ACK 100 msn 2");
  Answers();
  EXPECT_EQ(Answered(), Memory(0, 100 * kMtu));
}

TEST_F(ResponderAnswersTest, DelaysAFailureUntilTheReadBeforeItIsAnswered) {
  Take(Read(0, 100 * kMtu));
  Take(Make(kWriteMiddle, 100, kMtu));
  EXPECT_TRUE(responder->Flush());
  EXPECT_EQ(user.qp().state, QpState::kRts);
  EXPECT_FALSE(responder->Flush());
  EXPECT_EQ(Describe(sink.sent.back().packet), "NAK 0x61 at 100 msn 1");
  EXPECT_EQ(user.qp().state, QpState::kError);
}

TEST_F(ResponderAnswersTest, RefusesMoreReadsThanAgreed) {
  for (uint32_t psn = 0; psn < kResources; ++psn) Take(Read(psn, 8));
  EXPECT_EQ(Answers().size(), kResources);
  for (uint32_t psn = kResources; psn < 2 * kResources; ++psn) Take(Read(psn, 8));
  Take(FetchAdd(2 * kResources, 1));
  const std::vector<std::string> answers = Answers();
  EXPECT_EQ(answers.size(), kResources + 1);
  EXPECT_EQ(answers.back(), "NAK 0x61 at 8 msn 8");
}

TEST_F(ResponderAnswersTest, FailsWhenTheKeyIsDeregisteredDuringAnAnswer) {
  Take(Read(0, 100 * kMtu));
  Take(Read(100, 8));
  EXPECT_TRUE(responder->Flush());
  hca.DeregisterMemory(memory.key);
  EXPECT_FALSE(responder->Flush());
  EXPECT_EQ(sink.sent.size(), 65u);
  EXPECT_EQ(Describe(sink.sent.back().packet), "NAK 0x62 at 64 msn 2");
  EXPECT_THAT(user.events, ElementsAre(QpEvent::kAccessError));
}

TEST_F(ResponderAnswersTest, ExecutesADuplicateReadAgain) {
  Take(Read(0, 2 * kMtu));
  Answers();
  sent.clear();
  Fill(100);
  Take(Read(0, 2 * kMtu));
  EXPECT_THAT(Answers(), ElementsAre("READ_RESP_FIRST 0 msn 1", "READ_RESP_LAST 1 msn 1"));
  EXPECT_EQ(Answered(), Memory(0, 2 * kMtu));
}

TEST_F(ResponderAnswersTest, AnswersPartOfAReadAgain) {
  Take(Read(0, 4 * kMtu));
  Answers();
  sent.clear();
  Take(Read(1, 3 * kMtu, kMtu));
  EXPECT_THAT(Answers(),
              ElementsAre("READ_RESP_FIRST 1 msn 1", "READ_RESP_MIDDLE 2", "READ_RESP_LAST 3 msn 1"));
  EXPECT_EQ(Answered(), Memory(kMtu, 3 * kMtu));
  Take(Read(3, kMtu, 3 * kMtu));
  EXPECT_THAT(Answers(), ElementsAre("READ_RESP_ONLY 3 msn 1"));
}

TEST_F(ResponderAnswersTest, DuplicateReplacesTheRestOfItsAnswer) {
  Take(Read(0, 70 * kMtu));
  Take(Read(70, 8));
  EXPECT_TRUE(responder->Flush());
  sink.sent.clear();
  Take(Read(60, 10 * kMtu, 60 * kMtu));
  const std::vector<std::string> answers = Answers();
  EXPECT_EQ(answers.size(), 11u);
  EXPECT_EQ(answers.front(), "READ_RESP_FIRST 60 msn 2");
  EXPECT_EQ(answers.back(), "READ_RESP_ONLY 70 msn 2") << "the later read is still answered";
}

TEST_F(ResponderAnswersTest, DropsDuplicatesOfReadsThatMayNotBeExecuted) {
  Take(Read(0, kMtu));
  Answers();
  Take(Read(0, 2 * kMtu));  // exceeds the original request
  EXPECT_THAT(Answers(), IsEmpty());
  hca.DeregisterMemory(memory.key);
  Take(Read(0, kMtu));
  EXPECT_THAT(Answers(), IsEmpty());
  EXPECT_EQ(user.qp().state, QpState::kRts);
}

TEST_F(ResponderAnswersTest, ManyDuplicatesTakeNoMemory) {
  for (uint32_t psn = 0; psn < 100; ++psn) {
    Take(Read(psn, 8));
    Answers();
  }
  for (uint32_t psn = 0; psn < 100; ++psn) Take(Read(psn, 8));
  EXPECT_EQ(Answers().size(), kResources);
  for (uint32_t psn = 0; psn < 100; ++psn) Take(Read(psn, 8));
  Take(Read(100, 8));
  EXPECT_EQ(Answers().back(), "READ_RESP_ONLY 100 msn 101") << "duplicates do not displace new requests";
}

TEST_F(ResponderAnswersTest, AcknowledgesDuplicateWritesAndSendsWithoutExecutingThem) {
  user.PostReceive({Segment(memory, 0, 64)});
  user.PostReceive({Segment(memory, 0, 64)});
  Take(Make(kWriteOnly, 0, 8, 8, 128));
  Take(Make(kSendOnly, 1, 8));
  EXPECT_TRUE(user.receive_cq.Poll());
  Fill(1);
  Take(Make(kWriteOnly, 0, 8, 8, 128));
  Take(Make(kSendOnly, 1, 8));
  EXPECT_THAT(Answers(), ElementsAre("ACK 1 msn 2")) << "one acknowledgement covers both";
  EXPECT_EQ(memory.memory[128], 129);
  EXPECT_FALSE(user.receive_cq.Poll());
}

TEST_F(ResponderAnswersTest, DuplicateWriteDoesNotAcknowledgeALaterAtomic) {
  Take(Make(kWriteOnly, 0, 8, 8, 128));
  Take(FetchAdd(1, 5, 64));
  Answers();
  Take(Make(kWriteOnly, 0, 8, 8, 128));
  EXPECT_THAT(Answers(), ElementsAre("ACK 0 msn 2"));
}

TEST_F(ResponderAnswersTest, AtomicReturnsTheOldValue) {
  Word(64) = 100;
  Take(FetchAdd(0, 5, 64));
  Packet swap = FetchAdd(1, 7, 64);
  swap.op = kCompareSwap;
  swap.atomic.compare = 105;
  Take(swap);
  Packet miss = swap;
  miss.psn = 2;
  Take(miss);
  EXPECT_THAT(Answers(), ElementsAre("ATOMIC_ACK 0 msn 1", "ATOMIC_ACK 1 msn 2", "ATOMIC_ACK 2 msn 3"));
  EXPECT_THAT(Originals(), ElementsAre(100, 105, 7));
  EXPECT_EQ(Word(64), 7u);
}

TEST_F(ResponderAnswersTest, MaskedAtomicsOfFourBytesChangeOnlyTheirField) {
  Word(64) = 0x1111111122222222;
  Packet add = FetchAdd(0, 0x00010001, 64);
  add.masked_atomic = true;
  add.atomic.bytes = 4;
  add.atomic.boundary = 0x80008000;
  Take(add);
  Packet swap = add;
  swap.op = kCompareSwap;
  swap.psn = 1;
  swap.atomic.compare = 0x23;
  swap.atomic.compare_mask = 0xff;
  swap.atomic.swap_add = 0xffffffff;
  swap.atomic.swap_mask = 0xff00;
  Take(swap);
  Answers();
  EXPECT_THAT(Originals(), ElementsAre(0x22222222, 0x22232223));
  EXPECT_EQ(Word(64), 0x111111112223ff23u);
}

TEST_F(ResponderAnswersTest, RefusesAnAtomicOfAnotherSize) {
  Packet add = FetchAdd(0, 1, 64);
  add.masked_atomic = true;
  add.atomic.bytes = 0;
  Take(add);
  EXPECT_THAT(Answers(), ElementsAre("NAK 0x61 at 0 msn 0"));
}

class NoAtomicsTest : public ResponderFixture {
 protected:
  static DeviceConfig Device() {
    DeviceConfig device = TestDevice();
    device.atomics = false;
    return device;
  }
  NoAtomicsTest() : ResponderFixture({}, {}, Device()) {}
};

TEST_F(NoAtomicsTest, RefusesAtomics) {
  Take(FetchAdd(0, 1));
  EXPECT_THAT(Answers(), ElementsAre("NAK 0x61 at 0 msn 0"));
  EXPECT_EQ(Memory(0, 8), std::vector<uint8_t>(8));
}

TEST_F(ResponderAnswersTest, AnswersADuplicateAtomicFromMemory) {
  Word(64) = 0;
  for (uint32_t psn = 0; psn <= kResources; ++psn) {
    Take(FetchAdd(psn, 1, 64));
    Answers();
  }
  sent.clear();
  for (uint32_t psn = 0; psn <= kResources; ++psn) {
    Take(FetchAdd(psn, 1, 64));
    Answers();
  }
  EXPECT_THAT(Originals(), ElementsAre(1, 2, 3, 4)) << "the oldest result is dropped";
  EXPECT_EQ(Word(64), kResources + 1);
}

}  // namespace
}  // namespace softhca
