// Each WQE, byte for byte, against the same one put together from the wire structs.
#include "warpverbs/device/operations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "test_nic.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_ring.hpp"

namespace warpverbs::device {
namespace {

constexpr uint32_t kIndex = 0x1'23fe;  // more than 16 bits, and not slot 0
constexpr uint32_t kDepth = 4;
constexpr RemoteMemory kRemote{0x1122'3344'5566'7788, mlx5::ToBe32(0xaabbccdd)};
constexpr LocalMemory kLocal{0x99aa'bbcc'ddee'ff00, 0x1234, mlx5::ToBe32(0x10203040)};
constexpr LocalMemory kEmpty{0x99aa'bbcc'ddee'ff00, 0, mlx5::ToBe32(0x10203040)};

/// The slot that a WQE is expected to leave; what is never written stays zero.
class Golden {
 public:
  explicit Golden(mlx5::WqeOpcode opcode) : opcode_(opcode) {}

  template <class Segment>
  Golden& Add(const Segment& segment, uint32_t payload_bytes = 0) {
    std::memcpy(bytes_.data() + segments_ * 16, &segment, sizeof segment);
    segments_ += (sizeof segment + payload_bytes + 15) / 16;
    return *this;
  }

  std::array<uint8_t, 64> Bytes(uint8_t flags = mlx5::kCqeAlways, mlx5::Be32 imm = {0}) {
    const mlx5::CtrlSegment control{
        .opmod_index_opcode = mlx5::ToBe32((kIndex & 0xffff) << 8 | static_cast<uint32_t>(opcode_)),
        .qpn_ds = mlx5::ToBe32(TestQueue::kQpn << 8 | segments_),
        .signature = 0,
        .dci_stream_high = 0,
        .dci_stream_low = 0,
        .fm_ce_se = flags,
        .imm = imm};
    std::memcpy(bytes_.data(), &control, sizeof control);
    return bytes_;
  }

  /// Payload behind the inline segment that was added last.
  Golden& Payload(const void* data, size_t bytes) {
    std::memcpy(bytes_.data() + 36, data, bytes);
    return *this;
  }

 private:
  mlx5::WqeOpcode opcode_;
  std::array<uint8_t, 64> bytes_{};
  uint32_t segments_ = 1;
};

constexpr mlx5::RemoteAddressSegment kRemoteSegment{mlx5::ToBe64(kRemote.addr), kRemote.rkey, {0}};
constexpr mlx5::DataSegment DataOf(const LocalMemory& local) {
  return {mlx5::ToBe32(static_cast<uint32_t>(local.bytes)), local.lkey, mlx5::ToBe64(local.addr)};
}

class Wqe : public testing::Test {
 protected:
  std::array<uint8_t, 64> Slot() const {
    std::array<uint8_t, 64> bytes;
    std::memcpy(bytes.data(), queue_.ring[kIndex % kDepth].bytes, bytes.size());
    return bytes;
  }

  TestQueue queue_{kDepth};
  SendRing<arch::Cpu> ring_{queue_.View()};
};

TEST_F(Wqe, WriteHasRemoteAddressAndData) {
  ring_.PostWrite(kIndex, kRemote, kLocal);
  EXPECT_EQ(Slot(), Golden(mlx5::WqeOpcode::kRdmaWrite).Add(kRemoteSegment).Add(DataOf(kLocal)).Bytes());
}

TEST_F(Wqe, EmptyMessageHasNoDataSegment) {
  ring_.PostWrite(kIndex, kRemote, kEmpty);
  EXPECT_EQ(Slot(), Golden(mlx5::WqeOpcode::kRdmaWrite).Add(kRemoteSegment).Bytes());
  ring_.PostSend(kIndex, kEmpty);
  const std::array<uint8_t, 64> slot = Slot();
  EXPECT_EQ(slot[7], 1) << "the control segment alone";
}

TEST_F(Wqe, WriteImmCarriesTheImmediateAsStored) {
  const mlx5::Be32 imm{0x04030201};
  ring_.PostWriteImm(kIndex, kRemote, kLocal, imm, mlx5::kCqeAlways | mlx5::kSolicited);
  EXPECT_EQ(Slot(), Golden(mlx5::WqeOpcode::kRdmaWriteImm)
                        .Add(kRemoteSegment)
                        .Add(DataOf(kLocal))
                        .Bytes(mlx5::kCqeAlways | mlx5::kSolicited, imm));
}

TEST_F(Wqe, ReadHasRemoteAddressAndData) {
  ring_.PostRead(kIndex, kRemote, kLocal, mlx5::kFence);
  EXPECT_EQ(Slot(),
            Golden(mlx5::WqeOpcode::kRdmaRead).Add(kRemoteSegment).Add(DataOf(kLocal)).Bytes(mlx5::kFence));
}

TEST_F(Wqe, SendHasData) {
  ring_.PostSend(kIndex, kLocal);
  EXPECT_EQ(Slot(), Golden(mlx5::WqeOpcode::kSend).Add(DataOf(kLocal)).Bytes());
}

TEST_F(Wqe, SendImmCarriesTheImmediateAsStored) {
  const mlx5::Be32 imm{0x04030201};
  ring_.Post(kIndex, SendImm(kLocal, imm));
  EXPECT_EQ(Slot(), Golden(mlx5::WqeOpcode::kSendImm).Add(DataOf(kLocal)).Bytes(mlx5::kCqeAlways, imm));
}

TEST_F(Wqe, NopIsAControlSegment) {
  ring_.Post(kIndex, Nop(), mlx5::kCqeOnError);
  EXPECT_EQ(Slot(), Golden(mlx5::WqeOpcode::kNop).Bytes(mlx5::kCqeOnError));
}

TEST_F(Wqe, TheDoorbellIsTheStartOfTheControlSegment) {
  const mlx5::Be64 doorbell = ring_.PostWrite(kIndex, kRemote, kLocal);
  EXPECT_EQ(std::memcmp(&doorbell, queue_.ring[kIndex % kDepth].bytes, sizeof doorbell), 0);
}

template <class Size>
class InlineWqe : public Wqe {};

using Sizes = testing::Types<std::integral_constant<size_t, 1>, std::integral_constant<size_t, 4>,
                             std::integral_constant<size_t, 12>, std::integral_constant<size_t, 13>,
                             std::integral_constant<size_t, 28>>;
TYPED_TEST_SUITE(InlineWqe, Sizes);

TYPED_TEST(InlineWqe, PayloadFollowsTheHeaderPaddedWithZeros) {
  std::array<uint8_t, TypeParam::value> payload;
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<uint8_t>(0x80 + i);
  const auto bytes = static_cast<uint32_t>(payload.size());
  this->ring_.PostWriteInline(kIndex, kRemote, payload);
  EXPECT_EQ(this->Slot(), Golden(mlx5::WqeOpcode::kRdmaWrite)
                              .Add(kRemoteSegment)
                              .Add(mlx5::InlineSegment{mlx5::ToBe32(mlx5::kInlineFlag | bytes)}, bytes)
                              .Payload(payload.data(), payload.size())
                              .Bytes());
}

}  // namespace
}  // namespace warpverbs::device
