// Encoding of WQEs of one slot, byte for byte, compared with WQEs built from the wire structs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "golden.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/raw_send_queue.hpp"

namespace warpverbs::device {
namespace {

using mlx5::WqeOpcode;

constexpr uint32_t kIndex = 0x1'23fe;  // more than 16 bits, and not slot 0
constexpr uint32_t kDepth = 4;
constexpr RemoteMemory kRemote{0x1122'3344'5566'7788, mlx5::ToBe32(0xaabbccdd)};
constexpr LocalMemory kLocal{0x99aa'bbcc'ddee'ff00, 0x1234, mlx5::ToBe32(0x10203040)};
constexpr LocalMemory kSecond{0x0102'0304'0506'0708, 0x77, mlx5::ToBe32(0x50607080)};
constexpr LocalMemory kEmpty{0x99aa'bbcc'ddee'ff00, 0, mlx5::ToBe32(0x10203040)};
constexpr mlx5::Be32 kImm{0x04030201};

class OperationImage : public testing::Test {
 protected:
  std::string Slot() const { return SlotsFrom(queue_, kIndex); }

  TestQueue queue_{kDepth};
  RawSendQueue<arch::Cpu> ring_{queue_.View()};
};

TEST_F(OperationImage, WriteHasRemoteAddressAndData) {
  ring_.PostWrite(kIndex, kRemote, kLocal);
  EXPECT_EQ(Slot(),
            Golden(WqeOpcode::kRdmaWrite).Add(SegmentOf(kRemote)).Add(SegmentOf(kLocal)).Bytes(kIndex));
}

TEST_F(OperationImage, EmptyMessageHasNoDataSegment) {
  ring_.PostWrite(kIndex, kRemote, kEmpty);
  EXPECT_EQ(Slot(), Golden(WqeOpcode::kRdmaWrite).Add(SegmentOf(kRemote)).Bytes(kIndex));
  ring_.PostSend(kIndex, kEmpty);
  EXPECT_EQ(Slot()[7], 1) << "only the control segment";
}

TEST_F(OperationImage, WriteImmCarriesTheImmediateAsStored) {
  constexpr uint32_t kFlags = mlx5::kCqeAlways | mlx5::kSolicited;
  ring_.PostWriteImm(kIndex, kRemote, kLocal, kImm, kFlags);
  EXPECT_EQ(Slot(), Golden(WqeOpcode::kRdmaWriteImm)
                        .Add(SegmentOf(kRemote))
                        .Add(SegmentOf(kLocal))
                        .Bytes(kIndex, kFlags, kImm));
}

TEST_F(OperationImage, ReadHasRemoteAddressAndData) {
  ring_.PostRead(kIndex, kRemote, kLocal, mlx5::kFence);
  EXPECT_EQ(Slot(), Golden(WqeOpcode::kRdmaRead)
                        .Add(SegmentOf(kRemote))
                        .Add(SegmentOf(kLocal))
                        .Bytes(kIndex, mlx5::kFence));
}

TEST_F(OperationImage, SendHasData) {
  ring_.PostSend(kIndex, kLocal);
  EXPECT_EQ(Slot(), Golden(WqeOpcode::kSend).Add(SegmentOf(kLocal)).Bytes(kIndex));
}

TEST_F(OperationImage, SendImmCarriesTheImmediateAsStored) {
  ring_.Post(kIndex, SendImm(kLocal, kImm));
  EXPECT_EQ(Slot(), Golden(WqeOpcode::kSendImm).Add(SegmentOf(kLocal)).Bytes(kIndex, mlx5::kCqeAlways, kImm));
}

TEST_F(OperationImage, SecondEntryFollowsTheFirst) {
  ring_.Post(kIndex, Write(kRemote, kLocal, kSecond));
  EXPECT_EQ(Slot(), Golden(WqeOpcode::kRdmaWrite)
                        .Add(SegmentOf(kRemote))
                        .Add(SegmentOf(kLocal))
                        .Add(SegmentOf(kSecond))
                        .Bytes(kIndex));
  ring_.Post(kIndex, WriteImm(kRemote, kLocal, kImm, kSecond));
  EXPECT_EQ(Slot(), Golden(WqeOpcode::kRdmaWriteImm)
                        .Add(SegmentOf(kRemote))
                        .Add(SegmentOf(kLocal))
                        .Add(SegmentOf(kSecond))
                        .Bytes(kIndex, mlx5::kCqeAlways, kImm));
  ring_.Post(kIndex, Read(kRemote, kLocal, kSecond));
  EXPECT_EQ(Slot(), Golden(WqeOpcode::kRdmaRead)
                        .Add(SegmentOf(kRemote))
                        .Add(SegmentOf(kLocal))
                        .Add(SegmentOf(kSecond))
                        .Bytes(kIndex));
}

TEST_F(OperationImage, SecondEntryOfASendFollowsTheFirst) {
  ring_.Post(kIndex, Send(kLocal, kSecond));
  EXPECT_EQ(Slot(), Golden(WqeOpcode::kSend).Add(SegmentOf(kLocal)).Add(SegmentOf(kSecond)).Bytes(kIndex));
  ring_.Post(kIndex, SendImm(kLocal, kImm, kSecond));
  EXPECT_EQ(Slot(), Golden(WqeOpcode::kSendImm)
                        .Add(SegmentOf(kLocal))
                        .Add(SegmentOf(kSecond))
                        .Bytes(kIndex, mlx5::kCqeAlways, kImm));
}

TEST_F(OperationImage, SecondEntryReplacesAnEmptyFirst) {
  ring_.Post(kIndex, Write(kRemote, kEmpty, kSecond));
  EXPECT_EQ(Slot(),
            Golden(WqeOpcode::kRdmaWrite).Add(SegmentOf(kRemote)).Add(SegmentOf(kSecond)).Bytes(kIndex));
}

TEST_F(OperationImage, NopIsAControlSegment) {
  ring_.Post(kIndex, Nop(), mlx5::kCqeOnError);
  EXPECT_EQ(Slot(), Golden(WqeOpcode::kNop).Bytes(kIndex, mlx5::kCqeOnError));
}

TEST_F(OperationImage, FenceIsANopThatWaitsForReads) {
  ring_.Post(kIndex, Fence{});
  EXPECT_EQ(Slot(), Golden(WqeOpcode::kNop).Bytes(kIndex, mlx5::kCqeAlways | mlx5::kFence));
}

TEST_F(OperationImage, WaitNamesTheLastCqeToWaitFor) {
  const auto wait = [](uint32_t last) {
    constexpr auto kOpmod = static_cast<uint32_t>(mlx5::WaitOpmod::kCqProducerIndex);
    return Golden(WqeOpcode::kWait, kOpmod)
        .Add(mlx5::WaitSegment{{}, mlx5::ToBe32(last), mlx5::ToBe32(0x4321)})
        .Bytes(kIndex);
  };
  ring_.Post(kIndex, WaitCq{.cqn = 0x4321, .count = 9});
  EXPECT_EQ(Slot(), wait(8));
  ring_.Post(kIndex, WaitCq{.cqn = 0x4321, .count = 0x1000001});
  EXPECT_EQ(Slot(), wait(0)) << "indices have 24 bits";
}

TEST_F(OperationImage, WaitForNoCompletionIsANop) {
  ring_.Post(kIndex, WaitCq{.cqn = 0x4321, .count = 0});
  EXPECT_EQ(Slot(), Golden(WqeOpcode::kNop).Bytes(kIndex));
}

TEST_F(OperationImage, DumpReadsTheFirstByte) {
  ring_.Post(kIndex, Dump{kLocal});
  const LocalMemory first{kLocal.addr, 1, kLocal.lkey};
  EXPECT_EQ(Slot(), Golden(WqeOpcode::kDump).Add(SegmentOf(first)).Bytes(kIndex));
}

TEST_F(OperationImage, DumpOfNothingIsANop) {
  ring_.Post(kIndex, Dump{kEmpty});
  EXPECT_EQ(Slot(), Golden(WqeOpcode::kNop).Bytes(kIndex));
}

TEST_F(OperationImage, DoorbellIsTheStartOfTheControlSegment) {
  const mlx5::Be64 doorbell = ring_.PostWrite(kIndex, kRemote, kLocal);
  EXPECT_EQ(std::memcmp(&doorbell, queue_.ring[kIndex % kDepth].bytes, sizeof doorbell), 0);
}

template <class Size>
class InlineImage : public OperationImage {};

using Sizes = testing::Types<std::integral_constant<size_t, 1>, std::integral_constant<size_t, 4>,
                             std::integral_constant<size_t, 12>, std::integral_constant<size_t, 13>,
                             std::integral_constant<size_t, 28>>;
TYPED_TEST_SUITE(InlineImage, Sizes);

TYPED_TEST(InlineImage, PayloadFollowsTheHeaderPaddedWithZeros) {
  std::array<uint8_t, TypeParam::value> payload;
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<uint8_t>(0x80 + i);
  const auto bytes = static_cast<uint32_t>(payload.size());
  this->ring_.PostWriteInline(kIndex, kRemote, payload);
  EXPECT_EQ(this->Slot(), Golden(WqeOpcode::kRdmaWrite)
                              .Add(SegmentOf(kRemote))
                              .Add(mlx5::InlineSegment{mlx5::ToBe32(mlx5::kInlineFlag | bytes)}, bytes)
                              .Payload(payload.data(), payload.size())
                              .Bytes(kIndex));
}

}  // namespace
}  // namespace warpverbs::device
