#include "core/cq.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/queues.hpp"

namespace softhca {
namespace {

using mlx5::CqeOpcode;
using mlx5::Syndrome;

class CqTest : public testing::Test {
 protected:
  CompletionQueue Create(CqMemory& queue) {
    CqConfig config = queue.Config();
    config.on_completion = [this] { ++events; };
    config.on_error = [this] { ++errors; };
    return CompletionQueue(std::move(config));
  }

  CqMemory memory{2};
  int events = 0;
  int errors = 0;
};

Completion Numbered(uint16_t index) { return {.qpn = 0x123, .wqe_index = index}; }

TEST_F(CqTest, KeepsTheOwnerBitRightOverManyRounds) {
  CompletionQueue cq = Create(memory);
  EXPECT_FALSE(memory.Poll());
  for (uint16_t i = 0; i < 4 * 9; ++i) {
    ASSERT_TRUE(cq.Push(Numbered(i)));
    const auto cqe = memory.Poll();
    ASSERT_TRUE(cqe) << i;
    EXPECT_EQ(cqe->wqe_index, i);
    ASSERT_FALSE(memory.Poll()) << "entry " << i << " seen twice";
  }
}

TEST_F(CqTest, ReportsEveryFieldOfASuccess) {
  CompletionQueue cq = Create(memory);
  cq.Push({.opcode = CqeOpcode::kResponderSendImm,
           .qpn = 0xabcdef,
           .user_index = 0x654321,
           .wqe_index = 0xfffe,
           .bytes = 0x12345678,
           .imm = mlx5::ToBe32(0xcafe),
           .solicited = true});
  const Cqe cqe = memory.Poll().value();
  EXPECT_EQ(cqe.opcode, CqeOpcode::kResponderSendImm);
  EXPECT_EQ(cqe.qpn, 0xabcdefu);
  EXPECT_EQ(cqe.user_index, 0x654321u);
  EXPECT_EQ(cqe.wqe_index, 0xfffe);
  EXPECT_EQ(cqe.bytes, 0x12345678u);
  EXPECT_EQ(cqe.imm, mlx5::ToBe32(0xcafe));
  EXPECT_TRUE(cqe.solicited);
}

TEST_F(CqTest, ReportsSyndromeAndOpcodeOfAnError) {
  CompletionQueue cq = Create(memory);
  cq.Push({.opcode = CqeOpcode::kRequesterError,
           .qpn = 5,
           .wqe_opcode = 8,
           .wqe_index = 3,
           .syndrome = Syndrome::kRemoteAccess});
  const Cqe cqe = memory.Poll().value();
  EXPECT_EQ(cqe.opcode, CqeOpcode::kRequesterError);
  EXPECT_EQ(cqe.syndrome, Syndrome::kRemoteAccess);
  EXPECT_EQ(cqe.wqe_opcode, 8);
  EXPECT_EQ(cqe.wqe_index, 3);
}

TEST_F(CqTest, PutsTheCompletionIntoTheUpperHalfOf128Bytes) {
  CqMemory wide(1, 128);
  CompletionQueue cq = Create(wide);
  for (uint16_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(cq.Push(Numbered(i)));
    EXPECT_EQ(wide.Poll().value().wqe_index, i);
  }
}

TEST_F(CqTest, NeverShowsAnOverwrittenErrorAsSuccess) {
  alignas(8) std::array<uint8_t, sizeof(mlx5::Cqe64)> ring{};
  mlx5::CqDbr dbr{};
  CompletionQueue cq(
      {.ring = ring.data(), .dbr = &dbr, .log_depth = 0, .collapsed = true, .ignore_overrun = true});
  auto& upper = *reinterpret_cast<uint64_t*>(ring.data() + sizeof(mlx5::Cqe64) - sizeof(uint64_t));
  constexpr uint16_t kLastDone = 3;
  ASSERT_TRUE(cq.Push(Numbered(kLastDone)));
  std::atomic<bool> stop = false;
  uint32_t wrong = 0;
  std::jthread reader([&] {
    while (!stop) {
      const uint64_t seen = std::atomic_ref(upper).load(std::memory_order_acquire);
      const auto opcode = static_cast<mlx5::CqeOpcode>(seen >> 60);
      const uint64_t counter = (seen >> 32 & 0xff) << 8 | (seen >> 40 & 0xff);
      wrong += opcode != mlx5::CqeOpcode::kRequesterError && counter > kLastDone;
    }
  });
  for (uint16_t i = kLastDone + 1; i < 30'000; ++i) {
    Completion failed = Numbered(i);
    failed.opcode = mlx5::CqeOpcode::kRequesterError;
    failed.syndrome = mlx5::Syndrome::kFlushed;
    ASSERT_TRUE(cq.Push(failed));
  }
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, 0U) << "a reader takes an error for a success";
}

TEST_F(CqTest, CollapsedQueueKeepsTheNewestInItsFirstEntry) {
  alignas(8) std::array<uint8_t, 4 * sizeof(mlx5::Cqe64)> ring{};
  mlx5::CqDbr dbr{};
  CompletionQueue cq(
      {.ring = ring.data(), .dbr = &dbr, .log_depth = 2, .collapsed = true, .ignore_overrun = true});
  for (uint16_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(cq.Push(Numbered(i)));
    mlx5::Cqe64 cqe;
    std::memcpy(&cqe, ring.data(), sizeof cqe);
    EXPECT_EQ(mlx5::FromBe(cqe.wqe_counter), i);
  }
  EXPECT_TRUE(
      std::all_of(ring.begin() + sizeof(mlx5::Cqe64), ring.end(), [](uint8_t byte) { return byte == 0; }));
}

TEST_F(CqTest, OverrunLosesTheCompletionAndIsReportedOnce) {
  CompletionQueue cq = Create(memory);
  for (uint16_t i = 0; i < 4; ++i) ASSERT_TRUE(cq.Push(Numbered(i)));
  EXPECT_FALSE(cq.Push(Numbered(4)));
  EXPECT_FALSE(cq.Push(Numbered(5)));
  EXPECT_TRUE(cq.failed());
  EXPECT_EQ(errors, 1);
  for (uint16_t i = 0; i < 4; ++i) EXPECT_EQ(memory.Poll().value().wqe_index, i);
  EXPECT_FALSE(cq.Push(Numbered(6))) << "an overrun queue stays dead";
}

TEST_F(CqTest, HasRoomAsSoonAsTheRecordAdvances) {
  CompletionQueue cq = Create(memory);
  for (uint16_t i = 0; i < 4; ++i) ASSERT_TRUE(cq.Push(Numbered(i)));
  ASSERT_TRUE(memory.Poll());
  EXPECT_TRUE(cq.Push(Numbered(4)));
  EXPECT_EQ(errors, 0);
}

TEST_F(CqTest, IgnoresOverrunWhenConfigured) {
  CqConfig config = memory.Config();
  config.ignore_overrun = true;
  CompletionQueue cq(std::move(config));
  for (uint16_t i = 0; i < 100; ++i) ASSERT_TRUE(cq.Push(Numbered(i)));
  EXPECT_FALSE(cq.failed());
}

TEST_F(CqTest, SendsOneEventPerArm) {
  CompletionQueue cq = Create(memory);
  cq.Push(Numbered(0));
  EXPECT_EQ(events, 0) << "nobody asked";
  memory.Poll();
  memory.Arm();
  cq.OnArmDoorbell(true);
  EXPECT_EQ(events, 0);
  cq.Push(Numbered(1));
  cq.Push(Numbered(2));
  EXPECT_EQ(events, 1);
}

TEST_F(CqTest, SendsOneEventPerSequenceNumber) {
  CompletionQueue cq = Create(memory);
  cq.Push(Numbered(0));
  memory.Arm();
  for (int i = 0; i < 5; ++i) cq.OnArmDoorbell(true);
  EXPECT_EQ(events, 1);
}

TEST_F(CqTest, AcceptsTheFirstArmWhenItsDoorbellNamesAnotherQueue) {
  CompletionQueue cq = Create(memory);
  memory.Arm();  // all zeros: sequence 0, index 0
  cq.OnArmDoorbell(false);
  cq.Push(Numbered(0));
  EXPECT_EQ(events, 1);
}

TEST_F(CqTest, IgnoresADoorbellOfAnotherQueueOnItsPage) {
  CompletionQueue cq = Create(memory);
  memory.Arm();
  cq.OnArmDoorbell(true);
  cq.Push(Numbered(0));
  ASSERT_EQ(events, 1);
  cq.OnArmDoorbell(false);
  cq.Push(Numbered(1));
  EXPECT_EQ(events, 1);
}

TEST_F(CqTest, IgnoresADoorbellOfAnotherQueueBeforeTheFirstArm) {
  CompletionQueue cq = Create(memory);
  cq.OnArmDoorbell(false);
  cq.Push(Numbered(0));
  EXPECT_EQ(events, 0);
}

TEST_F(CqTest, SendsTheEventAtOnceWhenArmedAfterTheCompletion) {
  CompletionQueue cq = Create(memory);
  cq.Push(Numbered(0));
  memory.Arm();
  cq.OnArmDoorbell(true);
  EXPECT_EQ(events, 1);
}

TEST_F(CqTest, WaitsForTheNextCompletionWhenArmedAfterThePoll) {
  CompletionQueue cq = Create(memory);
  cq.Push(Numbered(0));
  memory.Poll();
  memory.Arm();
  cq.OnArmDoorbell(true);
  EXPECT_EQ(events, 0);
  cq.Push(Numbered(1));
  EXPECT_EQ(events, 1);
}

TEST_F(CqTest, DoesNotReportACompletionTwiceWhenArmedBeforeThePoll) {
  CompletionQueue cq = Create(memory);
  memory.Arm();
  cq.OnArmDoorbell(true);
  cq.Push(Numbered(0));
  ASSERT_EQ(events, 1);
  memory.Arm();
  cq.OnArmDoorbell(true);
  EXPECT_EQ(events, 1);
  cq.Push(Numbered(1));
  EXPECT_EQ(events, 2);
}

TEST_F(CqTest, SolicitedArmIgnoresOrdinaryCompletions) {
  CompletionQueue cq = Create(memory);
  memory.Arm(true);
  cq.OnArmDoorbell(true);
  cq.Push(Numbered(0));
  EXPECT_EQ(events, 0);
  cq.Push({.opcode = CqeOpcode::kResponderSend, .solicited = true});
  EXPECT_EQ(events, 1);
}

TEST_F(CqTest, SolicitedArmReportsErrors) {
  CompletionQueue cq = Create(memory);
  memory.Arm(true);
  cq.OnArmDoorbell(true);
  cq.Push({.opcode = CqeOpcode::kRequesterError, .syndrome = Syndrome::kFlushed});
  EXPECT_EQ(events, 1);
}

TEST_F(CqTest, LateSolicitedArmIgnoresOrdinaryCompletions) {
  CompletionQueue cq = Create(memory);
  cq.Push(Numbered(0));
  memory.Arm(true);
  cq.OnArmDoorbell(true);
  EXPECT_EQ(events, 0);

  CqMemory other_memory(2);
  CompletionQueue other = Create(other_memory);
  other.Push({.opcode = CqeOpcode::kResponderSend, .solicited = true});
  other.Push(Numbered(1));
  other_memory.Arm(true);
  other.OnArmDoorbell(true);
  EXPECT_EQ(events, 1);
}

}  // namespace
}  // namespace softhca
