// The number of slots of an operation, and the contents of each slot.
#include "warpverbs/device/operations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/raw_send_queue.hpp"

namespace warpverbs::device {
namespace {

using mlx5::WqeOpcode;

constexpr uint32_t kDepth = 8;
constexpr uint32_t kIndex = 0x1'0006;  // two slots before the end of the queue
constexpr uint32_t kLogLongest = 4;
constexpr uint64_t kLongest = 1 << kLogLongest;
constexpr mlx5::Be32 kRkey = mlx5::ToBe32(0xaabbccdd);
constexpr mlx5::Be32 kLkey = mlx5::ToBe32(0x10203040);
constexpr RemoteMemory kRemote{0x1122'3344'5566'7788, kRkey};
constexpr uint64_t kAddr = 0x99aa'bbcc'ddee'ff00;
constexpr uint32_t kQuiet = mlx5::kCqeOnError;

LocalMemory Bytes(uint64_t count) { return {kAddr, count, kLkey}; }

class Operations : public testing::Test {
 protected:
  Operations() { queue_.max_message = 1U << kLogLongest; }

  template <class Operation>
  uint32_t Slots(const Operation& operation) {
    return operation.Slots(queue_.View());
  }

  template <class Operation>
  std::string Encode(const Operation& operation, uint32_t flags = mlx5::kCqeAlways) {
    doorbell_ = RawSendQueue<arch::Cpu>(queue_.View()).Post(kIndex, operation, flags);
    return SlotsFrom(queue_, kIndex, Slots(operation));
  }

  /// Returns the `piece`-th WQE of a long message.
  static std::string Piece(WqeOpcode opcode, uint32_t piece, uint64_t bytes, uint32_t flags,
                           mlx5::Be32 imm = {}) {
    const RemoteMemory remote{kRemote.addr + piece * kLongest, kRkey};
    const LocalMemory local{kAddr + piece * kLongest, bytes, kLkey};
    return Golden(opcode).Add(SegmentOf(remote)).Add(SegmentOf(local)).Bytes(kIndex + piece, flags, imm);
  }

  /// Returns the dump that follows a read, at `slot`.
  static std::string DumpAt(uint32_t slot, uint64_t addr = kAddr) {
    constexpr uint32_t flags = mlx5::kCqeAlways | mlx5::kFence;
    return Golden(WqeOpcode::kDump).Add(SegmentOf(LocalMemory{addr, 1, kLkey})).Bytes(kIndex + slot, flags);
  }

  TestQueue queue_{kDepth};
  mlx5::Be64 doorbell_{};
};

TEST_F(Operations, ShortMessagesTakeOneSlot) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, kLongest - 1, kLongest}) {
    EXPECT_EQ(Slots(Write(kRemote, Bytes(bytes))), 1U) << bytes;
    EXPECT_EQ(Slots(WriteImm(kRemote, Bytes(bytes), mlx5::Be32{7})), 1U) << bytes;
    EXPECT_EQ(Slots(Read(kRemote, Bytes(bytes))), 1U) << bytes;
    EXPECT_EQ(Slots(Send(Bytes(bytes))), 1U) << bytes;
  }
  EXPECT_EQ(Slots(Nop()), 1U);
  EXPECT_EQ(Slots(Fence{}), 1U);
  EXPECT_EQ(Slots(WaitCq{1, 1}), 1U);
  EXPECT_EQ(Slots(Dump{Bytes(1000)}), 1U);
  EXPECT_EQ(Slots(WriteInline{kRemote, uint64_t{1}}), 1U);
}

TEST_F(Operations, LongMessagesTakeASlotForEachPiece) {
  EXPECT_EQ(Slots(Write(kRemote, Bytes(kLongest + 1))), 2U);
  EXPECT_EQ(Slots(Read(kRemote, Bytes(2 * kLongest))), 2U);
  EXPECT_EQ(Slots(WriteImm(kRemote, Bytes(2 * kLongest + 1), mlx5::Be32{7})), 3U);
  queue_.max_message = 1 << 30;
  EXPECT_EQ(Slots(Write(kRemote, Bytes(uint64_t{1} << 30))), 1U);
  EXPECT_EQ(Slots(Write(kRemote, Bytes((uint64_t{1} << 32) + 1))), 5U) << "lengths have more than 32 bits";
}

TEST_F(Operations, LengthsBeyondAnyQueueDoNotWrapAround) {
  for (const uint64_t bytes : {uint64_t{1} << 40, (uint64_t{1} << 36) + 1, UINT64_MAX}) {
    EXPECT_GT(Slots(Write(kRemote, Bytes(bytes))), 32768U) << bytes;
    EXPECT_NE(Slots(Write(kRemote, Bytes(bytes))), kTooLong) << bytes;
  }
}

TEST_F(Operations, SendsAndTwoEntriesCannotBeSplit) {
  EXPECT_EQ(Slots(Send(Bytes(kLongest + 1))), kTooLong);
  EXPECT_EQ(Slots(SendImm(Bytes(kLongest + 1), mlx5::Be32{7})), kTooLong);
  EXPECT_EQ(Slots(Send(Bytes(kLongest - 1), Bytes(1))), 1U);
  EXPECT_EQ(Slots(Send(Bytes(kLongest), Bytes(1))), kTooLong);
  EXPECT_EQ(Slots(Write(kRemote, Bytes(kLongest), Bytes(1))), kTooLong);
  EXPECT_EQ(Slots(Read(kRemote, Bytes(1), Bytes(kLongest))), kTooLong);
  EXPECT_EQ(Slots(Write(kRemote, Bytes(1), Bytes(UINT64_MAX))), kTooLong) << "the sum must not wrap";
  EXPECT_EQ(Slots(Write(kRemote, Bytes(0), Bytes(kLongest))), 1U);
}

TEST_F(Operations, LongWriteIsSplitAndCompletesOnce) {
  EXPECT_EQ(Encode(Write(kRemote, Bytes(2 * kLongest + 5))),
            Piece(WqeOpcode::kRdmaWrite, 0, kLongest, kQuiet) +
                Piece(WqeOpcode::kRdmaWrite, 1, kLongest, kQuiet) +
                Piece(WqeOpcode::kRdmaWrite, 2, 5, mlx5::kCqeAlways));
}

TEST_F(Operations, LongReadIsSplitAndCompletesOnce) {
  EXPECT_EQ(Encode(Read(kRemote, Bytes(2 * kLongest))),
            Piece(WqeOpcode::kRdmaRead, 0, kLongest, kQuiet) +
                Piece(WqeOpcode::kRdmaRead, 1, kLongest, mlx5::kCqeAlways));
}

TEST_F(Operations, LongMessageIsFencedInEachPieceAndSolicitedOnce) {
  constexpr uint32_t kFlags = mlx5::kCqeAlways | mlx5::kSolicited | mlx5::kFence;
  EXPECT_EQ(
      Encode(Write(kRemote, Bytes(kLongest + 1)), kFlags),
      Piece(WqeOpcode::kRdmaWrite, 0, kLongest, mlx5::kFence) + Piece(WqeOpcode::kRdmaWrite, 1, 1, kFlags));
}

TEST_F(Operations, LongWriteImmEndsWithTheImmediate) {
  const std::string image = Encode(WriteImm(kRemote, Bytes(kLongest + 1), mlx5::Be32{7}));
  EXPECT_EQ(image[3], static_cast<char>(WqeOpcode::kRdmaWrite));
  EXPECT_EQ(image.substr(64), Piece(WqeOpcode::kRdmaWriteImm, 1, 1, mlx5::kCqeAlways, mlx5::Be32{7}));
}

TEST_F(Operations, ReadIsFollowedByADumpIfTheDeviceNeedsIt) {
  queue_.flags |= kDumpAfterRead;
  EXPECT_EQ(Slots(Read(kRemote, Bytes(5))), 2U);
  EXPECT_EQ(Encode(Read(kRemote, Bytes(5))), Piece(WqeOpcode::kRdmaRead, 0, 5, kQuiet) + DumpAt(1));
  EXPECT_EQ(Encode(Read(kRemote, Bytes(kLongest + 1))), Piece(WqeOpcode::kRdmaRead, 0, kLongest, kQuiet) +
                                                            Piece(WqeOpcode::kRdmaRead, 1, 1, kQuiet) +
                                                            DumpAt(2));
  EXPECT_EQ(Slots(Write(kRemote, Bytes(5))), 1U) << "a write fetches nothing";
}

TEST_F(Operations, DumpReadsTheFirstNonEmptyEntry) {
  queue_.flags |= kDumpAfterRead;
  const LocalMemory second{0x5000, 3, kLkey};
  EXPECT_EQ(Encode(Read(kRemote, Bytes(0), second)).substr(64), DumpAt(1, 0x5000));
  EXPECT_EQ(Encode(Read(kRemote, Bytes(2), second)).substr(64), DumpAt(1));
}

TEST_F(Operations, SequenceEncodesBothOperationsInOrder) {
  const Sequence both{Write(kRemote, Bytes(kLongest + 1)), WriteInline{kRemote, uint64_t{42}}};
  EXPECT_EQ(Slots(both), 3U);
  const std::string image = Encode(both);
  EXPECT_EQ(image.substr(0, 128),
            Piece(WqeOpcode::kRdmaWrite, 0, kLongest, kQuiet) + Piece(WqeOpcode::kRdmaWrite, 1, 1, kQuiet));
  EXPECT_EQ(image[128 + 11], mlx5::kCqeAlways);
  EXPECT_EQ(std::memcmp(&doorbell_, image.data() + 128, sizeof doorbell_), 0);
}

TEST_F(Operations, SequenceWithAPartThatIsTooLongIsTooLong) {
  EXPECT_EQ(Slots(Sequence{Send(Bytes(kLongest + 1)), Nop()}), kTooLong);
  EXPECT_EQ(Slots(Sequence{Nop(), Send(Bytes(kLongest + 1))}), kTooLong);
}

TEST_F(Operations, DoorbellBelongsToTheLastSlot) {
  const std::string image = Encode(Write(kRemote, Bytes(3 * kLongest)));
  EXPECT_EQ(std::memcmp(&doorbell_, image.data() + 128, sizeof doorbell_), 0);
}

}  // namespace
}  // namespace warpverbs::device
